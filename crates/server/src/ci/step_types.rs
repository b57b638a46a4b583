//! Versions of step types.

/// Numbers by value, everything else as text.
pub(crate) fn ordering(version: &str) -> Vec<(u64, String)> {
    version.split(['.', '-', '+']).map(|part| (part.parse().unwrap_or(0), part.to_owned())).collect()
}
