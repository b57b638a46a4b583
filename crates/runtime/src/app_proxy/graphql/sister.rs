//! A field of GraphQL is asked of its sister in REST, in this process: what looks at the pass, asks the control plane, limits and
//! does is the same for both doors, because there is only one.

use axum::Router;
use axum::body::Body;
use axum::http::header::{self, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::Value;
use slipway_api::ErrorBody;
use slipway_api::application::{ProxyAbout, ProxyOperation};
use slipway_dialect::percent::encode;
use tower::ServiceExt as _;

/// One operation, as a field says it.
pub(super) struct Asked {
    pub(super) operation: ProxyOperation,
    pub(super) namespace: String,
    pub(super) name: String,
    /// What a pass for it is bound to.
    pub(super) request: Option<Value>,
}

/// Diffs and manifests of large Applications; what is larger REST gives.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Whether what is asked for stands in the address; elsewhere it is the body.
fn in_address(operation: ProxyOperation) -> bool {
    !slipway_api::application::changes_something(operation)
        && !matches!(operation, ProxyOperation::Logs | ProxyOperation::RuntimeLogs)
}

pub(super) fn failed(status: StatusCode, name: &str, message: impl Into<String>) -> ErrorBody {
    ErrorBody {
        status: status.as_u16(),
        code: status.as_u16().to_string(),
        name: name.into(),
        message: message.into(),
        details: Vec::new(),
        request_id: None,
    }
}

/// The answer of REST, if it is a good one.
pub(super) async fn ask(
    rest: &Router,
    asked: Asked,
    authorization: HeaderValue,
) -> Result<Response, ErrorBody> {
    let Asked { operation, namespace, name, request } = asked;
    let word = operation.word();
    let mut address = match operation.about() {
        ProxyAbout::Application => {
            format!("/app-proxy/api/applications/{}/{}/{word}", encode(&namespace), encode(&name))
        }
        ProxyAbout::Git => format!("/app-proxy/api/git/{word}"),
        ProxyAbout::Cluster => format!("/app-proxy/api/clusters/{word}"),
        ProxyAbout::Runtime => format!("/app-proxy/api/runtime/{word}"),
    };
    let by_address = in_address(operation);
    if let Some(fields) = request.as_ref().filter(|_| by_address).and_then(Value::as_object) {
        let pair = |(name, value): (&String, &Value)| match value {
            Value::Null => None,
            Value::String(text) => Some(format!("{}={}", encode(name), encode(text))),
            other => Some(format!("{}={}", encode(name), encode(&other.to_string()))),
        };
        let pairs: Vec<String> = fields.iter().filter_map(pair).collect();
        address = format!("{address}?{}", pairs.join("&"));
    }
    let method = if by_address { Method::GET } else { Method::POST };
    let mut sent = axum::http::Request::builder()
        .method(method)
        .uri(address)
        .header(header::AUTHORIZATION, authorization);
    let body = match request.filter(|_| !by_address) {
        Some(body) => {
            sent = sent.header(header::CONTENT_TYPE, "application/json");
            Body::from(body.to_string())
        }
        None => Body::empty(),
    };
    let wrong = |error: axum::http::Error| failed(StatusCode::BAD_REQUEST, "BAD_REQUEST", error.to_string());
    let Ok(answer) = rest.clone().oneshot(sent.body(body).map_err(wrong)?).await;
    match answer.status().is_success() {
        true => Ok(answer),
        false => Err(refusal(answer).await),
    }
}

/// Why REST refused, in its own words.
async fn refusal(answer: Response) -> ErrorBody {
    let status = answer.status();
    let bytes = axum::body::to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        let text = if text.is_empty() { status.to_string() } else { text };
        let name = if status == StatusCode::NOT_FOUND { "NOT_FOUND" } else { "BAD_REQUEST" };
        failed(status, name, text)
    })
}

/// An answer that is one JSON.
pub(super) async fn whole(answer: Response) -> Result<Value, ErrorBody> {
    let broken = |why: String| failed(StatusCode::BAD_GATEWAY, "ANSWER_BROKEN", why);
    let bytes = axum::body::to_bytes(answer.into_body(), ANSWER_BYTES_MAX)
        .await
        .map_err(|error| broken(format!("the answer is too large for GraphQL: {error}")))?;
    serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))
}
