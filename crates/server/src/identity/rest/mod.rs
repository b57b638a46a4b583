//! Handlers: they translate between the wire and this folder; nothing is decided here, and nothing outside calls them.

pub(crate) mod account_users;
pub(crate) mod accounts;
pub(crate) mod admin;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod domains;
pub(crate) mod explain;
pub(crate) mod identities;
pub(crate) mod invitations;
pub(crate) mod keys;
pub(crate) mod rules;
pub(crate) mod service_accounts;
pub(crate) mod sign_in;
pub(crate) mod sso;
pub(crate) mod sso_teams;
pub(crate) mod teams;
pub(crate) mod usage;
pub(crate) mod user;
pub(crate) mod users;
pub(crate) mod vouched;
