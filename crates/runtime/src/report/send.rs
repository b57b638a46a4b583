//! How reports go out: bodies of bounded size, each with a number; everything there is in pages under one number.
//!
//! What changed waits in the outbox until the control plane has taken it, and goes out again after a failure, under a higher number:
//! the latest state of every object, however long it took. Everything is sent at the beginning, when this process got other parts to look
//! after, and when the control plane has lost what it had taken. Pages that it misses at the end are sent once more; when it says that
//! it has too much to do, it is left alone as long as it asks for.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use slipway_api::report::{CompletePage, ENTITY_BYTES_MAX, Entity, EntityName, ReportTaken, RuntimeReport};
use slipway_api::{Client, ClientError};

use slipway_model::Backoff;
use slipway_reconcile::{Shards, Share};

use super::Reporter;
use super::health::Health;
use super::outbox::{Change, Outbox};
use crate::Config;
use crate::context::Context;
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
/// How often it is looked at what this process has to look after.
const LOOK: Duration = Duration::from_secs(1);
/// A body that another process sent of what is ours now has arrived by then.
const AGAIN: Duration = Duration::from_secs(60);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// What a reconcile found nothing to say of, as when another process had it still, is waited for so long before a complete
/// report is sent without it, which takes it away.
const UNTOLD: Duration = Duration::from_secs(30);

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

/// Names and states repeat themselves: a tenth is sent.
fn pack(report: &RuntimeReport) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    serde_json::to_writer(&mut packed, report).expect("a report is JSON, and memory takes it");
    packed.finish().expect("memory takes it")
}

/// Why a body did not get through.
enum Failure {
    /// The control plane asks to be left alone for so long.
    Later(Duration),
    Failed(String),
}

/// Bodies on their way to the control plane.
struct Sender<'a> {
    server: &'a Client,
    config: &'a Config,
    reporter: &'a Reporter,
    replica: &'a str,
    health: &'a Health,
    /// What was left out before; nobody is told twice.
    refused: &'a Mutex<BTreeSet<EntityName>>,
    /// The highest number that was taken.
    taken: AtomicI64,
    /// The control plane does not know what it had taken.
    has_lost: AtomicBool,
}

