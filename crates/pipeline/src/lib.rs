//! Room `pipeline`.
