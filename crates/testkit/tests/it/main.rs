//! The real cluster does what tests need of it.

mod faults;
mod workload;
