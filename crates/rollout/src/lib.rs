//! Room `rollout`: progressive delivery as users of Argo Rollouts know it, without a cluster.
//!
//! In: Rollouts, analysis templates and what stands beside them, as text or as values. Out: findings ([`lint`]), and which pods and
//! weights each step of a canary leads to ([`preview`], by the arithmetic of [`replicas`]). And from what a cluster holds: what to do now
//! ([`plan`], with the objects of routers in [`routing`]), which the engine of the runtime carries out. Pure: no clock, no client, no file.
//!
//! For people: [`player`].
//!
//! Does not know: how objects are watched and written.

pub mod analysis;
pub mod conformance;
pub mod experiment;
pub mod identity;
pub mod lint;
pub mod names;
pub mod orders;
pub mod phase;
pub mod plan;
pub mod player;
pub mod preview;
pub mod provider;
pub mod replicas;
pub mod routing;
