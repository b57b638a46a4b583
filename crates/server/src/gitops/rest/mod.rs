//! Handlers: they translate between the wire and this folder; nothing is decided here, and nothing outside calls them.

pub(crate) mod applications;
pub(crate) mod clusters;
pub(crate) mod entities;
pub(crate) mod proxied;
pub(crate) mod rollouts;
pub(crate) mod runtimes;
pub(crate) mod tunnel;
