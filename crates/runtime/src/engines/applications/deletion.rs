//! A deleted Application: hooks before, what it deployed, hooks after, as its finalizers say. The plan is the pure
//! room's; here it is carried out, and a cluster or a repository that is away is not waited for for ever.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_crd::{Application, Condition, ConditionType, names};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::deletion::{DeletionInput, DeletionPlan, plan_deletion};
use slipway_gitops::hooks::{self, HookType};
use slipway_gitops::sync::{StepResult, WaitingOn};
use slipway_reconcile::{Stop, Wake, save};

use super::observe::Observer;
use super::session::{Recorder, Session};
use super::{status, steps};
use crate::clusters::{Destination, IN_CLUSTER, NoCluster};

/// How long a deletion waits for a cluster or a repository that cannot be reached.
const AWAY_SECONDS: i64 = 600;
/// Stages follow each other at once; more of them than there are is a defect.
const ROUNDS: usize = 50;

/// Who carries deletions out.
pub(super) struct Deleter {
    pub(super) observer: Arc<Observer>,
    pub(super) recorder: Arc<Recorder>,
}

impl Deleter {
    /// Goes as far as it can; comes back when what is waited for has happened.
    pub(super) async fn delete(&self, session: &mut Session<'_>) -> Result<(), Stop> {
        let permits = self.observer.permits();
        for _ in 0..ROUNDS {
            let Some(finalizer) = ours(&session.app) else {
                // Without one the workload stays, as users of kubectl expect.
                return Ok(());
            };
            let destination = match permits.clusters.destination(&session.app) {
                Ok(destination) => destination,
                Err(NoCluster::Unknown(why)) => {
                    // Nobody can reach what ran there any more; the Application must not wait for it for ever.
                    tracing::warn!(application = %session.key, %why, "An Application is deleted without its cluster.");
                    self.remove_finalizer(session, &finalizer).await?;
                    continue;
                }
                Err(NoCluster::Away(why)) => {
                    if self.goes_on_without(session, &why).await? {
                        self.remove_finalizer(session, &finalizer).await?;
                        continue;
                    }
                    return Ok(());
                }
            };
            // Whoever may not use the project may not delete with its rights either.
            let writer = match permits.project(&session.app).map_err(|failure| failure.message) {
                Ok(_) => permits.writer(&session.app, &destination),
                Err(why) => Err(why),
            };
            let writer = match writer {
                Ok(writer) => writer,
                Err(why) => {
                    self.deletion_waits(session, &why).await?;
                    return Ok(());
                }
            };
            let Some(manifests) = self.delete_hooks(session).await? else { return Ok(()) };
            let settings = permits.settings.get();
            let instance = session.app.instance_name(&settings.control_plane_namespace);
            let tracked = destination.cluster.tracked(&instance);
            let live: Vec<Value> = tracked.iter().filter_map(|live| live.object()).collect();
            let plan = plan_deletion(DeletionInput {
                application: &session.app,
                live: &live,
                manifests: &manifests,
                settings: &settings,
            });
            if let Some(finalizer) = &plan.remove_finalizer {
                self.remove_finalizer(session, finalizer).await?;
                continue;
            }
            if !self.carry_out_deletion(session, (&destination, &writer), &plan, &finalizer).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The manifests that may hold delete hooks. `None`: they are waited for.
    async fn delete_hooks(&self, session: &mut Session<'_>) -> Result<Option<Vec<Value>>, Stop> {
        if !session.app.metadata.finalizers.iter().any(|name| is_hook_finalizer(name)) {
            return Ok(Some(Vec::new()));
        }
        let app = session.app.clone();
        let sources = app.spec.effective_sources();
        match self.observer.manifests.desired(&app, &sources, &[], Wake::STATE, session.memory).await {
            Ok(found) => Ok(Some(found.desired.objects())),
            Err(failure) => {
                let why = format!("its delete hooks cannot be rendered: {}", failure.message);
                Ok(self.goes_on_without(session, &why).await?.then(Vec::new))
            }
        }
    }

    /// True: plan again at once.
    async fn carry_out_deletion(
        &self,
        session: &mut Session<'_>,
        (destination, writer): (&Destination, &Cluster),
        plan: &DeletionPlan,
        finalizer: &str,
    ) -> Result<bool, Stop> {
        for step in &plan.steps {
            let StepResult::Failed { message } = steps::run(writer, step).await else {
                continue;
            };
            let message = format!("{} cannot be deleted: {message}", step.key.short());
            // Whether it is the cluster that is away, the cluster is asked.
            let away =
                destination.server != IN_CLUSTER.server && destination.cluster.version().await.is_err();
            if away && self.goes_on_without(session, &message).await? {
                self.remove_finalizer(session, finalizer).await?;
                return Ok(true);
            }
            if !away {
                self.deletion_waits(session, &message).await?;
            }
            return Ok(false);
        }
        if let Some(error) = &plan.error {
            self.deletion_waits(session, error).await?;
            return Ok(false);
        }
        if plan.waiting.iter().any(|waiting| matches!(waiting.on, WaitingOn::Confirmation(_))) {
            let message = format!(
                "deletion waits for approval: set the annotation {} to a time after the deletion",
                names::DELETION_APPROVED
            );
            self.deletion_waits(session, &message).await?;
            return Ok(false);
        }
        session.memory.operation.waiting =
            plan.waiting.iter().map(|waiting| waiting.sentence.clone()).collect();
        if plan.waiting.is_empty() {
            return Ok(!plan.steps.is_empty());
        }
        session.requeue_after(Duration::from_secs(10));
        Ok(false)
    }

    /// Something is away that the deletion needs. It waits for a while, or until a person says that it may go on.
    async fn goes_on_without(&self, session: &mut Session<'_>, why: &str) -> Result<bool, Stop> {
        let time = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
        let deleted = time(session.app.metadata.deletion_timestamp.as_deref());
        let approved = time(session.app.metadata.annotation(names::DELETION_APPROVED));
        let waited = deleted.map_or(0, |since| Timestamp::now().duration_since(since).as_secs());
        if waited >= AWAY_SECONDS
            || approved.zip(deleted).is_some_and(|(approved, deleted)| approved >= deleted)
        {
            tracing::warn!(application = %session.key, %why, "A deletion goes on without what is away; what runs there stays.");
            return Ok(true);
        }
        let message = format!(
            "{why}; the Application goes without it after {} minutes, or at once with the annotation {} set to a \
             time after the deletion",
            AWAY_SECONDS / 60,
            names::DELETION_APPROVED
        );
        self.deletion_waits(session, &message).await?;
        Ok(false)
    }

    /// Takes a finalizer off; ends with [`Stop::Gone`] when it was the last one.
    async fn remove_finalizer(&self, session: &mut Session<'_>, finalizer: &str) -> Result<(), Stop> {
        let there = &session.app.metadata;
        let patch = slipway_reconcile::removed(&there.finalizers, finalizer);
        match save(&self.recorder.cluster, session.key, names::API_VERSION, patch, &there.resource_version)
            .await
        {
            Ok(_) | Err(Stop::Gone) => {}
            Err(stop) => return Err(stop),
        }
        // The last finalizer was what kept it: ask whether it is gone.
        match self.recorder.cluster.read(&session.key.object()).await {
            Ok(None) => Err(Stop::Gone),
            Ok(Some(left)) => {
                if let Ok(app) = serde_json::from_value::<Application>(left) {
                    session.saved = app.clone();
                    session.app = app;
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn deletion_waits(&self, session: &mut Session<'_>, message: &str) -> Result<(), Stop> {
        let known = session
            .app
            .status
            .conditions
            .iter()
            .find(|c| c.kind == ConditionType::DeletionError && c.message == message);
        let condition = known.cloned().unwrap_or_else(|| Condition {
            kind: ConditionType::DeletionError,
            message: message.to_owned(),
            last_transition_time: Some(rfc3339(Timestamp::now())),
            ..Condition::default()
        });
        status::set_conditions(
            &mut session.app.status.conditions,
            &[ConditionType::DeletionError],
            &[condition],
        );
        session.requeue_after(Duration::from_secs(15));
        self.recorder.save(session).await
    }
}

/// The first finalizer that keeps the Application for us.
fn ours(app: &Application) -> Option<String> {
    let known = |name: &&String| {
        name.split('/').next() == Some(names::RESOURCES_FINALIZER) || is_hook_finalizer(name)
    };
    app.metadata.finalizers.iter().find(known).cloned()
}

fn is_hook_finalizer(name: &str) -> bool {
    let stem = name.split('/').next().unwrap_or_default();
    stem == names::PRE_DELETE_FINALIZER || stem == names::POST_DELETE_FINALIZER
}

/// Finalizers that the Application needs so that the delete hooks among these manifests run, and does not have.
pub(crate) fn missing_finalizers<'a>(
    app: &Application,
    manifests: impl Iterator<Item = &'a Value>,
) -> Vec<String> {
    let kinds: Vec<HookType> = manifests.flat_map(hooks::types).collect();
    let mut wanted = Vec::new();
    for (kind, name) in [
        (HookType::PreDelete, names::PRE_DELETE_FINALIZER),
        (HookType::PostDelete, names::POST_DELETE_FINALIZER),
    ] {
        if kinds.contains(&kind) {
            wanted.extend([name.to_owned(), format!("{name}/cleanup")]);
        }
    }
    wanted.retain(|name| !app.metadata.finalizers.contains(name));
    wanted
}
