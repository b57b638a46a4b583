//! A folder of a commit comes in, Kubernetes objects go out: plain files, Kustomize or Helm.
//!
//! The result is remembered on disk by the content that went in (folder ids and options), so an unchanged
//! input is never rendered twice, whichever commit it is reached by. What is rendered never sees this
//! machine: plain files are read from git's object store, tools run in a throw-away folder.

mod cache;
mod content;
mod directory;
mod edit;
mod environment;
mod error;
mod helm;
mod inflation;
mod jsonnet;
mod kustomization;
mod kustomize;
mod lookup;
mod manifest;
mod parameters;
mod plugin;
mod submodules;
mod workspace;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};

use crate::chart::ChartCache;
use crate::git::{GitCache, GitError, Repository};
use cache::Cache;

pub use content::Content;
pub use error::{Finding, RenderError};
pub use helm::{Helm, HelmParameter};
pub use jsonnet::{Jsonnet, JsonnetVariable};
pub use kustomize::{Kustomize, KustomizeTool};
pub use lookup::{Answer as LookupAnswer, Lookup};
pub use plugin::{Plugin, PluginParameter, PluginSpec};
pub use submodules::Submodules;

/// Options of plain files.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Directory {
    pub recurse: bool,
    /// Globs over paths relative to the folder; empty: everything, nothing.
    pub include: String,
    pub exclude: String,
    /// Every file counts, whatever its name ends with.
    pub any_extension: bool,
    pub jsonnet: Jsonnet,
}

/// How the folder is to be read.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub enum SourceOptions {
    /// By what is in it: `Chart.yaml`, a kustomization, else plain files.
    #[default]
    Detect,
    Directory(Directory),
    Kustomize(Box<Kustomize>),
    Helm(Box<Helm>),
    Plugin(Plugin),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceKind {
    Directory,
    Kustomize,
    Helm,
    Plugin,
}

impl SourceKind {
    /// The word in `status.sourceType`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "Directory",
            Self::Kustomize => "Kustomize",
            Self::Helm => "Helm",
            Self::Plugin => "Plugin",
        }
    }
}

/// Everything that the result depends on.
#[derive(Clone)]
pub struct RenderRequest {
    pub content: Content,
    /// What `$name/…` in value files leads into.
    pub references: BTreeMap<String, Content>,
    pub path: String,
    pub options: SourceOptions,
    /// Helm's release name unless the options say otherwise, and `ARGOCD_APP_NAME`.
    pub application: String,
    pub project: String,
    /// As the source names it, for `ARGOCD_APP_SOURCE_*`.
    pub repo_url: String,
    pub target_revision: String,
    /// What it means now. Only renders that use it depend on it.
    pub revision: String,
    pub namespace: String,
    pub kube_version: String,
    pub api_versions: Vec<String>,
    /// Which chart repositories may be asked, and with which credentials. None: not this one.
    pub repositories: Repositories,
    pub kustomize: KustomizeTool,
    /// Who answers `lookup` of charts. None: it finds nothing.
    pub lookup: Option<Arc<dyn Lookup>>,
    /// Nothing that was rendered or downloaded before counts.
    pub fresh: bool,
}

type FindRepository = dyn Fn(&str) -> Option<Repository> + Send + Sync;

/// Gives a repository for an address, if it may be asked.
#[derive(Clone)]
pub struct Repositories(pub Arc<FindRepository>);

impl Default for Repositories {
    fn default() -> Self {
        Self(Arc::new(|_| None))
    }
}

/// Where an object was written; the line is 0 for what a tool made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub file: String,
    pub line: usize,
    pub column: usize,
}

/// Objects as they were written, in file order, with where each came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rendered {
    pub kind: SourceKind,
    /// Equal digests are equal objects.
    pub digest: String,
    pub objects: Vec<Value>,
    pub origins: Vec<Origin>,
}

#[derive(Debug, Clone)]
pub struct RenderLimits {
    /// All files that are read, together.
    pub input_bytes: usize,
    /// What a tool may print.
    pub output_bytes: usize,
    pub objects: usize,
    pub deadline: Duration,
    /// The cache on disk.
    pub cache_bytes: u64,
    /// Tools at once.
    pub parallel: usize,
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self {
            input_bytes: 10 << 20,
            output_bytes: 64 << 20,
            objects: 20_000,
            deadline: Duration::from_secs(90),
            cache_bytes: 512 << 20,
            parallel: 4,
        }
    }
}

