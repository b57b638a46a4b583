//! Runs the engine by itself, without a control plane: `slipway-runtime KUBECONFIG DATA [NAMESPACE]`. For tests that
//! kill: `SLIPWAY_DIE_BEFORE_WRITE=N` ends it as a SIGKILL would before its N-th write to the cluster, and
//! `SLIPWAY_LEASE_SECONDS=S` makes it share the namespace with others. `SLIPWAY_ROLLOUTS=ID` and `SLIPWAY_WORKFLOWS=ID` carry out Rollouts and Workflows with this instance id, too,
//! or with `SLIPWAY_ONLY=rollouts` and `SLIPWAY_ONLY=workflows` nothing else.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> std::process::ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args().skip(1);
    let (Some(kubeconfig), Some(data)) = (arguments.next(), arguments.next()) else {
        eprintln!("error: give a kubeconfig and a data folder: slipway-runtime KUBECONFIG DATA [NAMESPACE]");
        return std::process::ExitCode::FAILURE;
    };
    let mut config = slipway_runtime::Config::new("alone", Some(PathBuf::from(kubeconfig)), data);
    // Whoever starts it by hand points it at repositories on this disk.
    config.allow_local_repositories = true;
    if let Some(namespace) = arguments.next() {
        config.namespace = namespace;
    }
    if let Ok(instance_id) = std::env::var("SLIPWAY_ROLLOUTS") {
        config.rollouts = Some(slipway_runtime::RolloutsConfig { instance_id });
    }
    if let Ok(instance_id) = std::env::var("SLIPWAY_WORKFLOWS") {
        config.workflows = Some(slipway_runtime::WorkflowsConfig { instance_id, ..Default::default() });
    }
    match std::env::var("SLIPWAY_ONLY").as_deref() {
        Ok("rollouts") => config.engines_off = slipway_runtime::Config::all_but_rollouts(),
        Ok("workflows") => config.engines_off = slipway_runtime::Config::all_but_workflows(),
        Ok(other) => {
            eprintln!("error: SLIPWAY_ONLY is `{other}`, and may be rollouts or workflows");
            return std::process::ExitCode::FAILURE;
        }
        Err(_) => {}
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(last) = number("SLIPWAY_DIE_BEFORE_WRITE") {
        let count = AtomicU64::new(0);
        config.before_write = Some(slipway_cluster::BeforeWrite(Arc::new(move |what| {
            if count.fetch_add(1, Ordering::SeqCst) + 1 == last {
                eprintln!("died before write {last}: {what}");
                // No destructor runs and nothing is flushed: to the cluster it looks like a SIGKILL.
                std::process::abort();
            }
        })));
    }
    if let Some(seconds) = number("SLIPWAY_LEASE_SECONDS") {
        match slipway_runtime::Sharing::of_folder(&config.data) {
            Ok(mut sharing) => {
                sharing.lease = std::time::Duration::from_secs(seconds);
                config.sharing = Some(sharing);
            }
            Err(error) => {
                eprintln!("error: {error}");
                return std::process::ExitCode::FAILURE;
            }
        }
    }
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    match slipway_runtime::run(config, shutdown).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
