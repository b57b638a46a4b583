//! The manifests that an Application wants: its sources resolved, rendered and put together.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use slipway_crd::{AppProject, Application, ApplicationSource};
use slipway_gitops::cluster::KustomizeSettings;
use slipway_gitops::project;
use slipway_model::Next;
use slipway_source::{
    Archive, ChartError, Commit, Content, Directory, GitError, Helm, HelmParameter, Jsonnet, JsonnetVariable,
    Kustomize, KustomizeTool, Lookup, Origin, Plugin, PluginParameter, RenderError, RenderRequest, Rendered,
    Renderer, Repositories, Repository, Since, SourceOptions, Submodules,
};

use crate::settings::RepositoryAccess;

/// What a source's revision means now: a commit, or a version of a chart.
pub(crate) struct Revision {
    pub(crate) id: String,
    pub(crate) commit: Option<Commit>,
}

/// What one set of sources gives at one set of revisions.
pub(crate) struct Desired {
    pub(crate) sources: Vec<ApplicationSource>,
    /// One per source; a source that is only referred to has one too.
    pub(crate) revisions: Vec<Revision>,
    pub(crate) parts: Vec<Arc<Rendered>>,
    /// Set for manifests that came with the operation itself.
    pub(crate) local: Vec<Value>,
    pub(crate) kustomize: KustomizeSettings,
    /// Charts could look at the cluster.
    pub(crate) looked_up: bool,
}

impl Desired {
    pub(crate) fn objects(&self) -> Vec<Value> {
        let rendered = self.parts.iter().flat_map(|part| part.objects.iter().cloned());
        rendered.chain(self.local.iter().cloned()).collect()
    }

    pub(crate) fn revisions(&self) -> Vec<String> {
        self.revisions.iter().map(|revision| revision.id.clone()).collect()
    }

    pub(crate) fn source_types(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.kind.as_str().to_owned()).collect()
    }

    /// Objects with the place where each was written.
    pub(crate) fn with_origins(&self) -> impl Iterator<Item = (&Value, &Origin)> {
        self.parts.iter().flat_map(|part| part.objects.iter().zip(&part.origins))
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{0}")]
    Spec(String),
    #[error("{0}")]
    Signer(String),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl SourceError {
    pub(crate) fn next(&self) -> Next {
        match self {
            Self::Spec(_) | Self::Signer(_) => Next::NeedsHuman,
            Self::Git(error) => error.next(),
            Self::Chart(error) => error.next(),
            Self::Render(error) => error.next(),
        }
    }

    /// The condition's type.
    pub(crate) fn condition(&self) -> &'static str {
        match self {
            Self::Spec(_) => "InvalidSpecError",
            _ => "ComparisonError",
        }
    }
}

/// What the render depends on besides the sources.
pub(crate) struct Surroundings<'a> {
    pub(crate) renderer: &'a Renderer,
    pub(crate) access: &'a Arc<RepositoryAccess>,
    pub(crate) project: Arc<AppProject>,
    pub(crate) kustomize: &'a KustomizeSettings,
    /// Submodules are read too.
    pub(crate) submodules: bool,
    pub(crate) kube_version: &'a str,
    pub(crate) api_versions: &'a [String],
    /// Who answers what charts look up.
    pub(crate) lookup: Option<Arc<dyn Lookup>>,
    /// Files in the place of those of the first source.
    pub(crate) files: Option<Arc<Archive>>,
    /// They stand for every Git repository that the sources name.
    pub(crate) files_everywhere: bool,
    /// Nothing that was rendered or downloaded before counts.
    pub(crate) fresh: bool,
}

