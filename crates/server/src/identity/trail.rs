//! The audit trail: who did what to which entity, from where, with which outcome.
//!
//! A call carries a [`Trail`]. A handler records in the transaction of its change; what it leaves out (failures,
//! denials, calls that changed nothing) the guard of the route records afterwards. Records of one account form a
//! chain under a key that is not in the database; [`verify`] finds one that was changed, dropped, added or moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::{Value, json};
use slipway_access::Principal;
use slipway_model::AccountId;
use slipway_store::audit::{self, Record};
use slipway_store::{StoreError, Tx};

use crate::ctx::Server;
use crate::http::redact::redact;
use crate::identity::anchor::Anchor;
use crate::seal::{DataKey, PLATFORM};

/// Longer ones are cut: a record is for reading.
const DETAIL_CHARS_MAX: usize = 16 << 10;
const ANCHORED_WITHIN_MS: i64 = 15_000;

#[derive(Clone)]
pub(crate) struct Trail {
    inner: Arc<Inner>,
}

struct Inner {
    server: Server,
    request_id: String,
    address: String,
    method: String,
    path: String,
    recorded: AtomicBool,
    /// The handler said the last word, also about a failure.
    settled: AtomicBool,
}

/// What is recorded of one change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    action: String,
    entity: String,
    entity_id: String,
    entity_name: String,
    before: Value,
    after: Value,
    reason: Option<String>,
}

impl Entry {
    pub(crate) fn new(action: &str, entity: &str, id: impl std::fmt::Display, name: &str) -> Self {
        Self {
            action: action.into(),
            entity: entity.into(),
            entity_id: id.to_string(),
            entity_name: name.into(),
            ..Self::default()
        }
    }

    pub(crate) fn before(mut self, value: impl Serialize) -> Self {
        self.before = serde_json::to_value(value).unwrap_or_default();
        self
    }

    pub(crate) fn after(mut self, value: impl Serialize) -> Self {
        self.after = serde_json::to_value(value).unwrap_or_default();
        self
    }

    pub(crate) fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    fn detail(&self) -> String {
        let mut detail = json!({});
        for (name, value) in [("before", &self.before), ("after", &self.after)] {
            if !value.is_null() {
                detail[name] = redact(value);
            }
        }
        if let Some(reason) = &self.reason {
            detail["reason"] = redact(&Value::from(reason.as_str()));
        }
        let text = detail.to_string();
        if text.chars().count() <= DETAIL_CHARS_MAX {
            return text;
        }
        json!({"cut": text.chars().take(DETAIL_CHARS_MAX).collect::<String>()}).to_string()
    }
}

/// Who did it, and in whose chain it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    chain: String,
    kind: String,
    id: String,
    name: String,
}

impl Actor {
    /// The chain that this actor's records go to.
    pub(crate) fn chain(&self) -> &str {
        &self.chain
    }

    pub(crate) fn of(principal: &Principal) -> Self {
        let (kind, id) = principal.reference();
        Self { chain: principal.account.to_string(), kind: kind.into(), id, name: principal.display_name() }
    }

    /// Somebody who is not signed in: what they say who they are is all there is.
    pub(crate) fn unknown(chain: Option<AccountId>, name: &str) -> Self {
        let chain = chain.map_or_else(|| PLATFORM.to_owned(), |account| account.to_string());
        Self { chain, kind: "anonymous".into(), id: String::new(), name: name.chars().take(200).collect() }
    }

    pub(crate) fn person(chain: AccountId, id: impl std::fmt::Display, name: &str) -> Self {
        Self { chain: chain.to_string(), kind: "user".into(), id: id.to_string(), name: name.into() }
    }

    /// Whoever has the machine, beside the platform.
    pub(crate) fn operator(chain: &str) -> Self {
        Self { chain: chain.into(), kind: "operator".into(), id: String::new(), name: "operator".into() }
    }

    /// The same actor, kept in another chain: what a platform administrator does to an account is seen by both.
    pub(crate) fn in_chain(mut self, chain: impl std::fmt::Display) -> Self {
        self.chain = chain.to_string();
        self
    }
}

