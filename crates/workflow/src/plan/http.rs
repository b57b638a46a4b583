//! `http`: a call that the engine makes itself, without a pod.
//!
//! The plan says what is asked; whoever asks hands the answer back. A call whose answer was lost with its process is made again: whoever
//! is called has to bear that, as with the agent of upstream.

use serde_json::{Value, json};
use slipway_crd::workflow::{Http, Outputs, Template};
use slipway_dialect::expr::Expression;

use super::execute::Call;
use super::nodes::{Fresh, is_fulfilled};
use super::{Action, Halt, Run};
use crate::scope::Scope;

/// What came back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Value,
    pub body: String,
}

impl Run<'_> {
    pub(super) fn execute_http(
        &mut self,
        call: &Call,
        template: &Template,
        scope: &Scope,
    ) -> Result<String, Halt> {
        let is_new = self.node(&call.name).is_none();
        if is_new && !self.may_run_a_pod(template) {
            return Err(Halt::Limit);
        }
        let http = serde_json::to_value(&template.http).map_err(|error| error.to_string())?;
        let http: Http = serde_json::from_value(scope.fill(&http, self.now)?)
            .map_err(|error| format!("the call with its values cannot be read: {error}"))?;
        let id = self.make_node(call, &Fresh { kind: "HTTP", phase: "Running", message: "" });
        if is_new {
            self.active += 1;
        }
        if is_fulfilled(&self.status.nodes[&id]) {
            return Ok(id);
        }
        if self.is_ending() && !call.on_exit {
            self.mark(&call.name, "Failed", &format!("Stopped with strategy '{}'", self.spec.shutdown));
            return Ok(id);
        }
        match self.observed.answers.get(&id) {
            None => self.actions.push(Action::Call { node: id.clone(), http: Box::new(http) }),
            Some(Err(why)) => {
                let why = why.clone();
                self.mark(&call.name, "Error", &why);
            }
            Some(Ok(answer)) => {
                let (phase, message) = judged(&http, answer, self.now);
                if let Some(node) = self.status.nodes.get_mut(&id) {
                    node.phase = "Running".into();
                    node.outputs = Some(Outputs { result: Some(answer.body.clone()), ..Outputs::default() });
                }
                self.mark(&call.name, phase, &message);
            }
        }
        Ok(id)
    }
}

/// By `successCondition`, or by its status.
fn judged(http: &Http, answer: &Answer, now: jiff::Timestamp) -> (&'static str, String) {
    if http.success_condition.trim().is_empty() {
        return match answer.status {
            200..300 => ("Succeeded", String::new()),
            status => ("Failed", format!("received non-2xx response code: {status}")),
        };
    }
    let vars = json!({
        "request": {"method": http.method, "url": http.url, "body": http.body},
        "response": {"statusCode": answer.status, "body": answer.body, "headers": answer.headers},
    });
    let outcome = Expression::parse(&http.success_condition).and_then(|one| one.is_true(&vars, now));
    match outcome {
        Ok(true) => ("Succeeded", String::new()),
        Ok(false) => ("Failed", format!("successCondition '{}' evaluated to false", http.success_condition)),
        Err(why) => ("Error", format!("successCondition '{}': {why}", http.success_condition)),
    }
}
