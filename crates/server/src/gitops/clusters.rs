//! Clusters that runtimes deploy to, as they reported them.
//!
//! In: entities of the kind [`CLUSTER`], and when their runtime was last heard of. Out: how each stands now. What a runtime says is data: its
//! sizes are limited here. Knows nothing of how a cluster is reached.

use std::collections::BTreeMap;

use slipway_access::Role;
use slipway_api::managed_cluster::ManagedCluster;
use slipway_api::report::{CLUSTER, ReportedCluster};
use slipway_store::entities::{self, Listed};
use slipway_store::{Scope, StoreError, Tx, runtimes};

use crate::ctx::Server;
use crate::gitops::health::OFFLINE_AFTER_MS;
use crate::http::error::ApiError;
use crate::http::input::cut;
use crate::identity::auth::Caller;
use crate::seams;

const PAGE: i64 = 500;
/// Of one runtime.
const CLUSTERS_MAX: usize = 500;
const WORD_CHARS_MAX: usize = 100;
const TEXT_CHARS_MAX: usize = 500;

/// By runtime.
pub(crate) type Reported = BTreeMap<String, Vec<ReportedCluster>>;

/// Of all runtimes of the account, by runtime and name. Addresses and reasons are for Administrators.
pub(crate) async fn list(server: &Server, caller: &Caller) -> Result<Vec<ManagedCluster>, ApiError> {
    let scope = caller.scope();
    let read = server.store().read(move |tx| Ok((reported(tx, scope, None)?, runtimes::list(tx, scope)?)));
    let (reported, known) = read.await?;
    let now_ms = server.now_ms();
    let heard: BTreeMap<String, i64> = known.into_iter().map(|row| (row.name, row.last_seen_ms)).collect();
    let of = |(runtime, all): (String, Vec<_>)| {
        let heard_ms = heard.get(&runtime).copied().unwrap_or_default();
        standing(&runtime, all, heard_ms, now_ms)
    };
    let mut all: Vec<_> = reported.into_iter().flat_map(of).collect();
    if caller.principal.role() != Some(Role::Administrator) {
        for_members(&mut all);
    }
    Ok(all)
}

/// Those of one runtime, or of all.
pub(crate) fn reported(tx: &mut Tx<'_>, scope: Scope, of: Option<&str>) -> Result<Reported, StoreError> {
    let mut after = (of.unwrap_or_default().to_owned(), String::new(), String::new());
    let mut all = Reported::new();
    loop {
        let page = entities::list(tx, scope, CLUSTER, (&after.0, &after.1, &after.2), PAGE)?;
        let is_last = page.len() < PAGE as usize;
        for Listed { runtime, namespace, name, body, .. } in page {
            if of.is_some_and(|of| of != runtime) {
                return Ok(all);
            }
            let of_runtime = all.entry(runtime.clone()).or_default();
            if of_runtime.len() < CLUSTERS_MAX {
                of_runtime.push(bounded(serde_json::from_str(&body).unwrap_or_default()));
            }
            after = (runtime, namespace, name);
        }
        if is_last {
            return Ok(all);
        }
    }
}

fn bounded(mut one: ReportedCluster) -> ReportedCluster {
    for text in [&mut one.state, &mut one.since, &mut one.attempted_at, &mut one.server_version] {
        cut(text, WORD_CHARS_MAX);
    }
    for text in [&mut one.name, &mut one.server, &mut one.message] {
        cut(text, TEXT_CHARS_MAX);
    }
    one
}

/// How the clusters of a runtime stand, its own first. `heard_ms`: when it was last heard of; 0: never.
pub(crate) fn standing(
    runtime: &str,
    all: Vec<ReportedCluster>,
    heard_ms: i64,
    now_ms: i64,
) -> Vec<ManagedCluster> {
    let is_online = now_ms - heard_ms < OFFLINE_AFTER_MS;
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let stands = |body: ReportedCluster| {
        let mut one = ManagedCluster {
            runtime: runtime.to_owned(),
            name: body.name,
            server: body.server,
            state: body.state,
            message: body.message,
            since: some(body.since),
            attempted_at: some(body.attempted_at),
            server_version: body.server_version,
            applications: body.applications,
            is_own: body.is_own,
        };
        if !is_online {
            // What it last said was so then, and nobody knows whether it is now.
            one.message = format!("runtime `{runtime}` is offline; it last said: {}", one.state);
            one.state = "Unknown".to_owned();
            one.since = Some(heard_ms).filter(|at_ms| *at_ms > 0).map(seams::rfc3339);
        }
        one
    };
    let mut all: Vec<_> = all.into_iter().map(stands).collect();
    all.sort_by(|a, b| (!a.is_own, &a.name, &a.server).cmp(&(!b.is_own, &b.name, &b.server)));
    all
}

/// For those who are no Administrators: errors and addresses may name what access rules hide from them.
pub(crate) fn for_members(all: &mut [ManagedCluster]) {
    for one in all {
        one.message.clear();
        one.server.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, state: &str) -> ReportedCluster {
        ReportedCluster {
            is_own: name == "in-cluster",
            name: name.into(),
            state: state.into(),
            message: "why".into(),
            ..ReportedCluster::default()
        }
    }

    #[test]
    fn a_runtime_that_is_away_knows_nothing_of_its_clusters_any_more() {
        let all = || vec![said("a", "Failed"), said("in-cluster", "Successful")];
        let here = standing("prod", all(), 1_000, 1_000);
        let names: Vec<_> = here.iter().map(|one| (one.name.as_str(), one.state.as_str())).collect();
        assert_eq!(names, [("in-cluster", "Successful"), ("a", "Failed")], "its own first");
        let mut away = standing("prod", all(), 1_000, 1_000 + OFFLINE_AFTER_MS);
        assert!(away.iter().all(|one| one.state == "Unknown"), "{away:?}");
        assert!(away[1].message.ends_with("it last said: Failed"), "{away:?}");
        for_members(&mut away);
        assert!(away.iter().all(|one| one.message.is_empty() && one.server.is_empty()));
    }

    #[test]
    fn what_a_runtime_says_is_cut_to_size() {
        let much = ReportedCluster { message: "\u{1b}x".repeat(9_000), ..said(&"n".repeat(9_000), "s") };
        let one = bounded(much);
        assert_eq!((one.name.len(), one.message.len()), (TEXT_CHARS_MAX, TEXT_CHARS_MAX));
        assert!(!one.message.contains('\u{1b}'));
    }
}
