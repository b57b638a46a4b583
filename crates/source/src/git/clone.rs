//! Bringing a revision of a remote into a folder, and reading what is in one.

use std::path::Path;

use super::command::Git;
use super::error::GitError;
use super::is_full_sha;
use super::remote::{Remote, check_path, check_revision};

/// How much of a repository to bring.
#[derive(Debug, Clone, Default)]
pub struct CloneOptions {
    /// Only this many commits; everything when absent.
    pub depth: Option<u32>,
    /// Leave out old file contents until they are asked for.
    pub exclude_blobs: bool,
    pub skip_tags: bool,
}

/// What a folder holds after [`Git::clone_at`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    pub sha: String,
    /// The branch that is checked out; none when the revision was a tag or a commit.
    pub branch: Option<String>,
}

/// One commit, as its author wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitInfo {
    pub sha: String,
    pub author_name: String,
    pub author_email: String,
    /// RFC 3339.
    pub date: String,
    pub message: String,
}

impl Git {
    /// Brings `revision` (or the default branch) of `remote` into `into` and checks it out.
    ///
    /// The folder may already hold an older clone: it is then brought up to date, and everything that
    /// git does not ignore is removed from it.
    pub async fn clone_at(
        &self,
        remote: &Remote,
        revision: Option<&str>,
        into: &Path,
        options: &CloneOptions,
    ) -> Result<Checkout, GitError> {
        let repo = remote.name();
        if let Some(revision) = revision {
            check_revision(revision)?;
        }
        tokio::fs::create_dir_all(into).await.map_err(|source| GitError::io(into, source))?;
        self.at(into, repo).args(["init", "--quiet", "--template="]).run("prepare a folder").await?;
        self.at(into, repo)
            .args(["config", "remote.origin.url", remote.url()])
            .run("name the remote")
            .await?;
        self.at(into, repo)
            .args(["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"])
            .run("name the remote")
            .await?;
        // A tree that is moved and given to somebody else afterwards is still the one that was checked out.
        let file = into.join(".git/config");
        let text = tokio::fs::read_to_string(&file).await.map_err(|source| GitError::io(&file, source))?;
        if !text.contains("checkStat") {
            let text = text + "[core]\n\tcheckStat = minimal\n\ttrustctime = false\n";
            tokio::fs::write(&file, text).await.map_err(|source| GitError::io(&file, source))?;
        }
        let wanted = match revision {
            Some(revision) => self.find_remote(remote, revision).await?,
            None => self.default_branch(remote).await?,
        };
        let mut specs = vec!["+refs/heads/*:refs/remotes/origin/*".to_owned()];
        if options.depth.is_some() {
            specs = vec![match &wanted {
                Found::Branch { name } => format!("+refs/heads/{name}:refs/remotes/origin/{name}"),
                Found::Other { spec, .. } => spec.clone(),
            }];
        } else if let Found::Other { spec, sha: Some(_) } = &wanted {
            // A commit may be on no branch (a pull request's); a tag is brought even when tags are not wanted.
            specs.push(spec.clone());
        }
        let mut fetch = self.to(remote, into).args(["fetch", "--quiet", "--force"]);
        fetch =
            fetch.args([if options.skip_tags || options.depth.is_some() { "--no-tags" } else { "--tags" }]);
        if let Some(depth) = options.depth {
            fetch = fetch.args([format!("--depth={}", depth.max(1))]);
        }
        if options.exclude_blobs {
            fetch = fetch.args(["--filter=blob:none"]);
        }
        fetch.args(["--end-of-options", "origin"]).args(specs).run("fetch").await?;
        let (sha, branch) = match wanted {
            Found::Branch { name } => {
                let sha = self.resolve(into, repo, &format!("refs/remotes/origin/{name}")).await?;
                (sha, Some(name))
            }
            Found::Other { sha, spec } => {
                (self.resolve(into, repo, sha.as_deref().unwrap_or(&spec)).await?, None)
            }
        };
        // With excluded blobs the checkout itself fetches, so it needs the credential too.
        let checkout = self.to(remote, into).args(["checkout", "--quiet", "--force"]);
        match &branch {
            Some(name) => {
                checkout.args(["-B", name, "--track", &format!("refs/remotes/origin/{name}"), "--"])
            }
            None => checkout.args(["--detach", &sha, "--"]),
        }
        .run("check out the revision")
        .await?;
        self.at(into, repo).args(["clean", "-f", "-d", "-q"]).run("remove leftovers").await?;
        Ok(Checkout { sha, branch })
    }

