//! Repositories at Git providers: their webhooks are registered, and what a webhook should have told is looked for.

use slipway_model::RepoEvent;
use slipway_store::StoreError;
use slipway_store::hooks::{self, Hook};

use crate::background::driver::{Outcome, Round, Turn};
use crate::background::lease::Lead;
use crate::ci::announcements::note;
use crate::ci::providers::{self, ProviderError};
use crate::ctx::Server;

const POLL_EVERY_MS: i64 = 120_000;
/// A provider that refuses is asked again after a while: somebody may have mended the token.
const AGAIN_MS: i64 = 60_000;
const AGAIN_SOON_MS: i64 = 10_000;

pub(crate) async fn round(turn: &Turn) -> Outcome {
    look(&turn.server, turn.lead()).await?;
    Ok(Round::Done)
}

async fn look(server: &Server, lead: &Lead) -> Result<(), StoreError> {
    let now_ms = server.now_ms();
    for hook in server.store().read(move |tx| hooks::unregistered(tx, now_ms)).await? {
        let outcome = register(server, &hook).await;
        let lead = lead.clone();
        server
            .store()
            .write(move |tx| {
                lead.checked(tx)?;
                match outcome {
                    Ok(remote) => hooks::registered(tx, hook.id, &remote),
                    Err(error) => {
                        let pause = if error.may_pass() { AGAIN_SOON_MS } else { AGAIN_MS };
                        hooks::failed(tx, hook.id, &error.to_string(), now_ms + pause)
                    }
                }
            })
            .await?;
    }
    for hook in server.store().read(move |tx| hooks::unpolled(tx, now_ms - POLL_EVERY_MS)).await? {
        if let Err(error) = poll(server, lead, &hook).await {
            tracing::debug!(%error, repo = hook.repo, "Cannot list the branches of a repository.");
            server.store().write(move |tx| hooks::polled(tx, hook.id, now_ms)).await?;
        }
    }
    Ok(())
}

/// A hook with our address that is there already was registered by one of us that died before it wrote that down.
async fn register(server: &Server, hook: &Hook) -> Result<String, ProviderError> {
    let connection = providers::connect(server, hook.account, &hook.context).await?;
    let (provider, url) = (connection.provider, providers::hook_url(server, hook));
    let mut known = None;
    for page in connection.pages(server, provider.hooks(&hook.repo)).await? {
        known = known.or(provider.find_hook(&page, &url)?);
    }
    if let Some(known) = known {
        return Ok(known);
    }
    let key = server.data_key(hook.account).await?;
    let place = providers::secret_place(hook.account, &hook.context, &hook.repo);
    let secret = key
        .unseal(&place, &hook.secret)
        .ok_or_else(|| StoreError::corrupt("cannot decrypt the secret of a webhook"))?;
    let answer = connection.send(server, &provider.register(&hook.repo, &url, secret.expose())).await?;
    Ok(provider.registered(&answer)?)
}

/// Branches that are elsewhere than was told become pushes. The first look only takes note.
async fn poll(server: &Server, lead: &Lead, hook: &Hook) -> Result<(), ProviderError> {
    let connection = providers::connect(server, hook.account, &hook.context).await?;
    let provider = connection.provider;
    let branches = connection.branches(server, &hook.repo).await?;
    let id = hook.id;
    let known = server.store().read(move |tx| hooks::refs(tx, id)).await?;
    let first = hook.polled_ms == 0 && known.is_empty();
    let mut missed = Vec::new();
    for (name, sha) in branches.iter().filter(|(name, sha)| known.get(name) != Some(sha)) {
        if first {
            continue;
        }
        let answer = connection.send(server, &provider.commit(&hook.repo, sha)).await?;
        let info = provider.read_commit(&answer)?;
        let before = known.get(name).cloned().unwrap_or_default();
        let mut events = vec!["push".to_owned(), "push.heads".to_owned()];
        if before.is_empty() {
            events.push("push.newBranch".to_owned());
        }
        missed.push(RepoEvent {
            provider: provider.name().into(),
            events,
            branch: name.clone(),
            sha: sha.clone(),
            author: info.author,
            message: info.message,
            url: info.url,
            // The same words as the announcement's, should it still come.
            cause: format!("push:refs/heads/{name}:{before}:{sha}"),
            ..RepoEvent::default()
        });
    }
    let (hook, lead, now_ms) = (hook.clone(), lead.clone(), server.now_ms());
    server
        .store()
        .write(move |tx| {
            lead.checked(tx)?;
            hooks::polled(tx, hook.id, now_ms)?;
            let now_known = hooks::refs(tx, hook.id)?;
            if first {
                for (name, sha) in branches.iter().filter(|(name, _)| !now_known.contains_key(name)) {
                    hooks::note_ref(tx, hook.id, name, Some(sha))?;
                }
            }
            for event in missed {
                // An announcement that came meanwhile said it first.
                if now_known.get(&event.branch) == known.get(&event.branch) {
                    note(tx, &hook, event, now_ms)?;
                }
            }
            Ok(())
        })
        .await?;
    Ok(())
}
