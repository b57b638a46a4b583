//! Room `forge`.