impl Trail {
    pub(crate) fn new(
        server: Server,
        request_id: String,
        address: String,
        method: String,
        path: String,
    ) -> Self {
        let inner = Inner {
            server,
            request_id,
            address,
            method,
            path,
            recorded: AtomicBool::new(false),
            settled: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn address(&self) -> &str {
        &self.inner.address
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.inner.server.now_ms()
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.inner.recorded.load(Ordering::Acquire)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.inner.settled.load(Ordering::Acquire)
    }

    /// In the transaction of the change: both are there or neither.
    pub(crate) fn allowed(&self, tx: &mut Tx<'_>, actor: &Actor, entry: &Entry) -> Result<(), StoreError> {
        self.record(tx, actor, entry, "allowed", 200)?;
        self.inner.recorded.store(true, Ordering::Release);
        Ok(())
    }

    /// A change that the platform makes by itself in a call of somebody's.
    pub(crate) fn record(
        &self,
        tx: &mut Tx<'_>,
        actor: &Actor,
        entry: &Entry,
        outcome: &str,
        status: u16,
    ) -> Result<(), StoreError> {
        let inner = &self.inner;
        let key = inner.server.keyring().named(tx, &actor.chain)?;
        let record = Record {
            seq: 0,
            at_ms: inner.server.now_ms(),
            actor_kind: actor.kind.clone(),
            actor: actor.id.clone(),
            actor_name: actor.name.clone(),
            address: inner.address.clone(),
            action: entry.action.clone(),
            entity: entry.entity.clone(),
            entity_id: entry.entity_id.clone(),
            entity_name: entry.entity_name.clone(),
            outcome: outcome.into(),
            status: i64::from(status),
            method: inner.method.clone(),
            path: inner.path.clone(),
            request_id: inner.request_id.clone(),
            detail: entry.detail(),
            hash: String::new(),
        };
        audit::append(tx, &actor.chain, record, |before, record| mark(&key, before, record))?;
        Ok(())
    }

    /// For what no handler recorded: a denial, a failure, a change without an entity.
    pub(crate) async fn afterwards(
        &self,
        actor: Actor,
        entry: Entry,
        outcome: &'static str,
        status: u16,
    ) -> Result<(), StoreError> {
        self.inner.settled.store(true, Ordering::Release);
        let trail = self.clone();
        let store = self.inner.server.store();
        store.write(move |tx| trail.record(tx, &actor, &entry, outcome, status)).await
    }

    /// `POST /api/team` → create a `team`: for records of calls that failed before anything was found.
    pub(crate) fn entry_of_route(&self) -> Entry {
        let mut words =
            self.inner.path.split('/').filter(|part| !part.is_empty() && *part != "api" && *part != "2.0");
        let action = match self.inner.method.as_str() {
            "POST" => "create",
            "PUT" | "PATCH" => "update",
            "DELETE" => "delete",
            _ => "read",
        };
        let entity = words.next().unwrap_or("platform").to_owned();
        let id = words.next().unwrap_or_default().chars().take(200).collect::<String>();
        Entry { action: action.into(), entity, entity_id: id.clone(), entity_name: id, ..Entry::default() }
    }
}

/// The mark over a record and the mark before it.
fn mark(key: &DataKey, before: &str, record: &Record) -> String {
    let content = (
        (before, record.seq, record.at_ms, &record.actor_kind, &record.actor, &record.actor_name),
        (&record.address, &record.action, &record.entity, &record.entity_id, &record.entity_name),
        (&record.outcome, record.status, &record.method, &record.path, &record.request_id, &record.detail),
    );
    key.chain(&serde_json::to_string(&content).expect("texts and numbers are JSON"))
}

/// What a check of a chain found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) records: i64,
    pub(crate) head: String,
    /// In order; the first says where it begins to be wrong.
    pub(crate) problems: Vec<String>,
}

/// Reads the whole chain and compares it with its marks, its numbers, its head and the anchor outside the database.
pub(crate) async fn verify(server: &Server, chain: &str) -> Result<Verified, StoreError> {
    const BATCH: i64 = 500;
    let (wanted, keyring_server) = (chain.to_owned(), server.clone());
    let (key, head) = server
        .store()
        .read(move |tx| Ok((keyring_server.keyring().named(tx, &wanted)?, audit::head(tx, &wanted)?)))
        .await?;
    let anchored = server.anchor().of(chain, &key);
    let (mut seq, mut before, mut problems) = (0, String::new(), Vec::new());
    let mut first_ms = None;
    let mut anchor_seen = false;
    loop {
        let (wanted, last) = (chain.to_owned(), seq);
        let batch = server.store().read(move |tx| audit::after(tx, &wanted, last, BATCH)).await?;
        if batch.is_empty() {
            break;
        }
        for record in batch {
            if record.seq != seq + 1 {
                problems.push(format!("records {} to {} are missing", seq + 1, record.seq - 1));
            }
            if record.hash != mark(&key, &before, &record) {
                problems.push(format!("record {} was changed, or the one before it was", record.seq));
            }
            if let Anchor::At { seq: at, hash } = &anchored
                && *at == record.seq
            {
                anchor_seen = true;
                if *hash != record.hash {
                    problems.push(format!("record {at} is not the one that was anchored"));
                }
            }
            first_ms = first_ms.or(Some(record.at_ms));
            (seq, before) = (record.seq, record.hash);
        }
    }
    if head != (seq, before.clone()) {
        problems.push(format!("the chain ends at record {seq}, and its head says {}", head.0));
    }
    match anchored {
        Anchor::At { seq: at, .. } if !anchor_seen => {
            problems.push(format!("record {at} was anchored and is missing"));
        }
        Anchor::Forged => problems.push("the anchor beside the database was changed".into()),
        // A chain that has just begun is anchored in a moment.
        Anchor::Missing
            if first_ms.is_some_and(|first_ms| server.now_ms() - first_ms > ANCHORED_WITHIN_MS) =>
        {
            problems.push(
                "there is no anchor beside the database: records at the end may have been dropped".into(),
            );
        }
        _ => {}
    }
    problems.truncate(100);
    Ok(Verified { records: seq, head: before, problems })
}
