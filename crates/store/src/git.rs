//! Repositories of the built-in Git host, and which commit of each branch has been taken note of.

use std::collections::BTreeMap;

use slipway_model::{AccountId, ChangeKind, Fact, PushedCommit, RepoId};

use crate::{Row, Scope, StoreError, Tx, facts};

#[derive(Debug, Clone)]
pub struct Repo {
    pub id: RepoId,
    pub account: AccountId,
    pub name: String,
    pub default_branch: String,
}

#[derive(Debug, Clone)]
pub struct KnownRef {
    pub sha: String,
    pub author: String,
    pub message: String,
    pub pushed_ms: i64,
}

const REPO: &str = "SELECT id, account, name, default_branch FROM repos";

fn repo(row: &Row) -> Result<Repo, StoreError> {
    Ok(Repo { id: row.id(0)?, account: row.id(1)?, name: row.text(2)?, default_branch: row.text(3)? })
}

pub fn create(tx: &mut Tx<'_>, repo: &Repo, now_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO repos (id, account, name, default_branch, created_ms) VALUES ($1, $2, $3, $4, $5)",
        &[
            repo.id.into(),
            repo.account.into(),
            repo.name.as_str().into(),
            repo.default_branch.as_str().into(),
            now_ms.into(),
        ],
    )?;
    tx.changed(repo.account, ChangeKind::Repository, &repo.name);
    Ok(())
}

pub fn by_name(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<Repo>, StoreError> {
    tx.one(&format!("{REPO} WHERE account = $1 AND name = $2"), &[scope.account().into(), name.into()])?
        .as_ref()
        .map(repo)
        .transpose()
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Repo>, StoreError> {
    tx.all(&format!("{REPO} WHERE account = $1 ORDER BY name"), &[scope.account().into()])?
        .iter()
        .map(repo)
        .collect()
}

/// Of every account: for the sweep at start that finds pushes which a crash left unannounced.
pub fn list_everywhere(tx: &mut Tx<'_>) -> Result<Vec<Repo>, StoreError> {
    tx.all(&format!("{REPO} ORDER BY id"), &[])?.iter().map(repo).collect()
}

pub fn known_refs(tx: &mut Tx<'_>, repo: RepoId) -> Result<BTreeMap<String, KnownRef>, StoreError> {
    tx.all("SELECT name, sha, author, message, pushed_ms FROM repo_refs WHERE repo = $1", &[repo.into()])?
        .iter()
        .map(|row| {
            let known = KnownRef {
                sha: row.text(1)?,
                author: row.text(2)?,
                message: row.text(3)?,
                pushed_ms: row.int(4)?,
            };
            Ok((row.text(0)?, known))
        })
        .collect()
}

/// A reference that moved, as Git has it now.
#[derive(Debug, Clone)]
pub struct MovedRef {
    pub name: String,
    pub before: Option<String>,
    pub after: Option<PushedCommit>,
    pub changed_paths: Vec<String>,
}

/// Takes note of the moves and records one fact for each. A move that somebody noted first is passed over.
/// Without a pusher nothing is announced: the platform itself made the repository's first commit.
pub fn note_moves(
    tx: &mut Tx<'_>,
    repo: &Repo,
    clone_url: &str,
    pusher: Option<&str>,
    moves: Vec<MovedRef>,
    now_ms: i64,
) -> Result<usize, StoreError> {
    let known = known_refs(tx, repo.id)?;
    let mut noted = 0;
    for moved in moves {
        let before = known.get(&moved.name).map(|known| known.sha.clone());
        let after = moved.after.as_ref().map(|commit| commit.sha.clone());
        if before != moved.before || before == after {
            continue;
        }
        match &moved.after {
            Some(commit) => tx.execute(
                "INSERT INTO repo_refs (repo, name, sha, author, message, pushed_ms) VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (repo, name) DO UPDATE SET sha = excluded.sha, author = excluded.author, \
                 message = excluded.message, pushed_ms = excluded.pushed_ms",
                &[
                    repo.id.into(),
                    moved.name.as_str().into(),
                    commit.sha.as_str().into(),
                    commit.author.as_str().into(),
                    commit.message.as_str().into(),
                    now_ms.into(),
                ],
            )?,
            None => tx.execute(
                "DELETE FROM repo_refs WHERE repo = $1 AND name = $2",
                &[repo.id.into(), moved.name.as_str().into()],
            )?,
        };
        if let Some(pusher) = pusher {
            let fact = Fact::Pushed {
                account: repo.account,
                repo: repo.name.clone(),
                clone_url: clone_url.to_owned(),
                reference: moved.name,
                before: moved.before,
                after: moved.after,
                pusher: pusher.to_owned(),
                changed_paths: moved.changed_paths,
            };
            facts::note(tx, repo.account, &fact, now_ms)?;
        }
        tx.changed(repo.account, ChangeKind::Repository, &repo.name);
        noted += 1;
    }
    Ok(noted)
}
