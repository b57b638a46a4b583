//! All objects: in memory for reading and watching, in SQLite for keeping.
//!
//! Comes in: transactions that read and write whole objects. Goes out: objects, lists and change feeds, which never
//! show anything that is not committed. Does not know: what an object means, beyond its metadata.
//!
//! Writers prepare under one lock, where they see each other's uncommitted writes (the overlay); a thread commits
//! what has queued up in one SQLite transaction, makes it visible, and only then answers. So an acknowledged write
//! has been synced, and a resourceVersion that anybody saw is never used again.

mod db;
mod feed;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock, mpsc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use feed::Feed;
pub(crate) use feed::{Change, Event, Watcher};

use crate::value::Json as _;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("the cluster's database {path} cannot be used; check the disk and the file's owner")]
    Database {
        path: String,
        #[source]
        source: rusqlite::Error,
    },
    #[error(
        "{object} in the cluster's database {path} cannot be read; restore the file, or start over with a new folder"
    )]
    Object {
        path: String,
        object: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("the write could not be committed ({0}); check that the disk is not full")]
    Commit(String),
    #[error("the cluster is shutting down; try again when it is back")]
    Closed,
}

/// The feed that carries the changes of all kinds.
pub(crate) const EVERYTHING: &str = "*";

/// Where an object lives. `kind` is the storage name, such as `apps/deployments`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: Arc<str>,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// An object as it is kept: its JSON text, and what lookups need.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) uid: String,
    pub(crate) json: Bytes,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) owners: Vec<String>,
    pub(crate) deleting: bool,
}

impl Stored {
    fn new(key: Key, version: u64, value: &Value) -> Self {
        let labels = value.map_at("metadata.labels").into_iter().flatten();
        Stored {
            key,
            version,
            uid: value.uid().to_owned(),
            json: Bytes::from(value.to_string()),
            labels: labels.map(|(k, v)| (k.clone(), v.as_str().unwrap_or("").to_owned())).collect(),
            deleting: value.at("metadata.deletionTimestamp").is_some(),
            owners: value
                .list_at("metadata.ownerReferences")
                .iter()
                .map(|o| o.str_at("uid").to_owned())
                .collect(),
        }
    }

    /// As it comes from the disk: only what lookups need is read, the text stays as it is. A cluster with thousands of
    /// objects starts within the time it takes to skim them.
    fn load(key: Key, version: u64, json: Vec<u8>) -> Result<Self, (Key, serde_json::Error)> {
        let outline: Outline = match serde_json::from_slice(&json) {
            Ok(outline) => outline,
            Err(error) => return Err((key, error)),
        };
        let meta = outline.metadata;
        Ok(Stored {
            key,
            version,
            uid: meta.uid,
            json: Bytes::from(json),
            labels: meta.labels.into_iter().flatten().map(|(k, v)| (k, v.unwrap_or_default())).collect(),
            deleting: meta.deletion_timestamp.is_some(),
            owners: meta.owner_references.into_iter().flatten().map(|owner| owner.uid).collect(),
        })
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json).expect("stored objects are valid JSON")
    }
}

#[derive(Deserialize)]
struct Outline {
    metadata: OutlineMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutlineMeta {
    #[serde(default)]
    uid: String,
    labels: Option<BTreeMap<String, Option<String>>>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
    owner_references: Option<Vec<OutlineOwner>>,
}

#[derive(Deserialize)]
struct OutlineOwner {
    #[serde(default)]
    uid: String,
}

pub(crate) type Shelf = BTreeMap<(String, String), Arc<Stored>>;

#[derive(Default)]
struct Memory {
    version: u64,
    shelves: HashMap<Arc<str>, Shelf>,
    feeds: HashMap<Arc<str>, Feed>,
    by_uid: HashMap<String, Key>,
    by_owner: HashMap<String, HashSet<Key>>,
    /// Watches from before this version cannot be served: the feeds do not reach further back.
    floor: u64,
}

#[derive(Default)]
struct Pending {
    version: u64,
    overlay: HashMap<Key, (u64, Option<Arc<Stored>>)>,
}

struct Write {
    change: Change,
    object: Arc<Stored>,
}

struct Batch {
    writes: Vec<Write>,
    done: oneshot::Sender<Result<(), StoreError>>,
}

pub(crate) struct Store {
    memory: Arc<RwLock<Memory>>,
    pending: Arc<Mutex<Pending>>,
    queue: Mutex<Option<mpsc::Sender<Batch>>>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Store, StoreError> {
        let fail = |source| StoreError::Database { path: path.display().to_string(), source };
        let mut db = db::Db::open(path).map_err(fail)?;
        let (version, rows) = db.load().map_err(fail)?;
        let mut memory = Memory { version, floor: version, ..Memory::default() };
        for (key, version, json) in rows {
            let object = Stored::load(key, version, json).map_err(|(key, source)| StoreError::Object {
                path: path.display().to_string(),
                object: format!("{} {}/{}", key.kind, key.namespace, key.name),
                source,
            })?;
            memory.put(Arc::new(object));
        }
        let memory = Arc::new(RwLock::new(memory));
        let pending = Arc::new(Mutex::new(Pending { version, overlay: HashMap::new() }));
        let (queue, batches) = mpsc::channel::<Batch>();
        let (memory2, pending2) = (memory.clone(), pending.clone());
        let writer = std::thread::Builder::new()
            .name("devcluster-writer".to_owned())
            .spawn(move || write_loop(&mut db, &batches, &memory2, &pending2))
            .map_err(|e| StoreError::Commit(e.to_string()))?;
        Ok(Store { memory, pending, queue: Mutex::new(Some(queue)), writer: Mutex::new(Some(writer)) })
    }

