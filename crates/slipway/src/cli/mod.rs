//! CLI verbs. Online ones are clients of the same API as the web UI; offline ones run the pure rooms here.

pub(crate) mod access;
mod app_list;
mod app_wait;
pub(crate) mod apps;
pub(crate) mod appset;
mod build_list;
pub(crate) mod builds;
mod changes;
pub(crate) mod context;
pub(crate) mod create;
mod debug;
pub(crate) mod doctor;
pub(crate) mod login;
pub(crate) mod nouns;
pub(crate) mod offline;
pub(crate) mod open;
pub(crate) mod output;
pub(crate) mod pipelines;
mod proxy;
mod render;
pub(crate) mod repos;
pub(crate) mod retention;
pub(crate) mod rollout_cluster;
pub(crate) mod rollouts;
mod watch;
