//! One way out for everything but git's own: bounded in time and size, no redirect with credentials to another host, and never to
//! the addresses that give a machine its own credentials.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};

use super::{ChartError, shown};
use crate::git::Credentials;

const DEADLINE: Duration = Duration::from_secs(60);
const REDIRECTS_MAX: usize = 5;

/// Clients by what makes two connections differ.
#[derive(Default)]
pub(crate) struct Http {
    clients: std::sync::Mutex<HashMap<String, Client>>,
}

/// One question.
pub(crate) struct Ask<'a> {
    pub(crate) url: &'a str,
    /// How the host is reached: certificates, proxy.
    pub(crate) credentials: Option<&'a Credentials>,
    /// Goes to the first host alone.
    pub(crate) authorization: Option<&'a str>,
    pub(crate) headers: &'a [(&'static str, &'a str)],
    /// With one it is a POST.
    pub(crate) body: Option<Vec<u8>>,
}

impl Http {
    /// The body of a successful answer.
    pub(super) async fn get(
        &self,
        url: &str,
        credentials: Option<&Credentials>,
        limit: u64,
    ) -> Result<Vec<u8>, ChartError> {
        let authorization = credentials.and_then(Credentials::authorization_value);
        let ask = Ask { url, credentials, authorization: authorization.as_deref(), headers: &[], body: None };
        self.answer(ask, limit).await
    }

    /// The same for any question.
    pub(crate) async fn answer(&self, ask: Ask<'_>, limit: u64) -> Result<Vec<u8>, ChartError> {
        let url = ask.url;
        let response = self.send(ask).await?;
        body(accepted(response, url)?, url, limit).await
    }

    /// Sends and follows redirects; the credential goes to the first host alone. The answer is given as it is.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Response, ChartError> {
        let Ask { url, credentials, authorization, headers, body } = ask;
        let client = self.client(credentials, url)?;
        let mut at: Url = url.parse().map_err(|_| ChartError::Address(shown(url)))?;
        let home = origin(url);
        for _ in 0..=REDIRECTS_MAX {
            check_address(&at).await.map_err(|detail| unreachable(&at, detail))?;
            let mut sent = HeaderMap::new();
            for (name, value) in headers {
                sent.insert(
                    *name,
                    HeaderValue::from_str(value).map_err(|_| ChartError::Address(shown(url)))?,
                );
            }
            if let Some(text) = authorization.filter(|_| origin(at.as_str()) == home) {
                let mut value = HeaderValue::from_str(text).map_err(|_| ChartError::Address(shown(url)))?;
                value.set_sensitive(true);
                sent.insert(AUTHORIZATION, value);
            }
            let request = match &body {
                Some(body) => client.post(at.clone()).body(body.clone()),
                None => client.get(at.clone()),
            };
            let answer = request.headers(sent).send().await;
            let answer = answer.map_err(|error| unreachable(&at, words(error)))?;
            let next = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
            match next.filter(|_| answer.status().is_redirection()) {
                Some(_) if body.is_some() => {
                    return Err(unreachable(
                        &at,
                        "it redirects what was sent to it; use its new address".into(),
                    ));
                }
                Some(next) => {
                    let next = at.join(&next).map_err(|_| unreachable(&at, "it redirects nowhere".into()))?;
                    if at.scheme() == "https" && next.scheme() != "https" {
                        return Err(unreachable(&at, "it redirects to an address without encryption".into()));
                    }
                    at = next;
                }
                None => return Ok(answer),
            }
        }
        Err(unreachable(&at, "it redirects in circles".into()))
    }

    fn client(&self, credentials: Option<&Credentials>, url: &str) -> Result<Client, ChartError> {
        let none = Credentials::default();
        let credentials = credentials.unwrap_or(&none);
        let mut clients = self.clients.lock().expect("no panic while locked");
        let key = credentials.fingerprint();
        if let Some(known) = clients.get(&key) {
            return Ok(known.clone());
        }
        let failed =
            |error: reqwest::Error| ChartError::Unreachable { url: shown(url), detail: words(error) };
        let mut builder = Client::builder()
            .timeout(DEADLINE)
            .connect_timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent("slipway");
        if credentials.insecure {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        if let Some(authority) = &credentials.tls_ca {
            let authority = reqwest::Certificate::from_pem(authority.as_bytes()).map_err(failed)?;
            builder = builder.tls_certs_merge([authority]);
        }
        if let (Some(certificate), Some(key)) = (&credentials.tls_client_cert, &credentials.tls_client_key) {
            let pem = format!("{}\n{}", certificate.expose(), key.expose());
            builder = builder.identity(reqwest::Identity::from_pem(pem.as_bytes()).map_err(failed)?);
        }
        if !credentials.proxy.is_empty() {
            builder = builder.proxy(reqwest::Proxy::all(&credentials.proxy).map_err(failed)?);
        }
        let client = builder.build().map_err(failed)?;
        if clients.len() > 64 {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}

pub(super) fn accepted(response: Response, url: &str) -> Result<Response, ChartError> {
    match response.status() {
        status if status.is_success() => Ok(response),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(ChartError::Credentials { url: shown(url) }),
        status => Err(ChartError::Refused { url: shown(url), status: status.as_u16() }),
    }
}

/// Reads as it comes, and no further than the limit.
pub(super) async fn body(mut response: Response, url: &str, limit: u64) -> Result<Vec<u8>, ChartError> {
    let mut bytes = Vec::new();
    let cut = |error: reqwest::Error| ChartError::Unreachable { url: shown(url), detail: words(error) };
    while let Some(chunk) = response.chunk().await.map_err(cut)? {
        if (bytes.len() + chunk.len()) as u64 > limit {
            return Err(ChartError::TooLarge { what: shown(url), limit });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Scheme, host and port: what a credential was given for.
pub(crate) fn origin(url: &str) -> String {
    url.parse::<Url>().map_or_else(|_| url.to_owned(), |url| url.origin().ascii_serialization())
}

fn unreachable(url: &Url, detail: String) -> ChartError {
    ChartError::Unreachable { url: shown(url.as_str()), detail }
}

/// Without the address, whose query may hold a token, and with the cause, which says what happened.
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

/// Link-local addresses serve the machine's own credentials; nobody's charts live there.
async fn check_address(url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it is not an http address".into());
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let found = tokio::net::lookup_host((host.as_str(), port)).await;
    let found = found.map_err(|error| format!("{host} cannot be found: {error}"))?;
    for address in found {
        if is_machine_room(address.ip()) {
            return Err(format!("{host} means {}, which only this machine may ask", address.ip()));
        }
    }
    Ok(())
}

fn is_machine_room(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_unspecified(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_machine_room(mapped.into()),
            None => (address.segments()[0] & 0xffc0) == 0xfe80 || address.is_unspecified(),
        },
    }
}
