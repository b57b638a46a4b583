//! Room `crd`.
