//! Plans to learn the planner from: `tests/golden/CASE/{desired,live,options}.yaml` → `plan.txt`; `UPDATE=1` rewrites the texts.
//!
//! A text is the whole sync: every plan that differs from the one before it, with the steps that ran in between, until the end
//! or until nothing happens any more. Jobs and Deployments of the simulated cluster are done after a while; one with
//! `broken: true` fails. `options.yaml` holds `syncOptions` of the Application and the `operation`.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use serde_json::Value;
use slipway_gitops::sync::{SyncProgress, explain};

use crate::sim::{Cluster, Shell};

/// Rounds without news after which nothing more is expected.
const QUIET: u32 = 10;

fn documents(file: &Path) -> Vec<Value> {
    let Ok(text) = std::fs::read_to_string(file) else { return Vec::new() };
    let documents =
        slipway_yaml::load_all_json(&text).unwrap_or_else(|errors| panic!("{}: {errors:?}", file.display()));
    documents.into_iter().map(|(value, _)| value).filter(|value| !value.is_null()).collect()
}

fn shell(folder: &Path) -> Shell {
    let options = documents(&folder.join("options.yaml")).into_iter().next().unwrap_or_default();
    let words = options["syncOptions"].as_array().into_iter().flatten();
    let words: Vec<&str> = words.map(|word| word.as_str().expect("a word")).collect();
    let mut shell = Shell::new(&words, documents(&folder.join("desired.yaml")));
    if let Some(operation) = options.get("operation") {
        shell.operation = serde_json::from_value(operation.clone()).expect("an operation");
    }
    shell
}

/// The sync from its first plan to its last one.
fn story(folder: &Path) -> String {
    let shell = shell(folder);
    let live: Vec<Value> =
        documents(&folder.join("live.yaml")).iter().map(|object| shell.tracked(object)).collect();
    let mut cluster = Cluster::with(&live);
    let mut progress = SyncProgress::start(shell.started_at, "abcdef0123");
    let (mut text, mut before, mut quiet, mut seconds) = (String::new(), String::new(), 0, 0);
    loop {
        progress.now = shell.started_at + SignedDuration::from_secs(seconds);
        let plan = shell.plan(&cluster, &progress);
        let now = explain(&plan);
        quiet = if now == before { quiet + 1 } else { 0 };
        if quiet == 0 {
            text += &format!("{}{now}", if text.is_empty() { "" } else { "\n" });
        }
        progress.results.clone_from(&plan.results);
        if plan.outcome.is_some() {
            for result in &plan.results {
                text += &format!("  {} {}: {} {}\n", result.kind, result.name, result.status, result.message);
            }
            return text;
        }
        if quiet == QUIET {
            return text + "\nand so on\n";
        }
        for step in plan.ready_steps() {
            progress.record(step, &cluster.run(step));
        }
        cluster.tick();
        (before, seconds) = (now, seconds + 1);
    }
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut cases: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    cases.sort();
    cases
}

#[test]
fn plans_are_as_they_are_written_down() {
    let cases = cases();
    assert!(cases.len() >= 12, "{}", cases.len());
    let mut wrong = Vec::new();
    for folder in cases {
        let (found, file) = (story(&folder), folder.join("plan.txt"));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, &found).expect("written");
        }
        let wanted = std::fs::read_to_string(&file).unwrap_or_default();
        if wanted != found {
            wrong.push(format!("{}\n--- wanted\n{wanted}\n--- found\n{found}", folder.display()));
        }
    }
    assert!(wrong.is_empty(), "run with UPDATE=1 and read the difference:\n{}", wrong.join("\n"));
}
