//! The repository server that the CLI asks: what a branch means now, what a source renders to, who made a commit.
//!
//! A source is held against the Application's project and read with the installation's credentials. Files that a caller
//! sends are rendered as all are, in a cage; what an operator lets a plugin see of the machine is not there for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use prost::Message;
use slipway_crd::{Application, ApplicationSource};
use slipway_gitops::{project, tracking};
use slipway_reconcile::Wake;
use slipway_source::{Archive, Since};
use tokio::net::TcpListener;

use super::Core;
use super::grpc::{Answers, Refusal};
use super::messages::{
    AppDetailsQuery, AppDetailsResponse, Empty, ManifestRequest, ManifestRequestWithFiles, ManifestResponse,
    RefTarget, Repository, RepositoryRequest, ResolveRevisionRequest, ResolveRevisionResponse,
    RevisionMetadata, RevisionRequest, Source, TestRepositoryResponse, Time,
};
use crate::clusters::IN_CLUSTER;
use crate::engines::applications::manifests::Failure;
use crate::engines::applications::sources::{self, Desired, SourceError, Surroundings};
use crate::engines::applications::{Memory, permits};

const SERVICE: &str = "/repository.RepoServerService/";

pub(super) async fn serve(core: Arc<Core>, listener: TcpListener) {
    super::grpc::serve(listener, Arc::new(RepoServer { core })).await;
}

struct RepoServer {
    core: Arc<Core>,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::unknown(failure.message)
    }
}

impl From<SourceError> for Refusal {
    fn from(error: SourceError) -> Self {
        Self::unknown(error.to_string())
    }
}

fn read<M: Message + Default>(messages: Vec<Bytes>) -> Result<M, Refusal> {
    match <[Bytes; 1]>::try_from(messages) {
        Ok([message]) => decode(message),
        Err(_) => Err(Refusal::unimplemented("one message is read at a time, not a stream of them")),
    }
}

fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Refusal> {
    M::decode(bytes).map_err(|error| Refusal::malformed(format!("the question cannot be read: {error}")))
}

/// A question in parts, and the files that came with it.
fn with_files(messages: Vec<Bytes>) -> Result<(ManifestRequest, Archive), Refusal> {
    let (mut asked, mut checksum, mut packed) = (None, String::new(), Vec::new());
    for message in messages {
        let part: ManifestRequestWithFiles = decode(message)?;
        asked = part.request.or(asked);
        checksum = part.metadata.map_or(checksum, |metadata| metadata.checksum);
        packed.extend(part.chunk.map(|chunk| chunk.chunk).unwrap_or_default());
    }
    let asked = asked.ok_or_else(|| Refusal::malformed("files came without a question"))?;
    let files = Archive::of_folder(&packed).map_err(|error| Refusal::malformed(error.to_string()))?;
    let came = files.digest.trim_start_matches("sha256:");
    if !checksum.is_empty() && !checksum.eq_ignore_ascii_case(came) {
        return Err(Refusal::malformed(
            "the files that came are not those that were packed: send them again",
        ));
    }
    Ok((asked, files))
}

impl Answers for RepoServer {
    async fn answer(&self, method: &str, messages: Vec<Bytes>) -> Result<Vec<u8>, Refusal> {
        let name = method.strip_prefix(SERVICE).unwrap_or_default();
        match name {
            "GenerateManifest" => Ok(self.manifests(read(messages)?, None).await?.encode_to_vec()),
            "GenerateManifestWithFiles" => {
                let (asked, files) = with_files(messages)?;
                Ok(self.manifests(asked, Some(files)).await?.encode_to_vec())
            }
            "ResolveRevision" => Ok(self.resolve(read(messages)?).await?.encode_to_vec()),
            "GetAppDetails" => Ok(self.details(read(messages)?).await?.encode_to_vec()),
            "GetRevisionMetadata" => Ok(self.commit(read(messages)?).await?.encode_to_vec()),
            "TestRepository" => Ok(self.test(read(messages)?).await?.encode_to_vec()),
            "ListPlugins" => Ok(Vec::new()),
            _ => Err(Refusal::unimplemented(format!(
                "{method} is not answered by this engine; `slipway app` and kubectl can do what it is for"
            ))),
        }
    }
}

