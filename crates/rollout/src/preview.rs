//! A canary, step by step, before it is run: weights and pods.
//!
//! In: a Rollout. Out: a row for each step, played with pods that become available at once; on the way the most pods there are and
//! the fewest that are available. Does not know how long pods take or what an analysis says.

use slipway_crd::rollout::{Canary, CanaryStep, Rollout};

use crate::replicas::{self, MAX_WEIGHT, Pods, Scale, Sizes, Wanted};

/// A million pods one by one would take a while.
const ROUNDS_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `setWeight: 20`.
    pub step: String,
    /// Of the requests, for the new version.
    pub weight: i64,
    pub sizes: Sizes,
    /// While the step was carried out.
    pub most_pods: i64,
    pub fewest_available: i64,
}

/// `None`: not a canary, so there are no steps. The last row is the promotion.
pub fn steps(rollout: &Rollout) -> Option<Vec<Row>> {
    let canary = rollout.canary()?;
    let replicas = rollout.replicas();
    let (surge, unavailable) =
        replicas::bounds(canary.max_surge.as_ref(), canary.max_unavailable.as_ref(), replicas);
    let routing = canary.traffic_routing.as_ref();
    let max_weight = routing.and_then(|routing| routing.max_traffic_weight).unwrap_or(MAX_WEIGHT).max(1);
    let mut play = Play {
        canary,
        wanted: Wanted { replicas, weight: 0, max_weight, surge, unavailable },
        scale: None,
        sizes: Sizes { new: 0, stable: replicas },
    };
    let mut rows: Vec<Row> = canary.steps.iter().map(|step| play.step(step)).collect();
    play.wanted.weight = max_weight;
    play.scale = None;
    rows.push(play.row("promote".into()));
    Some(rows)
}

struct Play<'a> {
    canary: &'a Canary,
    wanted: Wanted,
    scale: Option<Scale>,
    sizes: Sizes,
}

impl Play<'_> {
    fn step(&mut self, step: &CanaryStep) -> Row {
        if let Some(weight) = step.set_weight {
            self.wanted.weight = weight;
        }
        if let Some(scale) = &step.set_canary_scale {
            self.scale = match (scale.replicas, scale.weight) {
                (Some(replicas), _) => Some(Scale::Replicas(replicas)),
                (None, Some(weight)) => Some(Scale::Weight(weight)),
                (None, None) => None,
            };
        }
        self.row(words(step))
    }

    fn row(&mut self, step: String) -> Row {
        let (most_pods, fewest_available) = match &self.canary.traffic_routing {
            Some(_) => self.routed(),
            None => self.basic(),
        };
        let weight = match &self.canary.traffic_routing {
            Some(_) => self.wanted.weight,
            // Without a router the pods are the weight.
            None => match self.sizes.new + self.sizes.stable {
                0 => 0,
                total => (self.sizes.new * self.wanted.max_weight + total / 2) / total,
            },
        };
        Row { step, weight, sizes: self.sizes, most_pods, fewest_available }
    }

    /// Pods of the new version are there before requests are sent to them, and stay until none are.
    fn routed(&mut self) -> (i64, i64) {
        let least = self.canary.min_pods_per_replica_set.unwrap_or(1);
        let before = self.sizes;
        let follows = self.canary.dynamic_stable_scale;
        self.sizes = replicas::routed(&self.wanted, self.scale, self.wanted.weight, follows, least);
        let most = before.new.max(self.sizes.new) + before.stable.max(self.sizes.stable);
        (most, before.new.min(self.sizes.new) + before.stable.min(self.sizes.stable))
    }

    /// Round by round, as the engine would: what was asked for is available at the next round.
    fn basic(&mut self) -> (i64, i64) {
        let all = |size: i64| Some(Pods { wanted: size, available: size });
        let (mut most, mut fewest) = (self.sizes.new + self.sizes.stable, i64::MAX);
        // Each round changes at least one pod, or it is the last; of very many pods not all rounds are played.
        for _ in 0..ROUNDS_MAX {
            let before = self.sizes;
            self.sizes = replicas::basic(&self.wanted, all(before.new), all(before.stable), 0);
            most = most.max(self.sizes.new + self.sizes.stable);
            fewest = fewest.min(before.new.min(self.sizes.new) + before.stable.min(self.sizes.stable));
            if before == self.sizes {
                return (most, fewest);
            }
        }
        self.sizes = replicas::closest(&self.wanted);
        (most, fewest)
    }
}

/// A step in the words of events.
pub fn step_words(step: &CanaryStep) -> String {
    match (&step.set_canary_scale, &step.analysis, &step.experiment) {
        (Some(scale), ..) => match (scale.weight, scale.replicas) {
            (Some(weight), _) => format!("setCanaryScale{{weight: {weight}}}"),
            (None, _) if scale.match_traffic_weight => "setCanaryScale{matchTrafficWeight: true}".into(),
            (None, replicas) => format!("setCanaryScale{{replicas: {}}}", replicas.unwrap_or(0)),
        },
        (_, Some(_), _) => "analysis".into(),
        (_, _, Some(_)) => "experiment".into(),
        _ => match &step.pause {
            Some(pause) => pause.duration.as_ref().map_or_else(
                || "pause".into(),
                |duration| {
                    format!(
                        "pause: {}",
                        duration.as_str().map_or_else(|| duration.to_string(), str::to_owned)
                    )
                },
            ),
            None => words(step),
        },
    }
}

/// A step in the words that users wrote.
fn words(step: &CanaryStep) -> String {
    if let Some(weight) = step.set_weight {
        return format!("setWeight: {weight}");
    }
    if let Some(pause) = &step.pause {
        return match &pause.duration {
            Some(serde_json::Value::String(text)) => format!("pause: {text}"),
            Some(duration) => format!("pause: {duration}s"),
            None => "pause".into(),
        };
    }
    if let Some(scale) = &step.set_canary_scale {
        return match (scale.replicas, scale.weight) {
            (Some(replicas), _) => format!("setCanaryScale: {replicas} pods"),
            (None, Some(weight)) => format!("setCanaryScale: {weight} %"),
            (None, None) => "setCanaryScale: as the traffic".into(),
        };
    }
    if let Some(route) = &step.set_header_route {
        return format!("setHeaderRoute: {}", route.name);
    }
    if let Some(route) = &step.set_mirror_route {
        return format!("setMirrorRoute: {}", route.name);
    }
    if let Some(analysis) = &step.analysis {
        let names: Vec<&str> =
            analysis.templates.iter().map(|template| template.template_name.as_str()).collect();
        return format!("analysis: {}", names.join(", "));
    }
    if let Some(experiment) = &step.experiment {
        let names: Vec<&str> = experiment.templates.iter().map(|template| template.name.as_str()).collect();
        return format!("experiment: {}", names.join(", "));
    }
    step.plugin.as_ref().map_or_else(|| "nothing".into(), |plugin| format!("plugin: {}", plugin.name))
}
