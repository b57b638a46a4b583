//! From templates to a run: those that a template brings along, metrics of all of them, arguments with their values.

use slipway_crd::analysis::{AnalysisRunSpec, AnalysisTemplate, Argument};
use slipway_crd::rollout::{AnalysisTemplateRef, DryRun, MeasurementRetention};

/// The templates that are named, and those that they name; each once.
pub fn collect<'a>(
    named: &[AnalysisTemplateRef],
    all: &'a [AnalysisTemplate],
) -> Result<Vec<&'a AnalysisTemplate>, String> {
    let mut found: Vec<&AnalysisTemplate> = Vec::new();
    let mut left: Vec<&AnalysisTemplateRef> = named.iter().rev().collect();
    while let Some(next) = left.pop() {
        let kind = if next.cluster_scope { "ClusterAnalysisTemplate" } else { "AnalysisTemplate" };
        let template = all.iter().find(|one| one.kind == kind && one.metadata.name == next.template_name);
        let template = template.ok_or_else(|| format!("{kind} '{}' not found", next.template_name))?;
        if !found.iter().any(|known| std::ptr::eq(*known, template)) {
            found.push(template);
            left.extend(template.spec.templates.iter().rev());
        }
    }
    Ok(found)
}

/// The spec of a run. `given`: arguments with their values, which win over those of templates.
pub fn compose(
    templates: &[&AnalysisTemplate],
    given: &[Argument],
    dry_run: &[DryRun],
    retention: &[MeasurementRetention],
) -> Result<AnalysisRunSpec, String> {
    let mut run = AnalysisRunSpec::default();
    for template in templates {
        let spec = &template.spec;
        for metric in &spec.metrics {
            if run.metrics.iter().any(|known| known.name == metric.name) {
                return Err(format!("two metrics have the same name '{}'", metric.name));
            }
            run.metrics.push(metric.clone());
        }
        for argument in &spec.args {
            match run.args.iter_mut().find(|known| known.name == argument.name) {
                Some(known) if !has_value(known) => *known = argument.clone(),
                Some(known) if has_value(argument) && known != argument => {
                    return Err(format!("two templates give argument '{}' different values", argument.name));
                }
                Some(_) => {}
                None => run.args.push(argument.clone()),
            }
        }
        run.dry_run.extend(spec.dry_run.iter().cloned());
        run.measurement_retention.extend(spec.measurement_retention.iter().cloned());
    }
    if run.metrics.is_empty() {
        return Err("no metrics specified".into());
    }
    for argument in &mut run.args {
        if let Some(value) = given.iter().find(|given| given.name == argument.name) {
            argument.clone_from(value);
        }
        if !has_value(argument) {
            return Err(format!("args.{} was not resolved", argument.name));
        }
    }
    run.dry_run.extend(dry_run.iter().cloned());
    run.measurement_retention.extend(retention.iter().cloned());
    Ok(run)
}

fn has_value(argument: &Argument) -> bool {
    argument.value.is_some() || argument.value_from.is_some()
}
