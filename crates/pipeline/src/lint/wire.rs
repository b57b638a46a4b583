//! Findings in the shape that `/pipelines/yaml/validator` answers with and the `codefresh` CLI prints.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::lint::{Finding, Severity};

/// The answer to a validation request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub valid: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub warning_message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summarize: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub documentation_links: String,
    pub details: Vec<Value>,
    pub warning_details: Vec<Value>,
}

const DOCUMENTATION: &str = "docs/pipelines";

/// Warnings alone leave a pipeline valid; the CLI prints them and goes on.
pub fn report(findings: &[Finding]) -> Report {
    let of = |severity: Severity| findings.iter().filter(move |finding| finding.severity == severity);
    let table = |severity: Severity, word: &str| {
        let lines: Vec<String> = of(severity)
            .map(|finding| format!(" {:<5} {word:<8} {}", finding.line, finding.message.trim_end()))
            .collect();
        lines.join("\n")
    };
    let (errors, warnings) = (of(Severity::Error).count(), of(Severity::Warning).count());
    let mut links: Vec<String> = findings
        .iter()
        .map(|finding| {
            let area = finding.area.as_deref().unwrap_or("pipeline");
            format!("Visit {DOCUMENTATION}#{area} for {area} documentation\n")
        })
        .collect();
    links.sort();
    links.dedup();
    Report {
        valid: errors == 0,
        message: if errors == 0 {
            String::new()
        } else {
            format!("Yaml validation errors:\n\n{}\n", table(Severity::Error, "error"))
        },
        warning_message: if warnings == 0 {
            String::new()
        } else {
            format!("Yaml validation warnings:\n\n{}\n", table(Severity::Warning, "warning"))
        },
        summarize: if findings.is_empty() { String::new() } else { summary(errors, warnings) },
        documentation_links: links.concat(),
        details: of(Severity::Error).map(detail).collect(),
        warning_details: of(Severity::Warning).map(detail).collect(),
    }
}

fn summary(errors: usize, warnings: usize) -> String {
    let count = |number: usize, noun: &str| {
        if number == 1 { format!("{number} {noun}") } else { format!("{number} {noun}s") }
    };
    let problems = count(errors + warnings, "problem");
    format!("✖ {problems} ({}, {})", count(errors, "error"), count(warnings, "warning"))
}

/// One finding; fields that have nothing to say are left out.
fn detail(finding: &Finding) -> Value {
    let mut detail = Map::new();
    let kind = match (finding.severity, finding.code) {
        (Severity::Warning, _) => "Warning",
        (Severity::Error, Some(_)) => "Error",
        (Severity::Error, None) => "Validation",
    };
    detail.insert("message".to_owned(), json!(finding.message));
    detail.insert("type".to_owned(), json!(kind));
    detail.insert("level".to_owned(), json!(if finding.step.is_some() { "step" } else { "workflow" }));
    detail.insert("lines".to_owned(), json!(finding.line));
    detail.insert("column".to_owned(), json!(finding.column));
    detail.insert("context".to_owned(), json!({ "key": finding.key.as_ref().or(finding.area.as_ref()) }));
    let optional = [
        ("path", finding.area.as_ref().map(|area| json!(area))),
        ("code", finding.code.map(|code| json!(code))),
        ("stepName", finding.step.as_ref().map(|step| json!(step))),
        ("actionItems", finding.hint.as_ref().map(|hint| json!(hint))),
        ("docsLink", finding.area.as_ref().map(|area| json!(format!("{DOCUMENTATION}#{area}")))),
        ("suggestion", finding.suggestion.as_ref().map(|suggestion| json!(suggestion))),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            detail.insert(key.to_owned(), value);
        }
    }
    Value::Object(detail)
}
