//! Steps of ours and the volume: what they need of it is copied into a private folder before they begin, and what they
//! made is handed over when they have ended.
//!
//! In between they see neither the volume nor anything that a step could have changed, and no step sees what they work
//! on: a folder that is moved out of the volume would not do, because a step may still have it open. Handing over goes
//! by descriptors, from a tree that nobody else has: a new folder by one rename, an old one entry by entry.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{RenameFlags, renameat2};

use crate::layout::{AttemptDir, VOLUME, create_private_dir, give};
use crate::task::{Builtin, Deploy, GitClone, GitCommit};
use crate::tree::{self, Copy, Kept, Stop};
use crate::within::{Made, Volume};

/// Where a clone is made.
pub(super) const TREE: &str = "tree";
/// What is to be committed.
pub(super) const FOLDER: &str = "folder";
/// What is in the way of a clone, and which of it stays.
pub(super) const EXISTING: &str = "existing";
pub(super) const KEEP: &str = "keep";
const DEPLOY_BYTES_MAX: u64 = 4 << 20;
const KEEP_BYTES_MAX: u64 = 64 << 20;

/// A folder that is this attempt's alone.
pub(super) struct Private {
    path: PathBuf,
    folder: Volume,
}

impl Private {
    pub(super) fn make(dir: &AttemptDir, user: Option<u32>) -> io::Result<Self> {
        let path = dir.work();
        let _ = std::fs::remove_dir_all(&path);
        create_private_dir(&path)?;
        give(&path, user)?;
        Ok(Self { folder: Volume::open(&path)?, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The work with what it needs of the volume; an error is for the log.
    pub(super) fn prepare(
        &self,
        volume: &Path,
        work: &Builtin,
        user: Option<u32>,
        stop: Stop<'_>,
    ) -> Result<Builtin, String> {
        let volume = Volume::open(volume).map_err(|error| error.to_string())?;
        match work {
            Builtin::GitClone(clone) => {
                self.look_around(&volume, clone).map_err(|error| {
                    format!("{VOLUME}/{} cannot be cloned into: {error}", clone.into.display())
                })?;
                Ok(work.clone())
            }
            Builtin::GitCommit(commit) => self.snapshot(&volume, commit, user, stop).map(|()| work.clone()),
            Builtin::Deploy(deploy) => with_text(&volume, deploy).map(Builtin::Deploy),
        }
    }

    /// Names of what is there already: files that Git ignores stay, as they do when a clone is brought up to date.
    fn look_around(&self, volume: &Volume, clone: &GitClone) -> io::Result<()> {
        let folder = match volume.folder(&clone.into) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if let Some(names) = tree::list(&folder)?.filter(|names| !names.is_empty()) {
            std::fs::write(self.path.join(EXISTING), names)?;
        }
        Ok(())
    }

    fn snapshot(
        &self,
        volume: &Volume,
        commit: &GitCommit,
        user: Option<u32>,
        stop: Stop<'_>,
    ) -> Result<(), String> {
        let shown = format!("{VOLUME}/{}", commit.folder.display());
        let from = volume.folder(&commit.folder).map_err(|_| {
            format!("there is no folder {shown}: clone the repository in an earlier step, or set working_directory")
        })?;
        let made = Made { owner: user, mode: 0o700 };
        let skip = |path: &Path| !wanted(path, &commit.add);
        self.folder
            .make_folder(Path::new(FOLDER), made)
            .and_then(|to| Copy::new(user, &skip, stop).all(&from, &to))
            .map_err(|error| format!("{shown} cannot be committed: {error}"))
    }

    /// Puts what was made into the volume.
    pub(super) fn hand_over(&self, volume: &Path, work: &Builtin, owner: Option<u32>) -> io::Result<()> {
        let Builtin::GitClone(clone) = work else { return Ok(()) };
        let tree = self.folder.folder(Path::new(TREE))?;
        if nix::unistd::geteuid().is_root() {
            tree::give(&tree, owner.unwrap_or(0))?;
        }
        let volume = Volume::open(volume)?;
        let (parent, name) = (clone.into.parent().unwrap_or(Path::new("")), clone.into.file_name());
        let name = name.ok_or_else(|| io::Error::other("the whole volume cannot be a clone"))?;
        let parent = volume.make_folder(parent, Made::of(owner))?;
        if self.renamed(&parent, name)? {
            return Ok(());
        }
        let kept = self.folder.read(Path::new(KEEP), KEEP_BYTES_MAX).unwrap_or_default();
        tree::lay_over(&tree, &volume.folder(&clone.into)?, &Kept::read(&kept))
    }

    /// Whether nothing was in the way.
    fn renamed(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<bool> {
        let own = self.folder.folder(Path::new(""))?;
        match renameat2(&own, TREE, parent, name, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn remove(self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// What of a folder is looked at when it is committed. Of its repository only commits and objects are: whoever could
/// write there could write a configuration, hooks, or the way to objects of somebody else.
fn wanted(path: &Path, add: &[String]) -> bool {
    if path.starts_with(".git") {
        let objects = path.starts_with(".git/objects") && !path.starts_with(".git/objects/info");
        let names = [".git", ".git/HEAD", ".git/packed-refs"].iter().any(|name| path == Path::new(name));
        return objects || names || path.starts_with(".git/refs");
    }
    let around = |added: &Path| path.starts_with(added) || added.starts_with(path);
    // They say what is added below their folder.
    let rules = |added: &Path| {
        matches!(path.file_name().and_then(OsStr::to_str), Some(".gitignore" | ".gitattributes"))
            && path.parent().is_some_and(|folder| added.starts_with(folder))
    };
    add.is_empty()
        || add.iter().any(|added| {
            let added = Path::new(added.trim_end_matches('/'));
            added == Path::new(".") || around(added) || rules(added)
        })
}

fn with_text(volume: &Volume, deploy: &Deploy) -> Result<Deploy, String> {
    let Some(file) = &deploy.file else { return Ok(deploy.clone()) };
    let text = volume
        .read(file, DEPLOY_BYTES_MAX)
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| io::Error::other("it is not a text")))
        .map_err(|error| format!("{VOLUME}/{}: {error}", file.display()))?;
    Ok(Deploy { text: Some(text), ..deploy.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_repository_nothing_that_git_would_obey_is_taken() {
        for path in
            [".git/HEAD", ".git/refs/heads/main", ".git/packed-refs", ".git/objects/ab/cd", "a", "a/b"]
        {
            assert!(wanted(Path::new(path), &[]), "{path}");
        }
        for path in [
            ".git/config",
            ".git/hooks/x",
            ".git/info/attributes",
            ".git/objects/info/alternates",
            ".git/index",
        ] {
            assert!(!wanted(Path::new(path), &[]), "{path}");
        }
        let add = ["deploy/app.yaml".to_owned()];
        for path in ["deploy", "deploy/app.yaml", ".gitignore", "deploy/.gitattributes", ".git/HEAD"] {
            assert!(wanted(Path::new(path), &add), "{path}");
        }
        for path in ["node_modules", "deploy/other.yaml", "other/.gitignore"] {
            assert!(!wanted(Path::new(path), &add), "{path}");
        }
    }
}
