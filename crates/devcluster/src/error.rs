//! Errors as the Kubernetes API gives them: a `Status` with code, reason and details.

use serde_json::{Value, json};

use crate::schema::ShapeError;
use crate::store::StoreError;

pub(crate) type ApiResult<T> = Result<T, ApiError>;

#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Value,
}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        ApiError { code, reason, message: message.into(), details: Value::Null }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.details = json!({"name": name, "group": group, "kind": kind});
        self
    }

    /// `deployments.apps "web"`, as in every message about one object.
    fn label(group: &str, plural: &str, name: &str) -> String {
        if group.is_empty() { format!("{plural} \"{name}\"") } else { format!("{plural}.{group} \"{name}\"") }
    }

    pub(crate) fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} not found", Self::label(group, plural, name));
        Self::new(404, "NotFound", message).about(group, plural, name)
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} already exists", Self::label(group, plural, name));
        Self::new(409, "AlreadyExists", message).about(group, plural, name)
    }

    pub(crate) fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {}: {why}", Self::label(group, plural, name));
        Self::new(409, "Conflict", message).about(group, plural, name)
    }

    pub(crate) fn modified(group: &str, plural: &str, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, plural, name, why)
    }

    pub(crate) fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!("{} is forbidden: {why}", Self::label(group, plural, name));
        Self::new(403, "Forbidden", message).about(group, plural, name)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn gone(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn method(message: impl Into<String>) -> Self {
        Self::new(405, "MethodNotAllowed", message)
    }

    /// 422 with one cause per finding.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, findings: &[ShapeError]) -> Self {
        let lines: Vec<String> = findings.iter().map(|f| format!("{}: {}", f.path, f.message)).collect();
        let text = if lines.len() == 1 { lines[0].clone() } else { format!("[{}]", lines.join(", ")) };
        let label = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut error = Self::new(422, "Invalid", format!("{label} \"{name}\" is invalid: {text}"));
        let causes: Vec<Value> = findings
            .iter()
            .map(|f| json!({"reason": f.reason, "message": f.message, "field": f.path}))
            .collect();
        error.details = json!({"name": name, "group": group, "kind": kind, "causes": causes});
        error
    }

    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code == 404
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.code == 409
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Closed => Self::new(503, "ServiceUnavailable", error.to_string()),
            _ => Self::new(500, "InternalError", error.to_string()),
        }
    }
}
