//! One template, carried out as one node: what every kind of template has in common.

use serde_json::Value;
use slipway_crd::workflow::{Arguments, Template, TemplateRef};

use super::library::{TemplateKey, merge};
use super::nodes::{Fresh, is_fulfilled};
use super::{DEPTH_MAX, Halt, NODES_MAX, Run};
use crate::scope::Scope;

/// What a step, a task, a hook or a workflow asks for.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    pub name: String,
    pub reference: Option<TemplateRef>,
    pub inline: Option<Value>,
}

impl Asked {
    pub(super) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// A node to be carried out.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub name: String,
    pub template: Asked,
    /// With their values.
    pub arguments: Arguments,
    /// The id of the node that it belongs to.
    pub boundary: String,
    /// The object that the asker stands in; `None`: the Workflow.
    pub home: Option<TemplateKey>,
    /// As nodes show it.
    pub scope: Option<String>,
    /// A handler of an end: goes on while everything else is stopped.
    pub on_exit: bool,
    pub hooked: bool,
    pub retried: bool,
    /// What its container prints is read by others.
    pub result_is_read: bool,
    /// More names for leaves: `retries`, `lastRetry.…`.
    pub local: Scope,
}

/// A template, and the object that it stands in.
pub(super) struct Found {
    pub template: Template,
    pub home: Option<TemplateKey>,
}

