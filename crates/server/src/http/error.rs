//! Every refusal has one shape and says what to do.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use slipway_access::Denied;
use slipway_api::ErrorBody;
use slipway_api::error::ErrorDetail;
use slipway_store::StoreError;

#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    name: &'static str,
    message: String,
    /// For the log, never for the wire.
    source: Option<Box<StoreError>>,
    /// Why access was denied, for the audit trail; the answer may hide that anything is there.
    denied: Option<String>,
    /// What only some refusals say; apart, because an error travels through every answer.
    more: Option<Box<More>>,
}

#[derive(Debug, Default)]
struct More {
    /// Which fields are meant.
    details: Vec<ErrorDetail>,
    /// In seconds.
    retry_after: Option<u64>,
}

/// Travels with a refused answer to the guard of the route, which records it.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) denied: bool,
    pub(crate) reason: String,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, name: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, name, message: message.into(), source: None, denied: None, more: None }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "1000", "BAD_REQUEST", message)
    }

    pub fn unauthenticated() -> Self {
        let message = "sign in first: send an API key in the Authorization header, or sign in in the browser";
        Self::new(StatusCode::UNAUTHORIZED, "2001", "UNAUTHORIZED_ERROR", message)
    }

    /// A credential came with the call, and it opens nothing here.
    pub fn wrong_key() -> Self {
        let message = "the API key is not valid here: it was deleted, belongs to another platform, or its owner may not sign in; create a new one in the browser, or sign in with `slipway auth login`";
        Self::new(StatusCode::UNAUTHORIZED, "2001", "UNAUTHORIZED_ERROR", message)
    }

    pub fn wrong_credentials() -> Self {
        let message = "e-mail or password is wrong: check both and try again";
        Self::new(StatusCode::UNAUTHORIZED, "2002", "WRONG_CREDENTIALS", message)
    }

    /// Somebody known elsewhere is not let in here.
    pub fn refused_sign_in(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "2007", "SIGN_IN_REFUSED", message)
    }

    /// A webhook that is not signed as it should be.
    pub fn refused_announcement(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "2008", "BAD_SIGNATURE", message)
    }

    pub fn throttled(seconds: u64) -> Self {
        let message = format!("too many failed attempts: wait {seconds} s, then try again");
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "2003", "TOO_MANY_ATTEMPTS", message);
        Self { more: Some(Box::new(More { retry_after: Some(seconds), ..More::default() })), ..refusal }
    }

    /// Heard again in a moment; nothing is lost by coming back.
    pub fn too_many(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "2009", "TOO_MUCH_AT_ONCE", message)
    }

    /// The same, with how long to wait.
    pub fn later(seconds: u64, message: impl Into<String>) -> Self {
        let refusal = Self::too_many(message);
        Self { more: Some(Box::new(More { retry_after: Some(seconds), ..More::default() })), ..refusal }
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "2004", "FORBIDDEN_ERROR", message)
    }

    /// The page itself has to have made the call.
    pub fn no_csrf_token() -> Self {
        Self::forbidden(
            "the X-CSRF-Token of this request is missing or not valid: reload the page and try again",
        )
    }

    /// An open browser is not enough for this.
    pub fn confirm() -> Self {
        let message = "confirm that it is you: sign in again, or send your password to POST /api/auth/confirm; this browser's \
             last sign-in is too long ago or was from another network";
        Self::new(StatusCode::FORBIDDEN, "2005", "CONFIRM_PASSWORD", message)
    }

    pub fn over_limit(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "2006", "LIMIT_REACHED", message)
    }

    /// Not allowed to know that it is there: the same answer as for what is not.
    pub fn hidden(what: impl std::fmt::Display, reason: impl Into<String>) -> Self {
        Self { denied: Some(reason.into()), ..Self::not_found(what) }
    }

    pub fn too_large() -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "1013",
            "TOO_LARGE",
            "the request is larger than the server accepts",
        )
    }

    pub fn unknown_encoding(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "1014", "UNKNOWN_ENCODING", message)
    }

    /// Everything that is wrong with what was sent, at once.
    pub fn findings(what: &str, findings: &[String]) -> Self {
        Self::bad_request(format!("{what}: {}", findings.join("; ")))
    }

    /// The same, with the field that each is about.
    pub fn fields(what: &str, details: Vec<ErrorDetail>) -> Self {
        let findings: Vec<_> = details.iter().map(|detail| detail.message.clone()).collect();
        Self { more: Some(Box::new(More { details, ..More::default() })), ..Self::findings(what, &findings) }
    }

    /// The words "could not find" are what the published CLI looks for; "Context `x` not found", and the name of its own
    /// that a pipeline has, what the published Terraform provider looks for.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        let what = what.to_string();
        let name =
            if what.starts_with("pipeline `") { "PIPELINE_NOT_FOUND_ERROR" } else { "NOT_FOUND_ERROR" };
        let mut letters = what.chars();
        let message = match letters.next().filter(|_| what.ends_with('`')) {
            Some(first) => {
                format!(
                    "{}{} not found: it does not exist, or you may not see it",
                    first.to_uppercase(),
                    letters.as_str()
                )
            }
            None => format!("could not find {what}"),
        };
        Self::new(StatusCode::NOT_FOUND, "1004", name, message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "1009", "CONFLICT", message)
    }

    pub fn fenced(what: impl std::fmt::Display) -> Self {
        let message = format!("{what} is now assigned to another runner: stop it here and discard it");
        Self::new(StatusCode::CONFLICT, "3001", "FENCED", message)
    }

    pub fn misdirected(message: impl Into<String>) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, "4021", "MISDIRECTED", message)
    }

    /// Something that opens the platform was sent where it must not go.
    pub fn refused_credential(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "2010", "CREDENTIAL_REFUSED", message)
    }

    /// Somebody behind us does not answer.
    pub(crate) fn gateway(status: StatusCode, message: impl Into<String>) -> Self {
        Self::new(status, "5020", "RUNTIME_UNREACHABLE", message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "5003", "UNAVAILABLE", message)
    }

    /// For the audit trail: what the answer may not say.
    pub(crate) fn reason(&self) -> String {
        self.denied.clone().unwrap_or_else(|| self.message.clone())
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    fn internal() -> Self {
        let message = "internal error: see the server's log for this request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "5000", "INTERNAL_ERROR", message)
    }
}

