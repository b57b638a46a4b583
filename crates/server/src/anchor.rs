//! Where each audit chain was a moment ago, kept in a file outside the database.
//!
//! Somebody who can change the database can also drop its last records and its heads; they do not match this file
//! then. Each line is marked with the chain's own key, so that the file cannot be written without it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use slipway_store::{StoreError, audit};

use crate::ctx::Server;
use crate::seal::DataKey;

/// So much of the end of a chain can be dropped unseen by whoever also stops the server in that moment.
const EVERY: Duration = Duration::from_secs(2);

pub(crate) struct Anchors {
    path: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    seq: i64,
    hash: String,
    mark: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Anchor {
    Missing,
    Forged,
    At { seq: i64, hash: String },
}

fn mark(key: &DataKey, chain: &str, seq: i64, hash: &str) -> String {
    key.chain(&format!("anchor/{chain}/{seq}/{hash}"))
}

impl Anchors {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    fn read(&self) -> BTreeMap<String, Line> {
        std::fs::read(&self.path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    pub(crate) fn of(&self, chain: &str, key: &DataKey) -> Anchor {
        match self.read().remove(chain) {
            None => Anchor::Missing,
            Some(line) if line.mark == mark(key, chain, line.seq, &line.hash) => {
                Anchor::At { seq: line.seq, hash: line.hash }
            }
            Some(_) => Anchor::Forged,
        }
    }

    fn write(&self, lines: &BTreeMap<String, Line>) -> std::io::Result<()> {
        let temporary = self.path.with_extension("new");
        let mut file = std::fs::File::create(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(lines)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)
    }
}

/// Anchors every chain that has grown. Numbers only grow, so a shorter chain does not move its anchor back.
pub(crate) async fn anchor_all(server: &Server) -> Result<(), StoreError> {
    let inner = server.clone();
    let heads = server
        .store()
        .read(move |tx| {
            let mut heads = Vec::new();
            for (chain, seq, hash) in audit::heads(tx)? {
                heads.push((inner.keyring().named(tx, &chain)?, chain, seq, hash));
            }
            Ok(heads)
        })
        .await?;
    let anchors = server.anchor();
    let mut lines = anchors.read();
    let mut moved = false;
    for (key, chain, seq, hash) in heads {
        if lines.get(&chain).is_none_or(|line| line.seq < seq) {
            let mark = mark(&key, &chain, seq, &hash);
            lines.insert(chain, Line { seq, hash, mark });
            moved = true;
        }
    }
    if moved {
        anchors.write(&lines).map_err(StoreError::corrupt)?;
    }
    Ok(())
}

pub(crate) async fn keep_anchoring(server: &Server) {
    loop {
        let stopping = tokio::select! {
            () = server.inner.shutdown.cancelled() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        if let Err(error) = anchor_all(server).await {
            tracing::warn!(%error, "Could not write the anchor of the audit trail.");
        }
        if stopping {
            return;
        }
    }
}
