//! What every handler is given: one value for the process, made once.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use slipway_forge::builtin::Repository;
use slipway_model::{AccountId, RepoId};
use slipway_store::{Store, StoreError, Tx};
use tokio_util::sync::CancellationToken;

use crate::anchor::Anchors;
use crate::auth::UsedKeys;
use crate::egress::{Egress, EgressRules};
use crate::error::ApiError;
use crate::git_host::Pushes;
use crate::metrics::Metrics;
use crate::seal::{DataKey, Keyring};
use crate::seams::Seams;

#[derive(Debug, Clone)]
pub struct Config {
    pub data: PathBuf,
    /// Where people, agents and `git` reach this server, without a slash at the end.
    pub public_url: String,
    pub network: Network,
}

/// Whom the server believes and whom it may call.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Addresses of proxies whose `X-Forwarded-For` is believed. Nobody's by default.
    pub trusted_proxies: Vec<std::net::IpAddr>,
    /// Hosts and networks inside that the server may call although they are private (an identity provider, say).
    pub egress_allowed: EgressRules,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) seams: Seams,
    pub(crate) keyring: Keyring,
    pub(crate) anchors: Anchors,
    pub(crate) used: UsedKeys,
    pub(crate) egress: Egress,
    pub(crate) metrics: Metrics,
    pub(crate) pushes: Pushes,
    pub(crate) shutdown: CancellationToken,
}

impl Server {
    /// Opens the store and makes the folders. Nothing runs yet.
    pub fn open(config: Config, seams: Seams, shutdown: CancellationToken) -> Result<Self, StoreError> {
        let store = Store::open(&config.data)?;
        let keyring = Keyring::open(&config.data.join("master.key"), &seams)
            .map_err(|error| StoreError::corrupt(format!("master.key: {error}")))?;
        let anchors = Anchors::at(config.data.join("audit.anchor"));
        let egress = Egress::new(config.network.egress_allowed.clone());
        let (used, metrics, pushes) = (UsedKeys::default(), Metrics::default(), Pushes::default());
        let inner = Inner { config, store, seams, keyring, anchors, used, egress, metrics, pushes, shutdown };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs until shutdown: what follows from facts, and a look for pushes that a crash left unannounced.
    pub async fn run(&self) {
        tokio::join!(
            crate::git_host::keep_sweeping(self),
            crate::triggers::run(self),
            crate::anchor::keep_anchoring(self),
            crate::housekeeping::run(self),
        );
    }

    /// Answers what is queued, then lets go of the database.
    pub fn close(&self) {
        self.inner.store.close();
    }

    pub fn public_url(&self) -> &str {
        &self.inner.config.public_url
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    /// A change that may be refused on the way: then nothing of it stays.
    pub(crate) async fn change<T, F>(&self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        let refused = Arc::new(Mutex::new(None));
        let slot = refused.clone();
        let done = self.store().write(move |tx| {
            work(tx).map_err(|error| {
                *slot.lock().expect("not poisoned") = Some(error);
                StoreError::Conflict { what: "the change".into() }
            })
        });
        let done = done.await;
        match refused.lock().expect("not poisoned").take() {
            Some(refusal) => Err(refusal),
            None => Ok(done?),
        }
    }

    /// A look at a snapshot that may end in a refusal.
    pub(crate) async fn look<T, F>(&self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        self.store().read(move |tx| Ok(work(tx))).await?
    }

    pub(crate) fn keyring(&self) -> &Keyring {
        &self.inner.keyring
    }

    pub(crate) fn anchor(&self) -> &Anchors {
        &self.inner.anchors
    }

    /// The account's key, for sealing and unsealing outside a transaction.
    pub(crate) async fn data_key(&self, account: AccountId) -> Result<Arc<DataKey>, StoreError> {
        if let Some(known) = self.inner.keyring.known(&account.to_string()) {
            return Ok(known);
        }
        let server = self.clone();
        self.store().read(move |tx| server.keyring().account(tx, account)).await
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.inner.seams.now_ms()
    }

    pub(crate) fn seams(&self) -> &Seams {
        &self.inner.seams
    }

    pub(crate) fn repository(&self, id: RepoId) -> Repository {
        Repository::at(self.inner.config.data.join("repos").join(format!("{id}.git")))
    }

    pub(crate) fn clone_url(&self, name: &str) -> String {
        format!("{}/git/{name}.git", self.inner.config.public_url)
    }
}
