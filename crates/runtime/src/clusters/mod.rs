//! The clusters that Applications deploy to: the one that we run in, and those that cluster Secrets describe.
//!
//! Each has a connection, a copy and watches of its own. One that cannot be reached is tried again for ever and
//! disturbs nobody but the Applications that go there.

mod destination;
mod follow;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use slipway_crd::Application;
use slipway_gitops::project::ClusterNames;
use tokio_util::sync::CancellationToken;

pub(crate) use destination::Destination;
use follow::{Following, config};
pub(crate) use follow::{Listener, reach};

use crate::settings::{SECRET_TYPE, field};

/// The cluster that we run in has two names.
pub(crate) const IN_CLUSTER: ClusterNames<'static> =
    ClusterNames { server: "https://kubernetes.default.svc", name: "in-cluster" };

/// A cluster as somebody who tells of it sees it.
pub(crate) struct Look {
    /// The name of its Secret; of the home cluster its own name.
    pub(crate) secret: String,
    pub(crate) name: String,
    pub(crate) server: String,
    /// None: it cannot be used.
    pub(crate) destination: Option<Arc<Destination>>,
    /// Why not.
    pub(crate) away: String,
    /// It was not tried to the end yet.
    pub(crate) is_connecting: bool,
}

/// A cluster Secret, and how far we are with it.
struct Remote {
    /// Changes with the Secret.
    version: String,
    server: String,
    name: String,
    state: Arc<RwLock<State>>,
    stop: CancellationToken,
}

pub(super) enum State {
    /// Why it cannot be used yet.
    Away(String),
    Here(Arc<Destination>),
}

pub(crate) struct Clusters {
    /// The one that we run in.
    home: Arc<Destination>,
    /// The others, by their Secrets' names.
    remotes: RwLock<BTreeMap<String, Remote>>,
    /// Ends what follows them.
    stop: CancellationToken,
}

/// Said of a cluster that was not tried yet.
const CONNECTING: &str = "it is being connected";

/// Why an Application has no cluster to go to.
#[derive(Debug)]
pub(crate) enum NoCluster {
    /// The spec is wrong, or the cluster was taken away.
    Unknown(String),
    /// It is known and cannot be reached.
    Away(String),
}

impl NoCluster {
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Unknown(message) | Self::Away(message) => message,
        }
    }
}

impl Clusters {
    pub(crate) fn new(home: Arc<Destination>) -> Self {
        Self { home, remotes: RwLock::default(), stop: CancellationToken::new() }
    }

    /// The cluster that we run in.
    pub(crate) fn home(&self) -> &Arc<Destination> {
        &self.home
    }

    /// Lets go of all but the home cluster.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Where an Application goes.
    pub(crate) fn destination(&self, app: &Application) -> Result<Arc<Destination>, NoCluster> {
        let destination = &app.spec.destination;
        let server = destination.server.trim_end_matches('/');
        let name = destination.name.as_str();
        let unknown = |text: String| Err(NoCluster::Unknown(text));
        match (server, name) {
            ("", "") => {
                return unknown(
                    "spec.destination needs a server or a name; use https://kubernetes.default.svc".into(),
                );
            }
            (server, name) if !server.is_empty() && !name.is_empty() => {
                return unknown("spec.destination has both a server and a name; keep one of them".into());
            }
            (server, name) if server == IN_CLUSTER.server || name == IN_CLUSTER.name => {
                return Ok(self.home.clone());
            }
            _ => {}
        }
        let remotes = self.remotes.read().expect("no panic while locked");
        let mut fitting = remotes
            .values()
            .filter(|remote| if server.is_empty() { remote.name == name } else { remote.server == server });
        let wanted = if server.is_empty() { name } else { server };
        let Some(remote) = fitting.next() else {
            return unknown(format!(
                "spec.destination `{wanted}` is not known here; use {} or `{}`, or add a Secret with the label \
                 {SECRET_TYPE}: cluster",
                IN_CLUSTER.server, IN_CLUSTER.name
            ));
        };
        if server.is_empty() && fitting.next().is_some() {
            return unknown(format!(
                "there are 2 clusters with the name `{wanted}`; use spec.destination.server"
            ));
        }
        if remote.server == IN_CLUSTER.server {
            return Ok(self.home.clone());
        }
        match &*remote.state.read().expect("no panic while locked") {
            State::Here(destination) => Ok(destination.clone()),
            State::Away(why) => Err(NoCluster::Away(format!("cluster {wanted} cannot be used: {why}"))),
        }
    }

