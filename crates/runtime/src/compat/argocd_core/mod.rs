//! What the published `argocd` CLI wants in `--core` mode: a cache and a repository server, both reached by port-forward.
//!
//! The CLI brings an API server of its own and works on the cluster with its user's rights. What it cannot know by itself
//! it reads from a Redis (trees, live and wanted manifests) and asks of a repository server (what a branch means, what a
//! source renders to). Here nothing is cached for it: every answer is made from the engine's own state when it is asked.
//!
//! Both listen on loopback alone, and answer root and ourselves alone ([`peer`]). A port-forward ends there, and nobody
//! else in the cluster can reach it, which is what the two were broken into by upstream. Credentials that callers send are not used: a source is held against its project,
//! as everywhere, and read with the installation's own.

mod cache;
mod grpc;
mod messages;
mod peer;
mod repository;
mod resp;
mod views;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use slipway_cluster::Cluster;
use slipway_source::Renderer;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clusters::Clusters;
use crate::context::Context;
use crate::engines::applications::View;
use crate::engines::applications::manifests::RETRY;
use crate::inventory::Inventory;
use crate::settings::CurrentSettings;

/// What the CLI is answered from.
pub(crate) struct Core {
    cluster: Cluster,
    settings: Arc<CurrentSettings>,
    clusters: Arc<Clusters>,
    inventory: Arc<Inventory>,
    renderer: Arc<Renderer>,
    view: View,
}

impl Core {
    pub(crate) fn new(context: &Context, view: View) -> Self {
        Self {
            cluster: context.cluster().clone(),
            settings: context.settings.clone(),
            clusters: context.clusters.clone(),
            inventory: context.inventory.clone(),
            renderer: context.renderer.clone(),
            view,
        }
    }
}

/// Where the two are served.
#[derive(Debug, Clone, Copy)]
pub struct CoreAddresses {
    pub cache: SocketAddr,
    pub repository: SocketAddr,
}

impl Default for CoreAddresses {
    /// Where the CLI looks: it cannot be told other ports.
    fn default() -> Self {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self { cache: at(6379), repository: at(8081) }
    }
}

/// The two ports, taken before anything else starts, so that a port that is in use is said at once.
pub(crate) struct Listeners {
    pub(crate) cache: TcpListener,
    pub(crate) repository: TcpListener,
}

pub(crate) async fn bind(at: CoreAddresses) -> Result<Listeners, crate::RuntimeError> {
    let bind = async |address| {
        TcpListener::bind(address).await.map_err(|source| crate::RuntimeError::Core { address, source })
    };
    Ok(Listeners { cache: bind(at.cache).await?, repository: bind(at.repository).await? })
}

/// Serves both until it is time to stop.
pub(crate) async fn serve(core: Arc<Core>, listeners: Listeners, stop: CancellationToken) {
    let password = loop {
        match cache::password(&core).await {
            Ok(password) => break password,
            Err(error) => {
                tracing::error!(%error, "The argocd CLI is not answered yet: the cache's password cannot be kept in a Secret; trying again.");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    };
    tracing::info!("The argocd CLI is answered in --core mode.");
    let serving = async {
        tokio::join!(
            cache::serve(core.clone(), listeners.cache, password),
            repository::serve(core.clone(), listeners.repository)
        )
    };
    tokio::select! {
        () = stop.cancelled() => {}
        _ = serving => {}
    }
}

/// The next caller who may be answered; others are hung up on.
async fn accept(listener: &TcpListener) -> tokio::net::TcpStream {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        if peer::is_trusted(&stream).await {
            return stream;
        }
        tracing::warn!(
            "Somebody else of this machine wanted to be answered in the argocd CLI's place, and was not."
        );
    }
}
