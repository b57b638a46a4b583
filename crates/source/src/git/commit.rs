//! Commit what changed in a folder and push it, once, onto a branch that others push to as well.
//!
//! The folder's own `.git` is not trusted: whoever wrote the files may have written filters, hooks or
//! redirections into it. Only its current commit and its objects are used; index, configuration and
//! the new commit live in a private repository. A call that has the credential sees neither the folder
//! nor its objects: what is pushed is brought into the private repository before.

use std::path::{Path, PathBuf};
use std::time::Duration;

use slipway_model::Next;

use super::clone::Found;
use super::command::{Git, Invocation};
use super::error::GitError;
use super::is_full_sha;
use super::remote::{Remote, check_path, check_revision};

/// How often a push is tried when the branch keeps moving.
const PUSH_ATTEMPTS: u32 = 10;

#[derive(Debug, Clone)]
pub struct Identity {
    pub name: String,
    pub email: String,
}

/// A change to be committed and pushed.
#[derive(Debug, Clone)]
pub struct Change {
    /// The folder with the changed files: a clone, or plain files that become the whole tree.
    pub folder: PathBuf,
    /// What to take from it; everything when empty. Paths relative to the folder.
    pub add: Vec<String>,
    /// The remote's default branch when absent. A branch that is not there yet is made.
    pub branch: Option<String>,
    pub message: String,
    pub author: Identity,
    /// A trailer, key and value, that marks this one change for ever: the same change is never pushed twice.
    pub mark: Option<(String, String)>,
    /// An empty folder outside `folder`, for the private repository.
    pub scratch: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    Pushed {
        sha: String,
        branch: String,
    },
    /// A commit with the same mark is on the branch: an earlier try got through.
    Already {
        sha: String,
        branch: String,
    },
    /// The branch holds these files already.
    Nothing {
        sha: Option<String>,
        branch: String,
    },
}

impl Git {
    pub async fn commit_and_push(&self, remote: &Remote, commit: &Change) -> Result<Pushed, GitError> {
        for path in commit.add.iter().filter(|path| path.as_str() != ".") {
            check_path(path.trim_end_matches('/'))?;
        }
        let branch = match &commit.branch {
            Some(branch) => branch.trim_start_matches("refs/heads/").to_owned(),
            None => self.default_branch_name(remote).await?,
        };
        check_revision(&branch)?;
        let work = Work { git: self, remote, commit, branch: &branch };
        work.private(&["init", "--quiet", "--template=", "."]).run("prepare a folder").await?;

        let mut last = None;
        for attempt in 0..PUSH_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(50 << attempt.min(6))).await;
            }
            match work.once().await {
                Ok(pushed) => return Ok(pushed),
                // The branch moved under us, or the answer got lost: look again before the next try.
                Err(error @ GitError::Rejected { .. }) if is_stale(&error) => last = Some(error),
                Err(error) if error.next() == Next::Retry && attempt < 3 => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.expect("a loop that ran out has seen an error"))
    }

    async fn default_branch_name(&self, remote: &Remote) -> Result<String, GitError> {
        match self.default_branch(remote).await {
            Ok(Found::Branch { name }) => Ok(name),
            Ok(Found::Other { .. }) | Err(GitError::Empty { .. }) => Ok("main".into()),
            Err(error) => Err(error),
        }
    }
}

struct Work<'a> {
    git: &'a Git,
    remote: &'a Remote,
    commit: &'a Change,
    branch: &'a str,
}

