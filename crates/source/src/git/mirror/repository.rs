//! One repository's mirror: asked once for all who ask at once, fetched one commit at a time, never checked out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::command::{self, GitCommand, Place};
use super::objects::{Batch, Commit, Object, parse_commit};
use super::refs::RefTable;
use super::{Credentials, GitError, GitOptions, Repository, lfs};
use crate::chart::Http;
use crate::git::credentials::Token;
use crate::process;

pub(super) struct Mirror {
    place: Place,
    options: Arc<GitOptions>,
    /// The last answer about branches and tags, and when the question was put. Held while asking, so that
    /// everybody else waits for the same answer.
    table: Mutex<Option<(Instant, Arc<RefTable>)>>,
    /// Held while fetching: git's own locks would make the second fetch fail instead of wait.
    fetching: Mutex<()>,
    batch: Mutex<Option<Batch>>,
    ready: tokio::sync::OnceCell<()>,
    remote_calls: AtomicU64,
    http: Http,
    /// What the repository's App was given last.
    token: Mutex<Option<Token>>,
}

/// Answers of `ls-remote` larger than this belong to a repository made to hurt.
const REFS_BYTES: usize = 64 << 20;

impl Mirror {
    pub(super) fn new(folder: PathBuf, url: &str, options: Arc<GitOptions>) -> Self {
        Self {
            place: Place::new(folder, url),
            http: Http::new(options.egress.clone()),
            options,
            table: Mutex::default(),
            fetching: Mutex::default(),
            batch: Mutex::default(),
            ready: tokio::sync::OnceCell::new(),
            remote_calls: AtomicU64::new(0),
            token: Mutex::default(),
        }
    }

    pub(super) fn remote_calls(&self) -> u64 {
        self.remote_calls.load(Ordering::Relaxed)
    }

    pub(super) async fn trim(&self, idle: Duration) {
        let mut batch = self.batch.lock().await;
        if batch.as_ref().is_some_and(|b| b.idle() >= idle) {
            *batch = None;
        }
    }

    /// Where everything points, as of a question put after `threshold`.
    pub(super) async fn references(
        &self,
        repo: &Repository,
        threshold: Option<Instant>,
    ) -> Result<Arc<RefTable>, GitError> {
        let mut table = self.table.lock().await;
        if let Some((asked, known)) = table.as_ref()
            && threshold.is_none_or(|threshold| *asked >= threshold)
        {
            return Ok(known.clone());
        }
        let asked = Instant::now();
        let mut git = self.remote(repo).await?;
        git.command.args(["ls-remote", "--symref", "--", &repo.url]);
        let limits = process::Limits { deadline: self.options.limits.deadline, stdout_bytes: REFS_BYTES };
        self.remote_calls.fetch_add(1, Ordering::Relaxed);
        let output = process::run(&git.command, &git.cage, "git", None, &limits, || true)
            .await
            .map_err(|error| GitError::from_process(error, &repo.url, "read"))?;
        if !output.success {
            return Err(GitError::of_mirror(&repo.url, &output.stderr));
        }
        let known = Arc::new(RefTable::parse(&String::from_utf8_lossy(&output.stdout)));
        *table = Some((asked, known.clone()));
        Ok(known)
    }

    /// The commit with this full id (or the one that a tag object with this id names), fetched if need be.
    pub(super) async fn commit(&self, repo: &Repository, id: &str) -> Result<Commit, GitError> {
        self.fetched(repo, id).await?;
        self.local_commit(id).await?.ok_or_else(|| GitError::no_revision(&super::display_url(&repo.url), id))
    }

    /// A shortened id is looked for in what is here, then in everything that the repository has.
    pub(super) async fn commit_by_prefix(&self, repo: &Repository, prefix: &str) -> Result<Commit, GitError> {
        self.ready().await?;
        if self.local_commit(prefix).await?.is_none() {
            let _fetching = self.fetching.lock().await;
            self.fetch_everything(repo).await?;
        }
        self.local_commit(prefix)
            .await?
            .ok_or_else(|| GitError::no_revision(&super::display_url(&repo.url), prefix))
    }