impl RepoServer {
    /// With files, those count in the place of the repository's.
    async fn manifests(
        &self,
        asked: ManifestRequest,
        files: Option<Archive>,
    ) -> Result<ManifestResponse, Refusal> {
        let app = self.application(&asked.app_name, &asked.project_name, &asked.namespace);
        let mut source = source(asked.application_source.as_ref())?;
        if !asked.revision.is_empty() {
            source.target_revision.clone_from(&asked.revision);
        }
        let desired = match files {
            Some(files) => Arc::new(self.render_files(&app, source, &asked.ref_sources, files).await?),
            None => self.render(&app, source, &asked.ref_sources).await?,
        };
        let settings = self.core.settings.get();
        let mut manifests = Vec::new();
        for mut object in desired.objects() {
            let namespace = &app.spec.destination.namespace;
            tracking::set_tracking_in(&mut object, &asked.app_name, namespace, &settings);
            manifests.push(object.to_string());
        }
        Ok(ManifestResponse {
            manifests,
            namespace: app.spec.destination.namespace.clone(),
            revision: desired.revisions().into_iter().next().unwrap_or_default(),
            source_type: desired.source_types().into_iter().next().unwrap_or_default(),
        })
    }

    /// The Application, or one made up for a name that does not exist yet: `app create` asks before it makes it.
    fn application(&self, instance: &str, project: &str, namespace: &str) -> Application {
        if let Some((_, app)) = self.core.inventory.by_instance(instance) {
            return app;
        }
        let key = self.core.inventory.key_of_instance(instance);
        let mut app = Application::default();
        app.metadata.name = key.name;
        app.metadata.namespace = key.namespace;
        app.spec.project = project.to_owned();
        app.spec.destination.server = IN_CLUSTER.server.to_owned();
        app.spec.destination.namespace = namespace.to_owned();
        app
    }

    /// Renders one source. Those that its value files refer to lend files and render nothing.
    async fn render(
        &self,
        app: &Application,
        source: ApplicationSource,
        references: &BTreeMap<String, RefTarget>,
    ) -> Result<Arc<Desired>, Refusal> {
        let sources = with_lent(source, references);
        let mut memory = Memory::read_only(Default::default());
        let wake = Wake { since: Some(Instant::now()), ..Wake::STATE };
        Ok(self.core.view.observer.manifests.desired(app, &sources, &[], wake, &mut memory).await?.desired)
    }

    /// Renders files that somebody sent, as what stands in a repository that the Application's project permits. Nobody has
    /// signed them, and they look nothing up.
    async fn render_files(
        &self,
        app: &Application,
        source: ApplicationSource,
        references: &BTreeMap<String, RefTarget>,
        files: Archive,
    ) -> Result<Desired, Refusal> {
        let core = &self.core;
        let sources = with_lent(source, references);
        let project = core.view.observer.permits().project(app)?;
        permits::check_sources(&project, app, &sources)?;
        permits::check_local(&project)?;
        let to = core.clusters.destination(app).map_err(|error| Refusal::unknown(error.message()))?;
        let (facts, access, settings) = (to.facts(), core.settings.access(), core.settings.get());
        let around = Surroundings {
            renderer: &core.renderer,
            access: &access,
            project,
            kustomize: &settings.kustomize,
            submodules: settings.submodules,
            kube_version: &facts.kube_version,
            api_versions: &facts.api_versions,
            lookup: None,
            files: Some(Arc::new(files)),
            files_everywhere: false,
            fresh: false,
        };
        Ok(sources::load(&around, app, &sources, &[], Since::now()).await?)
    }

    async fn resolve(&self, asked: ResolveRevisionRequest) -> Result<ResolveRevisionResponse, Refusal> {
        let spec = asked.app.and_then(|app| app.spec).unwrap_or_default();
        let index = usize::try_from(asked.source_index).unwrap_or(0);
        let mut source = source(spec.sources.get(index).or(spec.source.as_ref()))?;
        if source.repo_url.is_empty() {
            source.repo_url = url(asked.repo.as_ref());
        }
        self.permit(&spec.project, &source.repo_url)?;
        let wanted = &asked.ambiguous_revision;
        let revision = if sources::is_chart(&source) {
            let charts = self.core.renderer.charts();
            let charts = charts.ok_or_else(|| Refusal::unknown("packaged charts are not read here"))?;
            let repository = self.core.settings.access().chart_repository(&source.repo_url);
            let found = charts.resolve(&repository, &source.chart, wanted, Since::now()).await;
            found.map_err(SourceError::from)?.version
        } else {
            let repository = self.core.settings.access().repository(&source.repo_url);
            let found = self.core.renderer.git().resolve(&repository, wanted, Since::now()).await;
            found.map_err(SourceError::from)?.sha
        };
        let ambiguous_revision =
            if sources::is_chart(&source) { revision.clone() } else { format!("{wanted} ({revision})") };
        Ok(ResolveRevisionResponse { revision, ambiguous_revision })
    }

