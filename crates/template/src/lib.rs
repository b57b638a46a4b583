//! Room `template`: text with `{{ }}` and data come in, text or an error with its place goes out.
//!
//! Two languages: Go's text/template with sprig's functions ([`Template`]), as `goTemplate: true` has them, and
//! the plain `{{key}}` replacement ([`fasttemplate`]). Values behave as Go's do: numbers out of JSON are float64 and
//! print as such, comparing unlike types is an error, and maps are shared, so that `set` changes the map that
//! everybody else holds.
//! The room knows no clock and no randomness: [`Environment`] hands both in. Nobody's template can hang it or fill
//! the memory: [`Limits`] end it with a sentence.

mod argo;
mod ast;
mod builtins;
mod chart;
mod convert;
mod data;
mod environment;
mod error;
mod exec;
pub mod fasttemplate;
mod float;
mod format;
mod functions;
mod json;
mod lex;
mod node_text;
mod number;
mod parse;
mod sprig;
mod value;

/// Versions and ranges as Helm and sprig read them.
pub mod semver {
    pub use crate::sprig::semver::{Constraints, Version};
}

pub use argo::{normalize, slugify};
pub use data::Data;
pub use environment::{Environment, Limits};
pub use error::TemplateError;
pub use exec::{MissingKey, Template};
pub use float::general as go_float;
pub use functions::Functions;
