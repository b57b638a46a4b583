//! Everything that can be wrong with an Application before anybody commits it, all at once and each with its place.
//!
//! In: an Application as it would be. Out: findings, and what is not wrong and yet worth knowing. Repositories are asked with the
//! runtime's credentials, so only those are asked that the Application's project permits: who may declare something learns no
//! more of them than its sync would tell.

use std::time::Duration;

use slipway_api::error::ErrorDetail;
use slipway_cluster::ObjectKey;
use slipway_crd::{AppProject, Application, ApplicationSource, Other, names};
use slipway_gitops::project;
use slipway_reconcile::Key;
use slipway_source::{ChartError, GitError, Renderer, Since};

use super::super::Running;
use crate::clusters::NoCluster;
use crate::engines::applications::sources::is_chart;
use crate::settings::RepositoryAccess;

/// For one repository.
const ANSWER_WITHIN: Duration = Duration::from_secs(45);

#[derive(Default)]
pub(super) struct Checked {
    pub(super) findings: Vec<ErrorDetail>,
    pub(super) warnings: Vec<String>,
}

impl Checked {
    fn find(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.findings.push(ErrorDetail { path: path.into(), message: message.into() });
    }
}

pub(super) async fn check(running: &Running, key: &Key, app: &Application, is_new: bool) -> Checked {
    let mut out = Checked::default();
    check_names(running, key, app, is_new, &mut out);
    unknown_fields(app, &mut out);
    let permits = running.permits();
    // What is wrong with its namespace is said already; its project is looked at as if it were right.
    let mut meant = app.clone();
    meant.metadata.namespace.clone_from(&key.namespace);
    let project = match permits.project(&meant) {
        Ok(project) => Some(project),
        Err(failure) => {
            out.find("spec.project", failure.message);
            None
        }
    };
    check_destination(running, app, project.as_deref(), &mut out).await;
    if app.spec.source_hydrator.is_some() {
        out.warnings.push("the sources of spec.sourceHydrator are not looked at before the commit".into());
        return out;
    }
    let sources = app.spec.effective_sources();
    if sources.is_empty() {
        out.find("spec.source", "is missing: name a repository, and a path or a chart");
    }
    let access = running.settings.access();
    for (index, source) in sources.iter().enumerate() {
        let place = match app.spec.sources.is_empty() {
            true => "spec.source".to_owned(),
            false => format!("spec.sources[{index}]"),
        };
        check_source(running, &access, project.as_deref(), source, &place, &mut out).await;
    }
    out
}

fn check_names(running: &Running, key: &Key, app: &Application, is_new: bool, out: &mut Checked) {
    if app.api_version != names::API_VERSION {
        out.find(
            "apiVersion",
            format!("is `{}`; an Application has {}", app.api_version, names::API_VERSION),
        );
    }
    if app.kind != "Application" {
        out.find("kind", format!("is `{}`; only Applications are declared here", app.kind));
    }
    if app.metadata.name != key.name || !is_name(&key.name, 253) {
        let message = format!(
            "`{}` is not `{}`, or no name: use lowercase letters, digits, `-` and `.`",
            app.metadata.name, key.name
        );
        out.find("metadata.name", message);
    } else if is_new && running.inventory.application(key).is_some() {
        out.find(
            "metadata.name",
            format!("there is an Application {key} already: edit it, or choose another name"),
        );
    }
    if app.metadata.namespace != key.namespace && !app.metadata.namespace.is_empty() {
        out.find("metadata.namespace", format!("`{}` is not `{}`", app.metadata.namespace, key.namespace));
    } else if !running.settings.governs(&key.namespace) {
        let message = format!(
            "this runtime looks after no Applications of namespace `{}`: use `{}`, or one that application.namespaces of argocd-cmd-params-cm names",
            key.namespace,
            running.settings.namespace()
        );
        out.find("metadata.namespace", message);
    }
}

