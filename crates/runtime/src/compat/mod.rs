//! What clients of other systems expect to find, answered from the state of the engines.

pub(crate) mod argocd_core;
