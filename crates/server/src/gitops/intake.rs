//! Taking in what a runtime reports: an envelope of entities of any kind, all of them a page at a time or those that changed.
//!
//! In: a body whose sender is known to be the runtime that it names. Out: rows of `store::entities`, facts of what happened to
//! Applications, and an answer that says what is missing or was left out. A report is data: it speaks of its runtime's own
//! entities and of nothing else, its sizes are limited here, and one entity that cannot be kept does not hold up the others.
//! What is costly (reading bodies, writing JSON) is done before the transaction.

use std::collections::{BTreeMap, BTreeSet};

use slipway_api::application::{Application, ApplicationRow};
use slipway_api::health::RuntimeHealth;
use slipway_api::report::{
    APPLICATION, CompletePage, ENTITIES_MAX, ENTITY_BYTES_MAX, Entity, EntityName, PAGES_MAX, REPLICAS_MAX,
    Refused, ReportTaken, RuntimeReport, SEQUENCE_MAX,
};
use slipway_model::{ApiKeyId, ChangeKind, SHARES, share_of};
use slipway_store::applications::{self, Runtime};
use slipway_store::entities::{self, Complete, Completes, Name, Reported, Share};
use slipway_store::identity::{self, Subject};
use slipway_store::{Scope, StoreError, Tx, facts, runtimes};

use super::deployments::{self, Heard};
use super::health;
use crate::http::error::ApiError;
use crate::http::limits;

/// As many as a runtime reports.
const LABELS_MAX: usize = 64;
/// A key with its prefix.
const LABEL_BYTES_MAX: usize = 320;
const GIT_SOURCES_MAX: usize = 8;
/// Of one runtime, with those that went lately.
const ENTITIES_OF_RUNTIME_MAX: i64 = 100_000;
/// What an answer lists at most.
const LISTED_MAX: usize = 100;
const WORD_CHARS_MAX: usize = 64;
const MESSAGE_CHARS_MAX: usize = 2_000;

/// A report that is ready to be stored.
pub(crate) struct Intake {
    runtime: Runtime,
    sequence: i64,
    page: Option<CompletePage>,
    replica: String,
    parts: BTreeSet<u16>,
    entities: Vec<Ready>,
    removed: Vec<EntityName>,
    refused: Vec<Refused>,
    stale: Vec<EntityName>,
    health: Option<RuntimeHealth>,
}

/// An entity whose texts are written already.
struct Ready {
    name: EntityName,
    uid: String,
    resource_version: String,
    state: String,
    summary: String,
    body: String,
    application: Option<Box<Application>>,
}

impl Intake {
    pub(crate) fn new(report: RuntimeReport) -> Result<Self, ApiError> {
        check(&report)?;
        let RuntimeReport {
            runtime,
            version,
            ingress_url,
            cluster,
            sequence,
            complete,
            entities,
            removed,
            replica,
            parts,
            health,
        } = report;
        let (mut ready, mut refused) = (Vec::with_capacity(entities.len()), Vec::new());
        for entity in entities {
            let name = entity.name();
            match prepare(entity, &runtime) {
                Ok(one) => ready.push(one),
                Err(reason) => refused.push(Refused { entity: name, reason }),
            }
        }
        let runtime = Runtime {
            name: runtime,
            version,
            cluster,
            ingress_url,
            last_seen_ms: 0,
            sequence,
            applications: 0,
        };
        let (parts, stale) = (parts.into_iter().collect(), Vec::new());
        Ok(Self {
            runtime,
            sequence,
            page: complete,
            replica,
            parts,
            entities: ready,
            removed,
            refused,
            stale,
            health,
        })
    }

