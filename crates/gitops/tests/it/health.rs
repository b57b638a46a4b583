//! Health on recorded rows, where the recording is at hand, and on our own cases always.

use slipway_gitops::conformance;
use std::path::PathBuf;

/// The recording is not part of the project; it stands beside it where the project is developed.
fn recording() -> Option<PathBuf> {
    std::env::current_dir()
        .unwrap()
        .ancestors()
        .map(|folder| folder.join("shared/suites/gitops/health.jsonl"))
        .find(|path| path.is_file())
}

#[test]
fn recorded_verdicts_are_ours() {
    let Some(path) = recording() else {
        // Our own cases below still run; say that this one did not.
        println!("no shared/suites/gitops/health.jsonl above the project: only our own cases were run");
        return;
    };
    let report = conformance::run(&std::fs::read_to_string(path).expect("a readable recording"));
    println!("{report}");
    assert!(report.rows > 500, "{} rows", report.rows);
    assert!(report.percent() >= 99.0, "{report}");
    assert_eq!(report.wrongly_healthy().count(), 0, "{report}");
}

#[test]
fn our_own_cases_agree() {
    let report = conformance::run(include_str!("health_cases.jsonl"));
    assert_eq!(report.agreed, report.rows, "{report}");
    assert!(report.rows >= 40, "{} rows", report.rows);
}
