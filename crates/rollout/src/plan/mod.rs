//! What to do about a Rollout now.
//!
//! In: the Rollout, its ReplicaSets, pods and Services, and the time ([`Observed`]). Out: what to write, in this order, the status to write
//! after it, events, when to look again, and in a sentence what is waited for ([`Plan`]). Asked twice it says the same; a plan of which only
//! a part was carried out leads, planned again from what there is then, to the same end. Knows no client and no clock.

mod action;
mod analysis;
mod blue_green;
mod canary;
mod conditions;
mod duration;
mod experiment;
mod explain;
mod invalid;
mod metadata;
mod observed;
mod pause;
mod restart;
mod revision;
mod scale;
mod services;
mod sizes;
mod status;
mod traffic;
mod workload;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::rollout::{BlueGreen, Canary, CanaryStep, Rollout, RolloutStatus, TrafficWeights};

pub use action::{Action, Event, Target};
pub use invalid::{is_analysed, services_of};
pub use observed::Observed;
pub(crate) use observed::is_controlled_by;
pub(crate) use traffic::max_weight_of;

use crate::routing::Seen;
use crate::{identity, names};
use observed::ReplicaSet;
use pause::Pause;

/// What to do.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// In this order.
    pub actions: Vec<Action>,
    /// To be written after the actions, where it differs.
    pub status: RolloutStatus,
    /// To be told after the status was written.
    pub events: Vec<Event>,
    /// Time itself changes something then.
    pub requeue_at: Option<Timestamp>,
    /// Plan again at once: this one was only a part of it.
    pub again: bool,
    /// Why it is not moving; empty when it is where it should be.
    pub waiting: String,
}

impl Plan {
    /// Nothing is to be done, and nothing is to be said.
    fn nothing(status: &RolloutStatus) -> Self {
        Self { status: status.clone(), ..Self::default() }
    }
}

/// What to do about the Rollout now.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let rollout = &observed.rollout;
    if rollout.metadata.deletion_timestamp.is_some() {
        return Plan::nothing(&rollout.status);
    }
    let mut play = match Play::new(observed, now) {
        Ok(play) => play,
        Err(problems) => return invalid::plan(rollout, &problems, now),
    };
    play.run();
    play.finish()
}

/// Why a Rollout is not moving, by what was written about it: for readers, who need not see all that the engine sees. Empty when it is where
/// it should be.
pub fn waiting(observed: &Observed, now: Timestamp) -> String {
    let rollout = &observed.rollout;
    let status = &rollout.status;
    if let Some(invalid) = conditions::get(status, names::condition::INVALID_SPEC) {
        return format!("it cannot be carried out: {}", invalid.message);
    }
    let seen = status.observed_generation.parse::<i64>().ok();
    if seen.is_none_or(|seen| seen < rollout.metadata.generation) {
        return "its last change is not looked at yet; does a controller for Rollouts run in its cluster?"
            .into();
    }
    let (template, selector) = invalid::resolve(observed).unwrap_or_default();
    let mut play = Play::assemble(observed, now, template, selector, None);
    play.new = play.set_of(&status.current_pod_hash);
    play.runs = analysis::Runs {
        step: status.canary.current_step_analysis_run_status.clone(),
        background: status.canary.current_background_analysis_run_status.clone(),
        pre: status.blue_green.pre_promotion_analysis_run_status.clone(),
        post: status.blue_green.post_promotion_analysis_run_status.clone(),
    };
    play.experiment.clone_from(&status.canary.current_experiment);
    explain::waiting(&play)
}

/// A plan in the making. Numbers of ReplicaSets are those that will be, once it was carried out.
struct Play<'a> {
    observed: &'a Observed,
    ro: &'a Rollout,
    now: Timestamp,
    template: Value,
    selector: Value,
    sets: Vec<ReplicaSet>,
    /// The version that is wanted.
    new: Option<usize>,
    /// The one that users rely on.
    stable: Option<usize>,
    /// The Service's selectors, as they will be.
    selectors: std::collections::BTreeMap<String, String>,
    /// The objects of routers, as they will be.
    seen: Seen,
    /// What the routers are told.
    weights: Option<TrafficWeights>,
    /// Why the weights stay as they are for now.
    held: Option<String>,
    /// Why a router could not be told in this plan.
    untold: Option<String>,
    pause: Pause,
    /// The wanted version was about to be scaled down, and somebody went back to it.
    new_is_within_delay: bool,
    /// The runs of the update that is under way.
    runs: analysis::Runs,
    /// Somebody ordered the promotion that this plan makes.
    promoted_by_order: bool,
    /// The experiment that runs now.
    experiment: String,
    /// Only sizes are looked at: what somebody asked for besides is not forgotten.
    only_sizes: bool,
    status: RolloutStatus,
    plan: Plan,
}

impl<'a> Play<'a> {
    fn new(observed: &'a Observed, now: Timestamp) -> Result<Self, Vec<String>> {
        let ro = &observed.rollout;
        let (template, selector) = invalid::resolve(observed)?;
        let problems = invalid::problems(observed, &template, &selector, now);
        if !problems.is_empty() {
            return Err(problems);
        }
        let parsed = slipway_dialect::selector::Selector::parse(&selector).map_err(|error| vec![error])?;
        let mut play = Self::assemble(observed, now, template, selector, Some(&parsed));
        play.new = play.find_new();
        play.stable = play.set_of(&ro.status.stable_rs);
        play.new_is_within_delay = play.new.is_some_and(|new| play.sets[new].time_left(now).is_some());
        Ok(play)
    }

