//! Pods and containers beside a step's own: the services of its build, the other candidates of a composition.

use std::io::{self, Write};
use std::time::Instant;

use serde_json::Value;
use slipway_cluster::{ClusterError, PodKind};

use super::judge::{Seen, judge};
use super::{Attempt, CONTAINER, CREATE_PATIENCE, LOOK_LEAST, LOOK_MOST, made};
use crate::task::{Exit, How, ServicePod};

/// Every one of these containers has ended.
pub(super) fn all_ended(pod: &Value, names: &[String]) -> bool {
    names.iter().all(|name| matches!(judge(pod, name), Seen::Ended { .. } | Seen::Taken { .. }))
}

impl Attempt<'_> {
    /// Keeps the logs of the other candidates; the first that failed decides.
    pub(super) async fn others(
        &mut self,
        pod: &Value,
        code: i32,
        message: Option<String>,
    ) -> io::Result<(i32, Option<String>)> {
        let mut result = (code, message);
        for name in &self.work.also {
            self.copy(name).await?;
            if let Seen::Ended { code, message } = judge(pod, name)
                && result.0 == 0
            {
                result = (code, message);
            }
        }
        Ok(result)
    }

    /// Makes the pod of the build's services if nobody has, waits until it is ready, and tells the step its address.
    /// An exit means that they did not get ready, and says why.
    pub(super) async fn serve(&mut self, services: &ServicePod) -> Result<Option<Exit>, ClusterError> {
        made(self.pods.create(PodKind::Pod, &services.pod).await)?;
        let until = Instant::now() + CREATE_PATIENCE;
        let mut look = LOOK_LEAST;
        loop {
            let pod = self.pods.get(PodKind::Pod, &services.name).await?.unwrap_or_default();
            let why = match judge(&pod, CONTAINER) {
                Seen::Running => {
                    let address = pod["status"]["podIP"].as_str().unwrap_or_default();
                    let line = format!("{address} {}\n", services.names.join(" "));
                    let written = std::fs::OpenOptions::new()
                        .append(true)
                        .open(&services.hosts)
                        .and_then(|mut file| file.write_all(line.as_bytes()));
                    match written {
                        Ok(()) => return Ok(None),
                        Err(error) => format!("their address cannot be written down: {error}"),
                    }
                }
                Seen::Unprepared { container, code } => {
                    let _ = self.copy_of(&services.name, &container).await;
                    format!("{container} ended with exit code {code}")
                }
                Seen::Stuck { why, patient: false } => why,
                Seen::Ended { .. } | Seen::Taken { .. } | Seen::TimedOut => {
                    // Nothing of it is left to wait for: the next step makes another.
                    let _ = self.pods.delete(PodKind::Pod, &services.name, Some(0)).await;
                    "their pod ended".to_owned()
                }
                Seen::Waiting { .. } | Seen::Stuck { .. } if Instant::now() > until => {
                    "they did not start in time".to_owned()
                }
                Seen::Waiting { .. } | Seen::Stuck { .. } => {
                    if self.supervisor.dir.cancel().exists() {
                        return Ok(Some(Exit::new(
                            How::Cancelled,
                            None,
                            Some("the step was stopped".to_owned()),
                        )));
                    }
                    tokio::time::sleep(look).await;
                    look = (look * 3 / 2).min(LOOK_MOST);
                    continue;
                }
            };
            let why = format!("the step did not begin: the services of the build did not get ready: {why}");
            return Ok(Some(Exit::new(How::Exited, Some(1), Some(why))));
        }
    }
}
