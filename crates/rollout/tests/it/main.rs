//! Manifests and numbers that users of Argo Rollouts know.

mod lint;
mod replicas;
