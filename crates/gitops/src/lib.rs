//! Room `gitops`: what is desired and what is live become a comparison, a plan and a verdict on health.
//!
//! Everything comes in as values (manifests, live objects, what the Application remembers, the time) and goes out as
//! values. This room knows no cluster, no Git and no clock: the `runtime` room watches, fetches, applies and reports.

pub mod cluster;
pub mod compare;
pub mod diff;
pub mod glob;
pub mod health;
pub mod hooks;
mod jq;
pub mod object;
pub mod options;
pub mod order;
pub mod project;
pub mod sync;
pub mod tracking;
mod tree;

pub use cluster::{ClusterInfo, Settings, TrackingMethod};
pub use compare::{CompareInput, Comparison, ResourceState, SyncCode, compare};
pub use object::{Manifest, ResourceKey};
pub use tracking::set_tracking;
pub use tree::{TreeNode, images, tree};
