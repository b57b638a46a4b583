//! A cluster that is asked from a terminal: what commands about Rollouts and about Workflows have in common.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::Value;
use slipway_cluster::{Cluster, ClusterConfig};
use slipway_crd::names::GROUP;

use super::output::OutputArguments;

/// Objects of one list.
const MOST: usize = 10_000;

#[derive(clap::Args)]
pub(crate) struct ClusterArguments {
    /// The cluster; ~/.kube/config when left out
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; its current one when left out
    #[arg(long)]
    context: Option<String>,
    /// The namespace
    #[arg(long, short, default_value = "default")]
    namespace: String,
}

#[derive(clap::Args)]
pub(crate) struct One {
    /// Its name
    pub(super) name: String,
    #[command(flatten)]
    pub(super) cluster: ClusterArguments,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

#[derive(clap::Args)]
pub(crate) struct Many {
    #[command(flatten)]
    pub(super) cluster: ClusterArguments,
    /// In all namespaces
    #[arg(long, short = 'A')]
    pub(super) all_namespaces: bool,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

/// A cluster that is asked from a terminal, and the namespace that is meant.
pub(super) struct Session {
    pub(super) cluster: Cluster,
    pub(super) namespace: String,
}

impl Session {
    pub(super) async fn open(arguments: &ClusterArguments) -> anyhow::Result<Self> {
        let home = || std::env::home_dir().map(|home| home.join(".kube/config"));
        let path = arguments.kubeconfig.clone().or_else(home).context("name a cluster with --kubeconfig")?;
        let mut config = ClusterConfig::new(Some(path));
        config.context.clone_from(&arguments.context);
        config.field_manager = "slipway-cli".into();
        let cluster = Cluster::connect(config).await?;
        Ok(Self { cluster, namespace: arguments.namespace.clone() })
    }

    /// The namespace that a list is about; empty: all.
    pub(super) fn listed<'a>(&'a self, arguments: &Many) -> &'a str {
        if arguments.all_namespaces { "" } else { &self.namespace }
    }

    pub(super) async fn list(&self, group: &str, kind: &str, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let discovery = self.cluster.discovery();
        let resource =
            discovery.preferred(group, kind).with_context(|| format!("the cluster does not know {kind}s"))?;
        let mut answer = self.cluster.ask(resource, namespace, None, MOST).await?;
        Ok(answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    /// Objects of a kind of Argo; items of a list do not say what they are.
    pub(super) async fn list_as<T: serde::de::DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
    ) -> anyhow::Result<Vec<T>> {
        let mut all = self.list(GROUP, kind, namespace).await?;
        all.iter_mut().for_each(|object| object["kind"] = kind.into());
        Ok(all.into_iter().filter_map(|object| serde_json::from_value(object).ok()).collect())
    }
}
