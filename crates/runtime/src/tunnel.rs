//! The runtime's end of the tunnel: where to dial, whom to trust on the way, and what became of it.
//!
//! In: the platform's address, the runtime's token, what the environment says about proxies. Out: a connection that is kept open, and
//! its state. Does not know what is behind the local address.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use slipway_api::Client;
use slipway_model::Secret;
use slipway_tunnel::{Agent, Carrier, Connection, Dial, Payload, Proxy, Server, Traffic};
use tokio::sync::watch;
use tokio_rustls::rustls;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// How to reach the platform.
pub struct TunnelDial(Dial);

/// What became of it, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelState {
    Connecting,
    Open,
    Waiting(String),
}

impl fmt::Display for TunnelState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => formatter.write_str("the tunnel is being opened"),
            Self::Open => formatter.write_str("the tunnel is open"),
            Self::Waiting(error) => formatter.write_str(error),
        }
    }
}

/// How the tunnel fares, for metrics and for the platform.
#[derive(Debug, Default)]
pub struct TunnelCounts {
    /// None: this process keeps none.
    state: Mutex<Option<TunnelState>>,
    opened: AtomicU64,
    failed: AtomicU64,
    last_error: Mutex<String>,
    traffic: Arc<Traffic>,
}

impl TunnelCounts {
    fn is(&self, now: &TunnelState) {
        let mut state = self.state.lock().expect("no panic while locked");
        if state.as_ref() == Some(now) && *now == TunnelState::Open {
            return;
        }
        match now {
            TunnelState::Open => drop(self.opened.fetch_add(1, Ordering::Relaxed)),
            TunnelState::Waiting(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                self.last_error.lock().expect("no panic while locked").clone_from(error);
            }
            TunnelState::Connecting => {}
        }
        *state = Some(now.clone());
    }

    pub(crate) fn state(&self) -> Option<TunnelState> {
        self.state.lock().expect("no panic while locked").clone()
    }

