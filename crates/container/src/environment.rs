//! The environment of engines: a short list of names, and nothing else of ours.
//!
//! Whoever starts us may have keys, tokens and proxies in its environment. Programs get what they need to find
//! themselves, their storage and the network.

use std::ffi::OsString;

/// For supervisors and container engines: where programs, storage, configuration and the daemon are.
const ENGINE: [&str; 26] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINERS_REGISTRIES_CONF",
    "REGISTRY_AUTH_FILE",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "KUBERNETES_SERVICE_PORT_HTTPS",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
];
/// For what goes out to the network by itself.
const NETWORK: [&str; 11] = [
    "PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "CURL_CA_BUNDLE",
];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// For supervisors and engines.
pub fn environment() -> Vec<(&'static str, OsString)> {
    chosen(ENGINE.iter().chain(&NETWORK))
}

/// For work that needs no engine, but the network.
pub fn network_environment() -> Vec<(&'static str, OsString)> {
    chosen(NETWORK.iter())
}

fn chosen(names: impl Iterator<Item = &'static &'static str>) -> Vec<(&'static str, OsString)> {
    let mut all: Vec<_> = names.filter_map(|name| Some((*name, std::env::var_os(name)?))).collect();
    if !all.iter().any(|(name, _)| *name == "PATH") {
        all.push(("PATH", PATH.into()));
    }
    all
}
