//! Which Applications are hydrated together, and where each of them writes to.

use slipway_crd::{Application, SourceHydrator, names};
use slipway_reconcile::Key;
use slipway_source::normalise_repo_url;

use crate::inventory::Inventory;

/// What the Applications of a group have in common: repository and revision of the source, repository and branch of
/// the commit.
pub(super) type Group = [String; 4];

pub(super) fn group(hydrator: &SourceHydrator) -> Group {
    [
        normalise_repo_url(&hydrator.dry_source.repo_url),
        hydrator.dry_source.target_revision.clone(),
        normalise_repo_url(&hydrator.sync_source().repo_url),
        wet_branch(hydrator).to_owned(),
    ]
}

/// Where manifests are written to: the branch that is synced, or one that somebody merges into it.
pub(super) fn wet_branch(hydrator: &SourceHydrator) -> &str {
    hydrator.hydrate_to.as_ref().map_or(&hydrator.sync_source.target_branch, |to| &to.target_branch)
}

/// The others of the group.
pub(super) fn companions(
    inventory: &Inventory,
    own: &Key,
    hydrator: &SourceHydrator,
) -> Vec<(Key, Application, SourceHydrator)> {
    let ours = group(hydrator);
    let mut found: Vec<_> = inventory
        .applications()
        .into_iter()
        .filter(|key| key != own)
        .filter_map(|key| {
            let (app, _) = inventory.application(&key)?;
            let of = app.spec.source_hydrator.clone()?;
            (!is_left_alone(&app) && group(&of) == ours).then_some((key, app, of))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Another Application whose manifests would overwrite ours.
pub(super) fn shares_path(
    inventory: &Inventory,
    app: &Application,
    hydrator: &SourceHydrator,
) -> Option<String> {
    let place = |hydrator: &SourceHydrator| {
        let path = hydrator.sync_source.path.trim_matches('/').to_owned();
        (normalise_repo_url(&hydrator.sync_source().repo_url), wet_branch(hydrator).to_owned(), path)
    };
    let ours = place(hydrator);
    let own = (&app.metadata.namespace, &app.metadata.name);
    inventory.applications().into_iter().find_map(|key| {
        let (other, _) = inventory.application(&key).filter(|_| (&key.namespace, &key.name) != own)?;
        (place(other.spec.source_hydrator.as_ref()?) == ours).then(|| key.to_string())
    })
}

/// It is being deleted, or a person said that it is not to be touched.
pub(super) fn is_left_alone(app: &Application) -> bool {
    app.metadata.deletion_timestamp.is_some()
        || app.metadata.annotation(names::SKIP_RECONCILE) == Some("true")
}
