//! What a kustomization may say, read as the tool reads it.
//!
//! In: a document. Out: findings with file and line. The wall is the cage, in which there is neither a network nor
//! another file; this is what people are told instead of the tool's words about a folder that is not there.
//!
//! Go's JSON reader finds a field whatever the case of its letters, `ſ` for `s` and the Kelvin sign for `k` included, at
//! every level. So fields are compared in that form here, and one that is spelt another way is refused: nobody writes
//! `Resources` by accident.

use slipway_yaml::Node;

use super::Finding;

/// Every field of a kustomization that kustomize 5 knows, also those that it only still knows.
const FIELDS: [&str; 40] = [
    "apiVersion",
    "bases",
    "buildMetadata",
    "commonAnnotations",
    "commonLabels",
    "components",
    "configMapGenerator",
    "configurations",
    "crds",
    "generatorOptions",
    "generators",
    "helmChartInflationGenerator",
    "helmCharts",
    "helmGlobals",
    "imageTags",
    "images",
    "inventory",
    "kind",
    "labels",
    "metadata",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "openapi",
    "patches",
    "patchesJson6902",
    "patchesStrategicMerge",
    "replacements",
    "replicas",
    "resources",
    "secretGenerator",
    "sortOptions",
    "transformers",
    "validators",
    "vars",
    // Of entries of these lists.
    "path",
    "files",
    "env",
    "envs",
    "repo",
];

/// Lists that would run helm or fetch charts. Generators, transformers and validators may be listed: those that are built
/// into kustomize run, and it refuses others by itself, because plugins are switched off.
const OFF: [&str; 2] = ["helmCharts", "helmChartInflationGenerator"];

/// Fields whose texts are paths or addresses, wherever they stand in the lists of paths.
const PATHS: [&str; 17] = [
    "additionalValuesFiles",
    "bases",
    "chartHome",
    "components",
    "configurations",
    "crds",
    "env",
    "envs",
    "files",
    "generators",
    "patchesStrategicMerge",
    "path",
    "repo",
    "resources",
    "transformers",
    "validators",
    "valuesFile",
];

/// As Go compares the names of fields.
pub(super) fn folded(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            'ſ' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// A field, however it is spelt.
pub(super) fn field<'a>(node: &'a Node, name: &str) -> Option<(&'a Node, &'a Node)> {
    let wanted = folded(name);
    node.entries().iter().map(|(key, value)| (key, value)).find(|(key, _)| folded(&key.key_text()) == wanted)
}

pub(super) fn value<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    field(node, name).map(|(_, value)| value)
}

/// Everything that is not allowed in it; `charts`: the operator lets charts of the repository be inflated.
pub(super) fn refused(file: &str, document: &Node, charts: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    spelling(file, document, &mut findings);
    for (key, value) in document.entries() {
        let name = folded(&key.key_text());
        let off =
            OFF.iter().find(|field| folded(field) == name).filter(|field| !charts || **field != "helmCharts");
        if let Some(field) = off.filter(|_| !value.is_null() && !is_empty_list(value)) {
            let message =
                format!("`{field}` is off here, because it can run programs or fetch charts; remove it");
            findings.push(finding(file, key, message));
        }
    }
    addresses(file, document, false, &mut findings);
    findings
}

fn is_empty_list(node: &Node) -> bool {
    node.is_sequence() && node.items().is_empty()
}

fn finding(file: &str, node: &Node, message: String) -> Finding {
    Finding { file: file.to_owned(), line: node.span.line, column: node.span.column, message }
}

/// Fields in another spelling. Labels, annotations and patches have keys of their own.
fn spelling(file: &str, node: &Node, findings: &mut Vec<Finding>) {
    for item in node.items() {
        spelling(file, item, findings);
    }
    for (key, value) in node.entries() {
        let text = key.key_text();
        let name = folded(&text);
        if let Some(field) = FIELDS.iter().find(|field| folded(field) == name && **field != text) {
            let message = format!("`{text}` is read as `{field}` by kustomize; write it like that");
            findings.push(finding(file, key, message));
        }
        if !matches!(
            name.as_str(),
            "commonlabels" | "commonannotations" | "labels" | "annotations" | "valuesinline"
        ) {
            spelling(file, value, findings);
        }
    }
}

