//! From the report of an Application to what happened to it: syncs, deployments, changes of health.
//!
//! In: the Application as its runtime reports it, and what facts were made of before. Out: the facts that are new, in the
//! order of their times. Saying the same again makes none. What happened while nobody listened is read from the Application's
//! own history. Knows no store and no clock; whoever stores the report appends the facts in the same transaction.

use serde::{Deserialize, Serialize};
use slipway_api::application::{Application, Deployment, Operation};
use slipway_model::{AccountId, ApplicationEvent, Fact};

use super::releases::{self, Remembered};

/// What happened longer ago makes no fact: facts of that age are forgotten, and so is what they were made of.
pub(crate) const HEARD_WITHIN_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Entries of a history that are looked at, from the newest on.
const HISTORY_MAX: usize = 50;
const IMAGES_MAX: usize = 100;
const REVISIONS_MAX: usize = 32;
const TEXT_CHARS_MAX: usize = 300;

/// What facts were made of, kept beside the Application.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Told {
    uid: String,
    health: String,
    /// When the last sync began, which tells syncs apart.
    sync_started_at: String,
    sync_is_over: bool,
    /// The highest number in the history.
    deployed: Option<i64>,
    /// What was heard of its deployments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    releases: Vec<Remembered>,
}

/// Whose report it is, and when it was heard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard<'a> {
    pub(crate) account: AccountId,
    pub(crate) runtime: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) now_ms: i64,
}

/// `told` is empty for an Application that was never heard of. Its history is completed by what was heard before.
pub(crate) fn follow(heard: Heard<'_>, told: &str, app: &mut Application) -> (Told, Vec<Fact>) {
    let before: Option<Told> = serde_json::from_str(told).ok();
    // Another object of the same name has a history of its own.
    let same = |before: &Told| before.uid.is_empty() || heard.uid.is_empty() || before.uid == heard.uid;
    let before = before.filter(same);
    let releases = releases::complete(app, before.as_ref().map_or(&[], |before| &before.releases));
    let news = News { heard, app };
    let mut facts = news.syncs(before.as_ref());
    facts.extend(news.deployments(before.as_ref()));
    facts.extend(before.as_ref().and_then(|before| news.health(before)));
    let oldest = heard.now_ms - HEARD_WITHIN_MS;
    facts.retain(|(at_ms, _)| *at_ms >= oldest);
    facts.sort_by_key(|(at_ms, _)| *at_ms);
    let told = Told { releases, ..news.told(before.unwrap_or_default()) };
    (told, facts.into_iter().map(|(_, fact)| fact).collect())
}

struct News<'a> {
    heard: Heard<'a>,
    app: &'a Application,
}

