//! The control plane as its clients see it: over HTTP, with real git, on a real database file.

mod access;
mod agents;
mod git;
mod openapi;
mod support;
