//! One reconcile of one ApplicationSet: observe what the generators ask for, plan, carry out, write the status down.
//!
//! What to do is decided in `gitops::appset`; here is only who reads and who writes. A reconcile starts from what the
//! cluster and the repositories say now, so that one which was killed anywhere is simply done again.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{ClusterError, ObjectKey, Propagation, WriteOptions};
use slipway_crd::{ApplicationSet, ApplicationSetStatus, names};
use slipway_gitops::appset::{
    Answers, Change, Generation, GenerationError, PlanInput, Policy, SetPlan, generate, plan, plan_deletion,
};
use slipway_model::Next;
use slipway_reconcile::{Key, Requeue, Stop, Wake};
use slipway_source::{Since, normalise_repo_url};

use super::ApplicationSets;

/// Changes of Applications come in bursts; one reconcile answers a burst.
const GATHER: Duration = Duration::from_millis(200);
/// Applications of one set written at once.
const WRITES_AT_ONCE: usize = 8;
/// A matrix in a matrix asks at most this often; more is a defect that must not spin.
const ROUNDS_MAX: usize = 8;

impl ApplicationSets {
    /// One set: generate, plan, carry out, write the status down.
    pub(super) async fn reconcile_one(&self, key: &Key, wake: Wake) -> Result<Requeue, Stop> {
        if !wake.state {
            tokio::time::sleep(GATHER).await;
        }
        if ["Application", "AppProject"].iter().any(|kind| self.cluster.is_waiting(names::GROUP, kind))
            || self.cluster.is_waiting("", "Secret")
        {
            // Everything is being read again: what is not there yet is not gone.
            return Ok(Requeue::Again(Duration::from_millis(200)));
        }
        // A timer may outlive the permission.
        let Some(set) =
            self.inventory.application_set(key).filter(|_| self.settings.governs_sets(&key.namespace))
        else {
            return Ok(Requeue::Never);
        };
        let started = Instant::now();
        let current = self.applications_beside(&set);
        let policy = self.imposed_policy();
        let now = Timestamp::now();
        let plan = if set.metadata.deletion_timestamp.is_some() {
            plan_deletion(&set, &current, policy)
        } else {
            let asked_for = set.metadata.annotation(names::APPLICATION_SET_REFRESH).is_some();
            let since = match wake.since {
                _ if wake.timer => Since::Asked(started),
                Some(moment) => Since::Asked(moment),
                None if asked_for => Since::Asked(started),
                None => Since::Within(self.poll_within),
            };
            let (generation, answers) = self.generate_set(&set, since, now).await;
            plan(&PlanInput {
                set: &set,
                outcome: &generation.outcome,
                current: &current,
                projects: &self.projects(),
                clusters: &answers.clusters,
                policy,
                now,
            })
        };
        for note in &plan.notes {
            tracing::debug!(set = %key, "{note}");
        }
        // Whose turn it is has to be on the set before anybody is asked to sync: a reconcile that dies in between asks
        // again, and one that died before asked nobody.
        if plan.status.application_status != set.status.application_status {
            let patch = json!({"status": {"applicationStatus": plan.status.application_status}});
            self.cluster.merge_subresource(&target(&set), "status", &patch).await?;
        }
        let failure = self.carry_out(&set, &plan, &current).await;
        let status = match &failure {
            Some((reason, message)) => plan.failed(&set, reason, message, now),
            None => plan.status.clone(),
        };
        self.write_set(&set, &plan, &status, failure.is_none()).await?;
        if let Some((_, message)) = failure {
            return Err(Stop::failed(message, Next::Retry));
        }
        let within = |seconds: i64| Requeue::Within(Duration::from_secs(seconds.unsigned_abs().max(1)));
        Ok(plan.requeue_after_seconds.map_or(Requeue::Never, within))
    }

