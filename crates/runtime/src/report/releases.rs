//! From the history of syncs to releases: what was deployed, by whom, and why.
//!
//! In: the custom resource alone, so that it is the same whose controller ever synced it. Out: one entry for each deployment of the
//! history, the newest first. Knows no engine, no Git and no control plane; what the resource forgets (the images of all syncs but
//! the last one) the control plane remembers.

use std::borrow::Cow;
use std::collections::BTreeSet;

use slipway_api::application::{self as wire, why};
use slipway_crd::{Application, ApplicationSource, InitiatedBy, OperationState, RevisionHistory};

/// So many deployments are told: who keeps more looks into the custom resource.
const TOLD_MAX: usize = 100;
/// So many say what one of them was: a history is as long as whoever writes it likes, and each is compared with those before it.
const COMPARED_MAX: usize = 2 * TOLD_MAX;

/// The newest of a history, the oldest of them first.
fn newest(all: &[RevisionHistory]) -> &[RevisionHistory] {
    &all[all.len().saturating_sub(COMPARED_MAX)..]
}

/// Who asked for an operation, as pages name them.
pub(super) fn initiator(by: &InitiatedBy) -> String {
    if by.automated { "automated sync".into() } else { by.username.clone() }
}

pub(super) fn history(app: &Application) -> Vec<wire::Deployment> {
    let entries = newest(&app.status.history);
    let deployment = |at: usize| {
        let entry = &entries[at];
        let operation = made_by(app, entry);
        let synced = Synced::by(entry);
        let healed = operation.is_some_and(is_repair);
        wire::Deployment {
            id: entry.id,
            revision: wire::Revision {
                sha: entry.revisions.first().unwrap_or(&entry.revision).clone(),
                ..wire::Revision::default()
            },
            started_at: entry.deploy_started_at.clone(),
            deployed_at: entry.deployed_at.clone(),
            initiated_by: initiator(&entry.initiated_by),
            automated: entry.initiated_by.automated,
            why: synced.why(&entries[..at], healed, entry.id == 0),
            revisions: entry.revisions.clone(),
            images: operation.map(images).unwrap_or_default(),
            image_changes: Vec::new(),
        }
    };
    (0..entries.len()).rev().take(TOLD_MAX).map(deployment).collect()
}

/// Why the sync that is under way, or was the last one, was begun.
pub(super) fn why_of(app: &Application, state: &OperationState) -> String {
    let Some(sync) = &state.operation.sync else { return String::new() };
    let made = |entry: &RevisionHistory| entry.deploy_started_at.as_ref() == Some(&state.started_at);
    let before: Vec<_> = newest(&app.status.history).iter().filter(|entry| !made(entry)).cloned().collect();
    let result = state.sync_result.as_ref();
    let (revision, revisions) = match result {
        Some(result) => (&result.revision, &result.revisions),
        None => (&sync.revision, &sync.revisions),
    };
    let spec = app.spec.effective_sources();
    let sources = match (&sync.source, result) {
        (Some(source), _) => Cow::Borrowed(std::slice::from_ref(source)),
        (None, _) if !sync.sources.is_empty() => Cow::Borrowed(&*sync.sources),
        _ => spec,
    };
    let revisions = if revisions.is_empty() { vec![revision] } else { revisions.iter().collect() };
    let synced = Synced { revisions, sources, by: &state.operation.initiated_by };
    synced.why(&before, is_repair(state), before.is_empty())
}

/// A sync that self-heal began.
fn is_repair(state: &OperationState) -> bool {
    state.operation.sync.as_ref().is_some_and(|sync| sync.auto_heal_attempts_count > 0)
}

/// The last operation, if it made this deployment: nothing is kept of those before.
fn made_by<'a>(app: &'a Application, entry: &RevisionHistory) -> Option<&'a OperationState> {
    let state = app.status.operation_state.as_ref()?;
    Some(state).filter(|state| entry.deploy_started_at.as_ref() == Some(&state.started_at))
}

/// What was applied.
fn images(state: &OperationState) -> Vec<String> {
    let applied = state.sync_result.iter().flat_map(|result| &result.resources);
    applied.flat_map(|resource| &resource.images).collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

/// What tells one sync from another.
struct Synced<'a> {
    revisions: Vec<&'a String>,
    sources: Cow<'a, [ApplicationSource]>,
    by: &'a InitiatedBy,
}

impl<'a> Synced<'a> {
    fn by(entry: &'a RevisionHistory) -> Self {
        let several = !entry.revisions.is_empty();
        let revisions = if several { entry.revisions.iter().collect() } else { vec![&entry.revision] };
        let sources = match &entry.source {
            Some(source) if entry.sources.is_empty() => std::slice::from_ref(source),
            _ => &*entry.sources,
        };
        Self { revisions, sources: Cow::Borrowed(sources), by: &entry.initiated_by }
    }

