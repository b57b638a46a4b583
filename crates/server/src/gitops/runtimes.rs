//! Runtimes as pages and clients see them: what is registered, what was reported, and which tunnels are open now.
//!
//! Changes nothing; registering, renaming and revoking are in [`super::rest`].

use slipway_access::Role;
use slipway_api::report::ReportedCluster;
use slipway_api::runtime::{Runtime, RuntimeDetail, TunnelSession};
use slipway_model::AccountId;
use slipway_store::Tx;
use slipway_store::runtimes::{self, Registered};
use slipway_tunnel::TunnelName;

use crate::ctx::Server;
use crate::gitops::clusters::{reported, standing};
use crate::gitops::health::{self, Judged, OFFLINE_AFTER_MS, Seen};
use crate::gitops::peers::{self, Told};
use crate::gitops::reach;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::seams;

/// All of the account, by name.
pub(crate) async fn list(server: &Server, caller: &Caller) -> Result<Vec<Runtime>, ApiError> {
    let scope = caller.scope();
    let read = server.store().read(move |tx| Ok((runtimes::list(tx, scope)?, reported(tx, scope, None)?)));
    let (rows, mut clusters) = read.await?;
    let open = sessions(server, scope.account(), &rows).await;
    let all = rows.into_iter().zip(open).map(|(row, open)| {
        let known = Known { clusters: clusters.remove(&row.name).unwrap_or_default(), tunnels: open.len() };
        let judged = judged(server, caller, &row, &known);
        shown(server, caller, row, judged, known.tunnels)
    });
    Ok(all.collect())
}

/// One with its parts, and for Administrators its open tunnels.
pub(crate) async fn detail(
    server: &Server,
    caller: &Caller,
    name: String,
) -> Result<RuntimeDetail, ApiError> {
    let (scope, asking) = (caller.scope(), caller.clone());
    let found = server.look(move |tx| {
        let row = find(tx, &asking, &name)?;
        let mut clusters = reported(tx, scope, Some(&name))?;
        Ok((row, clusters.remove(&name).unwrap_or_default()))
    });
    let (row, clusters) = found.await?;
    let now_ms = server.now_ms();
    let mut open = sessions(server, scope.account(), std::slice::from_ref(&row)).await.concat();
    let tunnels = open.len();
    if !is_administrator(caller) {
        open.clear();
    }
    let session = |(process, one): (String, Told)| TunnelSession {
        peer: one.peer,
        process,
        since: seams::rfc3339(now_ms - i64::try_from(one.open_ms).unwrap_or(0)),
        in_flight: one.in_flight,
        served: one.served,
        received_bytes: one.received,
        sent_bytes: one.sent,
    };
    let mut judged = judged(server, caller, &row, &Known { clusters, tunnels });
    Ok(RuntimeDetail {
        components: std::mem::take(&mut judged.components),
        connectivity: std::mem::take(&mut judged.connectivity),
        allowed_addresses: row.allowed.clone(),
        sessions: open.into_iter().map(session).collect(),
        runtime: shown(server, caller, row, judged, tunnels),
    })
}

/// One after it was changed.
pub(crate) async fn after_change(
    server: &Server,
    caller: &Caller,
    row: Registered,
    clusters: Vec<ReportedCluster>,
) -> Runtime {
    let open = sessions(server, caller.scope().account(), std::slice::from_ref(&row)).await.concat();
    let known = Known { clusters, tunnels: open.len() };
    let judged = judged(server, caller, &row, &known);
    shown(server, caller, row, judged, known.tunnels)
}

pub(crate) fn find(tx: &mut Tx<'_>, caller: &Caller, name: &str) -> Result<Registered, ApiError> {
    runtimes::one(tx, caller.scope(), name)?.ok_or_else(|| ApiError::not_found(format!("runtime `{name}`")))
}

/// Of each runtime its open tunnels, with the process that holds them.
async fn sessions(server: &Server, account: AccountId, rows: &[Registered]) -> Vec<Vec<(String, Told)>> {
    let names: Vec<_> = rows.iter().map(|row| TunnelName::new(account, &row.name).ok()).collect();
    let known: Vec<_> = names.iter().flatten().cloned().collect();
    let mut elsewhere = peers::elsewhere(server, &known).await.into_iter();
    let of = |name: Option<TunnelName>| {
        let Some(name) = name else { return Vec::new() };
        let here = server.inner.tunnels.of(&name).into_iter();
        let here = here.map(|one| (server.inner.holder.clone(), Told::from(one)));
        here.chain(elsewhere.next().unwrap_or_default()).collect()
    };
    names.into_iter().map(of).collect()
}

/// What is known of a runtime besides its row.
struct Known {
    clusters: Vec<ReportedCluster>,
    tunnels: usize,
}

fn judged(server: &Server, caller: &Caller, row: &Registered, known: &Known) -> Judged {
    let Registered { name, health, last_seen_ms, has_token, address, .. } = row;
    let clusters = standing(name, known.clusters.clone(), *last_seen_ms, server.now_ms());
    let seen = Seen {
        kept: health,
        last_seen_ms: *last_seen_ms,
        has_token: *has_token,
        address,
        tunnels: known.tunnels,
        clusters: &clusters,
    };
    let judged = health::judge(seen, server.now_ms());
    if is_administrator(caller) { judged } else { judged.for_members() }
}

fn is_administrator(caller: &Caller) -> bool {
    caller.principal.role() == Some(Role::Administrator)
}

fn shown(server: &Server, caller: &Caller, row: Registered, judged: Judged, tunnels: usize) -> Runtime {
    let (now_ms, account) = (server.now_ms(), caller.scope().account());
    let heard = now_ms - row.last_seen_ms < OFFLINE_AFTER_MS;
    let state = match (row.has_token, row.last_seen_ms, heard) {
        (false, ..) => "revoked",
        (true, 0, _) => "never-connected",
        (true, _, true) => "online",
        (true, _, false) => "offline",
    };
    Runtime {
        url: reach::url(server, account, &row.name, &row.address),
        access_mode: if row.address.is_empty() { "tunnel" } else { "ingress" }.into(),
        state: state.into(),
        online: state == "online",
        last_seen: Some(row.last_seen_ms).filter(|at_ms| *at_ms > 0).map(seams::rfc3339),
        created: Some(row.created_ms).filter(|at_ms| *at_ms > 0).map(seams::rfc3339),
        tunnels,
        name: row.name,
        version: row.version,
        cluster: row.cluster,
        ingress_url: row.address,
        applications: row.applications,
        health: judged.health.into(),
        health_reasons: judged.reasons,
        namespace: judged.namespace,
        installed_by: judged.installed_by,
        chart: judged.chart,
        modules: judged.modules,
        clusters: judged.clusters,
    }
}
