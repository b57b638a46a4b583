//! Health on recorded rows, where the recording is at hand, and on our own cases always.

use slipway_gitops::conformance;
use std::path::PathBuf;

/// The recording is not part of the project; it stands beside it where the project is developed.
fn recording() -> Option<PathBuf> {
    let given = std::env::var_os("SLIPWAY_SUITES").map(PathBuf::from);
    let here = std::env::current_dir().unwrap();
    let beside = here.ancestors().map(|folder| folder.join("shared/suites"));
    let found = given.into_iter().chain(beside).map(|suites| suites.join("gitops/health.jsonl"));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI needs shared/suites/gitops/health.jsonl beside the project, or SLIPWAY_SUITES"
        );
        eprintln!("WARNING: shared/suites/gitops is not on this machine: only our own cases were judged");
    }
    found
}

#[test]
fn recorded_verdicts_are_ours() {
    let (rows, least) = match recording() {
        Some(path) => (std::fs::read_to_string(path).expect("a readable recording"), 500),
        None => (include_str!("health_cases.jsonl").to_owned(), 40),
    };
    let report = conformance::run(&rows);
    println!("{report}");
    assert!(report.rows >= least, "{} rows", report.rows);
    assert!(report.percent() >= 99.0, "{report}");
    assert_eq!(report.wrongly_healthy().count(), 0, "{report}");
}

#[test]
fn our_own_cases_agree() {
    let report = conformance::run(include_str!("health_cases.jsonl"));
    assert_eq!(report.agreed, report.rows, "{report}");
    assert!(report.rows >= 40, "{} rows", report.rows);
}
