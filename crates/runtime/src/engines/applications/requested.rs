//! What an operation is about: its sources, the revisions that it means, and manifests that came with it.

use std::time::Instant;

use slipway_crd::{Application, ApplicationSource, SyncOperation};
use slipway_gitops::cluster::KustomizeSettings;
use slipway_reconcile::Wake;

use super::sources::Desired;

pub(super) fn sources(app: &Application, sync: &SyncOperation) -> Vec<ApplicationSource> {
    if !sync.sources.is_empty() {
        sync.sources.clone()
    } else if let Some(source) = &sync.source {
        vec![source.clone()]
    } else {
        app.spec.effective_sources().to_vec()
    }
}

/// The revisions that this operation is about: once resolved they stay, whatever is pushed meanwhile.
pub(super) fn pinned_revisions(app: &Application, sync: &SyncOperation) -> Vec<String> {
    let result = app.status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    if let Some(result) = result {
        if !result.revisions.is_empty() {
            return result.revisions.clone();
        }
        if !result.revision.is_empty() {
            return vec![result.revision.clone()];
        }
    }
    if !sync.revisions.is_empty() {
        return sync.revisions.clone();
    }
    if sync.revision.is_empty() { Vec::new() } else { vec![sync.revision.clone()] }
}

/// Manifests that came with the request itself, as JSON texts.
pub(super) fn local_manifests(sync: &SyncOperation, sources: &[ApplicationSource]) -> Desired {
    let local = sync.manifests.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    Desired {
        sources: sources.to_vec(),
        revisions: Vec::new(),
        parts: Vec::new(),
        local,
        kustomize: KustomizeSettings::default(),
        looked_up: false,
    }
}

/// A name is asked for once, when the operation begins; what it meant then is on the Application.
pub(super) fn wake(app: &Application, pinned: &[String]) -> Wake {
    let result = app.status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    let resolved = result.is_some_and(|r| !r.revision.is_empty() || !r.revisions.is_empty());
    if resolved || pinned.is_empty() { Wake::STATE } else { Wake::latest(Instant::now()) }
}
