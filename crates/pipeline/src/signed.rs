//! What a signature of a pipeline is about: everything in its text that decides what runs.
//!
//! In: text. Out: bytes that are the same for every spelling of the same pipeline, so that a signature outlives the way
//! through an editor or a database; and where in the text the signature stands. The room does not know keys.

use serde_json::{Map, Value};
use slipway_yaml::{Dialect, Node};

/// A comment, so that the language stays what it is: `# slipway-signature: KEY VALUE`.
const MARK: &str = "# slipway-signature:";
/// First in what is signed: a signature of anything else is none of a pipeline.
const DOMAIN: &str = "slipway pipeline 1\n";
/// All that [`Pipeline`](crate::Pipeline) reads, except the version, which people write in several ways.
const DECIDING: [&str; 10] = [
    "steps",
    "stages",
    "mode",
    "hooks",
    "fail_fast",
    "fail-fast",
    "strict_fail_fast",
    "success_criteria",
    "services",
    "build_version",
];

/// A signature as it stands in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The id of the key.
    pub key: String,
    pub value: String,
}

/// The bytes to sign. `None` when the text is no YAML.
pub fn signed_bytes(text: &str) -> Option<Vec<u8>> {
    let documents = slipway_yaml::parse(text, Dialect::Pipeline).ok()?;
    let [root] = documents.as_slice() else { return None };
    if !root.is_mapping() {
        return None;
    }
    let mut whole = Map::new();
    for key in DECIDING {
        if let Some(node) = root.get(key) {
            whole.insert(key.to_owned(), if key == "hooks" { node.to_json() } else { canonical(key, node) });
        }
    }
    Some(format!("{DOMAIN}{}", Value::Object(whole)).into_bytes())
}

/// Steps run in the order of their text, so it is part of them; other maps are sorted. Hooks are kept sorted by the
/// control plane, and run so.
fn canonical(key: &str, node: &Node) -> Value {
    let entries = || node.entries().iter().map(|(name, inner)| (name.key_text(), inner));
    if node.is_mapping() && key == "steps" {
        return entries()
            .map(|(name, inner)| Value::from(vec![Value::from(name), canonical("", inner)]))
            .collect();
    }
    if node.is_mapping() {
        return entries()
            .map(|(name, inner)| (name.clone(), canonical(&name, inner)))
            .collect::<Map<_, _>>()
            .into();
    }
    if node.is_sequence() {
        return node.items().iter().map(|inner| canonical("", inner)).collect();
    }
    node.to_json()
}

pub fn mark(text: &str) -> Option<Mark> {
    let mut words = line(text)?[MARK.len()..].split_whitespace();
    let mark = Mark { key: words.next()?.to_owned(), value: words.next()?.to_owned() };
    words.next().is_none().then_some(mark)
}

/// The line of the last signature in a text.
pub fn line(text: &str) -> Option<&str> {
    text.lines().rev().find(|line| line.starts_with(MARK))
}

/// The text with this signature and no other.
pub fn with_mark(text: &str, mark: &Mark) -> String {
    let mut kept: String =
        text.lines().filter(|line| !line.starts_with(MARK)).map(|line| format!("{line}\n")).collect();
    kept.push_str(&format!("{MARK} {} {}\n", mark.key, mark.value));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "version: 1.0\nsteps:\n  b: {image: x, commands: [one, two]}\n  a: {image: y, environment: [A=1]}\n";

    #[test]
    fn the_same_pipeline_in_other_words_is_the_same() {
        let same = [
            "# a comment\nversion: '1.0'\nsteps:\n    b:\n        commands:\n            - one\n            - two\n        image: x\n    a: {environment: ['A=1'], image: \"y\"}\n",
            r#"{"version":"1.0","steps":{"b":{"image":"x","commands":["one","two"]},"a":{"image":"y","environment":["A=1"]}}}"#,
        ];
        for text in same {
            assert_eq!(signed_bytes(text), signed_bytes(TEXT), "{text}");
        }
    }

    #[test]
    fn whatever_changes_what_runs_changes_the_bytes() {
        let others = [
            TEXT.replace("two", "three"),
            TEXT.replace("[one, two]", "[two, one]"),
            "version: 1.0\nsteps:\n  a: {image: y, environment: [A=1]}\n  b: {image: x, commands: [one, two]}\n".to_owned(),
            format!("{TEXT}mode: parallel\n"),
            format!("{TEXT}hooks: {{on_finish: {{exec: {{image: x, commands: [evil]}}}}}}\n"),
            format!("{TEXT}services: {{composition: {{evil: {{image: x}}}}}}\n"),
        ];
        for text in others {
            assert!(signed_bytes(&text).is_some());
            assert_ne!(signed_bytes(&text), signed_bytes(TEXT), "{text}");
        }
        assert_eq!(signed_bytes("- a list"), None);
    }

    #[test]
    fn a_text_has_one_signature_and_keeps_its_words() {
        let mark = |value: &str| Mark { key: "k1".into(), value: value.into() };
        let once = with_mark(TEXT, &mark("one"));
        assert_eq!(self::mark(&once), Some(mark("one")));
        assert_eq!(with_mark(&once, &mark("two")), with_mark(TEXT, &mark("two")));
        assert_eq!(signed_bytes(&once), signed_bytes(TEXT));
        assert_eq!(self::mark(TEXT), None);
        assert_eq!(self::mark("# slipway-signature: k v more\n"), None);
    }
}
