//! The account's Git providers: from a context's name to calls that go out through [`crate::http::egress`], or by a runner inside
//! ([`crate::ci::errands`]).

use serde_json::Value;
use slipway_api::agent::{GitAccess, TriggerCommit};
use slipway_forge::remote::{Answer, Call, CallError, Provider};
use slipway_model::{AccountId, RepoEvent, Secret};
use slipway_store::hooks::Hook;
use slipway_store::{Scope, StoreError, Tx, contexts};

use crate::ci::errands::{self, Ask};
use crate::ctx::Server;
use crate::http::egress::EgressError;
use crate::http::error::ApiError;
use crate::seal::DataKey;

/// Of one list: 5,000 entries at the least. A provider that says "more" for ever is left.
const PAGES_MAX: usize = 100;

/// One provider with the account's credential for it.
pub(crate) struct Connection {
    pub(crate) provider: Provider,
    account: AccountId,
    /// It is asked by a runner, from inside.
    behind_firewall: bool,
    api: String,
    clone_base: Option<String>,
    user: Option<String>,
    token: Secret<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    #[error("there is no Git integration `{0}`")]
    Context(String),
    #[error("Git integration `{0}` has no provider address: set `auth.apiHost`")]
    Host(String),
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ProviderError {
    /// Nothing that a person would have to change first.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Call(error) => error.may_pass(),
            Self::Egress(error) => error.may_pass(),
            Self::Store(_) => true,
            _ => false,
        }
    }
}

impl From<ProviderError> for ApiError {
    fn from(error: ProviderError) -> Self {
        match error {
            ProviderError::Store(error) => error.into(),
            other => Self::bad_request(other.to_string()),
        }
    }
}

impl Connection {
    pub(crate) fn open(
        tx: &mut Tx<'_>,
        key: &DataKey,
        scope: Scope,
        name: &str,
    ) -> Result<Self, ProviderError> {
        let row = contexts::by_name(tx, scope, name)?.ok_or_else(|| ProviderError::Context(name.into()))?;
        let provider = Provider::of_context(&row.kind).ok_or_else(|| ProviderError::Context(name.into()))?;
        let data = crate::ci::contexts::opened(key, scope, &row);
        let text = |path: &str| data.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
        let host =
            text("/auth/apiHost").or_else(|| text("/apiHost")).or_else(|| text("/auth/host")).map(|host| {
                let host = host.trim_end_matches('/');
                if host.contains("://") { host.to_owned() } else { format!("https://{host}") }
            });
        let prefix = text("/auth/apiPathPrefix").or_else(|| text("/apiPathPrefix"));
        let api = match (&host, prefix) {
            (Some(host), Some(prefix)) => {
                Some(format!("{host}/{}", prefix.trim_matches('/')).trim_end_matches('/').to_owned())
            }
            _ => provider.api(host.as_deref()),
        };
        let token = text("/auth/password").or_else(|| text("/auth/token")).or_else(|| text("/password"));
        Ok(Self {
            provider,
            account: scope.account(),
            behind_firewall: crate::ci::contexts::is_behind_firewall(&row),
            api: api.ok_or_else(|| ProviderError::Host(name.into()))?,
            clone_base: provider.clone_base(host.as_deref()),
            user: text("/auth/username").map(str::to_owned),
            token: Secret::new(token.unwrap_or_default().to_owned()),
        })
    }

    /// Sends a call; how its answer is read is the provider's business.
    pub(crate) async fn send(&self, server: &Server, call: &Call) -> Result<Answer, ProviderError> {
        let (name, value) = self.provider.authorization(self.user.as_deref(), self.token.expose());
        let address = format!("{}{}", self.api, call.path);
        let (headers, body) = ([(name, value.as_str())], call.body.as_ref());
        let answer = match self.behind_firewall {
            true => {
                let ask = Ask { method: call.method, url: &address, headers: &headers, body };
                errands::ask(server, self.account, ask).await?
            }
            false => server.inner.egress.call(call.method, &address, &headers, body).await?,
        };
        Ok(Answer { status: answer.status, body: answer.body, link: answer.link })
    }

    /// A list, page by page; each answer is a page of it.
    pub(crate) async fn pages(&self, server: &Server, first: Call) -> Result<Vec<Answer>, ProviderError> {
        let (mut next, mut pages) = (Some(first), Vec::new());
        while let Some(call) = next.take().filter(|_| pages.len() < PAGES_MAX) {
            let answer = self.send(server, &call).await?;
            next = self.provider.next_page(&call, &answer);
            pages.push(answer);
        }
        if next.is_some() {
            tracing::warn!(
                pages = PAGES_MAX,
                "A Git provider's list is longer than the limit; ignoring the rest."
            );
        }
        Ok(pages)
    }

    /// Names of all branches with the commit each is at.
    pub(crate) async fn branches(
        &self,
        server: &Server,
        repo: &str,
    ) -> Result<Vec<(String, String)>, ProviderError> {
        let mut all = Vec::new();
        for page in self.pages(server, self.provider.branches(repo)).await? {
            all.extend(self.provider.read_branches(&page)?);
        }
        Ok(all)
    }

