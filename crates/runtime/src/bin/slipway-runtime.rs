//! Runs the engine by itself, without a control plane: `slipway-runtime KUBECONFIG DATA [NAMESPACE]`.

use std::path::PathBuf;

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
