//! Git providers, one face for all: what they announce, and what they are asked.
//!
//! [`remote`] reads webhooks and writes and reads the calls of each provider's API as values; [`lists`] asks for all
//! pages of a list through a [`Carrier`](lists::Carrier). Neither opens a connection, so that whoever sends the calls
//! decides where they may go. [`builtin`] is the Git host of `slipway up`.

pub mod builtin;
mod github_app;
pub mod lists;
pub mod remote;

pub use github_app::{APP_USER, AppToken, GithubApp, HEADERS as GITHUB_HEADERS};
