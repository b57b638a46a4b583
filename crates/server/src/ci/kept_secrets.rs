//! Secrets of a context that a client read masked and sends back: they stay what they were, where they were given for.
//!
//! In: what a client sends and what is kept. Out: the two together, or why the secrets have to be given again. Whoever may
//! change an integration need not be allowed to read its secrets, so they may not be able to send them to a host of their
//! own, nor to turn a hidden value into a shown one. This module knows nothing of accounts, rules or how things are kept.

use serde_json::{Map, Value};

use crate::http::redact::{self, MASK};

/// Fields of an integration that do not say where its secrets go. Every other field does: a new one is asked about first.
const HARMLESS: [&str; 12] = [
    "type",
    "username",
    "user",
    "email",
    "clientId",
    "default",
    "primary",
    "repositoryPrefix",
    "behindFirewall",
    "sharingPolicy",
    "denyCompositeDomain",
    "fallbackRegistry",
];
const CONFIGURATION: [&str; 4] = ["config", "secret", "yaml", "secret-yaml"];
const SECRET_TYPES: [&str; 2] = ["secret", "secret-yaml"];

/// A context's type and data.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) kind: &'a str,
    pub(crate) data: &'a Value,
}

/// A value that is masked becomes what it was.
pub(crate) fn keep(new: &Value, old: &Value) -> Value {
    match (new, old) {
        (Value::String(text), _) if text == MASK => old.clone(),
        (Value::Object(new), Value::Object(old)) => Value::Object(
            new.iter()
                .map(|(name, value)| (name.clone(), keep(value, old.get(name).unwrap_or(&Value::Null))))
                .collect(),
        ),
        (Value::Array(new), Value::Array(old)) => Value::Array(
            new.iter()
                .enumerate()
                .map(|(index, value)| keep(value, old.get(index).unwrap_or(&Value::Null)))
                .collect(),
        ),
        (new, _) => new.clone(),
    }
}

/// Why hidden values cannot stay as they are in what was sent; empty if they can, or if none are to stay.
pub(crate) fn problems(new: Of<'_>, old: Of<'_>) -> Vec<String> {
    let mut hidden = Vec::new();
    masked_places(new.data, "spec.data", &mut hidden);
    if hidden.is_empty() {
        return Vec::new();
    }
    let again = format!("enter {} again, or leave the rest unchanged", hidden.join(", "));
    let hidden_in_both = SECRET_TYPES.contains(&new.kind) && SECRET_TYPES.contains(&old.kind);
    if new.kind != old.kind && !hidden_in_both {
        return vec![format!(
            "spec.type was `{}`, and hidden values are not kept for another type: {again}",
            old.kind
        )];
    }
    if CONFIGURATION.contains(&new.kind) {
        return Vec::new();
    }
    let mut moved = Vec::new();
    moved_places(new.data, old.data, "spec.data", &mut moved);
    moved
        .into_iter()
        .map(|place| format!("{place} determines where hidden values are sent, and it has changed: {again}"))
        .collect()
}

fn masked_places(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text == MASK => found.push(place.to_owned()),
        Value::Object(map) => {
            map.iter().for_each(|(name, value)| masked_places(value, &format!("{place}.{name}"), found));
        }
        Value::Array(items) => {
            let each = items.iter().enumerate();
            each.for_each(|(index, value)| masked_places(value, &format!("{place}[{index}]"), found));
        }
        _ => {}
    }
}

/// Forms send what nobody filled in as empty text; others leave it out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        _ => false,
    }
}