impl News<'_> {
    /// What was told when all of this was.
    fn told(&self, before: Told) -> Told {
        let sync = self.sync();
        let highest = self.history().map(|entry| entry.id).max();
        Told {
            uid: if self.heard.uid.is_empty() { before.uid } else { short(self.heard.uid) },
            health: match self.app.health_status.as_str() {
                "" => before.health,
                health => short(health),
            },
            sync_started_at: sync.map_or(before.sync_started_at, |sync| short(&sync.started_at)),
            sync_is_over: sync.map_or(before.sync_is_over, Operation::is_over),
            deployed: before.deployed.max(highest),
            releases: Vec::new(),
        }
    }

    /// The sync under way or the last one; one that was only asked for has not begun.
    fn sync(&self) -> Option<&Operation> {
        let begun = |sync: &&Operation| !sync.started_at.is_empty() && sync.phase != "Pending";
        self.app.operation.as_ref().filter(begun)
    }

    fn history(&self) -> impl Iterator<Item = &Deployment> {
        self.app.history.iter().take(HISTORY_MAX)
    }

    fn syncs(&self, before: Option<&Told>) -> Vec<(i64, Fact)> {
        let Some(sync) = self.sync() else { return Vec::new() };
        let known = before.filter(|before| before.sync_started_at == short(&sync.started_at));
        let mut facts = Vec::new();
        if known.is_none() {
            facts.extend(before.and_then(|before| self.ended_unheard(before)));
            facts.push(self.started(sync));
        }
        if sync.is_over() && !known.is_some_and(|known| known.sync_is_over) {
            let at_ms = self.time(sync.finished_at.as_deref().unwrap_or_default());
            facts.push(self.finished(sync, at_ms));
        }
        facts
    }

    fn started(&self, sync: &Operation) -> (i64, Fact) {
        let at_ms = self.time(&sync.started_at);
        let event = ApplicationEvent {
            revisions: revisions(sync.revision.as_deref(), &sync.revisions),
            initiated_by: short(&sync.initiated_by),
            why: short(&sync.why),
            ..self.event(at_ms)
        };
        (at_ms, Fact::SyncStarted { account: self.heard.account, event: Box::new(event) })
    }

    fn finished(&self, sync: &Operation, at_ms: i64) -> (i64, Fact) {
        let event = ApplicationEvent {
            revisions: revisions(sync.revision.as_deref(), &sync.revisions),
            initiated_by: short(&sync.initiated_by),
            why: short(&sync.why),
            ..self.event(at_ms)
        };
        let (account, event) = (self.heard.account, Box::new(event));
        let started_at_ms = self.time(&sync.started_at);
        (at_ms, Fact::SyncFinished { account, event, phase: short(&sync.phase), started_at_ms })
    }

    /// A sync whose end nobody heard, because another one has begun since: the history tells whether it deployed.
    fn ended_unheard(&self, before: &Told) -> Option<(i64, Fact)> {
        if before.sync_is_over || before.sync_started_at.is_empty() {
            return None;
        }
        let began = |entry: &&Deployment| {
            entry.started_at.as_deref().map(short).as_deref() == Some(before.sync_started_at.as_str())
        };
        let entry = self.history().find(began)?;
        let sync = Operation {
            phase: "Succeeded".into(),
            started_at: before.sync_started_at.clone(),
            revision: Some(entry.revision.sha.clone()),
            revisions: entry.revisions.clone(),
            initiated_by: entry.initiated_by.clone(),
            why: entry.why.clone(),
            ..Operation::default()
        };
        Some(self.finished(&sync, self.time(&entry.deployed_at)))
    }

    fn deployments(&self, before: Option<&Told>) -> Vec<(i64, Fact)> {
        let told = before.and_then(|before| before.deployed);
        // The history lists the newest first.
        let mut new: Vec<_> =
            self.history().filter(|entry| told.is_none_or(|told| entry.id > told)).collect();
        new.sort_by_key(|entry| entry.id);
        new.dedup_by_key(|entry| entry.id);
        new.into_iter().map(|entry| self.deployed(entry)).collect()
    }

    fn deployed(&self, entry: &Deployment) -> (i64, Fact) {
        let at_ms = self.time(&entry.deployed_at);
        let event = ApplicationEvent {
            revisions: revisions(Some(&entry.revision.sha), &entry.revisions),
            images: entry.images.iter().take(IMAGES_MAX).map(|image| short(image)).collect(),
            initiated_by: short(&entry.initiated_by),
            why: short(&entry.why),
            ..self.event(at_ms)
        };
        let started_at_ms = entry.started_at.as_deref().map(|at| self.time(at));
        let (account, event) = (self.heard.account, Box::new(event));
        (at_ms, Fact::Deployed { account, event, id: entry.id, started_at_ms })
    }

    fn health(&self, before: &Told) -> Option<(i64, Fact)> {
        let health = short(self.app.health_status.as_str());
        if health.is_empty() || before.health.is_empty() || before.health == health {
            return None;
        }
        let at_ms = self.time(self.app.health_changed_at.as_deref().unwrap_or_default());
        let sha = self.app.revision.as_ref().map(|revision| revision.sha.as_str());
        let event = ApplicationEvent {
            revisions: revisions(sha, &[]),
            images: self.app.images.iter().take(IMAGES_MAX).map(|image| short(image)).collect(),
            ..self.event(at_ms)
        };
        let (account, event, before) = (self.heard.account, Box::new(event), before.health.clone());
        Some((at_ms, Fact::HealthChanged { account, event, before, health }))
    }

    fn event(&self, at_ms: i64) -> ApplicationEvent {
        ApplicationEvent {
            runtime: self.heard.runtime.to_owned(),
            namespace: self.app.namespace.clone(),
            name: self.app.name.clone(),
            uid: short(self.heard.uid),
            at_ms,
            heard_at_ms: self.heard.now_ms,
            ..ApplicationEvent::default()
        }
    }

    /// Milliseconds since 1970. What cannot be read, or has not come yet, happened when it was heard.
    fn time(&self, text: &str) -> i64 {
        let read: Option<jiff::Timestamp> = text.parse().ok();
        read.map_or(self.heard.now_ms, |at| at.as_millisecond().min(self.heard.now_ms))
    }
}

