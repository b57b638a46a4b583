//! What the namespace of the control plane says: settings in `argocd-cm`, credentials in labelled Secrets.
//!
//! [`CurrentSettings`] has what was read last and is shared by all; [`read_settings`] and [`RepositoryAccess::read`] read it
//! from the copy of the cluster. Nothing here decides when to read.

mod access;
mod current;

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::Value;
use slipway_cluster::{Cluster, ObjectKey};
use slipway_gitops::Settings;

pub(crate) use access::{KEYS, RepositoryAccess};
pub(crate) use current::{CurrentSettings, tracking_by};

pub(crate) const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";

/// Reads `argocd-cm`; what is not there, or not usable, has Argo's default.
fn read_settings(cluster: &Cluster, namespace: &str) -> Settings {
    let data = |name: &str| {
        let key = ObjectKey::new("", "ConfigMap", namespace, name);
        let object = cluster.live(&key).and_then(|live| live.object()).unwrap_or_default();
        serde_json::from_value::<BTreeMap<String, String>>(object["data"].clone()).unwrap_or_default()
    };
    let (mut settings, problems) = slipway_gitops::settings::from_config_map(&data("argocd-cm"), namespace);
    for problem in problems {
        tracing::warn!(%problem, "A setting in argocd-cm cannot be used; it is left out.");
    }
    let commands = data("argocd-cmd-params-cm");
    if let Some(seconds) = commands.get("controller.sync.timeout.seconds").and_then(|text| text.parse().ok())
    {
        settings.sync_timeout_seconds = seconds;
    }
    if let Some(seconds) =
        commands.get("controller.sync.wave.timeout.seconds").and_then(|text| text.parse().ok())
    {
        settings.wave_timeout_seconds = seconds;
    }
    let list = |name: &str| -> Vec<String> {
        let patterns = commands.get(name).map_or("", String::as_str).split(',');
        patterns.map(str::trim).filter(|pattern| !pattern.is_empty()).map(str::to_owned).collect()
    };
    settings.application_namespaces = list("application.namespaces");
    settings.application_set_namespaces = list("applicationsetcontroller.namespaces");
    settings.submodules = commands.get("reposerver.enable.git.submodule").is_none_or(|on| on != "false");
    settings.server_side_diff = commands.get("controller.diff.server.side").is_some_and(|on| on == "true");
    settings
}

pub(crate) fn field(data: &Value, name: &str) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(data[name].as_str()?).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}
