//! Every field of the definitions with its type, as a text that a reader can compare: `UPDATE=1` rewrites it.

use std::fmt::Write;

use serde_json::Value;
use slipway_crd::{manifests, rollout_manifests};

/// One line for each node of a schema: where, of which type, and what else it demands.
fn lines(at: &str, schema: &Value, required: bool, out: &mut String) {
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    let flag = |name: &str| schema.get(name).is_some_and(|flag| flag == true);
    let mut words = vec![text("type").to_owned()];
    words.extend(Some(text("format").to_owned()));
    words.extend(flag("x-kubernetes-preserve-unknown-fields").then(|| "open".to_owned()));
    words.extend(flag("x-kubernetes-int-or-string").then(|| "integer or string".to_owned()));
    words.extend(schema.get("enum").map(|of| format!("one of {of}")));
    words.extend(schema.get("maxLength").map(|most| format!("at most {most}")));
    words.extend(required.then(|| "required".to_owned()));
    words.retain(|word| !word.is_empty());
    writeln!(out, "{at}: {}", words.join(", ")).expect("text grows");
    let demands: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        lines(&format!("{at}.{name}"), child, demands.contains(&name.as_str()), out);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(child) = schema.get(key) {
            lines(&format!("{at}{mark}"), child, false, out);
        }
    }
}

#[test]
fn the_definitions_have_these_fields() {
    let mut found = String::new();
    for one in manifests().into_iter().chain(rollout_manifests()) {
        let kind = one["spec"]["names"]["kind"].as_str().expect("a kind");
        lines(kind, &one["spec"]["versions"][0]["schema"]["openAPIV3Schema"], false, &mut found);
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fields.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, &found).expect("written");
    }
    let wanted = std::fs::read_to_string(file).expect("readable");
    let differing: Vec<_> =
        wanted.lines().zip(found.lines()).filter(|(one, other)| one != other).take(20).collect();
    assert!(wanted == found, "run with UPDATE=1 and read the difference: {differing:#?}");
}