fn revisions(one: Option<&str>, several: &[String]) -> Vec<String> {
    let one = one.filter(|sha| !sha.is_empty() && several.is_empty());
    one.into_iter().chain(several.iter().map(String::as_str)).take(REVISIONS_MAX).map(short).collect()
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DAY_MS: i64 = 24 * 60 * 60 * 1000;

    fn now_ms() -> i64 {
        let at: jiff::Timestamp = "2026-01-10T00:00:00Z".parse().expect("a time");
        at.as_millisecond()
    }

    fn app(more: Value) -> Application {
        let mut app = json!({"namespace": "argocd", "name": "shop", "project": "default", "repoUrl": "r", "path": "p",
            "targetRevision": "HEAD", "destination": "d", "syncStatus": "Synced", "healthStatus": "Healthy",
            "summary": "", "observedAt": ""});
        for (key, value) in more.as_object().into_iter().flatten() {
            app[key] = value.clone();
        }
        serde_json::from_value(app).expect("an Application")
    }

    fn deployment(id: i64, began: &str, at: &str) -> Value {
        json!({"id": id, "revision": {"sha": format!("sha{id}")}, "startedAt": began, "deployedAt": at, "initiatedBy": "ada",
            "images": [format!("web:{id}")]})
    }

    fn sync(phase: &str, began: &str, finished: Option<&str>) -> Value {
        json!({"phase": phase, "message": "", "startedAt": began, "finishedAt": finished, "revision": "sha1", "initiatedBy": "ada",
            "why": "manual"})
    }

    fn heard(told: &str, uid: &str, app: &Application) -> (String, Vec<Value>) {
        let account = "ac0000000000000000000001".parse().expect("an id");
        let heard = Heard { account, runtime: "local", uid, now_ms: now_ms() };
        let (told, facts) = follow(heard, told, &mut app.clone());
        let facts = facts.iter().map(|fact| serde_json::to_value(fact).expect("plain")).collect();
        (serde_json::to_string(&told).expect("plain"), facts)
    }

    fn kinds(facts: &[Value]) -> Vec<&str> {
        facts.iter().map(|fact| fact["kind"].as_str().expect("a kind")).collect()
    }

    #[test]
    fn each_change_is_one_fact_however_often_it_is_reported() {
        let idle = app(json!({}));
        let (told, facts) = heard("", "u", &idle);
        assert!(facts.is_empty(), "nothing has happened yet: {facts:?}");
        let running = app(json!({"operation": sync("Running", "2026-01-09T10:00:00Z", None)}));
        let (told, facts) = heard(&told, "u", &running);
        assert_eq!(kinds(&facts), ["syncStarted"]);
        assert_eq!(facts[0]["event"]["revisions"], json!(["sha1"]));
        assert_eq!(heard(&told, "u", &running), (told.clone(), Vec::new()), "said twice is said once");
        let done =
            app(json!({"operation": sync("Succeeded", "2026-01-09T10:00:00Z", Some("2026-01-09T10:01:00Z")),
            "history": [deployment(0, "2026-01-09T10:00:00Z", "2026-01-09T10:01:00Z")],
            "healthStatus": "Degraded", "healthChangedAt": "2026-01-09T10:00:30Z"}));
        let (told, facts) = heard(&told, "u", &done);
        assert_eq!(kinds(&facts), ["healthChanged", "syncFinished", "deployed"], "by their times");
        assert_eq!((&facts[0]["before"], &facts[0]["health"]), (&json!("Healthy"), &json!("Degraded")));
        assert_eq!((&facts[1]["phase"], &facts[1]["event"]["why"]), (&json!("Succeeded"), &json!("manual")));
        assert_eq!(
            (facts[2]["id"].clone(), facts[2]["event"]["images"].clone()),
            (json!(0), json!(["web:0"]))
        );
        let event = &facts[2]["event"];
        assert_eq!(event["heardAtMs"], json!(now_ms()));
        assert_eq!(event["atMs"], json!(now_ms() - DAY_MS / 24 * 14 + 60_000), "{event}");
        assert_eq!(heard(&told, "u", &done).1, Vec::<Value>::new());
    }

    #[test]
    fn what_happened_while_nobody_listened_is_read_from_the_history() {
        let running = app(json!({"operation": sync("Running", "2026-01-08T10:00:00Z", None)}));
        let (told, _) = heard("", "u", &running);
        let later =
            app(json!({"operation": sync("Failed", "2026-01-09T10:00:00Z", Some("2026-01-09T10:02:00Z")),
            "history": [deployment(7, "2026-01-09T08:00:00Z", "2026-01-09T08:01:00Z"),
                deployment(6, "2026-01-08T10:00:00Z", "2026-01-08T10:01:00Z")]}));
        let (told, facts) = heard(&told, "u", &later);
        assert_eq!(
            kinds(&facts),
            ["syncFinished", "deployed", "deployed", "syncStarted", "syncFinished"],
            "the sync whose end was missed ended with deployment 6"
        );
        assert_eq!((&facts[0]["phase"], &facts[4]["phase"]), (&json!("Succeeded"), &json!("Failed")));
        assert!(heard(&told, "u", &later).1.is_empty());
    }

    #[test]
    fn another_object_of_the_same_name_has_a_history_of_its_own_and_old_ones_are_old() {
        let one = app(json!({"history": [deployment(3, "", "2026-01-09T08:01:00Z")]}));
        let (told, facts) = heard("", "u", &one);
        assert_eq!(kinds(&facts), ["deployed"]);
        let again = app(json!({"history": [deployment(0, "", "2026-01-09T09:01:00Z")]}));
        assert!(heard(&told, "u", &again).1.is_empty(), "a lower number was told before");
        assert_eq!(kinds(&heard(&told, "v", &again).1), ["deployed"]);
        let old = app(json!({"history": [deployment(1, "", "2025-12-09T08:01:00Z")]}));
        assert!(heard("", "u", &old).1.is_empty());
    }

    #[test]
    fn what_a_runtime_makes_up_stays_small_and_in_the_past() {
        let history: Vec<Value> =
            (0..5_000).map(|id| deployment(id, "?", "9999-01-01T00:00:00Z")).rev().collect();
        let mut hostile = app(json!({"history": history, "operation": sync("Running", "no time", None)}));
        hostile.history[0].images = vec!["x".repeat(100_000); 10_000];
        let (told, facts) = heard("", &"u".repeat(100_000), &hostile);
        assert_eq!(facts.len(), HISTORY_MAX + 1);
        assert!(told.len() < 20_000 && facts.iter().all(|fact| fact.to_string().len() < 40_000));
        assert!(facts.iter().all(|fact| fact["event"]["atMs"].as_i64() <= Some(now_ms())));
    }
}
