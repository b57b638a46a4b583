//! The loops of the process: the engines on their shell, and what is no engine beside them.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::changes::Changes;
use crate::context::Context;
use crate::engines::{self, Peers};
use crate::pushes::Pushes;
use crate::report::clusters::Followed;
use crate::report::send::send_reports;
use crate::resync::resync;

/// Runs until stopped.
pub(crate) async fn run(context: Context, peers: &Peers, pushes: Arc<Pushes>, stop: CancellationToken) {
    let changes = Changes::new(context.clone(), peers.notices.clone());
    changes.reload();
    let shell = Arc::new(engines::shell(&context, peers));
    let mut tasks = JoinSet::new();
    shell.start(&mut tasks);
    tasks.spawn(changes.dispatch(shell.clone()));
    tasks.spawn(resync(context.clone()));
    let config = context.config.clone();
    tasks.spawn(async move { pushes.follow(config.server.as_ref()).await });
    tasks.spawn(Followed::new(context.clone()).run());
    let of = context.clone();
    tasks.spawn(async move { send_reports(&of).await });
    let of = context.clone();
    tasks.spawn(async move { of.events.run(of.cluster()).await });
    let of = context.clone();
    tasks.spawn(async move { of.shards.renew(of.cluster(), &of.config.namespace, &shell).await });
    tokio::select! {
        () = stop.cancelled() => {}
        // None of these ends by itself; if one does, it panicked, and a restart is the cure.
        ended = tasks.join_next() => {
            tracing::error!(?ended, "A loop of the runtime ended; the runtime stops.");
        }
    }
    context.clusters.stop();
    tasks.shutdown().await;
    context.shards.release(context.cluster(), &context.config.namespace).await;
}
