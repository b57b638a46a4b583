//! Rendering without a cluster or a control plane: an Application and a folder of files in, manifests out.
//!
//! The same code path as a reconcile from the sources on, so that anybody can compare with what another tool renders. Only
//! packaged charts are downloaded; Git is not asked, because the files are given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use slipway_crd::{AppProject, Application};
use slipway_gitops::Settings;
use slipway_source::{Archive, ChartCache, ChartLimits, GitCache, GitOptions, RenderLimits, Renderer, Since};

use crate::engines::applications::sources::{self, Surroundings};
use crate::settings::RepositoryAccess;

/// What an offline render depends on besides the Application.
#[derive(Debug, Clone, Default)]
pub struct RenderOffline {
    /// The work tree of the repository; `spec.source.path` is looked up in it.
    pub folder: PathBuf,
    /// Folders with helm, kustomize and jsonnet; they win over PATH.
    pub tools: Vec<PathBuf>,
    /// What charts are told of the cluster.
    pub kube_version: String,
    pub api_versions: Vec<String>,
    /// The data of `argocd-cm`, for Kustomize's settings.
    pub settings: BTreeMap<String, String>,
}

/// The manifests of an Application, in the order of its sources.
pub async fn render_offline(app: &Application, with: &RenderOffline) -> Result<Vec<Value>, String> {
    let folder = tempfile::Builder::new().prefix("slipway-render-").tempdir().map_err(|e| e.to_string())?;
    let git =
        GitCache::open(folder.path().join("mirrors"), GitOptions::default()).map_err(|e| e.to_string())?;
    let charts =
        ChartCache::open(folder.path().join("charts"), ChartLimits::default()).map_err(|e| e.to_string())?;
    let renderer = Renderer::new(Arc::new(git), folder.path().join("rendered"), RenderLimits::default())
        .map_err(|e| e.to_string())?
        .with_charts(Arc::new(charts))
        .with_tools(with.tools.clone());
    let (settings, problems): (Settings, _) =
        slipway_gitops::settings::from_config_map(&with.settings, "argocd");
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let read = with.folder.clone();
    let files = tokio::task::spawn_blocking(move || files(&read)).await.map_err(|e| e.to_string())??;
    let anything: AppProject = serde_json::from_value(serde_json::json!({
        "metadata": {"name": app.spec.project_name()},
        "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]},
    }))
    .map_err(|e| e.to_string())?;
    let around = Surroundings {
        renderer: &renderer,
        access: &Arc::new(RepositoryAccess::default()),
        project: Arc::new(anything),
        kustomize: &settings.kustomize,
        submodules: false,
        kube_version: &with.kube_version,
        api_versions: &with.api_versions,
        lookup: None,
        files: Some(Arc::new(files)),
        files_everywhere: true,
        fresh: true,
    };
    let sources = app.spec.effective_sources();
    let desired =
        sources::load(&around, app, &sources, &[], Since::now()).await.map_err(|e| e.to_string())?;
    Ok(desired.objects())
}

/// The files below a folder, without Git's own. Links to files are read; links to folders are not followed.
fn files(folder: &Path) -> Result<Archive, String> {
    fn add(folder: &Path, below: &str, out: &mut BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let (path, kind) = (entry.path(), entry.file_type().map_err(unreadable)?);
            if kind.is_dir() {
                if name != ".git" {
                    add(&path, &format!("{below}{name}/"), out)?;
                }
            } else if path.is_file() {
                let bytes =
                    std::fs::read(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
                out.insert(format!("{below}{name}"), bytes);
            }
        }
        Ok(())
    }
    let mut files = BTreeMap::new();
    add(folder, "", &mut files)?;
    Ok(Archive { name: "a folder".to_owned(), digest: folder.display().to_string(), files })
}
