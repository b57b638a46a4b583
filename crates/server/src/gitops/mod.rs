//! The read model of what runtimes report, and the way to act on it.
//!
//! Decides nothing about a cluster: that is done by the runtime.

pub(crate) mod application_filter;
pub(crate) mod applications;
pub(crate) mod clusters;
pub(crate) mod deployments;
pub(crate) mod graphql;
pub(crate) mod health;
pub(crate) mod intake;
pub(crate) mod networks;
pub(crate) mod passes;
pub(crate) mod peers;
pub(crate) mod reach;
pub(crate) mod releases;
pub(crate) mod rest;
pub(crate) mod runtimes;
pub(crate) mod tunnels;