/// Resolves and renders every source. `pinned` gives revisions instead of the sources' own, one per source.
pub(crate) async fn load(
    around: &Surroundings<'_>,
    application: &Application,
    sources: &[ApplicationSource],
    pinned: &[String],
    since: Since,
) -> Result<Desired, SourceError> {
    if sources.is_empty() {
        return Err(SourceError::Spec("spec.source is missing; name a repository and a path".into()));
    }
    let mut desired = Desired {
        sources: sources.to_vec(),
        revisions: Vec::new(),
        parts: Vec::new(),
        local: Vec::new(),
        kustomize: around.kustomize.clone(),
        looked_up: around.lookup.is_some(),
    };
    let mut contents = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let wanted = pinned.get(index).filter(|text| !text.is_empty()).unwrap_or(&source.target_revision);
        let given = index == 0 || around.files_everywhere;
        let given = given && !(around.files_everywhere && is_chart(source));
        let (content, revision) = match around.files.as_ref().filter(|_| given) {
            Some(files) => (Content::Archive(files.clone()), Revision { id: String::new(), commit: None }),
            None => fetch(around, source, wanted, since).await?,
        };
        contents.push(content);
        desired.revisions.push(revision);
    }
    let references = references(sources, &contents)?;
    for ((source, content), revision) in sources.iter().zip(contents).zip(&desired.revisions) {
        // A source with only a `ref` lends its files to others and renders nothing.
        if !source.reference.is_empty() && source.path.is_empty() && source.chart.is_empty() {
            continue;
        }
        let source = with_overrides(around.renderer, &content, source, &application.metadata.name).await?;
        let request = RenderRequest {
            content,
            references: references.clone(),
            path: source.path.clone(),
            options: options(&source)?,
            application: application.metadata.name.clone(),
            project: application.spec.project_name().to_owned(),
            repo_url: source.repo_url.clone(),
            target_revision: source.target_revision.clone(),
            revision: revision.id.clone(),
            namespace: application.spec.destination.namespace.clone(),
            kube_version: around.kube_version.to_owned(),
            api_versions: around.api_versions.to_vec(),
            repositories: permitted(around),
            kustomize: kustomize_tool(around.kustomize, &source)?,
            lookup: around.lookup.clone(),
            fresh: around.fresh,
        };
        desired.parts.push(around.renderer.render(&request).await?);
    }
    Ok(desired)
}

/// The files of one source at the revision that is wanted.
async fn fetch(
    around: &Surroundings<'_>,
    source: &ApplicationSource,
    wanted: &str,
    since: Since,
) -> Result<(Content, Revision), SourceError> {
    if source.repo_url.is_empty() {
        return Err(SourceError::Spec("spec.source.repoURL is missing; name a repository".into()));
    }
    if !is_chart(source) {
        let repository = around.access.repository(&source.repo_url);
        let commit = around.renderer.git().resolve(&repository, wanted, since).await?;
        check_signature(around, &repository, &commit, &[wanted, &source.target_revision]).await?;
        let revision = Revision { id: commit.sha.clone(), commit: Some(commit.clone()) };
        let submodules = submodules(around, &repository, &commit).await?;
        return Ok((Content::Git { repository, commit, submodules }, revision));
    }
    let Some(charts) = around.renderer.charts() else {
        return Err(SourceError::Spec("packaged charts are not read here; put the chart into Git".into()));
    };
    let repository = around.access.chart_repository(&source.repo_url);
    let version = charts.resolve(&repository, &source.chart, wanted, since).await?;
    if around.fresh {
        charts.forget(&repository, &source.chart, &version);
    }
    let pass = source.helm.as_ref().is_some_and(|helm| helm.pass_credentials);
    let archive = charts.archive(&repository, &source.chart, &version, pass).await?;
    Ok((Content::Archive(archive), Revision { id: version.version, commit: None }))
}

/// What a commit brings along of other repositories. Those that the project does not permit are read with the
/// credentials of this one, if they are on its host, as git itself would.
async fn submodules(
    around: &Surroundings<'_>,
    repository: &Repository,
    commit: &Commit,
) -> Result<Submodules, SourceError> {
    if !around.submodules {
        return Ok(Submodules::default());
    }
    let (access, project, parent) = (around.access.clone(), around.project.clone(), repository.clone());
    let choose = move |url: &str| {
        if project::permits_source(&project, url) {
            return access.repository(url);
        }
        let host =
            |url: &str| url.split_once("://").map(|(_, rest)| rest.split('/').next().map(str::to_owned));
        if host(url).is_some() && host(url) == host(&parent.url) {
            Repository { url: url.to_owned(), credentials: parent.credentials.clone() }
        } else {
            Repository::public(url)
        }
    };
    Ok(Submodules::read(around.renderer.git(), repository, commit, Arc::new(choose)).await?)
}

/// Refuses a commit that the project wants to be signed by somebody else than it is.
async fn check_signature(
    around: &Surroundings<'_>,
    repository: &Repository,
    commit: &Commit,
    names: &[&str],
) -> Result<(), SourceError> {
    let rules = project::signature_rules(&around.project, &repository.url).map_err(SourceError::Spec)?;
    if rules.is_empty() {
        return Ok(());
    }
    let (git, keys) = (around.renderer.git(), &around.access.keys);
    let stranger = |commit: &str, signer: &[String]| {
        SourceError::Signer(format!(
            "commit {commit} has a good signature by {}, which is not a key that project '{}' trusts",
            signer.first().map_or("", String::as_str),
            around.project.metadata.name
        ))
    };
    let signer = git.signer(repository, commit, names, keys).await?;
    if !rules.iter().all(|rule| project::is_signer(&rule.keys, &signer)) {
        return Err(stranger(&commit.sha, &signer));
    }
    for rule in rules.iter().filter(|rule| rule.history) {
        let trusts = |signer: &[String]| project::is_signer(&rule.keys, signer);
        if let Some((found, signer)) = git.distrusted(repository, commit, keys, &trusts).await? {
            return Err(stranger(&found, &signer));
        }
    }
    Ok(())
}

