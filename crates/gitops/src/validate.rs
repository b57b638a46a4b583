//! Is an application's spec sound, and does its project permit it?

use crate::compare::rfc3339;
use crate::project::{self, ClusterNames};
use jiff::Timestamp;
use slipway_crd::{AppProject, Application, ApplicationSource, Condition};

/// What an application is checked against.
#[derive(Debug, Clone, Copy)]
pub struct ValidateInput<'a> {
    pub application: &'a Application,
    /// The project that it names, if it exists.
    pub project: Option<&'a AppProject>,
    /// Name and server of each cluster that is known.
    pub clusters: &'a [(String, String)],
    pub control_plane_namespace: &'a str,
    pub now: Timestamp,
}

/// InvalidSpecError conditions; none for a sound application.
pub fn validate(input: ValidateInput<'_>) -> Vec<Condition> {
    let mut problems = Vec::new();
    sources(input.application, &mut problems);
    let cluster = destination(&input, &mut problems);
    match input.project {
        None => problems.push(format!(
            "Application referencing project {} which does not exist",
            input.application.spec.project_name()
        )),
        Some(project) => permissions(&input, project, cluster.as_ref(), &mut problems),
    }
    let known = &input.application.status.conditions;
    problems
        .into_iter()
        .map(|message| {
            let before = known.iter().find(|c| c.kind == "InvalidSpecError" && c.message == message);
            let time =
                before.and_then(|c| c.last_transition_time.clone()).unwrap_or_else(|| rfc3339(input.now));
            Condition {
                kind: "InvalidSpecError".into(),
                message,
                last_transition_time: Some(time),
                ..Condition::default()
            }
        })
        .collect()
}

fn sources(application: &Application, problems: &mut Vec<String>) {
    let spec = &application.spec;
    if spec.source_hydrator.is_some() {
        return;
    }
    if spec.effective_sources().is_empty() {
        problems.push(
            "spec.source.repoURL and either spec.source.path, spec.source.chart or spec.sources are required"
                .into(),
        );
    }
    for source in spec.effective_sources().iter() {
        if source.repo_url.is_empty() {
            problems.push("spec.source.repoURL is required: name a repository".into());
        }
        if source.path.is_empty() && source.chart.is_empty() && source.reference.is_empty() {
            problems.push(format!("source {} needs a path, a chart or a ref", source.repo_url));
        }
        let kinds = explicit_types(source);
        if kinds.len() > 1 {
            problems.push(format!("multiple application sources defined: {}", kinds.join(",")));
        }
    }
}

fn explicit_types(source: &ApplicationSource) -> Vec<&'static str> {
    let given = [
        (source.kustomize.is_some(), "Kustomize"),
        (source.helm.is_some(), "Helm"),
        (source.directory.is_some(), "Directory"),
        (source.plugin.is_some(), "Plugin"),
    ];
    given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name).collect()
}

/// The cluster that the destination means.
fn destination<'a>(input: &ValidateInput<'a>, problems: &mut Vec<String>) -> Option<(&'a str, &'a str)> {
    let destination = &input.application.spec.destination;
    match (destination.server.is_empty(), destination.name.is_empty()) {
        (true, true) => {
            problems.push("Destination server missing from app spec".into());
            None
        }
        (false, false) => {
            problems.push(format!(
                "application destination can't have both name and server defined: {} {}",
                destination.name, destination.server
            ));
            None
        }
        (false, true) => {
            let server = destination.server.trim_end_matches('/');
            let found = input.clusters.iter().find(|(_, url)| url.trim_end_matches('/') == server);
            if found.is_none() {
                problems.push(format!(
                    "there is no cluster with server {server}: add it, or correct spec.destination"
                ));
            }
            found.map(|(name, url)| (name.as_str(), url.as_str()))
        }
        (true, false) => {
            let found: Vec<_> = input.clusters.iter().filter(|(name, _)| *name == destination.name).collect();
            match found.as_slice() {
                [] => {
                    problems.push(format!("there are no clusters with this name: {}", destination.name));
                    None
                }
                [(name, url)] => Some((name.as_str(), url.as_str())),
                several => {
                    let urls: Vec<&str> = several.iter().map(|(_, url)| url.as_str()).collect();
                    problems.push(format!(
                        "there are {} clusters with the same name: [{}]",
                        several.len(),
                        urls.join(" ")
                    ));
                    None
                }
            }
        }
    }
}

