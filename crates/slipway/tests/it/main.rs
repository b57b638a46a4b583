//! The binary as its users see it: several processes as one platform, backups, and what it refuses.

mod app_proxy;
mod appset;
mod backup;
mod docs;
mod existing;
mod grammar;
mod killed_audit;
mod outage;
mod process;
mod refusals;
mod render;
mod restarts;
mod rollout;
mod scaled;
mod serving;
mod sign;
mod tunnels;
mod watch;