    /// Makes sure that the commit is here.
    pub(super) async fn fetched(&self, repo: &Repository, id: &str) -> Result<(), GitError> {
        self.ready().await?;
        if self.read(id).await?.is_some() {
            return Ok(());
        }
        let _fetching = self.fetching.lock().await;
        // Whoever held the lock before may have brought it.
        if self.read(id).await?.is_some() {
            return Ok(());
        }
        let output = self.fetch_one(repo, id, "--depth=1").await?;
        if output.success && self.read(id).await?.is_some() {
            return Ok(());
        }
        // Some servers give only what a branch or tag points at, or cannot cut history.
        match GitError::of_mirror(&repo.url, &output.stderr) {
            error @ GitError::Refused { .. } => Err(error),
            _ => self.fetch_everything(repo).await,
        }
    }

    /// Brings everything that a commit was made from.
    pub(super) async fn fetch_history(&self, repo: &Repository, id: &str) -> Result<(), GitError> {
        let _fetching = self.fetching.lock().await;
        if !self.place.folder.join("shallow").exists() {
            // Whoever held the lock before has brought it.
            return Ok(());
        }
        let output = self.fetch_one(repo, id, "--unshallow").await?;
        if output.success { Ok(()) } else { self.fetch_everything(repo).await }
    }

    /// One commit, which a reference of ours keeps.
    async fn fetch_one(&self, repo: &Repository, id: &str, depth: &str) -> Result<process::Output, GitError> {
        let keep = format!("+{id}:refs/slipway/{id}");
        let mut git = self.remote(repo).await?;
        git.command.args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"]);
        git.command.args(["--no-recurse-submodules", depth, "--", &repo.url, &keep]);
        self.run_fetch(&git, repo).await
    }

    async fn fetch_everything(&self, repo: &Repository) -> Result<(), GitError> {
        let mut git = self.remote(repo).await?;
        git.command.args(["fetch", "--quiet", "--no-write-fetch-head", "--no-recurse-submodules"]);
        if self.place.folder.join("shallow").exists() {
            git.command.arg("--unshallow");
        }
        git.command.args(["--", &repo.url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]);
        let output = self.run_fetch(&git, repo).await?;
        if output.success { Ok(()) } else { Err(GitError::of_mirror(&repo.url, &output.stderr)) }
    }

    async fn run_fetch(&self, git: &GitCommand, repo: &Repository) -> Result<process::Output, GitError> {
        let limits = process::Limits { deadline: self.options.limits.deadline, stdout_bytes: 1 << 20 };
        let packs = self.place.folder.join("objects/pack");
        let most = self.options.limits.mirror_bytes;
        self.remote_calls.fetch_add(1, Ordering::Relaxed);
        process::run(&git.command, &git.cage, "git", None, &limits, || folder_bytes(&packs) <= most)
            .await
            .map_err(|error| GitError::from_process(error, &repo.url, "read"))
    }

    pub(super) async fn known_commit(&self, id: &str) -> Result<Option<Commit>, GitError> {
        self.ready().await?;
        self.local_commit(id).await
    }

    async fn local_commit(&self, id: &str) -> Result<Option<Commit>, GitError> {
        // `^{commit}` follows tag objects.
        let Some(object) = self.read(&format!("{id}^{{commit}}")).await? else { return Ok(None) };
        parse_commit(&object.id, &object.data)
            .map(Some)
            .ok_or_else(|| GitError::Damaged { detail: format!("commit {} is unreadable", object.id) })
    }

    /// An object, if it is here.
    pub(super) async fn find(&self, id: &str) -> Result<Option<Object>, GitError> {
        self.ready().await?;
        self.read(id).await
    }

    /// An object that must be there.
    pub(super) async fn object(&self, id: &str) -> Result<Object, GitError> {
        self.ready().await?;
        self.read(id).await?.ok_or_else(|| GitError::Damaged { detail: format!("object {id} is missing") })
    }