impl Work<'_> {
    fn dress(&self, invocation: Invocation, args: &[&str]) -> Invocation {
        let mut invocation = invocation.args(args);
        let objects = self.commit.folder.join(".git/objects");
        if objects.is_dir() {
            invocation = invocation.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects);
        }
        invocation
    }

    fn private(&self, args: &[&str]) -> Invocation {
        self.dress(self.git.at(&self.commit.scratch, self.remote.name()), args)
    }

    fn outward(&self, args: &[&str]) -> Invocation {
        self.git.to(self.remote, &self.commit.scratch).args(args)
    }

    /// What the remote does not have yet, taken over from the folder's objects.
    async fn bring(&self, sha: &str) -> Result<(), GitError> {
        let there = self
            .private(&["for-each-ref", "--format=^%(objectname)", "refs/remotes/origin"])
            .text("list the branches");
        let wanted = format!("{sha}\n{}\n", there.await?);
        let packs = self.commit.scratch.join(".git/objects/pack/pack");
        self.private(&["pack-objects", "--quiet", "--revs", "--non-empty"])
            .args([packs])
            .stdin(wanted)
            .run("collect what is pushed")
            .await
    }

    /// A call that sees the changed files.
    fn inside(&self, args: &[&str]) -> Invocation {
        self.dress(self.git.at(&self.commit.folder, self.remote.name()), args)
            .env("GIT_DIR", self.commit.scratch.join(".git"))
            .env("GIT_WORK_TREE", &self.commit.folder)
    }

    async fn once(&self) -> Result<Pushed, GitError> {
        let branch = self.branch.to_owned();
        self.outward(&["fetch", "--quiet", "--force", "--prune", "--no-tags", "--end-of-options"])
            .args([self.remote.url(), "+refs/heads/*:refs/remotes/origin/*"])
            .run("fetch")
            .await?;
        let tip = self.commit_of(&format!("refs/remotes/origin/{branch}")).await?;
        if tip.is_some()
            && let Some(sha) = self.marked().await?
        {
            return Ok(Pushed::Already { sha, branch });
        }
        let head = match head_of(&self.commit.folder) {
            Some(sha) => self.commit_of(&sha).await?,
            None => None,
        };
        let base = head.clone().or_else(|| tip.clone());
        let tree = self.tree(base.as_deref()).await?;
        let (tree, parent) = match (&base, &tip) {
            (_, None) => (tree, base.clone()),
            (Some(base), Some(tip)) if base != tip => (self.onto(base, tip, &tree).await?, Some(tip.clone())),
            (_, Some(tip)) => (tree, Some(tip.clone())),
        };
        if let Some(parent) = &parent
            && self.private(&["rev-parse", &format!("{parent}^{{tree}}")]).text("compare").await? == tree
            && tip.is_some()
        {
            return Ok(Pushed::Nothing { sha: tip, branch });
        }
        let sha = self.write(&tree, parent.as_deref()).await?;
        self.push(&sha).await?;
        Ok(Pushed::Pushed { sha, branch })
    }

    async fn commit_of(&self, name: &str) -> Result<Option<String>, GitError> {
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")];
        let output = self.private(&args).output("look for a commit").await?;
        Ok((output.code == 0).then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }

    async fn marked(&self) -> Result<Option<String>, GitError> {
        let Some((key, value)) = &self.commit.mark else { return Ok(None) };
        let format = format!("--format=%H %(trailers:key={key},valueonly,separator=%x00)");
        let text = self
            .private(&["log", "--fixed-strings", &format!("--grep={key}: {value}"), &format])
            .args(["--end-of-options", &format!("refs/remotes/origin/{}", self.branch), "--"])
            .text("look for an earlier push")
            .await?;
        Ok(text.lines().find_map(|line| {
            let (sha, values) = line.split_once(' ')?;
            values.split('\0').any(|found| found.trim() == value).then(|| sha.to_owned())
        }))
    }

    /// The tree that the folder holds now, seen as a change of `base`.
    async fn tree(&self, base: Option<&str>) -> Result<String, GitError> {
        let start = match base {
            Some(base) => vec!["read-tree", "--reset", base],
            None => vec!["read-tree", "--empty"],
        };
        self.private(&start).run("prepare the commit").await?;
        let mut add = self.inside(&["add", "--all", "--"]);
        add = if self.commit.add.is_empty() {
            add.args(["."])
        } else {
            add.args(
                self.commit
                    .add
                    .iter()
                    .map(|path| if path == "." { path.clone() } else { format!(":(literal){path}") }),
            )
        };
        add.run("add the changed files").await?;
        self.private(&["write-tree"]).text("prepare the commit").await
    }

    /// The change from `base` to `tree`, carried over to `tip`.
    async fn onto(&self, base: &str, tip: &str, tree: &str) -> Result<String, GitError> {
        // Commits that only the folder has are carried along; then the change starts where they did.
        let local = self
            .private(&["rev-list", "--max-count=1", base, "--not", "--remotes=origin"])
            .text("compare with the branch")
            .await?;
        let start = if local.is_empty() {
            base.to_owned()
        } else {
            let output = self.private(&["merge-base", base, tip]).output("compare with the branch").await?;
            if output.code != 0 {
                return Err(self.conflict("everything (the two have no common commit)"));
            }
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        // Two commits made up for the merge have `start` as their only common ancestor. `merge-tree
        // --merge-base` would say the same, but only from git 2.40 on.
        let theirs = self.commit_tree(tree, Some(&start), "theirs").await?;
        let tip_tree =
            self.private(&["rev-parse", &format!("{tip}^{{tree}}")]).text("read the branch").await?;
        let ours = self.commit_tree(&tip_tree, Some(&start), "ours").await?;
        let output = self
            .private(&["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", &ours, &theirs])
            .output("rebase the change")
            .await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut parts = text.split('\0').map(str::trim).filter(|part| !part.is_empty());
        match (output.code, parts.next()) {
            (0, Some(tree)) => Ok(tree.to_owned()),
            (1, Some(_)) => Err(self.conflict(&parts.collect::<Vec<_>>().join(", "))),
            _ => Err(GitError::from_stderr(self.remote.name(), "rebase the change", &output.stderr)),
        }
    }

    async fn write(&self, tree: &str, parent: Option<&str>) -> Result<String, GitError> {
        let mut message = self.commit.message.trim_end().to_owned();
        if let Some((key, value)) = &self.commit.mark {
            let trailers = self.private(&[
                "interpret-trailers",
                "--if-exists=addIfDifferent",
                "--trailer",
                &format!("{key}: {value}"),
            ]);
            message = trailers.stdin(format!("{message}\n")).text("write the message").await?;
        }
        self.commit_tree(tree, parent, &message).await
    }

    async fn commit_tree(&self, tree: &str, parent: Option<&str>, message: &str) -> Result<String, GitError> {
        let author = &self.commit.author;
        let mut command = self
            .private(&["commit-tree", tree, "-F", "-"])
            .env("GIT_AUTHOR_NAME", &author.name)
            .env("GIT_AUTHOR_EMAIL", &author.email)
            .env("GIT_COMMITTER_NAME", &author.name)
            .env("GIT_COMMITTER_EMAIL", &author.email);
        if let Some(parent) = parent {
            command = command.args(["-p", parent]);
        }
        command.stdin(format!("{message}\n")).text("write the commit").await
    }

    async fn push(&self, sha: &str) -> Result<(), GitError> {
        self.bring(sha).await?;
        let output = self
            .outward(&["push", "--porcelain", "--no-verify", "--end-of-options", self.remote.url()])
            .args([format!("{sha}:refs/heads/{}", self.branch)])
            .output("push")
            .await?;
        if output.code == 0 {
            return Ok(());
        }
        let porcelain = String::from_utf8_lossy(&output.stdout).into_owned();
        let rejected = porcelain.lines().find(|line| line.starts_with('!'));
        Err(match rejected {
            Some(line) => GitError::Rejected {
                repo: self.remote.name().into(),
                branch: self.branch.into(),
                detail: line.rsplit('\t').next().unwrap_or(line).to_owned(),
            },
            None => GitError::from_stderr(self.remote.name(), "push", &output.stderr),
        })
    }

    fn conflict(&self, files: &str) -> GitError {
        GitError::Conflict {
            repo: self.remote.name().into(),
            branch: self.branch.into(),
            files: files.to_owned(),
        }
    }
}

fn is_stale(error: &GitError) -> bool {
    let GitError::Rejected { detail, .. } = error else { return false };
    [
        "fetch first",
        "non-fast-forward",
        "stale",
        "cannot lock ref",
        "failed to update ref",
        "incorrect old value",
    ]
    .iter()
    .any(|word| detail.contains(word))
}

/// The commit that a clone is at, read without running git on its configuration.
fn head_of(folder: &Path) -> Option<String> {
    let git = folder.join(".git");
    let read = |name: &str| {
        let file = std::fs::File::open(git.join(name)).ok()?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::io::Read::take(file, 4 << 20), &mut text).ok()?;
        Some(text)
    };
    let head = read("HEAD")?;
    let head = head.trim();
    let Some(name) = head.strip_prefix("ref: ") else {
        return is_full_sha(head).then(|| head.to_owned());
    };
    if !name.starts_with("refs/") || check_revision(name).is_err() {
        return None;
    }
    if let Some(sha) = read(name) {
        return is_full_sha(sha.trim()).then(|| sha.trim().to_owned());
    }
    read("packed-refs")?.lines().find_map(|line| {
        let (sha, found) = line.split_once(' ')?;
        (found == name && is_full_sha(sha)).then(|| sha.to_owned())
    })
}
