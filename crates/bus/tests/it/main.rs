//! The bus as its users see it, the same on every implementation, against real servers.

mod contract;
mod holders;
mod live;
mod unsafe_queues;
