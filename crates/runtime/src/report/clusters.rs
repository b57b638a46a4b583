//! The clusters that this runtime deploys to, as it reaches them: asked every few seconds, and reported when something changes.
//!
//! They are entities like others, and are told by whichever process has their part. A cluster that answers is `Successful`, one that
//! does not is `Failed` with the reason, one that was not asked yet is `Unknown`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use futures::future::join_all;
use slipway_api::report::{EntityState, ReportedCluster};
use slipway_reconcile::{Key, Kind};

use super::{Body, Known};
use crate::clusters::{IN_CLUSTER, Look};
use crate::context::Context;

pub(crate) const CLUSTER: Kind = Kind::new("slipway.io", "Cluster");

/// Whether a Secret came or a connection changed is looked at this often; it costs nothing.
const LOOK: Duration = Duration::from_secs(2);
/// A cluster that answers is asked again after so long.
const ASK: Duration = Duration::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// When it was last asked is told to the minute.
const ATTEMPT_SECONDS: i64 = 60;

pub(super) fn state(cluster: &ReportedCluster) -> EntityState {
    EntityState { phase: cluster.state.clone(), message: cluster.message.clone(), ..EntityState::default() }
}

/// What was last heard of one.
#[derive(Default)]
struct Heard {
    asked: Option<Instant>,
    /// Its version, or why it does not answer.
    answer: Option<Result<String, String>>,
}

/// Follows all of them, for ever.
pub(crate) struct Followed {
    context: Context,
    heard: BTreeMap<String, Heard>,
    told: BTreeMap<String, ReportedCluster>,
    /// Where each Application goes, and which version of it said so: there may be thousands, and few change.
    going: HashMap<Key, (String, String)>,
    counted: Option<Instant>,
    /// Names and addresses, by which Applications say where they go.
    named: Vec<(String, String)>,
}

impl Followed {
    /// Tells of what is known at the start, so that a complete report names them.
    pub(crate) fn new(context: Context) -> Self {
        let (heard, told, going) = (BTreeMap::new(), BTreeMap::new(), HashMap::new());
        let mut all = Self { context, heard, told, going, counted: None, named: Vec::new() };
        all.tell();
        all
    }

