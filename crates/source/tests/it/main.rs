//! The room against real repositories in temporary folders.

mod alike;
mod charts;
mod git;
mod gitea;
mod hostile;
mod inside;
mod lookup;
mod mirror;
mod render;
mod repo;
