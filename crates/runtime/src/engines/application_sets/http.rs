//! One way out for what generators ask by HTTP: bounded in time and size, never to addresses of the machine room.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Client, Method, StatusCode, Url};
use serde_json::{Map, Value, json};
use slipway_gitops::appset::Answer;
use slipway_model::Secret;

/// One answer may have so many bytes.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum HttpError {
    /// The address exists, the thing does not; some hosts say in the body which one.
    NotFound {
        message: String,
        body: Value,
    },
    /// The question was not accepted (400); some hosts say in the body why.
    Refused {
        message: String,
        body: Value,
    },
    Failed(String),
}

impl HttpError {
    pub(super) fn into_message(self) -> String {
        match self {
            Self::NotFound { message, .. } | Self::Refused { message, .. } | Self::Failed(message) => message,
        }
    }
}

pub(super) struct Answered {
    pub(super) body: Value,
    /// The address of the next page.
    pub(super) next: Option<String>,
}

/// Which certificates a host may show.
#[derive(Default)]
pub(super) struct Trust {
    /// Any: `insecure`.
    pub(super) insecure: bool,
    /// These besides the ones of the machine, in PEM form.
    pub(super) certificates: Option<String>,
}

pub(super) fn client(timeout: Duration, trust: &Trust) -> Result<Client, String> {
    // A redirect could lead where the first address was not allowed to.
    let mut builder = Client::builder()
        .timeout(timeout)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent("slipway")
        .tls_danger_accept_invalid_certs(trust.insecure);
    if let Some(pem) = &trust.certificates {
        let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes())
            .ok()
            .filter(|found| !found.is_empty())
            .ok_or("caRef names a key that holds no certificates in PEM form")?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|error| error.to_string())
}

/// Link-local addresses serve the machine's own credentials; nobody's Git host lives there.
pub(crate) async fn check_address(url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{} is not an http address", shown(url)));
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let found = tokio::net::lookup_host((host.as_str(), port))
        .await
        .map_err(|error| format!("{host} cannot be found: {error}"))?;
    for address in found {
        if is_link_local(address.ip()) {
            return Err(format!("{host} means {}, which only this machine may ask", address.ip()));
        }
    }
    Ok(())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_unspecified(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_link_local(mapped.into()),
            None => (address.segments()[0] & 0xffc0) == 0xfe80 || address.is_unspecified(),
        },
    }
}

/// Without its query, where tokens hide.
fn shown(url: &Url) -> String {
    let mut plain = url.clone();
    plain.set_query(None);
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    plain.to_string()
}

/// Asks for JSON. Nothing at all is an answer too: `null`.
pub(super) async fn get(
    client: &Client,
    url: &str,
    headers: &[(&str, String)],
) -> Result<Answered, HttpError> {
    send(client, Method::GET, url, headers, None).await
}

/// Sends a text, and gives whatever the answer is.
pub(super) async fn post(
    client: &Client,
    url: &str,
    headers: &[(&str, String)],
    body: String,
) -> Result<Vec<u8>, HttpError> {
    let (url, mut request) = ask(client, Method::POST, url, headers).await?;
    request = request.body(body);
    Ok(receive(&url, request).await?.bytes)
}

async fn send(
    client: &Client,
    method: Method,
    url: &str,
    headers: &[(&str, String)],
    body: Option<&Value>,
) -> Result<Answered, HttpError> {
    let (url, mut request) = ask(client, method, url, headers).await?;
    if let Some(body) = body {
        request = request.json(body);
    }
    let Received { status, bytes, next } = receive(&url, request).await?;
    if bytes.is_empty() {
        return Ok(Answered { body: Value::Null, next });
    }
    let body = serde_json::from_slice(&bytes).map_err(|error| {
        HttpError::Failed(format!("{} does not answer JSON{}: {error}", shown(&url), hint(status)))
    })?;
    Ok(Answered { body, next })
}

