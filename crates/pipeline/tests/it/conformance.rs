//! Every recorded row of the compatible systems, when the rows are on this machine, and our own
//! fixtures always.

use std::path::{Path, PathBuf};

use slipway_pipeline::conformance::{Suites, run};
use slipway_pipeline::{BuildStatus, Pipeline, StepStatus};

use crate::simulation::{Disturbance, run as run_build};

/// `shared/suites/pipelines` beside the project or above it, or below `SLIPWAY_SUITES`; the project does not contain it.
/// In CI it has to be there.
fn recorded() -> Option<PathBuf> {
    let here = std::env::current_dir().unwrap();
    let given = std::env::var_os("SLIPWAY_SUITES").map(PathBuf::from);
    let beside = here.ancestors().map(|folder| folder.join("shared/suites"));
    let found = given.into_iter().chain(beside).map(|suites| suites.join("pipelines"));
    let found = found.into_iter().find(|folder| folder.is_dir());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI needs shared/suites/pipelines beside the project, or SLIPWAY_SUITES"
        );
        eprintln!(
            "WARNING: shared/suites/pipelines is not on this machine: only our own fixtures were compared"
        );
    }
    found
}

#[track_caller]
fn passes(folder: &Path) -> usize {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let (validator, docs) = (read("validator.jsonl"), read("docs.jsonl"));
    let (expressions, variables) = (read("expressions.jsonl"), read("expression-variables.json"));
    let report = run(&Suites {
        validator: validator.as_deref(),
        docs: docs.as_deref(),
        expressions: expressions.as_deref(),
        expression_variables: variables.as_deref(),
    });
    for failure in &report.failed {
        println!(
            "{}:{}\n  expected {}\n  actual   {}",
            failure.suite, failure.line, failure.expected, failure.actual
        );
    }
    println!("{} rows, {} with an assumed account", report.passed, report.passed_with_assumed_account);
    assert!(report.failed.is_empty(), "{} rows differ", report.failed.len());
    report.passed
}

#[test]
fn recorded_rows_pass() {
    let folder = recorded().unwrap_or_else(|| Path::new("fixtures/conformance").to_owned());
    assert!(passes(&folder) > 0);
}

#[test]
fn our_own_rows_pass() {
    let fixtures = Path::new("fixtures/conformance");
    assert_eq!(passes(fixtures), 23);
}

/// Every documented pipeline that is valid also runs: it parses, plans and ends, one way or the other.
#[test]
fn documented_pipelines_run() {
    let folder = recorded().unwrap_or_else(|| Path::new("fixtures/conformance").to_owned());
    let text = std::fs::read_to_string(folder.join("docs.jsonl")).expect("the suite has documents");
    let mut ran = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: serde_json::Value = serde_json::from_str(line).expect("a JSON object");
        let yaml = row["yaml"].as_str().unwrap_or_default();
        let (pipeline, findings) = Pipeline::parse(yaml);
        let valid = matches!(row["verdict"].as_str(), Some("valid" | "warn"));
        assert!(pipeline.is_some() || !valid, "{findings:#?}\n{yaml}");
        let Some(pipeline) = pipeline else { continue };
        let good = run_build(&pipeline, &|_, _| StepStatus::Success, Disturbance::default());
        // One documented condition uses an operator that the language does not have.
        let doomed = findings.iter().any(|finding| finding.message.contains("will always be false"));
        assert!(doomed || good.status == BuildStatus::Success, "{yaml}");
        run_build(
            &pipeline,
            &|_, _| StepStatus::Failure,
            Disturbance { crash: Some(1), ..Disturbance::default() },
        );
        ran += 1;
    }
    println!("{ran} documented pipelines ran");
    assert!(ran > 0);
}
