//! Every case of `cases.jsonl` gives what Go's text/template and sprig gave for it.
//!
//! The lines hold inputs and Go's answers. `SLIPWAY_ORACLE=1` asks Go again (`tests/oracle`, needs the network for
//! its modules) and writes the answers down.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value as Json;
use slipway_template::{Data, TemplateError};

fn cases() -> PathBuf {
    PathBuf::from("tests/it/cases.jsonl")
}

fn ask_go(lines: &str) -> String {
    let mut go = Command::new("go")
        .args(["run", "."])
        .current_dir("tests/oracle")
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("go starts");
    let mut input = go.stdin.take().expect("a pipe");
    let lines = lines.to_owned();
    let feed = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = go.wait_with_output().expect("go ends");
    feed.join().expect("no panic").expect("go reads it all");
    assert!(output.status.success(), "the oracle failed");
    String::from_utf8(output.stdout).expect("text")
}

fn data(case: &Json) -> Data {
    let mut all = BTreeMap::new();
    for (key, value) in case["data"].as_object().into_iter().flatten() {
        all.insert(key.clone(), Data::Json(value.clone()));
    }
    for (key, value) in case["maps"].as_object().into_iter().flatten() {
        let map = serde_json::from_value(value.clone()).expect("texts");
        all.insert(key.clone(), Data::StringMap(map));
    }
    for (key, value) in case["lists"].as_object().into_iter().flatten() {
        all.insert(key.clone(), Data::Strings(serde_json::from_value(value.clone()).expect("texts")));
    }
    Data::Map(all)
}

/// Where ours is another on purpose: the reason stands in docs/applicationsets.md.
const OUR_OWN: &[&str] = &[];

fn difference(case: &Json) -> Option<String> {
    let template = case["template"].as_str().expect("a template");
    let options: Vec<String> = serde_json::from_value(case["options"].clone()).unwrap_or_default();
    let ours = crate::render(template, &data(case), &options);
    match (ours, case["out"].as_str(), case["err"].as_str()) {
        (Ok(ours), Some(go), _) if ours == go => None,
        (Ok(ours), Some(go), _) => Some(format!("{template}\n   go: {go:?}\n ours: {ours:?}")),
        (Ok(ours), None, go) => Some(format!("{template}\n   go fails: {go:?}\n ours: {ours:?}")),
        (Err(error), Some(go), _) => Some(format!("{template}\n   go: {go:?}\n ours fails: {error}")),
        (Err(error), None, Some(go)) => error_difference(template, &error, go),
        (Err(_), None, None) => Some(format!("{template}\n   Go was not asked")),
    }
}

/// Filling: the same place, the same template, the same context. Reading: the same line; our words are our own,
/// and say the column too.
fn error_difference(template: &str, ours: &TemplateError, go: &str) -> Option<String> {
    let same = match ours {
        TemplateError::Execute { message, .. } => {
            let ours = ours.to_string();
            let place = ours.strip_suffix(message.as_str()).unwrap_or(&ours);
            // What a function says of its own arguments may be in other words: `error calling x: …`.
            let function_speaks = message.starts_with("error calling");
            go.starts_with(place) && (function_speaks || ours == go)
        }
        TemplateError::Parse { line, .. } => {
            let rest = go.strip_prefix("template: case:");
            let number = rest.and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
            number.is_none_or(|number| number == *line) && !go.contains("executing")
        }
        TemplateError::Option(_) => false,
    };
    (!same).then(|| format!("{template}\n   go: {go}\n ours: {ours}"))
}

#[test]
fn every_case_gives_what_go_gives() {
    let mut lines = std::fs::read_to_string(cases()).expect("the cases are there");
    if std::env::var_os("SLIPWAY_ORACLE").is_some() {
        lines = ask_go(&lines);
        std::fs::write(cases(), &lines).expect("the cases can be written");
    }
    let all: Vec<Json> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a case is JSON")).collect();
    assert!(all.len() >= 400, "only {} cases", all.len());
    let wrong: Vec<String> = all
        .iter()
        .filter(|case| !OUR_OWN.contains(&case["template"].as_str().unwrap_or_default()))
        .filter_map(difference)
        .collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n\n{}", wrong.len(), all.len(), wrong.join("\n\n"));
}
