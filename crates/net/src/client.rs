//! One HTTP client: where it may go, whom it trusts, how long it waits and how much it takes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, Url};
use slipway_model::Secret;

use crate::connect::{Checked, Inside, Names};
use crate::{NetError, Rules, shown};

/// How long an answer may take and how large it may be.
#[derive(Debug, Clone)]
pub struct Limits {
    pub connect: Duration,
    /// From the first byte that is sent to the last one that is received, for each hop.
    pub whole: Duration,
    pub bytes: u64,
    /// 0: an answer that redirects is given as it is.
    pub redirects: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            whole: Duration::from_secs(30),
            bytes: 10 << 20,
            redirects: 0,
        }
    }
}

/// Whose certificates are believed, besides what the machine trusts.
#[derive(Clone, Default)]
pub struct Trust {
    /// Anybody's.
    pub insecure: bool,
    /// Authorities in PEM form.
    pub authorities: Option<String>,
    /// A certificate and its key in PEM form, to show to a server that asks for one.
    pub identity: Option<Secret<String>>,
}

/// By whom requests are carried. A proxy resolves names by itself: what a name means is then looked up before, and
/// again there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Proxy {
    #[default]
    None,
    /// The one that the environment names.
    Environment,
    Given(String),
}

#[derive(Clone, Default)]
pub struct Settings {
    pub rules: Rules,
    pub limits: Limits,
    pub trust: Trust,
    pub proxy: Proxy,
    /// Instead of the system's name service.
    pub names: Option<Arc<dyn Names>>,
}

/// One question.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Empty: GET, or POST with a body.
    pub method: &'a str,
    pub url: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    /// Headers that go to the first host alone, wherever it redirects to.
    pub secrets: &'a [(&'a str, &'a str)],
    pub body: Option<&'a [u8]>,
    /// Instead of the client's own limit.
    pub bytes_max: Option<u64>,
}

impl<'a> Request<'a> {
    pub fn get(url: &'a str) -> Self {
        Self { url, ..Self::default() }
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    checked: Checked,
    limits: Limits,
    /// Names have to be looked at before a proxy does.
    looks_before: bool,
}

impl Client {
    pub fn new(settings: Settings) -> Result<Self, NetError> {
        let Settings { rules, limits, trust, proxy, names } = settings;
        let wrong = |error: reqwest::Error| NetError::Settings(words(error));
        let checked = Checked { rules, names };
        let mut builder = reqwest::Client::builder()
            .dns_resolver(Arc::new(checked.clone()))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(limits.connect)
            .timeout(limits.whole)
            .tls_danger_accept_invalid_certs(trust.insecure)
            .user_agent(concat!("slipway/", env!("CARGO_PKG_VERSION")));
        if let Some(pem) = &trust.authorities {
            let found = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).map_err(wrong)?;
            if found.is_empty() {
                return Err(NetError::Settings("there are no certificates in PEM form".into()));
            }
            builder = builder.tls_certs_merge(found);
        }
        if let Some(identity) = &trust.identity {
            let identity = reqwest::Identity::from_pem(identity.expose().as_bytes()).map_err(wrong)?;
            builder = builder.identity(identity);
        }
        let looks_before = proxy != Proxy::None;
        builder = match proxy {
            Proxy::None => builder.no_proxy(),
            Proxy::Environment => builder,
            Proxy::Given(address) => builder.proxy(reqwest::Proxy::all(&address).map_err(wrong)?),
        };
        Ok(Self { http: builder.build().map_err(wrong)?, checked, limits, looks_before })
    }

    pub(crate) fn checked(&self) -> &Checked {
        &self.checked
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether an address may be asked, as far as it shows before its name is resolved.
    pub fn check(&self, address: &str) -> Result<(), NetError> {
        self.parse(address).map(drop)
    }

    /// Asks, follows redirects as far as the limits say, and reads the whole answer.
    pub async fn send(&self, request: Request<'_>) -> Result<Answer, NetError> {
        let mut at = self.parse(request.url)?;
        let home = at.origin();
        for _ in 0..=self.limits.redirects {
            let response = self.hop(&at, &request, at.origin() == home).await?;
            match self.next(&at, &response, request.body.is_some())? {
                Some(next) => at = next,
                None => return self.read(&at, response, request.bytes_max).await,
            }
        }
        Err(NetError::Redirect { host: host(&at), why: "in circles" })
    }

    /// An address that is written as a number is never resolved: it is checked here. A user and a password in it would
    /// travel to whatever it redirects to.
    fn parse(&self, address: &str) -> Result<Url, NetError> {
        let refused = || NetError::Address(shown(address));
        let url = Url::parse(address).map_err(|_| refused())?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        if !matches!(url.scheme(), "http" | "https") || has_user || url.host_str().is_none() {
            return Err(refused());
        }
        let host = host(&url);
        match host.parse::<IpAddr>() {
            Ok(address) if !self.checked.rules.allow(&host, address) => {
                Err(NetError::Forbidden { host, address })
            }
            _ => Ok(url),
        }
    }

    async fn hop(&self, at: &Url, request: &Request<'_>, home: bool) -> Result<Response, NetError> {
        if self.looks_before {
            self.checked.look_up(&host(at), at.port_or_known_default().unwrap_or(443)).await?;
        }
        let method = match (request.method, request.body) {
            ("", None) => Method::GET,
            ("", Some(_)) => Method::POST,
            (name, _) => name.parse().map_err(|_| NetError::Settings(format!("`{name}` is not a method")))?,
        };
        let mut headers = HeaderMap::new();
        let secrets = request.secrets.iter().filter(|_| home).map(|pair| (pair, true));
        for ((name, value), sensitive) in request.headers.iter().map(|pair| (pair, false)).chain(secrets) {
            let wrong = || NetError::Settings(format!("the header `{name}` cannot be sent"));
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(sensitive);
            headers.append(name, value);
        }
        let mut asking = self.http.request(method, at.clone()).headers(headers);
        if let Some(body) = request.body {
            asking = asking.body(body.to_vec());
        }
        asking.send().await.map_err(|error| failed(at, error))
    }

    /// Where an answer leads, if that is to be followed.
    fn next(&self, at: &Url, response: &Response, sent: bool) -> Result<Option<Url>, NetError> {
        let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let Some(to) = to.filter(|_| response.status().is_redirection() && self.limits.redirects > 0) else {
            return Ok(None);
        };
        let wrong = |why| NetError::Redirect { host: host(at), why };
        if sent {
            return Err(wrong("what was sent to it; use its new address"));
        }
        let next = at.join(to).map_err(|_| wrong("nowhere"))?;
        if at.scheme() == "https" && next.scheme() != "https" {
            return Err(wrong("to an address without encryption"));
        }
        self.parse(next.as_str()).map(Some)
    }

    async fn read(&self, at: &Url, mut response: Response, most: Option<u64>) -> Result<Answer, NetError> {
        let most = most.unwrap_or(self.limits.bytes);
        let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(at, error))? {
            if (body.len() + chunk.len()) as u64 > most {
                return Err(NetError::TooLarge { host: host(at), bytes: most });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, headers, body })
    }
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

fn failed(at: &Url, error: reqwest::Error) -> NetError {
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(inside) = cause.downcast_ref::<Inside>() {
            return NetError::Forbidden { host: host(at), address: inside.0 };
        }
        source = cause.source();
    }
    NetError::Unreachable { host: host(at), detail: words(error) }
}

/// Without the address, whose query may hold a token, and with the causes, which say what happened.
fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
