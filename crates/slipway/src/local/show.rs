//! A build on a terminal: each line under the name of its step, and how each step went.

use std::collections::BTreeMap;

use slipway_api::agent::BuildReport;

#[derive(Default)]
pub(super) struct Show {
    /// What a step printed since its last line end.
    open: BTreeMap<String, String>,
    /// The status of each step as it was last said.
    said: BTreeMap<String, String>,
    ended: bool,
}

impl Show {
    pub(super) fn text(&mut self, step: &str, text: &str) {
        let open = self.open.entry(step.to_owned()).or_default();
        open.push_str(text);
        while let Some(end) = open.find('\n') {
            let line: String = open.drain(..=end).collect();
            say!("{step} │ {}", line.trim_end_matches(['\n', '\r']));
        }
    }

    pub(super) fn report(&mut self, report: &BuildReport) {
        for step in &report.steps {
            let before = self.said.insert(step.name.clone(), step.status.clone());
            if before.as_deref() == Some(step.status.as_str()) || step.status == "pending" {
                continue;
            }
            let why = step.message.as_deref().filter(|_| step.status != "running");
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            note!("── {} {}{why}", step.name, step.status);
        }
        if report.finished_ms.is_some() && !std::mem::replace(&mut self.ended, true) {
            self.flush();
            let took = report.finished_ms.unwrap_or(0) - report.started_ms.unwrap_or(0);
            let why = report.message.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            note!("── {} after {}.{} s{why}", report.status, took / 1000, took % 1000 / 100);
        }
    }

    /// Text without a line end is text all the same.
    fn flush(&mut self) {
        for (step, open) in std::mem::take(&mut self.open) {
            if !open.is_empty() {
                say!("{step} │ {open}");
            }
        }
    }
}