    /// `before` is the history until then, the oldest first. Empty where the history does not reach back far enough to tell.
    fn why(&self, before: &[RevisionHistory], healed: bool, first: bool) -> String {
        let last = before.last().map(Synced::by);
        let same = |other: &Synced<'_>| other.revisions == self.revisions && other.sources == self.sources;
        let word = match &last {
            _ if healed => why::DRIFT,
            Some(last) if !self.by.automated && !same(last) => {
                let deployed_before = before.iter().map(Synced::by).any(|earlier| same(&earlier));
                if deployed_before { why::ROLLBACK } else { why::MANUAL }
            }
            _ if !self.by.automated => why::MANUAL,
            Some(last) if last.revisions != self.revisions => why::COMMIT,
            Some(last) if last.sources != self.sources => why::PARAMETERS,
            Some(_) => why::DRIFT,
            None if first => why::FIRST,
            None => "",
        };
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(id: i64, revision: &str, tag: &str, by: Value) -> Value {
        json!({"id": id, "revision": revision, "deployStartedAt": format!("2026-01-01T00:0{id}:00Z"),
            "deployedAt": format!("2026-01-01T00:0{id}:30Z"), "initiatedBy": by,
            "source": {"repoURL": "https://git.example/a.git", "path": "k", "helm": {"parameters": [{"name": "tag", "value": tag}]}}})
    }

    fn app(history: &[Value], state: Value) -> Application {
        serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"namespace": "argocd", "name": "shop"},
            "spec": {"source": {"repoURL": "https://git.example/a.git", "path": "k",
                "helm": {"parameters": [{"name": "tag", "value": "2"}]}}, "destination": {"namespace": "x"}},
            "status": {"history": history, "operationState": state},
        }))
        .expect("an Application")
    }

    fn state(start: &str, sync: Value, by: Value, images: &[&str]) -> Value {
        json!({"phase": "Succeeded", "startedAt": start, "operation": {"sync": sync, "initiatedBy": by},
            "syncResult": {"revision": sync["revision"], "resources": [
                {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "x", "name": "web", "images": images}]}})
    }

    #[test]
    fn who_and_why_are_read_from_the_history_alone() {
        let (auto, ada) = (json!({"automated": true}), json!({"username": "ada"}));
        let all = [
            entry(0, "aaa", "1", auto.clone()),
            entry(1, "bbb", "1", auto.clone()),
            entry(2, "bbb", "2", auto.clone()),
            entry(3, "bbb", "2", auto.clone()),
            entry(4, "ccc", "2", ada.clone()),
            entry(5, "ccc", "2", ada.clone()),
            entry(6, "bbb", "2", ada),
        ];
        let told = history(&app(&all, Value::Null));
        let words: Vec<_> = told.iter().rev().map(|entry| entry.why.as_str()).collect();
        assert_eq!(words, ["first", "commit", "parameters", "drift", "manual", "manual", "rollback"]);
        let by = |at: usize| (told[at].initiated_by.as_str(), told[at].automated);
        assert_eq!((by(0), by(6)), (("ada", false), ("automated sync", true)));
        // What came before is forgotten by the resource: nobody can say why.
        assert_eq!(history(&app(&all[3..4], Value::Null))[0].why, "");
    }

    #[test]
    fn the_last_operation_says_what_it_applied_and_that_it_repaired() {
        let auto = json!({"automated": true});
        let all = [entry(0, "aaa", "2", auto.clone()), entry(1, "bbb", "2", auto.clone())];
        let made = state(
            "2026-01-01T00:01:00Z",
            json!({"revision": "bbb"}),
            auto.clone(),
            &["web:2", "web:2", "api:1"],
        );
        let of_made = app(&all, made);
        let told = history(&of_made);
        assert_eq!(
            (told[0].images.as_slice(), told[1].images.len()),
            (&["api:1".into(), "web:2".into()][..], 0)
        );
        let operation = |app: &Application| why_of(app, app.status.operation_state.as_ref().expect("one"));
        assert_eq!(operation(&of_made), "commit", "it is compared with what was before it");
        // A repair syncs single resources, which makes no entry of the history.
        let heal = json!({"revision": "bbb", "autoHealAttemptsCount": 1, "resources": [{"kind": "Deployment", "name": "web"}]});
        assert_eq!(operation(&app(&all, state("2026-01-01T00:05:00Z", heal, auto, &[]))), "drift");
        let source = json!({"repoURL": "https://git.example/a.git", "path": "k", "helm": {"parameters": [{"name": "tag", "value": "2"}]}});
        let back = json!({"revision": "aaa", "source": source});
        let back = state("2026-01-01T00:05:00Z", back, json!({"username": "ada"}), &[]);
        assert_eq!(operation(&app(&all, back)), "rollback");
    }

    #[test]
    fn a_history_without_end_is_told_in_time() {
        let by = json!({"username": "ada"});
        let all: Vec<_> = (0..20_000).map(|id| entry(id, &format!("{id:040}"), "1", by.clone())).collect();
        let long = app(&all, Value::Null);
        let started = std::time::Instant::now();
        let told = history(&long);
        assert_eq!((told.len(), told[0].id, told[0].why.as_str()), (TOLD_MAX, 19_999, "manual"));
        assert!(started.elapsed() < std::time::Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
