//! The control plane: identity, pipelines, builds, the Git host, the read model of GitOps, and the web UI.
//!
//! In: HTTP. Out: answers after commit, long-polled work for runners and runtimes, live pages. It dials
//! no agent: runners and runtimes come to it. It holds no kubeconfig, and no source code beyond the
//! repositories of the built-in host; of Git providers it has what a context gives it, sealed.

mod access;
pub mod agent;
mod anchor;
pub mod auth;
pub mod bootstrap;
mod changes;
mod clock;
mod consuming;
mod ctx;
mod egress;
mod error;
mod fan_out;
mod git_host;
mod git_rights;
mod graphql;
mod graphql_limits;
mod housekeeping;
mod http;
mod jobs;
mod later;
mod leading;
mod limits;
mod listen;
mod mail;
mod metrics;
mod oidc;
mod orders;
mod providers;
mod push_rights;
mod queue;
mod redact;
mod refusals;
mod relay;
mod reports;
mod rest;
mod retention;
mod roles;
mod routes;
mod seal;
mod seams;
mod sessions;
mod settings;
mod shells;
mod tokens;
mod trail;
mod triggers;
mod watching;
mod web;

pub use ctx::{Config, Network, Parts, Server, StartError};
pub use egress::EgressRules;
pub use error::ApiError;
pub use http::{doors, openapi, router};
pub use listen::serve;
pub use roles::{Role, Roles};
pub use routes::Door;
pub use seams::Seams;
pub use tokens::NewKey;
