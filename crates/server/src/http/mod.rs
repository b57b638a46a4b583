//! What surrounds every call: listening, routes with their policies, limits, errors, live changes, metrics, pages.
//!
//! Comes in: connections. Goes out: answers. Which calls there are is listed here; what they do is in the other folders.

pub(crate) mod changes;
pub(crate) mod egress;
pub(crate) mod error;
pub(crate) mod fan_out;
pub(crate) mod graphql;
mod greeting;
pub(crate) mod input;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod metrics;
pub(crate) mod redact;
pub(crate) mod refusals;
pub(crate) mod releases;
pub(crate) mod rest;
pub(crate) mod roles;
pub(crate) mod router;
pub(crate) mod routes;
pub(crate) mod tls;
mod under_way;
pub(crate) mod web;
