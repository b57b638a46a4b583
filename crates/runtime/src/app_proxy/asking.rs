//! Passes at the runtime's side: each is shown to the control plane, which says whose it is and whether they may.
//!
//! What only looks is known for a moment. What changes something is asked about each time, and a pass for it is good once.
//! What goes on after its answer (a log, a command) is asked about again while it does, so that a right that was taken away
//! ends it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use slipway_api::application::{
    PassMoment, PassQuestion, ProxyAnswer, ProxyOperation, ProxyQuestion, changes_something,
};
use slipway_api::git_proxy::told;
use slipway_api::proxy::EXEC_PROTOCOL;

use super::{AppPath, Proxy, Refusal};

/// How long an answer about who somebody is may be used again.
const TRUST: Duration = Duration::from_secs(2);

const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Whoever keeps something open is asked about this often …
const AGAIN_EVERY: Duration = Duration::from_secs(5);
/// … and while nobody can say, what is open stays open for no longer than this.
const TRUST_WHILE_OPEN: Duration = Duration::from_secs(25);

/// What people ask for is short.
const BODY_BYTES_MAX: usize = 64 << 10;
/// But for files.
const COMMIT_BYTES_MAX: usize = 4 << 20;

/// Longer than any pass is good.
const REMEMBERED: Duration = Duration::from_secs(180);

type Print = [u8; 32];

#[derive(Default)]
pub(super) struct Passes {
    /// Who looks, by a fingerprint of the pass that they showed and of what they look at, and when the control plane was asked.
    known: Mutex<HashMap<Print, (Instant, Asker)>>,
    /// Passes that something was changed with, and when.
    used: Mutex<HashMap<Print, Instant>>,
}

/// Who asked, as the control plane names them, and with what.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) name: String,
    /// Always the same for the same person.
    pub(super) id: String,
    shown: Arc<PassQuestion>,
}

fn fingerprint(parts: &[(&str, &[u8])]) -> Print {
    let mut hash = Sha256::new();
    for (name, value) in parts {
        hash.update(name);
        hash.update((value.len() as u64).to_be_bytes());
        hash.update(value);
    }
    hash.finalize().into()
}

fn fingerprint_of(pass: &str, question: &ProxyQuestion) -> Print {
    let detail = question.detail.as_ref().map(ToString::to_string).unwrap_or_default();
    fingerprint(&[
        ("pass", pass.as_bytes()),
        ("namespace", question.namespace.as_bytes()),
        ("name", question.name.as_bytes()),
        ("operation", question.operation.word().as_bytes()),
        ("detail", detail.as_bytes()),
    ])
}

/// A WebSocket has no body: what it is opened for is in its address.
#[derive(Deserialize)]
pub(super) struct InTheAddress {
    request: Option<String>,
}

/// Asks the control plane whether the pass that came is for this. What it is that is done stands with the route; there is no
/// route without.
pub(super) async fn authorise(
    State((proxy, operation)): State<(Proxy, ProxyOperation)>,
    Path((namespace, name)): AppPath,
    Query(InTheAddress { request: in_address }): Query<InTheAddress>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    admit(proxy, ProxyQuestion { operation, namespace, name, detail: None }, in_address, request, next).await
}

/// The same for what is about no Application.
pub(super) async fn authorise_git(
    State((proxy, operation)): State<(Proxy, ProxyOperation)>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let question = ProxyQuestion { operation, namespace: String::new(), name: String::new(), detail: None };
    admit(proxy, question, None, request, next).await
}

async fn admit(
    proxy: Proxy,
    mut question: ProxyQuestion,
    in_address: Option<String>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let pass = match question.operation {
        ProxyOperation::Exec => offered(&parts.headers).map_or_else(|| pass(&parts.headers), Ok)?,
        _ => pass(&parts.headers)?,
    };
    let bytes_max = match question.operation {
        ProxyOperation::GitCommit => COMMIT_BYTES_MAX,
        _ => BODY_BYTES_MAX,
    };
    let body = axum::body::to_bytes(body, bytes_max)
        .await
        .map_err(|_| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", "the body is too large"))?;
    let asked = match question.operation {
        ProxyOperation::Exec => in_address.map(|text| readable(text.as_bytes())).transpose()?,
        _ if body.is_empty() => None,
        _ => Some(readable(said_to_be_json(&parts.headers, &body)?)?),
    };
    question.detail = asked.map(|asked| told(question.operation, &asked));
    let asker = proxy.asker(pass, question).await?;
    let mut request = Request::from_parts(parts, axum::body::Body::from(body));
    request.extensions_mut().insert(asker);
    Ok(next.run(request).await)
}

/// What is done is what the pass is bound to and what is recorded. So what one reader of JSON can read and another cannot (a number
/// without end in a field that nobody knows) is not done …
fn readable(text: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(text).map_err(|error| {
        Refusal::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", format!("what is asked for is no JSON: {error}"))
    })
}

/// … and neither is what would be recorded and not looked at, as a body is that does not say what it is.
fn said_to_be_json<'a>(headers: &HeaderMap, body: &'a [u8]) -> Result<&'a [u8], Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(body),
        false => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "NOT_JSON",
            "a body is JSON: say so with `Content-Type: application/json`",
        )),
    }
}

