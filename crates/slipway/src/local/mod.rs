//! `slipway run FILE`: the runner's own engine on this machine, without a server.
//!
//! In: a pipeline file, the working copy around it, variables. Out: the log on the terminal and an exit code.
//! The runner is the same as everywhere and dials a control plane; here that is a [`desk`] on loopback that has
//! one build to give and one repository to clone, the working copy as it is now.

mod desk;
mod show;
mod snapshot;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use slipway_api::Client;
use slipway_api::agent::{PipelineSource, TakenBuild, VariableLayer};
use slipway_api::pipeline::Variable;
use slipway_model::Secret;
use slipway_runner::ExecutorChoice;
use tokio_util::sync::CancellationToken;

use desk::Desk;
use snapshot::Snapshot;

const RUNNER: &str = "local";

pub(crate) struct Order {
    pub(crate) file: PathBuf,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) branch: Option<String>,
    pub(crate) executor: ExecutorChoice,
    /// Leave the folder with the volume and the logs behind.
    pub(crate) keep: bool,
}

/// Exit 0 when the build succeeded, 1 when it failed, 2 when the file has errors, 130 when it was interrupted.
pub(crate) async fn run(order: Order) -> anyhow::Result<ExitCode> {
    let yaml = std::fs::read_to_string(&order.file)
        .with_context(|| format!("cannot read the pipeline {}", order.file.display()))?;
    let (pipeline, findings) = slipway_pipeline::Pipeline::parse(&yaml);
    for finding in &findings {
        let (level, message) = (if finding.is_error() { "error" } else { "warning" }, &finding.message);
        note!("{}:{}:{}: {level}: {message}", order.file.display(), finding.line, finding.column);
        if let Some(hint) = &finding.hint {
            note!("  hint: {hint}");
        }
    }
    if pipeline.is_none() {
        return Ok(ExitCode::from(2));
    }
    let folder = tempfile::Builder::new()
        .prefix("slipway-run-")
        .tempdir()
        .context("cannot make a temporary folder for the build")?;
    let around = order.file.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let snapshot = Snapshot::take(around, &folder.path().join("repository.git"), order.branch.as_deref())?;
    if let Some(note) = snapshot.as_ref().and_then(|snapshot| snapshot.note.as_deref()) {
        note!("{note}");
    }
    let outcome = drive(&order, yaml, snapshot, folder.path()).await;
    if order.keep {
        note!("The files of the build are in {}", folder.keep().display());
    } else {
        remove(folder.path());
    }
    outcome
}

async fn drive(
    order: &Order,
    yaml: String,
    snapshot: Option<Snapshot>,
    folder: &Path,
) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(snapshot.as_ref()).await.context("cannot listen on loopback")?;
    let seams = slipway_server::Seams::system();
    let id: slipway_model::BuildId = seams.new_id();
    let name = order.file.file_name().unwrap_or_default().to_string_lossy();
    desk.give(TakenBuild {
        id: id.to_string(),
        epoch: 1,
        pipeline_name: format!("local/{name}"),
        account_name: "local".into(),
        source: PipelineSource::Inline { yaml },
        variables: vec![VariableLayer {
            name: "build-run".into(),
            variables: order
                .variables
                .iter()
                .map(|(key, value)| Variable { key: key.clone(), value: value.clone(), encrypted: false })
                .collect(),
        }],
        commit: snapshot.map(|snapshot| snapshot.commit),
        created_ms: seams.now_ms(),
        git: desk.git_access(),
        ..TakenBuild::default()
    });
    let mut config = slipway_runner::Config::new(
        RUNNER,
        Client::new(desk.url(), Secret::new(desk.key().to_owned())),
        folder.join("runner"),
    );
    config.capacity = 1;
    config.executor = order.executor.clone();
    let stop = CancellationToken::new();
    let runner = tokio::spawn(slipway_runner::run(config, stop.clone()));
    tokio::pin!(runner);
    let mut interrupts = 0;
    let status = loop {
        tokio::select! {
            status = desk.ended() => break status,
            ended = &mut runner => match ended {
                Ok(Ok(())) => bail!("the runner stopped before the build ended"),
                Ok(Err(error)) => return Err(error),
                Err(error) => return Err(error.into()),
            },
            _ = tokio::signal::ctrl_c() => {
                interrupts += 1;
                if interrupts > 1 {
                    return Ok(ExitCode::from(130));
                }
                note!("Stopping the build; once more to leave at once.");
                desk.terminate();
            }
        }
    };
    stop.cancel();
    let _ = (&mut runner).await;
    Ok(match status.as_str() {
        "success" => ExitCode::SUCCESS,
        "terminated" => ExitCode::from(130),
        _ => ExitCode::FAILURE,
    })
}

/// Steps in containers may leave files of other users behind; as root they are ours to remove.
fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        note!("note: {} could not be removed whole: {error}", folder.display());
    }
}
