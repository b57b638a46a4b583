//! Room `access`.
