#![expect(unreachable_pub, reason = "a test binary has nobody to be reached by")]

mod attacks;
mod caches;
mod certificates;
mod contract;
mod crash;
mod debug;
mod kubernetes;
mod leftovers;
mod reach;
mod registries;
mod residency;
mod runner;
mod sandbox;
mod server;
mod source;
mod typed;
