//! What rules look at in a project.

use slipway_access::Entity;
use slipway_store::projects;

/// What rules look at.
pub(crate) fn entity(row: &projects::Project) -> Entity<'_> {
    let tags = row.tags.iter().map(String::as_str).collect();
    Entity { kind: "project", name: &row.name, tags, ..Entity::default() }
}
