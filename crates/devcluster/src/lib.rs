//! The embedded Kubernetes API and its controllers, for one machine: trying out and testing.
//!
//! Comes in: a folder for its data and an address to listen on. Goes out: a Kubernetes API over TLS and a kubeconfig;
//! pods run as real containers through Podman or Docker. Does not know: anything else of Slipway; clients of this
//! cluster, the runtime among them, use it over its API like any other.
//!
//! `store` keeps objects, `schema`, `apply` and `patch` are the generic semantics, `kinds` is the table of what is
//! served, `api` the operations, `http` the wire, `controllers` the loops, `node` the one machine.

mod api;
mod apply;
mod auth;
mod bootstrap;
mod controllers;
mod error;
mod http;
mod kinds;
mod node;
mod patch;
mod schema;
mod store;
mod tls;
mod value;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use node::EngineChoice;

/// What a cluster needs to know at start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Everything the cluster keeps: objects, keys, volumes, logs.
    pub data: PathBuf,
    /// Where the API listens. Port 0 takes a free one, and the same one again after a restart if it still is.
    pub listen: SocketAddr,
    /// Where the kubeconfig is written.
    pub kubeconfig: PathBuf,
    /// Which container engine runs pods; nothing means: look for Podman, then Docker.
    pub engine: Option<EngineChoice>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "the folder {path} cannot be used for the cluster's data; choose one that this user may write to"
    )]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("another process runs a cluster on {path}; stop it first, or choose another folder")]
    Taken { path: PathBuf },
    #[error("the cluster's data cannot be read: {0}")]
    Store(String),
    #[error("the cluster's certificates could not be set up: {0}")]
    Tls(String),
    #[error("the cluster cannot listen on {address}; choose another address or stop what uses it")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("the cluster's first objects could not be written: {0}")]
    Bootstrap(String),
}

/// A cluster that runs. It ends when the token given to [`start`] is cancelled; `stopped` waits for that.
pub struct Running {
    pub url: String,
    pub kubeconfig: PathBuf,
    /// The bearer token of the administrator, the same as in the kubeconfig.
    pub token: String,
    pub ca_pem: String,
    /// The engine that runs pods, or why none does.
    pub engine: Result<String, String>,
    tasks: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Waits until everything is written and closed.
    pub async fn stopped(self) {
        let _ = self.tasks.await;
    }
}

/// Starts a cluster and returns when its API answers.
pub async fn start(config: Config, shutdown: CancellationToken) -> Result<Running, StartError> {
    let data = config.data.clone();
    let folder = |source| StartError::Folder { path: data.clone(), source };
    // Secrets of the cluster lie in it as they are.
    tls::private_folder(&config.data).map_err(folder)?;
    let data_path = std::fs::canonicalize(&config.data).map_err(folder)?;
    let lock = lock(&data_path)?;
    let (listener, address) = listen(&config, &data_path).await?;
    let service_net = bootstrap::service_net(&data_path).map_err(folder)?;
    let service_ip = Ipv4Addr::new(service_net[0], service_net[1], 0, 1);
    let pki_dir = data_path.join("pki");
    let pki =
        tls::Pki::load(&pki_dir, service_ip, address.ip()).map_err(|e| StartError::Tls(e.to_string()))?;
    let tokens = auth::Tokens::load(&pki_dir).map_err(folder)?;
    let token = tokens.admin().to_owned();
    let store =
        store::Store::open(&data_path.join("objects.db")).map_err(|e| StartError::Store(e.to_string()))?;
    let engine = node::find_engine(config.engine);
    let engine_name = engine.as_ref().map(node::Engine::describe).map_err(Clone::clone);
    if let Ok(engine) = &engine {
        engine.set_cluster(&bootstrap::cluster_id(&data_path).map_err(folder)?);
    }
    let cluster = api::Cluster::new(store, data_path, service_net, pki.ca_pem.clone(), tokens);
    cluster.node.set(engine);
    bootstrap::first_objects(&cluster).await.map_err(|e| StartError::Bootstrap(e.to_string()))?;

    let url = format!("https://{address}");
    let text = tls::kubeconfig(&url, &pki, &token);
    write_kubeconfig(&config.kubeconfig, text)?;

    let ca_pem = pki.ca_pem.clone();
    let tasks = tokio::spawn(run(Parts { listener, tls: pki.server, cluster, address, shutdown, lock }));
    Ok(Running { url, kubeconfig: config.kubeconfig, token, ca_pem, engine: engine_name, tasks })
}

