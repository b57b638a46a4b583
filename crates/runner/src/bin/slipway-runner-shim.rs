//! The runner alone, for tests: as a shim when it is told so, as a runner otherwise.

use std::process::ExitCode;

use slipway_api::Client;
use slipway_model::Secret;
use slipway_runner::{Config, ExecutorChoice, KubernetesConfig, Storage, shim};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if args.get(1).is_some_and(|first| first == shim::SUBCOMMAND) {
        return shim::main(args.into_iter().skip(2));
    }
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let text = |index: usize| args.get(index).and_then(|arg| arg.to_str()).unwrap_or_default().to_owned();
    let mut config = Config::new("test", Client::new(text(1), Secret::new("key".to_owned())), text(2));
    config.executor = match text(3).as_str() {
        "podman" => ExecutorChoice::Podman,
        "docker" => ExecutorChoice::Docker,
        "host" => ExecutorChoice::Host,
        "kubernetes" => {
            let kubernetes = KubernetesConfig::new(Some(text(4).into()), text(5), Storage::Host);
            ExecutorChoice::Kubernetes(Box::new(kubernetes))
        }
        _ => ExecutorChoice::Auto,
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    match runtime.block_on(slipway_runner::run(config, CancellationToken::new())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
