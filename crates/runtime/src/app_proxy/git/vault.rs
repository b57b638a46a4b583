//! People's own Git tokens, in Secrets of the runtime's namespace: one for each person, by the id that the control plane
//! knows them by. They are read when they are used and kept nowhere else; no answer and no log holds one.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_api::git_proxy::GitAccount;
use slipway_cluster::{Cluster, ObjectKey, WriteOptions};
use slipway_gitops::compare::rfc3339;
use slipway_model::Secret;

use super::super::{Asker, Refusal};
use super::Place;

/// So many hosts one person has tokens for.
const TOKENS_MAX: usize = 20;
const TRIES: usize = 5;
/// Says what the Secret is, for people who find it.
const LABEL: &str = "slipway.io/git-tokens-of-a-person";

/// As it stands in the Secret.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// Compared when it is read: a Secret under another's name is nobody's.
    user: String,
    token: String,
    account: GitAccount,
    /// Of a sign-in; a personal token has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    renewable: Option<Renewable>,
}

/// What belongs to a token that came of a sign-in.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Renewable {
    /// Empty: the provider gave none.
    pub(super) refresh: String,
    pub(super) expires: Option<Timestamp>,
    /// The Secret of the application that it was given to.
    pub(super) app: String,
}

pub(super) struct Kept {
    pub(super) account: GitAccount,
    pub(super) token: Secret<String>,
    pub(super) renewable: Option<Renewable>,
}

pub(super) struct Vault<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) namespace: &'a str,
    pub(super) asker: &'a Asker,
}

impl Vault<'_> {
    fn key(&self) -> ObjectKey {
        let digest = hex::encode(Sha256::digest(self.asker.id.as_bytes()));
        ObjectKey::new("", "Secret", self.namespace, &format!("slipway-git-{}", &digest[..32]))
    }

    /// By place; what is not readable or another's is not there.
    async fn read(&self) -> Result<(Option<Value>, BTreeMap<String, Stored>), Refusal> {
        let Some(object) = self.cluster.read(&self.key()).await? else { return Ok((None, BTreeMap::new())) };
        let mut all = BTreeMap::new();
        for (name, value) in object["data"].as_object().into_iter().flatten() {
            let bytes = value.as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
            let stored = serde_json::from_slice::<Stored>(&bytes).ok();
            if let Some(stored) = stored.filter(|stored| stored.user == self.asker.id) {
                all.insert(name.clone(), stored);
            }
        }
        Ok((Some(object), all))
    }

    pub(super) async fn list(&self) -> Result<Vec<GitAccount>, Refusal> {
        let (_, all) = self.read().await?;
        let mut accounts: Vec<GitAccount> = all.into_values().map(|stored| stored.account).collect();
        accounts.sort_by(|a, b| (&a.provider, &a.host).cmp(&(&b.provider, &b.host)));
        Ok(accounts)
    }

    pub(super) async fn get(&self, place: &Place) -> Result<Kept, Refusal> {
        let (_, mut all) = self.read().await?;
        let stored = all.remove(&place.key()).ok_or_else(|| {
            let message = format!(
                "you have given this runtime no token for {place}: `slipway runtime git register` keeps one"
            );
            Refusal::new(StatusCode::CONFLICT, "NO_GIT_TOKEN", message)
        })?;
        let Stored { account, token, renewable, .. } = stored;
        Ok(Kept { account, token: Secret::new(token), renewable })
    }

    pub(super) async fn put(
        &self,
        place: &Place,
        token: &Secret<String>,
        renewable: Option<Renewable>,
        mut account: GitAccount,
    ) -> Result<GitAccount, Refusal> {
        account.registered = rfc3339(Timestamp::now());
        let kept = account.clone();
        self.change(|all| {
            let user = self.asker.id.clone();
            let (token, account) = (token.expose().clone(), account.clone());
            all.insert(place.key(), Stored { user, token, account, renewable: renewable.clone() });
            match all.len() <= TOKENS_MAX {
                true => Ok(true),
                false => Err(Refusal::new(
                    StatusCode::CONFLICT,
                    "TOO_MANY_TOKENS",
                    format!("this runtime keeps {TOKENS_MAX} tokens of yours: forget one first"),
                )),
            }
        })
        .await?;
        Ok(kept)
    }

    /// A token in the place of the one that was renewed with `old`. `false`: another is kept by now, or none, and that stays so.
    pub(super) async fn renew(
        &self,
        place: &Place,
        old: &Secret<String>,
        token: &Secret<String>,
        renewable: &Renewable,
    ) -> Result<bool, Refusal> {
        let is_that = |stored: &&mut Stored| {
            stored.renewable.as_ref().is_some_and(|kept| kept.refresh == *old.expose())
        };
        self.change(|all| {
            let Some(stored) = all.get_mut(&place.key()).filter(is_that) else { return Ok(false) };
            stored.token.clone_from(token.expose());
            stored.renewable = Some(renewable.clone());
            Ok(true)
        })
        .await
    }

    /// `false`: there was none.
    pub(super) async fn forget(&self, place: &Place) -> Result<bool, Refusal> {
        self.change(|all| Ok(all.remove(&place.key()).is_some())).await
    }

    /// Reads, changes and writes; again, when somebody else was faster.
    async fn change(
        &self,
        change: impl Fn(&mut BTreeMap<String, Stored>) -> Result<bool, Refusal>,
    ) -> Result<bool, Refusal> {
        for _ in 0..TRIES {
            let (before, mut all) = self.read().await?;
            if !change(&mut all)? {
                return Ok(false);
            }
            let data: BTreeMap<&String, String> = all
                .iter()
                .map(|(name, stored)| (name, STANDARD.encode(serde_json::to_vec(stored).unwrap_or_default())))
                .collect();
            let key = self.key();
            let mut object = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data,
                "metadata": {"name": key.name, "namespace": key.namespace, "labels": {LABEL: "true"}}});
            let written = match &before {
                Some(before) => {
                    object["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
                    self.cluster.replace(&object, WriteOptions::default()).await
                }
                None => self.cluster.create(&object, WriteOptions::default()).await,
            };
            match written {
                Ok(_) => return Ok(true),
                Err(error) if error.is_conflict() || error.already_exists() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refusal::new(StatusCode::CONFLICT, "CONFLICT", "your tokens changed meanwhile; try again"))
    }
}
