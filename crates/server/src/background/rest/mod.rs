//! What operators see of the background.

pub(crate) mod health;
