//! The GitOps API: Applications, releases, Git sources, runtimes and clusters, in slices.
//!
//! Reads what runtimes reported, through the same decisions as REST. Nothing is changed here, and no runtime is asked.

pub(crate) mod applications;
mod meta;
pub(crate) mod runtimes;
mod slice;
