//! Checking a pipeline's text for editors, pages and the published CLI.
//!
//! In: a text. Out: what the linter says, and what the account's own types of steps say about the types that it names.
//! It does not know the types that a runner has in a folder of its own.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{PlannedStep, ValidateDetail, ValidateRequest, ValidateResponse};
use slipway_pipeline::Pipeline;
use slipway_pipeline::lint::{self, Finding, KNOWN_TYPES, LintOptions, Severity, lint_text};
use slipway_store::step_types;
use slipway_yaml::Node;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;

/// The step that every runner has besides the language's own types.
const BUILT_IN: &str = "git-commit";

/// Check a pipeline file. All findings are reported at once.
#[utoipa::path(post, path = "/api/pipelines/yaml/validator", tag = "pipelines", request_body = ValidateRequest,
    responses((status = 200, body = ValidateResponse), (status = 400, body = ErrorBody)))]
pub(crate) async fn validate(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<ValidateRequest>,
) -> Result<Json<ValidateResponse>, ApiError> {
    let (root, mut findings) = lint_text(&request.yaml, &LintOptions::default());
    if let Some(root) = &root {
        let rows = server.store().read(move |tx| step_types::list(tx, caller.scope())).await?;
        let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in rows {
            known.entry(row.name).or_default().push(row.version);
        }
        judge_types(root, &known, &mut findings);
    }
    let report = lint::report(&findings);
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let place = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let details = findings.into_iter().map(|finding| ValidateDetail {
        level: if finding.is_error() { "error" } else { "warning" }.into(),
        line: place(finding.line),
        column: place(finding.column),
        message: finding.message,
        hint: finding.hint,
    });
    Ok(Json(ValidateResponse {
        valid: report.valid,
        message: some(report.message),
        warning_message: some(report.warning_message),
        summarize: some(report.summarize),
        documentation_links: some(report.documentation_links),
        details: details.collect(),
        steps: root.filter(|_| report.valid).map(|root| planned(&root)).unwrap_or_default(),
    }))
}

/// What would run, for a picture of it.
fn planned(root: &Node) -> Vec<PlannedStep> {
    let pipeline = Pipeline::from_node(root);
    let shown = pipeline.graph().into_iter().map(|place| PlannedStep {
        name: place.step.name.clone(),
        title: place.step.title.clone().unwrap_or_else(|| place.step.name.clone()),
        kind: place.step.type_name.clone(),
        stage: place.stage.map(str::to_owned),
        needs: place.needs.iter().map(|name| (*name).to_owned()).collect(),
    });
    shown.collect()
}

/// The `type` of every step, also of those inside others.
fn types<'n>(steps: &'n Node, found: &mut Vec<&'n Node>) {
    for (_, step) in steps.entries() {
        found.extend(step.get("type").filter(|node| node.as_str().is_some()));
        if let Some(inner) = step.get("steps") {
            types(inner, found);
        }
    }
}

/// A type that nobody has is an error where it is a known one misspelt. Otherwise it is a warning: a runner may have it in
/// its own folder, of which this server knows nothing.
fn judge_types(root: &Node, known: &BTreeMap<String, Vec<String>>, findings: &mut Vec<Finding>) {
    let mut named = Vec::new();
    if let Some(steps) = root.get("steps") {
        types(steps, &mut named);
    }
    for node in named {
        let raw = node.as_str().unwrap_or_default();
        let (base, version) =
            raw.split_once(':').map_or((raw, None), |(base, version)| (base, Some(version)));
        if raw.is_empty() || raw.contains("${{") || base == BUILT_IN || KNOWN_TYPES.contains(&base) {
            continue;
        }
        let versions = known.get(base);
        let message = match (versions, version) {
            (Some(versions), Some(version)) if !versions.iter().any(|known| known == version) => {
                format!(
                    "Step type \"{base}\" has no version \"{version}\" here. Versions: {}",
                    versions.join(", ")
                )
            }
            (Some(_), _) => continue,
            (None, _) => format!("There is no step type \"{base}\" in this account."),
        };
        let said = findings
            .iter()
            .position(|finding| finding.key.as_deref() == Some("type") && finding.line == node.span.line);
        // What the linter said of its version does not matter when there is none.
        let said = said.map(|at| findings.remove(at));
        let meant = said.and_then(|finding| finding.suggestion);
        let (severity, hint) = match &meant {
            Some(meant) => (Severity::Error, format!("did you mean `{}`?", meant.to)),
            None => (
                Severity::Warning,
                format!(
                    "create the step type `{base}` in this account; only a runner that has it in its --step-types folder can run it now"
                ),
            ),
        };
        findings.push(Finding {
            severity,
            message,
            hint: Some(hint),
            step: None,
            area: Some("steps".into()),
            key: Some("type".into()),
            code: None,
            suggestion: meant,
            line: node.span.line,
            column: node.span.column,
        });
    }
    findings.sort_by_key(|finding| (finding.line, finding.column));
}
