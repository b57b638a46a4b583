//! Room `cluster`: the only owner of a Kubernetes client.
//!
//! In: a kubeconfig, objects to write. Out: what the cluster serves ([`Discovery`]), what is in it (a compact
//! copy fed by one watch per kind, see [`Live`]), which objects changed and whom that concerns ([`Change`]), and the
//! answers to writes. A write's answer enters the copy at once, so a reader never looks behind its own hand.
//! [`Pods`] is the same for processes that live as long as one pod: no copy, no watch.
//! The room does not know what an application wants, nor how it marks what is its own ([`Tracking`]): it compares and
//! decides nothing.

mod cache;
mod changes;
mod connect;
mod contexts;
mod credential;
mod definitions;
mod discovery;
mod error;
mod exec;
mod fence;
mod given;
mod key;
mod logs;
mod manager;
mod pods;
mod reach;
mod request;
mod rights;
mod subscriptions;
mod supervise;
mod tracking;
mod until;
mod watch;
mod write;

pub use cache::Live;
pub use changes::{Change, Subject};
pub use connect::{Cluster, ClusterConfig};
pub use contexts::{Contexts, KubeContext};
pub use discovery::{ApiResource, Discovery};
pub use error::ClusterError;
pub use exec::{Exec, ExecEnd, ExecOptions, Resize};
pub use fence::{BeforeWrite, Gate, fenced};
pub use given::Given;
pub use key::ObjectKey;
pub use logs::LogOptions;
pub use manager::managed;
pub use pods::{PodKind, Pods, PodsConfig, Terminal};
pub use reach::Reach;
pub use rights::Right;
pub use subscriptions::Subscription;
pub use tracking::Tracking;
pub use write::{Propagation, WriteOptions};
