//! An earlier deployment, for whoever asks what a rollback to it would change.

use axum::http::StatusCode;
use slipway_crd::{Application, ApplicationSource};

use super::Refusal;

/// The Application as it would have to be to deploy that again: the sources of then, each at its commit of then.
pub(super) fn as_deployed(app: &Application, id: i64) -> Result<Application, Refusal> {
    let entry = app.status.history.iter().find(|entry| entry.id == id).ok_or_else(|| {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "NOT_FOUND",
            format!("there is no deployment {id} in the history"),
        )
    })?;
    let mut then = app.clone();
    let spec_sources = app.spec.effective_sources();
    let sources: Vec<ApplicationSource> = match (&entry.sources[..], &entry.source) {
        ([], Some(source)) => vec![source.clone()],
        ([], None) => spec_sources.to_vec(),
        (several, _) => several.to_vec(),
    };
    let revisions =
        if entry.revisions.is_empty() { std::slice::from_ref(&entry.revision) } else { &entry.revisions[..] };
    let pinned = sources
        .into_iter()
        .zip(revisions)
        .map(|(source, revision)| ApplicationSource { target_revision: revision.clone(), ..source });
    let pinned: Vec<ApplicationSource> = pinned.collect();
    // What is hydrated is deployed from the branch that it was written to.
    then.spec.source_hydrator = None;
    if app.spec.has_several_sources() {
        then.spec.sources = pinned;
    } else {
        then.spec.source = pinned.into_iter().next();
    }
    Ok(then)
}
