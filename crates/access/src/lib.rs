//! One access decision for every door: who asks, for what → allow, or deny with a reason.
//!
//! In: a [`Principal`], what a door asks for ([`Policy`]), or an action on an entity with the account's
//! [`Rule`]s. Out: allow, or a sentence that a person understands. It knows no HTTP and no storage; nobody
//! else decides.

mod entity;
mod policy;
mod principal;
mod rule;
mod scope;

pub use entity::{Attribute, Entity, known_actions, known_kinds};
pub use policy::{Denied, Policy, decide};
pub use principal::{Principal, Role, TeamRef, Who};
pub use rule::{Decision, Rule, RuleProblem, TagMatch, decide_on, lint};
pub use scope::{Resource, Scopes, Verb};
