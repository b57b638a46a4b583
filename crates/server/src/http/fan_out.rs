//! Growth of logs, and bytes of shells, told to other processes through the cache: there is much of it, and losing some
//! costs a follower a moment, or a shell a line. All other changes go through the database itself.

use serde::{Deserialize, Serialize};
use slipway_bus::Heard;
use slipway_model::{AccountId, Change, ChangeKind};
use slipway_store::{Committed, Touched};
use tokio::sync::broadcast::error::RecvError;

use crate::background::driver::{Outcome, Round};
use crate::ci::shells::Piece;
use crate::ctx::Server;

#[derive(Serialize, Deserialize)]
struct Said {
    by: String,
    #[serde(default)]
    logs: Vec<Grown>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<Piece>,
}

/// Whose log of which build grew.
#[derive(Serialize, Deserialize)]
struct Grown {
    account: AccountId,
    build: String,
}

/// To the processes that the other end of a shell may be connected to.
pub(crate) fn say_shell(server: &Server, piece: Piece) {
    if server.inner.live.reaches_others() {
        let said = Said { by: server.inner.holder.clone(), logs: Vec::new(), shell: Some(piece) };
        server.inner.live.say(serde_json::to_string(&said).expect("it is JSON"));
    }
}

/// Until shutdown. Nothing to do without a cache that others reach.
pub(crate) async fn run(server: &Server) -> Outcome {
    if !server.inner.live.reaches_others() {
        return Ok(Round::Done);
    }
    server.store().tell_logs_elsewhere();
    let both = async { tokio::join!(say(server), hear(server)) };
    tokio::select! {
        () = server.inner.shutdown.cancelled() => {}
        _ = both => {}
    }
    Ok(Round::Done)
}

async fn say(server: &Server) {
    let mut commits = server.store().subscribe();
    loop {
        let commit = match commits.recv().await {
            // What came from others goes no further.
            Ok(commit) if commit.elsewhere => continue,
            Ok(commit) => commit,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let logs: Vec<_> = commit
            .changes
            .into_iter()
            .filter(|change| change.kind == ChangeKind::Log)
            .filter_map(|change| Some(Grown { account: change.account?, build: change.id }))
            .collect();
        if !logs.is_empty() {
            let said = Said { by: server.inner.holder.clone(), logs, shell: None };
            server.inner.live.say(serde_json::to_string(&said).expect("it is JSON"));
        }
    }
}

async fn hear(server: &Server) {
    let mut heard = server.inner.live.listen();
    loop {
        let text = match heard.recv().await {
            Ok(Heard::Text(text)) => text,
            Ok(Heard::Gap) | Err(RecvError::Lagged(_)) => {
                // Of logs alone: nobody who waits for a build or a push has missed one.
                let touched = Some(Touched::default());
                server.store().announce(Committed { missed: true, touched, ..Committed::default() });
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        let Ok(said) = serde_json::from_str::<Said>(&text) else { continue };
        if said.by != server.inner.holder {
            if let Some(piece) = &said.shell {
                server.inner.shells.hear(piece);
                continue;
            }
            let changes = said.logs.into_iter().map(|grown| Change {
                account: Some(grown.account),
                kind: ChangeKind::Log,
                id: grown.build,
            });
            server.store().announce(Committed { changes: changes.collect(), ..Committed::default() });
        }
    }
}
