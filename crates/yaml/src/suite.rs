//! Recorded manifests → which of them a check finds fault with: for rooms that check objects before a cluster sees them.
//!
//! In: rows, `name` and `manifest`; `ok`, where a row says so, is what upstream's own check says. Without it a row is taken to be good.
//! Out: a line for each row that is judged differently, and a count.

use serde_json::Value;

use crate::finding;

#[derive(Debug, Default)]
pub struct Verdict {
    pub passed: usize,
    pub failed: usize,
    /// Objects of the kinds that are checked, in all rows.
    pub checked: usize,
    pub lines: Vec<String>,
}

/// The text of a row.
pub fn manifest(row: &Value) -> &str {
    row["manifest"].as_str().unwrap_or_default()
}

pub fn judge<'a>(
    rows: impl IntoIterator<Item = &'a Value>,
    check: impl Fn(&str) -> finding::Report,
) -> Verdict {
    let mut verdict = Verdict::default();
    for row in rows {
        let name = row["name"].as_str().unwrap_or("?");
        let found = check(manifest(row));
        verdict.checked += found.checked;
        let wanted = row["ok"].as_bool().unwrap_or(true);
        if (found.errors() == 0) == wanted {
            verdict.passed += 1;
            continue;
        }
        verdict.failed += 1;
        if wanted {
            verdict.lines.extend(found.findings.iter().map(|finding| format!("{name}:{finding}")));
        } else {
            verdict.lines.push(format!("{name}: nothing was found, and something is wrong with it"));
        }
    }
    verdict
}
