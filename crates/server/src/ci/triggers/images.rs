//! A registry announced an image: from the fact to the builds of the pipelines that are connected to the event.

use std::collections::BTreeMap;

use slipway_api::build::Initiator;
use slipway_api::pipeline::Variable;
use slipway_model::ImageEvent;
use slipway_store::trigger_events::EventTrigger;
use slipway_store::{Scope, StoreError, Tx, pipelines, trigger_events};

use super::Candidate;
use crate::ci::orders::Run;
use crate::ci::queue;
use crate::ci::start::{self, Happened};
use crate::ctx::Server;

/// The pipelines that an image starts.
pub(crate) fn candidates(
    tx: &mut Tx<'_>,
    scope: Scope,
    image: &ImageEvent,
) -> Result<Vec<Candidate>, StoreError> {
    let mut found = Vec::new();
    for link in trigger_events::links(tx, scope)?.into_iter().filter(|link| fits(link, image)) {
        if let Some(row) = pipelines::by_name(tx, scope, &link.pipeline.to_string())? {
            found.push(Candidate::read(row)?);
        }
    }
    Ok(found)
}

fn named(image: &ImageEvent) -> [(&'static str, &str); 4] {
    [("NAMESPACE", &image.namespace), ("NAME", &image.name), ("TAG", &image.tag), ("EVENT", &image.event)]
}

fn fits(link: &EventTrigger, image: &ImageEvent) -> bool {
    let filters: BTreeMap<String, String> = serde_json::from_str(&link.filters).unwrap_or_default();
    link.uri == image.event
        && filters.iter().all(|(name, pattern)| {
            let value = named(image).into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            value.is_some_and(|(_, value)| queue::fits(pattern, value))
        })
}

/// By their published names, and by those that pipelines of this platform know.
fn variables(image: &ImageEvent) -> Vec<Variable> {
    let published = [
        ("EVENT_NAMESPACE", image.namespace.as_str()),
        ("EVENT_NAME", &image.name),
        ("EVENT_TAG", &image.tag),
        ("EVENT_PUSHER", &image.pusher),
        ("EVENT_PUSHED_AT", &image.pushed_at),
        ("EVENT_PAYLOAD", &image.payload),
    ];
    let plain = |(key, value): (&str, &str)| Variable {
        key: key.to_owned(),
        value: value.to_owned(),
        encrypted: false,
    };
    named(image).into_iter().chain(published).map(plain).collect()
}

pub(super) fn carry_out(
    server: &Server,
    tx: &mut Tx<'_>,
    scope: Scope,
    image: &ImageEvent,
    candidates: &[Candidate],
) -> Result<(), StoreError> {
    for candidate in candidates {
        let Some((row, pipeline)) = candidate.now(tx, scope)? else { continue };
        let name = format!("{}/{}:{}", image.namespace, image.name, image.tag);
        let run = Run {
            trigger_variables: variables(image),
            webhook: true,
            initiator: Some(Initiator {
                kind: "registry".into(),
                name: name.trim_start_matches('/').to_owned(),
                by: None,
            }),
            ..Run::default()
        };
        let of = start::Current { row: &row, pipeline: &pipeline };
        match start::order(tx, scope, of, run) {
            Ok(order) => {
                let cause = Happened::Image { event: &image.event, delivery: &image.delivery };
                start::start(server, tx, scope, of, &order, cause)?;
            }
            Err(error) => {
                tracing::warn!(pipeline = row.name, %error, "An image matched a pipeline that cannot run.");
            }
        }
    }
    Ok(())
}
