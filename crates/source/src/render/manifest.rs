//! Text → objects: every document checked, lists opened, every finding with its place.

use std::borrow::Cow;

use serde_json::Value;
use slipway_yaml::{Dialect, Node, Span};

use super::{Finding, Origin};

/// Upstream's way to keep a file out of the rendering.
const SKIP_MARKER: &str = "+argocd:skip-file-rendering";

/// Reads one file of a folder of plain manifests. Files that are not manifests (values, configuration) give
/// nothing; what looks like a manifest and is not readable is a finding.
pub(super) fn read_file(file: &str, bytes: &[u8]) -> Result<Vec<(Value, Origin)>, Vec<Finding>> {
    let text = with_last_line_end(slipway_yaml::decode(bytes).map_err(|error| vec![finding(file, &error)])?);
    if text.contains(SKIP_MARKER) {
        return Ok(Vec::new());
    }
    let documents = match slipway_yaml::parse(&text, Dialect::Kubernetes) {
        Ok(documents) => documents,
        Err(_) if !looks_like_manifest(&text) => return Ok(Vec::new()),
        Err(errors) => return Err(errors.iter().map(|error| finding(file, error)).collect()),
    };
    collect(file, &documents, true)
}

/// Reads what a tool printed: everything in it is meant to be a manifest. Places would be lines of a text
/// that nobody has, so findings name the document instead.
pub(super) fn read_output(
    tool: &str,
    path: &str,
    bytes: &[u8],
) -> Result<Vec<(Value, Origin)>, Vec<Finding>> {
    let file = format!("{path} ({tool} output)");
    let text = with_last_line_end(slipway_yaml::decode(bytes).map_err(|error| vec![finding(&file, &error)])?);
    let documents = slipway_yaml::parse(&text, Dialect::Kubernetes)
        .map_err(|errors| errors.iter().map(|error| finding(&file, error)).collect::<Vec<_>>())?;
    let mut objects = collect(&file, &documents, false)?;
    for (_, origin) in &mut objects {
        *origin = Origin { file: path.to_owned(), line: 0, column: 0 };
    }
    Ok(objects)
}

/// Readers of Kubernetes see lines, each with its end, also the last one; the YAML library does not, and a block scalar
/// would lose it. Places of errors at the end of other texts stay what they are.
fn with_last_line_end(mut text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.ends_with('\n') && text.contains(['|', '>']) {
        text.to_mut().push('\n');
    }
    text
}

fn collect(file: &str, documents: &[Node], tolerant: bool) -> Result<Vec<(Value, Origin)>, Vec<Finding>> {
    let mut objects = Vec::new();
    let mut findings = Vec::new();
    for document in documents.iter().filter(|document| !document.is_null()) {
        let named = document.get("apiVersion").is_some() || document.get("kind").is_some();
        if tolerant && !named {
            continue;
        }
        open(file, document, &mut objects, &mut findings);
    }
    if findings.is_empty() { Ok(objects) } else { Err(findings) }
}

/// One document, or each item of a list.
fn open(file: &str, node: &Node, objects: &mut Vec<(Value, Origin)>, findings: &mut Vec<Finding>) {
    let kind = node.get("kind").and_then(Node::as_str).unwrap_or_default();
    if kind.ends_with("List")
        && let Some(items) = node.get("items")
        && (items.is_sequence() || items.is_null())
    {
        for item in items.items() {
            open(file, item, objects, findings);
        }
        return;
    }
    let before = findings.len();
    check(file, node, findings);
    if findings.len() == before {
        let origin = Origin { file: file.to_owned(), line: node.span.line, column: node.span.column };
        objects.push((node.to_json(), origin));
    }
}

