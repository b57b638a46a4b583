//! Room `runner`: an agent that takes builds from the control plane, runs them and streams their logs.
//!
//! In: builds from the server's agent API, which it dials; pipelines from Git. Out: steps run in
//! containers or sandboxed processes, reports, masked logs. It decides nothing about which step runs
//! when (that is room `pipeline`), and the server never sees its files.
//!
//! Killing it is harmless at any moment. Every build has a journal that is written before anything is
//! done; every attempt of a step has a supervisor process of its own (see [`shim`]) that goes on
//! without the runner and starts its command at most once; logs are masked into files, from which the
//! server gets them by offset.

mod agent;
mod attempt;
mod build;
mod cache;
mod dockerfile;
mod errands;
mod executor;
mod journal;
mod junit;
mod layout;
mod logs;
mod mask;
mod registration;
mod shell;
pub mod shim;
pub mod signing;
mod sweep;
mod task;
mod tree;
mod trust;
mod uplink;
mod variables;
mod within;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use nix::fcntl::{Flock, FlockArg};
use slipway_api::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use executor::{Detected, ExecutorChoice, KubernetesConfig, Storage, detect};
pub use registration::registered;

/// Unless [`Config::cache_bytes_max`] says otherwise.
pub const CACHE_BYTES_MAX: u64 = 10 << 30;

/// However much that is: builds need room too.
const CACHE_SHARE_OF_DISK: u64 = 4;
/// As long as the platform that pipelines come from lets a debugger wait.
pub const PAUSE: std::time::Duration = std::time::Duration::from_secs(15 * 60);
/// Unless [`Config::sweep`] says otherwise.
pub const SWEEP: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// How a runner is set up.
pub struct Config {
    /// As the server shows it; unique per server.
    pub name: String,
    /// Knows the server's address and our credential.
    pub server: Client,
    /// Ours alone: one runner per folder.
    pub data: PathBuf,
    /// How many builds at once.
    pub capacity: u32,
    /// The id of the one build that this runner is for; it ends with it.
    pub only: Option<String>,
    pub executor: ExecutorChoice,
    /// Folders that sandboxed steps may read besides the system's own (a toolchain in a home, say).
    pub read_only: Vec<PathBuf>,
    /// Folders that no sandboxed step may see, wherever they are (the server's data, say); `data` is one already.
    pub hide: Vec<PathBuf>,
    /// A folder with definitions of step types.
    pub step_types: Option<PathBuf>,
    /// A set of public keys: pipelines that are not signed with one of them are not run.
    pub trust: Option<PathBuf>,
    /// Certificates (PEM) that the server may show besides those that the system trusts; clones from it believe them too.
    pub ca: Option<String>,
    /// Kubeconfigs of the clusters that `deploy` steps may name.
    pub clusters: std::collections::BTreeMap<String, PathBuf>,
    /// What dependency caches may take, and layers of images that are kept by the build once more; never more than a
    /// quarter of the disk. 0 keeps no dependencies.
    pub cache_bytes_max: u64,
    /// How long a step may stand at a breakpoint before its build goes on without anybody.
    pub pause: std::time::Duration,
    /// How often what ended builds have left on this machine is looked for and removed.
    pub sweep: std::time::Duration,
    /// An executable that calls [`shim::main`] for its first argument [`shim::SUBCOMMAND`]; this one when absent.
    pub shim: Option<PathBuf>,
}

impl Config {
    pub fn new(name: impl Into<String>, server: Client, data: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            server,
            data: data.into(),
            capacity: 2,
            only: None,
            executor: ExecutorChoice::Auto,
            read_only: Vec::new(),
            hide: Vec::new(),
            step_types: None,
            trust: None,
            ca: None,
            clusters: std::collections::BTreeMap::new(),
            cache_bytes_max: CACHE_BYTES_MAX,
            pause: PAUSE,
            sweep: SWEEP,
            shim: None,
        }
    }
}

/// Runs until `shutdown`, or until its only build is over. Steps that run then go on, and are found again at the next start.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    layout::create_private_dir(&config.data)
        .with_context(|| format!("cannot use the data folder {}", config.data.display()))?;
    // Absolute, because supervisors work elsewhere.
    let data = config.data.canonicalize()?;
    let _lock = lock(&data)?;
    let executable = match config.shim {
        Some(path) => path,
        None => std::env::current_exe().context("cannot find this executable")?,
    };
    let types = match &config.step_types {
        Some(folder) => executor::StepTypes::load(folder)?,
        None => executor::StepTypes::default(),
    };
    let cache_bytes_max = config.cache_bytes_max.min(bytes_of_disk(&data)? / CACHE_SHARE_OF_DISK);
    let trusted = config.trust.as_deref().map(signing::Trusted::load).transpose()?;
    let (choice, read_only, hide) = (config.executor, config.read_only, config.hide);
    let executor = tokio::task::spawn_blocking({
        let (data, executable) = (data.clone(), executable.clone());
        move || executor::choose(choice, &data, &executable, &read_only, &hide)
    })
    .await?;
    let executor = match executor {
        Ok(executor) => executor,
        // Nobody looks into a pod that is there for one build: its build says why nothing happens.
        Err(error) if config.only.is_some() => {
            agent::cannot(&config.server, &config.name, &format!("{error:#}")).await?;
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    tracing::info!(runner = %config.name, executor = executor.name(), "Runner ready.");
    let (may_start, seen) = watch::channel(false);
    let server = config.server.base().to_owned();
    let context = Arc::new(build::Context {
        authority: config.ca.map(|certificates| executor::Authority { server, certificates }),
        name: config.name,
        client: config.server,
        data,
        executor,
        shims: attempt::Shims { executable },
        types,
        trusted,
        clusters: config.clusters,
        cache_bytes_max,
        pause: config.pause,
        may_start: seen,
    });
    agent::Agent::new(context, config.capacity, config.only, may_start, shutdown).run(config.sweep).await
}

fn bytes_of_disk(data: &std::path::Path) -> std::io::Result<u64> {
    let about = nix::sys::statvfs::statvfs(data)?;
    Ok(about.blocks().saturating_mul(about.fragment_size()))
}

fn lock(data: &std::path::Path) -> anyhow::Result<Flock<std::fs::File>> {
    let file = layout::create_private(&data.join("runner.lock"))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
        anyhow::anyhow!(
            "another runner uses the data folder {}: stop it, or give this one a folder of its own",
            data.display()
        )
    })
}
