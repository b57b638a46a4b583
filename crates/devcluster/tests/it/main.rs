//! The behaviour of the cluster as clients see it, over HTTPS only.
//!
//! The same cases run against any Kubernetes: set `SLIPWAY_TEST_KUBECONFIG` to a kubeconfig (and `SLIPWAY_TEST_IMAGE` to a
//! busybox image that its nodes have) and the embedded cluster is not started. `kill.rs` is about the embedded one only.

mod client;
mod crd;
mod crud;
mod discovery;
mod garbage;
mod kill;
mod patches;
mod pods;
mod selectors;
mod server_side_apply;
mod subresources;
mod validation;
mod watches;
mod workloads;
