//! Runs an embedded cluster by itself, for trying it out: `slipway-devcluster [DATA] [LISTEN] [KUBECONFIG]`.

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
    let data = PathBuf::from(arguments.next().unwrap_or_else(|| ".devcluster".to_owned()));
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let kubeconfig = arguments.next().map(PathBuf::from).unwrap_or_else(|| data.join("kubeconfig"));
    let Ok(listen) = listen.parse() else {
        eprintln!("error: {listen} is not an address such as 127.0.0.1:6443");
        return std::process::ExitCode::FAILURE;
    };
    let shutdown = CancellationToken::new();
    let config = slipway_devcluster::Config { data, listen, kubeconfig, engine: None };
    let running = match slipway_devcluster::start(config, shutdown.clone()).await {
        Ok(running) => running,
        Err(error) => {
            eprintln!("error: {error}");
            return std::process::ExitCode::FAILURE;
        }
    };
    let ended = end().expect("signals work");
    println!("{} is up. It is for one machine, for trying out and testing.", running.url);
    match &running.engine {
        Ok(engine) => println!("Pods run through {engine}."),
        Err(reason) => println!("Pods stay Pending: {reason}"),
    }
    println!("export KUBECONFIG={}", running.kubeconfig.display());
    ended.await;
    shutdown.cancel();
    running.stopped().await;
    std::process::ExitCode::SUCCESS
}

/// Listens from this call on: whoever reads the first line may signal at once.
fn end() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
