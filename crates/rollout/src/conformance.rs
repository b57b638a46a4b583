//! Recorded manifests → which of them we find fault with.
//!
//! In: rows as JSON lines, `name` and `manifest`; `ok`, where a row says so, is what upstream's own check says. Out: a line for
//! each row that is judged differently, and a count. Without `ok` a row is taken to be good; what is still a template of Helm is no
//! manifest and left out.

use serde_json::Value;

use crate::lint;

#[derive(Debug, Default)]
pub struct Report {
    pub passed: usize,
    pub failed: usize,
    /// Objects of our kinds in all rows.
    pub checked: usize,
    pub lines: Vec<String>,
}

pub fn run(rows: &[Value]) -> Report {
    let mut report = Report::default();
    for row in rows {
        let name = row["name"].as_str().unwrap_or("?");
        let text = row["manifest"].as_str().unwrap_or_default();
        if text.contains("{{ .") || text.contains("{{- ") || text.contains("{{ include") {
            continue;
        }
        let found = lint::check(text);
        report.checked += found.checked;
        let wanted = row["ok"].as_bool().unwrap_or(true);
        if (found.errors() == 0) == wanted {
            report.passed += 1;
            continue;
        }
        report.failed += 1;
        if wanted {
            report.lines.extend(found.findings.iter().map(|finding| format!("{name}:{finding}")));
        } else {
            report.lines.push(format!("{name}: nothing was found, and something is wrong with it"));
        }
    }
    report
}
