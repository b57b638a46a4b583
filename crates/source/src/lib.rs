//! Room `source`: what comes from outside as files.

pub mod git;