    /// Asks until the generators have all they need.
    async fn generate_set(
        &self,
        set: &ApplicationSet,
        since: Since,
        now: Timestamp,
    ) -> (Generation, Answers) {
        let mut answers = Answers::new(self.answerer.cluster_entries());
        if let Err(message) = self.answerer.reach.check_place(set) {
            let outcome = Err(GenerationError { reason: "ApplicationGenerationFromParamsError", message });
            return (Generation { needs: Vec::new(), outcome }, answers);
        }
        for _ in 0..ROUNDS_MAX {
            let generation = generate(set, &answers, now);
            if generation.needs.is_empty() {
                return (generation, answers);
            }
            for need in &generation.needs {
                let answer = self.answerer.answer(set, need, since).await;
                answers.put(need, answer);
            }
        }
        (generate(set, &answers, now), answers)
    }

    /// Every Application of the set's namespace. One of the same name elsewhere is somebody else's.
    fn applications_beside(&self, set: &ApplicationSet) -> Vec<Value> {
        self.cluster
            .live_of_kind(names::GROUP, "Application")
            .iter()
            .filter(|live| live.key.namespace == set.metadata.namespace)
            .filter_map(|live| live.object())
            .collect()
    }

    fn projects(&self) -> std::collections::BTreeSet<String> {
        let projects = self.cluster.live_of_kind(names::GROUP, "AppProject");
        let ours = projects.iter().filter(|live| live.key.namespace == self.settings.namespace());
        // The default project is there even where nobody wrote it down.
        ours.map(|live| live.key.name.clone()).chain(["default".to_owned()]).collect()
    }

    /// `applicationsetcontroller.policy` binds everybody, unless overriding is allowed.
    fn imposed_policy(&self) -> Option<Policy> {
        let settings = self.answerer.reach.command_parameters();
        let allowed = settings["applicationsetcontroller.enable.policy.override"].as_str() == Some("true");
        let policy = settings["applicationsetcontroller.policy"].as_str().and_then(Policy::parse);
        policy.filter(|_| !allowed)
    }

    /// Carries the plan out; gives the first fault. What was not done is planned again at the next reconcile.
    async fn carry_out(
        &self,
        set: &ApplicationSet,
        plan: &SetPlan,
        current: &[Value],
    ) -> Option<(&'static str, String)> {
        // Deletions last: whatever is renamed is there under its new name before the old one goes.
        let (deletions, writes): (Vec<&Change>, Vec<&Change>) =
            plan.changes.iter().partition(|change| matches!(change, Change::Delete { .. }));
        for group in [writes, deletions] {
            let mut attempts = Vec::new();
            for change in &group {
                attempts.push(self.change(set, change, current));
            }
            // In order, so that the fault that is told of is always the same one.
            let outcomes: Vec<_> = futures::stream::iter(attempts).buffered(WRITES_AT_ONCE).collect().await;
            for (change, outcome) in group.into_iter().zip(outcomes) {
                if let Err(error) = outcome {
                    let message = format!("application {}: {error}", change.name());
                    return Some((change.failure_reason(), message));
                }
            }
        }
        None
    }

    async fn change(
        &self,
        set: &ApplicationSet,
        change: &Change,
        current: &[Value],
    ) -> Result<(), ClusterError> {
        let namespace = &set.metadata.namespace;
        tracing::info!(set = %set.metadata.name, application = change.name(), change = verb(change), "An ApplicationSet changes an Application.");
        match change {
            Change::Create { application, .. } => {
                match self.cluster.create(application, WriteOptions::default()).await {
                    // Our own copy of the cluster was behind; the next reconcile sees it.
                    Err(error) if error.already_exists() => Ok(()),
                    other => other.map(drop),
                }
            }
            Change::Update { name, patch, .. } => {
                let target = json!({"apiVersion": names::API_VERSION, "kind": "Application",
                    "metadata": {"namespace": namespace, "name": name}});
                match self.cluster.merge(&target, patch, WriteOptions::default()).await {
                    Err(error) if error.is_not_found() => Ok(()),
                    other => other.map(drop),
                }
            }
            Change::Delete { name, .. } => {
                let key = ObjectKey::new(names::GROUP, "Application", namespace, name);
                let live =
                    current.iter().find(|live| live["metadata"]["name"].as_str() == Some(name.as_str()));
                // Only the one that was looked at: a new one of the same name is somebody's wish.
                let uid = live.and_then(|live| live["metadata"]["uid"].as_str());
                self.cluster.delete(&key, uid, Propagation::Background, false).await.map(drop)
            }
        }
    }

