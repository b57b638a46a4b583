//! The binary as its users see it: several processes as one platform, backups, and what it refuses.

mod appset;
mod backup;
mod docs;
mod grammar;
mod killed_audit;
mod process;
mod refusals;
mod render;
mod restarts;
mod rollout;
mod scaled;
mod serving;
mod sign;
mod watch;
