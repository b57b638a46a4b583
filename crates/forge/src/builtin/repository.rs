//! One bare repository on disk.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use slipway_cage::{Cage, Limits, Stream, Streams, User, git::Git};
use slipway_model::PushedCommit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::GitHostError;

/// Beyond this many changed paths a push refreshes everything that is built from the repository.
const CHANGED_PATHS_MAX: usize = 2_000;

#[derive(Debug, Clone)]
pub struct Repository {
    path: PathBuf,
}

pub struct SeedFile<'a> {
    pub path: &'a str,
    pub content: &'a str,
    pub executable: bool,
}

impl Repository {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // A caged program knows no current folder of ours.
        Self { path: std::path::absolute(&path).unwrap_or(path) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it if it is not there. Objects and references are synced to disk before a push is answered.
    pub async fn create(&self, default_branch: &str) -> Result<(), GitHostError> {
        std::fs::create_dir_all(&self.path)?;
        self.git(&["init", "--quiet", "--bare", "--initial-branch", default_branch]).await?;
        for (key, value) in [
            ("core.fsync", "all"),
            ("core.logAllRefUpdates", "true"),
            ("http.receivepack", "true"),
            ("receive.denyDeleteCurrent", "refuse"),
            ("transfer.fsckObjects", "true"),
            ("uploadpack.allowFilter", "true"),
            ("uploadpack.allowAnySHA1InWant", "true"),
            ("gc.auto", "0"),
        ] {
            self.git(&["config", key, value]).await?;
        }
        Ok(())
    }

    /// Branches and tags with the commit each points to.
    pub async fn references(&self) -> Result<BTreeMap<String, String>, GitHostError> {
        let format = "--format=%(refname) %(objectname) %(*objectname)";
        let text = self.git(&["for-each-ref", format, "refs/heads", "refs/tags"]).await?;
        text.lines()
            .map(|line| {
                let mut words = line.split(' ');
                let (name, object) = (words.next(), words.next());
                // An annotated tag names the commit it points to in the third column.
                let peeled = words.next().filter(|sha| !sha.is_empty());
                match (name, object) {
                    (Some(name), Some(object)) => Ok((name.to_owned(), peeled.unwrap_or(object).to_owned())),
                    _ => Err(self.unexpected("for-each-ref")),
                }
            })
            .collect()
    }

    pub async fn commit(&self, sha: &str) -> Result<PushedCommit, GitHostError> {
        let text = self.git(&["show", "--no-patch", "--format=%H%x00%an%x00%B", sha, "--"]).await?;
        let mut parts = text.splitn(3, '\0');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(sha), Some(author), Some(message)) => Ok(PushedCommit {
                sha: sha.trim().to_owned(),
                author: author.to_owned(),
                message: message.trim_end().to_owned(),
            }),
            _ => Err(self.unexpected("show")),
        }
    }

    /// Paths that differ between two commits; empty when everything may differ.
    pub async fn changed_paths(
        &self,
        before: Option<&str>,
        after: &str,
    ) -> Result<Vec<String>, GitHostError> {
        let Some(before) = before else { return Ok(Vec::new()) };
        let text =
            self.git(&["diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after, "--"]).await?;
        let paths: Vec<_> = text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
        Ok(if paths.len() > CHANGED_PATHS_MAX { Vec::new() } else { paths })
    }

    /// The first commit of a new repository. Nothing happens when the branch is there already.
    pub async fn seed(
        &self,
        branch: &str,
        author: &str,
        message: &str,
        files: &[SeedFile<'_>],
    ) -> Result<(), GitHostError> {
        let reference = format!("refs/heads/{branch}");
        if self.references().await?.contains_key(&reference) {
            return Ok(());
        }
        let mut stream = format!(
            "commit {reference}\ncommitter {author} <{author}@slipway.invalid> now\ndata {}\n{message}\n",
            message.len()
        );
        for file in files {
            let mode = if file.executable { "100755" } else { "100644" };
            stream +=
                &format!("M {mode} inline {}\ndata {}\n{}\n", file.path, file.content.len(), file.content);
        }
        stream += "done\n";
        self.run(&["fast-import", "--quiet", "--done", "--date-format=now"], Some(stream.as_bytes())).await?;
        Ok(())
    }

    /// Every branch, tag and object of one instant in one file; an empty file for an empty repository.
    pub async fn bundle(&self, file: &Path) -> Result<(), GitHostError> {
        if self.git(&["for-each-ref", "--count=1"]).await?.is_empty() {
            return Ok(std::fs::write(file, "")?);
        }
        // By a pipe of ours: git sees the repository and no other folder.
        let out = OwnedFd::from(std::fs::File::create(file)?);
        let streams = Streams { stdout: Stream::File(out), ..Streams::listening() };
        let arguments = ["bundle", "create", "--quiet", "-", "--all"];
        self.run_with(command(&self.path), &arguments, None, self.cage(), streams).await?;
        Ok(())
    }

    /// Makes the repository from what [`Self::bundle`] wrote.
    pub async fn restore(&self, file: &Path, default_branch: &str) -> Result<(), GitHostError> {
        self.create(default_branch).await?;
        if std::fs::metadata(file)?.len() > 0 {
            let file = std::path::absolute(file)?;
            let cage = self.cage().read(&file);
            let arguments = ["fetch", "--quiet", &file.to_string_lossy(), "+refs/*:refs/*"];
            let command = command_with(&self.path, &["file"]);
            self.run_with(command, &arguments, None, cage, Streams::listening()).await?;
        }
        Ok(())
    }

    async fn git(&self, arguments: &[&str]) -> Result<String, GitHostError> {
        self.run(arguments, None).await
    }

    async fn run(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<String, GitHostError> {
        let streams = if input.is_some() { Streams::talking() } else { Streams::listening() };
        self.run_with(command(&self.path), arguments, input, self.cage(), streams).await
    }

    fn cage(&self) -> Cage {
        cage(&self.path)
    }

    async fn run_with(
        &self,
        mut command: Command,
        arguments: &[&str],
        input: Option<&[u8]>,
        cage: Cage,
        streams: Streams,
    ) -> Result<String, GitHostError> {
        command.args(arguments);
        let mut child = cage.spawn(&command, streams).map_err(GitHostError::Start)?;
        let stdin = child.stdin.take().map(slipway_cage::writer).transpose()?;
        let feed = async {
            if let (Some(input), Some(mut stdin)) = (input, stdin) {
                // What git refuses it says on its standard error.
                let _ = stdin.write_all(input).await;
            }
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let ((), stdout, stderr) = tokio::join!(feed, all(stdout), all(stderr));
        let (stdout, stderr, status) = (stdout?, stderr?, child.wait().await?);
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        Err(GitHostError::Failed {
            command: arguments.first().copied().unwrap_or_default().to_owned(),
            repository: self.name(),
            stderr: String::from_utf8_lossy(&stderr).trim().to_owned(),
        })
    }

    fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn unexpected(&self, command: &str) -> GitHostError {
        GitHostError::Answer { command: command.to_owned(), repository: self.name() }
    }
}

async fn all(end: Option<OwnedFd>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(end) = end {
        slipway_cage::reader(end)?.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Git in a repository, which reaches no other.
pub(super) fn command(repository: &Path) -> Command {
    command_with(repository, &[])
}

fn command_with(repository: &Path, transports: &[&str]) -> Command {
    let mut command = Git::new(transports).command();
    command.current_dir(repository).env("GIT_DIR", repository);
    command
}

/// The one repository, no network. The files are ours, so it runs as who we are, without any capability.
pub(super) fn cage(repository: &Path) -> Cage {
    let limits = Limits { file_bytes: None, cpu_seconds: None, ..Limits::default() };
    Cage::new().user(User::Ours).limits(limits).write(repository)
}
