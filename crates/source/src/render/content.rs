//! What is rendered: the files of a commit and of its submodules, read from git's object store, or of an archive such as
//! a packaged chart.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::submodules::Submodules;
use crate::chart::Archive;
use crate::git::mirror::tree::parts;
use crate::git::{Commit, EntryKind, GitCache, GitError, Repository, Tree, TreeEntry};

/// Where files come from. Every path is relative to its root, and nothing outside of it can be named.
#[derive(Clone)]
pub enum Content {
    Git { repository: Repository, commit: Commit, submodules: Submodules },
    Archive(Arc<Archive>),
}

impl Content {
    /// Changes exactly when what is at `path` does; `None`: there is nothing.
    pub(super) async fn content_id(&self, git: &GitCache, path: &str) -> Result<Option<String>, GitError> {
        Ok(self.entry(git, path).await?.map(|entry| entry.id))
    }

    /// What is at `path`; a link is given as a link.
    pub(super) async fn entry(&self, git: &GitCache, path: &str) -> Result<Option<TreeEntry>, GitError> {
        match self {
            Self::Git { repository, commit, submodules } => {
                let path = parts(path)?.join("/");
                match submodules.enter(git, &path).await? {
                    Some((inner, rest)) => Box::pin(inner.entry(git, rest)).await,
                    None => git.entry(repository, commit, &path).await,
                }
            }
            Self::Archive(archive) => {
                let path = parts(path)?.join("/");
                if archive.files.contains_key(&path) {
                    return Ok(Some(TreeEntry { kind: EntryKind::File, id: file_id(archive, &path) }));
                }
                let is_folder = path.is_empty() || !below(archive, &path).is_empty();
                let id = format!("{}:{path}/", archive.digest);
                Ok(is_folder.then_some(TreeEntry { kind: EntryKind::Folder, id }))
            }
        }
    }

    pub(super) async fn tree(&self, git: &GitCache, path: &str, recurse: bool) -> Result<Tree, GitError> {
        match self {
            Self::Git { repository, commit, submodules } => {
                let path = parts(path)?.join("/");
                if let Some((inner, rest)) = submodules.enter(git, &path).await? {
                    let mut tree = Box::pin(inner.tree(git, rest, recurse)).await?;
                    let module = path[..path.len() - rest.len()].trim_end_matches('/');
                    tree.entries.values_mut().for_each(|entry| entry.id = module_id(module, &entry.id));
                    return Ok(tree);
                }
                let mut tree = git.tree(repository, commit, &path, recurse).await?;
                if recurse {
                    self.add_modules(git, &path, &mut tree).await?;
                }
                Ok(tree)
            }
            Self::Archive(archive) => {
                let path = parts(path)?.join("/");
                let entries: BTreeMap<String, TreeEntry> = below(archive, &path)
                    .into_iter()
                    .filter(|(relative, _)| recurse || !relative.contains('/'))
                    .map(|(relative, full)| {
                        (relative.to_owned(), TreeEntry { kind: EntryKind::File, id: file_id(archive, full) })
                    })
                    .collect();
                if entries.is_empty() && !path.is_empty() {
                    return Err(GitError::PathNotFound { path });
                }
                Ok(Tree { id: format!("{}:{path}/", archive.digest), entries })
            }
        }
    }

    /// One file of a [`Tree`] by its id.
    pub(super) async fn blob(&self, git: &GitCache, id: &str) -> Result<Vec<u8>, GitError> {
        match self {
            Self::Git { repository, submodules, .. } => {
                match id.strip_prefix(MODULE).and_then(|id| id.split_once(':')) {
                    Some((module, id)) => match submodules.enter(git, module).await? {
                        Some((inner, _)) => Box::pin(inner.blob(git, id)).await,
                        None => Err(GitError::PathNotFound { path: module.to_owned() }),
                    },
                    None => git.blob(repository, id).await,
                }
            }
            Self::Archive(archive) => {
                let path =
                    id.strip_prefix(archive.digest.as_str()).unwrap_or_default().trim_start_matches(':');
                let file = archive.files.get(path).cloned();
                file.ok_or_else(|| GitError::PathNotFound { path: path.to_owned() })
            }
        }
    }

    /// The file at `path`, links followed inside the repository.
    pub(super) async fn file(&self, git: &GitCache, path: &str) -> Result<Option<Vec<u8>>, GitError> {
        match self {
            Self::Git { repository, commit, submodules } => {
                let path = parts(path)?.join("/");
                match submodules.enter(git, &path).await? {
                    Some((inner, rest)) => Box::pin(inner.file(git, rest)).await,
                    None => git.file(repository, commit, &path).await,
                }
            }
            Self::Archive(archive) => Ok(archive.files.get(&parts(path)?.join("/")).cloned()),
        }
    }

    /// Puts the files of submodules where a checkout would have them.
    async fn add_modules(&self, git: &GitCache, folder: &str, tree: &mut Tree) -> Result<(), GitError> {
        let Self::Git { submodules, .. } = self else { return Ok(()) };
        let modules: Vec<String> = tree
            .entries
            .iter()
            .filter(|(_, entry)| entry.kind == EntryKind::Submodule)
            .map(|(path, _)| path.clone())
            .collect();
        for relative in modules {
            let module = format!("{folder}/{relative}").trim_start_matches('/').to_owned();
            let Some((inner, rest)) = submodules.enter(git, &module).await? else { continue };
            let below = Box::pin(inner.tree(git, rest, true)).await?;
            tree.entries.remove(&relative);
            for (path, entry) in below.entries {
                let id = module_id(&module, &entry.id);
                tree.entries.insert(format!("{relative}/{path}"), TreeEntry { id, ..entry });
            }
        }
        Ok(())
    }
}

/// Ids of files in submodules say which; git's own ids are digits alone.
const MODULE: &str = "module:";

fn module_id(module: &str, id: &str) -> String {
    format!("{MODULE}{module}:{id}")
}

fn file_id(archive: &Archive, path: &str) -> String {
    format!("{}:{path}", archive.digest)
}

/// Files below a folder: path relative to it, and the whole path.
fn below<'a>(archive: &'a Archive, folder: &str) -> Vec<(&'a str, &'a str)> {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let range = archive.files.range(prefix.clone()..).map(|(path, _)| path.as_str());
    range.map_while(|path| path.strip_prefix(prefix.as_str()).map(|relative| (relative, path))).collect()
}
