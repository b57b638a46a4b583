//! Who somebody is and what they may do: accounts, people, keys, sign-in, rules, and the record of it all.
//!
//! Knows nothing of pipelines or Applications beyond the names that rules give them.

pub(crate) mod access;
pub(crate) mod accounts;
pub(crate) mod anchor;
pub(crate) mod auth;
pub(crate) mod oidc;
pub(crate) mod passwords;
pub(crate) mod rest;
pub(crate) mod sessions;
pub(crate) mod sso;
pub(crate) mod tokens;
pub(crate) mod trail;