    /// Nothing is decided yet. With a selector, ReplicaSets of nobody that it fits are counted too.
    fn assemble(
        observed: &'a Observed,
        now: Timestamp,
        template: Value,
        selector: Value,
        adopts: Option<&slipway_dialect::selector::Selector>,
    ) -> Self {
        let ro = &observed.rollout;
        let is_ours = |set: &&Value| {
            observed::is_controlled_by(set, &ro.metadata.uid)
                || adopts.is_some_and(|selector| may_be_adopted(set, selector))
        };
        let mut sets: Vec<ReplicaSet> =
            observed.replica_sets.iter().filter(is_ours).map(ReplicaSet::read).collect();
        sets.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        let mut play = Self {
            observed,
            ro,
            now,
            template,
            selector,
            sets,
            new: None,
            stable: None,
            selectors: services::selectors(observed),
            seen: observed.routes.clone(),
            weights: ro.status.canary.weights.clone(),
            held: None,
            untold: None,
            pause: Pause::default(),
            new_is_within_delay: false,
            runs: analysis::Runs::default(),
            promoted_by_order: false,
            experiment: String::new(),
            only_sizes: false,
            status: ro.status.clone(),
            plan: Plan::default(),
        };
        play.stable = play.set_of(&ro.status.stable_rs);
        play
    }

    fn run(&mut self) {
        self.adopt();
        if self.ro.spec.replicas.is_none() {
            // Autoscalers need a number.
            self.plan.actions.push(Action::patch(self.rollout(), json!({"spec": {"replicas": 1}})));
            self.plan.again = true;
            return;
        }
        let Some(new) = self.new else { return self.create_new() };
        if self.prev().stable_rs == self.prev().current_pod_hash && self.pause.is_aborted(self.prev()) {
            self.pause.remove_abort = true;
        }
        if self.note_pause() {
            self.plan.again = true;
            return;
        }
        self.note_workload();
        self.sync_revision(new);
        if self.is_scaling_event() {
            return self.scale_only();
        }
        match (self.blue_green(), self.canary()) {
            (Some(blue_green), _) => self.run_blue_green(blue_green),
            (None, Some(canary)) => self.run_canary(canary),
            (None, None) => {}
        }
    }

    fn finish(mut self) -> Plan {
        self.plan.waiting = explain::waiting(&self);
        self.plan.status = self.status;
        self.plan
    }

    /// The status as it was found.
    fn prev(&self) -> &'a RolloutStatus {
        &self.ro.status
    }

    fn canary(&self) -> Option<&'a Canary> {
        self.ro.canary()
    }

    fn blue_green(&self) -> Option<&'a BlueGreen> {
        self.ro.blue_green()
    }

    fn replicas(&self) -> i64 {
        self.ro.replicas()
    }

    /// The step that is under way, and its index; `(None, Some(n))` when all are done.
    fn step(&self) -> (Option<&'a CanaryStep>, Option<i64>) {
        let Some(canary) = self.canary().filter(|canary| !canary.steps.is_empty()) else {
            return (None, None);
        };
        let index = self.prev().current_step_index.unwrap_or(0).max(0);
        (usize::try_from(index).ok().and_then(|at| canary.steps.get(at)), Some(index))
    }

    /// The ReplicaSet of this version.
    fn set_of(&self, hash: &str) -> Option<usize> {
        if hash.is_empty() {
            return None;
        }
        let of_new = self.new.filter(|new| self.sets[*new].hash == hash);
        of_new.or_else(|| self.sets.iter().position(|set| set.hash == hash))
    }

    /// Neither wanted nor stable, oldest first.
    fn others(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|at| Some(*at) != self.new && Some(*at) != self.stable).collect()
    }

    /// The stable version where it is another one than the wanted.
    fn distinct_stable(&self) -> Option<usize> {
        self.stable.filter(|stable| Some(*stable) != self.new)
    }

    fn total(&self, of: impl Fn(&ReplicaSet) -> i64) -> i64 {
        self.sets.iter().map(of).sum()
    }

    fn is_fully_promoted(&self) -> bool {
        self.prev().stable_rs == self.prev().current_pod_hash
    }

    /// The version that the pod template is of.
    fn find_new(&self) -> Option<usize> {
        let hash = identity::template_hash(&self.template, self.prev().collision_count);
        let by_hash = self.sets.iter().position(|set| set.hash == hash && !set.deleting);
        by_hash.or_else(|| {
            let wanted = metadata::plain_template(&self.template, None);
            self.sets.iter().position(|set| {
                !set.deleting
                    && identity::is_same(&metadata::plain_template(&set.template, Some(set)), &wanted)
            })
        })
    }

    /// Look again then at the latest.
    fn look_at(&mut self, at: Timestamp) {
        let next = self.plan.requeue_at.map_or(at, |before| before.min(at));
        self.plan.requeue_at = Some(next);
    }

    fn after(&self, seconds: i64) -> Timestamp {
        self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
    }

    fn tell(&mut self, reason: &'static str, message: impl Into<String>) {
        self.plan.events.push(Event { reason, warning: false, message: message.into() });
    }

    fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.plan.events.push(Event { reason, warning: true, message: message.into() });
    }

    fn rollout(&self) -> Target {
        Target::new(
            slipway_crd::names::API_VERSION,
            "Rollout",
            &self.ro.metadata.namespace,
            &self.ro.metadata.name,
        )
    }

    fn target_of(&self, set: usize) -> Target {
        Target::new("apps/v1", "ReplicaSet", &self.ro.metadata.namespace, &self.sets[set].name)
    }
}

fn may_be_adopted(set: &Value, selector: &slipway_dialect::selector::Selector) -> bool {
    let metadata = &set["metadata"];
    let labels = observed::words(&metadata["labels"]);
    let owned =
        metadata["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["controller"] == true);
    !owned
        && !metadata["deletionTimestamp"].is_string()
        && labels.contains_key(names::HASH)
        && selector.matches(&labels)
}