    pub(crate) async fn run(mut self) {
        if !self.context.reporter.is_enabled() {
            return std::future::pending().await;
        }
        loop {
            self.ask().await;
            self.tell();
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks those that are due and that this process tells of.
    async fn ask(&mut self) {
        let share = self.context.shards.share();
        let namespace = self.context.settings.namespace();
        let due = |look: &Look| {
            let asked = self.heard.get(&look.secret).and_then(|heard| heard.asked);
            share.holds(&Key::new(CLUSTER, namespace, &look.secret))
                && asked.is_none_or(|at| at.elapsed() >= ASK)
        };
        let looks: Vec<Look> = self.context.clusters.look().into_iter().filter(due).collect();
        let answers = join_all(looks.iter().map(|look| async {
            let destination = look.destination.as_ref()?;
            let answer = tokio::time::timeout(ANSWER_WITHIN, destination.cluster.version()).await;
            Some(match answer {
                Ok(Ok(version)) => Ok(version),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("the cluster did not answer within {} s", ANSWER_WITHIN.as_secs())),
            })
        }));
        for (look, answer) in looks.iter().zip(answers.await) {
            if let Some(answer) = answer {
                self.heard
                    .insert(look.secret.clone(), Heard { asked: Some(Instant::now()), answer: Some(answer) });
            }
        }
    }

    fn tell(&mut self) {
        if !self.context.reporter.is_enabled() {
            return;
        }
        let (looks, now) = (self.context.clusters.look(), jiff::Timestamp::now());
        let named: Vec<_> = looks.iter().map(|look| (look.name.clone(), look.server.clone())).collect();
        if named != self.named {
            self.going.clear();
            (self.named, self.counted) = (named, None);
        }
        let counts = self.applications();
        let there: BTreeSet<&String> = looks.iter().map(|look| &look.secret).collect();
        let key = |secret: &str| Key::new(CLUSTER, self.context.settings.namespace(), secret);
        let gone: Vec<String> = self.told.keys().filter(|secret| !there.contains(secret)).cloned().collect();
        for secret in gone {
            self.context.reporter.removed(&key(&secret));
            self.told.remove(&secret);
            self.heard.remove(&secret);
        }
        for look in &looks {
            let applications = counts.get(&look.server).copied().unwrap_or_default();
            let told = self.told.get(&look.secret);
            let new = judged(look, self.heard.get(&look.secret), told, applications, now);
            let body = Body::Cluster(new.clone());
            let known = Known { uid: look.server.clone(), resource_version: String::new(), body };
            self.context.reporter.changed(key(&look.secret), known);
            self.told.insert(look.secret.clone(), new);
        }
    }

    /// How many Applications go to each address.
    fn applications(&mut self) -> BTreeMap<String, usize> {
        if self.counted.is_none_or(|at| at.elapsed() >= ASK) {
            self.counted = Some(Instant::now());
            let mut going = HashMap::new();
            for key in self.context.inventory.applications() {
                let Some(live) = self.context.cluster().live(&key.object()) else { continue };
                let known = self.going.remove(&key).filter(|(version, _)| *version == live.resource_version);
                let found = known.or_else(|| {
                    let (app, _) = self.context.inventory.application(&key)?;
                    Some((live.resource_version.clone(), self.context.clusters.destination_names(&app).1))
                });
                going.extend(found.map(|found| (key, found)));
            }
            self.going = going;
        }
        let mut counts = BTreeMap::new();
        for (_, server) in self.going.values() {
            *counts.entry(server.clone()).or_insert(0) += 1;
        }
        counts
    }
}

/// What is told of a cluster, from what is known and what was told before.
fn judged(
    look: &Look,
    heard: Option<&Heard>,
    before: Option<&ReportedCluster>,
    applications: usize,
    now: jiff::Timestamp,
) -> ReportedCluster {
    let version_before = before.map(|before| before.server_version.clone()).unwrap_or_default();
    let (state, message, version) = match (&look.destination, heard.and_then(|heard| heard.answer.as_ref())) {
        (Some(_), Some(Ok(version))) => ("Successful", String::new(), version.clone()),
        (Some(_), Some(Err(why))) => ("Failed", why.clone(), version_before),
        (Some(_), None) => ("Unknown", "it was not asked yet".to_owned(), version_before),
        (None, _) if look.is_connecting => ("Unknown", look.away.clone(), version_before),
        (None, _) => ("Failed", look.away.clone(), version_before),
    };
    let same = before.filter(|before| before.state == state);
    let time = |at: jiff::Timestamp| slipway_gitops::compare::rfc3339(at);
    let recent = same.and_then(|before| before.attempted_at.parse::<jiff::Timestamp>().ok());
    let recent = recent.filter(|at| now.as_second() - at.as_second() < ATTEMPT_SECONDS);
    ReportedCluster {
        name: look.name.clone(),
        server: look.server.clone(),
        state: state.to_owned(),
        message,
        since: same.map_or_else(|| time(now), |before| before.since.clone()),
        attempted_at: time(recent.unwrap_or(now)),
        server_version: version,
        applications,
        is_own: look.server == IN_CLUSTER.server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(away: &str, is_connecting: bool) -> Look {
        Look {
            secret: "s".into(),
            name: "prod".into(),
            server: "https://x".into(),
            destination: None,
            away: away.into(),
            is_connecting,
        }
    }

    #[test]
    fn a_state_has_its_reason_and_when_it_began_and_changes_no_more_than_once_a_minute() {
        let at = |seconds: i64| jiff::Timestamp::from_second(1_700_000_000 + seconds).expect("a time");
        let first = judged(&look("it is being connected", true), None, None, 0, at(0));
        assert_eq!((first.state.as_str(), first.message.as_str()), ("Unknown", "it is being connected"));
        let failed = judged(&look("connection refused", false), None, Some(&first), 2, at(5));
        assert_eq!(
            (failed.state.as_str(), failed.since.as_str(), failed.applications),
            ("Failed", "2023-11-14T22:13:25Z", 2)
        );
        let soon = judged(&look("connection refused", false), None, Some(&failed), 2, at(30));
        assert_eq!(soon, failed, "nothing new");
        let later = judged(&look("connection refused", false), None, Some(&soon), 2, at(70));
        assert_eq!((later.since, later.attempted_at.as_str()), (failed.since, "2023-11-14T22:14:30Z"));
    }
}
