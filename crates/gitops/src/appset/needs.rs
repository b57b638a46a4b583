//! What generators ask of the world, and what the world said.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A cluster that is known: a Secret with the cluster label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterEntry {
    pub name: String,
    pub server: String,
    pub project: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// A question. Equal questions are asked once.
#[derive(Debug, Clone, PartialEq)]
pub enum Need {
    /// The paths of all files of a repository at a revision.
    GitTree { repo_url: String, revision: String },
    /// The contents of these files, of the commit that the tree was of.
    GitFiles { repo_url: String, commit: String, paths: Vec<String> },
    /// The repositories that an `scmProvider` block finds, its filters applied.
    Repositories { provider: Value },
    /// The open pull requests that a `pullRequest` block finds, its filters applied.
    PullRequests { provider: Value },
    /// The resources that a `clusterDecisionResource` block names, and what its ConfigMap says of them.
    Decisions { config_map: String, name: String, label_selector: Value },
    /// What a plugin answers to these parameters.
    Plugin { config_map: String, parameters: Value },
}

impl Need {
    /// What the answer is kept under.
    pub fn key(&self) -> String {
        let value = match self {
            Self::GitTree { repo_url, revision } => json!(["git-tree", repo_url, revision]),
            Self::GitFiles { repo_url, commit, paths } => json!(["git-files", repo_url, commit, paths]),
            Self::Repositories { provider } => json!(["repositories", provider]),
            Self::PullRequests { provider } => json!(["pull-requests", provider]),
            Self::Decisions { config_map, name, label_selector } => {
                json!(["decisions", config_map, name, label_selector])
            }
            Self::Plugin { config_map, parameters } => json!(["plugin", config_map, parameters]),
        };
        value.to_string()
    }
}

/// One repository that an SCM provider listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryEntry {
    pub organization: String,
    pub repository: String,
    pub repository_id: Value,
    pub url: String,
    pub branch: String,
    pub sha: String,
    pub labels: Vec<String>,
}

/// One open pull request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullRequest {
    pub number: i64,
    pub title: String,
    pub branch: String,
    pub target_branch: String,
    pub head_sha: String,
    pub author: String,
    pub labels: Vec<String>,
}

/// What a cluster decision's ConfigMap says, and the resources that were found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decisions {
    /// Empty: `clusters`.
    pub status_list_key: String,
    pub match_key: String,
    pub resources: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Tree {
        commit: String,
        paths: Vec<String>,
    },
    Files(BTreeMap<String, String>),
    Repositories(Vec<RepositoryEntry>),
    PullRequests(Vec<PullRequest>),
    /// `continueOnRepoNotFoundError`: the repository is not there (any more).
    RepositoryNotFound(String),
    Decisions(Decisions),
    Parameters(Vec<Map<String, Value>>),
}

/// Everything that was read so far. An answer may be a sentence that says why there is none.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    pub clusters: Vec<ClusterEntry>,
    by_key: BTreeMap<String, Result<Answer, String>>,
}

impl Answers {
    pub fn new(clusters: Vec<ClusterEntry>) -> Self {
        Self { clusters, by_key: BTreeMap::new() }
    }

    pub fn put(&mut self, need: &Need, answer: Result<Answer, String>) {
        self.by_key.insert(need.key(), answer);
    }

    pub(super) fn get(&self, need: &Need) -> Option<&Result<Answer, String>> {
        self.by_key.get(&need.key())
    }
}
