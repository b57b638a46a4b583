//! Manifests and numbers that users of Argo Rollouts know, and updates that are played on counted pods.

mod analysed;
mod analysis;
mod blue_green;
mod canary;
mod details;
mod experiments;
mod identity;
mod interruption;
mod lint;
mod player;
mod providers;
mod replicas;
mod routed;
mod routers;
mod sim;
mod strangers;
