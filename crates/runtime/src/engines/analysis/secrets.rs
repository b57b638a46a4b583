//! Arguments of a run, those from Secrets among them. Their values are in questions alone: messages and values that a provider answers with
//! are searched for them.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use slipway_cluster::{ClusterError, ObjectKey};
use slipway_crd::analysis::{AnalysisRun, Argument, Measurement, SecretKeyRef};
use slipway_model::Next;

use super::Analysis;

/// Why a run cannot be measured now.
#[derive(Debug)]
pub(super) enum Unable {
    /// It never can be: it ends.
    Wrong(String),
    /// The API server could not be asked: that says nothing about the version that is analysed, and passes.
    Later(ClusterError),
}

impl From<String> for Unable {
    fn from(why: String) -> Self {
        Self::Wrong(format!("Unable to resolve metric arguments: {why}"))
    }
}

impl From<ClusterError> for Unable {
    fn from(error: ClusterError) -> Self {
        match error.next() {
            Next::NeedsHuman if !error.is_fenced() => error.to_string().into(),
            _ => Self::Later(error),
        }
    }
}

/// What stands in the place of a secret.
const HIDDEN: &str = "*****";

#[derive(Default)]
pub(super) struct Arguments {
    pub(super) values: BTreeMap<String, String>,
    secrets: Vec<String>,
}

impl Arguments {
    pub(super) fn hide(&self, measurement: &mut Measurement) {
        hide(measurement, &self.secrets);
    }
}

/// Takes values out of everything that is written down of a measurement: as they are, and as they stand in JSON and in addresses.
pub(super) fn hide(measurement: &mut Measurement, secrets: &[String]) {
    let mut all = BTreeSet::new();
    for secret in secrets.iter().flat_map(|secret| [secret.as_str(), secret.trim()]) {
        let quoted = serde_json::Value::from(secret).to_string();
        let quoted = quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
        all.extend([secret.to_owned(), quoted, slipway_dialect::percent::encode(secret)]);
    }
    all.remove("");
    // Long ones first: a shorter one may be a part of them, and the rest would stay.
    let mut all: Vec<String> = all.into_iter().collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.len()));
    let texts = [&mut measurement.message, &mut measurement.value];
    for text in texts.into_iter().chain(measurement.metadata.values_mut()) {
        for secret in &all {
            *text = text.replace(secret.as_str(), HIDDEN);
        }
    }
}

/// Arguments with a word in the place of each secret, and where the secrets are.
pub(super) fn without(arguments: &[Argument]) -> (BTreeMap<String, String>, Vec<(String, SecretKeyRef)>) {
    let (mut plain, mut hidden) = (BTreeMap::new(), Vec::new());
    for argument in arguments {
        let secret = argument.value_from.as_ref().and_then(|source| source.secret_key_ref.clone());
        let value = argument.value.clone().or_else(|| secret.as_ref().map(|_| "secret".to_owned()));
        hidden.extend(secret.map(|secret| (argument.name.clone(), secret)));
        plain.extend(value.map(|value| (argument.name.clone(), value)));
    }
    (plain, hidden)
}

impl Analysis {
    /// The values of all arguments; Secrets are read from the run's own namespace.
    pub(super) async fn arguments(
        &self,
        run: &AnalysisRun,
        plain: BTreeMap<String, String>,
        hidden: &[(String, SecretKeyRef)],
    ) -> Result<Arguments, Unable> {
        let mut arguments = Arguments { values: plain, secrets: Vec::new() };
        for (name, at) in hidden {
            let key = ObjectKey::new("", "Secret", &run.metadata.namespace, &at.name);
            let secret = self.cluster.read_version("v1", &key).await?;
            let secret = secret.ok_or_else(|| format!("secret '{}' not found", at.name))?;
            let value = secret["data"][&at.key]
                .as_str()
                .and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
            let value = value.and_then(|bytes| String::from_utf8(bytes).ok());
            let value =
                value.ok_or_else(|| format!("key '{}' does not exist in secret '{}'", at.key, at.name))?;
            if !value.is_empty() {
                arguments.secrets.push(value.clone());
            }
            arguments.values.insert(name.clone(), value);
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_in_what_is_written_down() {
        let secrets = vec!["hunter".into(), "hunter2".into(), "a\"b c\n".into()];
        let arguments = Arguments { values: BTreeMap::new(), secrets };
        let mut measurement = Measurement {
            message: "401 for hunter2 at /?key=a%22b%20c".into(),
            value: "[\"hunter2\",\"a\\\"b c\\n\",\"a\\\"b c\"]".into(),
            metadata: [("warnings".to_owned(), "who is hunter2?".to_owned())].into(),
            ..Measurement::default()
        };
        arguments.hide(&mut measurement);
        assert_eq!(measurement.message, "401 for ***** at /?key=*****");
        assert_eq!(measurement.value, "[\"*****\",\"*****\",\"*****\"]");
        assert_eq!(measurement.metadata["warnings"], "who is *****?");
    }

    #[test]
    fn a_server_that_is_away_for_a_moment_ends_no_run() {
        let refused = |code: u16| ClusterError::Refused {
            what: "the Secret".into(),
            code,
            reason: String::new(),
            message: "no".into(),
        };
        assert!(matches!(Unable::from(refused(503)), Unable::Later(_)));
        assert!(
            matches!(Unable::from(refused(403)), Unable::Wrong(why) if why.contains("no")),
            "nobody will let it"
        );
    }
}
