//! What is generated and what is there → what to create, update and delete, and the status to write.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::{
    ApplicationSet, ApplicationSetStatus, HealthStatus, ResourceStatus, SetConditionType, names,
};

use super::conditions::{after, condition, set};
use super::generate::{Generated, GenerationError};
use super::needs::ClusterEntry;
use super::progressive::{deletes_in_reverse, roll, step_by_name, steps_of};
use super::update::{controller, to_create, to_update};
use super::{ALLOW_EMPTY, IN_CLUSTER_NAME, IN_CLUSTER_SERVER};

/// More Applications than this are counted, not listed: the object has to stay writable.
const RESOURCES_MAX: usize = 5000;
/// After a fault the generators are asked again soon.
const RETRY_SECONDS: i64 = 180;

/// What may be done to Applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    CreateOnly,
    CreateUpdate,
    CreateDelete,
    #[default]
    Sync,
}

impl Policy {
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "create-only" => Self::CreateOnly,
            "create-update" => Self::CreateUpdate,
            "create-delete" => Self::CreateDelete,
            "sync" => Self::Sync,
            _ => return None,
        })
    }

    fn updates(self) -> bool {
        matches!(self, Self::CreateUpdate | Self::Sync)
    }

    fn deletes(self) -> bool {
        matches!(self, Self::CreateDelete | Self::Sync)
    }
}

pub struct PlanInput<'a> {
    pub set: &'a ApplicationSet,
    pub outcome: &'a Result<Generated, GenerationError>,
    /// Every Application in the set's namespace, whoever made it.
    pub current: &'a [Value],
    pub projects: &'a BTreeSet<String>,
    pub clusters: &'a [ClusterEntry],
    /// What the installation imposes; none: the set's own word counts.
    pub policy: Option<Policy>,
    pub now: Timestamp,
}

/// One thing to do, and why.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Create {
        name: String,
        application: Value,
        reason: String,
    },
    /// A JSON merge patch.
    Update {
        name: String,
        patch: Value,
        reason: String,
    },
    Delete {
        name: String,
        reason: String,
    },
}

impl Change {
    pub fn name(&self) -> &str {
        match self {
            Self::Create { name, .. } | Self::Update { name, .. } | Self::Delete { name, .. } => name,
        }
    }

    /// The condition's reason when it fails.
    pub fn failure_reason(&self) -> &'static str {
        match self {
            Self::Create { .. } => "CreateApplicationError",
            Self::Update { .. } => "UpdateApplicationError",
            Self::Delete { .. } => "DeleteApplicationError",
        }
    }
}

/// Complete instructions for one ApplicationSet.
#[derive(Debug, Clone, Default)]
pub struct SetPlan {
    pub changes: Vec<Change>,
    pub status: ApplicationSetStatus,
    /// The refresh that was asked for is done.
    pub clear_refresh: bool,
    /// Finalizers of the ApplicationSet itself; none: as they are.
    pub finalizers: Option<Vec<String>>,
    pub requeue_after_seconds: Option<i64>,
    /// Why something does not happen, in sentences.
    pub notes: Vec<String>,
}

impl SetPlan {
    /// The status when carrying it out failed.
    pub fn failed(
        &self,
        set_before: &ApplicationSet,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) -> ApplicationSetStatus {
        let mut status = self.status.clone();
        status.conditions = set_before.status.conditions.clone();
        let found = condition(SetConditionType::ErrorOccurred, true, reason, message);
        set(&mut status, after(found, true), &[], &now_text(now));
        status
    }
}

fn now_text(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn policy(input_policy: Option<Policy>, application_set: &ApplicationSet) -> Policy {
    let own =
        application_set.spec.sync_policy.as_ref().and_then(|policy| policy.applications_sync.as_deref());
    input_policy.or_else(|| own.and_then(Policy::parse)).unwrap_or_default()
}

/// The Applications that belong to this set.
fn owned<'v>(application_set: &ApplicationSet, current: &'v [Value]) -> Vec<&'v Value> {
    let owner = Some(("ApplicationSet", application_set.metadata.name.as_str()));
    current.iter().filter(|application| controller(application) == owner).collect()
}

