//! The pieces of this machine that every program needs to run at all, found once: programs, libraries, a few files of
//! `/etc`, four devices.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub(crate) struct System {
    /// Bound read-only: folders and files that are really there.
    pub(crate) shown: Vec<PathBuf>,
    /// Links of the root folder, such as /bin → usr/bin.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Shown to programs with a network alone.
    pub(crate) for_network: Vec<PathBuf>,
    pub(crate) devices: Vec<PathBuf>,
}

/// Folders with programs and libraries.
const PROGRAMS: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

const FILES: [&str; 4] =
    ["/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/ld-musl-x86_64.path"];

/// How names become addresses, and which authorities are trusted. Never the folders with private keys beside them.
const FOR_NETWORK: [&str; 13] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/crypto-policies",
];

const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"];

pub(crate) fn system() -> &'static System {
    static SYSTEM: OnceLock<System> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let mut system = System {
            shown: Vec::new(),
            links: Vec::new(),
            for_network: there(&FOR_NETWORK),
            devices: there(&DEVICES),
        };
        for path in PROGRAMS.map(Path::new) {
            match std::fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => {
                    if let Ok(target) = std::fs::read_link(path) {
                        system.links.push((path.to_owned(), target));
                    }
                }
                Ok(_) => system.shown.push(path.to_owned()),
                Err(_) => {}
            }
        }
        system.shown.extend(there(&FILES));
        // A file of names and certificates may be a link to anywhere; mounts follow it, so the link is not needed.
        system
    })
}

fn there(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).filter(|path| path.exists()).collect()
}