    /// For the runner, which clones with it.
    pub(crate) fn access(&self) -> Option<GitAccess> {
        Some(GitAccess {
            base_url: self.clone_base.clone()?,
            username: self.user.clone().unwrap_or_else(|| self.provider.clone_user().to_owned()),
            password: self.token.expose().clone(),
        })
    }
}

pub(crate) async fn connect(
    server: &Server,
    account: AccountId,
    context: &str,
) -> Result<Connection, ProviderError> {
    let key = server.data_key(account).await?;
    let name = context.to_owned();
    server.store().read(move |tx| Ok(Connection::open(tx, &key, Scope::of(account), &name))).await?
}

/// A commit of a repository: by its id, by a branch, or the head of the branch that is looked at first.
pub(crate) async fn commit(
    server: &Server,
    account: AccountId,
    context: &str,
    repo: &str,
    revision: Option<&str>,
) -> Result<TriggerCommit, ProviderError> {
    let connection = connect(server, account, context).await?;
    let provider = connection.provider;
    let mut branch = revision.unwrap_or_default().to_owned();
    let mut wanted = branch.clone();
    let branches = connection.branches(server, repo).await?;
    let by_name = |name: &str| branches.iter().find(|(known, _)| known == name);
    let found = match revision {
        Some(name) => by_name(name),
        None => by_name("main").or_else(|| by_name("master")).or_else(|| branches.first()),
    };
    if let Some((name, sha)) = found {
        (branch, wanted) = (name.clone(), sha.clone());
    }
    let answer = connection.send(server, &provider.commit(repo, &wanted)).await?;
    let info = provider.read_commit(&answer)?;
    Ok(TriggerCommit {
        repo: repo.to_owned(),
        branch,
        sha: info.sha,
        author: info.author,
        message: info.message,
        provider: provider.name().into(),
        url: info.url,
        ..TriggerCommit::default()
    })
}

/// Whether an announcement left something out that is needed.
pub(crate) fn is_incomplete(event: &RepoEvent, needs_files: bool) -> bool {
    let unknown_commit = event.sha.is_empty() && (event.comment.is_some() || event.release.is_some());
    unknown_commit || (needs_files && event.changed_paths.is_none())
}

/// What an announcement left out and a trigger needs is asked of the provider: a webhook is a hint.
pub(crate) async fn complete(
    server: &Server,
    account: AccountId,
    context: &str,
    event: &mut RepoEvent,
    needs_files: bool,
) -> Result<(), ProviderError> {
    if !is_incomplete(event, needs_files) {
        return Ok(());
    }
    let unknown_pull = event.comment.is_some() && event.sha.is_empty();
    let unknown_commit = event.sha.is_empty() && event.release.is_some();
    let unknown_files = needs_files && event.changed_paths.is_none();
    let connection = connect(server, account, context).await?;
    let provider = connection.provider;
    if unknown_pull {
        let number = event.pull_request.as_ref().map_or(0, |pull_request| pull_request.number);
        if let Some(call) = provider.pull_request(&event.repo, number) {
            let answer = connection.send(server, &call).await?;
            provider.read_pull_request(&answer, event)?;
        }
    } else if unknown_commit {
        let answer = connection.send(server, &provider.commit(&event.repo, &event.branch)).await?;
        event.sha = provider.read_commit(&answer)?.sha;
    }
    if unknown_files && let Some(call) = files_of(provider, event) {
        let mut files = Vec::new();
        for page in connection.pages(server, call).await? {
            files.extend(provider.read_changed_files(&page)?);
        }
        event.changed_paths = Some(files);
    }
    Ok(())
}

/// What says which files an event is about; nothing for a branch that is new.
fn files_of(provider: Provider, event: &RepoEvent) -> Option<Call> {
    if let Some(pull_request) = &event.pull_request {
        return Some(provider.pull_request_files(&event.repo, pull_request.number));
    }
    let (rest, after) = event.cause.strip_prefix("push:")?.rsplit_once(':')?;
    let (_, before) = rest.rsplit_once(':')?;
    let known = |sha: &str| sha.len() >= 7 && sha.chars().any(|digit| digit != '0');
    (known(before) && known(after)).then(|| provider.changed_files(&event.repo, before, after))
}

pub(crate) fn secret_place(account: AccountId, context: &str, repo: &str) -> String {
    format!("hook/{account}/{context}/{repo}")
}

/// A hook with a secret of its own, not registered anywhere yet.
pub(crate) fn new_hook(
    server: &Server,
    key: &DataKey,
    account: AccountId,
    context: &str,
    repo: &str,
) -> Hook {
    let secret = hex::encode(server.seams().random::<24>());
    Hook {
        id: server.seams().new_id(),
        account,
        context: context.to_owned(),
        repo: repo.to_owned(),
        secret: key.seal(server.seams(), &secret_place(account, context, repo), &secret),
        remote: None,
        problem: None,
        polled_ms: 0,
        heard_ms: None,
        created_ms: server.now_ms(),
    }
}

/// Where a provider sends its announcements.
pub(crate) fn hook_url(server: &Server, hook: &Hook) -> String {
    format!("{}/api/webhooks/git/{}", server.public_url(), hook.id)
}
