//! The queue: what a new build ends, what may run now, and what a build waits for.
//!
//! Order is priority, then age (`store::builds::take`). Limits are asked of the pipeline as it is now, not as it was
//! when the build was made.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use slipway_api::pipeline::{
    GitTrigger, Pipeline, Settings, TerminationPolicy, TriggerSettings, runtime_name,
};
use slipway_model::{BuildId, PipelineId};
use slipway_store::agents::{self, Agent};
use slipway_store::annotations::{self, Annotation};
use slipway_store::builds::{self, Build, Elsewhere, Limits, NewBuild, Queue};
use slipway_store::{Scope, StoreError, Tx, identity, pipelines, runtime_environments};

use crate::ci::orders::Order;
use crate::ci::triggers::matching::Pattern;
use crate::ctx::Server;
use crate::settings::AccountSettings;

/// The annotation that ties a build to the one that started it.
pub(crate) const PREDECESSOR: &str = "cf_predecessor";

fn trigger_of<'p>(pipeline: &'p Pipeline, name: &str) -> Option<&'p GitTrigger> {
    pipeline.spec.triggers.iter().find(|trigger| trigger.name == name)
}

/// What ties a build to its cause.
#[derive(Clone, Copy)]
pub(crate) struct Why<'a> {
    /// The same gives the same build.
    pub(crate) cause: &'a str,
    /// No build can be there for it yet.
    pub(crate) is_new: bool,
}

/// Makes the build for this cause unless it is there, and ends what the pipeline's policy says it ends. For [`crate::ci::start`].
pub(crate) fn enqueue(
    server: &Server,
    tx: &mut Tx<'_>,
    scope: Scope,
    row: &pipelines::Pipeline,
    pipeline: &Pipeline,
    order: &Order,
    why: Why<'_>,
) -> Result<BuildId, StoreError> {
    let settings = pipeline.spec.settings().unwrap_or_default();
    let commit = order.commit.as_ref();
    let (trigger, branch) =
        commit.map(|commit| (commit.trigger_name.as_str(), commit.branch.as_str())).unwrap_or_default();
    let of_trigger =
        trigger_of(pipeline, trigger).and_then(|found| found.settings().ok()).unwrap_or_default();
    let priority = of_trigger.priority.or(settings.priority).unwrap_or(0).clamp(-100, 100);
    let (id, now_ms) = (server.seams().new_id(), server.now_ms());
    let revision = commit.map(|commit| commit.sha.as_str()).unwrap_or_default();
    let queue = Queue { priority, trigger, branch, revision };
    let new = NewBuild { id, pipeline: row.id, pipeline_name: &row.name, order, cause: why.cause, queue };
    let made = match why.is_new {
        true => builds::create_new(tx, scope, &new, now_ms)?,
        false => builds::create(tx, scope, &new, now_ms)?,
    };
    if made != id {
        return Ok(made);
    }
    for (name, value) in &order.annotations {
        let annotation = Annotation { name: name.clone(), value: value.to_string(), at_ms: now_ms };
        annotations::set(tx, scope, "build", &made.to_string(), &annotation)?;
    }
    let policies = of_trigger.termination_policy.or(settings.termination_policy).unwrap_or_default();
    for policy in policies.iter().filter(|policy| policy.kind == "branch" && policy.event == "onCreate") {
        for other in builds::unfinished(tx, scope, row.id)? {
            if other.id != made && ends(policy, &other, trigger, branch) {
                let why = format!("the pipeline's policy, because build {made} started");
                end(tx, scope, other.id, &why, now_ms)?;
            }
        }
    }
    Ok(made)
}

fn ends(policy: &TerminationPolicy, other: &Build, trigger: &str, branch: &str) -> bool {
    let everything = policy.ignore_branch == Some(true);
    let same_branch = everything || other.branch == branch;
    let same_trigger = everything || policy.ignore_trigger == Some(true) || other.trigger == trigger;
    let named = policy.branch_name.as_deref().is_none_or(|pattern| fits(pattern, &other.branch));
    same_branch && same_trigger && named
}

