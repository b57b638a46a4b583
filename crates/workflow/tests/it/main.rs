//! Manifests as people write them: what is said of them, and what becomes of them.

mod again;
mod cron;
mod hostile;
mod kills;
mod limits;
mod lint;
mod locks;
mod plan;
mod sim;
