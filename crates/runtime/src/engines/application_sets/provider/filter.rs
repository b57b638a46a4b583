//! Filters of both generators: what they say about a repository, a branch or a pull request that is known already.
//! Whether a path exists has to be asked, and is not answered here.

use regex::Regex;
use serde_json::Value;
use slipway_forge::lists::Entry;
use slipway_gitops::appset::PullRequest;

/// All conditions of a filter must hold, and one filter is enough.
#[derive(Default)]
pub(super) struct Filter {
    repository: Option<Regex>,
    label: Option<Regex>,
    branch: Option<Regex>,
    target_branch: Option<Regex>,
    title: Option<Regex>,
    pub(super) paths_exist: Vec<String>,
    pub(super) paths_do_not_exist: Vec<String>,
}

impl Filter {
    pub(super) fn parse(block: &Value) -> Result<Self, String> {
        let regex = |field: &str| -> Result<Option<Regex>, String> {
            let Some(text) = block[field].as_str() else { return Ok(None) };
            let compiled = regex::RegexBuilder::new(text).size_limit(1 << 20).build();
            compiled.map(Some).map_err(|_| format!("filters: {field} {text:?} is not a regular expression"))
        };
        let paths =
            |field: &str| -> Vec<String> { serde_json::from_value(block[field].clone()).unwrap_or_default() };
        Ok(Self {
            repository: regex("repositoryMatch")?,
            label: regex("labelMatch")?,
            branch: regex("branchMatch")?,
            target_branch: regex("targetBranchMatch")?,
            title: regex("titleMatch")?,
            paths_exist: paths("pathsExist"),
            paths_do_not_exist: paths("pathsDoNotExist"),
        })
    }

    pub(super) fn admits_repository(&self, entry: &Entry) -> bool {
        admits(&self.repository, &entry.repository)
            && (self.label.is_none() || entry.labels.iter().any(|label| admits(&self.label, label)))
    }

    pub(super) fn admits_branch(&self, name: &str) -> bool {
        admits(&self.branch, name)
    }

    pub(super) fn admits_pull(&self, pull: &PullRequest) -> bool {
        admits(&self.branch, &pull.branch)
            && admits(&self.target_branch, &pull.target_branch)
            && admits(&self.title, &pull.title)
    }
}

fn admits(regex: &Option<Regex>, text: &str) -> bool {
    regex.as_ref().is_none_or(|regex| regex.is_match(text))
}
