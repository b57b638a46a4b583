//! Room `devcluster`.