    /// Commits what is queued and stops accepting writes.
    pub(crate) fn close(&self) {
        self.queue.lock().expect("store lock").take();
        if let Some(writer) = self.writer.lock().expect("store lock").take() {
            let _ = writer.join();
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.memory.read().expect("store lock").version
    }

    pub(crate) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let memory = self.memory.read().expect("store lock");
        memory.shelves.get(kind)?.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// All objects of a kind, in order, and the version at which that is true.
    pub(crate) fn list(&self, kind: &str, namespace: Option<&str>) -> (u64, Vec<Arc<Stored>>) {
        let memory = self.memory.read().expect("store lock");
        let Some(shelf) = memory.shelves.get(kind) else { return (memory.version, Vec::new()) };
        let objects = match namespace {
            None => shelf.values().cloned().collect(),
            Some(namespace) => shelf
                .range((namespace.to_owned(), String::new())..)
                .take_while(|((ns, _), _)| ns == namespace)
                .map(|(_, object)| object.clone())
                .collect(),
        };
        (memory.version, objects)
    }

    pub(crate) fn find_uid(&self, uid: &str) -> Option<Key> {
        self.memory.read().expect("store lock").by_uid.get(uid).cloned()
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<Key> {
        let memory = self.memory.read().expect("store lock");
        memory.by_owner.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The storage names under which anything is kept.
    pub(crate) fn kinds(&self) -> Vec<Arc<str>> {
        let memory = self.memory.read().expect("store lock");
        memory.shelves.iter().filter(|(_, shelf)| !shelf.is_empty()).map(|(kind, _)| kind.clone()).collect()
    }

    /// A feed of changes after `since`; nothing when the feed does not reach back that far.
    pub(crate) fn watch(&self, kind: &str, since: u64) -> Option<Watcher> {
        let mut memory = self.memory.write().expect("store lock");
        let (floor, version) = (memory.floor, memory.version);
        let feed = memory.feeds.entry(Arc::from(kind)).or_insert_with(|| Feed::new(floor, version));
        feed.watcher(self.memory.clone(), Arc::from(kind), since)
    }

    /// Runs `work` against the newest state and commits what it wrote. Nothing is kept when it fails or is dry.
    pub(crate) async fn transact<T, E: From<StoreError>>(
        &self,
        dry_run: bool,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (result, committed) = {
            let mut pending = self.pending.lock().expect("store lock");
            let mut tx = Tx { store: self, version: pending.version, pending: &pending, writes: Vec::new() };
            let result = work(&mut tx)?;
            let (version, writes) = (tx.version, tx.writes);
            if dry_run || writes.is_empty() {
                return Ok(result);
            }
            pending.version = version;
            for write in &writes {
                let next = (write.change != Change::Deleted).then(|| write.object.clone());
                pending.overlay.insert(write.object.key.clone(), (write.object.version, next));
            }
            let (done, committed) = oneshot::channel();
            let queue = self.queue.lock().expect("store lock");
            let sent = queue.as_ref().is_some_and(|queue| queue.send(Batch { writes, done }).is_ok());
            if !sent {
                pending.overlay.clear();
                return Err(StoreError::Closed.into());
            }
            (result, committed)
        };
        committed.await.unwrap_or(Err(StoreError::Closed))?;
        Ok(result)
    }
}

impl Memory {
    fn put(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        let key = object.key.clone();
        let old = self.forget(&key);
        self.by_uid.insert(object.uid.clone(), key.clone());
        for owner in &object.owners {
            self.by_owner.entry(owner.clone()).or_default().insert(key.clone());
        }
        self.shelves.entry(key.kind.clone()).or_default().insert((key.namespace, key.name), object);
        old
    }

    fn forget(&mut self, key: &Key) -> Option<Arc<Stored>> {
        let shelf = self.shelves.get_mut(&key.kind)?;
        let old = shelf.remove(&(key.namespace.clone(), key.name.clone()))?;
        self.by_uid.remove(&old.uid);
        for owner in &old.owners {
            if let Some(set) = self.by_owner.get_mut(owner) {
                set.remove(key);
                if set.is_empty() {
                    self.by_owner.remove(owner);
                }
            }
        }
        Some(old)
    }
}

/// What a transaction sees and writes.
pub(crate) struct Tx<'a> {
    store: &'a Store,
    pending: &'a Pending,
    version: u64,
    writes: Vec<Write>,
}

impl Tx<'_> {
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Stored>> {
        if let Some(write) = self.writes.iter().rev().find(|write| write.object.key == *key) {
            return (write.change != Change::Deleted).then(|| write.object.clone());
        }
        match self.pending.overlay.get(key) {
            Some((_, object)) => object.clone(),
            None => self.store.get(&key.kind, &key.namespace, &key.name),
        }
    }

    /// Objects of a kind that are written but not committed yet.
    pub(crate) fn uncommitted(&self, kind: &str) -> impl Iterator<Item = &Arc<Stored>> {
        self.pending
            .overlay
            .iter()
            .filter(move |(key, _)| &*key.kind == kind)
            .filter_map(|(_, (_, o))| o.as_ref())
    }

    /// Keeps `value`, stamping its resourceVersion.
    pub(crate) fn put(&mut self, key: Key, value: &mut Value) {
        self.version += 1;
        let change = if self.get(&key).is_some() { Change::Modified } else { Change::Added };
        value.set_at("metadata.resourceVersion", self.version.to_string().into());
        self.writes.push(Write { change, object: Arc::new(Stored::new(key, self.version, value)) });
    }

    /// Removes an object; `value` is its last state, which watchers get with the deletion's version.
    pub(crate) fn delete(&mut self, key: Key, value: &mut Value) {
        self.version += 1;
        value.set_at("metadata.resourceVersion", self.version.to_string().into());
        self.writes
            .push(Write { change: Change::Deleted, object: Arc::new(Stored::new(key, self.version, value)) });
    }
}

fn write_loop(
    db: &mut db::Db,
    batches: &mpsc::Receiver<Batch>,
    memory: &RwLock<Memory>,
    pending: &Mutex<Pending>,
) {
    while let Ok(first) = batches.recv() {
        let mut group = vec![first];
        while group.len() < 512
            && let Ok(next) = batches.try_recv()
        {
            group.push(next);
        }
        let committed = db.commit(group.iter().flat_map(|batch| &batch.writes));
        if let Err(error) = committed {
            // What was prepared on top of this batch is built on sand: everything queued fails with it.
            let mut pending = pending.lock().expect("store lock");
            pending.overlay.clear();
            group.extend(batches.try_iter());
            drop(pending);
            for batch in group {
                let _ = batch.done.send(Err(StoreError::Commit(error.to_string())));
            }
            continue;
        }
        publish(&group, memory, pending);
        for batch in group {
            let _ = batch.done.send(Ok(()));
        }
    }
}

fn publish(group: &[Batch], memory: &RwLock<Memory>, pending: &Mutex<Pending>) {
    {
        let mut memory = memory.write().expect("store lock");
        for write in group.iter().flat_map(|batch| &batch.writes) {
            let object = &write.object;
            let before = match write.change {
                Change::Deleted => memory.forget(&object.key),
                _ => memory.put(object.clone()),
            };
            memory.version = object.version;
            let (floor, version) = (memory.floor, object.version - 1);
            let feed =
                memory.feeds.entry(object.key.kind.clone()).or_insert_with(|| Feed::new(floor, version));
            let event =
                Event { version: object.version, change: write.change, object: object.clone(), before };
            feed.push(event.clone());
            let everything =
                memory.feeds.entry(Arc::from(EVERYTHING)).or_insert_with(|| Feed::new(floor, version));
            everything.push(event);
        }
    }
    let mut pending = pending.lock().expect("store lock");
    for write in group.iter().flat_map(|batch| &batch.writes) {
        let object = &write.object;
        if pending.overlay.get(&object.key).is_some_and(|(version, _)| *version == object.version) {
            pending.overlay.remove(&object.key);
        }
    }
}

#[cfg(test)]
mod tests;
