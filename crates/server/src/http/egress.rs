//! The one way out: every call that the server makes because somebody told it an address goes through here.
//!
//! The room `net` does the work; this is the server's choice of rules: private, loopback and link-local addresses are
//! refused unless an operator of the platform allowed them, redirects are not followed, no proxy, an answer has 10 s
//! and 10 MiB. With `--egress none` nobody is asked at all: no connection is opened and no name looked up.

use std::net::IpAddr;
use std::time::Duration;

pub use slipway_net::Rules as EgressRules;
use slipway_net::{
    Answer as Received, Client, Letter, Limits, MailError, MailServer, NetError, Request, Settings,
};

const TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const BYTES_MAX: u64 = 10 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum EgressError {
    #[error("`{0}` is not an http or https address")]
    Address(String),
    #[error(
        "{host} is an internal address ({address}): an operator of the platform has to allow it with --egress-allow {host}"
    )]
    Private { host: String, address: IpAddr },
    #[error("{host} was not asked: this platform opens no connections (--egress none)")]
    Off { host: String },
    #[error("cannot reach {host}")]
    Unreachable { host: String, source: NetError },
    #[error("{host} does not answer, or its certificate is not trusted by this machine")]
    Silent { host: String },
    #[error("{host} answered with more than {} MiB", BYTES_MAX >> 20)]
    TooLarge { host: String },
    /// Behind a firewall, where a runner asks.
    #[error("{host} is behind a firewall and was not asked from inside: {why}")]
    Inside { host: String, why: String },
}

impl EgressError {
    /// Nothing that a person would have to change first.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Inside { .. })
    }
}

impl From<NetError> for EgressError {
    fn from(error: NetError) -> Self {
        match error {
            NetError::Address(address) => Self::Address(address),
            NetError::Forbidden { host, address } => Self::Private { host, address },
            NetError::TooLarge { host, .. } => Self::TooLarge { host },
            NetError::Silent { host } => Self::Silent { host },
            NetError::Unreachable { ref host, .. } | NetError::Redirect { ref host, .. } => {
                Self::Unreachable { host: host.clone(), source: error }
            }
            NetError::Settings(what) => Self::Address(what),
        }
    }
}

pub(crate) struct Egress {
    client: Client,
    off: bool,
}

/// What does not work without a way out, for those who look after the platform.
pub(crate) const NEEDS_A_WAY_OUT: [&str; 7] = [
    "commit statuses are not sent to Git providers, unless the integration is behindFirewall: a runner sends them then",
    "webhooks are not registered at Git providers, and pushes that were not announced are not looked for, unless the integration is behindFirewall",
    "branches, commits and repositories of Git providers are not listed, unless the integration is behindFirewall",
    "notifications by e-mail are not sent, and those by Slack and webhooks only where they are behindFirewall",
    "nobody signs in through an identity provider",
    "credentials of Git providers and registries are not tested",
    "a release feed that is an address is not asked",
];

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// How to prove who one is, of an answer that asks for it.
    pub(crate) challenge: Option<String>,
    /// What comes after this page of a list, and before it.
    pub(crate) link: Option<String>,
}

impl From<Received> for Answer {
    fn from(received: Received) -> Self {
        let header = |name: &str| received.header(name).map(str::to_owned);
        let (challenge, link) = (header("www-authenticate"), header("link"));
        Self { status: received.status, body: received.body, challenge, link }
    }
}

const JSON: (&str, &str) = ("accept", "application/json");

impl Egress {
    pub(crate) fn new(rules: EgressRules, off: bool) -> Self {
        let limits = Limits { connect: CONNECT_TIMEOUT, whole: TIMEOUT, bytes: BYTES_MAX, redirects: 0 };
        let client = Client::new(Settings { rules, limits, ..Settings::default() });
        Self { client: client.expect("a client with static settings builds"), off }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off
    }

    /// Before anything is looked up.
    pub(crate) fn allowed(&self, host: &str) -> Result<(), EgressError> {
        if self.off { Err(EgressError::Off { host: host.to_owned() }) } else { Ok(()) }
    }

