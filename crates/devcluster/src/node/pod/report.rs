//! What the pod's status says of its containers.

use serde_json::Value;

use super::{COMPONENT, Worker, host_ip};
use crate::node::status::{self, Facts, View, waiting};
use crate::value::Json as _;

impl Worker {
    fn views(&self, containers: &[Value]) -> Vec<View> {
        containers
            .iter()
            .filter_map(|container| {
                let name = container.str_at("name");
                let unit = self.units.get(name)?;
                let health = unit.health.lock().expect("health lock").clone();
                let sidecar = container.str_at("restartPolicy") == "Always";
                let init = unit.ended() == Some(0);
                Some(View {
                    name: name.to_owned(),
                    image: container.str_at("image").to_owned(),
                    image_id: unit.image_id.clone(),
                    container_id: unit.container_id.clone(),
                    restarts: unit.attempt,
                    state: unit.state.clone(),
                    last: unit.last.clone(),
                    started: unit.live && health.started,
                    ready: (unit.live && health.ready) || (init && !sidecar),
                    sidecar,
                })
            })
            .collect()
    }

    pub(super) async fn write(&mut self, pod: &Value, failed: Option<(&str, &str)>) {
        let init = self.views(pod.list_at("spec.initContainers"));
        let mut main = self.views(pod.list_at("spec.containers"));
        for view in &mut main {
            // Ready is about serving: a main container that has completed does not.
            view.ready &= view.state.get("running").is_some();
            let initializing = init.iter().any(|c| {
                if c.sidecar { !c.started } else { c.state.int_at("terminated.exitCode") != Some(0) }
            });
            if initializing && view.state.str_at("waiting.reason") == "ContainerCreating" {
                view.state = waiting("PodInitializing", "");
            }
        }
        let host = host_ip();
        let facts =
            Facts { init: &init, main: &main, ip: &self.ip, sandbox: self.sandbox, host_ip: &host, failed };
        let uid = self.uid.clone();
        let result = self
            .cluster
            .modify("pods", &self.namespace, &self.name, "status", COMPONENT, |live| {
                if live.uid() == uid {
                    let status = status::build(live, &facts);
                    live.set_at("status", status);
                }
            })
            .await;
        if let Err(error) = result
            && !error.is_not_found()
        {
            tracing::warn!(pod = %self.name, %error, "Cannot write the status of a pod.");
        }
    }
}
