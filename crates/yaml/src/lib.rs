//! Room `yaml`.
