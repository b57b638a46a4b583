//! How reports go out: bodies of bounded size, each with a number; everything there is in pages under one number.
//!
//! After a failure nobody knows what arrived, so that everything is sent again under a higher number, which takes the place of
//! whatever was half sent. Pages that the control plane misses at the end are sent once more.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use slipway_api::report::{CompletePage, ENTITY_BYTES_MAX, Entity, EntityName, ReportTaken, RuntimeReport};
use slipway_api::{Client, ClientError};

use slipway_model::Backoff;

use super::{Reporter, Round};
use crate::Config;
use crate::inventory::Inventory;

/// What one body may weigh; the control plane takes twice as much.
const PAGE_BYTES: usize = 4 << 20;
/// Entities, or removals, in one body.
const PAGE_ENTITIES: usize = 1_000;
/// Changes that come together are told together.
const GATHER: Duration = Duration::from_millis(50);
/// Until everything was reconciled once, a complete report is owed.
const EARLY: Duration = Duration::from_millis(500);
/// A control plane that forgot us learns of us again.
const HEARTBEAT: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Numbers of bodies: they rise, also over a restart, because they follow the clock in microseconds. Where the clock went back,
/// the control plane says how far it has come.
#[derive(Default)]
pub(super) struct Sequence(AtomicI64);

impl Sequence {
    fn next(&self) -> i64 {
        self.next_at(jiff::Timestamp::now().as_microsecond())
    }

    fn next_at(&self, now: i64) -> i64 {
        let next = |last: i64| Some(now.max(last + 1));
        let last = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        now.max(last.unwrap_or_default() + 1)
    }

    /// The control plane has heard this number.
    fn heard(&self, sequence: i64) {
        self.0.fetch_max(sequence, Ordering::SeqCst);
    }
}

/// Entities in bodies that the control plane takes, each with at least one.
fn pages(entities: Vec<Entity>) -> Vec<Vec<Entity>> {
    let mut pages = vec![Vec::new()];
    let mut bytes = 0;
    for entity in entities {
        let Some((entity, weight)) = fit(entity) else { continue };
        let page = pages.last().expect("there is one from the start");
        if bytes > 0 && (bytes + weight > PAGE_BYTES || page.len() == PAGE_ENTITIES) {
            pages.push(Vec::new());
            bytes = 0;
        }
        bytes += weight;
        pages.last_mut().expect("there is one from the start").push(entity);
    }
    pages
}

/// One that is too large is told of without its tree; one that still is, is not told of.
fn fit(mut entity: Entity) -> Option<(Entity, usize)> {
    let weigh = |entity: &Entity| serde_json::to_string(entity).map_or(usize::MAX, |text| text.len());
    let mut weight = weigh(&entity);
    if weight > ENTITY_BYTES_MAX {
        if let Some(body) = entity.body.as_object_mut() {
            body.remove("resources");
        }
        weight = weigh(&entity);
        let is_told = weight <= ENTITY_BYTES_MAX;
        tracing::warn!(kind = %entity.kind, namespace = %entity.namespace, name = %entity.name, is_told, "An object is too large for the control plane, which is not told of its resources.");
    }
    (weight <= ENTITY_BYTES_MAX).then_some((entity, weight))
}

/// Bodies on their way to the control plane.
struct Sender<'a> {
    server: &'a Client,
    config: &'a Config,
    reporter: &'a Reporter,
    /// What was left out before; nobody is told twice.
    refused: &'a Mutex<std::collections::BTreeSet<EntityName>>,
}

