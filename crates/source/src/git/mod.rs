//! Git, made safe to point at strangers' repositories.
//!
//! In: an address, credentials, a revision. Out: commits, files, pushed commits, or a [`GitError`] that names the
//! repository and says what to do. Three uses stand on one ground: [`clone`](Git::clone_at) brings a working folder,
//! [`commit`](Git::commit_and_push) pushes a change of one, and [`GitCache`] mirrors repositories and reads them without
//! a checkout. The ground is `slipway_cage::git` (how a command is hardened), [`command`] (how it is run), one set of
//! [`Credentials`] and one error. The module knows no Git provider and no Application.
//!
//! Every call runs with an empty configuration (no system or user files, no hooks, no helpers, no
//! prompts), only the transport that its remote needs, and a deadline after which all of its processes are
//! killed. Credentials are bound to the remote's host; they are never part of an argument or of a file in the
//! repository.

mod authorities;
mod clone;
mod command;
mod commit;
mod credentials;
mod error;
pub(crate) mod mirror;
mod remote;

pub use authorities::authorities;
pub use clone::{Checkout, CloneOptions, CommitInfo};
pub use command::Git;
pub use commit::{Change, Identity, Pushed};
pub use credentials::{Credentials, Giving, Token, Tokens};
pub use error::GitError;
pub use mirror::{
    Commit, EntryKind, GitCache, GitLimits, GitOptions, Keyring, Repository, SignatureError, Since, Tree,
    TreeEntry,
};
pub use remote::{Remote, check_path, check_revision};

/// A commit's whole id.
pub(crate) fn is_full_sha(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}
