//! Manifests and numbers that users of Argo Rollouts know, and updates that are played on counted pods.

mod analysed;
mod analysis;
mod blue_green;
mod canary;
mod identity;
mod interruption;
mod lint;
mod replicas;
mod sim;