/// A page can set no header on a WebSocket but the protocols that it names: a pass is one of them, behind the real one. It is in no
/// address, so in no log of addresses.
fn offered(headers: &HeaderMap) -> Option<&str> {
    if headers.contains_key(header::AUTHORIZATION) {
        return None;
    }
    let named = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let mut named = named.split(',').map(str::trim);
    (named.next() == Some(EXEC_PROTOCOL)).then(|| named.find(|one| one.starts_with("pass.")))?
}

pub(super) fn pass(headers: &HeaderMap) -> Result<&str, Refusal> {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    sent.and_then(|value| value.strip_prefix("Bearer ")).filter(|pass| !pass.is_empty()).ok_or_else(|| {
        Refusal::new(
            StatusCode::UNAUTHORIZED,
            "UNAUTHORIZED",
            "show a pass: POST /api/runtimes/NAME/pass of the control plane gives one",
        )
    })
}

impl Proxy {
    async fn asker(&self, pass: &str, question: ProxyQuestion) -> Result<Asker, Refusal> {
        let changes = changes_something(question.operation);
        let print = fingerprint_of(pass, &question);
        let shown =
            PassQuestion { pass: pass.to_owned(), question, moment: PassMoment::Shown, outcome: None };
        if changes {
            let asker = self.identify(shown).await?;
            let mut used = self.passes.used.lock().expect("no panic while locked");
            used.retain(|_, at| at.elapsed() < REMEMBERED);
            return match used.insert(fingerprint(&[("pass", pass.as_bytes())]), Instant::now()) {
                None => Ok(asker),
                Some(_) => Err(Refusal::new(
                    StatusCode::UNAUTHORIZED,
                    "PASS_USED",
                    "this pass was used before: ask the control plane for a new one",
                )),
            };
        }
        {
            let mut known = self.passes.known.lock().expect("no panic while locked");
            known.retain(|_, (asked, _)| asked.elapsed() < TRUST);
            if let Some((_, asker)) = known.get(&print) {
                return Ok(asker.clone());
            }
        }
        let asker = self.identify(shown).await?;
        self.passes
            .known
            .lock()
            .expect("no panic while locked")
            .insert(print, (Instant::now(), asker.clone()));
        Ok(asker)
    }

    async fn identify(&self, shown: PassQuestion) -> Result<Asker, Refusal> {
        let answer = self.ask(&shown).await?;
        Ok(Asker { name: answer.user_name, id: answer.user_id, shown: Arc::new(shown) })
    }

    async fn ask(&self, question: &PassQuestion) -> Result<ProxyAnswer, Refusal> {
        let Some(server) = self.running()?.server.clone() else {
            return Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "NO_CONTROL_PLANE",
                "this runtime runs alone; use kubectl on the Application instead",
            ));
        };
        let asking = server.post::<_, ProxyAnswer>("/api/access/application", question);
        let answer = tokio::time::timeout(ANSWER_WITHIN, asking).await;
        let away = |message: String| Refusal::new(StatusCode::BAD_GATEWAY, "CONTROL_PLANE_AWAY", message);
        let error = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => return Err(away("the control plane does not answer; try again".to_owned())),
        };
        Err(match error.status() {
            Some(401) => Refusal::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", error.to_string()),
            Some(403) => Refusal::new(StatusCode::FORBIDDEN, "FORBIDDEN", error.to_string()),
            Some(404) => Refusal::new(StatusCode::NOT_FOUND, "FORBIDDEN", error.to_string()),
            Some(_) => away(format!("the control plane cannot say whether you may: {error}")),
            None => away("the control plane does not answer; try again".to_owned()),
        })
    }

    /// Until whoever opened it may not any more, or nobody can say whether they may: why.
    pub(super) async fn until_revoked(&self, asker: &Asker) -> String {
        let question = PassQuestion { moment: PassMoment::Ongoing, ..(*asker.shown).clone() };
        let mut good = Instant::now();
        loop {
            tokio::time::sleep(AGAIN_EVERY).await;
            match self.ask(&question).await {
                Ok(_) => good = Instant::now(),
                Err(refusal) if refusal.status.is_client_error() => return refusal.message,
                Err(refusal) if good.elapsed() > TRUST_WHILE_OPEN => return refusal.message,
                Err(_) => {}
            }
        }
    }

    /// Tells the control plane that what was opened is over, for the record.
    pub(super) async fn tell_end(&self, asker: &Asker, outcome: String) {
        let question =
            PassQuestion { moment: PassMoment::Ended, outcome: Some(outcome), ..(*asker.shown).clone() };
        for pause in [1, 5, 30, 120] {
            match self.ask(&question).await {
                Ok(_) => return,
                Err(refusal) if refusal.status.is_client_error() => {
                    tracing::warn!(error = refusal.message, "The end of a command is not recorded.");
                    return;
                }
                Err(_) => tokio::time::sleep(Duration::from_secs(pause)).await,
            }
        }
        tracing::warn!("The end of a command is not recorded: the control plane does not answer.");
    }
}
