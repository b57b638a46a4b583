//! `timeout` and `pendingTimeout` of templates: from the moment when a node began, over all of its attempts.

use jiff::Timestamp;
use slipway_crd::workflow::Template;

use super::execute::Call;
use super::nodes::is_fulfilled;
use super::{Halt, Run, retry};

pub(super) const EXCEEDED: &str = "Step exceeded its deadline";

impl Run<'_> {
    /// Ends a node whose time is over. True: that was the case.
    pub(super) fn is_over(&mut self, call: &Call, template: &Template) -> Result<bool, Halt> {
        let limits = [(&template.timeout, false), (&template.pending_timeout, true)];
        if limits.iter().all(|(limit, _)| limit.is_empty()) {
            return Ok(false);
        }
        let Some(node) = self.node(&call.name).filter(|node| !is_fulfilled(node)) else { return Ok(false) };
        let began = node.started_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        let began = began.unwrap_or(self.now);
        let attempt = node.children.last().and_then(|last| self.status.nodes.get(last));
        let waits = node.phase == "Pending" || attempt.is_some_and(|attempt| attempt.phase == "Pending");
        let attempts = if node.r#type == "Retry" { node.children.clone() } else { Vec::new() };
        let (_, scope) = self.inputs(template, &call.arguments)?;
        for (limit, of_waiting) in limits {
            if limit.is_empty() || (of_waiting && !waits) {
                continue;
            }
            let lasts = retry::seconds(&scope.fill_text(limit, self.now)?)?;
            let end = began.checked_add(lasts).unwrap_or(Timestamp::MAX);
            if end > self.now {
                self.look_again_at(end);
                continue;
            }
            let names = attempts.iter().filter_map(|id| self.status.nodes.get(id));
            let names: Vec<String> = names.map(|node| node.name.clone()).chain([call.name.clone()]).collect();
            names.iter().for_each(|name| self.mark(name, "Failed", EXCEEDED));
            return Ok(true);
        }
        Ok(false)
    }
}
