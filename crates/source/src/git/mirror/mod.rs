//! One bare mirror per repository (and credential), filled on demand, read without a checkout.
//!
//! In: an address, credentials, a revision as a person writes it. Out: the [`Commit`] it means now, and
//! the files of a commit. However many ask at once, a repository is asked once: a caller says since when an
//! answer is good ([`Since`]) and shares the first question that was put after that moment.
//! The mirror is a cache: it can be deleted at any time and is made again when it is damaged.

mod command;
mod history;
mod lfs;
mod objects;
mod refs;
mod repository;
mod signature;
pub(crate) mod tree;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use slipway_net::Rules;

pub use objects::Commit;
pub use signature::{Keyring, SignatureError};
pub use tree::{EntryKind, Tree, TreeEntry};

use super::credentials::Credentials;
use super::error::GitError;
use super::is_full_sha;
use repository::Mirror;

/// A repository as one caller may see it.
#[derive(Clone)]
pub struct Repository {
    pub url: String,
    pub credentials: Arc<Credentials>,
}

impl Repository {
    pub fn public(url: impl Into<String>) -> Self {
        Self { url: url.into(), credentials: Arc::new(Credentials::default()) }
    }
}

/// How fresh the answer to "where does this branch point" must be.
#[derive(Debug, Clone, Copy)]
pub enum Since {
    /// The repository must have been asked after this moment: a push was announced then.
    Asked(Instant),
    /// Whatever was heard within this time.
    Within(Duration),
}

impl Since {
    pub fn now() -> Self {
        Self::Asked(Instant::now())
    }

    pub(crate) fn threshold(self) -> Option<Instant> {
        match self {
            Self::Asked(instant) => Some(instant),
            Self::Within(age) => Instant::now().checked_sub(age),
        }
    }
}

#[derive(Debug, Clone)]
pub struct GitLimits {
    /// Every git command ends within this time.
    pub deadline: Duration,
    /// A mirror may have this many bytes.
    pub mirror_bytes: u64,
    /// One file that is read may have this many bytes.
    pub blob_bytes: usize,
    /// A folder that is read may hold this many files.
    pub tree_entries: usize,
}

impl Default for GitLimits {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(90),
            mirror_bytes: 4 << 30,
            blob_bytes: 32 << 20,
            tree_entries: 100_000,
        }
    }
}

#[derive(Debug, Clone)]
pub struct GitOptions {
    /// Allow `file://` and absolute paths. Whoever may write an Application may then read any repository
    /// that this process can read.
    pub allow_local: bool,
    /// Host keys for ssh, as in a `known_hosts` file; none: the first key seen is remembered.
    pub known_hosts: Option<String>,
    pub limits: GitLimits,
    /// Which addresses may be asked for large files. Where git itself goes is decided by whoever names repositories.
    pub egress: Rules,
}

impl Default for GitOptions {
    fn default() -> Self {
        Self {
            allow_local: false,
            known_hosts: None,
            limits: GitLimits::default(),
            egress: Rules::default().with_private(),
        }
    }
}

/// A chain of links longer than this is a loop.
const LINKS_MAX: usize = 8;

/// The mirrors of this process.
pub struct GitCache {
    folder: PathBuf,
    options: Arc<GitOptions>,
    mirrors: std::sync::Mutex<HashMap<String, Arc<Mirror>>>,
    signers: history::Known,
    /// Held as long as this cache lives: two processes in one folder would delete each other's locks.
    _lock: std::fs::File,
}

