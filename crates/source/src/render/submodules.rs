//! Repositories inside a repository: what `.gitmodules` says of a commit, and which of them a path leads into.
//!
//! In: a commit and a way to choose credentials for an address. Out: the repository, the commit and the rest of the path.
//! Nothing is fetched before somebody asks for a file in it. Does not know what is rendered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Content;
use crate::git::{Commit, EntryKind, GitCache, GitError, Repository, Since};

type Choose = dyn Fn(&str) -> Repository + Send + Sync;

/// Modules in modules in modules are somebody's mistake at some point.
const DEPTH_MAX: usize = 5;
const MODULES_MAX: usize = 100;

/// The submodules of one commit. None are known in the default.
#[derive(Clone, Default)]
pub struct Submodules {
    /// Path → where it comes from, and its commit.
    modules: Arc<BTreeMap<String, (Repository, String)>>,
    choose: Option<Arc<Choose>>,
    depth: usize,
}

impl Submodules {
    /// Reads what a commit says; `choose` gives an address its credentials.
    pub async fn read(
        git: &GitCache,
        repository: &Repository,
        commit: &Commit,
        choose: Arc<Choose>,
    ) -> Result<Self, GitError> {
        Self::at(git, repository, commit, choose, 0).await
    }

    async fn at(
        git: &GitCache,
        repository: &Repository,
        commit: &Commit,
        choose: Arc<Choose>,
        depth: usize,
    ) -> Result<Self, GitError> {
        let Some(text) = git.file(repository, commit, ".gitmodules").await? else {
            return Ok(Self::default());
        };
        let mut modules = BTreeMap::new();
        for (path, url) in parse(&String::from_utf8_lossy(&text)).into_iter().take(MODULES_MAX) {
            // What the file says and the tree does not is left over from a module that was removed.
            let Some(entry) = git.entry(repository, commit, &path).await? else { continue };
            if entry.kind != EntryKind::Submodule {
                continue;
            }
            let url =
                resolve(&repository.url, &url).ok_or_else(|| GitError::PathEscapes { path: url.clone() })?;
            modules.insert(path, (choose(&url), entry.id));
        }
        Ok(Self { modules: Arc::new(modules), choose: Some(choose), depth })
    }

    /// The module that a path leads to or into, and the path inside of it.
    fn of<'a>(&self, path: &'a str) -> Option<(&str, &'a str)> {
        self.modules.keys().find_map(|module| {
            let rest = path.strip_prefix(module.as_str())?;
            (rest.is_empty() || rest.starts_with('/'))
                .then_some((module.as_str(), rest.trim_start_matches('/')))
        })
    }

    /// The files of the module that a path leads into, and the path inside of it; `None`: it leads into none.
    pub(super) async fn enter<'a>(
        &self,
        git: &GitCache,
        path: &'a str,
    ) -> Result<Option<(Content, &'a str)>, GitError> {
        let Some((module, rest)) = self.of(path) else { return Ok(None) };
        let Some(choose) = self.choose.clone() else { return Ok(None) };
        let (repository, id) = &self.modules[module];
        let commit = git.resolve(repository, id, Since::now()).await?;
        let submodules = if self.depth < DEPTH_MAX {
            Box::pin(Self::at(git, repository, &commit, choose, self.depth + 1)).await?
        } else {
            Self::default()
        };
        Ok(Some((Content::Git { repository: repository.clone(), commit, submodules }, rest)))
    }
}

/// Path and address of each module.
fn parse(text: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            out.push(Default::default());
        } else if let (Some((name, value)), Some(module)) = (line.split_once('='), out.last_mut()) {
            let value = value.trim().trim_matches('"').to_owned();
            match name.trim() {
                "path" => module.0 = value.trim_matches('/').to_owned(),
                "url" => module.1 = value,
                _ => {}
            }
        }
    }
    out.retain(|(path, url)| !path.is_empty() && !url.is_empty());
    out
}

/// An address that may be relative to the repository's own. `None`: it climbs out of the host.
fn resolve(base: &str, url: &str) -> Option<String> {
    if !url.starts_with("./") && !url.starts_with("../") {
        return Some(url.to_owned());
    }
    let (root, path) = match base.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/')?;
            (format!("{scheme}://{host}/"), path)
        }
        None => {
            let (host, path) = base.split_once(':')?;
            (format!("{host}:"), path)
        }
    };
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    for part in url.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(format!("{root}{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_read_as_git_writes_them() {
        let text = "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = ../lib.git\n[submodule \"x\"]\n\turl = \"https://h/x\"\n\tpath = x/\n[submodule \"half\"]\n\tpath = y\n";
        assert_eq!(
            parse(text),
            [("vendor/lib".into(), "../lib.git".into()), ("x".into(), "https://h/x".to_owned())]
        );
    }

    #[test]
    fn relative_addresses_stay_on_their_host() {
        for (base, url, expected) in [
            ("https://h/team/app.git", "../lib.git", Some("https://h/team/lib.git")),
            ("https://h/team/app", "../../other/lib", Some("https://h/other/lib")),
            ("git@h:team/app.git", "../lib.git", Some("git@h:team/lib.git")),
            ("https://h/app", "../../x", None),
            ("https://h/app", "ssh://git@i/x", Some("ssh://git@i/x")),
        ] {
            assert_eq!(resolve(base, url).as_deref(), expected, "{base} {url}");
        }
    }
}
