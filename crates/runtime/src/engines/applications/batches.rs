//! The steps of a plan, as many at once as may be: tried first, then run.

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use slipway_cluster::Cluster;
use slipway_gitops::sync::{self, SyncPlan, SyncProgress};

use super::steps;

/// Requests of one application at once.
const PARALLEL: usize = 16;

/// Tries what is planned. Where trying is all that was asked for, what would happen is the result.
pub(super) async fn try_steps(cluster: &Cluster, plan: &SyncPlan, only: bool, progress: &mut SyncProgress) {
    // A loop and boxes, because the compiler cannot prove an iterator of borrowing futures to be `Send`.
    let mut tries = Vec::with_capacity(plan.dry_run.len());
    for index in &plan.dry_run {
        let step = &plan.steps[*index];
        tries.push(async move { (step, steps::dry_run(cluster, step).await) }.boxed());
    }
    let outcomes: Vec<_> = futures::stream::iter(tries).buffered(PARALLEL).collect().await;
    for (step, outcome) in outcomes {
        match outcome {
            Err(message) => progress.record_dry_run_failure(step, &message),
            Ok(message) if only => progress.record_dry_run(step, &message),
            Ok(_) => {}
        }
    }
    progress.dry_run_done = true;
}

/// Batches one after the other, the steps of a batch at once.
pub(super) async fn run_steps(cluster: &Cluster, plan: &SyncPlan, progress: &mut SyncProgress) {
    let mut ready: Vec<_> = plan.ready_steps().collect();
    ready.sort_by_key(|step| step.batch);
    for batch in ready.chunk_by(|a, b| a.batch == b.batch) {
        let mut runs = Vec::with_capacity(batch.len());
        for step in batch {
            runs.push(async move { (*step, steps::run(cluster, step).await) }.boxed());
        }
        let outcomes: Vec<_> = futures::stream::iter(runs).buffer_unordered(PARALLEL).collect().await;
        let mut failed = false;
        progress.now = Timestamp::now();
        for (step, outcome) in &outcomes {
            failed |= matches!(outcome, sync::StepResult::Failed { .. });
            progress.record(step, outcome);
        }
        // What stands behind in the same wave may need what failed.
        if failed {
            return;
        }
    }
}