    async fn read(&self, id: &str) -> Result<Option<Object>, GitError> {
        let mut place = self.batch.lock().await;
        // Taken out while in use: a caller that goes away in the middle must not leave half an answer behind.
        let mut batch = match place.take() {
            Some(batch) => batch,
            None => Batch::start(&self.place)?,
        };
        match batch.read(id, self.options.limits.blob_bytes).await {
            Ok(object) => {
                *place = Some(batch);
                Ok(object)
            }
            Err(GitError::Damaged { .. }) => {
                // The helper may have died with a damaged pack or by a hand; a fresh one gets one try.
                let mut batch = Batch::start(&self.place)?;
                let object = batch.read(id, self.options.limits.blob_bytes).await?;
                *place = Some(batch);
                Ok(object)
            }
            Err(error) => Err(error),
        }
    }

    async fn remote(&self, repo: &Repository) -> Result<GitCommand, GitError> {
        self.ready().await?;
        let opened = self.opened(repo).await?;
        command::remote(&self.place, &opened, &self.options)
    }

    /// The repository with a password that holds now.
    async fn opened(&self, repo: &Repository) -> Result<Repository, GitError> {
        let Some(tokens) = &repo.credentials.tokens else { return Ok(repo.clone()) };
        let mut token = self.token.lock().await;
        let holding = match token.take().filter(Token::holds) {
            Some(holding) => holding,
            None => tokens.token(repo).await.map_err(|detail| {
                let repo = super::display_url(&repo.url);
                GitError::Token { repo, detail }
            })?,
        };
        let credentials = Credentials {
            username: holding.username.clone(),
            password: Some(holding.password.clone()),
            bearer_token: None,
            ..(*repo.credentials).clone()
        };
        *token = Some(holding);
        Ok(Repository { url: repo.url.clone(), credentials: Arc::new(credentials) })
    }

    /// The file that a pointer stands for.
    pub(super) async fn large_file(
        &self,
        repo: &Repository,
        pointer: &lfs::Pointer,
    ) -> Result<Vec<u8>, GitError> {
        let opened = self.opened(repo).await?;
        // Beside the mirror and not in it: git may write there.
        let mut folder = self.place.folder.clone().into_os_string();
        folder.push(".lfs");
        let folder = PathBuf::from(folder);
        let limit = self.options.limits.blob_bytes;
        lfs::content(&self.http, repo, &opened.credentials, pointer, &folder, limit).await
    }

    /// Makes the bare repository, or clears what a killed process left in it.
    async fn ready(&self) -> Result<(), GitError> {
        self.ready.get_or_try_init(|| self.prepare()).await.copied()
    }

    async fn prepare(&self) -> Result<(), GitError> {
        let io = |source| GitError::io(&self.place.folder, source);
        if self.place.folder.join("HEAD").exists() && self.place.folder.join("objects").is_dir() {
            remove_left_locks(&self.place.folder).map_err(io)?;
            let cage = self.place.cage();
            return if cage.owns(&self.place.folder) {
                Ok(())
            } else {
                cage.give(&self.place.folder).map_err(io)
            };
        }
        if self.place.folder.exists() {
            std::fs::remove_dir_all(&self.place.folder).map_err(io)?;
        }
        crate::private::make_folder(&self.place.folder).map_err(io)?;
        let mut git = command::local(&self.place);
        git.cage = self.place.cage().write(&self.place.folder);
        git.cage.give(&self.place.folder).map_err(io)?;
        git.command.args(["init", "--quiet", "--bare", "--template="]).arg(&self.place.folder);
        let limits = process::Limits { deadline: Duration::from_secs(30), stdout_bytes: 64 << 10 };
        let output = process::run(&git.command, &git.cage, "git", None, &limits, || true)
            .await
            .map_err(|error| GitError::from_process(error, "the mirror", "prepare"))?;
        if output.success {
            Ok(())
        } else {
            Err(GitError::Damaged { detail: output.stderr.trim().to_owned() })
        }
    }
}

/// Lock files and half packs of a process that was killed. This process owns the folder, so nobody needs them.
fn remove_left_locks(folder: &Path) -> std::io::Result<()> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type()?.is_dir() {
                if name != "info" {
                    open.push(entry.path());
                }
            } else if name.ends_with(".lock") || name.starts_with("tmp_") || name.starts_with(".key-") {
                std::fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}
