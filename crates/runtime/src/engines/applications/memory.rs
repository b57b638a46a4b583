//! What is known of an Application between two reconciles. Everything here can be lost at any time.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use slipway_cluster::ObjectKey;
use slipway_gitops::refresh::Head;
use slipway_gitops::sync::SyncProgress;
use slipway_reconcile::{Key, Written};

use super::manifests::Unreadable;
use super::sources::Desired;
use super::{lookup, server_side};
use crate::clusters::Destination;

/// What was read of the sources.
pub(crate) type SourceHead = Head<Instant, Arc<Desired>, Unreadable>;

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) head: SourceHead,
    /// What the cluster was told to announce: the manifests' objects, and what charts looked up.
    pub(crate) interest: HashSet<ObjectKey>,
    pub(crate) looked_up: lookup::Seen,
    /// The namespace whose orphans its project wants to know.
    pub(crate) watched_for_orphans: Option<String>,
    /// Where it went at the last reconcile.
    pub(crate) destination: Option<Arc<Destination>>,
    /// What the API server said an apply would do.
    pub(crate) answers: server_side::Answers,
    /// Belongs to somebody who only reads, and tells the cluster nothing.
    pub(crate) read_only: bool,
    /// The operation under way.
    pub(crate) operation: OperationMemory,
    /// The fingerprint of what the last reconcile saw.
    pub(crate) seen: Option<u64>,
    /// The version of the Application that we wrote ourselves.
    pub(crate) written: Written,
}

/// The operation under way, and what it waits for.
#[derive(Default)]
pub(crate) struct OperationMemory {
    pub(crate) progress: Option<SyncProgress>,
    /// It has nothing to run and waits for health alone.
    pub(crate) awaiting_health: bool,
    /// What it waits for, in sentences.
    pub(crate) waiting: Vec<String>,
}

impl Memory {
    /// For somebody who looks at an Application beside its engine. The engine said what it is interested in; saying it
    /// again from elsewhere would race with it.
    pub(crate) fn read_only(head: SourceHead) -> Self {
        Self { head, read_only: true, ..Self::default() }
    }
}

/// The memories of all Applications.
#[derive(Default)]
pub(crate) struct Memories(Mutex<HashMap<Key, Memory>>);

impl Memories {
    /// Whoever takes one brings it back: one Application is reconciled once at a time.
    pub(crate) fn take(&self, key: &Key) -> Memory {
        self.0.lock().expect("no panic while locked").remove(key).unwrap_or_default()
    }

    pub(crate) fn put(&self, key: &Key, memory: Memory) {
        self.0.lock().expect("no panic while locked").insert(key.clone(), memory);
    }

    /// What the last reconcile found in the sources, for readers beside the engine.
    pub(crate) fn head(&self, key: &Key) -> SourceHead {
        let memories = self.0.lock().expect("no panic while locked");
        memories.get(key).map(|memory| memory.head.clone()).unwrap_or_default()
    }
}
