//! What every handler is given: one value for the process, made once.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use slipway_bus::{Bus, BusError, BusUrl, Holders, Live, LiveUrl, Queue};
use slipway_forge::builtin::Repository;
use slipway_model::{AccountId, RepoId};
use slipway_store::{Ask, Database, DatabaseUrl, Store, StoreError, Tx};
use tokio_util::sync::CancellationToken;

use crate::agents::flood::Floods;
use crate::agents::heard::Heard;
use crate::agents::polls::Polls;
use crate::background::status::Jobs;
use crate::background::{driver, housekeeping, tasks};
use crate::ci::git_host::Pushes;
use crate::ci::log_views::Views;
use crate::ci::shells::Shells;
use crate::facts::consuming::Consumer;
use crate::gitops::peers::Peers;
use crate::gitops::tunnels::Tunnels;
use crate::http::egress::{Egress, EgressRules};
use crate::http::error::ApiError;
use crate::http::metrics::Metrics;
use crate::http::roles::Roles;
use crate::identity::anchor::Anchors;
use crate::identity::auth::UsedKeys;
use crate::seal::{DataKey, Keyring};
use crate::seams::Seams;

#[derive(Debug, Clone)]
pub struct Config {
    /// Repositories and the key that seals secrets. Processes of one platform share it.
    pub data: PathBuf,
    /// Where people, agents and `git` reach this server, without a slash at the end.
    pub public_url: String,
    pub network: Network,
}

/// Whom the server believes, whom it may call, and what it sends to agents.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Addresses of proxies whose `X-Forwarded-For` is believed. Nobody's by default.
    pub trusted_proxies: Vec<std::net::IpAddr>,
    /// Hosts and networks inside that the server may call although they are private (an identity provider, say).
    pub egress_allowed: EgressRules,
    /// The server opens no connection to anybody; what it stands on aside.
    pub egress_none: bool,
    /// After so much silence the builds of a runner go to others; [`Network::RUNNER_SILENCE_SECONDS`] when absent.
    pub runner_silence_seconds: Option<u32>,
    /// Below it every tunnel of a runtime has a host of its own; none: tunnels are paths of the platform's address.
    pub tunnel_domain: Option<String>,
    /// Where other processes of the platform reach this one (`http://HOST:PORT`), for requests through tunnels that it holds;
    /// none: they cannot.
    pub peer_url: Option<String>,
    /// What runs in the pods that agents of the published runner make; [`Network::RUNNER_IMAGE`] when absent.
    pub runner_image: Option<String>,
    /// A file or an address that says which releases there are; none: nobody hears of updates.
    pub release_feed: Option<String>,
}

impl Network {
    /// A runner that cannot reach us for half an hour goes on with what it has and tells us later.
    pub const RUNNER_SILENCE_SECONDS: u32 = 40 * 60;
    /// Has the slipway binary and git.
    pub const RUNNER_IMAGE: &str = concat!("ghcr.io/slipway/slipway:", env!("CARGO_PKG_VERSION"));
}

/// What this process stands on, and what it does.
#[derive(Debug, Clone)]
pub struct Parts {
    pub database: DatabaseUrl,
    pub bus: BusUrl,
    pub cache: LiveUrl,
    pub roles: Roles,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(
        "{which} works within one process, but the database is PostgreSQL, which several may share: give {flag} an address"
    )]
    Lonely { which: &'static str, flag: &'static str },
}

/// How processes hear of each other, and what this one is called among them.
struct Between {
    bus: Bus,
    live: Live,
    holder: String,
    holders: Holders,
}

impl Between {
    /// SQLite has one process, which takes up its own leases at once after a crash.
    const ONLY: &str = "the only process";

    fn in_process() -> Self {
        Self {
            bus: Bus::in_process(&QUEUES),
            live: Live::in_process(),
            holder: Self::ONLY.to_owned(),
            holders: Holders::in_process(),
        }
    }
}

/// Who consumes from the bus.
pub(crate) const QUEUES: [Queue<'static>; 2] =
    [crate::ci::triggers::Triggers::QUEUE, crate::ci::notifications::Notifications::QUEUE];

/// Cheap to clone.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) bus: Bus,
    pub(crate) live: Live,
    pub(crate) roles: Roles,
    /// This process among those that share the database.
    pub(crate) holder: String,
    pub(crate) seams: Seams,
    pub(crate) keyring: Keyring,
    pub(crate) anchors: Anchors,
    pub(crate) used: UsedKeys,
    pub(crate) egress: Egress,
    pub(crate) metrics: Metrics,
    pub(crate) pushes: Pushes,
    pub(crate) floods: Floods,
    pub(crate) polls: Polls,
    pub(crate) heard: Heard,
    pub(crate) shells: Shells,
    pub(crate) tunnels: Tunnels,
    pub(crate) peers: Peers,
    pub(crate) views: Views,
    pub(crate) jobs: Jobs,
    pub(crate) releases: crate::http::releases::Releases,
    /// One look at the database at a time for whoever asks whether this process is ready.
    pub(crate) probe: Arc<tokio::sync::Mutex<()>>,
    pub(crate) shutdown: CancellationToken,
}

