//! The one redactor: what goes into a record or a log line has its secrets taken out here.

use serde_json::{Map, Value};

pub(crate) const MASK: &str = "*****";

/// A key whose name says that its value is secret.
fn is_secret_name(name: &str) -> bool {
    const PARTS: [&str; 12] = [
        "password",
        "passwd",
        "secret",
        "token",
        "credential",
        "privatekey",
        "private_key",
        "apikey",
        "api_key",
        "authorization",
        "cookie",
        "accesskey",
    ];
    let name = name.to_ascii_lowercase();
    // `tokenPrefix`, `hasSecret` and the like say something about a secret without being one.
    let harmless =
        name.ends_with("prefix") || name.starts_with("has") || name.ends_with("ms") || name.ends_with("name");
    !harmless && PARTS.iter().any(|part| name.contains(part))
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
                is_secret_name(name) && !value.is_object() && !value.is_null() && !value.is_boolean()
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
