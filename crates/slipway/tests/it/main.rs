//! The binary as its users see it: several processes as one platform, backups, and what it refuses.

mod appset;
mod backup;
mod grammar;
mod killed_audit;
mod process;
mod refusals;
mod restarts;
mod scaled;
mod sign;