fn permissions(
    input: &ValidateInput<'_>,
    project: &AppProject,
    cluster: Option<&(&str, &str)>,
    problems: &mut Vec<String>,
) {
    let application = input.application;
    let (spec, name) = (&application.spec, application.spec.project_name());
    let namespace = &application.metadata.namespace;
    if !namespace.is_empty()
        && !project::permits_application_namespace(project, namespace, input.control_plane_namespace)
    {
        problems.push(format!(
            "application '{}' in namespace '{namespace}' is not allowed to use project '{name}'",
            application.metadata.name
        ));
    }
    for source in spec.effective_sources().iter() {
        if !project::permits_source(project, &source.repo_url) {
            problems
                .push(format!("application repo {} is not permitted in project '{name}'", source.repo_url));
        }
    }
    if let Some((cluster_name, server)) = cluster {
        let cluster = ClusterNames { server, name: cluster_name };
        if !project::permits_destination(project, &cluster, &spec.destination.namespace) {
            problems.push(format!(
                "application destination server '{server}' and namespace '{}' do not match any of the allowed destinations in project '{name}'",
                spec.destination.namespace
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(spec: Value, words: &[&str]) {
        let application: Application =
            serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "argocd"}, "spec": spec}))
                .expect("readable");
        let project: AppProject = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "argocd"}, "spec": {
            "sourceRepos": ["https://git/*"], "destinations": [{"name": "one", "namespace": "web"}, {"server": "https://one", "namespace": "web"}]}}))
        .expect("readable");
        let clusters = [
            ("one".to_string(), "https://one".to_string()),
            ("two".into(), "https://2a".into()),
            ("two".into(), "https://2b".into()),
        ];
        let found = validate(ValidateInput {
            application: &application,
            project: (application.spec.project == "p").then_some(&project),
            clusters: &clusters,
            control_plane_namespace: "argocd",
            now: Timestamp::UNIX_EPOCH,
        });
        assert_eq!(found.len(), words.len(), "{found:?}");
        for (condition, word) in found.iter().zip(words) {
            assert!(condition.message.contains(word), "{}", condition.message);
        }
    }

    #[test]
    fn unsound_specs_are_named() {
        let source = json!({"repoURL": "https://git/a", "path": "x"});
        let to = |destination: Value| json!({"project": "p", "source": source, "destination": destination});
        check(to(json!({"name": "one", "namespace": "web"})), &[]);
        check(to(json!({"server": "https://one/", "namespace": "web"})), &[]);
        check(to(json!({})), &["Destination server missing"]);
        check(to(json!({"name": "one", "server": "https://one"})), &["both name and server"]);
        check(to(json!({"name": "three"})), &["no clusters with this name"]);
        check(to(json!({"name": "two"})), &["2 clusters with the same name"]);
        check(to(json!({"name": "one", "namespace": "kube-system"})), &["do not match any of the allowed"]);
        check(json!({"project": "q", "source": source, "destination": {"name": "one"}}), &["does not exist"]);
        check(
            json!({"project": "p", "source": {"repoURL": "https://evil/a", "path": "x"}, "destination": {"name": "one", "namespace": "web"}}),
            &["is not permitted"],
        );
        check(json!({"project": "p", "destination": {"name": "one", "namespace": "web"}}), &["are required"]);
        check(
            json!({"project": "p", "source": {"repoURL": "https://git/a", "path": "x", "helm": {}, "plugin": {}}, "destination": {"name": "one", "namespace": "web"}}),
            &["Helm,Plugin"],
        );
    }
}
