//! The store as its users see it: transactions, group commit, fencing, and what a kill leaves behind.

mod contract;
mod durability;
mod upgrade;
