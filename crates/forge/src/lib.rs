//! Git providers, one face for all: what they announce, and what they are asked.
//!
//! [`remote`] reads webhooks and writes and reads the calls of each provider's API as values; it opens no
//! connection, so that whoever sends the calls decides where they may go. [`builtin`] is the Git host of `slipway up`.

pub mod builtin;
pub mod remote;
