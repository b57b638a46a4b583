//! Pipelines from their definition to the end of a build: triggers, schedules, orders, the queue, Git and its providers, reports.
//!
//! Runs nothing: runners take builds through `agents`.

pub(crate) mod annotations;
pub(crate) mod announcements;
pub(crate) mod builds;
pub(crate) mod contexts;
pub(crate) mod errands;
pub(crate) mod git_host;
pub(crate) mod git_rights;
pub(crate) mod kept_secrets;
pub(crate) mod log_views;
pub(crate) mod mail;
pub(crate) mod notifications;
pub(crate) mod orders;
pub(crate) mod pipelines;
pub(crate) mod projects;
pub(crate) mod providers;
pub(crate) mod push_rights;
pub(crate) mod queue;
pub(crate) mod registries;
pub(crate) mod repositories;
pub(crate) mod rest;
pub(crate) mod schedules;
pub(crate) mod shells;
pub(crate) mod start;
pub(crate) mod step_types;
pub(crate) mod trigger_events;
pub(crate) mod triggers;
pub(crate) mod webhook_sync;