impl GitCache {
    /// Opens or makes the folder and takes it for this process.
    pub fn open(folder: impl AsRef<Path>, options: GitOptions) -> Result<Self, GitError> {
        // A caged program knows no current folder of ours.
        let folder =
            std::path::absolute(folder.as_ref()).map_err(|source| GitError::io(folder.as_ref(), source))?;
        let io = |source| GitError::io(&folder, source);
        crate::private::make_folder(&folder).map_err(io)?;
        let lock = std::fs::File::create(folder.join(".lock")).map_err(io)?;
        // A child that is just being started holds its parent's files for a moment, and a process that is
        // just ending too.
        let mut tries = 0;
        while lock.try_lock().is_err() {
            tries += 1;
            if tries > 20 {
                return Err(GitError::FolderInUse { folder: folder.display().to_string() });
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let keys = folder.join(command::KEYS);
        if keys.exists() {
            std::fs::remove_dir_all(&keys).map_err(io)?;
        }
        Ok(Self {
            folder,
            options: Arc::new(options),
            mirrors: Default::default(),
            signers: Default::default(),
            _lock: lock,
        })
    }

    /// What `revision` means: "" and `HEAD`, a branch, a tag, a full ref, a commit id, a version range over tags.
    pub async fn resolve(&self, repo: &Repository, revision: &str, since: Since) -> Result<Commit, GitError> {
        refs::check_revision(revision)?;
        let mirror = self.mirror(repo)?;
        if is_full_sha(revision) {
            return mirror.commit(repo, &revision.to_ascii_lowercase()).await;
        }
        let table = mirror.references(repo, since.threshold()).await?;
        match table.resolve(revision) {
            Some(id) => mirror.commit(repo, &id).await,
            None if refs::is_short_id(revision) => mirror.commit_by_prefix(repo, revision).await,
            None => Err(GitError::RevisionNotFound {
                revision: revision.to_owned(),
                repo: display_url(&repo.url),
                known: table.some_branches(),
            }),
        }
    }

    /// The commit with this full id if it is here already; nothing is asked of the repository.
    pub async fn known(&self, repo: &Repository, id: &str) -> Result<Option<Commit>, GitError> {
        if !is_full_sha(id) {
            return Ok(None);
        }
        self.mirror(repo)?.known_commit(id).await
    }

    /// The files in `path` ("" is the root) at a commit that [`Self::resolve`] gave, and with `recurse` those
    /// of the folders below it.
    pub async fn tree(
        &self,
        repo: &Repository,
        commit: &Commit,
        path: &str,
        recurse: bool,
    ) -> Result<Tree, GitError> {
        let mirror = self.mirror(repo)?;
        mirror.fetched(repo, &commit.sha).await?;
        tree::read(&mirror, &commit.tree, path, recurse, self.options.limits.tree_entries).await
    }

    /// The id of the folder or file at `path`, which changes exactly when its content does; `None`: not there.
    pub async fn content_id(
        &self,
        repo: &Repository,
        commit: &Commit,
        path: &str,
    ) -> Result<Option<String>, GitError> {
        Ok(self.entry(repo, commit, path).await?.map(|entry| entry.id))
    }

    /// What is at `path`; `None`: nothing. A link is given as a link.
    pub async fn entry(
        &self,
        repo: &Repository,
        commit: &Commit,
        path: &str,
    ) -> Result<Option<TreeEntry>, GitError> {
        let mirror = self.mirror(repo)?;
        mirror.fetched(repo, &commit.sha).await?;
        tree::lookup(&mirror, &commit.tree, path).await
    }

    /// The file at `path`, links followed inside the repository; `None`: no such file.
    pub async fn file(
        &self,
        repo: &Repository,
        commit: &Commit,
        path: &str,
    ) -> Result<Option<Vec<u8>>, GitError> {
        let mut at = tree::parts(path)?.join("/");
        for _ in 0..LINKS_MAX {
            match self.entry(repo, commit, &at).await? {
                Some(entry) if matches!(entry.kind, EntryKind::File | EntryKind::Executable) => {
                    return self.blob(repo, &entry.id).await.map(Some);
                }
                Some(entry) if entry.kind == EntryKind::Link => {
                    let target = self.blob(repo, &entry.id).await?;
                    at = tree::link_target(&at, &String::from_utf8_lossy(&target))?;
                }
                _ => return Ok(None),
            }
        }
        Err(GitError::LinkEscapes { path: path.to_owned() })
    }

    /// The fingerprints of the key that signed a commit, if its signature is good. Where one of the names by which the
    /// commit is wanted is an annotated tag of it, the tag has to be signed: whoever tags a commit vouches for it.
    pub async fn signer(
        &self,
        repo: &Repository,
        commit: &Commit,
        names: &[&str],
        keys: &Keyring,
    ) -> Result<Vec<String>, GitError> {
        let mirror = self.mirror(repo)?;
        let table = mirror.references(repo, None).await?;
        let means = |name: &&str| table.resolve(name).as_ref() == Some(&commit.sha);
        let tag = names.iter().copied().filter(means).find_map(|name| table.tag_object(name));
        if let Some(tag) = tag {
            mirror.fetched(repo, tag).await?;
            let object = mirror.object(tag).await?;
            return Ok(signature::tag_signer(&commit.sha, &object.data, keys).await?);
        }
        mirror.fetched(repo, &commit.sha).await?;
        let object = mirror.object(&commit.sha).await?;
        Ok(signature::signer(&commit.sha, &object.data, keys).await?)
    }

    /// One file by its id.
    pub async fn blob(&self, repo: &Repository, id: &str) -> Result<Vec<u8>, GitError> {
        let object = self.mirror(repo)?.object(id).await?;
        if object.kind != "blob" {
            return Err(GitError::Damaged {
                detail: format!("object {id} is a {}, not a file", object.kind),
            });
        }
        match lfs::Pointer::parse(&object.data).filter(|_| repo.credentials.lfs) {
            Some(pointer) => self.mirror(repo)?.large_file(repo, &pointer).await,
            None => Ok(object.data),
        }
    }

    /// Ends helper processes that have not been used for a while; call it now and then.
    pub async fn trim(&self, idle: Duration) {
        let mirrors: Vec<_> = self.mirrors.lock().expect("no panic while locked").values().cloned().collect();
        for mirror in mirrors {
            mirror.trim(idle).await;
        }
    }

    /// How many times repositories were asked or fetched from, since the start.
    pub fn remote_calls(&self) -> u64 {
        let mirrors = self.mirrors.lock().expect("no panic while locked");
        mirrors.values().map(|mirror| mirror.remote_calls()).sum()
    }

    fn mirror(&self, repo: &Repository) -> Result<Arc<Mirror>, GitError> {
        crate::repo_url::check_repo_url(&repo.url, self.options.allow_local)
            .map_err(|why| GitError::BadUrl { url: display_url(&repo.url), why: why.to_string() })?;
        let key = mirror_key(repo);
        let mut mirrors = self.mirrors.lock().expect("no panic while locked");
        Ok(mirrors
            .entry(key.clone())
            .or_insert_with(|| Arc::new(Mirror::new(self.folder.join(&key), &repo.url, self.options.clone())))
            .clone())
    }
}

/// Repository and credential, each with its length first: whoever has no access must not find another's mirror.
fn mirror_key(repo: &Repository) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in [repo.url.as_str(), &repo.credentials.fingerprint()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(&hash.finalize()[..16])
}

pub(super) fn display_url(url: &str) -> String {
    crate::repo_url::without_userinfo(url)
}
