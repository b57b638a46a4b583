//! Pushes, as the control plane and Git providers tell of them: only Applications and sets that are built from what moved
//! are reconciled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use slipway_api::Client;
use slipway_api::runtime::{RuntimeEvent, RuntimeEvents};
use slipway_cluster::{Cluster, WriteOptions};
use slipway_crd::{Application, ApplicationSource, names};
use slipway_model::Backoff;
use slipway_reconcile::{Key, Shards, Task, Wake};
use slipway_source::normalise_repo_url;

use crate::context::Context;
use crate::engines::application_sets::names_repository;
use crate::engines::{APPLICATION, ApplicationSets, Applications};
use crate::inventory::Inventory;

/// How long the control plane may hold one question.
const HOLD: Duration = Duration::from_secs(25);

/// Who hears of pushes.
pub(crate) struct Pushes {
    cluster: Cluster,
    inventory: Arc<Inventory>,
    shards: Arc<Shards>,
    applications: Arc<Task>,
    sets: Arc<Task>,
}

impl Pushes {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            cluster: context.cluster().clone(),
            inventory: context.inventory.clone(),
            shards: context.shards.clone(),
            applications: context.tasks.of::<Applications>(),
            sets: context.tasks.of::<ApplicationSets>(),
        }
    }

    /// Asks for ever. Without a control plane there is nobody to ask.
    pub(crate) async fn follow(&self, server: Option<&Client>) {
        let Some(server) = server else { return std::future::pending().await };
        let mut after: Option<i64> = None;
        let mut backoff = Backoff::new(Duration::from_millis(400), Duration::from_millis(12_800));
        loop {
            // The first question only asks where we are, so that nothing can happen between it and the second.
            let from = match after {
                Some(seq) => format!("after={seq}&waitMs={}", HOLD.as_millis()),
                None => "waitMs=0".to_owned(),
            };
            let path = format!("/api/agent/runtime/events?{from}");
            let question = server.get::<RuntimeEvents>(&path);
            // A connection that died silently must not keep us deaf for ever.
            match tokio::time::timeout(HOLD + Duration::from_secs(20), question).await {
                Ok(Ok(answer)) => {
                    if backoff.failures() > 0 || after.is_none() {
                        // Something may have been pushed while nobody listened.
                        backoff.reset();
                        for key in self.inventory.applications() {
                            self.applications.wake(key, Wake::latest(Instant::now()));
                        }
                        for key in self.inventory.application_sets() {
                            self.sets.wake(key, Wake::latest(Instant::now()));
                        }
                    }
                    let heard = Instant::now();
                    for event in &answer.events {
                        self.pushed(event, heard);
                    }
                    after = Some(answer.next);
                }
                Ok(Err(error)) => {
                    if backoff.failures() == 0 {
                        tracing::warn!(%error, "The control plane does not tell of pushes; asking again.");
                    }
                    // Its memory may have been cut: then only what comes from now on counts.
                    if error.status() == Some(410) {
                        after = None;
                    }
                    tokio::time::sleep(backoff.failed()).await;
                }
                // The answer was waited for long enough.
                Err(_) => _ = backoff.failed(),
            }
        }
    }

    pub(crate) fn pushed(&self, event: &RuntimeEvent, heard: Instant) {
        self.pushed_to_sets(&event.clone_url, heard);
        for key in self.inventory.applications() {
            if let Some((app, _)) = self.inventory.application(&key)
                && concerns(&app, event)
            {
                tracing::debug!(application = %key, reference = %event.reference, "A push concerns an application.");
                self.applications.wake(key.clone(), Wake::latest(heard));
                self.refresh_elsewhere(&key);
            }
        }
    }

    /// A push concerns every set that names the repository, or that makes its name up.
    fn pushed_to_sets(&self, clone_url: &str, heard: Instant) {
        let pushed = normalise_repo_url(clone_url);
        for key in self.inventory.application_sets() {
            let Some(set) = self.inventory.application_set(&key) else { continue };
            if set.spec.generators.iter().any(|generator| names_repository(generator, &pushed)) {
                self.sets.wake(key.clone(), Wake::latest(heard));
                self.refresh_elsewhere(&key);
            }
        }
    }

    /// A pull request was opened, changed or closed somewhere: sets may make Applications of it.
    pub(crate) fn pull_request(&self) {
        let heard = Instant::now();
        for key in self.inventory.application_sets() {
            self.sets.wake(key.clone(), Wake::latest(heard));
            self.refresh_elsewhere(&key);
        }
    }

    /// A push was heard here that concerns an object of another engine, which is asked to refresh it as a person would ask.
    fn refresh_elsewhere(&self, key: &Key) {
        if self.shards.is_ours(key) {
            return;
        }
        let annotation = match key.kind {
            APPLICATION => json!({names::REFRESH: "normal"}),
            _ => json!({names::APPLICATION_SET_REFRESH: "true"}),
        };
        let target = json!({"apiVersion": names::API_VERSION, "kind": key.kind.kind,
            "metadata": {"namespace": key.namespace, "name": key.name}});
        let cluster = self.cluster.clone();
        tokio::spawn(async move {
            let patch = json!({"metadata": {"annotations": annotation}});
            if let Err(error) = cluster.merge(&target, &patch, WriteOptions::default()).await {
                tracing::warn!(%error, "A push could not be handed on; the next poll finds it.");
            }
        });
    }
}

