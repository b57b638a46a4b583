//! Room `workflow`: workflows as users of Argo Workflows know them, without a cluster.
//!
//! In: Workflows, their templates and schedules, as text. Out: findings ([`lint`]). In: a Workflow, the templates that it names, its pods
//! and the time. Out: what becomes of its nodes, and what to create and delete for it ([`plan`]). Pure: no clock, no client, no file.
//!
//! Does not know: how anything of it is written down in a cluster.

pub mod conformance;
pub mod cron;
pub mod depends;
pub mod identity;
pub mod lint;
pub mod orders;
pub mod plan;
pub mod scope;
mod sprig;
mod tags;
pub mod when;