    /// Which of these paths the rules of a checkout ignore. In and out they end with NUL each, folders with a slash
    /// before it.
    pub async fn ignored(&self, dir: &Path, repo: &str, paths: Vec<u8>) -> Result<Vec<u8>, GitError> {
        const WHAT: &str = "ask what is ignored";
        let output =
            self.at(dir, repo).args(["check-ignore", "-z", "--stdin"]).stdin(paths).output(WHAT).await?;
        match output.code {
            0 => Ok(output.stdout),
            1 => Ok(Vec::new()),
            _ => Err(GitError::from_stderr(repo, WHAT, &output.stderr)),
        }
    }

    /// The commit that a branch, tag, `HEAD` or (short) commit names in a local repository.
    async fn resolve(&self, dir: &Path, repo: &str, revision: &str) -> Result<String, GitError> {
        check_revision(revision)?;
        self.at(dir, repo)
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")])
            .text("find the revision")
            .await
            .map_err(|error| error.or_revision(repo, revision))
    }

    /// One file at a commit of a local repository; at most `bytes_max` of it, or an error.
    async fn read(
        &self,
        dir: &Path,
        repo: &str,
        sha: &str,
        path: &str,
        bytes_max: u64,
    ) -> Result<Vec<u8>, GitError> {
        check_revision(sha)?;
        check_path(path)?;
        let object = format!("{sha}:{path}");
        let missing =
            || GitError::FileNotFound { repo: repo.into(), path: path.into(), revision: sha.into() };
        let size = self.at(dir, repo).args(["cat-file", "-s", &object]).text("read a file").await;
        let size: u64 = size
            .map_err(|error| if error.is_plain() { missing() } else { error })?
            .parse()
            .map_err(|_| missing())?;
        if size > bytes_max {
            let (what, limit) = (format!("`{path}` in {repo}"), format!("{bytes_max} bytes"));
            return Err(GitError::TooLarge { what, limit });
        }
        self.at(dir, repo)
            .args(["cat-file", "blob", &object])
            .bytes("read a file")
            .await
            .map_err(|error| if error.is_plain() { missing() } else { error })
    }

    /// One file of a remote at a revision, and the commit it was read at. `scratch` is an empty folder.
    pub async fn read_remote(
        &self,
        remote: &Remote,
        revision: Option<&str>,
        path: &str,
        scratch: &Path,
        bytes_max: u64,
    ) -> Result<(Vec<u8>, String), GitError> {
        check_path(path)?;
        let found = match revision {
            Some(revision) => {
                check_revision(revision)?;
                self.find_remote(remote, revision).await?
            }
            None => self.default_branch(remote).await?,
        };
        let repo = remote.name();
        self.at(scratch, repo)
            .args(["init", "--quiet", "--bare", "--template="])
            .run("prepare a folder")
            .await?;
        let fetch = |args: &[&str]| {
            self.to(remote, scratch).args(["fetch", "--quiet", "--no-tags"]).args(args.iter())
        };
        let spec = match &found {
            Found::Branch { name } => format!("refs/heads/{name}"),
            Found::Other { spec, .. } => spec.clone(),
        };
        let shallow = fetch(&["--depth=1", "--end-of-options", remote.url(), &spec]).run("fetch").await;
        let sha = match (shallow, &found) {
            (Ok(()), _) => self.resolve(scratch, repo, "FETCH_HEAD").await?,
            // A short commit, or a server that gives out only the tips of branches.
            (Err(error), Found::Other { .. }) if error.is_plain() => {
                fetch(&[
                    "--end-of-options",
                    remote.url(),
                    "+refs/heads/*:refs/heads/*",
                    "+refs/tags/*:refs/tags/*",
                ])
                .run("fetch")
                .await?;
                self.resolve(scratch, repo, &spec).await?
            }
            (Err(error), _) => return Err(error),
        };
        Ok((self.read(scratch, repo, &sha, path, bytes_max).await?, sha))
    }

