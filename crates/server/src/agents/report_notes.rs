//! What a build says about itself and about what it made: annotations and images, out of its reports.
//!
//! In: a report that was taken. Out: rows, each written as often as it is told without change. A build annotates
//! itself, its pipeline, its project and images; whatever else a runner may claim is passed over.

use slipway_api::agent::{AnnotationChange, BuildReport, BuiltImage};
use slipway_model::BuildId;
use slipway_store::annotations::{self, Annotation};
use slipway_store::builds::{self, Build};
use slipway_store::images::{self, Image};
use slipway_store::{Scope, StoreError, Tx, projects};

use crate::ci::annotations::is_fine;
use crate::ci::orders::Order;

/// More than a build can mean; a runner that says more is cut here.
const MANY: usize = 500;
const TEXT_CHARS_MAX: usize = 500;

pub(super) fn keep(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: BuildId,
    report: &BuildReport,
    now_ms: i64,
) -> Result<(), StoreError> {
    if report.annotations.is_empty() && report.images.is_empty() {
        return Ok(());
    }
    let Some(build) = builds::by_id(tx, scope, id)? else { return Ok(()) };
    let order: Order = build.order()?;
    for change in report.annotations.iter().take(MANY) {
        // What strangers' changes say about shared things is not believed.
        if order.from_fork && change.entity_type != "build" {
            continue;
        }
        annotate(tx, scope, &build, change, now_ms)?;
    }
    if order.from_fork {
        return Ok(());
    }
    let commit = order.commit.unwrap_or_default();
    for image in report.images.iter().take(MANY).filter(|image| is_plain(image)) {
        let row = Image {
            image: image.id.clone(),
            name: image.name.clone(),
            tag: image.tag.clone(),
            registry: image.registry.clone().unwrap_or_default(),
            digest: image.digest.clone().unwrap_or_default(),
            build: id,
            pipeline: build.pipeline,
            branch: commit.branch.clone(),
            revision: commit.sha.clone(),
            at_ms: image.at_ms.min(now_ms),
        };
        images::record(tx, scope, &row)?;
    }
    Ok(())
}

fn is_plain(image: &BuiltImage) -> bool {
    let texts = [
        Some(&image.id),
        Some(&image.name),
        Some(&image.tag),
        image.registry.as_ref(),
        image.digest.as_ref(),
    ];
    !image.name.is_empty() && texts.into_iter().flatten().all(|text| text.chars().count() <= TEXT_CHARS_MAX)
}

fn annotate(
    tx: &mut Tx<'_>,
    scope: Scope,
    build: &Build,
    change: &AnnotationChange,
    now_ms: i64,
) -> Result<(), StoreError> {
    // A clock that goes ahead, or a runner that says so, would win over everything that people say after it.
    let at_ms = change.at_ms.min(now_ms);
    let own = build.id.to_string();
    let project = build.pipeline_name.split_once('/').map(|(project, _)| project);
    let (kind, entity) = match change.entity_type.as_str() {
        "build" if change.entity_id == own => ("build", own),
        "pipeline" if change.entity_id == build.pipeline_name => ("pipeline", build.pipeline.to_string()),
        "project" if Some(change.entity_id.as_str()) == project => {
            match projects::by_name(tx, scope, &change.entity_id)? {
                Some(row) => ("project", row.id.to_string()),
                None => return Ok(()),
            }
        }
        "image" => ("image", change.entity_id.clone()),
        _ => return Ok(()),
    };
    match &change.value {
        Some(value) if is_fine(&change.key, value) => {
            let row = Annotation { name: change.key.clone(), value: value.to_string(), at_ms };
            annotations::set_if_older(tx, scope, kind, &entity, &row)
        }
        Some(_) => Ok(()),
        None => annotations::delete_if_older(tx, scope, kind, &entity, &change.key, at_ms),
    }
}
