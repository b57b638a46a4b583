//! The manifests that an Application wants: its sources resolved, rendered and put together.

use std::sync::Arc;

use serde_json::Value;
use slipway_crd::{Application, ApplicationSource};
use slipway_model::Next;
use slipway_source::{
    Commit, Directory, GitError, Helm, HelmParameter, Kustomize, Origin, RenderError, RenderRequest,
    Rendered, Renderer, Since, SourceOptions,
};

use crate::settings::RepositoryAccess;

/// What one set of sources gives at one set of revisions.
pub(crate) struct Desired {
    pub(crate) sources: Vec<ApplicationSource>,
    /// One per source; a source that is only referred to has one too.
    pub(crate) commits: Vec<Commit>,
    pub(crate) parts: Vec<Arc<Rendered>>,
    /// Set for manifests that came with the operation itself.
    pub(crate) local: Vec<Value>,
}

impl Desired {
    pub(crate) fn objects(&self) -> Vec<Value> {
        let rendered = self.parts.iter().flat_map(|part| part.objects.iter().cloned());
        rendered.chain(self.local.iter().cloned()).collect()
    }

    pub(crate) fn revisions(&self) -> Vec<String> {
        self.commits.iter().map(|commit| commit.sha.clone()).collect()
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
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl SourceError {
    pub(crate) fn next(&self) -> Next {
        match self {
            Self::Spec(_) => Next::NeedsHuman,
            Self::Git(error) => error.next(),
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
    pub(crate) access: &'a RepositoryAccess,
    pub(crate) kube_version: &'a str,
    pub(crate) api_versions: &'a [String],
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
    let mut desired =
        Desired { sources: sources.to_vec(), commits: Vec::new(), parts: Vec::new(), local: Vec::new() };
    for (index, source) in sources.iter().enumerate() {
        let repository = around.access.repository(&source.repo_url);
        let options = options(source)?;
        let revision = pinned.get(index).filter(|text| !text.is_empty()).unwrap_or(&source.target_revision);
        let commit = around.renderer.git().resolve(&repository, revision, since).await?;
        desired.commits.push(commit.clone());
        // A source with only a `ref` lends its files to others and renders nothing.
        if !source.reference.is_empty() && source.path.is_empty() {
            continue;
        }
        let request = RenderRequest {
            repository,
            commit,
            path: source.path.clone(),
            options,
            application: application.metadata.name.clone(),
            namespace: application.spec.destination.namespace.clone(),
            kube_version: around.kube_version.to_owned(),
            api_versions: around.api_versions.to_vec(),
        };
        desired.parts.push(around.renderer.render(&request).await?);
    }
    Ok(desired)
}

fn options(source: &ApplicationSource) -> Result<SourceOptions, SourceError> {
    let spec = |message: &str| Err(SourceError::Spec(message.to_owned()));
    if source.repo_url.is_empty() {
        return spec("spec.source.repoURL is missing; name a repository");
    }
    if !source.chart.is_empty() || source.repo_url.starts_with("oci://") {
        return spec(
            "charts from Helm and OCI repositories are not read yet; put the chart into a Git repository",
        );
    }
    if source.plugin.is_some() {
        return spec("config-management plugins are not run yet; commit what the plugin makes");
    }
    let blocks = [source.helm.is_some(), source.kustomize.is_some(), source.directory.is_some()];
    if blocks.iter().filter(|set| **set).count() > 1 {
        return spec("only one of helm, kustomize and directory may be set in a source");
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
        }))
    } else if let Some(kustomize) = &source.kustomize {
        SourceOptions::Kustomize(Box::new(Kustomize {
            name_prefix: kustomize.name_prefix.clone(),
            name_suffix: kustomize.name_suffix.clone(),
            namespace: kustomize.namespace.clone(),
            images: kustomize.images.clone(),
            common_labels: kustomize.common_labels.clone(),
            label_without_selector: kustomize.label_without_selector,
            label_include_templates: kustomize.label_include_templates,
            common_annotations: kustomize.common_annotations.clone(),
            replicas: kustomize.replicas.iter().map(|r| (r.name.clone(), count(&r.count))).collect(),
            patches: kustomize.patches.iter().filter_map(|p| serde_json::to_value(p).ok()).collect(),
            components: kustomize.components.clone(),
        }))
    } else if let Some(directory) = &source.directory {
        if directory.jsonnet.as_ref().is_some_and(|j| !j.tlas.is_empty() || !j.ext_vars.is_empty()) {
            return spec("jsonnet is not rendered yet; commit its output as YAML");
        }
        // An empty `directory: {}` chooses nothing: Argo still detects charts and kustomizations then.
        if *directory == slipway_crd::DirectorySource::default() {
            SourceOptions::Detect
        } else {
            SourceOptions::Directory(Directory {
                recurse: directory.recurse,
                include: directory.include.clone(),
                exclude: directory.exclude.clone(),
            })
        }
    } else {
        SourceOptions::Detect
    })
}

/// A replica count is a number or a text with one.
fn count(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok())).unwrap_or(0)
}