    /// How the cluster that an Application goes to is called and where it is, whether it can be reached or not. Empty where
    /// the spec does not say which one it is.
    pub(crate) fn destination_names(&self, app: &Application) -> (String, String) {
        let destination = &app.spec.destination;
        let (server, name) = (destination.server.trim_end_matches('/'), destination.name.as_str());
        if server.is_empty() == name.is_empty() {
            return Default::default();
        }
        if server == IN_CLUSTER.server || name == IN_CLUSTER.name {
            return (IN_CLUSTER.name.to_owned(), IN_CLUSTER.server.to_owned());
        }
        let remotes = self.remotes.read().expect("no panic while locked");
        let mut fitting = remotes
            .values()
            .filter(|remote| if server.is_empty() { remote.name == name } else { remote.server == server });
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => (one.name.clone(), one.server.clone()),
            _ => (name.to_owned(), server.to_owned()),
        }
    }

    /// All of them, the home cluster first, whether they can be reached or not.
    pub(crate) fn look(&self) -> Vec<Look> {
        let home = Look {
            secret: IN_CLUSTER.name.to_owned(),
            name: IN_CLUSTER.name.to_owned(),
            server: IN_CLUSTER.server.to_owned(),
            destination: Some(self.home.clone()),
            away: String::new(),
            is_connecting: false,
        };
        let remotes = self.remotes.read().expect("no panic while locked");
        let others = remotes.iter().filter(|(_, remote)| remote.server != IN_CLUSTER.server);
        let others = others.map(|(secret, remote)| {
            let (destination, away) = match &*remote.state.read().expect("no panic while locked") {
                State::Here(destination) => (Some(destination.clone()), String::new()),
                State::Away(why) => (None, why.clone()),
            };
            Look {
                secret: secret.clone(),
                name: remote.name.clone(),
                server: remote.server.clone(),
                is_connecting: away == CONNECTING,
                destination,
                away,
            }
        });
        std::iter::once(home).chain(others).collect()
    }

    /// Every cluster that is connected.
    pub(crate) fn all(&self) -> Vec<Arc<Destination>> {
        let remotes = self.remotes.read().expect("no panic while locked");
        let here = remotes.values().filter_map(|remote| {
            match &*remote.state.read().expect("no panic while locked") {
                State::Here(destination) => Some(destination.clone()),
                State::Away(_) => None,
            }
        });
        std::iter::once(self.home.clone()).chain(here).collect()
    }

    /// Connects to what the Secrets say now, and lets go of what they no longer do.
    pub(crate) fn follow(&self, listener: &Arc<Listener>) {
        let namespace = listener.settings.namespace();
        let mut wanted: BTreeMap<String, (String, serde_json::Value)> = BTreeMap::new();
        for live in self.home.cluster.live_of_kind("", "Secret") {
            let Some(object) = live.object().filter(|_| live.key.namespace == namespace) else {
                continue;
            };
            if object["metadata"]["labels"][SECRET_TYPE] == "cluster" {
                wanted.insert(live.key.name.clone(), (live.resource_version.clone(), object["data"].clone()));
            }
        }
        let mut remotes = self.remotes.write().expect("no panic while locked");
        remotes.retain(|secret, remote| {
            let stays = wanted.get(secret).is_some_and(|(version, _)| *version == remote.version);
            if !stays {
                remote.stop.cancel();
            }
            stays
        });
        for (secret, (version, data)) in wanted {
            if remotes.contains_key(&secret) {
                continue;
            }
            let server = field(&data, "server").unwrap_or_default().trim_end_matches('/').to_owned();
            let name = field(&data, "name").unwrap_or_else(|| server.clone());
            let state = Arc::new(RwLock::new(State::Away(CONNECTING.into())));
            let stop = self.stop.child_token();
            match config(&server, &data, &listener.egress) {
                Ok(config) if server != IN_CLUSTER.server => {
                    let following = Following {
                        listener: listener.clone(),
                        config,
                        server: server.clone(),
                        name: name.clone(),
                        state: state.clone(),
                        stop: stop.clone(),
                    };
                    tokio::spawn(following.run());
                }
                Ok(_) => {}
                Err(why) => {
                    tracing::warn!(%secret, %why, "A cluster Secret cannot be used.");
                    *state.write().expect("no panic while locked") =
                        State::Away(format!("its Secret: {why}"));
                }
            }
            remotes.insert(secret, Remote { version, server, name, state, stop });
        }
    }
}

/// Nobody follows remote clusters for a runtime that is gone.
impl Drop for Clusters {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
