//! A shell in a pod of its own beside the step's: the same image, volume, variables and limits.

use std::time::Duration;

use slipway_api::debug::DebugOrder;
use slipway_cluster::{ClusterError, PodKind, Pods};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Ends, QUEUE};
use crate::shim::CONTAINER;
use crate::task::PodWork;

/// Images are fetched meanwhile.
const START_PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(300);

pub(super) async fn start(
    work: &PodWork,
    order: &DebugOrder,
    cancel: &CancellationToken,
) -> std::io::Result<Ends> {
    let no = |error: ClusterError| std::io::Error::other(error.to_string());
    let pods = Pods::connect(&work.cluster).await.map_err(no)?;
    if let Some(pull) = &work.pull {
        crate::shim::made(pods.create(PodKind::Secret, pull).await).map_err(no)?;
    }
    if let Some(secret) = &work.secret {
        pods.create(PodKind::Secret, secret).await.map_err(no)?;
    }
    pods.create(PodKind::Pod, &work.pod).await.map_err(no)?;
    tokio::select! {
        ready = tokio::time::timeout(START_PATIENCE, running(&pods, &work.name)) => match ready {
            Ok(ready) => ready?,
            Err(_) => {
                let why = pods.warnings(&work.name).await.unwrap_or_default();
                let why = why.last().cloned().unwrap_or_else(|| "its pod does not start".to_owned());
                return Err(std::io::Error::other(why));
            }
        },
        () = cancel.cancelled() => return Err(std::io::Error::other("the step is no longer paused")),
    }
    let shell = ["sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"];
    let open = pods.exec(&work.name, CONTAINER, &shell, order.columns, order.rows).await.map_err(no)?;
    let (said, printed) = mpsc::channel::<Vec<u8>>(QUEUE);
    let (typed, mut wanted) = mpsc::channel::<Vec<u8>>(QUEUE);
    tokio::spawn(async move {
        // The whole of it: a part that nobody names would be dropped here, and the connection with it.
        let mut open = open;
        let mut buffer = vec![0; 8 << 10];
        loop {
            tokio::select! {
                read = open.stdout.read(&mut buffer) => match read {
                    Ok(count) if count > 0 => {
                        if said.send(buffer[..count].to_vec()).await.is_err() {
                            return;
                        }
                    }
                    _ => return,
                },
                Some(bytes) = wanted.recv() => {
                    if open.stdin.write_all(&bytes).await.is_err() || open.stdin.flush().await.is_err() {
                        return;
                    }
                }
                () = said.closed() => return,
            }
        }
    });
    Ok(Ends { printed, typed })
}

async fn running(pods: &Pods, name: &str) -> std::io::Result<()> {
    loop {
        let pod =
            pods.get(PodKind::Pod, name).await.map_err(|error| std::io::Error::other(error.to_string()))?;
        let phase = pod.as_ref().and_then(|pod| pod["status"]["phase"].as_str()).unwrap_or_default();
        match phase {
            "Running" => return Ok(()),
            "Failed" | "Succeeded" => return Err(std::io::Error::other("its pod has ended at once")),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}
