//! Health of the platform: what it stands on, what runs in the background, who leads.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use slipway_api::error::ErrorBody;
use slipway_store::{deferred, facts, leases, usage};
use utoipa::ToSchema;

use crate::background::status::Job;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::seams;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SystemHealth {
    version: &'static str,
    /// The process that answered, as leases name it.
    process: String,
    accounts: i64,
    users: i64,
    sessions: i64,
    runtimes: i64,
    applications: i64,
    audit_records: i64,
    builds: std::collections::BTreeMap<String, i64>,
    /// A rotation of the master key was left unfinished.
    rotating: bool,
    /// `database`, `bus` and `cache`, and whether each answers this process.
    parts: std::collections::BTreeMap<&'static str, bool>,
    /// With `--egress none`: what does not work because the platform opens no connections. Empty: it does.
    without_egress: Vec<&'static str>,
    /// What runs in the background of this process.
    jobs: Vec<BackgroundJob>,
    /// Who leads the work that one process at a time does.
    leases: Vec<LeaseHealth>,
    /// Events that are not published to the bus yet.
    facts_waiting: i64,
    /// Messages that are tried again later.
    deferred_messages: i64,
    /// Messages that were given up: `GET /api/admin/messages` lists them.
    dead_messages: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobState {
    Running,
    Waiting,
    Failing,
    Standby,
}

impl BackgroundJob {
    fn of(server: &Server, name: &'static str, job: Job, leases: &[leases::Lease]) -> Self {
        let held = leases.iter().find(|held| Some(held.name.as_str()) == job.lease && held.left_ms > 0);
        let here = job.lease.is_none() || held.is_some_and(|held| held.holder == server.inner.holder);
        let state = match (here, job.is_failing(), job.next_run_ms) {
            (false, ..) => JobState::Standby,
            (_, true, _) => JobState::Failing,
            (_, _, Some(_)) => JobState::Waiting,
            (_, _, None) => JobState::Running,
        };
        Self {
            name,
            description: job.description,
            state,
            failing: job.is_failing(),
            failures: job.failures,
            rounds: job.rounds,
            last_run: job.last_run_ms.map(seams::rfc3339),
            took_ms: job.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            next_run: job.next_run_ms.filter(|_| here).map(seams::rfc3339),
            lease: job.lease,
            leader: held.map(|held| held.holder.clone()),
            here,
            last_success: job.last_success_ms.map(seams::rfc3339),
            error: job.error,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackgroundJob {
    name: &'static str,
    /// What it is for.
    description: &'static str,
    /// `running`, `waiting`, `failing`, or `standby` when another process leads it.
    state: JobState,
    /// It has failed several times in a row.
    failing: bool,
    /// In a row, up to now.
    failures: u64,
    /// Rounds that this process has run.
    rounds: u64,
    /// Of this process; of a job that another process leads, that one knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<u64>,
    /// When it runs at the latest; what happens may wake it before.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_run: Option<String>,
    /// One process of the platform at a time runs it, whoever holds this lease; absent when each process runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<&'static str>,
    /// The process that leads it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    /// This very process runs it.
    here: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_success: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseHealth {
    work: String,
    /// The process that leads, or led last.
    holder: String,
    /// This very process.
    here: bool,
    epoch: i64,
    /// Not above zero: nobody leads.
    left_seconds: i64,
}

/// Health of the platform.
#[utoipa::path(get, path = "/api/admin/health", tag = "platform", responses((status = 200, body = SystemHealth), (status = 403, body = ErrorBody)))]
pub(crate) async fn health(State(server): State<Server>) -> Result<Json<SystemHealth>, ApiError> {
    let read = server.store().read(|tx| {
        let waiting = facts::last_seq(tx)? - facts::cursor(tx, crate::facts::relay::CURSOR)?;
        Ok((usage::everywhere(tx)?, waiting, deferred::counts(tx)?, leases::list(tx)?))
    });
    let (totals, facts_waiting, (deferred_messages, dead), leases) = read.await?;
    let mut broker_dead = 0;
    for queue in crate::ctx::QUEUES {
        broker_dead += i64::from(server.inner.bus.set_aside(queue.name).await.unwrap_or(0));
    }
    let jobs = server.inner.jobs.list().into_iter();
    let jobs: Vec<_> = jobs.map(|(name, job)| BackgroundJob::of(&server, name, job, &leases)).collect();
    let leases = leases.into_iter().map(|lease| LeaseHealth {
        here: lease.holder == server.inner.holder,
        holder: lease.holder,
        work: lease.name,
        epoch: lease.epoch,
        left_seconds: lease.left_ms / 1000,
    });
    let (bus, cache) = (server.inner.bus.is_up(), server.inner.live.is_up());
    Ok(Json(SystemHealth {
        parts: [("database", true), ("bus", bus), ("cache", cache)].into(),
        process: server.inner.holder.clone(),
        jobs,
        leases: leases.collect(),
        facts_waiting: facts_waiting.max(0),
        deferred_messages,
        dead_messages: dead + broker_dead,
        version: env!("CARGO_PKG_VERSION"),
        accounts: totals.accounts,
        users: totals.users,
        sessions: totals.sessions,
        runtimes: totals.runtimes,
        applications: totals.applications,
        audit_records: totals.audit,
        builds: totals.builds.into_iter().collect(),
        rotating: server.keyring().is_rotating(),
        without_egress: match server.inner.egress.is_off() {
            true => crate::http::egress::NEEDS_A_WAY_OUT.to_vec(),
            false => Vec::new(),
        },
    }))
}