/// A question to an address that may be asked.
async fn ask(
    client: &Client,
    method: Method,
    url: &str,
    headers: &[(&str, String)],
) -> Result<(Url, reqwest::RequestBuilder), HttpError> {
    let url: Url = url.parse().map_err(|_| HttpError::Failed(format!("{url:?} is not an address")))?;
    check_address(&url).await.map_err(HttpError::Failed)?;
    let mut request = client.request(method, url.clone());
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    Ok((url, request))
}

struct Received {
    status: StatusCode,
    bytes: Vec<u8>,
    next: Option<String>,
}

async fn receive(url: &Url, request: reqwest::RequestBuilder) -> Result<Received, HttpError> {
    let failed =
        |error: reqwest::Error| HttpError::Failed(format!("{}: {}", shown(url), error.without_url()));
    let mut response = request.send().await.map_err(failed)?;
    let status = response.status();
    let next = response
        .headers()
        .get("link")
        .and_then(|link| link.to_str().ok())
        .and_then(next_page)
        .map(str::to_owned);
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if bytes.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(HttpError::Failed(format!(
                "{} answers more than {BODY_BYTES_MAX} bytes",
                shown(url)
            )));
        }
        bytes.extend_from_slice(&chunk);
    }
    if status.is_success() {
        return Ok(Received { status, bytes, next });
    }
    let message = format!("{} answers {status}{}", shown(url), hint(status));
    let body = serde_json::from_slice(&bytes).unwrap_or_default();
    Err(match status {
        StatusCode::NOT_FOUND => HttpError::NotFound { message, body },
        StatusCode::BAD_REQUEST => HttpError::Refused { message, body },
        _ => HttpError::Failed(message),
    })
}

fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        // Azure DevOps shows strangers its page for signing in, or sends them there.
        203 | 302 | 401 | 403 => "; check the token and what it may see",
        429 => "; it is asked too often, raise requeueAfterSeconds",
        _ => "",
    }
}

/// `<https://…>; rel="next"`.
fn next_page(link: &str) -> Option<&str> {
    link.split(',').find_map(|part| {
        let (address, rest) = part.trim().strip_prefix('<')?.split_once('>')?;
        rest.contains("rel=\"next\"").then_some(address)
    })
}

/// A plugin, as its ConfigMap describes it.
pub(super) struct PluginSettings {
    pub(super) base_url: String,
    pub(super) token: Secret<String>,
    pub(super) timeout_seconds: u64,
}

/// `POST /api/v1/getparams.execute`.
pub(super) async fn ask_plugin(
    settings: &PluginSettings,
    set_name: &str,
    parameters: &Value,
) -> Result<Answer, String> {
    let url = format!("{}/api/v1/getparams.execute", settings.base_url.trim_end_matches('/'));
    let headers = [("authorization", format!("Bearer {}", settings.token.expose()))];
    let body = json!({"applicationSetName": set_name, "input": {"parameters": parameters}});
    let timeout = Duration::from_secs(settings.timeout_seconds.clamp(1, 300));
    let client = client(timeout, &Trust::default())?;
    let answered =
        send(&client, Method::POST, &url, &headers, Some(&body)).await.map_err(HttpError::into_message)?;
    let found: Option<Vec<Map<String, Value>>> =
        serde_json::from_value(answered.body["output"]["parameters"].clone()).ok();
    found
        .map(Answer::Parameters)
        .ok_or_else(|| format!("{url} must answer {{\"output\": {{\"parameters\": [{{…}}]}}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_of_the_machine_room_are_not_asked() {
        for url in [
            "http://169.254.169.254/latest/meta-data",
            "http://[fe80::1]/",
            "http://[::ffff:169.254.169.254]/",
            "http://0.0.0.0/",
            "file:///etc/passwd",
        ] {
            assert!(check_address(&url.parse().expect("an address")).await.is_err(), "{url}");
        }
        assert!(check_address(&"http://127.0.0.1:1/".parse().expect("an address")).await.is_ok());
    }

    #[test]
    fn the_next_page_is_found() {
        let link = "<https://x/?page=1>; rel=\"prev\", <https://x/?page=3>; rel=\"next\"";
        assert_eq!(next_page(link), Some("https://x/?page=3"));
        assert_eq!(next_page("<https://x>; rel=\"last\""), None);
    }
}
