//! Handlers: they translate between the wire and this folder; nothing is decided here, and nothing outside calls them.

pub(crate) mod releases;
pub(crate) mod version;
