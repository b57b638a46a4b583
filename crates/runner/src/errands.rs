//! Calls that the platform does not make itself, because the integration is behind the firewall that this runner is behind too.
//!
//! In: a call. Out: its answer, told to the platform. Nothing is followed, kept or tried again; the addresses from which a machine
//! gets its own credentials are not asked. Where a call may go is the platform's word, as for every step of a build.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use slipway_api::Client as Platform;
use slipway_api::agent::{Errand, ErrandAnswer};
use slipway_net::{Client, Limits, Proxy, Request, Rules, Settings};
use tokio::task::JoinSet;

const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(12);
/// The platform takes no more.
const BYTES_MAX: u64 = 4 << 20;
/// So long the platform waits for an answer; later it is nobody's.
const TELL: Duration = Duration::from_secs(10);

pub(crate) struct Errands {
    /// None: with these settings nobody can be asked.
    client: Result<Client, String>,
    platform: Platform,
    running: JoinSet<()>,
}

impl Errands {
    /// Certificates are those that the machine trusts: the ones that are given for the platform are for nobody else.
    pub(crate) fn new(platform: Platform) -> Self {
        let settings = Settings {
            rules: Rules::default().with_private(),
            limits: Limits { connect: CONNECT, whole: ANSWER, bytes: BYTES_MAX, redirects: 0 },
            proxy: Proxy::Environment,
            ..Settings::default()
        };
        let client = Client::new(settings).map_err(|error| error.to_string());
        Self { client, platform, running: JoinSet::new() }
    }

    /// Beside whatever else runs.
    pub(crate) fn start(&mut self, errand: Errand) {
        while self.running.try_join_next().is_some() {}
        let (client, platform) = (self.client.clone(), self.platform.clone());
        self.running.spawn(async move {
            let answer = match &client {
                Ok(client) => ask(client, &errand).await,
                Err(problem) => Err(problem.clone()),
            };
            let answer = answer
                .unwrap_or_else(|problem| ErrandAnswer { problem: Some(problem), ..ErrandAnswer::default() });
            let path = format!("/api/agent/runner/errands/{}", errand.id);
            let call = platform.request(reqwest::Method::POST, &path).timeout(TELL).json(&answer);
            if let Err(error) = platform.send(call).await {
                tracing::debug!(%error, "Nobody waits for the answer of an errand any more.");
            }
        });
    }
}

async fn ask(client: &Client, errand: &Errand) -> Result<ErrandAnswer, String> {
    let body = errand.body.as_ref().map(|body| body.to_string().into_bytes());
    let mut headers = vec![("accept", "application/json")];
    if body.is_some() {
        headers.push(("content-type", "application/json"));
    }
    let secrets: Vec<_> =
        errand.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let request = Request {
        method: &errand.method,
        url: &errand.url,
        headers: &headers,
        secrets: &secrets,
        body: body.as_deref(),
        bytes_max: None,
    };
    let received = client.send(request).await.map_err(|error| error.to_string())?;
    let header = |name: &str| received.header(name).map(str::to_owned);
    Ok(ErrandAnswer {
        status: received.status,
        link: header("link"),
        challenge: header("www-authenticate"),
        body: STANDARD.encode(&received.body),
        problem: None,
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, StatusCode};
    use axum::routing::post;

    use slipway_model::Secret;

    use super::*;

    async fn provider() -> String {
        let echo = |headers: HeaderMap, body: String| async move {
            let token = headers.get("authorization").and_then(|token| token.to_str().ok()).unwrap_or("");
            let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or("");
            (StatusCode::CREATED, [("link", "<x>; rel=next")], format!("{token} {kind} {body}"))
        };
        let app = axum::Router::new().route("/status", post(echo));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        address
    }

    fn errand(url: String) -> Errand {
        Errand {
            id: "1".into(),
            method: "POST".into(),
            url,
            headers: [("authorization".to_owned(), "token canary".to_owned())].into(),
            body: Some(serde_json::json!({"state": "success"})),
        }
    }

    #[tokio::test]
    async fn a_call_is_made_as_it_was_asked_for_and_metadata_of_the_machine_is_not_asked() {
        let errands = Errands::new(Platform::new("http://127.0.0.1:1", Secret::new("x".into())));
        let client = errands.client.as_ref().expect("a client");
        let answer = ask(client, &errand(format!("{}/status", provider().await))).await.expect("an answer");
        assert_eq!((answer.status, answer.link.as_deref()), (201, Some("<x>; rel=next")));
        let body = String::from_utf8(STANDARD.decode(&answer.body).unwrap()).unwrap();
        assert_eq!(body, r#"token canary application/json {"state":"success"}"#);
        let refused = ask(client, &errand("http://169.254.169.254/latest".into())).await.unwrap_err();
        assert!(refused.contains("may not be asked from here") && !refused.contains("canary"), "{refused}");
        let away = ask(client, &errand("http://127.0.0.1:1/x".into())).await.unwrap_err();
        assert!(!away.contains("canary"), "{away}");
    }
}
