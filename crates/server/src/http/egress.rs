//! The one way out: every call that the server makes because somebody told it an address goes through here.
//!
//! A name is resolved once and the connection goes to what was checked, so that a second answer of the name server
//! changes nothing. Private, loopback and link-local addresses are refused unless an operator of the platform allowed
//! them. Redirects are not followed, an answer has 10 s and 10 MiB.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Method, Url};

const TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const BYTES_MAX: usize = 10 << 20;

/// What is allowed although it is private: names of hosts, addresses, networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressRules {
    hosts: Vec<String>,
    networks: Vec<(IpAddr, u8)>,
}

impl EgressRules {
    /// `gitea.internal`, `10.1.2.3`, `10.0.0.0/8`, `fd00::/8`.
    pub fn parse<S: AsRef<str>>(items: &[S]) -> Result<Self, String> {
        let mut rules = Self::default();
        for item in items {
            let item = item.as_ref().trim();
            let (address, bits) =
                item.split_once('/').map_or((item, None), |(address, bits)| (address, Some(bits)));
            match (address.parse::<IpAddr>(), bits) {
                (Ok(address), None) => {
                    rules.networks.push((address, if address.is_ipv4() { 32 } else { 128 }))
                }
                (Ok(address), Some(bits)) => {
                    let most = if address.is_ipv4() { 32 } else { 128 };
                    let bits = bits.parse().ok().filter(|bits| *bits <= most);
                    rules.networks.push((address, bits.ok_or_else(|| format!("`{item}` is not a network"))?));
                }
                (Err(_), None) if !item.is_empty() => rules.hosts.push(item.to_lowercase()),
                _ => return Err(format!("`{item}` is not a host, an address or a network")),
            }
        }
        Ok(rules)
    }

    fn allow(&self, host: &str, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address)
            || self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
            || self.networks.iter().any(|(network, bits)| inside(address, *network, *bits))
    }
}

fn inside(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let shift = width - u32::from(bits);
        bits == 0 || (a >> shift) == (b >> shift)
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    // Addresses that carry an IPv4 address inside are as public as that one.
    let tail = Ipv4Addr::from_bits((u32::from(parts[6]) << 16) | u32::from(parts[7]));
    if parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return is_public_v4(tail);
    }
    if parts[0] == 0x2002 {
        return is_public_v4(Ipv4Addr::from_bits((u32::from(parts[1]) << 16) | u32::from(parts[2])));
    }
    // Global unicast and nothing else: everything that is not given out to the public yet is inside.
    let given_out = (parts[0] & 0xe000) == 0x2000;
    // 2001::/23 is for protocols (Teredo, benchmarking, ORCHID), the others for documentation and segment routing.
    let special = (parts[0] == 0x2001 && (parts[1] < 0x0200 || parts[1] == 0xdb8))
        || (parts[0] == 0x3fff && parts[1] < 0x1000);
    given_out && !special
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum EgressError {
    #[error("`{0}` is not an http or https address")]
    Address(String),
    #[error(
        "{host} is an internal address ({address}): an operator of the platform has to allow it with --egress-allow {host}"
    )]
    Private { host: String, address: IpAddr },
    #[error("cannot reach {host}")]
    Unreachable { host: String, source: reqwest::Error },
    #[error("{host} does not answer, or its certificate is not trusted by this machine")]
    Silent { host: String },
    #[error("{host} answered with more than {} MiB", BYTES_MAX >> 20)]
    TooLarge { host: String },
}

pub(crate) struct Egress {
    rules: EgressRules,
    http: reqwest::Client,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// How to prove who one is, of an answer that asks for it.
    pub(crate) challenge: Option<String>,
}

impl Egress {
    pub(crate) fn new(rules: EgressRules) -> Self {
        let http = reqwest::Client::builder()
            .dns_resolver(Arc::new(Checked { rules: rules.clone() }))
            .redirect(reqwest::redirect::Policy::none())
            // A proxy of the environment would resolve names by itself.
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .user_agent(concat!("slipway/", env!("CARGO_PKG_VERSION")))
            .build()
            .expect("a client with static settings builds");
        Self { rules, http }
    }

    pub(crate) async fn get(&self, address: &str) -> Result<Answer, EgressError> {
        let url = self.check(address)?;
        self.send(url.clone(), self.http.request(Method::GET, url).header("accept", "application/json")).await
    }

    /// JSON to an API, with headers that say who asks.
    pub(crate) async fn call(
        &self,
        method: &str,
        address: &str,
        headers: &[(&str, &str)],
        body: Option<&serde_json::Value>,
    ) -> Result<Answer, EgressError> {
        let url = self.check(address)?;
        let method = method.parse().unwrap_or(Method::GET);
        let mut request = self.http.request(method, url.clone()).header("accept", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        self.send(url, request).await
    }

    /// A connection that is not HTTP (mail), to an address that was checked like any other.
    pub(crate) async fn connect(&self, host: &str, port: u16) -> Result<tokio::net::TcpStream, EgressError> {
        let found = tokio::net::lookup_host((host, port)).await;
        let found: Vec<SocketAddr> = found.map_err(|_| EgressError::Address(host.to_owned()))?.collect();
        if let Some(bad) = found.iter().find(|address| !self.rules.allow(host, address.ip())) {
            return Err(EgressError::Private { host: host.to_owned(), address: bad.ip() });
        }
        let connecting =
            tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::TcpStream::connect(found.as_slice()));
        match connecting.await {
            Ok(Ok(stream)) => Ok(stream),
            _ => Err(EgressError::Silent { host: host.to_owned() }),
        }
    }

