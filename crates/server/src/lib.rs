//! The control plane: identity, pipelines, builds, the Git host, the read model of GitOps, and the web UI.
//!
//! In: HTTP. Out: answers after commit, long-polled work for runners and runtimes, live pages. It dials
//! nobody: runners and runtimes come to it. It holds no kubeconfig, no Git token of a user's, and no
//! source code beyond the repositories of the built-in host.

pub mod agent;
pub mod auth;
pub mod bootstrap;
mod ctx;
mod error;
mod fan_out;
mod git_host;
mod graphql;
mod http;
mod leading;
mod orders;
mod relay;
mod rest;
mod roles;
mod routes;
mod seal;
mod seams;
mod tokens;
mod triggers;
mod web;

pub use ctx::{Config, Parts, Server, StartError};
pub use error::ApiError;
pub use http::{openapi, router};
pub use roles::{Role, Roles};
pub use seams::Seams;
pub use tokens::NewKey;