/// `/regex/flags`, or a bare regular expression. One that cannot be used fits nothing.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    Pattern::parse(pattern).is_ok_and(|pattern| pattern.fits(text))
}

/// Terminates a build, and those that it started when their pipelines ask for that.
pub(crate) fn end(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: BuildId,
    by: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let mut ending = vec![(id, by.to_owned())];
    let mut seen = vec![id];
    while let Some((id, by)) = ending.pop() {
        builds::terminate(tx, scope, id, &by, now_ms)?;
        for child in children(tx, scope, id)? {
            if !seen.contains(&child) {
                seen.push(child);
                ending.push((child, format!("its pipeline's policy, because build {id} was terminated")));
            }
        }
    }
    Ok(())
}

fn children(tx: &mut Tx<'_>, scope: Scope, parent: BuildId) -> Result<Vec<BuildId>, StoreError> {
    let mut found = Vec::new();
    let value = serde_json::Value::from(parent.to_string()).to_string();
    for entity in annotations::with(tx, scope, "build", PREDECESSOR, &value)? {
        let Ok(id) = entity.parse() else { continue };
        let Some(build) = builds::by_id(tx, scope, id)?.filter(|build| !build.status.is_final()) else {
            continue;
        };
        let Some(row) = pipelines::by_name(tx, scope, &build.pipeline.to_string())? else { continue };
        let pipeline: Pipeline = serde_json::from_str(&row.body).map_err(StoreError::corrupt)?;
        let policies = pipeline.spec.settings().unwrap_or_default().termination_policy.unwrap_or_default();
        let asks = policies.iter().any(|policy| {
            let key = policy.key.as_deref().is_none_or(|key| key == PREDECESSOR);
            policy.kind == "annotation" && policy.event == "onTerminate" && key
        });
        if asks {
            found.push(id);
        }
    }
    Ok(found)
}

