//! Every recorded row of the compatible systems, when the rows are on this machine, and our own
//! fixtures always.

use std::path::{Path, PathBuf};

use slipway_pipeline::conformance::{Suites, run};

/// `shared/suites/pipelines` beside the project or above it; the project does not contain it.
fn recorded() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().map(|folder| folder.join("shared/suites/pipelines")).find(|folder| folder.is_dir())
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
    match recorded() {
        Some(folder) => assert!(passes(&folder) > 0),
        None => println!("shared/suites is not on this machine; the fixtures below always run"),
    }
}
