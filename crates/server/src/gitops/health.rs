//! How runtimes fare: what their processes said, kept for each of them, and what is made of it.
//!
//! In: what a process said of itself with a report, how its clusters stand, when anything was last heard, whether a tunnel is open. Out:
//! one word with its reasons, components, clusters, and the ways between the platform and the runtime. What a runtime says is data: its sizes are
//! limited here, and it changes nothing but what is shown of that runtime.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slipway_api::health::{Component, ComponentHealth, Connectivity, RuntimeHealth};
use slipway_api::managed_cluster::ManagedCluster;
use slipway_api::report::REPLICAS_MAX;

use crate::gitops::clusters;
use crate::http::input::cut;
use crate::seams::rfc3339;

/// One that was not heard of for this long is shown as offline.
pub(crate) const OFFLINE_AFTER_MS: i64 = 45_000;
/// A process that has not reported for so long is silent.
const SILENT_AFTER_MS: i64 = 20 * 60 * 1000;
/// One process of several that has not reported for so long is missing. Each reports every 20 s.
const MISSING_AFTER_MS: i64 = 60_000;
/// Nobody asks about a process that is gone for a day.
const FORGOTTEN_AFTER_MS: i64 = 24 * 60 * 60 * 1000;

const COMPONENTS_MAX: usize = 64;
const WORD_CHARS_MAX: usize = 100;
const TEXT_CHARS_MAX: usize = 500;

/// What one process said last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Said {
    at_ms: i64,
    health: RuntimeHealth,
}

type Kept = BTreeMap<String, Said>;

fn read(kept: &str) -> Kept {
    // It is ours; a form of another version is worth no failure.
    serde_json::from_str(kept).unwrap_or_default()
}

/// What is kept of a runtime after one of its processes spoke.
pub(crate) fn heard(kept: &str, replica: &str, mut health: RuntimeHealth, now_ms: i64) -> String {
    bound(&mut health);
    let mut all = read(kept);
    all.retain(|_, said| now_ms - said.at_ms < FORGOTTEN_AFTER_MS);
    // Whoever is alone now was several before, or the other way round.
    if replica.is_empty() {
        all.clear();
    } else {
        all.remove("");
    }
    all.insert(replica.to_owned(), Said { at_ms: now_ms, health });
    while all.len() > REPLICAS_MAX {
        let oldest = all.iter().min_by_key(|(_, said)| said.at_ms).map(|(replica, _)| replica.clone());
        oldest.map(|oldest| all.remove(&oldest));
    }
    serde_json::to_string(&all).unwrap_or_else(|_| "{}".into())
}

fn bound(health: &mut RuntimeHealth) {
    for text in [&mut health.namespace, &mut health.installed_by, &mut health.chart] {
        cut(text, WORD_CHARS_MAX);
    }
    health.components.truncate(COMPONENTS_MAX);
    for ComponentHealth { name, state, message, last_activity } in &mut health.components {
        [name, state, last_activity].into_iter().for_each(|text| cut(text, WORD_CHARS_MAX));
        cut(message, TEXT_CHARS_MAX);
    }
}

/// What is known of a runtime besides what it said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) kept: &'a str,
    /// 0: never.
    pub(crate) last_seen_ms: i64,
    pub(crate) has_token: bool,
    /// Where an administrator says that it is reached; empty: through its tunnel.
    pub(crate) address: &'a str,
    pub(crate) tunnels: usize,
    pub(crate) clusters: &'a [ManagedCluster],
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// `healthy`, `degraded`, `unreachable` or `unknown`.
    pub(crate) health: &'static str,
    pub(crate) reasons: Vec<String>,
    /// How many of the reasons, from the first on, every member may read.
    open: usize,
    /// Components that are degraded now.
    degraded: usize,
    pub(crate) namespace: String,
    pub(crate) installed_by: String,
    pub(crate) chart: String,
    pub(crate) modules: Vec<String>,
    pub(crate) components: Vec<Component>,
    pub(crate) clusters: Vec<ManagedCluster>,
    pub(crate) connectivity: Vec<Connectivity>,
}

