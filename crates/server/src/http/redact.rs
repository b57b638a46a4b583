//! The one redactor: what goes into a record or a log line has its secrets taken out here.

use serde_json::{Map, Value};

pub(crate) const MASK: &str = "*****";

/// Names of secrets, as small letters and digits.
const SECRETS: [&str; 15] = [
    "password",
    "passwd",
    "secret",
    "token",
    "credential",
    "credentials",
    "privatekey",
    "apikey",
    "accesskey",
    "secretid",
    "accountkey",
    "jsonconfig",
    "keyfile",
    "jwt",
    "cookie",
];

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// A field that is a secret, with whatever before it, as in `HELMREPO_PASSWORD`: it is kept sealed and shown masked.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = plain(name);
    SECRETS.iter().any(|secret| name.ends_with(secret))
}

/// A field that has to do with a secret, as in `passwordHash`: a record is better without it.
fn touches_secret(name: &str) -> bool {
    let name = plain(name);
    // `tokenPrefix`, `hasSecret` and the like say something about a secret without being one.
    let harmless =
        name.ends_with("prefix") || name.starts_with("has") || name.ends_with("ms") || name.ends_with("name");
    !harmless && (name.contains("authorization") || SECRETS.iter().any(|secret| name.contains(secret)))
}

/// Masks values under secret names, values of encrypted variables, all data of secret contexts, and credentials in addresses.
pub(crate) fn redact(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(object(map)),
        Value::Array(items) => Value::Array(items.iter().map(redact).collect()),
        Value::String(text) => Value::String(text_without_credentials(text)),
        other => other.clone(),
    }
}

fn object(map: &Map<String, Value>) -> Map<String, Value> {
    let encrypted = map.get("encrypted") == Some(&Value::Bool(true));
    let secret_type =
        map.get("type").and_then(Value::as_str).is_some_and(|kind| kind == "secret" || kind == "secret-yaml");
    map.iter()
        .map(|(name, value)| {
            // A switch such as `passwordLogin` is no secret, and turning it has to show.
            let masked =
                touches_secret(name) && !value.is_object() && !value.is_null() && !value.is_boolean()
                    || (encrypted && name == "value")
                    || crate::seal::is_sealed(value.as_str().unwrap_or_default());
            let value = match (masked, secret_type && name == "data") {
                (true, _) => Value::from(MASK),
                (_, true) => mask_all(value),
                _ => redact(value),
            };
            (name.clone(), value)
        })
        .collect()
}

/// The shape stays, every value goes.
pub(crate) fn mask_all(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().map(|(name, value)| (name.clone(), mask_all(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(mask_all).collect()),
        Value::Null => Value::Null,
        _ => Value::from(MASK),
    }
}

/// `https://user:token@host` → `https://*****@host`, wherever it stands.
pub(crate) fn text_without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out += before;
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(sign) => {
                out += MASK;
                rest = &after[sign..];
            }
            None => rest = after,
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_list_says_what_is_sealed_and_what_is_left_out_of_records() {
        for name in [
            "HELMREPO_PASSWORD",
            "private_key",
            "secretAccessKey",
            "jsonConfig",
            "credentials",
            "JWT",
            "secret-id",
        ] {
            assert!(is_secret(name) && touches_secret(name), "{name}");
        }
        for name in ["passwordHash", "tokenEndpoint", "accessKeyId", "Authorization"] {
            assert!(!is_secret(name) && touches_secret(name), "{name}");
        }
        for name in ["userName", "tokenPrefix", "secretName", "apiHost"] {
            assert!(!is_secret(name) && !touches_secret(name), "{name}");
        }
    }

    #[test]
    fn secrets_go_and_the_rest_stays() {
        let given = json!({
            "name": "x", "password": "p", "clientSecret": "s", "tokenPrefix": "abc", "hasSecret": true,
            "passwordLogin": false,
            "variables": [{"key": "A", "value": "open"}, {"key": "B", "value": "shut", "encrypted": true}],
            "spec": {"type": "secret", "data": {"K": "v", "n": 1}},
            "url": "see https://me:tok@host/x?y=1 and http://host/@a",
        });
        let expected = json!({
            "name": "x", "password": "*****", "clientSecret": "*****", "tokenPrefix": "abc", "hasSecret": true,
            "passwordLogin": false,
            "variables": [{"key": "A", "value": "open"}, {"key": "B", "value": "*****", "encrypted": true}],
            "spec": {"type": "secret", "data": {"K": "*****", "n": "*****"}},
            "url": "see https://*****@host/x?y=1 and http://host/@a",
        });
        assert_eq!(redact(&given), expected);
    }
}
