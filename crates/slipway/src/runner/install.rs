//! `slipway runner install` and `uninstall`: the objects of a runner, printed or applied.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use slipway_cluster::{Cluster, ClusterConfig, ObjectKey, Propagation, WriteOptions};

use super::manifests::{Options, objects, workload};
use crate::cli::context;

#[derive(Args)]
pub(super) struct InstallArguments {
    /// The runner's name, and the runtime environment that pipelines ask for
    name: String,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Address of the server as seen from pods; that of the context in use by default
    #[arg(long)]
    server: Option<String>,
    /// Registration token; created now by default
    #[arg(long, env = "SLIPWAY_RUNNER_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The image with the slipway binary and git
    #[arg(long, default_value = slipway_server::Network::RUNNER_IMAGE)]
    image: String,
    /// Maximum number of builds at the same time
    #[arg(long, default_value_t = 5)]
    capacity: u32,
    /// Storage class for the volumes of builds; the cluster's default by default
    #[arg(long)]
    storage_class: Option<String>,
    /// Size of that storage
    #[arg(long, default_value = "50Gi")]
    storage: String,
    /// CPU limit of every step (2, 500m)
    #[arg(long)]
    cpu: Option<String>,
    /// Memory limit of every step (4Gi)
    #[arg(long)]
    memory: Option<String>,
    /// Where images go that a build step names no registry for
    #[arg(long)]
    registry: Option<String>,
    /// Registries without TLS
    #[arg(long = "insecure-registry")]
    insecure_registries: Vec<String>,
    /// Builds images: has buildah and a shell
    #[arg(long)]
    builder_image: Option<String>,
    /// Secrets of the namespace with registries' credentials
    #[arg(long = "image-pull-secret")]
    image_pull_secrets: Vec<String>,
    /// A file with certificates (PEM) that the server may show besides those that the image trusts: a private authority's
    #[arg(long, env = "SLIPWAY_CA")]
    ca: Option<PathBuf>,
    /// The server has no TLS; anyone on the network path can read and change everything
    #[arg(long)]
    plain_http: bool,
    /// Validate against the API server without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Print the objects without applying them; creates no token
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

#[derive(Args)]
pub(super) struct UninstallArguments {
    /// The runner's name
    name: String,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Remove the builds' volumes too
    #[arg(long)]
    delete_storage: bool,
    /// Do not remove the runner from the server
    #[arg(long)]
    cluster_only: bool,
    /// Print what would be removed without removing it
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
struct ClusterArguments {
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    #[arg(long)]
    context: Option<String>,
    #[arg(short, long, default_value = "slipway")]
    namespace: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

impl ClusterArguments {
    async fn connect(&self) -> anyhow::Result<Cluster> {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        let file = self.kubeconfig.clone().or_else(home);
        let mut config = ClusterConfig::new(file);
        config.context.clone_from(&self.context);
        Ok(Cluster::connect(config).await?)
    }
}

pub(super) async fn install(arguments: InstallArguments) -> anyhow::Result<ExitCode> {
    let server = match &arguments.server {
        Some(server) => server.clone(),
        None => context::client().context("give --server")?.base().to_owned(),
    };
    super::check_address(&server, arguments.plain_http, "runner")?;
    let token = match (&arguments.token, arguments.output.is_some() || arguments.dry_run) {
        (Some(token), _) => Some(token.clone()),
        (None, true) => None,
        (None, false) => Some(super::token(&arguments.name).await?.token),
    };
    let ca = arguments
        .ca
        .as_ref()
        .map(|path| {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read --ca {}", path.display()))?;
            anyhow::ensure!(
                text.contains("-----BEGIN CERTIFICATE-----"),
                "--ca {} holds no certificate: it is PEM, with BEGIN CERTIFICATE",
                path.display()
            );
            Ok(text)
        })
        .transpose()?;
    let options = Options {
        ca,
        name: arguments.name.clone(),
        namespace: arguments.cluster.namespace.clone(),
        server,
        image: arguments.image,
        token,
        capacity: arguments.capacity,
        storage_class: arguments.storage_class,
        storage: arguments.storage,
        cpu: arguments.cpu,
        memory: arguments.memory,
        registry: arguments.registry,
        insecure_registries: arguments.insecure_registries,
        builder_image: arguments.builder_image,
        image_pull_secrets: arguments.image_pull_secrets,
        plain_http: arguments.plain_http,
    };
    let objects = objects(&options);
    match arguments.output {
        Some(Format::Json) => {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
            say!("{}", serde_json::to_string_pretty(&list)?);
            return Ok(ExitCode::SUCCESS);
        }
        Some(Format::Yaml) => {
            let documents: Vec<String> = objects.iter().map(slipway_yaml::to_yaml).collect();
            say_part!("{}", documents.join("---\n"));
            return Ok(ExitCode::SUCCESS);
        }
        None => {}
    }
    let cluster = arguments.cluster.connect().await?;
    let write = WriteOptions { dry_run: arguments.dry_run, validate: true };
    for object in &objects {
        let key = ObjectKey::of(object);
        match cluster.apply(object, write).await {
            Ok(_) => note!("{key} {}", if arguments.dry_run { "would be applied" } else { "applied" }),
            // Nothing can be checked inside of a namespace that is not there yet.
            Err(error) if arguments.dry_run && error.is_not_found() => note!("{key} would be applied"),
            Err(error) => return Err(error).with_context(|| format!("{key} was not applied")),
        }
    }
    if !arguments.dry_run {
        note!("`slipway runners list` shows it once it has registered.");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn uninstall(arguments: UninstallArguments) -> anyhow::Result<ExitCode> {
    let cluster = arguments.cluster.connect().await?;
    let (name, namespace) = (workload(&arguments.name), arguments.cluster.namespace.as_str());
    let mut keys: Vec<ObjectKey> = [
        ("apps", "StatefulSet"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("", "ServiceAccount"),
        ("", "Secret"),
        ("", "ConfigMap"),
    ]
    .iter()
    .map(|(group, kind)| ObjectKey::new(group, kind, namespace, &name))
    .collect();
    if arguments.delete_storage {
        keys.push(ObjectKey::new("", "PersistentVolumeClaim", namespace, &format!("data-{name}-0")));
    }
    for key in keys {
        if arguments.dry_run {
            note!("{key} would be removed");
            continue;
        }
        let removed = cluster
            .delete(&key, None, Propagation::Background, false)
            .await
            .with_context(|| format!("{key} was not removed"))?;
        if removed {
            note!("{key} removed");
        }
    }
    if !arguments.cluster_only && !arguments.dry_run {
        let path = format!("/api/runners/{}", arguments.name);
        match context::client()?.delete::<bool>(&path).await {
            Ok(_) => note!("Removed runner {} from the server", arguments.name),
            Err(error) if error.status() == Some(404) => {}
            Err(error) => {
                return Err(error)
                    .context("the runner's key still works; try again, or remove it on the server");
            }
        }
    }
    if !arguments.delete_storage {
        note!("The builds' storage stays; --delete-storage removes it. The namespace stays too.");
    }
    Ok(ExitCode::SUCCESS)
}
