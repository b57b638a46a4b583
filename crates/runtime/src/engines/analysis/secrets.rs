//! Arguments of a run, those from Secrets among them. Their values are in questions alone: messages and values that a provider answers with
//! are searched for them.

use std::collections::BTreeMap;

use base64::Engine as _;
use slipway_cluster::ObjectKey;
use slipway_crd::analysis::{AnalysisRun, Argument, Measurement, SecretKeyRef};

use super::Analysis;

/// What stands in the place of a secret.
const HIDDEN: &str = "*****";

#[derive(Default)]
pub(super) struct Arguments {
    pub(super) values: BTreeMap<String, String>,
    secrets: Vec<String>,
}

impl Arguments {
    pub(super) fn hide(&self, measurement: &mut Measurement) {
        for secret in &self.secrets {
            measurement.message = measurement.message.replace(secret, HIDDEN);
            measurement.value = measurement.value.replace(secret, HIDDEN);
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
    ) -> Result<Arguments, String> {
        let mut arguments = Arguments { values: plain, secrets: Vec::new() };
        for (name, at) in hidden {
            let key = ObjectKey::new("", "Secret", &run.metadata.namespace, &at.name);
            let secret = self.cluster.read_version("v1", &key).await.map_err(|error| error.to_string())?;
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
        let arguments = Arguments { values: BTreeMap::new(), secrets: vec!["hunter2".into()] };
        let mut measurement = Measurement {
            message: "401 for hunter2".into(),
            value: "\"hunter2\"".into(),
            ..Measurement::default()
        };
        arguments.hide(&mut measurement);
        assert_eq!(
            (measurement.message.as_str(), measurement.value.as_str()),
            ("401 for *****", "\"*****\"")
        );
    }
}
