//! One Application in the text of a file, found, changed or taken out. The other documents of the file stay as they were written.
//!
//! In: a text and names. Out: the new text. Knows no Git and no cluster.

use serde_json::{Map, Value};
use slipway_crd::names;
use slipway_yaml::{Dialect, Node, load_all_json, parse, to_yaml};

/// What became of the text.
#[derive(Debug, PartialEq)]
pub(super) struct Changed {
    /// None: nothing else was in it.
    pub(super) text: Option<String>,
    /// Comments beside what changed could not be kept.
    pub(super) comments_lost: bool,
}

/// Where the Application stands in a file.
#[derive(Debug)]
pub(super) struct Found {
    /// Before, of it, after.
    parts: [String; 3],
    pub(super) object: Value,
}

/// The Application of this name. One without a namespace counts: it gets that of whoever syncs it.
pub(super) fn find(text: &str, namespace: &str, name: &str) -> Result<Option<Found>, String> {
    load_all_json(text).map_err(|errors| match errors.first() {
        Some(error) => format!("it is no YAML: {error}"),
        None => "it is no YAML".to_owned(),
    })?;
    let mut found = None;
    let mut start = 0;
    for piece in pieces(text) {
        let end = start + piece.len();
        let mut objects = load_all_json(piece).unwrap_or_default();
        let is_it = |object: &Value| {
            let metadata = &object["metadata"];
            let there = metadata["namespace"].as_str().unwrap_or(namespace);
            let group = object["apiVersion"].as_str().unwrap_or_default().split('/').next();
            group == Some(names::GROUP)
                && object["kind"] == "Application"
                && metadata["name"] == name
                && there == namespace
        };
        if let Some((object, _)) = objects.pop().filter(|(object, _)| is_it(object)) {
            let parts = [&text[..start], piece, &text[end..]].map(str::to_owned);
            if found.replace(Found { parts, object }).is_some() {
                return Err(format!("it declares {namespace}/{name} twice; remove one of them"));
            }
        }
        start = end;
    }
    Ok(found)
}

/// Documents with the lines that separate them: each begins with its own.
fn pieces(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut begin, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        if at > begin && (bare == "---" || line.starts_with("--- ")) {
            out.push(&text[begin..at]);
            begin = at;
        }
        at += line.len();
    }
    out.push(&text[begin..]);
    out
}

impl Found {
    /// The file with `after` in the place of what was there: value by value where that is possible, so that comments stay.
    pub(super) fn replaced(&self, after: &Value) -> Changed {
        let [before, piece, rest] = &self.parts;
        let whole = |piece: &str| Some(format!("{before}{piece}{rest}"));
        if let Some(edited) = in_place(piece, &self.object, after) {
            return Changed { text: whole(&edited), comments_lost: false };
        }
        let mark = piece.lines().next().filter(|line| line.starts_with("---")).map(|_| "---\n");
        let edited = format!("{}{}", mark.unwrap_or_default(), to_yaml(after));
        let commented = |line: &str| line.trim_start().starts_with('#') || line.contains(" #");
        Changed { text: whole(&edited), comments_lost: piece.lines().any(commented) }
    }

    pub(super) fn removed(&self) -> Changed {
        let [before, piece, rest] = &self.parts;
        let text = format!("{before}{rest}");
        let empty = load_all_json(&text).is_ok_and(|objects| objects.is_empty());
        let commented = |line: &str| line.trim_start().starts_with('#');
        let lost = empty && text.lines().any(commented) && !piece.is_empty();
        Changed { text: (!empty).then_some(text), comments_lost: lost }
    }
}

/// Where only scalars differ, they alone are written anew. Nothing else is believed than what reads back as `after`.
fn in_place(piece: &str, before: &Value, after: &Value) -> Option<String> {
    let mut changes = Vec::new();
    scalars(before, after, &mut Vec::new(), &mut changes)?;
    let documents = parse(piece, Dialect::Kubernetes).ok()?;
    let root = documents.iter().find(|document| !document.is_null())?;
    let mut lines: Vec<String> = piece.split_inclusive('\n').map(str::to_owned).collect();
    let mut edits: Vec<(&Node, String)> = Vec::new();
    for (path, value) in &changes {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        edits.push((root.at(&names)?, to_yaml(value).trim_end().to_owned()));
    }
    // From the end, so that what comes before keeps its place.
    edits.sort_by_key(|(node, _)| std::cmp::Reverse((node.span.line, node.span.column)));
    for (node, text) in edits {
        let span = node.span;
        if span.line != span.end_line || text.contains('\n') {
            return None;
        }
        let line = lines.get_mut(span.line.checked_sub(1)?)?;
        let byte = |column: usize| line.char_indices().map(|(at, _)| at).chain([line.len()]).nth(column - 1);
        let (start, end) = (byte(span.column)?, byte(span.end_column)?);
        line.replace_range(start..end, &text);
    }
    let edited = lines.concat();
    let read = load_all_json(&edited).ok()?;
    (read.len() == 1 && read[0].0 == *after).then_some(edited)
}

