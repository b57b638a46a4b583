//! Room `reconcile`: the shell that every engine of the runtime stands on.
//!
//! In: a [`Reconciler`] (its kind, what wakes it, one function that looks at one object) and the changes that `cluster`
//! announces. Out: calls of that function, each key at most once at a time, under the fence of its shard, repeated as the
//! outcome asks for; and a [`TaskStatus`] per engine that says how it fares.
//! The room does not know what any engine wants. A new engine is a pure room that plans, a folder that implements
//! [`Reconciler`], and one row: `shell.with(engine)`.

mod events;
mod finalizers;
mod key;
mod outcome;
mod queue;
mod reconciler;
mod save;
mod shards;
mod shell;
mod status;

pub use events::{EventWriter, Note};
pub use finalizers::{added, removed};
pub use key::{Key, Kind};
pub use outcome::{Failure, Requeue, Retry, Stop};
pub use queue::{Queue, Wake};
pub use reconciler::{Reconciler, Watch, subscriptions};
pub use save::{StatusAt, StatusChange, Written, merge_patch, save, save_status};
pub use shards::{Shards, Share, Sharing, SharingError};
pub use shell::Shell;
pub use status::{Failing, Task, TaskStatus, Tasks};
