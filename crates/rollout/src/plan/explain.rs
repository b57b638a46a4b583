//! Why a Rollout is not moving, in a sentence for people.

use slipway_crd::rollout::CanaryStep;

use super::{Play, conditions, pause};
use crate::names::{condition, pause as reasons};

/// Empty when it is where it should be.
pub(super) fn waiting(play: &Play<'_>) -> String {
    let (status, name) = (&play.status, &play.ro.metadata.name);
    let revision = play.revision();
    if status.abort {
        let why = conditions::get(status, condition::PROGRESSING)
            .map(|one| one.message.clone())
            .unwrap_or_default();
        return format!(
            "{why}; the stable version serves. Try again with `slipway rollout retry {name}`, or change the pod template"
        );
    }
    if play.ro.spec.paused {
        return format!("somebody paused it (spec.paused); `slipway rollout promote {name}` goes on");
    }
    if let Some(sentence) = paused(play) {
        return sentence;
    }
    if !play.experiment.is_empty() {
        return format!("the experiment {} runs", play.experiment);
    }
    if let Some(sentence) = analysed(play) {
        return sentence;
    }
    if let Some(held) = &play.held {
        return held.clone();
    }
    if let Some(weights) = play.weights.as_ref().filter(|weights| weights.verified == Some(false)) {
        return format!("the router has not taken the weight {} yet", weights.canary.weight);
    }
    if let Some(failure) = conditions::get(status, condition::REPLICA_FAILURE) {
        return format!("pods cannot be made: {}", failure.message);
    }
    if play.ro.spec.restart_at.is_some() && play.ro.spec.restart_at != status.restarted_at {
        return "pods are being restarted, a few at a time".into();
    }
    let Some(new) = play.new.map(|new| &play.sets[new]) else {
        return format!("the ReplicaSet of revision {revision} is being made");
    };
    if new.available < new.wanted {
        let (there, wanted) = (new.available, new.wanted);
        return format!("{there} of {wanted} pods of revision {revision} ({}) are available", new.name);
    }
    let stable = play.distinct_stable().map(|at| &play.sets[at]);
    if let Some(stable) =
        stable.filter(|stable| stable.available < stable.wanted && new.wanted < play.replicas())
    {
        return format!(
            "{} of {} pods of the stable version ({}) are available",
            stable.available, stable.wanted, stable.name
        );
    }
    if status.phase == "Healthy" {
        return String::new();
    }
    let leaving: i64 = play.sets.iter().map(|set| (set.actual - set.wanted).max(0)).sum();
    if leaving > 0 {
        return format!("{leaving} pods are leaving");
    }
    status.message.clone()
}

/// An analysis that decides whether it goes on.
fn analysed(play: &Play<'_>) -> Option<String> {
    let (step, index) = play.step();
    let in_step = step.is_some_and(|step| step.analysis.is_some());
    let run =
        play.runs.step.as_ref().filter(|_| in_step).or(play.runs.pre.as_ref()).or(play.runs.post.as_ref())?;
    if crate::analysis::is_completed(&run.status) {
        return None;
    }
    let of = if in_step { format!("step {} waits for ", index.unwrap_or(0) + 1) } else { String::new() };
    let phase = if run.status.is_empty() { "Pending" } else { &run.status };
    Some(format!("{of}the analysis {} ({phase})", run.name))
}

fn paused(play: &Play<'_>) -> Option<String> {
    let (status, name) = (&play.status, &play.ro.metadata.name);
    let first = status.pause_conditions.first()?;
    let until = |seconds: Option<i64>| seconds.and_then(|seconds| pause::end(first, seconds));
    Some(match first.reason.as_str() {
        reasons::CANARY_STEP => {
            let (step, index) = play.step();
            let at = index.unwrap_or(0) + 1;
            let of = play.canary().map_or(0, |canary| canary.steps.len());
            let Some(CanaryStep { pause: Some(step), .. }) = step else { return Some("it is paused".into()) };
            match until(pause::seconds(step)) {
                Some(end) => format!("step {at} of {of} pauses until {end}"),
                None => format!(
                    "step {at} of {of} waits for a person: `slipway rollout promote {name}` goes on, `slipway rollout abort {name}` goes back"
                ),
            }
        }
        reasons::BLUE_GREEN => {
            let seconds = play
                .blue_green()
                .map(|blue_green| blue_green.auto_promotion_seconds)
                .filter(|seconds| *seconds > 0);
            match until(seconds) {
                Some(end) => {
                    format!("the preview is promoted at {end}, or with `slipway rollout promote {name}`")
                }
                None => format!(
                    "the preview waits for a person: `slipway rollout promote {name}` makes it active"
                ),
            }
        }
        other => format!(
            "it is paused ({other}); `slipway rollout promote {name}` goes on, `slipway rollout abort {name}` goes back"
        ),
    })
}
