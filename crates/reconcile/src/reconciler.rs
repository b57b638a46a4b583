//! What an engine is to the shell.

use std::time::Duration;

use slipway_cluster::{Change, Subscription};

use crate::outcome::{Requeue, Retry, Stop};
use crate::{Key, Kind, Wake};

/// An engine: a kind of object, what wakes it, and one function.
///
/// A reconcile reads the whole state again and never acts on the contents of what woke it, so that it may be repeated,
/// dropped half-way or skipped when a later one covers it.
pub trait Reconciler: Send + Sync + Sized + 'static {
    /// In logs, metrics and the status of engines.
    const NAME: &'static str;
    /// What is reconciled.
    const KIND: Kind;
    /// The field manager of everything that it writes to a cluster.
    const MANAGER: &'static str;
    /// How failures are waited out.
    const RETRY: Retry = Retry { first: Duration::from_secs(1), max: Duration::from_secs(60) };
    /// False: what it writes down stays true when the shard moves meanwhile. Then no write is refused and nobody who
    /// takes the shard over waits for it.
    const FENCED: bool = true;

    /// Objects reconciled at once.
    fn workers(&self) -> usize {
        1
    }

    /// What wakes it.
    fn watches() -> Vec<Watch<Self>>;

    /// Everything that there is to reconcile: at the start, and when shards move.
    fn keys(&self) -> Vec<Key>;

    fn reconcile(&self, key: &Key, wake: Wake) -> impl Future<Output = Result<Requeue, Stop>> + Send;

    /// The key is another process's now, or nobody's: what is remembered of it grows old.
    fn released(&self, _key: &Key) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// After each reconcile, whatever its outcome.
    fn finished(&self, _key: &Key, _took: Duration) {}
}

/// From a change in the cluster to what has to be reconciled.
pub struct Watch<R> {
    /// None: objects of every kind.
    kind: Option<Kind>,
    keys: fn(&R, &Change) -> Vec<Key>,
    wake: Wake,
    /// It hears of what its objects own.
    owned: bool,
}

/// What an engine needs the cluster to keep and to announce.
pub fn subscriptions<R: Reconciler>() -> Vec<Subscription> {
    let watches = R::watches();
    let own = Subscription::kind(R::KIND.group, R::KIND.kind);
    let own = if watches.iter().any(|watch| watch.owned) { own.with_owned() } else { own };
    let others = watches.iter().filter_map(|watch| watch.kind).filter(|kind| *kind != R::KIND);
    let others = others.map(|kind| Subscription::kind(kind.group, kind.kind));
    std::iter::once(own).chain(others).collect()
}

impl<R: Reconciler> Watch<R> {
    /// The object itself.
    pub fn itself() -> Self {
        Self::map(R::KIND, |_, change| Key::of(R::KIND, &change.key).into_iter().collect()).with(Wake::OBJECT)
    }

    /// Whatever one of its objects owns, directly or through others: a Rollout hears of its ReplicaSets and their pods.
    pub fn owned() -> Self {
        Self {
            owned: true,
            ..Self::any(|_, change| change.owners().filter_map(|o| Key::of(R::KIND, o)).collect())
        }
    }

    /// What a change of this kind means is for the engine to say.
    pub fn map(kind: Kind, keys: fn(&R, &Change) -> Vec<Key>) -> Self {
        Self { kind: Some(kind), ..Self::any(keys) }
    }

    /// The same for objects of every kind.
    pub fn any(keys: fn(&R, &Change) -> Vec<Key>) -> Self {
        Self { kind: None, keys, wake: Wake::STATE, owned: false }
    }

    /// How the keys are woken, if not by [`Wake::STATE`].
    pub fn with(self, wake: Wake) -> Self {
        Self { wake, ..self }
    }

    pub(crate) fn wakes(&self, engine: &R, change: &Change) -> Vec<(Key, Wake)> {
        if self.kind.is_some_and(|kind| !kind.is(&change.key)) {
            return Vec::new();
        }
        (self.keys)(engine, change).into_iter().map(|key| (key, self.wake)).collect()
    }
}