impl ApiError {
    /// For `git`, which shows a plain text to its user and nothing else.
    pub(crate) fn into_text(self) -> Response {
        let (status, text) = (self.status, format!("{}\n", self.message));
        let mut response = self.into_response();
        if status.is_client_error() {
            let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
            let refusal = response.extensions_mut().remove::<Refusal>();
            response = (status, headers, text).into_response();
            if let Some(refusal) = refusal {
                response.extensions_mut().insert(refusal);
            }
        }
        response
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let mut answer = match &error {
            StoreError::Duplicate { .. } => Self::conflict(error.to_string()),
            StoreError::Conflict { .. } => Self::conflict(error.to_string()),
            StoreError::NotFound { what } => Self::not_found(what),
            StoreError::Unavailable { .. } => {
                Self::unavailable("the database does not answer: try again in a moment")
            }
            StoreError::Closed => Self::unavailable("the server is shutting down: try again in a moment"),
            _ => Self::internal(),
        };
        answer.source = Some(Box::new(error));
        answer
    }
}

impl From<slipway_forge::builtin::GitHostError> for ApiError {
    fn from(error: slipway_forge::builtin::GitHostError) -> Self {
        if matches!(error, slipway_forge::builtin::GitHostError::Name(_)) {
            return Self::bad_request(error.to_string());
        }
        tracing::error!(%error, "The built-in Git host failed.");
        Self::internal()
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Anonymous => Self::unauthenticated(),
            Denied::Forbidden(reason) => Self::forbidden(reason),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            let source = self.source.as_ref().map(|error| format!("{error}: {error:?}")).unwrap_or_default();
            tracing::error!(source, "A request failed.");
        }
        let denied =
            self.denied.is_some() || matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let refusal = Refusal { denied, reason: self.denied.unwrap_or_else(|| self.message.clone()) };
        let more = self.more.map(|more| *more).unwrap_or_default();
        let body = ErrorBody {
            status: self.status.as_u16(),
            code: self.code.into(),
            name: self.name.into(),
            message: self.message,
            details: more.details,
            request_id: crate::http::router::request_id(),
        };
        let mut response = (self.status, Json(body)).into_response();
        response.extensions_mut().insert(refusal);
        let unavailable = (self.status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        if let Some(seconds) = more.retry_after.or(unavailable) {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
        }
        response
    }
}
