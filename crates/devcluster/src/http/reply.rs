//! Building responses and reading bodies.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::error::{ApiError, ApiResult};

pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// As in Kubernetes: an object may not be larger than about 3 MiB on the wire.
const BODY_BYTES_MAX: usize = 3 << 20;

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed()
}

pub(crate) fn typed_reply(status: StatusCode, content_type: &str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = status;
    if let Ok(value) = content_type.parse() {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache, private"));
    response
}

pub(crate) fn json_reply(status: StatusCode, value: &Value) -> Response<Body> {
    typed_reply(status, "application/json", value.to_string())
}

pub(crate) fn text_reply(text: &str) -> Response<Body> {
    typed_reply(StatusCode::OK, "text/plain; charset=utf-8", text.to_owned())
}

pub(crate) fn error_reply(error: &ApiError) -> Response<Body> {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_reply(status, &error.status())
}

/// Adds `Warning` headers, which kubectl prints.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let text: String = warning.chars().filter(|c| !c.is_control()).collect();
        if let Ok(value) = format!("299 - \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")).parse() {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// A body that somebody writes into piece by piece; it ends when the sender is dropped.
pub(crate) fn streaming(content_type: &str) -> (mpsc::Sender<Bytes>, Response<Body>) {
    let (sender, receiver) = mpsc::channel::<Bytes>(64);
    let frames = futures::stream::unfold(receiver, |mut receiver| async move {
        let bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), receiver))
    });
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(SyncStream(Box::pin(frames)))));
    if let Ok(value) = content_type.parse() {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    (sender, response)
}

type Frames = std::pin::Pin<Box<dyn futures::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync>>;

struct SyncStream(Frames);

impl futures::Stream for SyncStream {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

pub(crate) async fn read_body(request: &mut Request<Incoming>) -> ApiResult<Bytes> {
    let body = Limited::new(request.body_mut(), BODY_BYTES_MAX);
    let collected = body.collect().await.map_err(|error| {
        let message = format!("the request body could not be read ({error}); it may have at most {BODY_BYTES_MAX} bytes");
        ApiError::new(413, "RequestEntityTooLarge", message)
    })?;
    Ok(collected.to_bytes())
}

/// JSON, or YAML where the content type says so.
pub(crate) fn parse_body(content_type: &str, bytes: &[u8]) -> ApiResult<Value> {
    if content_type.contains("application/vnd.kubernetes.protobuf") {
        return crate::schema::decode_protobuf(bytes, crate::kinds::type_name)
            .map_err(|why| ApiError::new(415, "UnsupportedMediaType", why));
    }
    if content_type.contains("cbor") {
        let message = format!("the body has content type {content_type}; this cluster reads application/json and application/yaml");
        return Err(ApiError::new(415, "UnsupportedMediaType", message));
    }
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(error) if content_type.contains("yaml") => parse_yaml(bytes)
            .map_err(|yaml| ApiError::bad_request(format!("the body is neither JSON ({error}) nor YAML ({yaml})"))),
        Err(error) => Err(ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))),
    }
}

fn parse_yaml(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let mut documents = slipway_yaml::load_all_json(text)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    match documents.len() {
        1 => Ok(documents.remove(0).0),
        count => Err(format!("one document is expected, {count} were sent")),
    }
}
