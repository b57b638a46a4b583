//! What happened, on its way: from the database to the bus and to those who follow up.

pub(crate) mod consuming;
pub(crate) mod later;
pub(crate) mod relay;
pub(crate) mod rest;
