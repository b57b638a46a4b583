//! ApplicationSets: generators and a template become Applications; what is there becomes a plan.
//!
//! In: the ApplicationSet, the clusters, and answers to what the generators ask of the world ([`Need`]). Out:
//! Applications ([`generate`]) and what to create, update and delete, with the status to write ([`plan`]).
//! A generator that needs to know something says so as a value; the shell reads it and asks again. Nothing here
//! fetches, and nothing is deleted because somebody else's answer was missing or empty.

mod conditions;
mod fill;
mod generate;
mod generators;
mod needs;
mod params;
mod patch;
mod plan;
mod progressive;
mod update;

pub use generate::{Generated, Generation, GenerationError, generate};
pub use needs::{Answer, Answers, ClusterEntry, Decisions, Need, PullRequest, RepositoryEntry};
pub use params::Params;
pub use plan::{Change, PlanInput, Policy, SetPlan, plan, plan_deletion};
pub use progressive::steps_of;
pub use slipway_dialect::selector::selects;

/// Ours, on an ApplicationSet: `"true"` lets a generator that comes back empty delete Applications.
pub const ALLOW_EMPTY: &str = "slipway.io/allow-empty";
/// The cluster that everything runs in, as Argo CD calls it.
pub const IN_CLUSTER_NAME: &str = "in-cluster";
/// Its address.
pub const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