impl Sender<'_> {
    /// What changed, in as many bodies as it takes.
    async fn changes(&self, round: Round) -> Result<(), String> {
        let mut removed = round.removed.chunks(PAGE_ENTITIES).map(<[EntityName]>::to_vec);
        for entities in pages(round.entities) {
            let removed = removed.next().unwrap_or_default();
            self.body(self.reporter.sequence.next(), None, entities, removed).await?;
        }
        for removed in removed {
            self.body(self.reporter.sequence.next(), None, Vec::new(), removed).await?;
        }
        Ok(())
    }

    /// Everything there is, in pages.
    async fn everything(&self, entities: Vec<Entity>) -> Result<(), String> {
        let sequence = self.reporter.sequence.next();
        let pages = pages(entities);
        let send = async |page: usize| {
            let last = page + 1 == pages.len();
            let complete = CompletePage { page: u32::try_from(page).unwrap_or(u32::MAX), last };
            self.body(sequence, Some(complete), pages[page].clone(), Vec::new()).await
        };
        let mut missing = Vec::new();
        for page in 0..pages.len() {
            missing = send(page).await?.missing;
        }
        for page in std::mem::take(&mut missing) {
            let page = usize::try_from(page).unwrap_or(usize::MAX);
            missing = if page < pages.len() { send(page).await?.missing } else { Vec::new() };
        }
        match missing.is_empty() {
            true => Ok(()),
            false => Err(format!("the control plane misses {} pages of the complete report", missing.len())),
        }
    }

    async fn body(
        &self,
        sequence: i64,
        complete: Option<CompletePage>,
        entities: Vec<Entity>,
        removed: Vec<EntityName>,
    ) -> Result<ReportTaken, String> {
        let config = self.config;
        let report = RuntimeReport {
            runtime: config.name.clone(),
            version: config.version.clone(),
            ingress_url: config.ingress_url.clone(),
            cluster: config.cluster.clone(),
            sequence,
            complete,
            entities,
            removed,
        };
        let sending = self.server.post::<_, ReportTaken>("/2.0/api/events", &report);
        let answer = match tokio::time::timeout(ANSWER_WITHIN, sending).await {
            Ok(Ok(answer)) => answer,
            // Without a readable body it was still taken in.
            Ok(Err(ClientError::Unexpected { .. })) => ReportTaken { taken: true, ..ReportTaken::default() },
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("the control plane does not answer".to_owned()),
        };
        self.reporter.sequence.heard(answer.sequence);
        if !answer.taken {
            return Err(format!("the control plane has heard report {} already", answer.sequence));
        }
        for refused in &answer.refused {
            if self.refused.lock().expect("no panic while locked").insert(refused.entity.clone()) {
                let EntityName { kind, namespace, name } = &refused.entity;
                tracing::warn!(%kind, %namespace, %name, reason = %refused.reason, "The control plane does not take the state of an object.");
            }
        }
        Ok(answer)
    }
}

/// Runs for ever. Without a control plane there is nobody to report to.
pub(crate) async fn send_reports(config: &Config, reporter: &Reporter, inventory: &Inventory) {
    let Some(server) = config.server.clone() else { return std::future::pending().await };
    let all = || inventory.applications().into_iter().chain(inventory.application_sets());
    let refused = Mutex::default();
    let sender = Sender { server: &server, config, reporter, refused: &refused };
    let mut owed = true;
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(16));
    loop {
        // A complete report takes away what it does not name, so it must not be early.
        let complete = owed && reporter.has_reconciled(all());
        let round = reporter.take(complete);
        let ordered = round.ordered;
        let sent = match complete {
            true => sender.everything(round.entities).await,
            false => sender.changes(round).await,
        };
        match sent {
            Ok(()) => {
                backoff.reset();
                owed &= !complete;
                reporter.told.send_replace(ordered);
            }
            Err(error) => {
                owed = true;
                if backoff.failures() == 0 {
                    tracing::warn!(%error, "A report could not be sent; everything is sent again later.");
                }
                tokio::time::sleep(backoff.failed()).await;
                continue;
            }
        }
        let rest = if owed { EARLY } else { HEARTBEAT };
        tokio::select! {
            () = reporter.signal.notified() => tokio::time::sleep(GATHER).await,
            () = tokio::time::sleep(rest) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entity(number: usize, weight: usize) -> Entity {
        Entity {
            kind: "argoproj.io/Application".into(),
            name: format!("app-{number}"),
            body: json!({"summary": "x".repeat(weight)}),
            ..Entity::default()
        }
    }

    #[test]
    fn many_entities_are_told_in_bodies_that_fit() {
        let entities: Vec<_> = (0..10_000).map(|number| entity(number, 6_000)).collect();
        let pages_of_all = pages(entities.clone());
        assert!(pages_of_all.len() > 14, "{}", pages_of_all.len());
        let weight = |page: &Vec<Entity>| serde_json::to_string(page).expect("plain").len();
        assert!(pages_of_all.iter().all(|page| weight(page) < PAGE_BYTES + 100_000));
        assert_eq!(pages_of_all.concat(), entities);
        assert_eq!(pages(Vec::new()), [Vec::new()], "an empty report is one body");
        let heavy = pages(vec![entity(1, 2_000), entity(2, PAGE_BYTES - 1_000), entity(3, 2_000)]);
        assert_eq!(heavy.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
        let small = pages((0..2_500).map(|number| entity(number, 1)).collect());
        assert_eq!(small.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
    }

    #[test]
    fn what_is_too_large_is_told_without_its_tree() {
        let mut large = entity(1, 10);
        large.body["resources"] = json!("x".repeat(ENTITY_BYTES_MAX));
        let told = pages(vec![entity(0, 1), large, entity(2, ENTITY_BYTES_MAX)]).concat();
        assert_eq!(told.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["app-0", "app-1"]);
        assert!(told[1].body.get("resources").is_none() && told[1].body.get("summary").is_some());
    }

    #[test]
    fn numbers_rise_with_the_clock_and_past_what_was_heard() {
        let sequence = Sequence::default();
        assert_eq!([sequence.next_at(10), sequence.next_at(10), sequence.next_at(5)], [10, 11, 12]);
        sequence.heard(1_000);
        assert_eq!([sequence.next_at(20), sequence.next_at(2_000)], [1_001, 2_000]);
    }
}
