//! The first start: an account, its administrator, keys for agents, and what a demo needs.

use slipway_api::pipeline::Pipeline;
use slipway_forge::builtin::SeedFile;
use slipway_model::{AccountId, Secret};
use slipway_store::identity::{self, Subject, User};
use slipway_store::{Scope, git, pipelines};

use crate::ctx::Server;
use crate::error::ApiError;
use crate::{git_host, rest, tokens};

/// What is shown once, on the first start.
pub struct FirstAdministrator {
    pub email: String,
    pub password: Secret<String>,
    pub api_key: Secret<String>,
}

impl Server {
    /// Makes the account and its administrator on an empty database; `None` when they are there already.
    pub async fn first_start(&self, email: &str) -> Result<Option<FirstAdministrator>, ApiError> {
        if self.store().read(identity::first_account).await?.is_some() {
            return Ok(None);
        }
        let account: AccountId = self.seams().new_id();
        let password = tokens::readable_password(self.seams());
        let (seams, plain) = (self.seams().clone(), password.clone());
        let password_hash = tokio::task::spawn_blocking(move || tokens::hash_password(&seams, &plain))
            .await
            .map_err(|_| ApiError::unavailable("the server is shutting down"))?;
        let user = User {
            id: self.seams().new_id(),
            account,
            account_name: "default".into(),
            email: email.to_owned(),
            name: email.split('@').next().unwrap_or("admin").to_owned(),
            password_hash,
            role: slipway_access::Role::Administrator.as_str().into(),
        };
        let key = tokens::new_key(
            self.seams(),
            account,
            "first start",
            Subject::User,
            &user.id.to_string(),
            Vec::new(),
        );
        let (row, now_ms) = (key.row, self.now_ms());
        self.store()
            .write(move |tx| {
                identity::create_account(tx, account, &user.account_name, now_ms)?;
                identity::create_user(tx, &user, now_ms)?;
                identity::create_key(tx, &row)
            })
            .await?;
        Ok(Some(FirstAdministrator { email: email.to_owned(), password: password.into(), api_key: key.text }))
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
                identity::delete_keys_of(tx, kind, &subject)?;
                identity::create_key(tx, &row)
            })
            .await?;
        Ok(key.text)
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
            None => rest::repos::make(self, scope, name).await?,
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

    /// Makes the pipeline unless one of its name is there.
    pub async fn seed_pipeline(&self, account: AccountId, pipeline: &Pipeline) -> Result<(), ApiError> {
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
        self.store()
            .write(move |tx| match pipelines::by_name(tx, scope, &row.name)? {
                Some(_) => Ok(()),
                None => pipelines::create(tx, scope, &row),
            })
            .await?;
        Ok(())
    }
}