/// The scalars that differ; `None` when more than that does.
fn scalars(
    before: &Value,
    after: &Value,
    path: &mut Vec<String>,
    out: &mut Vec<(Vec<String>, Value)>,
) -> Option<()> {
    match (before, after) {
        (a, b) if a == b => Some(()),
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            for (name, value) in a {
                path.push(name.clone());
                scalars(value, &b[name], path, out)?;
                path.pop();
            }
            Some(())
        }
        (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => None,
        (_, b) => {
            out.push((path.clone(), b.clone()));
            Some(())
        }
    }
}

/// RFC 7386.
pub(super) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    for (name, value) in patch {
        match value {
            Value::Null => {
                into.as_object_mut().map(|fields| fields.remove(name));
            }
            value => merge(&mut into[name], value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "# all of ours\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shop\n---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata:\n  name: shop # the shop\nspec:\n  source:\n    repoURL: https://git.example.com/a\n    targetRevision: \"1.0\" # pinned\n";

    #[test]
    fn a_value_is_changed_where_it_stands_and_all_else_stays() {
        let found = find(FILE, "argocd", "shop").unwrap().expect("there");
        let mut after = found.object.clone();
        merge(&mut after, &json!({"spec": {"source": {"targetRevision": "v2", "repoURL": "https://x/y"}}}));
        let changed = found.replaced(&after);
        let text = changed.text.expect("a file");
        assert_eq!(text, FILE.replace("\"1.0\"", "v2").replace("https://git.example.com/a", "https://x/y"));
        assert!(!changed.comments_lost);
    }

    #[test]
    fn what_is_added_is_written_anew_and_the_loss_of_comments_is_said() {
        let found = find(FILE, "argocd", "shop").unwrap().expect("there");
        let mut after = found.object.clone();
        merge(&mut after, &json!({"spec": {"project": "team", "source": {"repoURL": null}}}));
        let changed = found.replaced(&after);
        assert!(changed.comments_lost);
        let text = changed.text.expect("a file");
        assert!(text.starts_with("# all of ours\n---\napiVersion: v1\nkind: ConfigMap\n"), "{text}");
        let read = find(&text, "argocd", "shop").unwrap().expect("there");
        assert_eq!(read.object["spec"], json!({"project": "team", "source": {"targetRevision": "1.0"}}));
    }

    #[test]
    fn one_is_taken_out_and_an_empty_file_goes() {
        let gone = find(FILE, "argocd", "shop").unwrap().expect("there").removed();
        let text = gone.text.expect("the ConfigMap is left");
        assert!(text.contains("kind: ConfigMap") && !text.contains("Application"), "{text}");
        let alone = &FILE[FILE.rfind("---").unwrap()..];
        assert_eq!(find(alone, "argocd", "shop").unwrap().expect("there").removed().text, None);
    }

    #[test]
    fn only_the_one_that_is_meant_is_found() {
        assert!(find(FILE, "argocd", "till").unwrap().is_none());
        let elsewhere = FILE.replace("name: shop # the shop", "name: shop\n  namespace: team");
        assert!(find(&elsewhere, "argocd", "shop").unwrap().is_none());
        assert!(find(&elsewhere, "team", "shop").unwrap().is_some());
        assert!(find(&FILE.replace("argoproj.io/", "example.com/"), "argocd", "shop").unwrap().is_none());
        let twice = format!("{FILE}{}", &FILE[FILE.rfind("---").unwrap()..]);
        assert!(find(&twice, "argocd", "shop").unwrap_err().contains("twice"));
        assert!(find("a: [", "argocd", "shop").is_err());
    }
}
