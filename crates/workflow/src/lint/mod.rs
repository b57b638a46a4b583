//! Manifests → everything that is wrong with them, with its place.
//!
//! In: a text with any number of documents, and templates that stand in other texts ([`Library`]). Out: findings, in the order of the
//! text. What upstream's own validation refuses is refused here, all of it at once; besides, what it takes and cannot be meant is
//! warned about. A template that is referred to and is in none of the texts is not missed: it may be in the cluster.

mod arguments;
mod cron;
mod dag;
mod leaf;
mod metrics;
mod names;
mod outputs;
mod scope;
mod spec;
mod steps;
mod template;

use std::collections::BTreeMap;

pub(crate) use dag::cycle;

use slipway_crd::workflow::{CronWorkflow, Template, Workflow, WorkflowSpec};
use slipway_yaml::finding::{Document, Level, Wrong, Wrongs, documents};
pub use slipway_yaml::finding::{Finding, Report};

const GROUP: &str = "argoproj.io";

/// WorkflowTemplates and ClusterWorkflowTemplates that others may refer to.
#[derive(Debug, Default)]
pub struct Library {
    /// By scope (true: of the cluster) and name.
    templates: BTreeMap<(bool, String), WorkflowSpec>,
}

impl Library {
    /// What cannot be read is left out: whoever checks it says so.
    pub fn add(&mut self, text: &str) {
        for document in documents(text).unwrap_or_default() {
            self.take(&document);
        }
    }

    fn take(&mut self, document: &Document) {
        let cluster = match document.kind() {
            "WorkflowTemplate" => false,
            "ClusterWorkflowTemplate" => true,
            _ => return,
        };
        if !document.is_of_group(GROUP) {
            return;
        }
        if let Ok(workflow) = serde_json::from_value::<Workflow>(document.value.clone()) {
            self.templates.insert((cluster, document.name().to_owned()), workflow.spec);
        }
    }

    pub(crate) fn spec(&self, cluster: bool, name: &str) -> Option<&WorkflowSpec> {
        self.templates.get(&(cluster, name.to_owned()))
    }

    /// `Err`: the object is known, and has no such template.
    pub(crate) fn template(
        &self,
        cluster: bool,
        name: &str,
        template: &str,
    ) -> Result<Option<&Template>, ()> {
        let Some(spec) = self.spec(cluster, name) else { return Ok(None) };
        spec.templates.iter().find(|known| known.name == template).map(Some).ok_or(())
    }
}

pub fn check(text: &str, library: &Library) -> Report {
    let documents = match documents(text) {
        Ok(documents) => documents,
        Err(findings) => return Report { checked: 0, findings },
    };
    let mut all = Library { templates: library.templates.clone() };
    documents.iter().for_each(|document| all.take(document));
    let mut report = Report::default();
    for document in documents.iter().filter(|document| document.is_of_group(GROUP)) {
        let Some(misfits) = slipway_crd::workflow_misfits(document.kind(), &document.value) else { continue };
        report.checked += 1;
        let mut wrongs: Vec<Wrong> = misfits
            .into_iter()
            .map(|misfit| Wrong { level: Level::Error, place: misfit.place, message: misfit.message })
            .collect();
        judge(document, &all, &mut wrongs);
        report.findings.extend(wrongs.into_iter().map(|wrong| document.found(wrong)));
    }
    report.settle();
    report
}

/// Beyond its shape. What cannot be read as its kind has been found by its shape already.
fn judge(document: &Document, library: &Library, wrongs: &mut Vec<Wrong>) {
    let mut wrongs = Wrongs::new(wrongs);
    names::check_object(document, &mut wrongs);
    let value = document.value.clone();
    match document.kind() {
        "CronWorkflow" => {
            let Ok(object) = serde_json::from_value::<CronWorkflow>(value) else { return };
            cron::check(&object.spec, &mut wrongs.below("spec"));
            let mut metadata = object.metadata;
            if let Some(own) = &object.spec.workflow_metadata {
                metadata.labels.extend(own.labels.clone());
                metadata.annotations.extend(own.annotations.clone());
            }
            let kind = spec::Kind::Workflow;
            let given = spec::Given {
                kind,
                metadata: &metadata,
                library,
                value: &document.value["spec"]["workflowSpec"],
            };
            spec::check(&object.spec.workflow_spec, &given, &mut wrongs.below("spec.workflowSpec"));
        }
        kind => {
            let Ok(object) = serde_json::from_value::<Workflow>(value) else { return };
            let kind = if kind == "Workflow" { spec::Kind::Workflow } else { spec::Kind::Template };
            let given =
                spec::Given { kind, metadata: &object.metadata, library, value: &document.value["spec"] };
            spec::check(&object.spec, &given, &mut wrongs.below("spec"));
        }
    }
}
