//! The working copy as it is now, changes and new files included, as one commit in a repository beside it.
//!
//! Nothing is written into the person's own repository: new objects go to the snapshot's, which borrows the rest.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use slipway_api::agent::TriggerCommit;

pub(super) struct Snapshot {
    /// A bare repository with one branch.
    pub(super) repository: PathBuf,
    pub(super) commit: TriggerCommit,
    /// Folders of the objects that it does not have itself.
    pub(super) borrows: Vec<PathBuf>,
    /// What the person should know about what is built.
    pub(super) note: Option<String>,
}

impl Snapshot {
    /// `None` where there is no working copy: then a pipeline can still run, but has nothing of ours to clone.
    pub(super) fn take(around: &Path, into: &Path, branch: Option<&str>) -> anyhow::Result<Option<Self>> {
        let Ok(top) = git(around, &["rev-parse", "--show-toplevel"], &[]) else { return Ok(None) };
        let top = PathBuf::from(top);
        let Ok(head) = git(&top, &["rev-parse", "--verify", "HEAD"], &[]) else {
            bail!("the repository {} has no commit yet: commit something first", top.display());
        };
        let objects = git(&top, &["rev-parse", "--git-path", "objects"], &[])?;
        let objects = top.join(objects).canonicalize().context("cannot find the repository's objects")?;
        let current = git(&top, &["symbolic-ref", "--short", "-q", "HEAD"], &[]).ok();
        let branch = branch.map(str::to_owned).or(current).unwrap_or_else(|| "main".to_owned());
        let parent = into.parent().context("the snapshot has no folder")?;
        git(parent, &["init", "-q", "--bare", "-b", "main", &into.to_string_lossy()], &[])?;
        std::fs::write(into.join("objects/info/alternates"), format!("{}\n", objects.display()))?;
        let sha = commit_all(&top, &head, into)?;
        git(into, &["update-ref", &format!("refs/heads/{branch}"), &sha], &[])?;
        git(into, &["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")], &[])?;
        git(into, &["config", "uploadpack.allowAnySHA1InWant", "true"], &[])?;
        let show = |format: &str| git(&top, &["log", "-1", &format!("--format={format}"), &head], &[]);
        let changed = sha != head;
        Ok(Some(Self {
            repository: into.to_owned(),
            borrows: lenders(objects),
            commit: TriggerCommit {
                repo: name_of(&top),
                branch,
                author: show("%an")?,
                message: show("%B")?,
                trigger_name: "local".into(),
                sha: sha.clone(),
                ..TriggerCommit::default()
            },
            note: changed.then(|| {
                format!(
                    "Building the working copy with its uncommitted changes, as {}.",
                    &sha[..7.min(sha.len())]
                )
            }),
        }))
    }
}

/// The folder and those that it borrows from itself, as a clone with `--shared` does.
fn lenders(objects: PathBuf) -> Vec<PathBuf> {
    const LENDERS_MAX: usize = 16;
    let (mut found, mut at) = (vec![objects], 0);
    while at < found.len() && found.len() < LENDERS_MAX {
        let text = std::fs::read_to_string(found[at].join("info/alternates")).unwrap_or_default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Ok(folder) = found[at].join(line).canonicalize()
                && !found.contains(&folder)
            {
                found.push(folder);
            }
        }
        at += 1;
    }
    found
}

/// HEAD itself when nothing has changed, else a commit of everything that is not ignored.
fn commit_all(top: &Path, head: &str, into: &Path) -> anyhow::Result<String> {
    let index = into.join("snapshot.index");
    let index = index.to_string_lossy();
    let objects = into.join("objects");
    let objects = objects.to_string_lossy();
    let own = [("GIT_INDEX_FILE", &*index), ("GIT_OBJECT_DIRECTORY", &*objects)];
    git(top, &["read-tree", head], &own)?;
    git(top, &["add", "--all", "--", "."], &own)?;
    let tree = git(top, &["write-tree"], &own)?;
    if tree == git(top, &["rev-parse", &format!("{head}^{{tree}}")], &own)? {
        return Ok(head.to_owned());
    }
    let message = git(top, &["log", "-1", "--format=%B", head], &own)?;
    let who = [
        own[0],
        own[1],
        ("GIT_AUTHOR_NAME", "Slipway"),
        ("GIT_AUTHOR_EMAIL", "slipway@localhost"),
        ("GIT_COMMITTER_NAME", "Slipway"),
        ("GIT_COMMITTER_EMAIL", "slipway@localhost"),
    ];
    git(top, &["commit-tree", &tree, "-p", head, "-m", &message], &who)
}