fn moved_places(new: &Value, old: &Value, place: &str, found: &mut Vec<String>) {
    let nothing = Map::new();
    let fields = |value: &'_ Value| value.as_object().cloned();
    match (fields(new), fields(old)) {
        (None, None) if new == old || (is_empty(new) && is_empty(old)) => {}
        (None, None) => found.push(place.to_owned()),
        (new, old) => {
            let (new, old) = (new.as_ref().unwrap_or(&nothing), old.as_ref().unwrap_or(&nothing));
            let gone = old.keys().filter(|name| !new.contains_key(*name));
            for name in new.keys().chain(gone).filter(|name| !HARMLESS.contains(&name.as_str())) {
                let of = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or_default();
                // What is secret itself is either kept or new; it is no address.
                if !redact::is_secret(name) {
                    moved_places(&of(new), &of(old), &format!("{place}.{name}"), found);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(new: (&str, Value), old: (&str, Value)) -> Vec<String> {
        problems(Of { kind: new.0, data: &new.1 }, Of { kind: old.0, data: &old.1 })
    }

    #[test]
    fn what_comes_back_masked_stays() {
        let old = json!({"auth": {"password": "tok", "username": "a"}, "list": ["x", "y"]});
        let sent = json!({"auth": {"password": MASK, "username": "b"}, "list": [MASK, "z"]});
        let kept = json!({"auth": {"password": "tok", "username": "b"}, "list": ["x", "z"]});
        assert_eq!(keep(&sent, &old), kept);
    }

    #[test]
    fn a_hidden_value_goes_to_no_other_host() {
        let git = |host: Value, password: &str| json!({"auth": {"type": "basic", "apiHost": host, "username": "u", "password": password}});
        let old = ("git.gitea", git(json!("git.example"), "tok"));
        let moved = found(("git.gitea", git(json!("evil.example"), MASK)), old.clone());
        assert_eq!(moved.len(), 1, "{moved:?}");
        assert!(moved[0].starts_with("spec.data.auth.apiHost"), "{moved:?}");
        assert!(moved[0].contains("enter spec.data.auth.password again"), "{moved:?}");
        // Given again, it may go anywhere; without a change of the host it stays.
        assert!(found(("git.gitea", git(json!("evil.example"), "mine")), old.clone()).is_empty());
        assert!(found(("git.gitea", git(json!("git.example"), MASK)), old.clone()).is_empty());
        // Away with the host means the provider's own one; another spelling of the field is another place.
        assert_eq!(found(("git.gitea", git(Value::Null, MASK)), old.clone()).len(), 1);
        let beside = json!({"apiHost": "evil.example", "auth": old.1["auth"]});
        let mut beside_masked = beside;
        beside_masked["auth"]["password"] = json!(MASK);
        assert_eq!(found(("git.gitea", beside_masked), old.clone()).len(), 1);
        // A user name is no place.
        let mut renamed = git(json!("git.example"), MASK);
        renamed["auth"]["username"] = json!("other");
        assert!(found(("git.gitea", renamed), old).is_empty());
    }

    #[test]
    fn a_registry_asks_too_and_forms_may_leave_fields_empty() {
        let old = ("registry", json!({"provider": "other", "domain": "r.example", "password": "p"}));
        let sent = |domain: &str| {
            ("registry", json!({"provider": "other", "domain": domain, "password": MASK, "region": ""}))
        };
        assert!(found(sent("r.example"), old.clone()).is_empty());
        assert_eq!(found(sent("evil.example"), old.clone()).len(), 1);
        let hub = ("registry", json!({"provider": "dockerhub", "domain": "r.example", "password": MASK}));
        assert_eq!(found(hub, old).len(), 1);
    }

    #[test]
    fn a_hidden_value_is_not_shown_by_another_type() {
        let old = || ("secret", json!({"A": "x", "B": "y"}));
        assert_eq!(found(("config", json!({"A": MASK, "B": MASK})), old()).len(), 1);
        assert!(found(("secret-yaml", json!({"A": MASK, "B": "new"})), old()).is_empty());
        assert!(found(("config", json!({"A": "1", "B": "2"})), old()).is_empty());
        assert!(found(("secret", json!({"A": MASK, "C": "3"})), old()).is_empty());
    }
}