    pub(crate) fn store(
        mut self,
        tx: &mut Tx<'_>,
        scope: Scope,
        key: ApiKeyId,
        now_ms: i64,
    ) -> Result<ReportTaken, ApiError> {
        still_its_name(tx, scope, &self.runtime.name, key)?;
        let heard = within_limits(tx, scope, &self.runtime)?;
        self.runtime.last_seen_ms = now_ms;
        self.runtime.sequence = self.sequence.max(heard);
        applications::runtime_seen(tx, scope, &self.runtime)?;
        if let Some(said) = self.health.take() {
            let kept = runtimes::health(tx, scope, &self.runtime.name)?;
            let kept = health::heard(&kept, &self.replica, said, now_ms);
            runtimes::set_health(tx, scope, &self.runtime.name, &kept)?;
        }
        tx.changed(scope.account(), ChangeKind::Runtime, &self.runtime.name);
        let answer =
            ReportTaken { sequence: self.runtime.sequence, before: Some(heard), ..ReportTaken::default() };
        let mut completes = entities::completes(tx, scope, &self.runtime.name)?;
        if self.is_late(&completes) {
            return Ok(answer);
        }
        self.leave_out_what_is_late(&completes);
        let page = self.page.map(|page| self.note_page(&mut completes, page));
        self.put_all(tx, scope, now_ms)?;
        self.remove_all(tx, scope, now_ms)?;
        let mut missing = Vec::new();
        if let Some(complete) = page {
            entities::put_completes(tx, scope, &self.runtime.name, &completes)?;
            if complete.has_ended() {
                let of_share = |of: Name<'_>| self.parts.contains(&share_of(of.namespace, of.name));
                let meant: Option<&dyn Fn(Name<'_>) -> bool> =
                    if self.parts.is_empty() { None } else { Some(&of_share) };
                entities::remove_unnamed(tx, scope, &self.runtime.name, self.sequence, meant, now_ms)?;
            } else if complete.last.is_some() {
                missing = complete.missing(LISTED_MAX);
            }
        }
        self.refused.truncate(LISTED_MAX);
        let (refused, stale) = (self.refused, self.stale);
        Ok(ReportTaken { taken: true, missing, refused, stale, ..answer })
    }

    /// Whether everything in it was said by a complete report with a higher number.
    fn is_late(&self, completes: &Completes) -> bool {
        let lowest = (0..SHARES).map(|part| completes.floor(part)).min().unwrap_or_default();
        let own = completes.shares.get(&self.replica).map_or(0, |share| share.complete.sequence);
        match self.page {
            Some(_) => lowest.max(own) > self.sequence,
            None => lowest >= self.sequence,
        }
    }

    /// A part may have been reported completely since, by this process or by another one that has it now.
    fn leave_out_what_is_late(&mut self, completes: &Completes) {
        let (sequence, is_page) = (self.sequence, self.page.is_some());
        let mut late = Vec::new();
        let mut is_late = |name: &EntityName| {
            let floor = completes.floor(share_of(&name.namespace, &name.name));
            let is_late = floor > sequence || (floor == sequence && !is_page);
            if is_late {
                late.push(name.clone());
            }
            is_late
        };
        self.entities.retain(|ready| !is_late(&ready.name));
        self.removed.retain(|name| !is_late(name));
        self.stale = late;
    }

    /// The complete report with this page.
    fn note_page(&self, completes: &mut Completes, page: CompletePage) -> Complete {
        if self.parts.is_empty() {
            completes.whole = with_page(std::mem::take(&mut completes.whole), self.sequence, page);
            return completes.whole.clone();
        }
        let before = completes.shares.remove(&self.replica).unwrap_or_default().complete;
        let complete = with_page(before, self.sequence, page);
        if completes.shares.len() >= REPLICAS_MAX {
            let oldest = completes.shares.iter().min_by_key(|(_, share)| share.complete.sequence);
            let oldest = oldest.map(|(replica, _)| replica.clone());
            oldest.map(|oldest| completes.shares.remove(&oldest));
        }
        let share = Share { complete: complete.clone(), parts: self.parts.clone() };
        completes.shares.insert(self.replica.clone(), share);
        complete
    }

    /// One question and few statements for a whole page, however many entities it names.
    fn put_all(&mut self, tx: &mut Tx<'_>, scope: Scope, now_ms: i64) -> Result<(), StoreError> {
        let Self { runtime, sequence, entities: all, refused, stale, .. } = self;
        let (runtime, sequence) = (&runtime.name, *sequence);
        let mut applications: Vec<_> = all.iter_mut().map(|ready| ready.application.take()).collect();
        for refused in &*refused {
            entities::named_again(tx, scope, runtime, place(&refused.entity), sequence)?;
        }
        let names: Vec<_> = all.iter().map(|ready| place(&ready.name)).collect();
        let known = entities::known(tx, scope, runtime, &names)?;
        let mut count = None;
        // By name: of an entity that a page names twice, what it says last is kept.
        let mut kept: BTreeMap<Name<'_>, (&Ready, Told)> = BTreeMap::new();
        for (ready, application) in all.iter().zip(&mut applications) {
            let name = place(&ready.name);
            let known = known.get(&name);
            if known.is_some_and(|known| known.is_newer_than(sequence)) {
                stale.push(ready.name.clone());
                continue;
            }
            if known.is_none() && !kept.contains_key(&name) {
                let count = match &mut count {
                    Some(count) => count,
                    None => count.insert(entities::count(tx, scope, runtime)?),
                };
                *count += 1;
                if *count > ENTITIES_OF_RUNTIME_MAX {
                    let reason = format!("a runtime may report {ENTITIES_OF_RUNTIME_MAX} entities");
                    refused.push(Refused { entity: ready.name.clone(), reason });
                    continue;
                }
            }
            let before = kept.get(&name).map(|(_, told)| told.told.clone());
            let before = before.or_else(|| known.map(|known| known.told.clone())).unwrap_or_default();
            let told = match application {
                Some(app) => tell(tx, scope, runtime, &ready.uid, app, &before, now_ms)?,
                None => Told { told: before, body: None },
            };
            kept.insert(name, (ready, told));
        }
        let rows: Vec<_> =
            kept.iter().map(|(name, (ready, told))| (*name, reported(ready, told, sequence))).collect();
        entities::put(tx, scope, runtime, &rows)
    }

    fn remove_all(&self, tx: &mut Tx<'_>, scope: Scope, now_ms: i64) -> Result<(), StoreError> {
        for name in &self.removed {
            entities::remove(tx, scope, &self.runtime.name, place(name), self.sequence, now_ms)?;
        }
        if !self.removed.is_empty() || self.page.is_some_and(|page| page.last) {
            let before_ms = now_ms - deployments::HEARD_WITHIN_MS;
            entities::forget_gone(tx, scope, &self.runtime.name, before_ms)?;
        }
        Ok(())
    }
}

fn place(name: &EntityName) -> Name<'_> {
    Name { kind: &name.kind, namespace: &name.namespace, name: &name.name }
}

