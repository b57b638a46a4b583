//! The only room with SQL: schema, migrations and queries, one module a noun.
//!
//! In: closures over a transaction ([`Store::write`], [`Store::read`]). Out: rows as values, and after
//! each commit a [`Committed`] for whoever waits on one. An answer is given only after the commit is on
//! disk; writes that arrive together share one commit. It knows no HTTP, no clock and no randomness.

pub mod applications;
pub mod audit;
pub mod builds;
pub mod contexts;
pub mod data_keys;
pub mod engine;
pub mod error;
pub mod facts;
pub mod git;
pub mod identity;
pub mod logs;
pub mod pipelines;
pub mod rules;
pub mod sql;
pub mod sso;
pub mod usage;

pub use engine::{Committed, Store};
pub use error::StoreError;
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
