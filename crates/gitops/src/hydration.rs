//! What a commit of the source hydrator says: the installation's template, filled with the commit that it renders.

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_template::{Data, Environment, Functions, Limits, Template};

/// The commit whose manifests were rendered.
#[derive(Debug, Clone, Default)]
pub struct DryCommit {
    pub repo_url: String,
    pub sha: String,
    pub author: String,
    /// RFC 3339.
    pub date: String,
    pub message: String,
}

impl DryCommit {
    /// What templates see as `.metadata`.
    pub fn metadata(&self) -> Value {
        let (subject, body) = self.message.split_once('\n').unwrap_or((&self.message, ""));
        let mut metadata = json!({"repoURL": self.repo_url, "drySha": self.sha});
        let more = [
            ("author", &*self.author),
            ("date", &*self.date),
            ("subject", subject.trim()),
            ("body", body.trim()),
        ];
        for (name, value) in more.into_iter().filter(|(_, value)| !value.is_empty()) {
            metadata[name] = value.into();
        }
        metadata
    }
}

/// What a commit says where there is no template: whose manifests, and of which commit.
pub fn default_message(applications: &[&str], dry: &str) -> String {
    const NAMED: usize = 5;
    let more = applications.len().saturating_sub(NAMED);
    let names = applications.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{names}{more}: manifests of {}", dry.get(..7).unwrap_or(dry))
}

/// Fills `sourceHydrator.commitMessageTemplate`.
pub fn commit_message(template: &str, commit: &DryCommit, now: Timestamp) -> Result<String, String> {
    let failed = |detail: String| format!("sourceHydrator.commitMessageTemplate cannot be used: {detail}");
    let none: [&str; 0] = [];
    let parsed = Template::parse("commitMessage", template, &none, Functions::application_set())
        .map_err(|error| failed(error.to_string()))?;
    let mut random = || 0;
    let mut environment = Environment { now, random: &mut random, limits: Limits::default() };
    let data = Data::Json(json!({"metadata": commit.metadata()}));
    let text = parsed.render(&data, &mut environment).map_err(|error| failed(error.to_string()))?;
    let text = text.trim();
    if text.is_empty() { Err(failed("it gives an empty message".into())) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_some_of_many() {
        assert_eq!(default_message(&["a"], "0123456789"), "a: manifests of 0123456");
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(default_message(&names, "01"), "a, b, c, d, e and 2 more: manifests of 01");
    }

    #[test]
    fn a_template_sees_the_commit_that_is_rendered() {
        let commit = DryCommit {
            repo_url: "https://git.example/a".into(),
            sha: "0123456789".into(),
            message: "Subject\n\nbody\n".into(),
            ..DryCommit::default()
        };
        let fill = |template: &str| commit_message(template, &commit, Timestamp::UNIX_EPOCH);
        let text = fill(
            "{{ .metadata.drySha | trunc 7 }}: {{ .metadata.subject }}{{ if .metadata.body }} / {{ .metadata.body }}{{ end }}\n",
        );
        assert_eq!(text.as_deref(), Ok("0123456: Subject / body"));
        assert!(fill("{{ .metadata").is_err());
        assert!(fill(" \n").is_err());
    }
}