/// What is kept beside an entity, and its body where more is known of it than was reported.
struct Told {
    told: String,
    body: Option<String>,
}

/// Facts of what happened to an Application since `told`; says what is told now.
fn tell(
    tx: &mut Tx<'_>,
    scope: Scope,
    runtime: &str,
    uid: &str,
    app: &mut Application,
    told: &str,
    now_ms: i64,
) -> Result<Told, StoreError> {
    let heard = Heard { account: scope.account(), runtime, uid, now_ms };
    let history = app.history.clone();
    let (now_told, news) = deployments::follow(heard, told, app);
    for fact in &news {
        facts::note(tx, scope.account(), fact, now_ms)?;
    }
    let completed = app.history != history;
    let body = completed.then(|| serde_json::to_string(&app).map_err(StoreError::corrupt)).transpose()?;
    let told = serde_json::to_string(&now_told).map_err(StoreError::corrupt)?;
    Ok(Told { told, body: body.filter(|body| body.len() <= ENTITY_BYTES_MAX) })
}

fn reported<'a>(ready: &'a Ready, told: &'a Told, sequence: i64) -> Reported<'a> {
    Reported {
        uid: &ready.uid,
        resource_version: &ready.resource_version,
        sequence,
        state: &ready.state,
        summary: &ready.summary,
        body: told.body.as_ref().unwrap_or(&ready.body),
        told: &told.told,
    }
}

/// The complete report with this page. One of another number begins anew.
fn with_page(before: Complete, sequence: i64, page: CompletePage) -> Complete {
    let mut complete = Some(before)
        .filter(|before| before.sequence == sequence)
        .unwrap_or_else(|| Complete { sequence, ..Complete::default() });
    complete.pages.insert(page.page);
    if page.last {
        complete.last = complete.last.max(Some(page.page));
    }
    complete
}

