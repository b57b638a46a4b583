//! What every route may refuse before its handler runs: in the one shape of errors, and in the OpenAPI document.
//!
//! In: answers of the framework (a body that is no JSON, a wrong content type, an unknown method), the document
//! with what handlers say of themselves. Out: the same with our error body. It knows no route by name.

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use slipway_api::ErrorBody;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};

/// The framework's own sentences are short.
const SENTENCE_BYTES_MAX: usize = 64 << 10;

/// Turns a refusal in plain text into one as all others are.
pub(crate) async fn in_our_words(response: Response, request_id: &str) -> Response {
    if !response.status().is_client_error() || is_json(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let said = to_bytes(body, SENTENCE_BYTES_MAX).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let body = ErrorBody {
        status: parts.status.as_u16(),
        code: "1000".into(),
        name: parts.status.canonical_reason().unwrap_or("REFUSED").to_uppercase().replace(' ', "_"),
        message: sentence(parts.status, said.trim()),
        details: Vec::new(),
        request_id: Some(request_id.to_owned()),
    };
    let text = serde_json::to_vec(&body).expect("an error body is JSON");
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(text))
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

fn sentence(status: StatusCode, said: &str) -> String {
    match status {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            "the body is not declared as JSON: send the header Content-Type: application/json".into()
        }
        StatusCode::PAYLOAD_TOO_LARGE => "the body is too large: send less per request".into(),
        StatusCode::METHOD_NOT_ALLOWED => {
            "this path does not support this method: /api/openapi.json lists those that it does".into()
        }
        _ if said.is_empty() => format!("refused: {status}"),
        _ => said.to_owned(),
    }
}

/// Says of every operation what can happen before its handler runs.
pub(crate) fn describe(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in operations.into_iter().filter_map(Option::as_mut) {
            describe_operation(operation);
        }
    }
}

fn describe_operation(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        // A bare string is answered as JSON like everything else; the generator takes it for text.
        if let RefOr::T(response) = response
            && let Some(content) = response.content.shift_remove("text/plain")
        {
            response.content.insert("application/json".into(), content);
        }
    }
    let mut may = vec![
        (StatusCode::BAD_REQUEST, "the request is not valid; the message says where"),
        (StatusCode::UNAUTHORIZED, "not signed in, or the credential is no longer valid"),
        (StatusCode::FORBIDDEN, "signed in, but not allowed; the message says why"),
    ];
    if operation.request_body.is_some() {
        may.extend([
            (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not declared as JSON"),
            (StatusCode::UNPROCESSABLE_ENTITY, "the body does not match the schema; the message says where"),
        ]);
    }
    for (status, meaning) in may {
        operation.responses.responses.entry(status.as_str().to_owned()).or_insert_with(|| {
            let schema = Ref::from_schema_name("ErrorBody");
            let content = ContentBuilder::new().schema(Some(schema)).build();
            RefOr::T(ResponseBuilder::new().description(meaning).content("application/json", content).build())
        });
    }
}
