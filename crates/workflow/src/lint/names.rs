//! Names: of objects, templates, steps, parameters and artifacts.

use std::collections::BTreeSet;

use slipway_yaml::finding::{Document, Wrongs};

const NAME_MAX: usize = 128;

/// The cluster adds what makes it unique: a schedule's time, or random letters.
pub(super) fn check_object(document: &Document, wrongs: &mut Wrongs<'_>) {
    let metadata = &document.value["metadata"];
    if document.name().is_empty() {
        // Whoever submits it may name it.
        wrongs.warn("metadata", "`name` or `generateName` is missing: the cluster refuses it like this");
    }
    let most = if document.kind() == "CronWorkflow" { 52 } else { 63 };
    if let Some(name) = metadata["name"].as_str().filter(|name| name.len() > most) {
        wrongs.add("metadata.name", format!("a name has at most {most} letters, this one {}", name.len()));
    }
}

/// Of templates, steps and tasks.
pub(super) fn of_node(name: &str) -> Option<String> {
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if !begins || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
        return Some(format!(
            "`{name}` is no name: letters, digits and `-`, beginning with a letter or digit"
        ));
    }
    (name.len() > NAME_MAX).then(|| format!("a name has at most {NAME_MAX} letters, this one {}", name.len()))
}

/// Of parameters and artifacts.
pub(super) fn of_value(name: &str) -> Option<String> {
    let fits = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    (!fits).then(|| format!("`{name}` is no name: letters, digits, `-` and `_`"))
}

/// There, fitting, and each once.
pub(super) fn check<'a>(
    names: impl Iterator<Item = &'a str>,
    fits: fn(&str) -> Option<String>,
    wrongs: &mut Wrongs<'_>,
) {
    let mut seen = BTreeSet::new();
    for (at, name) in names.enumerate() {
        let mut here = wrongs.part(at);
        if name.is_empty() {
            here.add("", "`name` is missing");
            continue;
        }
        if let Some(message) = fits(name) {
            here.add("name", message);
        }
        if !seen.insert(name) {
            here.add("name", format!("`{name}` is there twice"));
        }
    }
}
