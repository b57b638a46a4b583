//! Checking a pipeline's text for editors, pages and the published CLI.

use axum::Json;
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{ValidateDetail, ValidateRequest, ValidateResponse};
use slipway_pipeline::lint::{self, LintOptions, lint_text};

use crate::auth::Caller;

/// Check the text of a pipeline. Everything that is wrong comes at once.
#[utoipa::path(post, path = "/api/pipelines/yaml/validator", tag = "pipelines", request_body = ValidateRequest,
    responses((status = 200, body = ValidateResponse), (status = 400, body = ErrorBody)))]
pub(crate) async fn validate(_: Caller, Json(request): Json<ValidateRequest>) -> Json<ValidateResponse> {
    let (_, findings) = lint_text(&request.yaml, &LintOptions::default());
    let report = lint::report(&findings);
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let place = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let details = findings.into_iter().map(|finding| ValidateDetail {
        level: if finding.is_error() { "error" } else { "warning" }.into(),
        line: place(finding.line),
        column: place(finding.column),
        message: finding.message,
    });
    Json(ValidateResponse {
        valid: report.valid,
        message: some(report.message),
        warning_message: some(report.warning_message),
        summarize: some(report.summarize),
        documentation_links: some(report.documentation_links),
        details: details.collect(),
    })
}
