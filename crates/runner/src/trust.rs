//! Whose work a build is: what it may read of what earlier builds left behind, and where it may leave something itself.
//!
//! In: what the server says about a build. Out: names of scopes. There are two boundaries: what a pull request of a fork
//! runs was reviewed by nobody, so nothing that it leaves behind is read by anybody but pull requests of that fork; and
//! a text that came with the run is one person's, whatever pipeline it is listed under, so it finds nothing of anybody
//! and leaves nothing to anybody. It does not know what is kept; volumes, caches and images ask it.

use sha2::{Digest, Sha256};
use slipway_api::agent::TakenBuild;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trust {
    /// Of the pipeline's builds that are not of a fork.
    own: String,
    /// Of this fork's builds.
    fork: Option<String>,
    /// It shares with nobody.
    alone: bool,
}

impl Trust {
    pub(crate) fn of(taken: &TakenBuild) -> Self {
        let request = taken.commit.as_ref().and_then(|commit| commit.pull_request.as_ref());
        let fork = match (taken.from_fork, request) {
            (false, _) => None,
            (true, Some(request)) => Some(format!("fork {}", request.head_repo)),
            // A fork that nobody can name shares with nobody.
            (true, None) => Some(format!("fork of build {}", taken.id)),
        };
        let name = |trust: &str| name(&[&taken.account_name, &taken.pipeline_name, trust]);
        let own = if taken.own_text { format!("text of build {}", taken.id) } else { "own".to_owned() };
        Self { own: name(&own), fork: fork.map(|fork| name(&fork)), alone: taken.own_text }
    }

    pub(crate) fn is_fork(&self) -> bool {
        self.fork.is_some()
    }

    /// Nothing of earlier builds is for it, and nothing of it for later ones.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// What this build leaves behind goes here.
    pub(crate) fn writes(&self) -> &str {
        self.fork.as_deref().unwrap_or(&self.own)
    }

    /// Where a build of a fork may look, and not write.
    pub(crate) fn reads_only(&self) -> Option<&str> {
        self.fork.is_some().then_some(self.own.as_str())
    }
}

/// With the length before each part, so that no two lists of parts have the same name.
fn name(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use slipway_api::agent::{PullRequest, TriggerCommit};

    use super::*;

    fn build(pipeline: &str, fork: Option<&str>) -> TakenBuild {
        let request = |repo: &str| PullRequest { head_repo: repo.to_owned(), ..PullRequest::default() };
        TakenBuild {
            account_name: "acme".to_owned(),
            pipeline_name: pipeline.to_owned(),
            from_fork: fork.is_some(),
            commit: fork
                .map(|repo| TriggerCommit { pull_request: Some(request(repo)), ..TriggerCommit::default() }),
            ..TakenBuild::default()
        }
    }

    #[test]
    fn a_fork_reads_what_the_pipeline_left_and_never_writes_there() {
        let (own, eve) = (Trust::of(&build("app", None)), Trust::of(&build("app", Some("eve/app"))));
        assert_eq!(eve.reads_only(), Some(own.writes()));
        assert_ne!(eve.writes(), own.writes());
        assert_eq!(own.reads_only(), None);
        assert_ne!(eve.writes(), Trust::of(&build("app", Some("mallory/app"))).writes());
        assert_eq!(eve, Trust::of(&build("app", Some("eve/app"))));
    }

    #[test]
    fn a_text_that_came_with_the_run_shares_with_nobody() {
        let text = |id: &str| TakenBuild { id: id.to_owned(), own_text: true, ..build("default/yaml", None) };
        let (alice, bob) = (Trust::of(&text("1")), Trust::of(&text("2")));
        assert!(alice.is_alone() && alice.reads_only().is_none());
        assert_ne!(alice.writes(), bob.writes());
        assert_ne!(alice.writes(), Trust::of(&build("default/yaml", None)).writes());
    }

    #[test]
    fn no_name_of_a_pipeline_or_a_fork_leads_into_another_scope() {
        for pipeline in ["app\nown", "app\nfork eve", "", "app/../other"] {
            assert_ne!(Trust::of(&build(pipeline, None)).writes(), Trust::of(&build("app", None)).writes());
        }
        assert_ne!(Trust::of(&build("app", Some("own"))).writes(), Trust::of(&build("app", None)).writes());
    }
}
