//! Manifests → everything that is wrong with them, with its place.
//!
//! In: a text with any number of documents. Out: findings, in the order of the text. What upstream's own validation refuses is
//! refused here, and besides what it lets pass although it cannot work. Services, Ingresses and VirtualServices in the same text
//! are compared with the Rollouts that name them; what is not in the text is not missed.

mod analysis;
mod canary;
mod references;
mod rollout;

use slipway_crd::analysis::{AnalysisRun, AnalysisTemplate, Experiment, Metric};
use slipway_crd::rollout::Rollout;
pub(crate) use slipway_yaml::finding::Wrongs;
use slipway_yaml::finding::{Document, Wrong, documents};
pub use slipway_yaml::finding::{Finding, Level, Report};

pub fn check(text: &str) -> Report {
    let documents = match documents(text) {
        Ok(documents) => documents,
        Err(findings) => return Report { checked: 0, findings },
    };
    let mut report = Report::default();
    for document in documents.iter().filter(|document| document.is_of_group("argoproj.io")) {
        let Some(misfits) = slipway_crd::misfits(document.kind(), &document.value) else { continue };
        report.checked += 1;
        // Upstream reads Rollouts strictly, and of the other kinds drops what it does not know.
        let level = if document.kind() == "Rollout" { Level::Error } else { Level::Warning };
        let mut wrongs: Vec<Wrong> = misfits
            .into_iter()
            .map(|misfit| Wrong { level, place: misfit.place, message: misfit.message })
            .collect();
        judge(document, &documents, &mut wrongs);
        report.findings.extend(wrongs.into_iter().map(|wrong| document.found(wrong)));
    }
    report.settle();
    report
}

/// What is wrong with the metrics of a run, once its arguments are put into them: it would wait for ever, or judge by something else than
/// what was written.
pub fn problems_of_metrics(metrics: &[Metric]) -> Vec<String> {
    let mut wrongs = Vec::new();
    analysis::check_metrics(metrics, &mut Wrongs::new(&mut wrongs));
    let errors = wrongs.into_iter().filter(|wrong| wrong.level == Level::Error);
    errors.map(|wrong| format!("{}: {}", wrong.place.join("."), wrong.message)).collect()
}

/// Beyond its shape. What cannot be read as its kind has been found by its shape already.
fn judge(document: &Document, all: &[Document], wrongs: &mut Vec<Wrong>) {
    let mut wrongs = Wrongs::new(wrongs);
    if document.name().is_empty() {
        wrongs.add("metadata", "`name` or `generateName` is missing");
    }
    match document.kind() {
        "Rollout" => {
            let Ok(rollout) = serde_json::from_value::<Rollout>(document.value.clone()) else { return };
            rollout::check(&rollout, &mut wrongs);
            references::check(&rollout, all.iter().map(|document| &document.value), &mut wrongs);
        }
        "AnalysisTemplate" | "ClusterAnalysisTemplate" => {
            let Ok(template) = serde_json::from_value::<AnalysisTemplate>(document.value.clone()) else {
                return;
            };
            analysis::check_template(&template.spec, &mut wrongs.below("spec"));
        }
        "AnalysisRun" => {
            let Ok(run) = serde_json::from_value::<AnalysisRun>(document.value.clone()) else { return };
            analysis::check_run(&run.spec, &mut wrongs.below("spec"));
        }
        "Experiment" => {
            let Ok(experiment) = serde_json::from_value::<Experiment>(document.value.clone()) else { return };
            analysis::check_experiment(&experiment.spec, &mut wrongs.below("spec"));
        }
        _ => {}
    }
}
