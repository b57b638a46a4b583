//! What changed, for one caller: in their account, of what they may see, for what their key is good.
//!
//! In: commits of every account. Out: kinds and ids, each decided as the list that shows it is decided. What is gone is
//! decided by what is still known of it. A change of anybody's rights makes the stream look again at whose it is.

use std::collections::VecDeque;

use futures::Stream;
use slipway_access::{Entity, Policy, Resource, Role, Verb, decide_on};
use slipway_model::{Change, ChangeKind, PipelineId};
use slipway_store::{Committed, StoreError, Tx, applications, builds, pipelines, projects};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::ctx::Server;
use crate::identity::access;
use crate::identity::auth::Caller;

/// Something changed; ask for it again.
pub(crate) enum News {
    /// So much happened that something may have gone unheard.
    Everything,
    One(Change),
}

struct Listening {
    server: Server,
    caller: Caller,
    commits: Receiver<Committed>,
    pending: VecDeque<News>,
}

/// From now on; ends when the caller's credential does.
pub(crate) fn of(server: Server, caller: Caller) -> impl Stream<Item = News> {
    let commits = server.store().subscribe();
    let listening = Listening { server, caller, commits, pending: VecDeque::new() };
    futures::stream::unfold(listening, next)
}

async fn next(mut listening: Listening) -> Option<(News, Listening)> {
    loop {
        if let Some(news) = listening.pending.pop_front() {
            return Some((news, listening));
        }
        let commit = match listening.commits.recv().await {
            Ok(commit) => commit,
            Err(RecvError::Lagged(_)) => Committed { missed: true, ..Committed::default() },
            Err(RecvError::Closed) => return None,
        };
        let rights = commit.changes.iter().any(|change| change.kind == ChangeKind::Access);
        if commit.missed || rights {
            listening.caller = listening.caller.still(&listening.server, Policy::Known).await?;
        }
        if commit.missed {
            listening.pending.push_back(News::Everything);
        }
        let heard = heard_by(&listening.server, &listening.caller, commit.changes).await;
        // A database that does not answer: they look again when it does.
        listening.pending.extend(heard.unwrap_or_else(|_| vec![News::Everything]));
    }
}

async fn heard_by(
    server: &Server,
    caller: &Caller,
    mut changes: Vec<Change>,
) -> Result<Vec<News>, StoreError> {
    let account = caller.principal.account;
    changes.retain(|change| change.is_of(account) && is_for(caller, change.kind));
    if !changes.is_empty() && caller.principal.role() != Some(Role::Administrator) {
        let asking = caller.clone();
        let visible = move |tx: &mut Tx<'_>| {
            let mut seen = Vec::new();
            for change in changes {
                if sees(tx, &asking, &change)? {
                    seen.push(change);
                }
            }
            Ok(seen)
        };
        changes = server.store().read(visible).await?;
    }
    Ok(changes.into_iter().map(News::One).collect())
}

/// Whether the caller's key is good for the lists that show such things.
fn is_for(caller: &Caller, kind: ChangeKind) -> bool {
    let resources: &[Resource] = match kind {
        ChangeKind::Build => &[Resource::Builds],
        ChangeKind::Pipeline => &[Resource::Pipelines],
        ChangeKind::Application => &[Resource::Gitops],
        ChangeKind::Runtime => &[Resource::Gitops, Resource::Agents],
        ChangeKind::Repository => &[Resource::Repos],
        // Followers of a log and open streams hear those, and pages do not.
        ChangeKind::Log | ChangeKind::Access => &[],
    };
    resources.iter().any(|resource| caller.principal.scopes.allow(*resource, Verb::Read))
}

fn sees(tx: &mut Tx<'_>, caller: &Caller, change: &Change) -> Result<bool, StoreError> {
    let scope = caller.scope();
    let may = |tx: &mut Tx<'_>, action: &str, entity: &Entity<'_>| -> Result<bool, StoreError> {
        let rules = access::rules_about(tx, caller, entity.kind)?;
        Ok(decide_on(&caller.principal, &rules, action, entity).allowed)
    };
    match change.kind {
        ChangeKind::Build => {
            let Ok(id) = change.id.parse() else { return Ok(false) };
            let build = builds::by_id(tx, scope, id)?;
            Ok(build.is_some_and(|build| reads_pipeline(tx, caller, build.pipeline)))
        }
        ChangeKind::Pipeline => {
            let id = change.id.parse().ok();
            let project = id.map(|id| projects::by_id(tx, scope, id)).transpose()?.flatten();
            if let Some(project) = project {
                return may(tx, "read", &crate::ci::projects::entity(&project));
            }
            let known = pipelines::by_name(tx, scope, &change.id)?;
            match known {
                Some(row) => Ok(reads_pipeline(tx, caller, row.id)),
                None => may(tx, "read", &Entity { kind: "pipeline", name: "(deleted)", ..Entity::default() }),
            }
        }
        ChangeKind::Application => {
            let mut parts = change.id.splitn(3, '/');
            let (Some(runtime), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next())
            else {
                return Ok(false);
            };
            let body = applications::one(tx, scope, runtime, namespace, name)?;
            match body.and_then(|body| serde_json::from_str(&body).ok()) {
                Some(app) => may(tx, "VIEW", &access::application_entity(&app)),
                None => may(tx, "VIEW", &access::unreported_application(runtime, namespace, name)),
            }
        }
        ChangeKind::Repository => may(tx, "read", &access::repository_entity(&change.id, None)),
        ChangeKind::Runtime => Ok(true),
        ChangeKind::Log | ChangeKind::Access => Ok(false),
    }
}

fn reads_pipeline(tx: &mut Tx<'_>, caller: &Caller, pipeline: PipelineId) -> bool {
    crate::ci::pipelines::require_by_id(tx, caller, pipeline, "read", "it").is_ok()
}
