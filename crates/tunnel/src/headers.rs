//! Which tunnel a request is for, and what of a caller's headers travels on.

use http::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{Uri, Version};

use crate::TunnelName;

/// The request names its host in several ways that do not agree, or none of ours: 421.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this address is not served here, or the request names more than one")]
pub struct MisroutedHost;

/// The tunnel that a request is for: `<name>.<domain>`. One value decides where it goes; two that differ decide nothing.
pub fn label_of(parts: &Parts, domain: &str) -> Result<TunnelName, MisroutedHost> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next().map(HeaderValue::to_str).transpose().map_err(|_| MisroutedHost)?;
    if hosts.next().is_some() {
        return Err(MisroutedHost);
    }
    let host = match (host, parts.uri.authority().map(|authority| authority.as_str())) {
        (Some(host), Some(authority)) if !host.eq_ignore_ascii_case(authority) => return Err(MisroutedHost),
        (Some(host), _) => host,
        (None, Some(authority)) => authority,
        (None, None) => return Err(MisroutedHost),
    };
    let name = without_port(host).to_ascii_lowercase();
    let label = name.strip_suffix(&domain.to_ascii_lowercase()).and_then(|rest| rest.strip_suffix('.'));
    label.and_then(TunnelName::of_label).ok_or(MisroutedHost)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Takes away what only concerns the caller's own connection, and what a caller may not say of itself; adds where it came from.
/// That somebody wants a WebSocket stays, for [`crate::Sessions::forward`] to see.
pub fn outside_headers(headers: &mut HeaderMap, from: std::net::IpAddr, scheme: &'static str) {
    let websocket = wants_websocket(headers);
    without_hops(headers);
    if websocket {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    let claimed: Vec<HeaderName> = headers.keys().filter(|name| is_claim(name)).cloned().collect();
    for name in claimed {
        headers.remove(name);
    }
    let mut set = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    };
    set("x-forwarded-for", from.to_string());
    set("x-forwarded-proto", scheme.to_owned());
}

/// Who somebody is and where they come from is for us to say.
fn is_claim(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("x-slipway-")
        || name.starts_with("x-forwarded-")
        || matches!(
            name,
            "forwarded" | "x-real-ip" | "x-original-url" | "x-rewrite-url" | "proxy-authorization"
        )
}

/// Takes headers of one connection away, and those that `Connection` names as such.
pub fn without_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    // `TE: trailers` alone means the same at every hop: gRPC asks for it.
    let trailers = headers.get(TE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    for name in [CONNECTION, TE, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection", "http2-settings"] {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// What a request in a tunnel names as its host, which is nobody's: whether its caller speaks HTTP/2, so that what needs it may have it
/// at the other end, too.
pub(crate) fn authority_of(caller: Version) -> &'static str {
    if caller == Version::HTTP_2 { "http2.runtime" } else { "runtime" }
}

/// What the caller of a request in a tunnel speaks.
pub(crate) fn spoken(uri: &Uri) -> Version {
    let marked = uri.authority().is_some_and(|host| host.as_str() == authority_of(Version::HTTP_2));
    if marked { Version::HTTP_2 } else { Version::HTTP_11 }
}

/// Whether a message is one of gRPC, which is understood over HTTP/2 alone.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    // `application/grpc-web` is for those who have no HTTP/2.
    kind == b"application/grpc"
        || kind.starts_with(b"application/grpc+")
        || kind.starts_with(b"application/grpc;")
}

/// Whether a request asks to become a WebSocket. Other upgrades travel as plain requests: changing to HTTP/2 in clear, say,
/// would take the bytes away from the one parser that looks at them.
pub(crate) fn wants_websocket(headers: &HeaderMap) -> bool {
    let asked = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    asked && headers.get(UPGRADE).is_some_and(|wanted| wanted.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "65f0c0ffee0ddba11deadbee-prod";

    fn parts(uri: &str, hosts: &[&str]) -> Parts {
        let mut request = http::Request::builder().uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn a_request_is_for_the_tunnel_that_its_host_names() {
        for host in [format!("{NAME}.tunnels.test"), format!("{}.TUNNELS.test:8443", NAME.to_uppercase())] {
            assert_eq!(label_of(&parts("/a", &[&host]), "tunnels.test").expect("a name").as_str(), NAME);
        }
    }

    #[test]
    fn k88_hosts_that_differ_or_are_not_ours_lead_nowhere() {
        let (ours, other) = (format!("{NAME}.t.test"), "65f0c0ffee0ddba11deadbee-dev.t.test");
        let absolute = format!("http://{ours}/a");
        assert!(label_of(&parts(&absolute, &[&ours]), "t.test").is_ok());
        for (uri, hosts) in [
            (absolute.as_str(), vec![other]),
            ("/a", vec![ours.as_str(), other]),
            ("/a", vec![ours.as_str(), ours.as_str()]),
            ("/a", vec![]),
            ("/a", vec!["t.test"]),
            ("/a", vec!["evil.t.test"]),
            ("/a", vec!["65f0c0ffee0ddba11deadbee-prod.evil.test"]),
            ("/a", vec!["65f0c0ffee0ddba11deadbee-prod.x.t.test"]),
            ("/a", vec!["65f0c0ffee0ddba11deadbee-prodt.test"]),
        ] {
            assert_eq!(label_of(&parts(uri, &hosts), "t.test"), Err(MisroutedHost), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn k92_k95_callers_do_not_say_who_they_are_and_hops_stay_hops() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-slipway-user", "root"),
            ("x-forwarded-for", "10.0.0.1"),
            ("forwarded", "for=10.0.0.1"),
            ("x-real-ip", "10.0.0.1"),
            ("connection", "x-secret-hop, keep-alive"),
            ("x-secret-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABkAAQAAP__"),
            ("te", "trailers"),
            ("authorization", "kept"),
            ("accept", "kept"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        outside_headers(&mut headers, [192, 0, 2, 7].into(), "https");
        let mut left: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        left.sort();
        assert_eq!(
            left,
            [
                "accept: kept",
                "authorization: kept",
                "te: trailers",
                "x-forwarded-for: 192.0.2.7",
                "x-forwarded-proto: https"
            ]
        );
    }

    #[test]
    fn an_upgrade_is_asked_for_in_both_headers() {
        let asks = |connection: &'static str, upgrade: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, HeaderValue::from_static(connection));
            headers.insert(UPGRADE, HeaderValue::from_static(upgrade));
            wants_websocket(&headers)
        };
        assert!(asks("keep-alive, Upgrade", "websocket"));
        assert!(asks("upgrade", "WebSocket"));
        assert!(!asks("upgrade", "SPDY/3.1"));
        assert!(!asks("keep-alive", "websocket"));
        assert!(!asks("upgrade, HTTP2-Settings", "h2c"));
    }
}
