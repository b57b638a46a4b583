//! The store as its users see it, the same on SQLite and on a real PostgreSQL: transactions, group commit,
//! fencing, who hears of what, who may read what, and what a kill or a power cut leaves behind.

#[macro_use]
mod engines;
mod backup;
mod bookkeeping;
mod contract;
mod durability;
mod groups;
mod pipelining;
mod postgres;
mod statements;
mod tasks;
mod upgrade;