pub struct Renderer {
    git: Arc<GitCache>,
    cache: Cache,
    limits: RenderLimits,
    tools: Semaphore,
    charts: Option<Arc<ChartCache>>,
    /// Looked into before PATH.
    tool_folders: Vec<PathBuf>,
    plugins: std::sync::RwLock<Arc<Vec<PluginSpec>>>,
    /// One render per input however many ask at once.
    running: std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

/// What one render used and made.
struct Made {
    kind: SourceKind,
    objects: Vec<(Value, Origin)>,
    /// Files and folders outside of the source folder that were read.
    outside: Vec<String>,
    /// What was asked of the cluster, and a digest of each answer. Such paths begin with `/`, unlike those of files.
    asked: BTreeMap<String, String>,
}

impl Renderer {
    pub fn new(
        git: Arc<GitCache>,
        folder: impl AsRef<Path>,
        limits: RenderLimits,
    ) -> Result<Self, RenderError> {
        let cache = Cache::open(folder.as_ref(), limits.cache_bytes)?;
        let tools = Semaphore::new(limits.parallel.max(1));
        let plugins = std::sync::RwLock::default();
        Ok(Self {
            git,
            cache,
            limits,
            tools,
            charts: None,
            tool_folders: Vec::new(),
            plugins,
            running: Default::default(),
        })
    }

    /// Charts may depend on packaged charts; without this they have to bring them along.
    pub fn with_charts(mut self, charts: Arc<ChartCache>) -> Self {
        self.charts = Some(charts);
        self
    }

    /// Folders with helm, kustomize and jsonnet; they win over PATH.
    pub fn with_tools(mut self, folders: Vec<PathBuf>) -> Self {
        // A caged program knows no current folder of ours.
        self.tool_folders = folders.iter().filter_map(|folder| std::path::absolute(folder).ok()).collect();
        self
    }

    pub fn charts(&self) -> Option<&Arc<ChartCache>> {
        self.charts.as_ref()
    }

    pub fn git(&self) -> &Arc<GitCache> {
        &self.git
    }

    /// The config-management plugins that sources may name.
    pub fn set_plugins(&self, plugins: Vec<PluginSpec>) {
        *self.plugins.write().expect("no panic while locked") = Arc::new(plugins);
    }

    /// One file of a source, for those who must look before they ask for a render.
    pub async fn file(&self, content: &Content, path: &str) -> Result<Option<Vec<u8>>, GitError> {
        content.file(&self.git, path).await
    }

    /// A tool by the folder that has it, else by its name.
    fn program(&self, tool: &str) -> String {
        let installed = self.tool_folders.iter().map(|folder| folder.join(tool)).find(|path| path.is_file());
        installed.map_or_else(|| tool.to_owned(), |path| path.display().to_string())
    }

    fn plugins(&self) -> Arc<Vec<PluginSpec>> {
        self.plugins.read().expect("no panic while locked").clone()
    }

    /// From the cache when the same content was rendered with the same options before.
    pub async fn render(&self, request: &RenderRequest) -> Result<Arc<Rendered>, RenderError> {
        let folder = request
            .content
            .content_id(&self.git, &request.path)
            .await?
            .ok_or_else(|| GitError::PathNotFound { path: request.path.clone() })?;
        let key = self.input_key(request, &folder);
        if !request.fresh
            && let Some(found) = self.remembered(request, &key).await?
        {
            return Ok(found);
        }
        let gate = {
            let mut running = self.running.lock().expect("no panic while locked");
            running.retain(|_, gate| Arc::strong_count(gate) > 1);
            running.entry(key.clone()).or_default().clone()
        };
        let _turn = gate.lock().await;
        if !request.fresh
            && let Some(found) = self.remembered(request, &key).await?
        {
            return Ok(found);
        }
        let mut made = self.make(request).await?;
        if made.objects.len() > self.limits.objects {
            return Err(RenderError::TooLarge {
                what: format!("{} objects", made.objects.len()),
                limit: format!("{}", self.limits.objects),
            });
        }
        let (objects, origins): (Vec<_>, Vec<_>) = made.objects.into_iter().unzip();
        let digest = objects_digest(&objects);
        let rendered = Arc::new(Rendered { kind: made.kind, digest, objects, origins });
        made.outside.extend(made.asked.keys().cloned());
        let full = self.full_key(request, &key, &made.outside, &made.asked).await?;
        self.cache.store(&key, &made.outside, &full, &rendered)?;
        Ok(rendered)
    }

