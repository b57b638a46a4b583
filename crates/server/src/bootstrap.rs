//! The first start: an account, its administrator, keys for agents, and what a demo needs.

use std::collections::BTreeMap;

use slipway_api::pipeline::Pipeline;
use slipway_forge::builtin::SeedFile;
use slipway_model::{AccountId, Secret};
use slipway_store::identity::{self, Subject, User};
use slipway_store::{Scope, StoreError, Tx, data_keys, git, pipelines, projects, rules, sso};

use crate::ci::{git_host, push_rights};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::{self, Actor, Entry, Trail};
use crate::identity::{anchor, passwords, tokens};
use crate::seal::PLATFORM;
use crate::settings::AccountSettings;

/// What is shown once, on the first start.
pub struct FirstAdministrator {
    pub email: String,
    /// `None`: somebody chose it.
    pub password: Option<Secret<String>>,
    pub api_key: Secret<String>,
}

/// What members of a new account may do until somebody says otherwise: everything with pipelines and shared configuration.
const OPEN_AT_FIRST: [(&str, &[&str]); 6] = [
    ("pipeline", &["create"]),
    ("pipeline", &["read", "update", "delete", "run", "approve", "debug"]),
    ("project", &["create"]),
    ("project", &["read", "update", "delete"]),
    ("shared-configuration", &["read"]),
    ("git-context", &["use"]),
];

/// An account with its data key, its two teams that go by role, and the rules it starts with.
pub(crate) fn make_account(
    tx: &mut Tx<'_>,
    server: &Server,
    id: AccountId,
    name: &str,
) -> Result<(), StoreError> {
    identity::create_account(tx, id, name, server.now_ms())?;
    complete_account(tx, server, id)
}

fn complete_account(tx: &mut Tx<'_>, server: &Server, id: AccountId) -> Result<(), StoreError> {
    let (scope, now_ms) = (Scope::of(id), server.now_ms());
    server.keyring().ensure(tx, server.seams(), &id.to_string(), now_ms)?;
    if identity::team_by_name(tx, scope, identity::EVERYBODY)?.is_some() {
        return Ok(());
    }
    let team = |name: &str, kind: &str| identity::Team {
        id: server.seams().new_id(),
        name: name.into(),
        kind: kind.into(),
        source: "manual".into(),
        group: None,
        tags: Vec::new(),
        created_ms: now_ms,
    };
    let everybody = team(identity::EVERYBODY, "default");
    identity::create_team(tx, scope, &everybody)?;
    identity::create_team(tx, scope, &team(identity::ADMINISTRATORS, "admin"))?;
    for (kind, actions) in OPEN_AT_FIRST {
        let rule = rules::Rule {
            id: server.seams().new_id(),
            kind: kind.into(),
            teams: vec![everybody.id.to_string()],
            actions: actions.iter().map(|&action| action.to_owned()).collect(),
            related: None,
            tags: vec!["*".into()],
            tag_match: "any".into(),
            attributes: Vec::new(),
            created_ms: now_ms,
        };
        rules::create(tx, scope, &rule)?;
    }
    Ok(())
}

impl Server {
    /// Gives accounts of an older database what newer ones are made with, and ends a rotation that a crash left.
    async fn bring_up_to_date(&self) -> Result<(), ApiError> {
        let inner = self.clone();
        self.store()
            .write(move |tx| {
                let accounts = identity::accounts(tx)?;
                // Accounts without data keys: what they have sealed was sealed with the master key itself.
                if !accounts.is_empty() && data_keys::list(tx)?.is_empty() {
                    inner.keyring().keep_old(tx, inner.seams(), inner.now_ms())?;
                }
                inner.keyring().ensure(tx, inner.seams(), PLATFORM, inner.now_ms())?;
                accounts.iter().try_for_each(|account| complete_account(tx, &inner, account.id))?;
                push_rights::take_over(tx, &inner)?;
                for account in &accounts {
                    let waits = sso::list(tx, Scope::of(account.id))?.iter().any(crate::identity::sso::welcomes_all);
                    if waits && identity::domains_of(tx, Scope::of(account.id))?.is_empty() {
                        tracing::warn!(
                            account = account.name,
                            "This identity provider cannot create users until a platform administrator verifies a domain for it."
                        );
                    }
                }
                // Pipelines of before there were projects.
                for (account, name) in pipelines::names_everywhere(tx)? {
                    let project = crate::identity::access::project_of(&name);
                    projects::ensure(
                        tx,
                        Scope::of(account),
                        inner.seams().new_id(),
                        project,
                        inner.now_ms(),
                    )?;
                }
                Ok(())
            })
            .await?;
        if self.keyring().is_rotating() {
            tracing::warn!("A rotation of the master key was interrupted; completing it.");
            self.rotate_secrets(None).await?;
        }
        Ok(())
    }

