//! Where callers reach a runtime: at an address of its own that an administrator named, or through its tunnel.
//!
//! With `--tunnel-domain` a tunnel is a host of its own, so that what a runtime answers is another origin than the platform's
//! pages. Without one it is a path on the platform's address, where nothing that a runtime answers can run
//! ([`crate::gitops::tunnels`]).

use slipway_model::AccountId;
use slipway_tunnel::TunnelName;

use crate::ctx::Server;

/// Below it, on the platform's own address: `/tunnels/<name>/app-proxy/…`.
pub(crate) const PATH: &str = "/tunnels";

/// Empty when there is no way: its name is none that a tunnel can have.
pub(crate) fn url(server: &Server, account: AccountId, runtime: &str, address: &str) -> String {
    if !address.is_empty() {
        return address.trim_end_matches('/').to_owned();
    }
    let Ok(name) = TunnelName::new(account, runtime) else { return String::new() };
    match &server.inner.config.network.tunnel_domain {
        Some(domain) => host_url(server.public_url(), &name, domain),
        None => format!("{PATH}/{name}"),
    }
}

/// The port is the platform's unless the domain names one.
fn host_url(public_url: &str, name: &TunnelName, domain: &str) -> String {
    let (scheme, rest) = public_url.split_once("://").unwrap_or(("https", public_url));
    let port = rest.rsplit_once(':').map(|(_, port)| port).filter(|port| port.parse::<u16>().is_ok());
    match port.filter(|_| !domain.contains(':')) {
        Some(port) => format!("{scheme}://{name}.{domain}:{port}"),
        None => format!("{scheme}://{name}.{domain}"),
    }
}

/// What an administrator may name: https, or loopback for one machine.
pub(crate) fn check_address(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let wrong = |why: &str| {
        format!(
            "`{text}` is not an address of a runtime: {why}; use https://HOST[:PORT], or leave it out for a tunnel"
        )
    };
    let url: reqwest::Url = text.parse().map_err(|_| wrong("it cannot be read"))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if url.scheme() != "https" && !(url.scheme() == "http" && here) {
        return Err(wrong("callers would show their passes to everybody on the way"));
    }
    let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if host.is_empty() || !bare || url.fragment().is_some() || url.path() != "/" {
        return Err(wrong("it has more than a host and a port"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_has_a_host_of_its_own_on_the_platforms_port() {
        let name = TunnelName::new("65f0c0ffee0ddba11deadbee".parse().unwrap(), "prod").unwrap();
        for (public, domain, expected) in [
            ("https://slipway.test", "tunnels.test", "https://65f0c0ffee0ddba11deadbee-prod.tunnels.test"),
            ("http://127.0.0.1:8080", "t.localhost", "http://65f0c0ffee0ddba11deadbee-prod.t.localhost:8080"),
            ("http://127.0.0.1:8080", "t.test:9", "http://65f0c0ffee0ddba11deadbee-prod.t.test:9"),
        ] {
            assert_eq!(host_url(public, &name, domain), expected);
        }
    }

    #[test]
    fn an_address_is_https_and_nothing_but_a_host() {
        for good in ["https://runtime.example.com", "https://10.0.0.1:8443/", "http://127.0.0.1:7000"] {
            assert!(check_address(good).is_ok(), "{good}");
        }
        for wrong in [
            "http://runtime.example.com",
            "https://a/b",
            "https://me:x@a",
            "https://a?b",
            "javascript:x",
            "a",
        ] {
            assert!(check_address(wrong).is_err_and(|why| why.contains("https://HOST")), "{wrong}");
        }
    }
}