pub(crate) fn is_chart(source: &ApplicationSource) -> bool {
    !source.chart.is_empty() || source.repo_url.starts_with("oci://")
}

/// What `$name` in value files means.
fn references(
    sources: &[ApplicationSource],
    contents: &[Content],
) -> Result<BTreeMap<String, Content>, SourceError> {
    let mut out = BTreeMap::new();
    for (source, content) in sources.iter().zip(contents).filter(|(source, _)| !source.reference.is_empty()) {
        if is_chart(source) {
            return Err(SourceError::Spec(format!(
                "source `{}` has both a chart and a ref; only Git repositories can be referred to",
                source.reference
            )));
        }
        if out.insert(source.reference.clone(), content.clone()).is_some() {
            return Err(SourceError::Spec(format!(
                "two sources have the ref `{}`; rename one",
                source.reference
            )));
        }
    }
    Ok(out)
}

/// Chart repositories that the project lets its charts depend on.
fn permitted(around: &Surroundings<'_>) -> Repositories {
    let (access, project) = (around.access.clone(), around.project.clone());
    Repositories(Arc::new(move |url| {
        project::permits_source(&project, url).then(|| access.chart_repository(url))
    }))
}

/// `.argocd-source.yaml` and `.argocd-source-<application>.yaml` beside the manifests change how they are rendered,
/// never where they come from.
async fn with_overrides(
    renderer: &Renderer,
    content: &Content,
    source: &ApplicationSource,
    application: &str,
) -> Result<ApplicationSource, SourceError> {
    let mut merged = None;
    for name in [".argocd-source.yaml".to_owned(), format!(".argocd-source-{application}.yaml")] {
        let path = format!("{}/{name}", source.path.trim_matches('/')).trim_start_matches('/').to_owned();
        let Some(bytes) = renderer.file(content, &path).await? else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let unreadable = |detail: String| SourceError::Spec(format!("{path} cannot be used: {detail}"));
        let documents = slipway_yaml::load_all_json(&text).map_err(|errors| {
            unreadable(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        let Some((patch, _)) = documents.into_iter().next() else { continue };
        let mut value = match merged.take() {
            Some(value) => value,
            None => serde_json::to_value(source).expect("a source is plain data"),
        };
        merge(&mut value, patch);
        let read: ApplicationSource =
            serde_json::from_value(value.clone()).map_err(|error| unreadable(error.to_string()))?;
        let kept = ApplicationSource {
            repo_url: source.repo_url.clone(),
            path: source.path.clone(),
            target_revision: source.target_revision.clone(),
            chart: source.chart.clone(),
            reference: source.reference.clone(),
            ..read
        };
        merged = Some(serde_json::to_value(kept).expect("a source is plain data"));
    }
    Ok(merged.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_else(|| source.clone()))
}

/// JSON merge patch.
fn merge(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = Value::Object(serde_json::Map::new());
            }
            for (name, value) in fields {
                if value.is_null() {
                    target.as_object_mut().expect("made one above").remove(&name);
                } else {
                    merge(&mut target[name.as_str()], value);
                }
            }
        }
        other => *target = other,
    }
}

/// The kustomize that a source asks for, as the operator's settings have it.
fn kustomize_tool(
    settings: &KustomizeSettings,
    source: &ApplicationSource,
) -> Result<KustomizeTool, SourceError> {
    let version = source.kustomize.as_ref().map_or("", |kustomize| kustomize.version.as_str());
    if version.is_empty() {
        return Ok(KustomizeTool { program: None, build_options: settings.build_options.clone() });
    }
    let known = settings.versions.get(version).filter(|known| !known.path.is_empty()).ok_or_else(|| {
        SourceError::Spec(format!(
            "kustomize {version} is not known here: set `kustomize.path.{version}` in argocd-cm to its program, or remove kustomize.version"
        ))
    })?;
    Ok(KustomizeTool {
        program: Some(known.path.clone().into()),
        build_options: known.build_options.clone().unwrap_or_else(|| settings.build_options.clone()),
    })
}