    /// TLS over such a connection, by the authorities that this machine trusts.
    pub(crate) async fn secure(
        &self,
        host: &str,
        stream: tokio::net::TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>, EgressError> {
        let silent = || EgressError::Silent { host: host.to_owned() };
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| silent())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(|_| silent())?;
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|_| silent())
    }

    /// A form, as token endpoints take it; with a client's name and secret when it has one.
    pub(crate) async fn post_form(
        &self,
        address: &str,
        fields: &[(&str, &str)],
        client: Option<(&str, &str)>,
    ) -> Result<Answer, EgressError> {
        let url = self.check(address)?;
        let request = self
            .http
            .request(Method::POST, url.clone())
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form(fields));
        let request = match client {
            Some((name, secret)) => request.basic_auth(form_text(name), Some(form_text(secret))),
            None => request,
        };
        self.send(url, request).await
    }

    /// An address that is written as a number is never resolved: it is checked here.
    fn check(&self, address: &str) -> Result<Url, EgressError> {
        let refused = || EgressError::Address(crate::http::redact::text_without_credentials(address));
        let url = Url::parse(address).map_err(|_| refused())?;
        let host = url.host_str().ok_or_else(refused)?.trim_matches(['[', ']']).to_owned();
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some()
        {
            return Err(refused());
        }
        if let Ok(literal) = host.parse::<IpAddr>()
            && !self.rules.allow(&host, literal)
        {
            return Err(EgressError::Private { host, address: literal });
        }
        Ok(url)
    }

    async fn send(&self, url: Url, request: reqwest::RequestBuilder) -> Result<Answer, EgressError> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let failed = |source: reqwest::Error| match private(&source) {
            Some(address) => EgressError::Private { host: host.clone(), address },
            None => EgressError::Unreachable { host: host.clone(), source: source.without_url() },
        };
        let mut response = request.send().await.map_err(failed)?;
        let challenge = response.headers().get("www-authenticate");
        let challenge = challenge.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (status, mut body) = (response.status().as_u16(), Vec::new());
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > BYTES_MAX {
                return Err(EgressError::TooLarge { host });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, body, challenge })
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://form/").expect("a constant address");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// Names and secrets in basic authentication are form-encoded first (RFC 6749, 2.3.1).
fn form_text(text: &str) -> String {
    form(&[("", text)]).trim_start_matches('=').to_owned()
}

struct Checked {
    rules: EgressRules,
}

/// Travels through the client's error to whoever asked.
#[derive(Debug, thiserror::Error)]
#[error("an internal address: {0}")]
struct Inside(IpAddr);

fn private(error: &reqwest::Error) -> Option<IpAddr> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(inside) = error.downcast_ref::<Inside>() {
            return Some(inside.0);
        }
        source = error.source();
    }
    None
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = self.rules.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            // One bad address among good ones is reason enough: a name that answers so is up to something.
            if let Some(bad) = found.iter().find(|address| !rules.allow(name.as_str(), address.ip())) {
                return Err(Inside(bad.ip()).into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_public_is_public() {
        for (address, expected) in [
            ("93.184.216.34", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.31.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:93.184.216.34", true),
            ("::127.0.0.1", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("64:ff9b::7f00:1", false),
            // Every way to write an inside address in IPv6, and every range that nobody was given.
            ("64:ff9b:1::7f00:1", false),
            ("64:ff9b:1:ffff::a00:1", false),
            ("::ffff:0:127.0.0.1", false),
            ("::ffff:0:10.0.0.1", false),
            ("::127.0.0.1", false),
            ("2002:7f00:1::", false),
            ("2001:0:4136:e378:8000:63bf:80ff:fffe", false),
            ("2001:2::1", false),
            ("2001:10::1", false),
            ("3fff::1", false),
            ("5f00::1", false),
            ("100::1", false),
            ("4000::1", false),
            ("2002:7f00:1::", false),
            ("2606:2800:220:1:248:1893:25c8:1946", true),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn what_an_operator_allows_is_allowed_and_no_more() {
        let rules = EgressRules::parse(&["10.0.0.0/8", "gitea.internal", "fd00::/8", "192.168.1.7"]).unwrap();
        for (host, address, expected) in [
            ("x", "10.255.0.1", true),
            ("x", "11.0.0.1", true),
            ("x", "172.16.0.1", false),
            ("gitea.internal", "172.16.0.1", true),
            ("x", "fd12::1", true),
            ("x", "192.168.1.7", true),
            ("x", "192.168.1.8", false),
        ] {
            assert_eq!(rules.allow(host, address.parse().unwrap()), expected, "{host} {address}");
        }
        assert!(EgressRules::parse(&["10.0.0.0/33"]).is_err());
    }

    #[test]
    fn addresses_in_every_spelling_are_seen_for_what_they_are() {
        let egress = Egress::new(EgressRules::default());
        for address in [
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://169.254.169.254/latest",
            "gopher://example.com/",
            "file:///etc/passwd",
            "http://user:secret@example.com/",
        ] {
            assert!(egress.check(address).is_err(), "{address}");
        }
        assert!(egress.check("https://example.com/x").is_ok());
        let refused = egress.check("http://user:hunter2@example.com/").unwrap_err().to_string();
        assert!(!refused.contains("hunter2"), "{refused}");
    }

    #[tokio::test]
    async fn a_name_that_points_inside_is_refused_when_it_is_resolved() {
        let egress = Egress::new(EgressRules::default());
        let refused = egress.get("http://localhost:1/").await.err().unwrap();
        assert!(matches!(refused, EgressError::Private { .. }), "{refused}");
    }
}