/// Removes the containers (and the route) that a stopped cluster has left; its objects stay, and start again with it.
/// For cleaning up before a data folder is removed. Gives the number of containers.
pub async fn remove_containers(data: &Path, engine: Option<EngineChoice>) -> Result<usize, StartError> {
    if !data.join("cluster-id").exists() {
        return Ok(0);
    }
    let _lock = lock(data)?;
    let folder = |source| StartError::Folder { path: data.to_owned(), source };
    node::remove_route(bootstrap::service_net(data).map_err(folder)?).await;
    let Ok(engine) = node::find_engine(engine) else { return Ok(0) };
    engine.set_cluster(&bootstrap::cluster_id(data).map_err(folder)?);
    node::remove_all(&engine).await.map_err(StartError::Bootstrap)
}

/// How many containers of pods there are, running or not.
pub async fn count_containers(data: &Path, engine: Option<EngineChoice>) -> Result<usize, StartError> {
    if !data.join("cluster-id").exists() {
        return Ok(0);
    }
    let folder = |source| StartError::Folder { path: data.to_owned(), source };
    let Ok(engine) = node::find_engine(engine) else { return Ok(0) };
    engine.set_cluster(&bootstrap::cluster_id(data).map_err(folder)?);
    node::count_all(&engine).await.map_err(StartError::Bootstrap)
}

struct Parts {
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    cluster: Arc<api::Cluster>,
    address: SocketAddr,
    shutdown: CancellationToken,
    lock: std::fs::File,
}

async fn run(parts: Parts) {
    let Parts { listener, tls, cluster, address, shutdown, lock } = parts;
    let server = http::serve(listener, tls, cluster.clone(), shutdown.clone());
    let controllers = controllers::run(cluster.clone(), shutdown.clone());
    let node = node::run(cluster.clone(), address, shutdown.clone());
    tokio::join!(server, controllers, node);
    cluster.store.close();
    drop(lock);
}

/// One process per data folder; the kernel lets go of the lock when the process dies, however it dies.
fn lock(data: &Path) -> Result<std::fs::File, StartError> {
    let path = data.join("lock");
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|source| StartError::Folder { path: path.clone(), source })?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| StartError::Taken { path: data.to_owned() })?;
    Ok(file)
}

/// Binds, and remembers a port that was chosen freely, so that kubeconfigs stay valid over a restart.
async fn listen(config: &Config, data: &Path) -> Result<(TcpListener, SocketAddr), StartError> {
    let fail = |source| StartError::Listen { address: config.listen, source };
    let file = data.join("port");
    let mut wanted = config.listen;
    let remembered = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u16>().ok());
    let listener = match remembered.filter(|_| wanted.port() == 0) {
        Some(port) => {
            wanted.set_port(port);
            match TcpListener::bind(wanted).await {
                Ok(listener) => listener,
                Err(_) => TcpListener::bind(config.listen).await.map_err(fail)?,
            }
        }
        None => TcpListener::bind(config.listen).await.map_err(fail)?,
    };
    let mut address = listener.local_addr().map_err(fail)?;
    if config.listen.port() == 0 {
        std::fs::write(&file, address.port().to_string()).map_err(fail)?;
    }
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    Ok((listener, address))
}

fn write_kubeconfig(path: &Path, text: String) -> Result<(), StartError> {
    let fail = |source| StartError::Folder { path: path.to_owned(), source };
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(fail)?;
    }
    tls::write_private(path, text).map_err(fail)?;
    Ok(())
}