/// Who asks for builds.
#[derive(Clone, Copy)]
pub(crate) enum Taking<'a> {
    /// A runner of this name.
    Runner(&'a str),
    /// Whoever of the runners waits: says whether one of a name does.
    Waiting(&'a dyn Fn(&str) -> bool),
    /// An agent of the published runner, for these runtime environments and no others.
    Agent(&'a [String]),
    /// Nobody: somebody wants to know what a build waits for.
    Nobody,
}

/// What pipelines allow, each looked up once for each call.
pub(crate) struct Allowed<'a> {
    known: HashMap<PipelineId, (Settings, HashMap<String, TriggerSettings>)>,
    paused: bool,
    /// Which of the names that were asked for are runners of the account, its agents, and who of all these asks.
    runners: HashMap<String, bool>,
    agents: Vec<Agent>,
    taking: Taking<'a>,
    /// The runtime environment of pipelines that name none.
    default: Option<String>,
}

impl<'a> Allowed<'a> {
    pub(crate) fn load(tx: &mut Tx<'_>, scope: Scope, taking: Taking<'a>) -> Result<Self, StoreError> {
        let account = identity::account_by_id(tx, scope.account())?;
        let paused = account.is_some_and(|account| AccountSettings::of(&account).pause_builds);
        let (agents, default) = (agents::list(tx, scope)?, runtime_environments::default_name(tx, scope)?);
        let mut allowed =
            Self { known: HashMap::new(), paused, runners: HashMap::new(), agents, taking, default };
        if let Some(name) = allowed.default.clone() {
            allowed.ask_for(tx, scope, &name)?;
        }
        Ok(allowed)
    }

    /// Whether a runner has this name: there may be thousands, of which pipelines name a few.
    fn ask_for(&mut self, tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<(), StoreError> {
        if !self.runners.contains_key(name) {
            let found = builds::runner(tx, scope, name)?.is_some();
            self.runners.insert(name.to_owned(), found);
        }
        Ok(())
    }

    /// What a pipeline asks for now; nothing when it is gone.
    fn learn(&mut self, tx: &mut Tx<'_>, scope: Scope, id: PipelineId) -> Result<(), StoreError> {
        let mut found: (Settings, HashMap<String, TriggerSettings>) = Default::default();
        if let Some(row) = pipelines::by_name(tx, scope, &id.to_string())? {
            let pipeline: Pipeline = serde_json::from_str(&row.body).map_err(StoreError::corrupt)?;
            found.0 = pipeline.spec.settings().unwrap_or_default();
            for trigger in &pipeline.spec.triggers {
                found.1.insert(trigger.name.clone(), trigger.settings().unwrap_or_default());
            }
        }
        let of_triggers = found.1.values().map(|trigger| trigger.runtime_environment.as_ref());
        for named in of_triggers.chain([found.0.runtime_environment.as_ref()]) {
            if let Some(name) = runtime_name(named) {
                self.ask_for(tx, scope, name)?;
            }
        }
        self.known.insert(id, found);
        Ok(())
    }

    pub(crate) fn of(&mut self, tx: &mut Tx<'_>, scope: Scope, build: &Build) -> Result<Limits, StoreError> {
        if !self.known.contains_key(&build.pipeline) {
            self.learn(tx, scope, build.pipeline)?;
        }
        let (settings, triggers) = &self.known[&build.pipeline];
        let trigger = triggers.get(&build.trigger);
        let of_trigger = trigger.and_then(|trigger| trigger.concurrency);
        let (wanted, of_pipeline) = self.wanted(build);
        let elsewhere = match self.taking {
            Taking::Runner(taker) => wanted.is_some_and(|name| name != taker),
            Taking::Waiting(is_free) => wanted.is_some_and(|name| !is_free(name)),
            // A runner of ours that has the name is preferred.
            Taking::Agent(runtimes) => !wanted
                .is_some_and(|name| runtimes.iter().any(|runtime| runtime == name) && !self.has_runner(name)),
            Taking::Nobody => wanted.is_some(),
        };
        Ok(Limits {
            pipeline: if self.paused { Some(0) } else { settings.concurrency },
            elsewhere: elsewhere.then_some(if of_pipeline { Elsewhere::Pipeline } else { Elsewhere::Build }),
            trigger: of_trigger.or(settings.trigger_concurrency).filter(|_| !build.trigger.is_empty()),
            branch: settings.branch_concurrency.filter(|_| !build.branch.is_empty()),
            approvals_count: settings
                .options
                .as_ref()
                .is_some_and(|options| options.pending_approval_concurrency_applied == Some(true)),
        })
    }
}

impl Allowed<'_> {
    fn has_runner(&self, name: &str) -> bool {
        self.runners.get(name).copied().unwrap_or_default()
    }

    fn agent_of(&self, runtime: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.runtimes.iter().any(|served| served == runtime))
    }

    /// The runtime environment that a build was looked at for.
    pub(crate) fn runtime_of(&self, build: &Build) -> Option<&str> {
        self.wanted(build).0
    }

    /// The runner or runtime environment that a build is for, and whether all of its pipeline's are. A name that no
    /// runner has and no agent serves is nobody's: pipelines that come from elsewhere name runtimes that never were here,
    /// and a runner that was removed leaves its builds to the others.
    fn wanted(&self, build: &Build) -> (Option<&str>, bool) {
        let Some((settings, triggers)) = self.known.get(&build.pipeline) else { return (None, true) };
        let own =
            triggers.values().any(|trigger| runtime_name(trigger.runtime_environment.as_ref()).is_some());
        let of_trigger = triggers.get(&build.trigger);
        let name = of_trigger
            .and_then(|trigger| runtime_name(trigger.runtime_environment.as_ref()))
            .or_else(|| runtime_name(settings.runtime_environment.as_ref()))
            .or(self.default.as_deref());
        (name.filter(|name| self.has_runner(name) || self.agent_of(name).is_some()), !own)
    }
}