    /// How it last failed; empty: it never did.
    pub(crate) fn last_error(&self) -> String {
        self.last_error.lock().expect("no panic while locked").clone()
    }

    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

impl TunnelDial {
    /// `ca`: certificates, as PEM, that count besides the system's own. `raw`: without WebSocket frames around it.
    pub fn new(client: &Client, ca: Option<&[u8]>, raw: bool) -> Result<Self, String> {
        let server = Server::parse(client.base()).map_err(|error| error.to_string())?;
        let proxy = proxy_for(&server, |name| std::env::var(name).ok())?;
        Ok(Self(Dial {
            tls: Arc::new(trust(server.tls, ca)?),
            credential: Arc::new(client.key().clone()),
            carrier: if raw { Carrier::Raw } else { Carrier::WebSocket },
            path: slipway_tunnel::PATH,
            server,
            proxy,
        }))
    }
}

fn trust(tls: bool, ca: Option<&[u8]>) -> Result<rustls::ClientConfig, String> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let mut roots = rustls::RootCertStore::empty();
    if tls {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for certificate in CertificateDer::pem_slice_iter(ca.unwrap_or_default()) {
            let certificate = certificate.map_err(|error| format!("--ca: {error}"))?;
            roots.add(certificate).map_err(|error| format!("--ca: {error}"))?;
        }
        if roots.is_empty() {
            return Err("this machine has no certificates of authorities: install its package `ca-certificates`, or give --ca FILE".into());
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// As other programs read it: `HTTPS_PROXY` or `HTTP_PROXY`, and hosts of `NO_PROXY` without.
fn proxy_for(server: &Server, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Proxy>, String> {
    let read = |name: &str| variable(name).or_else(|| variable(&name.to_lowercase()));
    let name = if server.tls { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let Some(text) = read(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let without = read("NO_PROXY").unwrap_or_default();
    let is_direct = |item: &str| {
        let item = item.trim().trim_start_matches("*.").trim_start_matches('.');
        item == "*"
            || (!item.is_empty()
                && (server.host.eq_ignore_ascii_case(item)
                    || server.host.to_lowercase().ends_with(&format!(".{}", item.to_lowercase()))))
    };
    if without.split(',').any(is_direct) {
        return Ok(None);
    }
    let wrong = || format!("{name} is not an address of a proxy: use http://[USER:PASSWORD@]HOST:PORT");
    let full = if text.contains("://") { text } else { format!("http://{text}") };
    let url = reqwest::Url::parse(&full).map_err(|_| wrong())?;
    let (Some(host), "http") = (url.host_str(), url.scheme()) else { return Err(wrong()) };
    let word = |text: &str| slipway_dialect::percent::decode(text);
    let credential = (!url.username().is_empty()).then(|| {
        let password = url.password().unwrap_or_default();
        Arc::new(Secret::new(format!("{}:{}", word(url.username()), word(password))))
    });
    let host = host.trim_matches(['[', ']']).to_owned();
    Ok(Some(Proxy { host, port: url.port().unwrap_or(80), credential }))
}

/// The platform refuses with the body that every refusal has; its sentence is enough.
fn in_words(error: String) -> String {
    let Some((before, body)) = error.split_once('{') else { return error };
    match serde_json::from_str::<slipway_api::ErrorBody>(&format!("{{{body}")) {
        Ok(body) => format!("{before}{}", body.message),
        Err(_) => error,
    }
}

/// Keeps a tunnel open that ends at `local`, until it is stopped.
pub async fn keep_tunnel(
    dial: TunnelDial,
    local: SocketAddr,
    state: watch::Sender<TunnelState>,
    counts: Arc<TunnelCounts>,
    stop: CancellationToken,
) {
    kept(dial, local, state, counts, |agent| agent.run(stop)).await;
}

/// The same with an answer that is given in this process; WebSockets go to `local`, which has to answer alike.
pub async fn keep_tunnel_inside(
    dial: TunnelDial,
    (router, local): (Router, SocketAddr),
    state: watch::Sender<TunnelState>,
    counts: Arc<TunnelCounts>,
    stop: CancellationToken,
) {
    let answer = move |request: Request<Payload>| {
        let answered = router.clone().oneshot(request.map(Body::new));
        async move {
            let response = answered.await.unwrap_or_else(|never| match never {});
            response.map(|body| body.map_err(Into::into).boxed_unsync())
        }
    };
    kept(dial, local, state, counts, |agent| agent.run_inside(answer, stop)).await;
}

async fn kept<F: Future<Output = ()>>(
    dial: TunnelDial,
    local: SocketAddr,
    state: watch::Sender<TunnelState>,
    counts: Arc<TunnelCounts>,
    run: impl FnOnce(Agent) -> F,
) {
    let (sender, mut heard) = watch::channel(Connection::Connecting);
    let agent = Agent { dial: dial.0, local, state: sender, traffic: counts.traffic.clone() };
    let telling = async {
        let mut told = None;
        while heard.changed().await.is_ok() {
            let now = match heard.borrow_and_update().clone() {
                Connection::Connecting => TunnelState::Connecting,
                Connection::Open => TunnelState::Open,
                Connection::Waiting { error, .. } => TunnelState::Waiting(in_words(error)),
            };
            counts.is(&now);
            match &now {
                TunnelState::Open => tracing::info!("The tunnel to the platform is open."),
                // The same again is no news.
                TunnelState::Waiting(error) if told.as_ref() != Some(error) => {
                    tracing::warn!(%error, "The tunnel to the platform is not open; trying again.");
                    told = Some(error.clone());
                }
                _ => {}
            }
            if now == TunnelState::Open {
                told = None;
            }
            state.send_replace(now);
        }
    };
    tokio::join!(run(agent), telling);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_that_comes_and_goes_is_counted() {
        let counts = TunnelCounts::default();
        assert_eq!(counts.state(), None);
        let broken = TunnelState::Waiting("the connection broke".into());
        for now in [
            TunnelState::Connecting,
            TunnelState::Open,
            TunnelState::Open,
            broken.clone(),
            TunnelState::Connecting,
        ] {
            counts.is(&now);
        }
        assert_eq!(
            (counts.opened(), counts.failed(), counts.last_error()),
            (1, 1, "the connection broke".to_owned())
        );
        counts.is(&TunnelState::Open);
        assert_eq!((counts.opened(), counts.state()), (2, Some(TunnelState::Open)));
    }

    fn proxy(url: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let found = proxy_for(&Server::parse(url).unwrap(), variable)?;
        Ok(found.map(|proxy| {
            let credential = proxy.credential.map(|credential| credential.expose().clone());
            format!("{}@{}:{}", credential.unwrap_or_default(), proxy.host, proxy.port)
        }))
    }

    #[test]
    fn a_refusal_is_told_in_its_own_words() {
        let body = r#"{"status":401,"code":"2001","name":"X","message":"the API key is not valid here"}"#;
        let told = in_words(format!("the platform refused the tunnel (401 Unauthorized): {body}"));
        assert_eq!(told, "the platform refused the tunnel (401 Unauthorized): the API key is not valid here");
        assert_eq!(in_words("no answer {x}".into()), "no answer {x}");
    }

    #[test]
    fn a_proxy_is_read_as_other_programs_read_it() {
        let https =
            [("HTTPS_PROXY", "http://me:p%40ss@proxy.test:3128"), ("NO_PROXY", "inside.test, .local")];
        assert_eq!(proxy("https://slipway.test", &https), Ok(Some("me:p@ss@proxy.test:3128".into())));
        for direct in
            ["https://inside.test", "https://a.inside.test", "https://b.local", "http://slipway.test"]
        {
            assert_eq!(proxy(direct, &https), Ok(None), "{direct}");
        }
        assert_eq!(proxy("https://notinside.test", &https).map(|found| found.is_some()), Ok(true));
        assert_eq!(
            proxy("http://a.test", &[("http_proxy", "proxy.test")]),
            Ok(Some("@proxy.test:80".into()))
        );
        assert_eq!(proxy("http://a.test", &[("http_proxy", "proxy.test"), ("no_proxy", "*")]), Ok(None));
        assert!(proxy("https://a.test", &[("HTTPS_PROXY", "socks5://proxy.test")]).is_err());
    }
}
