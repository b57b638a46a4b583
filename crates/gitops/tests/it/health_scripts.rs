//! Our rules beside upstream's own scripts, on objects that nobody recorded: known ones with other conditions, phases,
//! labels and annotations.
//!
//! The scripts are not part of the project. `SLIPWAY_HEALTH_SCRIPTS` names upstream's folder `resource_customizations`;
//! `make oracle` sets it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use slipway_gitops::health::{HealthCode, assess};

/// Where we say Healthy on purpose, and upstream's script of an older version does not: a folder, and a text of the object.
const EXPLAINED: [(&str, &str); 1] = [
    // Since 3.3 a Cluster that is not ready with severity Info is still being provisioned, not broken.
    ("cluster.x-k8s.io/Cluster", "\"severity\":\"Info\""),
];

/// Texts that a script compares with, and the labels and annotations that it looks at.
fn words(script: &str) -> (Vec<String>, Vec<String>) {
    let quoted: Vec<String> = script.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let (names, values): (Vec<String>, Vec<String>) = quoted.into_iter().partition(|word| word.contains('/'));
    let mut values: Vec<String> = values.into_iter().filter(|v| v.len() < 60 && !v.contains('%')).collect();
    values.sort();
    values.dedup();
    (names, values)
}

/// Objects near a known one.
fn near(object: &Value, script: &str) -> Vec<Value> {
    let mut all = vec![object.clone()];
    let mut with = |change: &dyn Fn(&mut Value)| {
        let mut changed = object.clone();
        change(&mut changed);
        all.push(changed);
    };
    let conditions = object["status"]["conditions"].as_array().map_or(0, Vec::len);
    for at in 0..conditions {
        with(&|o| {
            o["status"]["conditions"].as_array_mut().expect("a list").remove(at);
        });
        for status in ["True", "False", "Unknown"] {
            with(&|o| o["status"]["conditions"][at]["status"] = json!(status));
        }
        for severity in ["Info", "Warning", "Error"] {
            with(&|o| o["status"]["conditions"][at]["severity"] = json!(severity));
            with(&|o| {
                o["status"]["conditions"][at]["severity"] = json!(severity);
                o["status"]["conditions"][at]["status"] = json!("False");
            });
        }
    }
    with(&|o| o["status"] = json!({}));
    with(&|o| {
        o.as_object_mut().expect("an object").remove("status");
    });
    with(&|o| o["metadata"]["generation"] = json!(999));
    with(&|o| o["spec"]["paused"] = json!(true));
    with(&|o| o["spec"]["suspend"] = json!(true));
    let (names, values) = words(script);
    for name in &names {
        for value in values.iter().map(String::as_str).chain(["true", "disabled", "failed"]) {
            with(&|o| o["metadata"]["annotations"][name] = json!(value));
            with(&|o| o["metadata"]["labels"][name] = json!(value));
        }
    }
    for field in ["phase", "state", "health"] {
        if object["status"][field].is_string() {
            for value in values.iter().map(String::as_str).chain(["", "Nonsense"]) {
                with(&|o| o["status"][field] = json!(value));
            }
        }
    }
    all
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files(&entry.path(), out);
        } else {
            out.push(entry.path());
        }
    }
}

#[test]
fn our_rules_agree_with_upstreams_scripts_on_changed_objects() {
    let Some(folder) = std::env::var_os("SLIPWAY_HEALTH_SCRIPTS").map(PathBuf::from) else {
        println!("SLIPWAY_HEALTH_SCRIPTS is not set: `make oracle` runs this beside upstream's scripts");
        return;
    };
    let mut all = Vec::new();
    files(&folder, &mut all);
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    let (mut judged, mut agreed, mut wrong, mut other) = (0, 0, Vec::new(), Vec::new());
    for script in all.iter().filter(|path| path.ends_with("health.lua")) {
        let text = std::fs::read_to_string(script).expect("a script");
        let data = script.parent().expect("a folder").join("testdata");
        for example in all.iter().filter(|path| path.starts_with(&data)) {
            let Ok(yaml) = std::fs::read_to_string(example) else { continue };
            let Ok(documents) = slipway_yaml::load_all_json(&yaml) else { continue };
            for (object, _) in documents {
                for changed in near(&object, &text) {
                    // A script that fails on such an object says nothing about it.
                    let Ok(Some(theirs)) = slipway_gitops::lua::health(&text, &changed, now) else {
                        continue;
                    };
                    let ours = assess(&changed);
                    judged += 1;
                    let code = ours.as_ref().map(|health| health.status);
                    if code == Some(theirs.status) {
                        agreed += 1;
                        continue;
                    }
                    let place = script.parent().and_then(|p| p.strip_prefix(&folder).ok()).expect("below");
                    let line =
                        format!("{}: {:?}, upstream {:?}: {changed}", place.display(), code, theirs.status);
                    let explained =
                        EXPLAINED.iter().any(|(at, text)| place.ends_with(at) && line.contains(text));
                    if code == Some(HealthCode::Healthy) && !explained {
                        wrong.push(line);
                    } else {
                        other.push(line);
                    }
                }
            }
        }
    }
    let percent = agreed as f64 * 100.0 / f64::from(judged.max(1));
    println!(
        "{agreed} of {judged} changed objects judged alike ({percent:.1} %), {} wrongly Healthy",
        wrong.len()
    );
    if let Some(to) = std::env::var_os("SLIPWAY_HEALTH_DIFFERENCES") {
        std::fs::write(to, [wrong.clone(), other].concat().join("\n")).expect("written");
    }
    assert!(judged > 10_000, "{judged}");
    assert!(wrong.is_empty(), "{} are wrongly Healthy; the first: {}", wrong.len(), wrong[0]);
    assert!(percent >= 98.0, "{percent:.1} %");
}
