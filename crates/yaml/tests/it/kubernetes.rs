//! What manifests have always meant: go-yaml's reading, checked value by value.

use serde_json::{Value, json};
use slipway_yaml::{Dialect, decode, load_all_json, parse};

#[track_caller]
fn check(text: &str, expect: Value) {
    let documents = load_all_json(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let values: Vec<Value> = documents.into_iter().map(|(value, _)| value).collect();
    assert_eq!(values, [expect], "{text}");
}

#[track_caller]
fn refused(text: &str, line: usize, part: &str) {
    let errors = load_all_json(text).expect_err(text);
    assert!(errors.iter().any(|e| e.line == line && e.message.contains(part)), "{text}: {errors:?}");
}

#[test]
fn booleans_are_those_of_yaml_1_1() {
    check("[yes, Yes, YES, on, y, true]", json!([true, true, true, true, true, true]));
    check("[no, off, n, N, False]", json!([false, false, false, false, false]));
    check("['yes', \"on\", yEs, Y1]", json!(["yes", "on", "yEs", "Y1"]));
    check("on: 1\nno: 2", json!({"true": 1, "false": 2}));
}

#[test]
fn numbers_keep_their_old_bases() {
    check("[0644, 0o17, 0x1F, 0b101, 1_000, -0644, +5]", json!([420, 15, 31, 5, 1000, -420, 5]));
    check("[089, 1.0, 1.5, .5, 1e3, 6.02E+23]", json!([89, 1, 1.5, 0.5, 1000, 6.02e23]));
    check("[18446744073709551615, -9223372036854775808]", json!([u64::MAX, i64::MIN]));
    check("[1:30, 12e, 1.2.3, '1', 0x, -]", json!(["1:30", "12e", "1.2.3", "1", "0x", "-"]));
    check("1: a\n2.5: b", json!({"1": "a", "2.5": "b"}));
}

#[test]
fn dates_stay_text_and_null_has_its_spellings() {
    check(
        "[2001-01-01, 2001-12-14t21:59:43.10-05:00]",
        json!(["2001-01-01", "2001-12-14t21:59:43.10-05:00"]),
    );
    check("[~, null, Null, '']", json!([null, null, null, ""]));
    check("a:\nb: ~", json!({"a": null, "b": null}));
}

#[test]
fn tags_override_and_unknown_ones_are_read_through() {
    check("[!!str 1, !!int '7', !!float 1, !!binary aGk=, !ENV x]", json!(["1", 7, 1, "hi", "x"]));
    refused("a: !!int 5.0", 1, "not a value of type");
    refused("a: !!int x", 1, "not a value of type");
    refused("a: !!binary '*'", 1, "base64");
}

#[test]
fn merges_follow_the_place_they_are_written_at() {
    check("a: &a {x: 1, z: 2}\nb: {<<: *a, x: 3}", json!({"a": {"x": 1, "z": 2}, "b": {"x": 3, "z": 2}}));
    check("a: &a {x: 1}\nb: {x: 3, <<: *a}", json!({"a": {"x": 1}, "b": {"x": 1}}));
    check(
        "a: &a {x: 1}\nc: &c {x: 2, z: 2}\nb: {<<: [*a, *c]}",
        json!({
            "a": {"x": 1}, "c": {"x": 2, "z": 2}, "b": {"x": 1, "z": 2}
        }),
    );
    check("'<<': 1", json!({"<<": 1}));
    refused("<<: 1", 1, "takes a mapping");
}

#[test]
fn a_repeated_key_is_the_last_one() {
    check("a: 1\nb: 2\na: 3", json!({"a": 3, "b": 2}));
}

#[test]
fn what_json_cannot_hold_is_refused_in_place() {
    refused("a: 1\nb: .inf", 2, "no JSON form");
    refused("~: 1", 1, "empty or null");
    refused("a: {{ .Values.x }}", 1, "has to be quoted");
    refused("a: [1, 2", 1, "");
    refused("a: *nobody", 1, "has no anchor");
    refused("a: &a [*a]", 1, "contains itself");
    refused("a: [!x, b]", 1, "cannot be read");
}

#[test]
fn block_scalars_end_as_the_file_ends() {
    for (text, expect) in [
        ("a: |\n  x", "x"),
        ("a: |\n  x\n", "x\n"),
        ("a: |+\n  x", "x"),
        ("a: |+\n  x\n\n", "x\n\n"),
        ("a: |-\n  x", "x"),
        ("a: >\n  x\n  y", "x y"),
        ("a: |\n  x\n  ", "x\n"),
        ("a: |\n  x \n ", "x \n"),
        ("a: |\n  x\n    ", "x\n  "),
        ("a: |\n  é", "é"),
        ("a: |", ""),
    ] {
        check(text, json!({ "a": expect }));
    }
}

#[test]
fn streams_hold_documents_and_empty_ones_are_left_out() {
    let text = "# only a comment\n---\na: 1\n---\n---\nb: |\n  text";
    let documents = load_all_json(text).expect("reads");
    let values: Vec<Value> = documents.iter().map(|(value, _)| value.clone()).collect();
    assert_eq!(values, [json!({"a": 1}), json!({"b": "text"})], "no line end is added at the end of a file");
    assert_eq!(documents[1].1.line, 6);
}

#[test]
fn bytes_are_decoded_as_libyaml_decodes_them() {
    let wide: Vec<u8> = "\u{feff}a: é".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(decode(&wide).expect("decodes"), "a: é");
    assert_eq!(decode(b"\xEF\xBB\xBFa: 1").expect("decodes"), "a: 1");
    let error = decode(b"a: 1\nb: \xFF").expect_err("not UTF-8");
    assert_eq!((error.line, error.column), (2, 4));
}

#[test]
fn both_dialects_agree_on_the_grammar() {
    for text in ["a: [b, {c: d}]", "- |\n  x\n  y\n- >-\n  x\n  y", "? a\n: b", "\"a\\tb\": 'it''s'"] {
        let read = |dialect| parse(text, dialect).expect(text)[0].to_json();
        assert_eq!(read(Dialect::Kubernetes), read(Dialect::Pipeline), "{text}");
    }
}