pub(crate) fn judge(seen: Seen<'_>, now_ms: i64) -> Judged {
    let kept = read(seen.kept);
    let components = components(&kept, now_ms);
    let connectivity = connectivity(seen, &kept, now_ms);
    let newest = kept.values().max_by_key(|said| said.at_ms).map(|said| said.health.clone());
    let RuntimeHealth { namespace, installed_by, chart, .. } = newest.unwrap_or_default();
    let (mut reasons, mut open, mut degraded) = (Vec::new(), None, 0);
    let health = match (seen.has_token, seen.last_seen_ms) {
        (false, _) => {
            reasons.push("its token is revoked".to_owned());
            "unreachable"
        }
        (true, 0) => {
            reasons.push("it has not connected yet".to_owned());
            "unknown"
        }
        (true, at_ms) if now_ms - at_ms >= OFFLINE_AFTER_MS => {
            reasons.push(format!("it was last heard of at {}", rfc3339(at_ms)));
            "unreachable"
        }
        _ => {
            let wrong = connectivity.iter().filter(|way| matches!(&*way.state, "unreachable" | "silent"));
            reasons.extend(wrong.map(|way| format!("{}: {}", way.name, way.message)));
            let is_missing = |said: &&Said| now_ms - said.at_ms >= MISSING_AFTER_MS;
            let missing = kept.iter().filter(|(_, said)| is_missing(said));
            let missing = missing.filter(|(_, said)| now_ms - said.at_ms < SILENT_AFTER_MS);
            reasons.extend(missing.map(|(replica, said)| match replica.as_str() {
                "" => format!("it last reported how it fares at {}", rfc3339(said.at_ms)),
                replica => format!("process {replica} was last heard of at {}", rfc3339(said.at_ms)),
            }));
            // What a process said that is gone, as every one is after an upgrade, is not so any more.
            let present = kept.values().filter(|said| !is_missing(said));
            let components = present.flat_map(|said| &said.health.components);
            open = Some(reasons.len());
            for ComponentHealth { name, message, .. } in components.filter(|one| one.state == "degraded") {
                let reason = format!("{name}: {message}");
                // Processes that share the work often suffer from the same.
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
                degraded += 1;
            }
            for cluster in seen.clusters.iter().filter(|cluster| cluster.state == "Failed") {
                reasons.push(format!("cluster {}: {}", cluster.name, cluster.message));
            }
            if reasons.is_empty() { "healthy" } else { "degraded" }
        }
    };
    Judged {
        health,
        open: open.unwrap_or(reasons.len()),
        reasons,
        degraded,
        namespace,
        installed_by,
        chart,
        modules: modules(&components),
        components,
        clusters: seen.clusters.to_vec(),
        connectivity,
    }
}

/// What the engines that are on look after, in the words of the field.
fn modules(components: &[Component]) -> Vec<String> {
    let is_on = |name: &str| {
        components.iter().any(|one| one.health.name == name && !matches!(&*one.health.state, "off" | ""))
    };
    let known = [("applications", "GitOps"), ("rollouts", "Rollouts"), ("workflows", "Workflows")];
    known.into_iter().filter(|(engine, _)| is_on(engine)).map(|(_, module)| module.to_owned()).collect()
}

impl Judged {
    /// For those who are no Administrators: errors and addresses may name what access rules hide from them.
    pub(crate) fn for_members(mut self) -> Self {
        for component in &mut self.components {
            component.health.message.clear();
        }
        clusters::for_members(&mut self.clusters);
        let failed = self.clusters.iter().filter(|one| one.state == "Failed").count();
        self.reasons.truncate(self.open);
        for (count, what) in [(self.degraded, "components are degraded"), (failed, "clusters cannot be used")]
        {
            if count > 0 && self.health == "degraded" {
                self.reasons.push(format!("{count} of its {what}; Administrators see why"));
            }
        }
        self
    }
}

/// Of the processes that are there. Those that have long been silent are shown while nobody else says anything.
fn components(kept: &Kept, now_ms: i64) -> Vec<Component> {
    let is_silent = |said: &Said| now_ms - said.at_ms >= SILENT_AFTER_MS;
    let all_silent = kept.values().all(is_silent);
    let of = |(replica, said): (&String, &Said)| {
        let (replica, heard) = (replica.clone(), rfc3339(said.at_ms));
        let component = move |health: &ComponentHealth| Component {
            health: health.clone(),
            replica: replica.clone(),
            heard: heard.clone(),
        };
        said.health.components.iter().map(component).collect::<Vec<_>>()
    };
    kept.iter().filter(|(_, said)| all_silent || !is_silent(said)).flat_map(of).collect()
}