/// Texts that kustomize would fetch, in fields that it reads paths from.
fn addresses(file: &str, node: &Node, path: bool, findings: &mut Vec<Finding>) {
    if let Some(text) = node.as_str().filter(|text| path && is_address(text)) {
        let message = format!("`{text}` is an address, and nothing is fetched here; commit what is needed");
        findings.push(finding(file, node, message));
    }
    for item in node.items() {
        addresses(file, item, path, findings);
    }
    for (key, value) in node.entries() {
        let name = folded(&key.key_text());
        // Chart values may hold any text.
        if name != "valuesinline" {
            let below = PATHS.iter().any(|field| folded(field) == name);
            addresses(file, value, below, findings);
        }
    }
}

/// A text that kustomize takes for something elsewhere. `files` have `name=` before it.
fn is_address(text: &str) -> bool {
    if text.contains('\n') {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    let host = |host: &str| lower.starts_with(host);
    lower.contains("://")
        || lower.contains("git::")
        || lower.contains("?ref=")
        || lower.contains("?version=")
        || host("git@")
        || host("github.com/")
        || host("github.com:")
        || host("gh:")
        || host("bitbucket.org/")
        || host("gitlab.com/")
        || lower.split_once('@').is_some_and(|(_, rest)| rest.contains(':') && !rest.starts_with("sha256"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use slipway_yaml::Dialect;

    fn messages(text: &str) -> Vec<String> {
        let documents = slipway_yaml::parse(text, Dialect::Kubernetes).expect("readable");
        documents
            .iter()
            .flat_map(|document| refused("k.yaml", document, false))
            .map(|f| f.to_string())
            .collect()
    }

    #[test]
    fn fields_are_found_however_they_are_spelt() {
        for text in [
            "Resources: [x]",
            "re\u{17f}ources: [x]",
            "RESOURCES: [x]",
            "configMapGenerator: [{Files: [x]}]",
            "openapi: {Path: x}",
        ] {
            assert!(messages(text).iter().any(|message| message.contains("is read as")), "{text}");
        }
        for text in ["Generators: [x]", "TRANSFORMERS: [x]", "valıdators: []\nValidators: [y]"] {
            assert!(messages(text).iter().any(|message| message.contains("is read as")), "{text}");
        }
        for text in ["generators: [x]", "transformers: [x]", "validators: [x]"] {
            assert_eq!(messages(text), [""; 0], "{text}: what is built in runs");
        }
        assert!(messages("helmCharts: [{name: x}]")[0].contains("is off here"));
        assert!(messages("commonLabels: {Path: x, resources: y}\nlabels: [{pairs: {Files: z}}]").is_empty());
    }

    #[test]
    fn what_would_be_fetched_is_named_with_its_line() {
        for text in [
            "a: 1\nresources: ['https://x/y']",
            "a: 1\nresources: ['git@github.com:a/b']",
            "a: 1\nresources: ['github.com/a/b?ref=main']",
            "a: 1\nbases: ['file:///etc']",
            "a: 1\ncomponents: ['ssh://x/y']",
            "a: 1\ncrds: ['http://x']",
            "a: 1\ntransformers: ['https://x/y.yaml']",
            "a: 1\ngenerators: ['git@github.com:a/b']",
            "a: 1\nconfigurations: ['http://x']",
            "a: 1\nopenapi: {path: 'http://x'}",
            "a: 1\npatches: [{path: 'http://x'}]",
            "a: 1\npatchesJson6902: [{path: 'http://x'}]",
            "a: 1\nreplacements: [{path: 'http://x'}]",
            "a: 1\nconfigMapGenerator: [{files: ['k=http://x']}]",
            "a: 1\nsecretGenerator: [{envs: ['http://x']}]",
            "a: 1\nsecretGenerator: [{env: 'http://x'}]",
            "a: 1\nhelmGlobals: {chartHome: 'oci://x'}",
            "a: 1\nresources: ['user@host:path/x']",
        ] {
            let found = messages(text);
            assert!(
                found.iter().any(|message| message.starts_with("k.yaml:2:") && message.contains("address")),
                "{text}"
            );
        }
        for text in [
            "configMapGenerator: [{literals: ['URL=https://x']}]",
            "commonAnnotations: {link: 'https://x'}",
            "patches: [{patch: \"- op: add\\n  value: http://x\"}]",
            "images: [{name: a, newName: 'host:5000/x'}]",
            "resources: [base/x.yaml]",
        ] {
            assert_eq!(messages(text), [""; 0], "{text}");
        }
    }
}
