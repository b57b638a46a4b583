//! Manifests in files, checked without a cluster: what `rollout lint` and `workflow lint` share.
//!
//! In: files and what judges their text. Out: a line for each finding, or an object for each file; exit 0 when valid, 1 with errors,
//! 2 when a file cannot be read.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use slipway_yaml::finding::{Finding, Report};

use super::offline::{UNREADABLE, read};
use super::output::{self, Format, OutputArguments};

#[derive(clap::Args)]
pub(crate) struct FileArguments {
    /// Files with manifests, or - for standard input
    #[arg(required = true)]
    pub(super) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

/// The files that can be read, with their texts; the others are said.
pub(super) fn texts(arguments: &FileArguments) -> (Vec<(&PathBuf, String)>, bool) {
    let mut unreadable = false;
    let mut texts = Vec::new();
    for file in &arguments.files {
        match read(file) {
            Ok(text) => texts.push((file, text)),
            Err(error) => {
                note!("error: {error:#}");
                unreadable = true;
            }
        }
    }
    (texts, unreadable)
}

/// `nothing` is what a file without an object of these kinds lacks.
pub(super) fn lint(
    arguments: &FileArguments,
    nothing: &str,
    check: impl Fn(&str, &[(&PathBuf, String)]) -> Report,
) -> anyhow::Result<ExitCode> {
    let format = arguments.output.output;
    let for_people = matches!(format, Format::Table | Format::Wide);
    let (texts, unreadable) = texts(arguments);
    let mut wrong = false;
    let mut all = Vec::new();
    for (file, text) in &texts {
        let report = check(text, &texts);
        wrong |= report.errors() > 0;
        if for_people {
            report.findings.iter().for_each(|finding| say!("{}:{finding}", file.display()));
            if report.findings.is_empty() && report.checked == 0 {
                note!("{}: there is no {nothing} in it", file.display());
            } else if report.findings.is_empty() && output::is_terminal() {
                say!("{}: valid", file.display());
            }
        }
        let findings: Vec<Value> = report.findings.iter().map(finding).collect();
        all.push(json!({"file": file, "valid": report.errors() == 0, "checked": report.checked, "findings": findings}));
    }
    if !for_people {
        let name = |file: &Value| vec![file["file"].as_str().unwrap_or_default().to_owned()];
        output::print(format, &all, &["FILE"], name, "")?;
    }
    Ok(match (unreadable, wrong) {
        (true, _) => ExitCode::from(UNREADABLE),
        (_, true) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

fn finding(finding: &Finding) -> Value {
    let Finding { level, line, column, object, path, message } = finding;
    json!({"level": level.as_str(), "line": line, "column": column, "object": object, "path": path, "message": message})
}
