//! The control plane as its clients see it: over HTTP, with real git, on a real database file.

mod access;
mod agent_attacks;
mod agents;
mod attacks;
mod audit;
mod debug;
mod git;
mod gitea;
mod gitea_sign_in;
mod identity;
mod mail;
mod matrix;
mod openapi;
mod pipeline_attacks;
mod pipelines;
mod registries;
mod registry;
mod rules;
mod runtime_environments;
mod runtimes;
mod secrets;
mod sso;
mod support;
mod venona;
mod venona_builds;
mod webhooks;
