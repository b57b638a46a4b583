//! Room `rollout`: progressive delivery as users of Argo Rollouts know it, without a cluster.
//!
//! In: Rollouts, analysis templates and what stands beside them, as text or as values. Out: findings ([`lint`]), and which pods and
//! weights each step of a canary leads to ([`preview`], by the arithmetic of [`replicas`]). Pure: no clock, no client, no file.
//!
//! Does not know: how objects are watched and written. There is no engine yet that carries any of this out.

pub mod conformance;
pub mod lint;
pub mod preview;
pub mod replicas;
