//! `slipway app render`: an Application's manifest and a folder in, the manifests that the engine would deploy out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;
use slipway_crd::Application;
use slipway_runtime::{RenderOffline, render_offline};

pub(super) async fn run(
    file: &Path,
    folder: PathBuf,
    kube_version: String,
    api_versions: Vec<String>,
    settings: Option<PathBuf>,
    tools: Vec<PathBuf>,
) -> anyhow::Result<ExitCode> {
    let app: Application = serde_json::from_value(document(file, "Application")?)
        .with_context(|| format!("{} is not an Application", file.display()))?;
    let settings: BTreeMap<String, String> = match settings {
        Some(path) => serde_json::from_value(document(&path, "ConfigMap")?["data"].clone())
            .with_context(|| format!("{} has no `data` of texts", path.display()))?,
        None => BTreeMap::new(),
    };
    let with = RenderOffline { folder, tools, kube_version, api_versions, settings };
    let objects = render_offline(&app, &with).await.map_err(|error| anyhow!(error))?;
    for object in &objects {
        say_part!("---\n{}", slipway_yaml::to_yaml(object));
    }
    Ok(ExitCode::SUCCESS)
}

/// The one object of a kind in a file.
fn document(path: &Path, kind: &str) -> anyhow::Result<Value> {
    let text = super::offline::read(path)?;
    let documents = slipway_yaml::load_all_json(&text).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(|error| format!("{}:{error}", path.display())).collect();
        anyhow!(all.join("\n"))
    })?;
    let mut found = documents.into_iter().map(|(object, _)| object).filter(|object| object["kind"] == kind);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => bail!("{} holds no {kind}", path.display()),
        (Some(_), Some(_)) => bail!("{} holds several objects of kind {kind}; give one", path.display()),
    }
}
