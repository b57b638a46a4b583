//! Making a repository of the built-in Git host.

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use slipway_forge::builtin::check_name;
use slipway_store::git::{self, Repo};

/// The folder first, then the row: a repository that is listed can be pushed to.
pub(crate) async fn make(
    server: &Server,
    scope: slipway_store::Scope,
    name: &str,
    caller: Option<&Caller>,
) -> Result<Repo, ApiError> {
    check_name(name)?;
    let repo = Repo {
        id: server.seams().new_id(),
        account: scope.account(),
        name: name.to_owned(),
        default_branch: "main".into(),
    };
    let wanted = name.to_owned();
    if server.store().read(move |tx| git::by_name(tx, scope, &wanted)).await?.is_some() {
        return Err(ApiError::conflict(format!("repository `{name}` already exists")));
    }
    server.repository(repo.id).create(&repo.default_branch).await?;
    let (row, now_ms, caller) = (repo.clone(), server.now_ms(), caller.cloned());
    server
        .store()
        .write(move |tx| {
            git::create(tx, &row, now_ms)?;
            match &caller {
                Some(caller) => caller.trail.allowed(
                    tx,
                    &caller.actor(),
                    &Entry::new("create", "repository", row.id, &row.name),
                ),
                None => Ok(()),
            }
        })
        .await?;
    Ok(repo)
}
