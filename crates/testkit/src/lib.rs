//! What tests of several rooms share.
//!
//! `kube` gives a real Kubernetes on this machine. It knows `scripts/kube.sh` and `kubectl`, and nothing of Slipway.

mod kube;

pub use kube::{Fault, Kube, Namespace, OwnKube, TEST_IMAGE};
