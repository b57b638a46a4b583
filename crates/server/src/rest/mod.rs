//! REST, one module a noun. Handlers translate between the wire and the store; nothing is decided here.

pub(crate) mod applications;
pub(crate) mod builds;
pub(crate) mod keys;
pub(crate) mod logs;
pub(crate) mod pipelines;
pub(crate) mod repos;
pub(crate) mod user;
pub(crate) mod validator;