fn name_of(application: &Value) -> &str {
    application["metadata"]["name"].as_str().unwrap_or_default()
}

/// Decides. A fault in generating touches nothing at all.
pub fn plan(input: &PlanInput<'_>) -> SetPlan {
    let now = now_text(input.now);
    let owned = owned(input.set, input.current);
    let mut status = input.set.status.clone();
    resources(&mut status, &owned);
    let rolling = steps_of(input.set);
    let gone: &[SetConditionType] =
        if rolling.is_some() { &[] } else { &[SetConditionType::RolloutProgressing] };
    let generated = match input.outcome {
        Err(error) => {
            let found = condition(SetConditionType::ErrorOccurred, true, error.reason, &error.message);
            set(&mut status, after(found, false), gone, &now);
            let notes = vec![format!("nothing is touched, because generating failed: {}", error.message)];
            let requeue_after_seconds = Some(RETRY_SECONDS);
            return SetPlan { status, requeue_after_seconds, notes, ..SetPlan::default() };
        }
        Ok(generated) => generated,
    };
    let problems = validate(input, &generated.applications);
    let mut notes = Vec::new();
    let mut conditions = Vec::new();
    let mut desired: Vec<Value> = generated.applications.clone();
    match rolling {
        Some(steps) => {
            let own: Vec<Value> = owned.iter().map(|application| (*application).clone()).collect();
            let rollout = roll(input.set, steps, &desired, &own, &now);
            status.application_status = rollout.statuses;
            notes.extend(rollout.notes);
            conditions.push(rollout.condition);
            if !steps.is_empty() {
                desired = rollout.desired;
            }
        }
        None => status.application_status.clear(),
    }
    let mut seen = BTreeSet::new();
    desired.retain(|application| {
        let name = name_of(application);
        !problems.contains_key(name) && seen.insert(name.to_owned())
    });
    desired.sort_by(|a, b| name_of(a).cmp(name_of(b)));
    let policy = policy(input.policy, input.set);
    let mut faults: Vec<String> = problems.values().cloned().collect();
    let mut changes = Vec::new();
    for application in &desired {
        match write(input, policy, application) {
            Ok(change) => changes.extend(change),
            Err(fault) => faults.push(fault),
        }
    }
    let wanted: BTreeSet<&str> = generated.applications.iter().map(name_of).collect();
    let extra: Vec<&Value> = owned.into_iter().filter(|live| !wanted.contains(name_of(live))).collect();
    let held = deletions(input, policy, generated, &extra, &mut changes);
    notes.extend(held.clone());
    let found = if let Some(first) = faults.first() {
        let more = if faults.len() > 1 { format!(" (and {} more)", faults.len() - 1) } else { String::new() };
        condition(
            SetConditionType::ErrorOccurred,
            true,
            "ApplicationValidationError",
            &format!("{first}{more}"),
        )
    } else if let Some(message) = &held {
        condition(SetConditionType::ResourcesUpToDate, false, "EmptyGenerator", message)
    } else {
        condition(
            SetConditionType::ResourcesUpToDate,
            true,
            "ApplicationSetUpToDate",
            "All applications have been generated successfully",
        )
    };
    conditions.extend(after(found, true));
    set(&mut status, conditions, gone, &now);
    let requeue_after_seconds =
        if faults.is_empty() { generated.requeue_after_seconds } else { Some(RETRY_SECONDS) };
    SetPlan {
        changes,
        status,
        clear_refresh: input.set.metadata.annotation(names::APPLICATION_SET_REFRESH).is_some(),
        finalizers: finalizers(input.set),
        requeue_after_seconds,
        notes,
    }
}

/// Deleting in reverse needs a say in the ApplicationSet's own deletion.
fn finalizers(application_set: &ApplicationSet) -> Option<Vec<String>> {
    let finalizers = &application_set.metadata.finalizers;
    let has = finalizers.iter().any(|name| name == names::RESOURCES_FINALIZER);
    (deletes_in_reverse(application_set) && !has).then(|| {
        let mut all = finalizers.clone();
        all.push(names::RESOURCES_FINALIZER.into());
        all
    })
}

