//! The end of an Application: with the resources finalizer everything it deployed goes first, last waves first.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{Propagation, WriteOptions};
use slipway_crd::{Application, Condition, names};
use slipway_gitops::compare::rfc3339;
use slipway_gitops::options::{Deletion, SyncOptions};
use slipway_gitops::{hooks, object, tracking};

use crate::engine::Engine;
use crate::queue::Wake;
use crate::reconcile::{Session, Stop};
use crate::status;

impl Engine {
    /// Deletes what is left of the highest wave; comes back when it is gone, and lets the Application go at last.
    pub(crate) async fn delete(&self, session: &mut Session<'_>) -> Result<(), Stop> {
        let Some(finalizer) = resources_finalizer(&session.app) else {
            // Without it the workload stays, as users of kubectl expect.
            return Ok(());
        };
        let settings = self.settings();
        let instance = session.app.instance_name(&settings.control_plane_namespace);
        let options = SyncOptions::new(session.app.spec.sync_options());
        let mut left: Vec<Value> = self
            .cluster
            .tracked(&instance)
            .iter()
            .filter_map(|live| live.object())
            .filter(|live| {
                tracking::is_owned(live, &instance, &settings)
                    && !object::is_crd(live)
                    && !object::has_owner(live)
            })
            .filter(|live| object::uid(live) != session.app.metadata.uid)
            .filter(|live| options.delete_of(live) != Deletion::Never)
            .collect();
        let approved = approved(&session.app);
        let unconfirmed = left.iter().any(|live| options.delete_of(live) == Deletion::Confirm) && !approved;
        if unconfirmed {
            let message = format!(
                "deletion waits for approval: set the annotation {} to a time after the deletion",
                names::DELETION_APPROVED
            );
            return self.deletion_waits(session, &message).await;
        }
        if left.is_empty() {
            return self.let_go(session, &finalizer).await;
        }
        left.sort_by_key(|live| std::cmp::Reverse(hooks::wave(live)));
        let wave = hooks::wave(&left[0]);
        let propagation = if finalizer.ends_with("/background") {
            Propagation::Background
        } else {
            Propagation::Foreground
        };
        for live in left.iter().filter(|live| hooks::wave(live) == wave && !object::is_being_deleted(live)) {
            let key = slipway_cluster::ObjectKey::of(live);
            if let Err(error) = self.cluster.delete(&key, Some(object::uid(live)), propagation, false).await {
                let message = format!("{key} cannot be deleted: {error}");
                return self.deletion_waits(session, &message).await;
            }
        }
        // Hooks of an operation that was under way hold themselves by our finalizer.
        for live in left.iter().filter(|live| object::has_finalizer(live, names::HOOK_FINALIZER)) {
            self.release_hook(live).await;
        }
        self.queue.add_at(session.key.clone(), Instant::now() + Duration::from_secs(10), Wake::STATE);
        Ok(())
    }

    async fn release_hook(&self, live: &Value) {
        let finalizers: Vec<&Value> = object::list(live, &["metadata", "finalizers"])
            .iter()
            .filter(|f| *f != names::HOOK_FINALIZER)
            .collect();
        let patch = json!({"metadata": {"finalizers": finalizers}});
        if let Err(error) = self.cluster.merge(live, &patch, WriteOptions::default()).await
            && !error.is_not_found()
        {
            tracing::warn!(%error, "A hook could not be released; it is tried again.");
        }
    }

    async fn let_go(&self, session: &mut Session<'_>, finalizer: &str) -> Result<(), Stop> {
        let finalizers: Vec<&String> =
            session.app.metadata.finalizers.iter().filter(|known| *known != finalizer).collect();
        let patch = json!({"metadata": {
            "finalizers": finalizers, "resourceVersion": session.app.metadata.resource_version}});
        let target = json!({"apiVersion": names::API_VERSION, "kind": "Application",
            "metadata": {"namespace": session.key.namespace, "name": session.key.name}});
        match self.cluster.merge(&target, &patch, WriteOptions::default()).await {
            Ok(_) => {}
            Err(error) if error.is_conflict() => {
                let _ = self.cluster.read(&self.application_key(session.key)).await;
                return Err(Stop::Changed);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(Stop::Cluster(error)),
        }
        // The last finalizer was what kept it: ask whether it is gone.
        match self.cluster.read(&self.application_key(session.key)).await {
            Ok(None) => Err(Stop::Gone),
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(Stop::Cluster(error)),
        }
    }

    async fn deletion_waits(&self, session: &mut Session<'_>, message: &str) -> Result<(), Stop> {
        let known =
            session.app.status.conditions.iter().find(|c| c.kind == "DeletionError" && c.message == message);
        let condition = known.cloned().unwrap_or_else(|| Condition {
            kind: "DeletionError".into(),
            message: message.to_owned(),
            last_transition_time: Some(rfc3339(Timestamp::now())),
            ..Condition::default()
        });
        status::set_conditions(&mut session.app.status.conditions, &["DeletionError"], &[condition]);
        self.queue.add_at(session.key.clone(), Instant::now() + Duration::from_secs(15), Wake::STATE);
        self.save(session).await
    }
}

fn resources_finalizer(app: &Application) -> Option<String> {
    let ours = |name: &&String| name.split('/').next() == Some(names::RESOURCES_FINALIZER);
    app.metadata.finalizers.iter().find(ours).cloned()
}

fn approved(app: &Application) -> bool {
    let time = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
    let deleted = time(app.metadata.deletion_timestamp.as_deref());
    match (time(app.metadata.annotation(names::DELETION_APPROVED)), deleted) {
        (Some(approved), Some(deleted)) => approved >= deleted,
        _ => false,
    }
}