impl Sender<'_> {
    /// These changes, in as many bodies as it takes; those that came too late, because somebody else said more of them.
    async fn changes(
        &self,
        changes: &[Change],
        number: Option<i64>,
    ) -> Result<BTreeSet<EntityName>, Failure> {
        let of = |is_gone: bool| changes.iter().filter(move |change| change.entity.is_none() == is_gone);
        let removed: Vec<_> = of(true).map(|change| change.name.clone()).collect();
        let entities = of(false).filter_map(|change| change.entity.as_deref().cloned()).collect();
        let mut removed = removed.chunks(PAGE_ENTITIES).map(<[EntityName]>::to_vec);
        let mut bodies: Vec<_> =
            pages(entities).into_iter().map(|page| (page, removed.next().unwrap_or_default())).collect();
        bodies.extend(removed.map(|removed| (Vec::new(), removed)));
        let mut stale = BTreeSet::new();
        for (entities, removed) in bodies {
            let names: Vec<_> = entities.iter().map(Entity::name).chain(removed.iter().cloned()).collect();
            let number = number.unwrap_or_else(|| self.reporter.sequence.next());
            let answer = self.body(number, None, Vec::new(), entities, removed).await?;
            stale.extend(if answer.taken { answer.stale } else { names });
        }
        Ok(stale)
    }

    /// Everything there is of a share, in pages.
    async fn everything(&self, entities: Vec<Entity>, share: &Share) -> Result<(), Failure> {
        let sequence = self.reporter.sequence.next();
        let parts: Vec<_> = match share {
            Share::Parts(parts) => parts.iter().copied().collect(),
            Share::Everything | Share::Nothing => Vec::new(),
        };
        let pages = pages(entities);
        let send = async |page: usize| {
            let last = page + 1 == pages.len();
            let complete = CompletePage { page: u32::try_from(page).unwrap_or(u32::MAX), last };
            let answer =
                self.body(sequence, Some(complete), parts.clone(), pages[page].clone(), Vec::new()).await?;
            match answer.taken {
                true => Ok(answer),
                false => Err(Failure::Failed(format!(
                    "the control plane has heard report {} already",
                    answer.sequence
                ))),
            }
        };
        let mut missing = Vec::new();
        for page in 0..pages.len() {
            missing = send(page).await?.missing;
        }
        for page in std::mem::take(&mut missing) {
            let page = usize::try_from(page).unwrap_or(usize::MAX);
            missing = if page < pages.len() { send(page).await?.missing } else { Vec::new() };
        }
        match missing.len() {
            0 => Ok(()),
            some => {
                Err(Failure::Failed(format!("the control plane misses {some} pages of the complete report")))
            }
        }
    }

    async fn body(
        &self,
        sequence: i64,
        complete: Option<CompletePage>,
        parts: Vec<u16>,
        entities: Vec<Entity>,
        removed: Vec<EntityName>,
    ) -> Result<ReportTaken, Failure> {
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
            replica: self.replica.to_owned(),
            parts,
            health: self.health.news(),
        };
        let packed = tokio::task::spawn_blocking(move || pack(&report)).await.expect("it does not panic");
        let weight = packed.len();
        let request = self.server.request(reqwest::Method::POST, "/2.0/api/events");
        let request = request.header("content-type", "application/json").header("content-encoding", "gzip");
        let sending = async {
            let answer = self.server.send(request.body(packed)).await?;
            // Without a readable body it was still taken in.
            let unread = ReportTaken { taken: true, ..ReportTaken::default() };
            Ok::<_, ClientError>(answer.json::<ReportTaken>().await.unwrap_or(unread))
        };
        let answer = match tokio::time::timeout(ANSWER_WITHIN, sending).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(ClientError::Later { after, .. })) => return Err(Failure::Later(after)),
            Ok(Err(error)) => return Err(Failure::Failed(error.to_string())),
            Err(_) => return Err(Failure::Failed("the control plane does not answer".to_owned())),
        };
        self.reporter.queue.acknowledged(weight);
        self.reporter.sequence.heard(answer.sequence);
        let taken = self.taken.load(Ordering::SeqCst);
        if answer.before.is_some_and(|before| before < taken) {
            self.has_lost.store(true, Ordering::SeqCst);
            self.taken.store(0, Ordering::SeqCst);
        }
        if answer.taken {
            self.taken.fetch_max(sequence, Ordering::SeqCst);
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
pub(crate) async fn send_reports(context: &Context) {
    let Context { config, reporter, inventory, shards, .. } = context;
    let (config, reporter): (&Config, &Reporter) = (config, reporter);
    let health = Health::new(context);
    let Some(server) = config.server.clone() else { return std::future::pending().await };
    let refused = Mutex::default();
    let (taken, has_lost) = (AtomicI64::new(0), AtomicBool::new(false));
    let replica = shards.replica();
    let (health, refused) = (&health, &refused);
    let sender = Sender { server: &server, config, reporter, replica, health, refused, taken, has_lost };
    let data = config.data.clone();
    let (outbox, number) =
        tokio::task::spawn_blocking(move || Outbox::open(&data)).await.expect("it does not panic");
    reporter.sequence.heard(number);
    let left = Left { changes: outbox.waiting(), number };
    let (share, since, owed, again_at) = (Share::Nothing, Instant::now(), true, None);
    let mut round = Rounds { sender, inventory, shards, outbox, left, share, since, owed, again_at };
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(16));
    let mut not_before = Instant::now();
    let mut sent_at: Option<Instant> = None;
    loop {
        let ordered = round.gather().await;
        let (objects, bytes) = round.outbox.size();
        reporter.queue.holds(objects, bytes);
        let is_due = round.has_something() || sent_at.is_none_or(|at| at.elapsed() >= HEARTBEAT);
        if is_due && Instant::now() >= not_before && round.share != Share::Nothing {
            match round.send().await {
                Ok(true) => {
                    backoff.reset();
                    sent_at = Some(Instant::now());
                    reporter.told.send_replace(ordered);
                }
                // Said again with a higher number.
                Ok(false) => not_before = Instant::now() + backoff.failed(),
                Err(Failure::Later(after)) => {
                    reporter.queue.postponed();
                    not_before = Instant::now() + after;
                }
                Err(Failure::Failed(error)) => {
                    reporter.queue.failed();
                    if backoff.failures() == 0 {
                        tracing::warn!(%error, "A report could not be sent; what changed is kept and sent again later.");
                    }
                    not_before = Instant::now() + backoff.failed();
                }
            }
        }
        let (objects, bytes) = round.outbox.size();
        reporter.queue.holds(objects, bytes);
        let rest = if round.owed || round.has_something() { EARLY } else { LOOK };
        let pause = not_before.saturating_duration_since(Instant::now());
        tokio::select! {
            () = reporter.signal.notified() => tokio::time::sleep(GATHER).await,
            () = tokio::time::sleep(if pause.is_zero() { rest } else { pause.min(LOOK) }) => {}
        }
    }
}

