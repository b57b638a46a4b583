//! Recorded manifests → which of them we find fault with. What is still a template of Helm is no manifest and left out.

use serde_json::Value;
use slipway_yaml::suite::{self, Verdict};

use crate::lint;

pub fn run(rows: &[Value]) -> Verdict {
    let is_manifest = |row: &&Value| {
        let text = suite::manifest(row);
        !(text.contains("{{ .") || text.contains("{{- ") || text.contains("{{ include"))
    };
    suite::judge(rows.iter().filter(is_manifest), lint::check)
}
