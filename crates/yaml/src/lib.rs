//! Room `yaml`: text comes in, an ordered tree with the place of every node goes out.
//!
//! Two readers share one grammar (libyaml's, which is also go-yaml's) and differ in what a plain
//! scalar means: [`Dialect::Kubernetes`] reads `yes` as a boolean and `0644` as octal, as manifests
//! have always been read; [`Dialect::Pipeline`] reads what js-yaml reads, as pipeline files have.
//! The room does not know what a manifest or a pipeline is, and touches no file.

mod decode;
mod emit;
mod error;
pub mod finding;
mod loader;
mod node;
mod scalar;
pub mod suite;

pub use decode::decode;
pub use emit::to_yaml;
pub use error::YamlError;
pub use loader::{Limits, parse, parse_with};
pub use node::{Node, NodeKind, Span};

/// Which reader's rules decide what a plain scalar, a merge key or a repeated key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// go-yaml v2 below sigs.k8s.io/yaml: YAML 1.1 booleans and octals, a repeated key: the last wins.
    Kubernetes,
    /// js-yaml as the pipeline validator uses it: only `true`/`false`, a repeated key is an error.
    Pipeline,
}

/// Reads every document of a Kubernetes stream; empty documents are left out, as `kubectl` does.
pub fn load_all_json(text: &str) -> Result<Vec<(serde_json::Value, Span)>, Vec<YamlError>> {
    let documents = parse(text, Dialect::Kubernetes)?;
    Ok(documents
        .iter()
        .filter(|document| !document.is_null())
        .map(|document| (document.to_json(), document.span))
        .collect())
}
