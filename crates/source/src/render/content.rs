//! What is rendered: the files of a commit, read from git's object store, or of an archive such as a packaged chart.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::chart::Archive;
use crate::git_cache::tree::parts;
use crate::git_cache::{Commit, EntryKind, GitCache, GitError, Repository, Tree, TreeEntry};

/// Where files come from. Every path is relative to its root, and nothing outside of it can be named.
#[derive(Clone)]
pub enum Content {
    Git { repository: Repository, commit: Commit },
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
            Self::Git { repository, commit } => git.entry(repository, commit, path).await,
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
            Self::Git { repository, commit } => git.tree(repository, commit, path, recurse).await,
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
            Self::Git { repository, .. } => git.blob(repository, id).await,
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
            Self::Git { repository, commit } => git.file(repository, commit, path).await,
            Self::Archive(archive) => Ok(archive.files.get(&parts(path)?.join("/")).cloned()),
        }
    }
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
