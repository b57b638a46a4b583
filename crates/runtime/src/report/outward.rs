//! What leaves says nothing of how one gets in: addresses lose the user and the password that people write into them.
//!
//! In: anything that is about to leave. Out: the same, where `https://user:token@host/x` is `https://***@host/x`, in whichever text it
//! stands: a source, a condition, what a sync said, an error of an engine. Knows no kind.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_source::without_userinfo;

/// `https://user:secret@host/x?token=y` is `https://host/x`: an address that is shown and compared as one.
pub(crate) fn without_credentials(url: &str) -> String {
    if !url.contains("://") {
        return url.to_owned();
    }
    // Users and passwords first: one of them may have a `?` or a `#` in it.
    let plain = without_userinfo(url).replacen("://***@", "://", 1);
    plain.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// Every text inside.
pub(crate) fn mask(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("://") && text.contains('@') => *text = without_userinfo(text),
        Value::Array(all) => all.iter_mut().for_each(mask),
        Value::Object(all) => all.values_mut().for_each(mask),
        _ => {}
    }
}

/// Without addresses' secrets; as it is where it has no address.
pub(crate) fn masked<T: Serialize + DeserializeOwned>(value: T) -> T {
    let Ok(mut json) = serde_json::to_value(&value) else { return value };
    mask(&mut json);
    serde_json::from_value(json).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_is_shown_without_what_opens_it() {
        for (url, shown) in [
            ("https://me:secret@host/x.git", "https://host/x.git"),
            ("https://secret@host:8443/x", "https://host:8443/x"),
            ("https://me:se/cret@host/x", "https://host/x"),
            ("https://me:se#cret@host/x", "https://host/x"),
            ("https://me:se/c?ret@host/x?y=z", "https://host/x"),
            ("https://host/x?private_token=secret#secret", "https://host/x"),
            ("ssh://git@host/x", "ssh://git@host/x"),
            ("git@host:x", "git@host:x"),
            ("oci://host/charts", "oci://host/charts"),
            ("", ""),
        ] {
            assert_eq!(without_credentials(url), shown, "{url}");
        }
    }

    #[test]
    fn every_text_of_what_leaves_is_masked_and_nothing_else_is_touched() {
        let at = "https://me:secret@host/x";
        let mut told = json!({"a": [{"message": format!("cannot read {at}: 403"), "n": 1}], "b": at, "c": "me@example.com", "d": null});
        mask(&mut told);
        assert_eq!(
            told,
            json!({"a": [{"message": "cannot read https://***@host/x: 403", "n": 1}], "b": "https://***@host/x", "c": "me@example.com", "d": null})
        );
    }
}
