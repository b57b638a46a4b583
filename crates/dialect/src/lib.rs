//! The small languages that users write inside of other texts, each in one place: schedules, globs, durations, quantities,
//! label selectors, JSONPath, jq paths, percent-coding, expressions, Lua; and Prometheus' text format.
//!
//! Comes in: a text, and what it is asked about. Goes out: a value, or why the text is not of the language. Pure; knows
//! nothing of the documents in which the texts stand. Where two products read a language differently, the difference has a
//! name here ([`cron::Dialect`]); the language of one product alone stays in the room of that product.

pub mod cron;
pub mod duration;
pub mod expr;
pub mod glob;
pub mod jq;
pub mod jsonpath;
#[cfg(feature = "lua")]
pub mod lua;
pub mod path_glob;
pub mod percent;
pub mod prometheus;
pub mod quantity;
pub mod selector;