    async fn send(&self, request: Request<'_>) -> Result<Answer, EgressError> {
        if self.off {
            let url = request.url.parse::<reqwest::Url>().map_err(|_| EgressError::Address("this".into()))?;
            self.allowed(url.host_str().unwrap_or_default())?;
        }
        Ok(self.client.send(request).await?.into())
    }

    pub(crate) async fn get(&self, address: &str) -> Result<Answer, EgressError> {
        let request = Request { headers: &[JSON], ..Request::get(address) };
        self.send(request).await
    }

    /// JSON to an API, with headers that say who asks.
    pub(crate) async fn call(
        &self,
        method: &str,
        address: &str,
        headers: &[(&str, &str)],
        body: Option<&serde_json::Value>,
    ) -> Result<Answer, EgressError> {
        let body = body.map(|body| body.to_string().into_bytes());
        let kind = body.is_some().then_some(("content-type", "application/json"));
        let plain: Vec<_> = [JSON].into_iter().chain(kind).collect();
        let request = Request {
            method,
            url: address,
            headers: &plain,
            secrets: headers,
            body: body.as_deref(),
            bytes_max: None,
        };
        self.send(request).await
    }

    /// A letter, to a mail server whose address is checked like any other.
    pub(crate) async fn mail(&self, server: &MailServer<'_>, letter: &Letter<'_>) -> Result<(), MailError> {
        self.client.mail(server, letter).await
    }

    /// A form, as token endpoints take it; with a client's name and secret when it has one.
    pub(crate) async fn post_form(
        &self,
        address: &str,
        fields: &[(&str, &str)],
        client: Option<(&str, &str)>,
    ) -> Result<Answer, EgressError> {
        use base64::Engine as _;
        let login = client.map(|(name, secret)| {
            let pair = format!("{}:{}", form_text(name), form_text(secret));
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        });
        let body = form(fields);
        let secrets: Vec<_> = login.iter().map(|login| ("authorization", login.as_str())).collect();
        let request = Request {
            headers: &[JSON, ("content-type", "application/x-www-form-urlencoded")],
            secrets: &secrets,
            body: Some(body.as_bytes()),
            ..Request::get(address)
        };
        self.send(request).await
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", form_text(name), form_text(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Names and secrets in basic authentication are form-encoded first (RFC 6749, 2.3.1).
fn form_text(text: &str) -> String {
    slipway_dialect::percent::encode(text).replace("%20", "+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_named_what_to_allow_and_nobody_a_password() {
        let egress = Egress::new(EgressRules::default(), false);
        let refused =
            |address: &str| EgressError::from(egress.client.check(address).unwrap_err()).to_string();
        let inside = refused("http://169.254.169.254/latest");
        assert!(inside.ends_with("--egress-allow 169.254.169.254"), "{inside}");
        let named = refused("http://user:hunter2@example.com/");
        assert!(!named.contains("hunter2"), "{named}");
    }

    #[tokio::test]
    async fn a_name_that_points_inside_is_refused_when_it_is_resolved() {
        let egress = Egress::new(EgressRules::default(), false);
        let refused = egress.get("http://localhost:1/").await.err().unwrap();
        assert!(matches!(refused, EgressError::Private { .. }), "{refused}");
    }

    #[tokio::test]
    async fn without_a_way_out_nobody_is_asked_and_the_sentence_says_so() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = format!("http://me:hunter2@{}/x", listener.local_addr().unwrap());
        let egress = Egress::new(EgressRules::parse(&["127.0.0.1"]).unwrap(), true);
        for refused in [
            egress.get(&address).await,
            egress.call("POST", &address, &[], None).await,
            egress.post_form(&address, &[], None).await,
        ] {
            let said = refused.err().unwrap().to_string();
            assert_eq!(said, "127.0.0.1 was not asked: this platform opens no connections (--egress none)");
        }
        assert!(listener.accept().is_err(), "nobody came");
    }

    #[test]
    fn forms_are_written_as_browsers_write_them() {
        assert_eq!(form(&[("a b", "c&d=é"), ("x", "~-._*")]), "a+b=c%26d%3D%C3%A9&x=~-._%2A");
    }
}