    async fn write_set(
        &self,
        set: &ApplicationSet,
        plan: &SetPlan,
        status: &ApplicationSetStatus,
        done: bool,
    ) -> Result<(), ClusterError> {
        let target = target(set);
        let gone = |result: Result<Value, ClusterError>| match result {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(drop),
        };
        if *status != set.status {
            let patch = json!({"status": status_patch(&set.status, status)});
            gone(self.cluster.merge_subresource(&target, "status", &patch).await)?;
        }
        let mut metadata = json!({});
        if let Some(finalizers) = &plan.finalizers {
            metadata["finalizers"] = json!(finalizers);
        }
        if plan.clear_refresh && done {
            metadata["annotations"] = json!({names::APPLICATION_SET_REFRESH: null});
        }
        if metadata.as_object().is_some_and(|fields| !fields.is_empty()) {
            gone(self.cluster.merge(&target, &json!({"metadata": metadata}), WriteOptions::default()).await)?;
        }
        Ok(())
    }
}

fn target(set: &ApplicationSet) -> Value {
    json!({"apiVersion": names::API_VERSION, "kind": "ApplicationSet",
        "metadata": {"namespace": set.metadata.namespace, "name": set.metadata.name}})
}

fn verb(change: &Change) -> &'static str {
    match change {
        Change::Create { .. } => "create",
        Change::Update { .. } => "update",
        Change::Delete { .. } => "delete",
    }
}

/// A merge patch: what is no longer there has to be said to be gone.
fn status_patch(before: &ApplicationSetStatus, after: &ApplicationSetStatus) -> Value {
    let mut patch = serde_json::to_value(after).unwrap_or_default();
    let before = serde_json::to_value(before).unwrap_or_default();
    for (field, _) in before.as_object().into_iter().flatten() {
        if patch.get(field).is_none() {
            patch[field] = Value::Null;
        }
    }
    patch
}

/// Whether a generator, or one inside it, reads this repository.
pub(crate) fn names_repository(generator: &Value, pushed: &str) -> bool {
    generator.as_object().into_iter().flatten().any(|(_, block)| {
        let url = block["repoURL"].as_str();
        url.is_some_and(|url| url.contains("{{") || normalise_repo_url(url) == pushed)
            || block["generators"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|inner| names_repository(inner, pushed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_heard_by_sets_that_read_the_repository() {
        let pushed = normalise_repo_url("ssh://git@git.example/team/app.git");
        let git = |url: &str| json!({"git": {"repoURL": url}});
        assert!(names_repository(&git("https://git.example/Team/App"), &pushed));
        assert!(!names_repository(&git("https://git.example/team/other"), &pushed));
        assert!(names_repository(&git("https://git.example/{{name}}"), &pushed));
        let matrix = json!({"matrix": {"generators": [{"list": {}}, git("https://git.example/team/app")]}});
        assert!(names_repository(&matrix, &pushed));
    }

    #[test]
    fn what_left_the_status_is_said_to_be_gone() {
        let before: ApplicationSetStatus =
            serde_json::from_value(json!({"applicationStatus": [{"application": "a"}], "resourcesCount": 2}))
                .expect("readable");
        let after = ApplicationSetStatus { resources_count: 1, ..ApplicationSetStatus::default() };
        assert_eq!(status_patch(&before, &after), json!({"applicationStatus": null, "resourcesCount": 1}));
    }
}