impl Run<'_> {
    /// Carries a node on, as far as it goes now. Gives its id, when there is one.
    pub(super) fn execute(&mut self, call: &Call) -> Result<Option<String>, Halt> {
        if self.depth >= DEPTH_MAX {
            // Not an error of this node alone: those beside it go just as deep.
            self.overflow.get_or_insert_with(|| format!("templates are nested deeper than {DEPTH_MAX}"));
        }
        if !self.has_room() {
            return Err(Halt::Limit);
        }
        self.depth += 1;
        let done = self.execute_here(call);
        self.depth -= 1;
        done
    }

    /// False: the workflow is too large, and nothing more of it is looked at.
    pub(super) fn has_room(&mut self) -> bool {
        if self.status.nodes.len() >= NODES_MAX {
            self.overflow.get_or_insert_with(|| format!("it would have more than {NODES_MAX} nodes"));
        }
        self.overflow.is_none()
    }

    fn execute_here(&mut self, call: &Call) -> Result<Option<String>, Halt> {
        if let Some(node) = self.node(&call.name)
            && is_fulfilled(node)
        {
            return Ok(Some(node.id.clone()));
        }
        if self.is_ending() && !call.on_exit && self.node(&call.name).is_none() {
            return Err(Halt::Limit);
        }
        let found = self.find(call)?;
        let call = Call { scope: found.home.as_ref().map(TemplateKey::scope), ..call.clone() };
        if self.is_over(&call, &found.template)? {
            return Ok(self.node_id_of(&call.name));
        }
        if !self.takes_locks(&call, &found.template)? {
            return Ok(self.node_id_of(&call.name));
        }
        if let Some(id) = self.recall(&call, &found.template)? {
            return Ok(Some(id));
        }
        let strategy = found.template.retry_strategy.clone().or_else(|| self.spec.retry_strategy.clone());
        let id = match strategy.filter(|_| !call.retried) {
            Some(strategy) => self.execute_with_retries(&call, &found, &strategy)?,
            None => self.dispatch(&call, &found)?,
        };
        // What began just now has its end as well.
        self.is_over(&call, &found.template)?;
        self.remember(&call, &found.template)?;
        Ok(id)
    }

    /// By what kind of template it is.
    pub(super) fn dispatch(&mut self, call: &Call, found: &Found) -> Result<Option<String>, Halt> {
        let (inputs, mut scope) = self.inputs(&found.template, &call.arguments)?;
        scope.extend(&call.local);
        scope.set("node.name", call.name.as_str());
        let template = Template { inputs, ..found.template.clone() };
        let id = if template.steps.is_some() {
            self.execute_steps(call, &template, &found.home, &scope)?
        } else if template.dag.is_some() {
            self.execute_dag(call, &template, &found.home, &scope)?
        } else if template.suspend.is_some() {
            self.execute_suspend(call, &template, &scope)?
        } else if template.http.is_some() {
            self.execute_http(call, &template, &scope)?
        } else {
            self.execute_pod(call, &template, &scope)?
        };
        if let Some(node) = self.status.nodes.get_mut(&id)
            && node.inputs.is_none()
            && !template.inputs.parameters.is_empty()
        {
            node.inputs = Some(template.inputs.clone());
        }
        Ok(Some(id))
    }

    /// The kind of node that a call becomes, for one that cannot be carried out.
    pub(super) fn kind_of(&mut self, call: &Call) -> &'static str {
        match self.find(call) {
            Ok(found) if found.template.steps.is_some() => "Steps",
            Ok(found) if found.template.dag.is_some() => "DAG",
            Ok(found) if found.template.suspend.is_some() => "Suspend",
            Ok(found) if found.template.http.is_some() => "HTTP",
            Ok(_) => "Pod",
            Err(_) => "Skipped",
        }
    }

    /// The template that is meant. Those of other objects are kept in the status: a workflow goes on with what it began with.
    pub(super) fn find(&mut self, call: &Call) -> Result<Found, Halt> {
        let asked = &call.template;
        if let Some(inline) = &asked.inline {
            let template = serde_json::from_value(inline.clone())
                .map_err(|error| format!("the inline template cannot be read: {error}"))?;
            return Ok(Found { template: self.with_defaults(template), home: call.home.clone() });
        }
        let (home, name) = match &asked.reference {
            Some(one) => (Some(TemplateKey::new(one.cluster_scope, &one.name)), &one.template),
            None => (call.home.clone(), &asked.name),
        };
        let Some(key) = home else {
            let known = self.spec.templates.iter().find(|template| template.name == *name);
            let template = known.cloned().ok_or_else(|| format!("template `{name}` is not there"))?;
            return Ok(Found { template: self.with_defaults(template), home: None });
        };
        let stored = format!("{}/{name}", key.scope());
        if let Some(template) = self.status.stored_templates.get(&stored) {
            return Ok(Found { template: self.with_defaults(template.clone()), home: Some(key) });
        }
        let spec = self.observed.library.specs.get(&key);
        let spec = spec.ok_or_else(|| format!("template `{}` is not there", key.scope()))?;
        let template = spec.templates.iter().find(|template| template.name == *name).cloned();
        let template = template.ok_or_else(|| format!("template `{stored}` is not there"))?;
        self.status.stored_templates.insert(stored, template.clone());
        Ok(Found { template: self.with_defaults(template), home: Some(key) })
    }

    /// What `templateDefaults` say, where the template says nothing.
    fn with_defaults(&self, template: Template) -> Template {
        let Some(defaults) = &self.spec.template_defaults else { return template };
        let (Ok(under), Ok(over)) = (serde_json::to_value(defaults), serde_json::to_value(&template)) else {
            return template;
        };
        serde_json::from_value(merge(under, over)).unwrap_or(template)
    }

    /// How many children of a node run or wait for their end.
    pub(super) fn children_running(&self, boundary: &str) -> i64 {
        let running = self.status.nodes.values().filter(|node| {
            node.boundary_id == boundary
                && !is_fulfilled(node)
                && !matches!(node.r#type.as_str(), "StepGroup" | "TaskGroup")
                && node.node_flag.as_ref().is_none_or(|flag| !flag.retried)
        });
        i64::try_from(running.count()).unwrap_or(i64::MAX)
    }

    /// A child that does not exist yet may have to wait: `parallelism` of its template.
    pub(super) fn may_begin(&self, boundary: &str, limit: Option<i64>, name: &str) -> bool {
        self.node(name).is_some() || limit.is_none_or(|limit| self.children_running(boundary) < limit)
    }

    /// Carries a child on; what cannot be carried out is a node that says why.
    pub(super) fn execute_child(&mut self, call: &Call) -> Option<String> {
        match self.execute(call) {
            Ok(id) => id,
            Err(Halt::Limit) => None,
            Err(Halt::Error(why)) => {
                self.fail_node(call, &why);
                self.node_id_of(&call.name)
            }
        }
    }

    /// A node that is passed over.
    pub(super) fn skip(&mut self, call: &Call, phase: &str, message: &str) -> String {
        self.make_node(call, &Fresh { kind: "Skipped", phase, message })
    }
}
