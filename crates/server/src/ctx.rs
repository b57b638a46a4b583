//! What every handler is given: one value for the process, made once.

use std::path::PathBuf;
use std::sync::Arc;

use slipway_forge::builtin::Repository;
use slipway_model::RepoId;
use slipway_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::auth::Throttle;
use crate::git_host::Pushes;
use crate::seal::Sealer;
use crate::seams::Seams;

#[derive(Debug, Clone)]
pub struct Config {
    pub data: PathBuf,
    /// Where people, agents and `git` reach this server, without a slash at the end.
    pub public_url: String,
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
    pub(crate) sealer: Sealer,
    pub(crate) throttle: Throttle,
    pub(crate) pushes: Pushes,
    pub(crate) shutdown: CancellationToken,
}

impl Server {
    /// Opens the store and makes the folders. Nothing runs yet.
    pub fn open(config: Config, seams: Seams, shutdown: CancellationToken) -> Result<Self, StoreError> {
        let store = Store::open(&config.data)?;
        let sealer = Sealer::open(&config.data.join("master.key"), &seams)
            .map_err(|error| StoreError::corrupt(format!("master.key: {error}")))?;
        let (throttle, pushes) = (Throttle::default(), Pushes::default());
        let inner = Inner { config, store, seams, sealer, throttle, pushes, shutdown };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs until shutdown: what follows from facts, and a look for pushes that a crash left unannounced.
    pub async fn run(&self) {
        tokio::join!(crate::git_host::keep_sweeping(self), crate::triggers::run(self));
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