impl Server {
    /// Everything in this process: SQLite in the data folder, an in-process bus, every role. Nothing runs yet.
    pub fn open(config: Config, seams: Seams, shutdown: CancellationToken) -> Result<Self, StoreError> {
        let store = Store::open(&config.data)?;
        let between = Between::in_process();
        Self::assemble(config, store, between, Roles::all(), seams, shutdown)
    }

    /// One of the processes of a platform. Settings that could lose what was acknowledged are refused here.
    pub async fn connect(
        config: Config,
        parts: Parts,
        seams: Seams,
        shutdown: CancellationToken,
    ) -> Result<Self, StartError> {
        let store = Store::connect(&parts.database)?;
        if store.database() == Database::Postgres && matches!(parts.bus, BusUrl::InProcess) {
            return Err(StartError::Lonely { which: "the in-process bus", flag: "--bus" });
        }
        if store.database() == Database::Postgres && matches!(parts.cache, LiveUrl::InProcess) {
            return Err(StartError::Lonely { which: "the in-process cache", flag: "--cache" });
        }
        let bus = Bus::connect(&parts.bus, &QUEUES).await?;
        let live = Live::connect(&parts.cache).await?;
        let holder = match store.database() {
            Database::Sqlite => Between::ONLY.to_owned(),
            Database::Postgres => format!("{}-{}", std::process::id(), hex::encode(seams.random::<6>())),
        };
        let address = config.network.peer_url.as_deref().unwrap_or_default();
        let holders = Holders::new(&parts.cache, &holder, address)?;
        let between = Between { bus, live, holder, holders };
        Ok(Self::assemble(config, store, between, parts.roles, seams, shutdown)?)
    }

    /// On a store that is open already, with everything else in this process. Nothing runs yet.
    pub fn beside(
        config: Config,
        store: Store,
        seams: Seams,
        shutdown: CancellationToken,
    ) -> Result<Self, StoreError> {
        let between = Between::in_process();
        Self::assemble(config, store, between, Roles::all(), seams, shutdown)
    }

    fn assemble(
        config: Config,
        store: Store,
        between: Between,
        roles: Roles,
        seams: Seams,
        shutdown: CancellationToken,
    ) -> Result<Self, StoreError> {
        let keyring = Keyring::open(&config.data.join("master.key"), &seams, &store)?;
        let Between { bus, live, mut holder, holders } = between;
        // Tests open one store of PostgreSQL for several servers.
        if holder == Between::ONLY && store.database() == Database::Postgres {
            holder = format!("{}-{}", std::process::id(), hex::encode(seams.random::<6>()));
        }
        let anchors = Anchors::at(config.data.join("audit.anchor"));
        let egress = Egress::new(config.network.egress_allowed.clone(), config.network.egress_none);
        let (used, metrics, pushes) = (UsedKeys::default(), Metrics::default(), Pushes::default());
        let inner = Inner {
            config,
            store,
            bus,
            live,
            roles,
            holder,
            seams,
            keyring,
            anchors,
            used,
            egress,
            metrics,
            pushes,
            floods: Floods::default(),
            polls: Polls::default(),
            heard: Heard::default(),
            shells: Shells::default(),
            tunnels: Tunnels::default(),
            peers: Peers::new(holders),
            views: Views::default(),
            jobs: Jobs::default(),
            releases: crate::http::releases::Releases::default(),
            probe: Arc::default(),
            shutdown,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs until shutdown: what this process's roles do in the background.
    pub async fn run(&self) {
        driver::run(self, &tasks::TASKS).await;
    }

    /// After the last request was answered, before [`Self::close`]: what the requests left to be noted.
    pub async fn finish(&self) {
        if let Err(error) = self.inner.peers.holders.leave().await {
            tracing::debug!(%error, "Other processes notice by themselves that this one is gone.");
        }
        if let Err(error) = housekeeping::note_used_keys(self).await {
            tracing::warn!(error = error.0, "Cannot record when API keys were last used.");
        }
        if let Err(error) = crate::identity::anchor::anchor_all(self).await {
            tracing::warn!(%error, "Cannot write the latest anchor of the audit log.");
        }
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
        self.change_asking(Vec::new(), work).await
    }

    /// The same of one whose first questions are known before: see [`Store::write_asking`].
    pub(crate) async fn change_asking<T, F>(&self, asks: Vec<Ask>, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        let refused = Arc::new(Mutex::new(None));
        let slot = refused.clone();
        let done = self.store().write_asking(asks, move |tx| {
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
