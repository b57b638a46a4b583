//! CLI verbs. Online ones are clients of the same API as the web UI; offline ones run the pure rooms here.

pub(crate) mod access;
pub(crate) mod apps;
pub(crate) mod appset;
pub(crate) mod builds;
pub(crate) mod context;
pub(crate) mod create;
mod debug;
pub(crate) mod login;
pub(crate) mod nouns;
pub(crate) mod offline;
pub(crate) mod open;
pub(crate) mod output;
pub(crate) mod pipelines;
mod render;
pub(crate) mod repos;
pub(crate) mod retention;
