//! The runtime on a real API: an embedded cluster, real repositories, and processes that are killed.

mod appsets;
mod control_plane;
mod crash;
mod many;
mod proxy;
mod sync;
mod world;