/// Why a build that waits does not start, when a limit of its pipeline or its runner is the reason.
pub(crate) fn waits(tx: &mut Tx<'_>, scope: Scope, build: &Build) -> Result<Option<String>, StoreError> {
    let mut allowed = Allowed::load(tx, scope, Taking::Nobody)?;
    let limit = held_back(tx, scope, &mut allowed, build)?;
    let runner = || {
        let name = allowed.wanted(build).0?;
        Some(match allowed.agent_of(name).filter(|_| !allowed.has_runner(name)) {
            Some(agent) => format!(
                "agent `{}`, which serves runtime environment `{name}`, has not asked for it",
                agent.name
            ),
            None => format!("its runner `{name}` has no free slot"),
        })
    };
    Ok(limit.or_else(runner))
}

/// After so long without a place at a runner a build counts as delayed.
const DELAYED_AFTER_MS: i64 = 60_000;
/// A build that waited for so long is ended: nobody waits for it any more.
const WAIT_MAX_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Of an account; older ones are ended.
const DELAYED_MAX: i64 = 1_000;
const AT_ONCE: i64 = 100;
const ROUNDS: usize = 5;

/// Marks builds that only wait for a runner, and ends those that waited for too long.
pub(crate) fn delay(tx: &mut Tx<'_>, now_ms: i64) -> Result<(), StoreError> {
    let mut known: HashMap<slipway_model::AccountId, (Allowed<'static>, bool)> = HashMap::new();
    let mut held: Vec<PipelineId> = Vec::new();
    for _ in 0..ROUNDS {
        let waiting = builds::waiting_since(tx, now_ms - DELAYED_AFTER_MS, &held, AT_ONCE)?;
        for build in &waiting {
            let scope = Scope::of(build.account);
            if let Entry::Vacant(place) = known.entry(build.account) {
                // A limit of the account is no lack of runners.
                let full = crate::http::limits::free_builds(tx, scope, now_ms)? == 0;
                place.insert((Allowed::load(tx, scope, Taking::Nobody)?, full));
            }
            let Some((allowed, full)) = known.get_mut(&build.account) else { continue };
            if held.contains(&build.pipeline) {
                continue;
            }
            if *full || held_back(tx, scope, allowed, build)?.is_some() {
                held.push(build.pipeline);
            } else {
                builds::delayed(tx, scope, build.id, now_ms)?;
            }
        }
        // Those of a pipeline that holds its own back must not hide the others.
        if waiting.len() < usize::try_from(AT_ONCE).unwrap_or(0) {
            break;
        }
    }
    for build in builds::waiting_before(tx, now_ms - WAIT_MAX_MS, AT_ONCE)? {
        end(tx, Scope::of(build.account), build.id, "the queue: it had waited for seven days", now_ms)?;
    }
    for build in builds::delayed_beyond(tx, DELAYED_MAX, AT_ONCE)? {
        let why = format!("the queue: {DELAYED_MAX} newer builds of the account wait for a runner");
        end(tx, Scope::of(build.account), build.id, &why, now_ms)?;
    }
    Ok(())
}

/// Why a build that waits does not start, when a limit of its pipeline is the reason.
fn held_back(
    tx: &mut Tx<'_>,
    scope: Scope,
    allowed: &mut Allowed<'_>,
    build: &Build,
) -> Result<Option<String>, StoreError> {
    if allowed.paused {
        return Ok(Some("an Administrator has paused all builds of the account".into()));
    }
    let limits = allowed.of(tx, scope, build)?;
    if limits.pipeline == Some(0) {
        return Ok(Some("the pipeline is paused: its concurrency is 0".into()));
    }
    let active = builds::active(tx, scope, build, limits.approvals_count)?;
    let full = [
        ("pipeline", limits.pipeline, active.pipeline),
        ("trigger", limits.trigger, active.trigger),
        ("branch", limits.branch, active.branch),
    ]
    .into_iter()
    .find_map(|(what, limit, used)| limit.filter(|limit| used >= *limit).map(|limit| (what, limit)));
    Ok(full.map(|(what, limit)| {
        let builds = if limit == 1 { "build runs" } else { "builds run" };
        format!("{limit} {builds} already of this {what}, which is its concurrency")
    }))
}
