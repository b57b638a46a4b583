//! The room against real repositories in temporary folders.

mod charts;
mod git;
mod git_cache;
mod render;
mod repo;
