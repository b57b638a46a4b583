//! What happened, on its way: from the database to the bus and to those who follow up; leases, background jobs, retention.

pub(crate) mod consuming;
pub(crate) mod housekeeping;
pub(crate) mod jobs;
pub(crate) mod later;
pub(crate) mod leading;
pub(crate) mod relay;
pub(crate) mod rest;
pub(crate) mod retention;
