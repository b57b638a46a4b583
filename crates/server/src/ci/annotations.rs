//! What an annotation may be.

use serde_json::Value;

pub(crate) const VALUE_CHARS_MAX: usize = 10_000;

/// A key and a value as they are kept.
pub(crate) fn is_fine(key: &str, value: &Value) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !key.is_empty()
        && key.chars().all(plain)
        && !value.is_object()
        && !value.is_array()
        && value.to_string().chars().count() <= VALUE_CHARS_MAX
}
