//! The room against real repositories in temporary folders.

mod alike;
mod charts;
mod git;
mod git_cache;
mod gitea;
mod hostile;
mod inside;
mod lookup;
mod render;
mod repo;
