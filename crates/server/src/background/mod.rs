//! What a process does besides answering: tasks that are values in one table ([`tasks`]), run by one [`driver`] that owns
//! their periods, what wakes them, leases, panics, retries and shutdown. How each goes is in [`status`], for the health
//! page, `slipway admin jobs`, `/readyz` and `/metrics`.

pub(crate) mod driver;
pub(crate) mod housekeeping;
pub(crate) mod lease;
pub(crate) mod rest;
pub(crate) mod retention;
pub(crate) mod status;
pub(crate) mod tasks;
