//! One access decision for every door: who asks, for what → allow, or deny with a reason.
//!
//! In: a [`Principal`], what a door asks for ([`Policy`]), or an action on an entity with the account's
//! [`Rule`]s. Out: allow, or a sentence that a person understands. It knows no HTTP and no storage; nobody
//! else decides.

mod entity;
mod operation;
mod policy;
mod principal;
mod rule;
mod scope;

pub use entity::{Attribute, Entity, goes_by_tags, known_actions, known_attributes, known_kinds};
pub use operation::{About, Operation};
pub use policy::{Denied, Policy, decide, lacks_scope};
pub use principal::{Principal, Role, TeamRef, Who};
pub use rule::{Decision, Rule, RuleProblem, TagMatch, decide_on, like, lint, looks_at};
pub use scope::{Resource, Scopes, Verb};