    pub async fn commit_info(&self, dir: &Path, repo: &str, sha: &str) -> Result<CommitInfo, GitError> {
        check_revision(sha)?;
        let text = self
            .at(dir, repo)
            .args(["log", "-1", "--format=%H%x00%an%x00%ae%x00%aI%x00%B", "--end-of-options", sha, "--"])
            .text("read the commit")
            .await
            .map_err(|error| error.or_revision(repo, sha))?;
        let mut fields = text.splitn(5, '\0').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        Ok(CommitInfo {
            sha: next(),
            author_name: next(),
            author_email: next(),
            date: next(),
            message: next().trim_end().to_owned(),
        })
    }

    pub(super) async fn default_branch(&self, remote: &Remote) -> Result<Found, GitError> {
        let text = self
            .to(remote, Path::new("/"))
            .args(["ls-remote", "--symref", "--end-of-options", remote.url(), "HEAD"])
            .text("list the branches")
            .await?;
        let mut name = None;
        for line in text.lines() {
            match line.split_once('\t') {
                Some((target, "HEAD")) if target.starts_with("ref: refs/heads/") => {
                    name = target.strip_prefix("ref: refs/heads/").map(str::to_owned);
                }
                Some((sha, "HEAD")) => {
                    return Ok(match name {
                        Some(name) => Found::Branch { name },
                        None => Found::Other { spec: "HEAD".into(), sha: Some(sha.to_owned()) },
                    });
                }
                _ => {}
            }
        }
        Err(GitError::Empty { repo: remote.name().into() })
    }

    /// What a revision is at the remote: a branch before a tag before a commit, as `git checkout` takes it.
    async fn find_remote(&self, remote: &Remote, revision: &str) -> Result<Found, GitError> {
        if revision == "HEAD" {
            return self.default_branch(remote).await;
        }
        if is_full_sha(revision) {
            return Ok(Found::Other { spec: revision.into(), sha: Some(revision.into()) });
        }
        let short = revision
            .strip_prefix("refs/heads/")
            .or_else(|| revision.strip_prefix("refs/tags/"))
            .unwrap_or(revision);
        let (head, tag) = (format!("refs/heads/{short}"), format!("refs/tags/{short}"));
        let text = self
            .to(remote, Path::new("/"))
            .args([
                "ls-remote",
                "--end-of-options",
                remote.url(),
                &head,
                &tag,
                &format!("{tag}^{{}}"),
                revision,
            ])
            .text("list the branches")
            .await?;
        let find = |name: &str| {
            text.lines()
                .find_map(|line| line.split_once('\t').filter(|(_, found)| *found == name))
                .map(|f| f.0)
        };
        if find(&head).is_some() && !revision.starts_with("refs/tags/") {
            return Ok(Found::Branch { name: short.into() });
        }
        if let Some(sha) = find(&format!("{tag}^{{}}")).or_else(|| find(&tag)) {
            return Ok(Found::Other { spec: tag, sha: Some(sha.into()) });
        }
        if let Some(sha) = find(revision).filter(|_| revision.starts_with("refs/")) {
            return Ok(Found::Other { spec: revision.into(), sha: Some(sha.into()) });
        }
        if revision.len() >= 7 && revision.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(Found::Other { spec: revision.into(), sha: None });
        }
        Err(GitError::no_revision(remote.name(), revision))
    }
}

pub(super) enum Found {
    Branch {
        name: String,
    },
    /// `sha` is absent for a short commit, which only a clone can lengthen.
    Other {
        spec: String,
        sha: Option<String>,
    },
}
