//! Finalizers as patches. A list cannot be merged, so a patch holds all of it and has to be tied to a version.

use serde_json::{Value, json};

/// The patch that adds these to those that are there; `None` when there is nothing to add.
pub fn added(there: &[String], more: &[String]) -> Option<Value> {
    let all = [there, more].concat();
    (!more.is_empty()).then(|| json!({"metadata": {"finalizers": all}}))
}

/// The patch that takes one away.
pub fn removed(there: &[String], one: &str) -> Value {
    let left: Vec<&String> = there.iter().filter(|known| *known != one).collect();
    json!({"metadata": {"finalizers": left}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_holds_the_whole_list() {
        let there = ["a".to_owned(), "b".to_owned()];
        assert_eq!(added(&there, &[]), None);
        let three = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
        assert_eq!(added(&there, &["c".to_owned()]), Some(three));
        assert_eq!(removed(&there, "a"), json!({"metadata": {"finalizers": ["b"]}}));
        assert_eq!(removed(&there[..1], "a"), json!({"metadata": {"finalizers": []}}));
    }
}
