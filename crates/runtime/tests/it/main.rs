//! The runtime on a real API: an embedded cluster, real repositories, and processes that are killed.

mod appset_kills;
mod appset_teams;
mod appsets;
mod cluster_secrets;
mod clusters;
mod control_plane;
mod core;
mod crash;
mod faults;
mod git_tokens;
mod hostile;
mod hydrate;
mod kube;
mod lookup;
mod many;
mod permits;
mod pods;
mod proxy;
mod refresh;
mod reports;
mod served;
mod shards;
mod site;
mod sync;
mod webhook;
mod world;