fn check(report: &RuntimeReport) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::bad_request(message));
    if !(1..=SEQUENCE_MAX).contains(&report.sequence) {
        return refuse(format!("`sequence` must be a number from 1 to {SEQUENCE_MAX}"));
    }
    if report.entities.len() + report.removed.len() > ENTITIES_MAX {
        return refuse(format!("a body may name {ENTITIES_MAX} entities: send more of them in another one"));
    }
    if report.complete.is_some_and(|complete| complete.page >= PAGES_MAX) {
        return refuse(format!("a complete report may have {PAGES_MAX} pages"));
    }
    if report.replica.len() > WORD_CHARS_MAX || report.parts.iter().any(|part| *part >= SHARES) {
        return refuse(format!(
            "`replica` has at most {WORD_CHARS_MAX} bytes, and `parts` are numbers below {SHARES}"
        ));
    }
    match report.removed.iter().find_map(wrong_name) {
        Some(reason) => refuse(format!("`removed`: {reason}")),
        None => Ok(()),
    }
}

/// Why nothing can be called so.
fn wrong_name(name: &EntityName) -> Option<String> {
    let kind_parts = name.kind.split('/').collect::<Vec<_>>();
    let kind_is_good = matches!(kind_parts.len(), 1 | 2)
        && kind_parts.iter().all(|part| {
            (1..=253).contains(&part.len())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
        });
    let is_good = |text: &str| text.len() <= 253 && !text.chars().any(|c| c == '/' || c.is_control());
    if !kind_is_good {
        Some("`kind` is not a group and a kind such as `argoproj.io/Application`".to_owned())
    } else if name.name.is_empty() || !is_good(&name.name) || !is_good(&name.namespace) {
        Some("`namespace` and `name` are not names of an object".to_owned())
    } else {
        None
    }
}