    /// After a backup was put in place of `before` (chains and how far they went): every chain tells of it, and is
    /// anchored where it is now. Gives back what is wrong with the trail that came with the backup, which it tells too.
    pub async fn restored(&self, before: Vec<(String, i64)>, from: &str) -> Result<Vec<String>, ApiError> {
        self.bring_up_to_date().await?;
        let before: BTreeMap<String, i64> = before.into_iter().collect();
        let mut chains: Vec<String> = anchor::heads(self).await?.into_iter().map(|head| head.chain).collect();
        if !chains.iter().any(|chain| chain == PLATFORM) {
            chains.push(PLATFORM.into());
        }
        let mut wrong = Vec::new();
        for chain in chains {
            let found = trail::verify(self, &chain).await?;
            wrong.extend(found.problems.iter().map(|problem| format!("chain {chain}: {problem}")));
            let dropped = before.get(&chain).copied().unwrap_or_default() - found.records;
            let told = serde_json::json!({
                "records": found.records,
                // Not on the record any more: they came after the backup, or were of another trail.
                "recordsReplaced": before.get(&chain).copied().unwrap_or_default(),
                "recordsDropped": dropped.max(0),
                "problems": found.problems,
            });
            let entry = Entry::new("restore", "platform", "", from).after(told);
            let trail = Trail::new(self.clone(), String::new(), String::new(), String::new(), String::new());
            self.store()
                .write(move |tx| trail.record(tx, &Actor::operator(&chain), &entry, "allowed", 200))
                .await?;
        }
        let heads = anchor::heads(self).await?;
        let anchored = self.anchor().begin_anew(&heads);
        anchored.map_err(|error| ApiError::unavailable(format!("cannot write audit.anchor: {error}")))?;
        Ok(wrong)
    }

    /// A new master key for every data key; dying anywhere in here is repaired at the next start.
    pub(crate) async fn rotate_secrets(&self, caller: Option<&Caller>) -> Result<(usize, String), ApiError> {
        let failed =
            |error: std::io::Error| ApiError::unavailable(format!("cannot write the master key: {error}"));
        self.keyring().begin_rotation(self.seams()).map_err(failed)?;
        let (inner, caller) = (self.clone(), caller.cloned());
        let rewrapped = self
            .store()
            .write(move |tx| {
                let rewrapped = inner.keyring().rewrap_all(tx, inner.seams())?;
                if let Some(caller) = caller {
                    let entry = Entry::new("rotate", "master-key", "", "").after(rewrapped);
                    caller.trail.allowed(tx, &caller.actor().in_chain(PLATFORM), &entry)?;
                }
                Ok(rewrapped)
            })
            .await?;
        Ok((rewrapped, self.keyring().end_rotation().map_err(failed)?))
    }

    /// Makes the account and its administrator on an empty database; `None` when they are there already.
    pub async fn first_start(&self, email: &str) -> Result<Option<FirstAdministrator>, ApiError> {
        self.first_start_with(email, None).await
    }

    /// The same, with a password that somebody chose: it is not told again.
    pub async fn first_start_with(
        &self,
        email: &str,
        chosen: Option<Secret<String>>,
    ) -> Result<Option<FirstAdministrator>, ApiError> {
        self.bring_up_to_date().await?;
        if self.store().read(identity::first_account).await?.is_some() {
            return Ok(None);
        }
        let account: AccountId = self.seams().new_id();
        let password = match &chosen {
            Some(chosen) => {
                passwords::check_new_password(chosen.expose())?;
                chosen.expose().clone()
            }
            None => tokens::readable_password(self.seams()),
        };
        let password_hash = passwords::hash_of(self, password.clone()).await?;
        let user = User {
            id: self.seams().new_id(),
            email: email.to_owned(),
            name: email.split('@').next().unwrap_or("admin").to_owned(),
            password_hash,
            platform_admin: true,
            enabled: true,
            active_account: account,
            created_ms: self.now_ms(),
            last_login_ms: None,
        };
        let mut key = tokens::new_key(
            self.seams(),
            account,
            "first start",
            Subject::User,
            &user.id.to_string(),
            Vec::new(),
        );
        key.row.platform = true;
        let (row, inner) = (key.row, self.clone());
        self.store()
            .write(move |tx| {
                make_account(tx, &inner, account, "default")?;
                identity::create_user(tx, &user)?;
                let admin = slipway_access::Role::Administrator.as_str();
                identity::add_member(tx, Scope::of(account), user.id, admin, inner.now_ms())?;
                identity::create_key(tx, &row)
            })
            .await?;
        let password = chosen.is_none().then(|| password.into());
        Ok(Some(FirstAdministrator { email: email.to_owned(), password, api_key: key.text }))
    }

