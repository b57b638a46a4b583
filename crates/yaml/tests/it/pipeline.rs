//! What pipeline files mean: js-yaml's reading.

use serde_json::{Value, json};
use slipway_yaml::{Dialect, parse};

#[track_caller]
fn check(text: &str, expect: Value) {
    let documents = parse(text, Dialect::Pipeline).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    assert_eq!(documents[0].to_json(), expect, "{text}");
}

#[track_caller]
fn refused(text: &str, line: usize, column: usize, part: &str) {
    let errors = parse(text, Dialect::Pipeline).expect_err(text);
    let found = errors.iter().any(|e| (e.line, e.column) == (line, column) && e.message.contains(part));
    assert!(found, "{text}: {errors:?}");
}

#[test]
fn only_true_and_false_are_booleans() {
    check("[true, True, FALSE, yes, on, y]", json!([true, true, false, "yes", "on", "y"]));
    check("on: [success]", json!({"on": ["success"]}));
}

#[test]
fn numbers_are_those_of_yaml_1_2_with_underscores() {
    check("[010, 0o10, 0x10, 0b11, 1_000, 1.0, 1.5, 1e3]", json!([10, 8, 16, 3, 1000, 1, 1.5, 1000]));
    check("[-.5, .5]", json!(["-.5", 0.5]));
    check("a: |\n  x", json!({"a": "x\n"}));
    check("[1:30, 1_, _1, 1.2.3, 08]", json!(["1:30", "1_", "_1", "1.2.3", 8]));
}

#[test]
fn a_merge_never_overrides_what_is_written() {
    let merged = json!({"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}});
    check("a: &a {x: 1, y: 2}\nb: {x: 3, <<: *a}", merged.clone());
    check("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}", merged);
}

#[test]
fn order_is_kept() {
    let documents = parse("z: 1\na: 2\nm: 3", Dialect::Pipeline).expect("reads");
    let keys: Vec<String> = documents[0].entries().iter().map(|(key, _)| key.key_text()).collect();
    assert_eq!(keys, ["z", "a", "m"]);
}

#[test]
fn repeated_keys_name_both_places_and_all_of_them() {
    refused("a: 1\nb: 2\na: 3", 3, 1, "the first is at 1:1");
    let errors = parse("a: 1\na: 2\nb: {c: 1, c: 2}", Dialect::Pipeline).expect_err("two repeats");
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn a_line_of_tabs_alone_is_an_empty_line() {
    let text = "\t\na: 1\n\t\n  \t\nb: |\n  x\n  \t\n  y\nc: 2\n\t";
    check(text, json!({"a": 1, "b": "x\n\t\ny\n", "c": 2}));
    refused(&format!("{text}\n\td: 3"), 11, 1, "tab");
    // Reading a large text again and again would be work for nothing.
    let large = format!("a: {}\n\t\nb: 1\n", "x".repeat(9 << 20));
    refused(&large, 2, 1, "tab");
}

#[test]
fn tabs_and_unknown_tags_are_named() {
    refused("a:\n\tb: 1\n\tc: 2", 2, 1, "tab");
    refused("a:\n\tb: 1\n\tc: 2", 3, 1, "tab");
    refused("a: !custom x", 1, 4, "tag `!custom`");
    refused("a: `x`", 1, 4, "quotes");
}

#[test]
fn keys_become_text_as_in_javascript() {
    check("~: 1", json!({"null": 1}));
    check("image: {{X}}", json!({"image": {"[object Object]": null}}));
}
