//! The whole way from an ApplicationSet to its Applications.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use slipway_crd::{Application, ApplicationSet, names};

use super::fill::Filler;
use super::generators::{Failure, World};
use super::needs::{Answers, Need};
use super::params::Params;
use super::patch;

/// Reasons as users' tools know them.
pub(super) const PARAMS_ERROR: &str = "ApplicationGenerationFromParamsError";
pub(super) const RENDER_ERROR: &str = "RenderTemplateParamsError";

/// What came of one attempt. While there are needs, the rest is only half the truth: answer them and ask again.
pub struct Generation {
    pub needs: Vec<Need>,
    pub outcome: Result<Generated, GenerationError>,
}

/// Why there are no Applications. Nothing may be touched then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationError {
    pub reason: &'static str,
    pub message: String,
}

/// The Applications, and what was odd about them.
#[derive(Debug, Clone, Default)]
pub struct Generated {
    /// As they should be, in the order of the generators.
    pub applications: Vec<Value>,
    /// Generators that came back empty although they are not lists that the user wrote.
    pub empty: Vec<String>,
    /// Look again after this time; none: only when something happens.
    pub requeue_after_seconds: Option<i64>,
}

/// Runs the generators and fills the template.
pub fn generate(set: &ApplicationSet, answers: &Answers, now: Timestamp) -> Generation {
    let filler =
        Filler { go: set.spec.go_template, options: &set.spec.go_template_options, now, seed: seed(set) };
    let world = World::new(answers, &filler);
    let mut generated = Generated::default();
    let mut problems: Vec<(&'static str, String)> = Vec::new();
    let template = serde_json::to_value(&set.spec.template).unwrap_or_default();
    let mut waiting = false;
    for (index, generator) in set.spec.generators.iter().enumerate() {
        generated.requeue_after_seconds =
            sooner(generated.requeue_after_seconds, super::generators::requeue_after_seconds(generator));
        match world.transform(generator, Some(&template), None, 0) {
            Err(Failure::Waiting) => waiting = true,
            Err(Failure::Problem(message)) => problems.push((PARAMS_ERROR, message)),
            Ok(parts) => {
                for part in &parts {
                    if part.params.is_empty() && !part.may_be_empty {
                        generated.empty.push(format!("spec.generators[{index}].{}", part.kind));
                    }
                    for params in &part.params {
                        match application(set, &filler, &part.template, params) {
                            Ok(application) => generated.applications.push(application),
                            Err(message) => problems.push((RENDER_ERROR, message)),
                        }
                    }
                }
            }
        }
    }
    let needs = world.into_needs();
    debug_assert!(!waiting || !needs.is_empty(), "who waits has asked");
    let outcome = match problems.first() {
        None => Ok(generated),
        Some((reason, _)) => {
            let mut messages: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
            messages.dedup();
            Err(GenerationError { reason, message: messages.join("; ") })
        }
    };
    Generation { needs, outcome }
}

pub(super) fn sooner(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// FNV-1a over what names the ApplicationSet.
fn seed(set: &ApplicationSet) -> u64 {
    let text = format!("{}/{}/{}", set.metadata.namespace, set.metadata.name, set.metadata.uid);
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// One Application out of one parameter set.
fn application(
    set: &ApplicationSet,
    filler: &Filler<'_>,
    template: &Value,
    params: &Params,
) -> Result<Value, String> {
    let data = Filler::data(params);
    let filled = filler.tree(template, &data)?;
    let mut metadata = Map::new();
    for field in ["name", "labels", "annotations", "finalizers"] {
        match &filled["metadata"][field] {
            Value::Null => {}
            value => {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
    }
    let preserve = set.spec.sync_policy.as_ref().is_some_and(|policy| policy.preserve_resources_on_deletion);
    let has_finalizers =
        metadata.get("finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if !preserve && !has_finalizers {
        metadata.insert("finalizers".into(), json!([names::RESOURCES_FINALIZER]));
    }
    let mut application = json!({
        "apiVersion": names::API_VERSION,
        "kind": "Application",
        "metadata": metadata,
        "spec": filled["spec"],
    });
    if let Some(text) = set.spec.template_patch.as_deref().filter(|text| !text.trim().is_empty()) {
        let text = filler.text(text, &data).map_err(|error| format!("spec.templatePatch: {error}"))?;
        application = patch::apply(&application, &text)?;
    }
    // Whoever may write an ApplicationSet in one namespace must not thereby write Applications in another.
    application["metadata"]["namespace"] = json!(set.metadata.namespace);
    let name = application["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if name.is_empty() {
        return Err(
            "the template gives an Application without a name; fill spec.template.metadata.name".into()
        );
    }
    // Reading it as an Application finds what the cluster would refuse, and leaves empty fields out.
    let read: Application = serde_json::from_value(application)
        .map_err(|error| format!("the template gives no valid Application {name}: {error}"))?;
    serde_json::to_value(read).map_err(|error| error.to_string())
}
