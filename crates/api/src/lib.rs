//! The wire: JSON shapes of REST and of the agents' calls, the error body, and a Rust client.
//!
//! In: nothing but values. Out: types that the server answers with and that the CLI, the runner, the
//! runtime and the generated web types read. It decides nothing and stores nothing.

pub mod access;
pub mod agent;
pub mod application;
pub mod audit;
pub mod auth;
pub mod build;
pub mod client;
pub mod context;
pub mod debug;
pub mod declaration;
pub mod error;
pub mod git_proxy;
pub mod health;
pub mod identity;
pub mod managed_cluster;
pub mod pipeline;
pub mod proxy;
pub mod registry;
pub mod repo;
pub mod report;
pub mod rollout;
pub mod runtime;
pub mod sso;

pub use client::{Client, ClientError, untrusted};
pub use error::ErrorBody;