    async fn remembered(
        &self,
        request: &RenderRequest,
        key: &str,
    ) -> Result<Option<Arc<Rendered>>, RenderError> {
        let Some(outside) = self.cache.outside(key) else { return Ok(None) };
        let full = self.full_key(request, key, &outside, &BTreeMap::new()).await?;
        Ok(self.cache.load(&full))
    }

    /// The input key plus the content of what was read outside of the folder. What was asked of the cluster is asked
    /// again, unless the answers are those of a render that has just ended.
    async fn full_key(
        &self,
        request: &RenderRequest,
        key: &str,
        outside: &[String],
        asked: &BTreeMap<String, String>,
    ) -> Result<String, RenderError> {
        if outside.is_empty() {
            return Ok(key.to_owned());
        }
        let mut parts = vec![key.to_owned()];
        for path in outside {
            if helm::is_repository(path) {
                // Its charts are in the result: whoever may not ask it does not get what another's render took from it.
                let may = (request.repositories.0)(path).is_some();
                parts.extend([path.clone(), may.to_string()]);
                continue;
            }
            let id = match environment::reference(request, path) {
                Some((content, path)) => content.content_id(&self.git, path).await?,
                None if path.starts_with('/') => Some(match asked.get(path) {
                    Some(digest) => digest.clone(),
                    None => lookup::digest_now(request.lookup.as_ref(), path).await?,
                }),
                None => request.content.content_id(&self.git, path).await?,
            };
            parts.push(path.clone());
            parts.push(id.unwrap_or_default());
        }
        Ok(digest(parts.iter().map(String::as_str)))
    }

    async fn make(&self, request: &RenderRequest) -> Result<Made, RenderError> {
        match &request.options {
            SourceOptions::Directory(options) => directory::render(self, request, options).await,
            SourceOptions::Kustomize(options) => kustomize::render(self, request, options).await,
            SourceOptions::Helm(options) => helm::render(self, request, options).await,
            SourceOptions::Plugin(options) => plugin::render(self, request, options).await,
            SourceOptions::Detect => match self.detect(request).await? {
                SourceKind::Directory => directory::render(self, request, &Directory::default()).await,
                SourceKind::Kustomize => kustomize::render(self, request, &Kustomize::default()).await,
                SourceKind::Helm => helm::render(self, request, &Helm::default()).await,
                SourceKind::Plugin => plugin::render(self, request, &Plugin::default()).await,
            },
        }
    }

    fn input_key(&self, request: &RenderRequest, folder: &str) -> String {
        let options = serde_json::to_string(&request.options).expect("options are plain data");
        let apis = request.api_versions.join(",");
        // Another edition of a plugin may make other manifests from the same files.
        let plugins = match &request.options {
            SourceOptions::Plugin(_) | SourceOptions::Detect => {
                serde_json::to_string(&*self.plugins()).expect("specifications are plain data")
            }
            _ => String::new(),
        };
        let kustomize = match &request.options {
            SourceOptions::Kustomize(_) | SourceOptions::Detect
                if request.kustomize != KustomizeTool::default() =>
            {
                serde_json::to_string(&request.kustomize).expect("plain data")
            }
            _ => String::new(),
        };
        let key = digest([
            // Raised when a renderer's output changes for the same input.
            "render-5",
            folder,
            &request.path,
            &options,
            &request.application,
            &request.namespace,
            &request.kube_version,
            &apis,
            &plugins,
            &kustomize,
            &environment::fingerprint(request),
        ]);
        if request.lookup.is_some() { digest([&*key, "lookup"]) } else { key }
    }

    async fn detect(&self, request: &RenderRequest) -> Result<SourceKind, RenderError> {
        if plugin::discovers(self, request).await? {
            return Ok(SourceKind::Plugin);
        }
        let tree = request.content.tree(&self.git, &request.path, false).await?;
        let has = |name: &str| tree.entries.contains_key(name);
        Ok(if has("Chart.yaml") {
            SourceKind::Helm
        } else if kustomize::FILE_NAMES.iter().any(|name| has(name)) {
            SourceKind::Kustomize
        } else {
            SourceKind::Directory
        })
    }
}

/// Every field with its length first, so that no two inputs run together.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(hash.finalize())
}

fn objects_digest(objects: &[Value]) -> String {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    digest(texts.iter().map(String::as_str))
}

/// Files by path from the repository's root.
type Files = BTreeMap<String, Vec<u8>>;