fn options(source: &ApplicationSource) -> Result<SourceOptions, SourceError> {
    let spec = |message: &str| Err(SourceError::Spec(message.to_owned()));
    let blocks = [
        source.helm.is_some(),
        source.kustomize.is_some(),
        source.directory.is_some(),
        source.plugin.is_some(),
    ];
    if blocks.iter().filter(|set| **set).count() > 1 {
        return spec("only one of helm, kustomize, directory and plugin may be set in a source");
    }
    if source.helm.as_ref().is_some_and(|helm| !matches!(helm.version.as_str(), "" | "v3")) {
        return spec("helm.version can only be v3");
    }
    if let Some(plugin) = &source.plugin {
        return Ok(SourceOptions::Plugin(Plugin {
            name: plugin.name.clone(),
            env: plugin.env.iter().map(|entry| (entry.name.clone(), entry.value.clone())).collect(),
            parameters: plugin
                .parameters
                .iter()
                .map(|parameter| PluginParameter {
                    name: parameter.name.clone(),
                    string: parameter.string.clone(),
                    array: parameter.array.clone(),
                    map: parameter.map.clone(),
                })
                .collect(),
        }));
    }
    Ok(if let Some(helm) = &source.helm {
        SourceOptions::Helm(Box::new(Helm {
            release_name: helm.release_name.clone(),
            namespace: helm.namespace.clone(),
            value_files: helm.value_files.clone(),
            ignore_missing_value_files: helm.ignore_missing_value_files,
            values: helm.values.clone(),
            values_object: helm.values_object.clone(),
            parameters: helm
                .parameters
                .iter()
                .map(|p| HelmParameter {
                    name: p.name.clone(),
                    value: p.value.clone(),
                    force_string: p.force_string,
                })
                .collect(),
            file_parameters: helm.file_parameters.iter().map(|p| (p.name.clone(), p.path.clone())).collect(),
            skip_crds: helm.skip_crds,
            skip_tests: helm.skip_tests,
            skip_schema_validation: helm.skip_schema_validation,
            kube_version: helm.kube_version.clone(),
            api_versions: helm.api_versions.clone(),
            pass_credentials: helm.pass_credentials,
        }))
    } else if let Some(kustomize) = &source.kustomize {
        SourceOptions::Kustomize(Box::new(Kustomize {
            name_prefix: kustomize.name_prefix.clone(),
            name_suffix: kustomize.name_suffix.clone(),
            namespace: kustomize.namespace.clone(),
            images: kustomize.images.clone(),
            common_labels: kustomize.common_labels.clone(),
            force_common_labels: kustomize.force_common_labels,
            label_without_selector: kustomize.label_without_selector,
            label_include_templates: kustomize.label_include_templates,
            common_annotations: kustomize.common_annotations.clone(),
            force_common_annotations: kustomize.force_common_annotations,
            replicas: kustomize.replicas.iter().map(|r| (r.name.clone(), count(&r.count))).collect(),
            patches: kustomize.patches.iter().filter_map(|p| serde_json::to_value(p).ok()).collect(),
            components: kustomize.components.clone(),
            annotations_with_variables: kustomize.common_annotations_envsubst,
            ignore_missing_components: kustomize.ignore_missing_components,
            kube_version: kustomize.kube_version.clone(),
            api_versions: kustomize.api_versions.clone(),
        }))
    } else if let Some(directory) = &source.directory {
        // An empty `directory: {}` chooses nothing: Argo still detects charts and kustomizations then.
        if *directory == slipway_crd::DirectorySource::default() {
            SourceOptions::Detect
        } else {
            SourceOptions::Directory(Directory {
                recurse: directory.recurse,
                include: directory.include.clone(),
                exclude: directory.exclude.clone(),
                any_extension: directory.disable_extension_filter,
                jsonnet: jsonnet(directory.jsonnet.as_ref()),
            })
        }
    } else {
        SourceOptions::Detect
    })
}

fn jsonnet(options: Option<&slipway_crd::Jsonnet>) -> Jsonnet {
    let variables = |list: &[slipway_crd::JsonnetVar]| {
        let one = |variable: &slipway_crd::JsonnetVar| JsonnetVariable {
            name: variable.name.clone(),
            value: variable.value.clone(),
            code: variable.code,
        };
        list.iter().map(one).collect()
    };
    options.map_or_else(Jsonnet::default, |options| Jsonnet {
        external: variables(&options.ext_vars),
        arguments: variables(&options.tlas),
        libraries: options.libs.clone(),
    })
}

/// A replica count is a number or a text with one.
fn count(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok())).unwrap_or(0)
}
