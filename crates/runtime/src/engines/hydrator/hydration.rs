//! An Application on its way through the hydrator, and what became of it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use slipway_crd::{Application, HydrateOperation, HydratePhase, SourceHydrator};
use slipway_gitops::compare::rfc3339;
use slipway_reconcile::{Key, Requeue};

/// A hydration that failed is tried again after this time.
pub(super) const AGAIN: Duration = Duration::from_secs(120);

/// An Application on its way through the hydrator.
pub(super) struct Hydration<'a> {
    pub(super) key: &'a Key,
    /// As the cluster has it.
    pub(super) saved: Application,
    /// As it is to be.
    pub(super) app: Application,
    /// A person asked for it; the annotation goes when it is done.
    pub(super) asked: bool,
    /// When a failure is tried again.
    pub(super) again: Option<Timestamp>,
}

impl Hydration<'_> {
    pub(super) fn requeue(&self) -> Requeue {
        let wait =
            |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        self.again.map_or(Requeue::Never, |at| Requeue::At(Instant::now() + wait(at)))
    }
}

/// Puts the outcome on the Application, to be written down.
pub(super) fn finish(
    hydration: &mut Hydration<'_>,
    hydrator: &SourceHydrator,
    dry: &str,
    outcome: Result<String, String>,
) {
    let now = Timestamp::now();
    let status = hydration.app.status.source_hydrator.get_or_insert_default();
    let known = status.current_operation.take().filter(|known| known.dry_sha == dry);
    let started = known.as_ref().and_then(|known| known.started_at.clone());
    let mut done = HydrateOperation {
        started_at: started.or_else(|| Some(rfc3339(now))),
        finished_at: Some(rfc3339(now)),
        dry_sha: dry.to_owned(),
        source_hydrator: hydrator.clone(),
        ..HydrateOperation::default()
    };
    match outcome {
        Ok(sha) => {
            done.phase = HydratePhase::Hydrated;
            done.hydrated_sha = sha;
            status.last_successful_operation = Some(done.clone());
        }
        Err(why) => {
            // The same failure again is no news.
            if known.as_ref().is_some_and(|known| known.phase == HydratePhase::Failed && known.message == why)
            {
                status.current_operation = known;
                return;
            }
            done.phase = HydratePhase::Failed;
            done.message = why;
            hydration.again = now.checked_add(AGAIN).ok();
        }
    }
    status.current_operation = Some(done);
}