fn connectivity(seen: Seen<'_>, kept: &Kept, now_ms: i64) -> Vec<Connectivity> {
    let at = |at_ms: i64| (at_ms > 0).then(|| rfc3339(at_ms));
    let way = |name: &str, state: &str, last_ms: i64, message: &str| Connectivity {
        name: name.into(),
        state: state.into(),
        last_activity: at(last_ms),
        message: message.into(),
    };
    let is_here = seen.last_seen_ms > 0 && now_ms - seen.last_seen_ms < OFFLINE_AFTER_MS;
    let platform = match (seen.last_seen_ms, is_here) {
        (0, _) => ("never", "it has not connected yet: start it with its token"),
        (_, true) => ("connected", "it asks the platform for news"),
        (_, false) => ("unreachable", "it does not ask any more: look at its log, its network and its token"),
    };
    let reported_ms = kept.values().map(|said| said.at_ms).max().unwrap_or(0);
    let reports = match now_ms - reported_ms {
        _ if reported_ms == 0 => ("never", "it has not reported yet"),
        silent if silent >= SILENT_AFTER_MS => {
            ("silent", "no report for 20 minutes: what is shown of its Applications is old; look at its log")
        }
        _ => ("connected", "its reports arrive"),
    };
    let callers = match (seen.address.is_empty(), seen.tunnels) {
        (false, _) => {
            ("not-known", "it has an address of its own: whether it answers there, only its callers can tell")
        }
        (true, 0) if is_here => (
            "unreachable",
            "no tunnel is open: nobody reaches its app-proxy; look at /readyz and the log of the runtime",
        ),
        (true, 0) => ("unreachable", "no tunnel is open"),
        (true, _) => ("connected", "through its tunnel"),
    };
    vec![
        way("callers → app-proxy", callers.0, 0, callers.1),
        way("runtime → platform", platform.0, seen.last_seen_ms, platform.1),
        way("reports", reports.0, reported_ms, reports.1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(component: &str) -> RuntimeHealth {
        RuntimeHealth {
            namespace: "argocd".into(),
            components: vec![ComponentHealth {
                name: "applications".into(),
                state: component.into(),
                message: "it fails".into(),
                ..ComponentHealth::default()
            }],
            installed_by: "helm".into(),
            chart: "slipway-runtime-1.2.3".into(),
        }
    }

    fn failed() -> [ManagedCluster; 1] {
        [ManagedCluster {
            name: "in-cluster".into(),
            server: "https://kubernetes.default.svc".into(),
            state: "Failed".into(),
            message: "no such host".into(),
            ..ManagedCluster::default()
        }]
    }

    fn seen(kept: &str, last_seen_ms: i64) -> Seen<'_> {
        Seen { kept, last_seen_ms, has_token: true, address: "", tunnels: 1, clusters: &[] }
    }

    const NOW: i64 = 1_000_000_000;

    #[test]
    fn one_word_with_its_reasons() {
        let good = heard("{}", "", said("healthy"), NOW);
        assert_eq!(judge(seen(&good, NOW), NOW).health, "healthy");
        assert_eq!(judge(seen("{}", 0), NOW).health, "unknown");
        let bad = heard("{}", "", said("degraded"), NOW);
        let judged = judge(Seen { clusters: &failed(), ..seen(&bad, NOW) }, NOW);
        assert_eq!(judged.health, "degraded");
        assert_eq!(judged.reasons, ["applications: it fails", "cluster in-cluster: no such host"]);
        assert_eq!((&*judged.installed_by, &*judged.chart), ("helm", "slipway-runtime-1.2.3"));
        assert_eq!(judged.modules, ["GitOps"]);
        let off = heard("{}", "", said("off"), NOW);
        assert_eq!(judge(seen(&off, NOW), NOW).modules, Vec::<String>::new());
        let late = judge(seen(&good, NOW), NOW + OFFLINE_AFTER_MS);
        assert_eq!((late.health, late.reasons.len()), ("unreachable", 1));
        let closed = judge(Seen { tunnels: 0, ..seen(&good, NOW) }, NOW);
        assert_eq!(closed.health, "degraded");
        assert!(closed.reasons[0].contains("no tunnel is open"), "{:?}", closed.reasons);
        let own = judge(Seen { tunnels: 0, address: "https://x", ..seen(&good, NOW) }, NOW);
        assert_eq!((own.health, own.connectivity[0].state.as_str()), ("healthy", "not-known"));
        assert_eq!(judge(Seen { has_token: false, ..seen(&good, NOW) }, NOW).health, "unreachable");
    }

    #[test]
    fn a_process_that_is_missing_is_named_and_a_silent_runtime_said_to_be() {
        let kept = heard("{}", "a", said("healthy"), NOW);
        let kept = heard(&kept, "b", said("healthy"), NOW + MISSING_AFTER_MS);
        let now = NOW + MISSING_AFTER_MS;
        let judged = judge(seen(&kept, now), now);
        assert_eq!(judged.health, "degraded");
        assert!(judged.reasons[0].starts_with("process a was last heard of"), "{:?}", judged.reasons);
        let silent = now + SILENT_AFTER_MS;
        let judged = judge(seen(&kept, silent), silent);
        assert_eq!(judged.connectivity[2].state, "silent");
        // One that was degraded and is gone for good, as after an upgrade, says nothing of those that are there.
        let kept = heard("{}", "old", said("degraded"), NOW);
        let later = NOW + SILENT_AFTER_MS;
        let kept = heard(&kept, "new", said("healthy"), later);
        let judged = judge(seen(&kept, later), later);
        assert_eq!((judged.health, judged.reasons.len(), judged.components.len()), ("healthy", 0, 1));
        assert_eq!(judged.components[0].replica, "new");
        // Both are there.
        let kept = heard("{}", "a", said("healthy"), NOW);
        let kept = heard(&kept, "b", said("healthy"), now);
        let both = heard(&kept, "a", said("healthy"), now);
        let judged = judge(seen(&both, now), now);
        assert_eq!(judged.components.len(), 2);
        assert_eq!(read(&heard(&both, "", said("healthy"), now)).len(), 1, "alone again");
    }

    #[test]
    fn members_see_that_something_is_wrong_and_nothing_that_is_hidden_from_them() {
        let bad = heard("{}", "", said("degraded"), NOW);
        let judged = judge(Seen { tunnels: 0, clusters: &failed(), ..seen(&bad, NOW) }, NOW).for_members();
        let all = format!("{judged:?}");
        assert!(!all.contains("it fails") && !all.contains("no such host") && !all.contains("svc"), "{all}");
        assert_eq!((judged.health, judged.reasons.len()), ("degraded", 3));
        // A component that calls itself as a way is called is hidden all the same; a process that is missing is not.
        let mut named = said("degraded");
        named.components[0].name = "reports".into();
        let kept = heard(&heard("{}", "a", said("healthy"), NOW), "b", named, NOW + MISSING_AFTER_MS);
        let judged = judge(seen(&kept, NOW + MISSING_AFTER_MS), NOW + MISSING_AFTER_MS).for_members();
        assert!(judged.reasons[0].starts_with("process a was last heard of"), "{:?}", judged.reasons);
        assert_eq!(judged.reasons[1..], ["1 of its components are degraded; Administrators see why"]);
        assert_eq!(judge(seen("{}", 0), NOW).for_members().reasons, ["it has not connected yet"]);
    }

    #[test]
    fn a_hostile_runtime_says_no_more_than_fits() {
        let mut much = said("x");
        much.components = vec![much.components[0].clone(); 1_000];
        much.components[0].message = "\u{1b}[31m".repeat(10_000);
        much.chart = "c".repeat(10_000);
        let mut kept = "{}".to_owned();
        for replica in 0..200 {
            kept = heard(&kept, &format!("r{replica}"), said("healthy"), NOW + replica);
        }
        assert_eq!(read(&kept).len(), REPLICAS_MAX);
        let kept = heard("{}", "", much, NOW);
        assert!(
            kept.len() < 40_000 && !kept.contains('\u{1b}') && !kept.contains("\\u001b"),
            "{}",
            kept.len()
        );
        assert_eq!(read(&kept)[""].health.components.len(), COMPONENTS_MAX);
        assert_eq!(judge(seen("[no", NOW), NOW).components, []);
    }
}
