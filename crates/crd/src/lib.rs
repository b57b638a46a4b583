//! Room `crd`: the custom resources that users know, as Rust types, and their definitions for a cluster.
//!
//! What comes in is JSON from a Kubernetes API, what goes out is the same JSON: fields we do not know are kept.
//! Nothing is decided here; `gitops` and the other planners do that.

pub mod analysis;
mod application;
mod applicationset;
mod definitions;
mod meta;
mod misfits;
pub mod names;
mod project;
pub mod rollout;
mod schema;
mod source;
mod status;
mod wire;
mod words;
pub mod workflow;

pub use application::*;
pub use applicationset::*;
pub use definitions::{manifests, rollout_manifests, workflow_manifests};
pub use meta::*;
pub use misfits::{Misfit, Place, misfits, workflow_misfits};
pub use project::*;
pub use slipway_model::{HealthCode, SyncCode, Word};
pub use source::*;
pub use status::*;
pub use wire::Other;
pub use words::{ConditionType, HydratePhase, OperationPhase, ResultCode, SetConditionType};