/// Whether what an Application is built from may have changed.
fn concerns(app: &Application, event: &RuntimeEvent) -> bool {
    let pushed = normalise_repo_url(&event.clone_url);
    let paths = app.metadata.annotation(names::MANIFEST_GENERATE_PATHS);
    if let Some(hydrator) = &app.spec.source_hydrator
        && normalise_repo_url(&hydrator.dry_source.repo_url) == pushed
    {
        return true;
    }
    app.spec
        .effective_sources()
        .iter()
        .filter(|source| normalise_repo_url(&source.repo_url) == pushed)
        .any(|source| follows(source, &event.reference) && touches(source, paths, &event.changed_paths))
}

/// Whether the source's revision can mean the reference that moved.
fn follows(source: &ApplicationSource, reference: &str) -> bool {
    let wanted = source.target_revision.as_str();
    let (branch, tag) = (reference.strip_prefix("refs/heads/"), reference.strip_prefix("refs/tags/"));
    match wanted {
        // The default branch is known to the repository alone.
        "" | "HEAD" => true,
        wanted if wanted == reference || Some(wanted) == branch || Some(wanted) == tag => true,
        wanted if branch.is_none() && tag.is_none() => wanted == reference.trim_start_matches("refs/"),
        // A range of versions may choose a new tag.
        wanted => tag.is_some() && wanted.contains(['*', '^', '~', '>', '<', 'x', 'X']),
    }
}

/// Whether a changed path is below one that the annotation names. Without annotation, or without paths, yes.
fn touches(source: &ApplicationSource, annotation: Option<&str>, changed: &[String]) -> bool {
    let Some(annotation) = annotation.filter(|text| !text.trim().is_empty()) else { return true };
    if changed.is_empty() {
        return true;
    }
    annotation.split(';').map(str::trim).filter(|part| !part.is_empty()).any(|part| {
        let absolute = match part.strip_prefix('/') {
            Some(from_root) => normal(from_root),
            None => normal(&format!("{}/{part}", source.path)),
        };
        if absolute.contains(['*', '?', '[', '{']) {
            let glob = slipway_dialect::glob::Glob::new(&absolute);
            return changed.iter().any(|path| glob.as_ref().is_none_or(|glob| glob.matches(path)));
        }
        changed
            .iter()
            .any(|path| absolute.is_empty() || path == &absolute || path.starts_with(&format!("{absolute}/")))
    })
}

/// `a/./b/../c` → `a/c`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(revision: &str, path: &str, annotation: Option<&str>) -> Application {
        let mut app = json!({"metadata": {"name": "a", "annotations": {}}, "spec": {"source": {
            "repoURL": "https://git.example/Team/App.git", "targetRevision": revision, "path": path}}});
        if let Some(annotation) = annotation {
            app["metadata"]["annotations"][names::MANIFEST_GENERATE_PATHS] = annotation.into();
        }
        serde_json::from_value(app).expect("readable")
    }

    fn event(reference: &str, changed: &[&str]) -> RuntimeEvent {
        RuntimeEvent {
            seq: 1,
            clone_url: "ssh://git@git.example/team/app".into(),
            reference: reference.into(),
            sha: None,
            changed_paths: changed.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    #[test]
    fn a_push_concerns_those_who_follow_the_branch() {
        for (revision, reference, expected) in [
            ("", "refs/heads/main", true),
            ("HEAD", "refs/heads/x", true),
            ("main", "refs/heads/main", true),
            ("main", "refs/heads/other", false),
            ("refs/heads/main", "refs/heads/main", true),
            ("v1.0", "refs/tags/v1.0", true),
            ("1.*", "refs/tags/v1.3.0", true),
            ("1.*", "refs/heads/main", false),
        ] {
            assert_eq!(
                concerns(&app(revision, "p", None), &event(reference, &[])),
                expected,
                "{revision} {reference}"
            );
        }
        let mut other = event("refs/heads/main", &[]);
        other.clone_url = "https://git.example/team/app2".into();
        assert!(!concerns(&app("main", "p", None), &other));
    }

    #[test]
    fn the_annotation_narrows_it_down() {
        for (annotation, changed, expected) in [
            (Some("."), vec!["apps/web/x.yaml"], true),
            (Some("."), vec!["apps/website/x.yaml"], false),
            (Some(".;/shared"), vec!["shared/y"], true),
            (Some("../common"), vec!["apps/common/y"], true),
            (Some("/apps/*/base.yaml"), vec!["apps/api/base.yaml"], true),
            (Some("."), vec!["README.md"], false),
            (Some("."), vec![], true),
            (None, vec!["README.md"], true),
        ] {
            let event = event("refs/heads/main", &changed);
            assert_eq!(
                concerns(&app("main", "apps/web", annotation), &event),
                expected,
                "{annotation:?} {changed:?}"
            );
        }
    }
}