fn resources(status: &mut ApplicationSetStatus, owned: &[&Value]) {
    let mut all: Vec<ResourceStatus> = owned
        .iter()
        .map(|application| ResourceStatus {
            group: names::GROUP.into(),
            version: "v1alpha1".into(),
            kind: "Application".into(),
            namespace: application["metadata"]["namespace"].as_str().unwrap_or_default().into(),
            name: name_of(application).into(),
            status: application["status"]["sync"]["status"].as_str().unwrap_or_default().into(),
            health: Some(HealthStatus {
                status: application["status"]["health"]["status"].as_str().unwrap_or_default().into(),
                ..HealthStatus::default()
            }),
            ..ResourceStatus::default()
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    status.resources_count = all.len() as i64;
    all.truncate(RESOURCES_MAX);
    status.resources = all;
}

/// What is wrong with Applications, by name. The others go on.
fn validate(input: &PlanInput<'_>, applications: &[Value]) -> BTreeMap<String, String> {
    let mut problems = BTreeMap::new();
    let mut names = BTreeSet::new();
    let set_name = &input.set.metadata.name;
    for application in applications {
        let name = name_of(application);
        let problem = if !names.insert(name) {
            Some(format!("ApplicationSet {set_name} contains applications with duplicate name: {name}"))
        } else {
            let project = Some(application["spec"]["project"].as_str().unwrap_or_default());
            let project = project.filter(|project| !project.is_empty()).unwrap_or("default");
            if input.projects.contains(project) {
                destination_problem(input.clusters, &application["spec"]["destination"])
            } else {
                Some(format!("application references project {project} which does not exist"))
            }
        };
        if let Some(problem) = problem {
            problems.insert(name.to_owned(), problem);
        }
    }
    problems
}

fn destination_problem(clusters: &[ClusterEntry], destination: &Value) -> Option<String> {
    let (server, name) = (destination["server"].as_str(), destination["name"].as_str());
    let server = server.filter(|text| !text.is_empty());
    let name = name.filter(|text| !text.is_empty());
    let invalid = |why: String| Some(format!("application destination spec is invalid: {why}"));
    match (server, name) {
        (Some(server), Some(name)) => invalid(format!(
            "application destination can't have both name and server defined: {name} {server}"
        )),
        (None, None) => invalid("destination server missing from app spec".into()),
        (Some(server), None) => {
            let known = is_local(server) || clusters.iter().any(|c| same_server(&c.server, server));
            if known {
                None
            } else {
                invalid(format!("there is no cluster with server {server:?}; add its Secret"))
            }
        }
        (None, Some(name)) => match clusters.iter().filter(|cluster| cluster.name == name).count() {
            0 if name == IN_CLUSTER_NAME => None,
            0 => invalid(format!("there are no clusters with this name: {name}")),
            1 => None,
            count => invalid(format!("there are {count} clusters with the same name: {name}")),
        },
    }
}

fn is_local(server: &str) -> bool {
    same_server(server, IN_CLUSTER_SERVER)
}

fn same_server(a: &str, b: &str) -> bool {
    a.trim_end_matches('/') == b.trim_end_matches('/')
}

/// Create or update one.
fn write(input: &PlanInput<'_>, policy: Policy, desired: &Value) -> Result<Option<Change>, String> {
    let name = name_of(desired).to_owned();
    let Some(live) = input.current.iter().find(|live| name_of(live) == name) else {
        let reason = "the generators give it and it is not there".to_owned();
        return Ok(Some(Change::Create { name, application: to_create(input.set, desired), reason }));
    };
    if let Some((kind, owner)) = controller(live)
        && (kind, owner) != ("ApplicationSet", input.set.metadata.name.as_str())
    {
        return Err(format!(
            "application {name} already belongs to {kind} {owner}; give one of them another name"
        ));
    }
    if !policy.updates() || !live["metadata"]["deletionTimestamp"].is_null() {
        return Ok(None);
    }
    Ok(to_update(input.set, desired, live)?.map(|patch| {
        let fields: Vec<&str> =
            patch.as_object().into_iter().flatten().map(|(field, _)| field.as_str()).collect();
        let reason = format!("it differs from what the generators give in {}", fields.join(", "));
        Change::Update { name, patch, reason }
    }))
}

/// Plans deletions; says why they are held back, if they are.
fn deletions(
    input: &PlanInput<'_>,
    policy: Policy,
    generated: &Generated,
    extra: &[&Value],
    changes: &mut Vec<Change>,
) -> Option<String> {
    let leaving: Vec<&&Value> =
        extra.iter().filter(|live| live["metadata"]["deletionTimestamp"].is_null()).collect();
    if leaving.is_empty() || !policy.deletes() {
        return None;
    }
    let allowed = input.set.metadata.annotation(ALLOW_EMPTY) == Some("true");
    if !generated.empty.is_empty() && !allowed {
        return Some(format!(
            "{} came back empty, so {} applications that are no longer generated are kept; if that is meant, annotate \
             the ApplicationSet with {ALLOW_EMPTY}=true",
            generated.empty.join(", "),
            leaving.len()
        ));
    }
    for live in leaving {
        let name = name_of(live).to_owned();
        // Without its cluster the finalizer could never be served.
        if destination_problem(input.clusters, &live["spec"]["destination"]).is_some()
            && let Some(patch) = without_resources_finalizer(live)
        {
            let reason = "its cluster is not known any more, so nothing can be cleaned up there".to_owned();
            changes.push(Change::Update { name: name.clone(), patch, reason });
        }
        changes.push(Change::Delete { name, reason: "no generator gives it any more".into() });
    }
    None
}

fn without_resources_finalizer(live: &Value) -> Option<Value> {
    let finalizers = live["metadata"]["finalizers"].as_array()?;
    let kept: Vec<&Value> =
        finalizers.iter().filter(|name| **name != json!(names::RESOURCES_FINALIZER)).collect();
    (kept.len() < finalizers.len()).then(|| json!({"metadata": {"finalizers": kept}}))
}

/// The ApplicationSet itself is being deleted. Its Applications go with it by their owner reference, unless the
/// policy keeps them or a reverse order is asked for.
pub fn plan_deletion(
    application_set: &ApplicationSet,
    current: &[Value],
    imposed: Option<Policy>,
) -> SetPlan {
    let owned = owned(application_set, current);
    let mut result = SetPlan { status: application_set.status.clone(), ..SetPlan::default() };
    if !policy(imposed, application_set).deletes() {
        for live in owned {
            let references = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let kept: Vec<&Value> =
                references.filter(|owner| owner["uid"] != json!(application_set.metadata.uid)).collect();
            result.changes.push(Change::Update {
                name: name_of(live).into(),
                patch: json!({"metadata": {"ownerReferences": kept}}),
                reason: "the policy keeps Applications when their ApplicationSet goes".into(),
            });
        }
    } else if let Some(steps) = steps_of(application_set).filter(|_| deletes_in_reverse(application_set)) {
        let own: Vec<Value> = owned.iter().map(|live| (*live).clone()).collect();
        let by_name = step_by_name(steps, &own);
        let last = owned.iter().max_by_key(|live| (by_name.get(name_of(live)), name_of(live)));
        if let Some(last) = last {
            let name = name_of(last);
            if last["metadata"]["deletionTimestamp"].is_null() {
                let reason = "the last step goes first".to_owned();
                result.changes.push(Change::Delete { name: name.into(), reason });
            }
            result.notes.push(format!("the application {name} has to be gone before the next one goes"));
            result.requeue_after_seconds = Some(10);
            return result;
        }
    }
    let finalizers = &application_set.metadata.finalizers;
    let kept: Vec<String> =
        finalizers.iter().filter(|name| *name != names::RESOURCES_FINALIZER).cloned().collect();
    result.finalizers = (kept.len() < finalizers.len()).then_some(kept);
    result
}
