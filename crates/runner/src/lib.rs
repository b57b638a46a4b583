//! Room `runner`.
