//! Room `gitops`.