fn is_name(text: &str, chars_max: usize) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= chars_max
        && text.chars().all(plain)
        && end(text.chars().next())
        && end(text.chars().next_back())
}

/// What is written and means nothing is said: a cluster would drop it.
fn unknown_fields(app: &Application, out: &mut Checked) {
    let spec = &app.spec;
    let fields_of = |other: &Other| other.keys().cloned().collect::<Vec<_>>();
    let mut found = vec![
        (String::new(), fields_of(&app.other)),
        ("spec.".to_owned(), fields_of(&spec.other)),
        ("spec.destination.".to_owned(), fields_of(&spec.destination.other)),
    ];
    if let Some(policy) = &spec.sync_policy {
        found.push(("spec.syncPolicy.".into(), fields_of(&policy.other)));
        if let Some(automated) = &policy.automated {
            found.push(("spec.syncPolicy.automated.".into(), fields_of(&automated.other)));
        }
    }
    let one = spec.source.iter().map(|source| ("spec.source".to_owned(), source));
    let several =
        spec.sources.iter().enumerate().map(|(index, source)| (format!("spec.sources[{index}]"), source));
    for (place, source) in one.chain(several) {
        found.push((format!("{place}."), fields_of(&source.other)));
        if let Some(helm) = &source.helm {
            found.push((format!("{place}.helm."), fields_of(&helm.other)));
        }
        if let Some(kustomize) = &source.kustomize {
            found.push((format!("{place}.kustomize."), fields_of(&kustomize.other)));
        }
        if let Some(directory) = &source.directory {
            found.push((format!("{place}.directory."), fields_of(&directory.other)));
        }
    }
    for (place, fields) in found {
        for field in fields {
            out.find(
                format!("{place}{field}"),
                "an Application has no such field: correct its name, or remove it",
            );
        }
    }
}

async fn check_destination(
    running: &Running,
    app: &Application,
    project: Option<&AppProject>,
    out: &mut Checked,
) {
    let namespace = &app.spec.destination.namespace;
    let named = namespace.is_empty() || (is_name(namespace, 63) && !namespace.contains('.'));
    if !named {
        let message = format!("`{namespace}` is no namespace: use lowercase letters, digits and `-`");
        out.find("spec.destination.namespace", message);
    }
    let to = match running.permits().clusters.destination(app) {
        Ok(to) => to,
        Err(NoCluster::Unknown(message)) => return out.find("spec.destination", message),
        Err(NoCluster::Away(message)) => return out.warnings.push(message),
    };
    let Some(project) = project else { return };
    if !project::permits_destination(project, &to.names(), namespace) {
        let message = format!(
            "project `{}` does not permit namespace `{namespace}` of cluster {} ({}): choose one of its destinations, or have it added",
            app.spec.project_name(),
            to.name,
            to.server
        );
        return out.find("spec.destination", message);
    }
    let made = app.spec.sync_options().iter().any(|option| option == "CreateNamespace=true");
    if named && !namespace.is_empty() && !made {
        let key = ObjectKey::new("", "Namespace", "", namespace);
        if let Ok(None) = to.cluster.read(&key).await {
            out.warnings.push(format!(
                "there is no namespace `{namespace}` in cluster {}: unless the manifests make it, add CreateNamespace=true to spec.syncPolicy.syncOptions",
                to.name
            ));
        }
    }
}