fn check(file: &str, node: &Node, findings: &mut Vec<Finding>) {
    let mut say = |span: Span, message: String| {
        findings.push(Finding { file: file.to_owned(), line: span.line, column: span.column, message });
    };
    if !node.is_mapping() {
        return say(node.span, "a manifest must be a mapping with apiVersion, kind and metadata".to_owned());
    }
    for field in ["apiVersion", "kind"] {
        match node.get(field) {
            None => say(node.span, format!("`{field}` is missing; every manifest needs it")),
            Some(value) if value.as_str().is_none_or(str::is_empty) => {
                say(value.span, format!("`{field}` must be text; put it in quotes"));
            }
            Some(_) => {}
        }
    }
    let metadata = node.get("metadata");
    let name = metadata.and_then(|metadata| metadata.get("name").or_else(|| metadata.get("generateName")));
    match (metadata, name) {
        (Some(metadata), _) if !metadata.is_mapping() => {
            say(metadata.span, "`metadata` must be a mapping with a name".to_owned());
        }
        (_, None) => say(
            metadata.map_or(node.span, |metadata| metadata.span),
            "`metadata.name` is missing; every manifest needs it".to_owned(),
        ),
        (_, Some(name)) if name.as_str().is_none_or(str::is_empty) => {
            say(name.span, "`metadata.name` must be text; put it in quotes".to_owned());
        }
        _ => {}
    }
    for field in ["labels", "annotations"] {
        let Some(entries) = metadata.and_then(|metadata| metadata.get(field)) else { continue };
        if !entries.is_null() && !entries.is_mapping() {
            say(entries.span, format!("`metadata.{field}` must be a mapping"));
        }
        // Without a value it is passed on as it is, which the API server reads as empty.
        let is_other = |value: &Node| value.as_str().is_none() && !value.is_null();
        for (key, value) in entries.entries().iter().filter(|(_, value)| is_other(value)) {
            say(
                value.span,
                format!("`metadata.{field}.{}` must be text; put the value in quotes", key.key_text()),
            );
        }
    }
}

fn looks_like_manifest(text: &str) -> bool {
    text.contains("apiVersion") || text.contains("kind:") || text.contains("\"kind\"")
}

fn finding(file: &str, error: &slipway_yaml::YamlError) -> Finding {
    Finding { file: file.to_owned(), line: error.line, column: error.column, message: error.message.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        read_file("f.yaml", text.as_bytes())
            .expect_err("has findings")
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn all_findings_come_with_their_places() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    version: 1.2\n---\nkind: Secret\nmetadata: {}\n";
        assert_eq!(
            findings(text),
            [
                "f.yaml:6:14: `metadata.labels.version` must be text; put the value in quotes",
                "f.yaml:8:1: `apiVersion` is missing; every manifest needs it",
                "f.yaml:9:11: `metadata.name` is missing; every manifest needs it",
            ]
        );
        assert!(
            findings("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: [a\n")[0].starts_with("f.yaml:5:")
        );
    }

    #[test]
    fn a_label_without_a_value_is_passed_on() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: null, b: x}, annotations: {c: }}\n";
        let objects = read_file("f.yaml", text.as_bytes()).expect("readable");
        assert_eq!(objects[0].0["metadata"]["labels"], serde_json::json!({"a": null, "b": "x"}));
    }

    #[test]
    fn a_block_scalar_at_the_end_keeps_its_newline_without_one_in_the_file() {
        let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: ";
        for (rest, expected) in [
            ("|\n    x", "x\n"),
            ("|-\n    x", "x"),
            ("|+\n    x", "x\n"),
            (">\n    x\n    y", "x y\n"),
            ("x", "x"),
        ] {
            let objects = read_file("f.yaml", format!("{head}{rest}").as_bytes()).expect("readable");
            assert_eq!(objects[0].0["data"]["k"], expected, "{rest}");
            let read = read_output("helm", "p", format!("{head}{rest}").as_bytes()).expect("readable");
            assert_eq!(read[0].0["data"]["k"], expected, "{rest}");
        }
    }

    #[test]
    fn lists_open_and_other_yaml_is_left_alone() {
        let text = "replicas: 3\n---\nkind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n---\n---\n";
        let objects = read_file("f.yaml", text.as_bytes()).expect("readable");
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[1].1.line, 7);
        assert_eq!(read_file("values.yaml", b"a: [1\n").expect("not a manifest"), []);
    }

    #[test]
    fn a_bomb_is_refused_quickly() {
        let mut text =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
                .to_owned();
        for level in 1..10 {
            let before = format!("*a{}", level - 1);
            text.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(",")));
        }
        let started = std::time::Instant::now();
        assert!(read_file("bomb.yaml", text.as_bytes()).is_err());
        assert!(started.elapsed().as_secs() < 2);
    }
}
