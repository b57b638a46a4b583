//! The only room with SQL: schema, migrations and queries, one module a noun.
//!
//! In: closures over a transaction ([`Store::write`], [`Store::read`]). Out: rows as values, and after
//! each commit a [`Committed`] for whoever waits on one. An answer is given only after the commit is on
//! disk; writes that arrive together share one commit. SQLite or PostgreSQL is chosen by an address, and the
//! queries do not know which. It knows no HTTP, no clock but the database's, and no randomness.

pub mod agent_builds;
pub mod agents;
pub mod annotations;
pub mod applications;
pub mod approvals;
pub mod audit;
pub mod authorities;
pub mod backup;
pub mod builds;
pub mod contexts;
pub mod cron;
pub mod data_keys;
pub mod database;
pub mod debug;
pub mod deferred;
pub mod engine;
pub mod entities;
pub mod errands;
pub mod error;
pub mod facts;
pub mod git;
mod group;
pub mod hooks;
pub mod identity;
pub mod images;
pub mod inbox;
pub mod leases;
pub mod logs;
mod migrations;
pub mod outgoing;
pub mod pipelines;
pub mod postgres;
pub mod projects;
pub mod retention;
pub mod rules;
pub mod runtime_environments;
pub mod runtimes;
pub mod services;
mod session;
pub mod sql;
mod sqlite;
pub mod sso;
pub mod step_types;
mod touching;
pub mod trigger_events;
pub mod usage;

pub use database::{Database, DatabaseUrl};
pub use engine::{Committed, Stats, Store, Touched};
pub use error::StoreError;
pub use services::Service;
pub use session::Ask;
pub use sql::{Row, Tx, Value};

/// A scope that every query about a tenant's data asks for: there is no other way to name the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    account: slipway_model::AccountId,
}

impl Scope {
    /// Made from an authenticated principal, or by a consumer from the fact that it handles.
    pub fn of(account: slipway_model::AccountId) -> Self {
        Self { account }
    }

    pub fn account(self) -> slipway_model::AccountId {
        self.account
    }
}