    async fn details(&self, asked: AppDetailsQuery) -> Result<AppDetailsResponse, Refusal> {
        let project = asked.repo.as_ref().map(|repo| repo.project.clone()).unwrap_or_default();
        let app = self.application(&asked.app_name, &project, "");
        let desired = self.render(&app, source(asked.source.as_ref())?, &asked.ref_sources).await?;
        let kind = desired.source_types().into_iter().next().unwrap_or_default();
        let part = |name: &str| (kind == name).then_some(Empty {});
        Ok(AppDetailsResponse {
            helm: part("Helm"),
            kustomize: part("Kustomize"),
            directory: part("Directory"),
            plugin: part("Plugin"),
            kind,
        })
    }

    async fn commit(&self, asked: RevisionRequest) -> Result<RevisionMetadata, Refusal> {
        let address = url(asked.repo.as_ref());
        self.permit(&asked.repo.map(|repo| repo.project).unwrap_or_default(), &address)?;
        let repository = self.core.settings.access().repository(&address);
        let git = self.core.renderer.git();
        let known = git.known(&repository, &asked.revision).await.map_err(SourceError::from)?;
        let commit = match known {
            Some(commit) => commit,
            None => {
                git.resolve(&repository, &asked.revision, Since::now()).await.map_err(SourceError::from)?
            }
        };
        let date = commit.date.parse::<jiff::Timestamp>().ok();
        let author = if commit.author_email.is_empty() {
            commit.author
        } else {
            format!("{} <{}>", commit.author, commit.author_email)
        };
        Ok(RevisionMetadata {
            author,
            date: date.map(|date| Time { seconds: date.as_second() }),
            message: commit.message,
        })
    }

    /// Whether a repository can be read with what the installation knows of it.
    async fn test(&self, asked: RepositoryRequest) -> Result<TestRepositoryResponse, Refusal> {
        let repo = asked.repo.ok_or_else(|| Refusal::malformed("a repository is missing"))?;
        self.permit(&repo.project, &repo.url)?;
        // A repository of charts can say something only when a chart is asked of it, which is what comes next.
        if matches!(repo.kind.as_str(), "" | "git") && !repo.url.starts_with("oci://") {
            let repository = self.core.settings.access().repository(&repo.url);
            let asked = self.core.renderer.git().resolve(&repository, "HEAD", Since::now()).await;
            asked.map_err(SourceError::from)?;
        }
        Ok(TestRepositoryResponse { verified: true })
    }

    /// Somebody who can forward a port may read what a project may, and nothing else.
    fn permit(&self, project: &str, url: &str) -> Result<(), Refusal> {
        let mut app = Application::default();
        self.core.settings.namespace().clone_into(&mut app.metadata.namespace);
        app.spec.project = project.to_owned();
        let project = self.core.view.observer.permits().project(&app)?;
        if project::permits_source(&project, url) {
            return Ok(());
        }
        let name = app.spec.project_name();
        Err(Refusal::unknown(format!("application repo {url} is not permitted in project '{name}'")))
    }
}

/// The source, and those that its value files are taken from.
fn with_lent(source: ApplicationSource, references: &BTreeMap<String, RefTarget>) -> Vec<ApplicationSource> {
    let own = source.reference.clone();
    let lent = references.iter().filter(|(name, _)| name.trim_start_matches('$') != own);
    let lent = lent.map(|(name, target)| ApplicationSource {
        repo_url: url(target.repo.as_ref()),
        target_revision: target.target_revision.clone(),
        chart: target.chart.clone(),
        reference: name.trim_start_matches('$').to_owned(),
        ..ApplicationSource::default()
    });
    std::iter::once(source).chain(lent).collect()
}

fn source(sent: Option<&Source>) -> Result<ApplicationSource, Refusal> {
    let sent = sent.ok_or_else(|| Refusal::malformed("a source is missing"))?;
    sent.read().map_err(|error| Refusal::malformed(format!("the source cannot be read: {error}")))
}

fn url(repository: Option<&Repository>) -> String {
    repository.map(|repository| repository.url.clone()).unwrap_or_default()
}