/// What an earlier process left: said with the number that it had, so that whatever was said since stands.
struct Left {
    changes: Vec<Change>,
    number: i64,
}

struct Rounds<'a> {
    sender: Sender<'a>,
    inventory: &'a Inventory,
    shards: &'a Shards,
    outbox: Outbox,
    left: Left,
    share: Share,
    /// Since when it is that.
    since: Instant,
    /// Everything is to be sent.
    owed: bool,
    /// And once more then: whoever had these parts before may have had a body on its way.
    again_at: Option<Instant>,
}

impl Rounds<'_> {
    /// Takes what changed into the outbox, and keeps it; which orders it tells of.
    async fn gather(&mut self) -> u64 {
        let (share, reporter) = (self.shards.share(), self.sender.reporter);
        if share != self.share {
            reporter.keep_only(&share);
            self.owed |= share != Share::Nothing;
            self.again_at = matches!(share, Share::Parts(_)).then(|| Instant::now() + AGAIN);
            (self.share, self.since) = (share, Instant::now());
        }
        if self.again_at.is_some_and(|at| Instant::now() >= at) {
            (self.owed, self.again_at) = (true, None);
        }
        if self.share == Share::Nothing {
            return *reporter.told.borrow();
        }
        let taken = reporter.take(&self.share);
        for (name, entity) in taken.changes {
            self.outbox.put(name, entity);
        }
        self.owed |= self.outbox.has_overflowed();
        let number = reporter.sequence.next();
        let empty = Outbox::none();
        let mut outbox = std::mem::replace(&mut self.outbox, empty);
        let kept = tokio::task::spawn_blocking(move || {
            outbox.keep(number);
            outbox
        });
        self.outbox = kept.await.expect("it does not panic");
        taken.ordered
    }

    fn has_something(&self) -> bool {
        !self.outbox.is_empty() || self.is_complete()
    }

    /// A complete report takes away what it does not name, so it must not be early.
    fn is_complete(&self) -> bool {
        if !self.owed {
            return false;
        }
        let all = self.inventory.applications().into_iter().chain(self.inventory.application_sets());
        let all: Vec<_> = all.filter(|key| self.share.holds(key)).collect();
        let reporter = self.sender.reporter;
        reporter.has_reconciled(&all) && (reporter.knows(&all) || self.since.elapsed() >= UNTOLD)
    }

    /// False: something has to be said again.
    async fn send(&mut self) -> Result<bool, Failure> {
        if !self.left.changes.is_empty() {
            let left: Vec<_> =
                self.left.changes.iter().filter(|change| self.outbox.is_latest(change)).cloned().collect();
            self.sender.changes(&left, Some(self.left.number)).await?;
            for change in std::mem::take(&mut self.left.changes) {
                self.outbox.acknowledged(&change);
            }
        }
        let waiting = self.outbox.waiting();
        let mut stale = BTreeSet::new();
        if self.is_complete() {
            self.sender.everything(self.sender.reporter.all(&self.share), &self.share).await?;
            self.owed = false;
            self.outbox.recovered();
        } else {
            stale = self.sender.changes(&waiting, None).await?;
        }
        for change in waiting.iter().filter(|change| !stale.contains(&change.name)) {
            self.outbox.acknowledged(change);
        }
        if self.sender.has_lost.swap(false, Ordering::SeqCst) {
            tracing::warn!("The control plane does not know what it had heard; everything is sent again.");
            self.owed = true;
        }
        Ok(stale.is_empty())
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
