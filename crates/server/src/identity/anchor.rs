//! Where each audit chain was a moment ago, kept in a file outside the database.
//!
//! Somebody who can change the database can also drop its last records and its heads; they do not match this file
//! then. Each line is marked with the chain's own key, so that the file cannot be written without it. The file is
//! written whole, some 250 bytes for each chain and only when one has grown: a list that is appended to would keep
//! older marks, and with them an older state to go back to unseen.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use slipway_store::{StoreError, audit};

use crate::background::driver::{Outcome, Round, Turn};
use crate::ctx::Server;
use crate::seal::DataKey;

/// So much of the end of a chain can be dropped unseen by whoever also stops the server in that moment.
pub(crate) const EVERY: Duration = Duration::from_secs(2);

pub(crate) struct Anchors {
    path: PathBuf,
    /// How far this process knows each chain to be anchored: the file is looked at when one has grown.
    known: Mutex<BTreeMap<String, i64>>,
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

/// A chain's end as the database has it.
pub(crate) struct Head {
    pub(crate) chain: String,
    key: Arc<DataKey>,
    seq: i64,
    hash: String,
}

impl Head {
    fn line(&self) -> Line {
        let mark = mark(&self.key, &self.chain, self.seq, &self.hash);
        Line { seq: self.seq, hash: self.hash.clone(), mark }
    }
}

fn mark(key: &DataKey, chain: &str, seq: i64, hash: &str) -> String {
    key.chain(&format!("anchor/{chain}/{seq}/{hash}"))
}

impl Anchors {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, known: Mutex::new(BTreeMap::new()) }
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

    /// Numbers only grow, so a shorter chain does not move its anchor back.
    fn advance(&self, heads: &[Head]) -> std::io::Result<()> {
        let mut known = self.known.lock().expect("not poisoned");
        if heads.iter().all(|head| known.get(&head.chain).is_some_and(|seq| *seq >= head.seq)) {
            return Ok(());
        }
        let _turn = self.turn()?;
        let mut lines = self.read();
        let mut moved = false;
        for head in heads {
            if lines.get(&head.chain).is_none_or(|line| line.seq < head.seq) {
                lines.insert(head.chain.clone(), head.line());
                moved = true;
            }
        }
        if moved {
            self.write(&lines)?;
        }
        *known = lines.into_iter().map(|(chain, line)| (chain, line.seq)).collect();
        Ok(())
    }

    /// Forgets where chains were before: after a restore they are where the backup has them.
    pub(crate) fn begin_anew(&self, heads: &[Head]) -> std::io::Result<()> {
        let _turn = self.turn()?;
        self.write(&heads.iter().map(|head| (head.chain.clone(), head.line())).collect())
    }

    /// Processes share the folder: a process that is leaving and the one that leads now do not write over each other.
    fn turn(&self) -> std::io::Result<File> {
        let file = File::create(self.path.with_extension("lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn write(&self, lines: &BTreeMap<String, Line>) -> std::io::Result<()> {
        let temporary = self.path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(lines)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)
    }
}

pub(crate) async fn heads(server: &Server) -> Result<Vec<Head>, StoreError> {
    let inner = server.clone();
    server
        .store()
        .read(move |tx| {
            let mut heads = Vec::new();
            for (chain, seq, hash) in audit::heads(tx)? {
                heads.push(Head { key: inner.keyring().named(tx, &chain)?, chain, seq, hash });
            }
            Ok(heads)
        })
        .await
}

/// Anchors every chain that has grown.
pub(crate) async fn anchor_all(server: &Server) -> Result<(), StoreError> {
    let heads = heads(server).await?;
    server.anchor().advance(&heads).map_err(StoreError::corrupt)
}

/// One process does it for all of them; what the last requests of each wrote is anchored by [`Server::finish`].
pub(crate) async fn round(turn: &Turn) -> Outcome {
    anchor_all(&turn.server).await?;
    Ok(Round::Done)
}
