//! The manifests that an Application wants: its sources resolved, rendered and put together.

mod options;
mod overrides;
mod trust;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use slipway_crd::{AppProject, Application, ApplicationSource, ConditionType};
use slipway_gitops::cluster::KustomizeSettings;
use slipway_model::Next;
use slipway_source::{
    Archive, ChartError, Commit, Content, GitError, Lookup, Origin, RenderError, RenderRequest, Rendered,
    Renderer, Since,
};

use crate::settings::RepositoryAccess;
use options::{kustomize_tool, options};
use overrides::with_overrides;
use trust::{check_signature, permitted, submodules};

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
    pub(crate) fn condition(&self) -> ConditionType {
        match self {
            Self::Spec(_) => ConditionType::InvalidSpecError,
            _ => ConditionType::ComparisonError,
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