/// Reads and bounds an entity, or says why it cannot be kept.
fn prepare(mut entity: Entity, runtime: &str) -> Result<Ready, String> {
    let name = entity.name();
    if let Some(reason) = wrong_name(&name) {
        return Err(reason);
    }
    for text in [&mut entity.state.health, &mut entity.state.sync, &mut entity.state.phase] {
        cut(text, WORD_CHARS_MAX);
    }
    cut(&mut entity.state.message, MESSAGE_CHARS_MAX);
    cut(&mut entity.uid, WORD_CHARS_MAX);
    cut(&mut entity.resource_version, WORD_CHARS_MAX);
    let (mut summary, mut application) = (String::new(), None);
    let body = if entity.kind == APPLICATION {
        let mut app: Application = serde_json::from_value(entity.body)
            .map_err(|error| format!("this is not an Application: {error}"))?;
        // Whatever it says of itself, it is the one that the envelope names.
        runtime.clone_into(&mut app.runtime);
        app.namespace.clone_from(&name.namespace);
        app.name.clone_from(&name.name);
        bound(&mut app);
        summary = json(&ApplicationRow::from(&app))?;
        let body = json(&app)?;
        application = Some(Box::new(app));
        body
    } else {
        json(&entity.body)?
    };
    if body.len() > ENTITY_BYTES_MAX {
        return Err(format!("it is larger than {ENTITY_BYTES_MAX} bytes"));
    }
    let state = json(&entity.state)?;
    let (uid, resource_version) = (entity.uid, entity.resource_version);
    Ok(Ready { name, uid, resource_version, state, summary, body, application })
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

fn cut(text: &mut String, chars: usize) {
    if let Some((at, _)) = text.char_indices().nth(chars) {
        text.truncate(at);
    }
}

/// What rules look at comes from the runtime: no more of it than anybody can mean. What is left out is not known, and a rule
/// that needs it does not fit.
fn bound(app: &mut Application) {
    const TEXT_BYTES_MAX: usize = 2_000;
    // Whatever a runtime says of it: it is made here ([`super::releases`]).
    app.history.iter_mut().for_each(|entry| entry.image_changes.clear());
    app.labels.retain(|key, value| key.len() <= LABEL_BYTES_MAX && value.len() <= LABEL_BYTES_MAX);
    while app.labels.len() > LABELS_MAX {
        app.labels.pop_last();
    }
    app.git_sources.retain(|source| source.len() <= TEXT_BYTES_MAX);
    app.git_sources.truncate(GIT_SOURCES_MAX);
    for text in [&mut app.destination_name, &mut app.destination_server] {
        if text.len() > TEXT_BYTES_MAX {
            text.clear();
        }
    }
}

/// Between the look at the sender's key and this transaction the runtime may have been renamed or deleted, or the key revoked: what it
/// says then would bring the old name back, or be believed of somebody who holds the old key.
fn still_its_name(tx: &mut Tx<'_>, scope: Scope, name: &str, key: ApiKeyId) -> Result<(), ApiError> {
    let keys = identity::keys_of(tx, scope, Subject::Runtime, name)?;
    if !keys.iter().any(|known| known.id == key) {
        return Err(ApiError::forbidden(format!("this key is not the key of runtime `{name}`")));
    }
    Ok(())
}

/// A runtime or cluster that is new here must fit into what the account may have. Gives the highest number that was heard.
fn within_limits(tx: &mut Tx<'_>, scope: Scope, runtime: &Runtime) -> Result<i64, ApiError> {
    let known = applications::places(tx, scope)?;
    let is_new = !known.iter().any(|known| known.name == runtime.name);
    let cluster_is_new = !known.iter().any(|known| known.cluster == runtime.cluster);
    for (is_new, limit) in [(is_new, "runtimes"), (cluster_is_new, "clusters")] {
        if let Some(refusal) = is_new.then(|| limits::refusal(tx, scope, limit)).transpose()?.flatten() {
            return Err(ApiError::over_limit(refusal));
        }
    }
    Ok(known.iter().find(|known| known.name == runtime.name).map_or(0, |known| known.sequence))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entity(kind: &str, namespace: &str, name: &str) -> Entity {
        Entity {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            body: json!({"a": 1}),
            ..Entity::default()
        }
    }

    #[test]
    fn names_are_names_and_texts_are_short() {
        for (kind, namespace, name) in [
            ("", "a", "b"),
            ("a/b/c", "a", "b"),
            ("/Pod", "a", "b"),
            ("x y/Pod", "a", "b"),
            ("Pod", "a/b", "c"),
            ("Pod", "a", ""),
            ("Pod", "a", "b\n"),
            ("Pod", "a", "x/y"),
        ] {
            assert!(prepare(entity(kind, namespace, name), "local").is_err(), "{kind} {namespace} {name}");
        }
        let mut long = entity("argoproj.io/Rollout", "a", "b");
        long.uid = "ü".repeat(1_000);
        long.state.message = "m".repeat(100_000);
        let ready = prepare(long, "local").unwrap_or_else(|reason| panic!("{reason}"));
        assert!(ready.uid.chars().count() == WORD_CHARS_MAX && ready.state.len() < MESSAGE_CHARS_MAX + 100);
        let mut huge = entity("argoproj.io/Rollout", "a", "b");
        huge.body = json!("x".repeat(ENTITY_BYTES_MAX));
        assert!(prepare(huge, "local").is_err_and(|reason| reason.contains("larger than")));
    }

    /// Also where it has to be kept as it came, because with what is known of it it is too large.
    #[test]
    fn what_took_the_place_of_which_image_is_not_for_a_runtime_to_say() {
        let mut forging = entity(APPLICATION, "a", "b");
        let changes = json!([{"image": "forged", "before": ["1"], "after": ["2"]}]);
        forging.body = json!({
            "runtime": "local", "namespace": "a", "name": "b", "project": "default", "repoUrl": "", "path": "",
            "targetRevision": "", "destination": "", "syncStatus": "Synced", "healthStatus": "Healthy", "summary": "",
            "observedAt": "", "history": [{"id": 0, "revision": {"sha": "c"}, "deployedAt": "", "initiatedBy": "",
                "imageChanges": changes}],
        });
        let ready = prepare(forging, "local").unwrap_or_else(|reason| panic!("{reason}"));
        assert!(ready.body.contains("history") && !ready.body.contains("forged"), "{}", ready.body);
    }

    #[test]
    fn a_page_of_a_later_report_begins_anew() {
        let page = |page, last| CompletePage { page, last };
        let first = with_page(Complete::default(), 5, page(1, true));
        assert_eq!((first.sequence, first.last, first.missing(9)), (5, Some(1), vec![0]));
        assert!(with_page(first.clone(), 5, page(0, false)).has_ended());
        let second = with_page(first, 6, page(0, false));
        assert_eq!((second.sequence, second.last, second.pages.len()), (6, None, 1));
    }
}
