//! Room `gitops`: what is desired and what is live become a comparison, a plan and a verdict on health.
//!
//! Everything comes in as values (manifests, live objects, what the Application remembers, the time) and goes out as
//! values. This room knows no cluster, no Git and no clock: the `runtime` room watches, fetches, applies and reports.

pub mod actions;
pub mod appset;
mod auto;
pub mod cluster;
pub mod compare;
pub mod conformance;
pub mod deletion;
pub mod dependencies;
pub mod diff;
pub mod health;
pub mod hooks;
pub mod hydration;
pub mod lua;
pub mod notify;
pub mod object;
pub mod options;
pub mod order;
pub mod orphans;
pub mod project;
pub mod refresh;
pub mod settings;
pub mod sync;
pub mod tracking;
mod tree;
pub mod windows;

pub use auto::{
    AutoSync, AutoSyncInput, InFlight, Retry, auto_sync_decision, retried_message, retry_decision,
    retry_message,
};
pub use cluster::{ClusterInfo, Settings, TrackingMethod};
pub use compare::{CompareInput, Comparison, ResourceState, SyncCode, compare};
pub use object::{Manifest, ResourceKey};
pub use tracking::set_tracking;
pub use tree::{TreeNode, images, tree, tree_with};
