//! Handlers: they translate between the wire and this folder; nothing is decided here, and nothing outside calls them.

pub(crate) mod annotations;
pub(crate) mod approvals;
pub(crate) mod badges;
pub(crate) mod builds;
pub(crate) mod connections;
pub(crate) mod contexts;
pub(crate) mod debug;
pub(crate) mod definition;
pub(crate) mod hermes;
pub(crate) mod hooks;
pub(crate) mod images;
pub(crate) mod log_socket;
pub(crate) mod logs;
pub(crate) mod pipelines;
pub(crate) mod projects;
pub(crate) mod registries;
pub(crate) mod repos;
pub(crate) mod restarts;
pub(crate) mod revisions;
pub(crate) mod runs;
pub(crate) mod runtime_environments;
pub(crate) mod step_types;
pub(crate) mod texts;
pub(crate) mod triggers;
pub(crate) mod validator;
