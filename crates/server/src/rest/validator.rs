//! Checking a pipeline's text for editors, pages and the published CLI.

use axum::Json;
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{ValidateDetail, ValidateRequest, ValidateResponse};
use slipway_pipeline::lint::{LintOptions, Severity, lint_text};

use crate::auth::Caller;

/// Check the text of a pipeline. Everything that is wrong comes at once.
#[utoipa::path(post, path = "/api/pipelines/yaml/validator", tag = "pipelines", request_body = ValidateRequest,
    responses((status = 200, body = ValidateResponse), (status = 400, body = ErrorBody)))]
pub(crate) async fn validate(_: Caller, Json(request): Json<ValidateRequest>) -> Json<ValidateResponse> {
    let (_, findings) = lint_text(&request.yaml, &LintOptions::default());
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let mut details = Vec::new();
    for finding in &findings {
        let wrong = finding.severity == Severity::Error;
        let line = format!(
            "{}:{}  {}  {}",
            finding.line,
            finding.column,
            if wrong { "error" } else { "warning" },
            finding.message
        );
        if wrong {
            errors.push(line)
        } else {
            warnings.push(line)
        }
        details.push(ValidateDetail {
            message: finding.message.clone(),
            line: u32::try_from(finding.line).unwrap_or(u32::MAX),
            column: u32::try_from(finding.column).unwrap_or(u32::MAX),
            level: if wrong { "error" } else { "warning" }.into(),
        });
    }
    let count = findings.len();
    let plural = if count == 1 { "" } else { "s" };
    let summary = format!("✖ {count} problem{plural} ({} errors, {} warnings)", errors.len(), warnings.len());
    Json(ValidateResponse {
        valid: errors.is_empty(),
        message: (!errors.is_empty()).then(|| errors.join("\n")),
        warning_message: (!warnings.is_empty()).then(|| warnings.join("\n")),
        summarize: (count > 0).then_some(summary),
        details,
    })
}