async fn check_source(
    running: &Running,
    access: &RepositoryAccess,
    project: Option<&AppProject>,
    source: &ApplicationSource,
    place: &str,
    out: &mut Checked,
) {
    if source.repo_url.is_empty() {
        return out.find(format!("{place}.repoURL"), "is missing: name a repository");
    }
    if !is_chart(source) && source.path.is_empty() && source.reference.is_empty() {
        out.find(
            format!("{place}.path"),
            "is missing: name a folder of the repository (`.` is all of it), or a chart",
        );
    }
    let Some(project) = project else {
        return out.warnings.push(format!("{place} was not looked at: its project is what permits it"));
    };
    if !project::permits_source(project, &source.repo_url) {
        let message = format!(
            "project `{}` does not permit {}: choose one of its repositories, or have it added",
            project.metadata.name, source.repo_url
        );
        return out.find(format!("{place}.repoURL"), message);
    }
    let renderer = &running.view.observer.manifests.renderer;
    let asked = async {
        match is_chart(source) {
            true => chart(renderer, access, source).await,
            false => folder(renderer, access, source).await,
        }
    };
    match tokio::time::timeout(ANSWER_WITHIN, asked).await {
        Ok(Ok(())) => {}
        Ok(Err((field, message))) => out.find(format!("{place}.{field}"), message),
        Err(_) => {
            let message = format!("{} does not answer within {} s", source.repo_url, ANSWER_WITHIN.as_secs());
            out.find(format!("{place}.repoURL"), message);
        }
    }
}

/// Which field is wrong, and why.
type Wrong = (&'static str, String);

async fn folder(
    renderer: &Renderer,
    access: &RepositoryAccess,
    source: &ApplicationSource,
) -> Result<(), Wrong> {
    let wrong = |error: GitError| {
        let field = match &error {
            GitError::RevisionNotFound { .. } | GitError::BadRevision(_) => "targetRevision",
            GitError::PathNotFound { .. }
            | GitError::NotAFolder { .. }
            | GitError::PathEscapes { .. }
            | GitError::BadPath(_)
            | GitError::LinkEscapes { .. } => "path",
            _ => "repoURL",
        };
        (field, error.to_string())
    };
    let repository = access.repository(&source.repo_url);
    let commit =
        renderer.git().resolve(&repository, &source.target_revision, Since::now()).await.map_err(wrong)?;
    if !source.path.is_empty() {
        renderer.git().tree(&repository, &commit, &source.path, false).await.map_err(wrong)?;
    }
    Ok(())
}

async fn chart(
    renderer: &Renderer,
    access: &RepositoryAccess,
    source: &ApplicationSource,
) -> Result<(), Wrong> {
    let Some(charts) = renderer.charts() else {
        return Err(("chart", "packaged charts are not read here; put the chart into Git".into()));
    };
    let repository = access.chart_repository(&source.repo_url);
    let found = charts.resolve(&repository, &source.chart, &source.target_revision, Since::now()).await;
    found.map(|_| ()).map_err(|error| {
        let field = match &error {
            ChartError::NoChart { .. } | ChartError::Name(_) => "chart",
            ChartError::NoVersion { .. } | ChartError::Range { .. } => "targetRevision",
            _ => "repoURL",
        };
        (field, error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_does_not_exist_is_named_wherever_it_stands() {
        let text = serde_json::json!({"specc": 1, "spec": {"projekt": "x", "destination": {"servr": "y"},
            "syncPolicy": {"automatic": {}, "automated": {"heal": true}},
            "sources": [{"repoURL": "r", "revision": "v1", "helm": {"value": "a"}, "directory": {"recursive": true}}]}});
        let app: Application = serde_json::from_value(text).expect("readable");
        let mut out = Checked::default();
        unknown_fields(&app, &mut out);
        let mut places: Vec<&str> = out.findings.iter().map(|finding| finding.path.as_str()).collect();
        places.sort_unstable();
        assert_eq!(
            places,
            [
                "spec.destination.servr",
                "spec.projekt",
                "spec.sources[0].directory.recursive",
                "spec.sources[0].helm.value",
                "spec.sources[0].revision",
                "spec.syncPolicy.automated.heal",
                "spec.syncPolicy.automatic",
                "specc",
            ]
        );
    }

    #[test]
    fn names_are_names_of_kubernetes() {
        for good in ["a", "shop-1", "a.b"] {
            assert!(is_name(good, 253), "{good}");
        }
        for wrong in ["", "-a", "a-", "A", "a_b", "a/b", &"a".repeat(254)] {
            assert!(!is_name(wrong, 253), "{wrong}");
        }
    }
}
