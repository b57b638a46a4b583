//! The room against real repositories in temporary folders.

mod git;
mod render;
mod repo;