/// `owner/name` as the pipeline knows the repository: from `origin`, else from the folder.
fn name_of(top: &Path) -> String {
    let folder = top.file_name().map_or_else(|| "work".into(), |name| name.to_string_lossy().into_owned());
    let origin = git(top, &["remote", "get-url", "origin"], &[]).unwrap_or_default();
    let path = origin.trim_end_matches('/').trim_end_matches(".git").replace(':', "/");
    let parts: Vec<&str> = path.rsplit('/').take(2).collect();
    match parts[..] {
        [name, owner] if !name.is_empty() && !owner.is_empty() && !owner.contains('@') => {
            format!("{owner}/{name}")
        }
        _ => format!("local/{folder}"),
    }
}

fn git(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .context("cannot run git: install it")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let run = |arguments: &[&str]| git(folder.path(), arguments, &[]).unwrap();
        run(&["init", "-q", "-b", "trunk"]);
        run(&["config", "user.email", "ada@example.com"]);
        run(&["config", "user.name", "Ada"]);
        std::fs::write(folder.path().join("kept.txt"), "one").unwrap();
        std::fs::write(folder.path().join(".gitignore"), "ignored.txt\n").unwrap();
        run(&["add", "."]);
        run(&["commit", "-q", "-m", "first"]);
        folder
    }

    #[test]
    fn an_unchanged_copy_is_its_own_commit() {
        let (work, out) = (repository(), tempfile::tempdir().unwrap());
        let taken = Snapshot::take(work.path(), &out.path().join("s.git"), None).unwrap().unwrap();
        assert_eq!(taken.commit.sha, git(work.path(), &["rev-parse", "HEAD"], &[]).unwrap());
        assert_eq!((taken.commit.branch.as_str(), taken.note), ("trunk", None));
        assert_eq!(taken.commit.message, "first");
    }

    #[test]
    fn changes_and_new_files_are_in_it_and_the_own_repository_is_left_alone() {
        let (work, out) = (repository(), tempfile::tempdir().unwrap());
        std::fs::write(work.path().join("kept.txt"), "two").unwrap();
        std::fs::write(work.path().join("new.txt"), "new").unwrap();
        std::fs::write(work.path().join("ignored.txt"), "no").unwrap();
        let before = git(work.path(), &["count-objects"], &[]).unwrap();
        let status = git(work.path(), &["status", "--porcelain"], &[]).unwrap();
        let taken = Snapshot::take(work.path(), &out.path().join("s.git"), None).unwrap().unwrap();
        assert!(taken.note.is_some());
        let files = git(&taken.repository, &["ls-tree", "--name-only", &taken.commit.sha], &[]).unwrap();
        assert_eq!(files, ".gitignore\nkept.txt\nnew.txt");
        let shown =
            git(&taken.repository, &["show", &format!("{}:kept.txt", taken.commit.sha)], &[]).unwrap();
        assert_eq!(shown, "two");
        assert_eq!(git(work.path(), &["count-objects"], &[]).unwrap(), before);
        assert_eq!(git(work.path(), &["status", "--porcelain"], &[]).unwrap(), status);
    }

    #[test]
    fn no_working_copy_is_no_error() {
        let (nothing, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(Snapshot::take(nothing.path(), &out.path().join("s.git"), None).unwrap().is_none());
    }

    #[test]
    fn the_name_comes_from_origin() {
        let work = repository();
        assert!(name_of(work.path()).starts_with("local/"));
        git(work.path(), &["remote", "add", "origin", "git@example.com:team/app.git"], &[]).unwrap();
        assert_eq!(name_of(work.path()), "team/app");
        git(work.path(), &["remote", "set-url", "origin", "https://example.com/group/app"], &[]).unwrap();
        assert_eq!(name_of(work.path()), "group/app");
    }
}