    pub async fn first_account(&self) -> Result<Option<AccountId>, ApiError> {
        Ok(self.store().read(identity::first_account).await?)
    }

    /// A new key for an agent; older ones of the same agent stop working.
    pub async fn agent_key(
        &self,
        account: AccountId,
        kind: Subject,
        name: &str,
    ) -> Result<Secret<String>, ApiError> {
        let key = tokens::new_key(self.seams(), account, name, kind, name, Vec::new());
        let (row, subject) = (key.row, name.to_owned());
        self.store()
            .write(move |tx| {
                identity::delete_keys_of(tx, Scope::of(account), kind, &subject)?;
                identity::create_key(tx, &row)
            })
            .await?;
        Ok(key.text)
    }

    /// Opens an account to passwords again, for the day its identity provider is gone. Whoever has the machine may.
    pub async fn allow_passwords(&self, account: &str) -> Result<(), ApiError> {
        let wanted = account.to_owned();
        let trail = Trail::new(self.clone(), String::new(), String::new(), String::new(), String::new());
        self.change(move |tx| {
            let account = crate::identity::accounts::find(tx, &wanted)?;
            let mut settings = AccountSettings::of(&account);
            settings.password_login = true;
            let text = serde_json::to_string(&settings).unwrap_or_default();
            identity::set_account_settings(tx, Scope::of(account.id), &text)?;
            let entry = Entry::new("allow-passwords", "account", account.id, &account.name);
            trail.record(tx, &Actor::operator(&account.id.to_string()), &entry, "allowed", 200)?;
            Ok(())
        })
        .await
    }

    /// Makes the repository with its first commit unless it is there.
    pub async fn seed_repository(
        &self,
        account: AccountId,
        name: &str,
        message: &str,
        files: &[SeedFile<'_>],
    ) -> Result<(), ApiError> {
        let (scope, wanted) = (Scope::of(account), name.to_owned());
        let known = self.store().read(move |tx| git::by_name(tx, scope, &wanted)).await?;
        let repo = match known {
            Some(repo) => repo,
            None => crate::ci::repositories::make(self, scope, name, None).await?,
        };
        let id = repo.id;
        if !self.store().read(move |tx| git::known_refs(tx, id)).await?.is_empty() {
            // Whatever Git has beyond what is known was pushed by somebody, and is announced as such.
            return Ok(());
        }
        self.repository(repo.id).seed(&repo.default_branch, "slipway", message, files).await?;
        git_host::take_note(self, &repo, None).await?;
        Ok(())
    }

    /// Makes the pipeline unless one of its name is there; a new one's builds may push to the repositories that are named.
    pub async fn seed_pipeline(
        &self,
        account: AccountId,
        pipeline: &Pipeline,
        pushes_to: &[&str],
    ) -> Result<(), ApiError> {
        let now_ms = self.now_ms();
        let row = pipelines::Pipeline {
            id: self.seams().new_id(),
            name: pipeline.metadata.name.clone(),
            body: serde_json::to_string(pipeline)
                .map_err(|error| ApiError::bad_request(error.to_string()))?,
            revision: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        };
        let scope = Scope::of(account);
        let project = self.seams().new_id();
        let (inner, repos) =
            (self.clone(), pushes_to.iter().map(|&repo| repo.to_owned()).collect::<Vec<_>>());
        self.store()
            .write(move |tx| match pipelines::by_name(tx, scope, &row.name)? {
                Some(_) => Ok(()),
                None => {
                    projects::ensure(
                        tx,
                        scope,
                        project,
                        crate::identity::access::project_of(&row.name),
                        now_ms,
                    )?;
                    for repo in &repos {
                        push_rights::allow(tx, &inner, account, &row.name, repo)?;
                    }
                    pipelines::create(tx, scope, &row, "slipway")
                }
            })
            .await?;
        Ok(())
    }
}
