//! Builds: created once for each cause, taken under a lease with a fencing epoch, ended once.
//!
//! A taker holds (`runner`, `epoch`) until its lease runs out; taking again raises the epoch, and
//! every write of a taker asks for its epoch in SQL, so that a late one changes nothing.

use serde::Serialize;
use serde::de::DeserializeOwned;
use slipway_model::{AccountId, BuildId, BuildStatus, ChangeKind, Fact, PipelineId};

use crate::identity::{self, Subject};
use crate::{Row, Scope, StoreError, Tx, facts};

#[derive(Debug, Clone)]
pub struct Build {
    pub id: BuildId,
    pub account: AccountId,
    pub pipeline: PipelineId,
    pub pipeline_name: String,
    pub status: BuildStatus,
    pub created_ms: i64,
    pub started_ms: Option<i64>,
    pub finished_ms: Option<i64>,
    /// What was ordered (source, variables, commit), JSON of the server's own type.
    pub order: String,
    /// JSON list of steps as the runner reported them.
    pub steps: String,
    pub message: Option<String>,
    pub runner: Option<String>,
    pub executor: Option<String>,
    pub epoch: i64,
    pub terminate: bool,
}

impl Build {
    pub fn order<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        serde_json::from_str(&self.order).map_err(StoreError::corrupt)
    }

    pub fn steps<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        serde_json::from_str(&self.steps).map_err(StoreError::corrupt)
    }
}

const BUILD: &str = "SELECT id, account, pipeline, pipeline_name, status, created_ms, started_ms, finished_ms, \
     order_body, steps, message, runner, executor, epoch, terminate FROM builds";

fn build(row: &Row) -> Result<Build, StoreError> {
    let status = row.text(4)?;
    Ok(Build {
        id: row.id(0)?,
        account: row.id(1)?,
        pipeline: row.id(2)?,
        pipeline_name: row.text(3)?,
        status: BuildStatus::parse(&status)
            .ok_or_else(|| StoreError::corrupt(format!("unknown build status `{status}`")))?,
        created_ms: row.int(5)?,
        started_ms: row.maybe_int(6)?,
        finished_ms: row.maybe_int(7)?,
        order: row.text(8)?,
        steps: row.text(9)?,
        message: row.maybe_text(10)?,
        runner: row.maybe_text(11)?,
        executor: row.maybe_text(12)?,
        epoch: row.int(13)?,
        terminate: row.bool(14)?,
    })
}

pub struct NewBuild<'a, O> {
    pub id: BuildId,
    pub pipeline: PipelineId,
    pub pipeline_name: &'a str,
    pub order: &'a O,
    /// The same cause gives the same build.
    pub cause: &'a str,
}

/// Gives back the id of the build for this cause, whether it was made now or before.
pub fn create<O: Serialize>(
    tx: &mut Tx<'_>,
    scope: Scope,
    new: &NewBuild<'_, O>,
    now_ms: i64,
) -> Result<BuildId, StoreError> {
    let known = tx.one(
        "SELECT id FROM builds WHERE account = $1 AND cause = $2",
        &[scope.account().into(), new.cause.into()],
    )?;
    if let Some(row) = known {
        return row.id(0);
    }
    tx.execute(
        "INSERT INTO builds (id, account, pipeline, pipeline_name, status, created_ms, order_body, steps, cause) \
         VALUES ($1, $2, $3, $4, 'pending', $5, $6, '[]', $7)",
        &[
            new.id.into(),
            scope.account().into(),
            new.pipeline.into(),
            new.pipeline_name.into(),
            now_ms.into(),
            crate::sql::json(new.order)?,
            new.cause.into(),
        ],
    )?;
    let fact = Fact::BuildCreated { account: scope.account(), build: new.id, pipeline: new.pipeline };
    facts::append(tx, scope.account(), &fact, now_ms)?;
    tx.changed(ChangeKind::Build, new.id);
    Ok(new.id)
}

pub fn by_id(tx: &mut Tx<'_>, scope: Scope, id: BuildId) -> Result<Option<Build>, StoreError> {
    tx.one(&format!("{BUILD} WHERE account = $1 AND id = $2"), &[scope.account().into(), id.into()])?
        .as_ref()
        .map(build)
        .transpose()
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub pipeline: Option<PipelineId>,
    /// Only builds of these, however many they are.
    pub pipelines: Option<Vec<PipelineId>>,
    pub status: Option<String>,
    pub limit: i64,
    pub offset: i64,
}

pub fn list(tx: &mut Tx<'_>, scope: Scope, filter: &Filter) -> Result<(Vec<Build>, i64), StoreError> {
    let mut condition =
        String::from("account = $1 AND ($2 IS NULL OR pipeline = $2) AND ($3 IS NULL OR status = $3)");
    let mut values = vec![scope.account().into(), filter.pipeline.into(), filter.status.clone().into()];
    if let Some(pipelines) = &filter.pipelines {
        let first = values.len() + 1;
        values.extend(pipelines.iter().map(|&id| id.into()));
        let places: Vec<_> = (first..=values.len()).map(|place| format!("${place}")).collect();
        // Nothing is in an empty list, which SQL cannot write.
        condition += &if places.is_empty() {
            " AND 1 = 0".to_owned()
        } else {
            format!(" AND pipeline IN ({})", places.join(", "))
        };
    }
    let total = tx
        .one(&format!("SELECT count(*) FROM builds WHERE {condition}"), &values)?
        .map_or(Ok(0), |row| row.int(0))?;
    values.extend([filter.limit.into(), filter.offset.into()]);
    let (limit, offset) = (values.len() - 1, values.len());
    let sql = format!("{BUILD} WHERE {condition} ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}");
    let rows = tx.all(&sql, &values)?;
    Ok((rows.iter().map(build).collect::<Result<_, _>>()?, total))
}

/// Takes up to `limit` builds that wait or whose lease ran out. Each comes with a new epoch.
pub fn take(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: &str,
    executor: &str,
    limit: i64,
    now_ms: i64,
    lease_until_ms: i64,
) -> Result<Vec<Build>, StoreError> {
    let waiting = tx.all(
        &format!(
            "{BUILD} WHERE account = $1 AND status IN ('pending', 'elected', 'running', 'terminating') \
             AND (status = 'pending' OR lease_until_ms IS NULL OR lease_until_ms < $2) ORDER BY created_ms, id LIMIT $3"
        ),
        &[scope.account().into(), now_ms.into(), limit.into()],
    )?;
    let mut taken = Vec::new();
    for row in &waiting {
        let mut build = build(row)?;
        build.epoch += 1;
        build.status = if build.terminate { BuildStatus::Terminating } else { BuildStatus::Elected };
        tx.execute(
            "UPDATE builds SET status = $2, runner = $3, executor = $4, epoch = $5, lease_until_ms = $6, report_revision = -1 \
             WHERE id = $1",
            &[
                build.id.into(),
                build.status.as_str().into(),
                runner.into(),
                executor.into(),
                build.epoch.into(),
                lease_until_ms.into(),
            ],
        )?;
        tx.changed(ChangeKind::Build, build.id);
        taken.push(build);
    }
    Ok(taken)
}

/// Frees what this runner holds on paper but does not know of: it died before it could note the build down.
pub fn forget_unknown(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: &str,
    known: &[BuildId],
) -> Result<(), StoreError> {
    let held = tx.all(
        "SELECT id FROM builds WHERE account = $1 AND runner = $2 AND lease_until_ms > 0 \
         AND status IN ('elected', 'running', 'terminating')",
        &[scope.account().into(), runner.into()],
    )?;
    for row in &held {
        let id: BuildId = row.id(0)?;
        if !known.contains(&id) {
            tx.execute("UPDATE builds SET lease_until_ms = 0 WHERE id = $1", &[id.into()])?;
        }
    }
    Ok(())
}

/// What a taker learns when it renews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    Held { terminate: bool },
    Lost,
}

pub fn renew(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: &str,
    id: BuildId,
    epoch: i64,
    lease_until_ms: i64,
) -> Result<Lease, StoreError> {
    let row = tx.one(
        "UPDATE builds SET lease_until_ms = $5 WHERE account = $1 AND id = $2 AND runner = $3 AND epoch = $4 \
         AND status IN ('elected', 'running', 'terminating', 'pending-approval') RETURNING terminate",
        &[scope.account().into(), id.into(), runner.into(), epoch.into(), lease_until_ms.into()],
    )?;
    Ok(match row {
        Some(row) => Lease::Held { terminate: row.bool(0)? },
        None => Lease::Lost,
    })
}

pub struct Report<'a, S> {
    pub epoch: i64,
    pub revision: i64,
    pub status: BuildStatus,
    pub message: Option<&'a str>,
    pub started_ms: Option<i64>,
    pub finished_ms: Option<i64>,
    pub steps: &'a [S],
}

/// Keeps what a taker reports. Refused when another has taken the build since, passed over when older than what is known.
pub fn report<S: Serialize>(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: BuildId,
    report: &Report<'_, S>,
    now_ms: i64,
) -> Result<(), StoreError> {
    let row = tx
        .one(
            "SELECT epoch, report_revision, status FROM builds WHERE account = $1 AND id = $2",
            &[scope.account().into(), id.into()],
        )?
        .ok_or_else(|| StoreError::NotFound { what: format!("build `{id}`") })?;
    let ended = BuildStatus::parse(&row.text(2)?).is_some_and(BuildStatus::is_final);
    if row.int(0)? != report.epoch {
        return Err(StoreError::Conflict { what: format!("build `{id}`") });
    }
    if ended || row.int(1)? >= report.revision {
        return Ok(());
    }
    tx.execute(
        "UPDATE builds SET status = CASE WHEN terminate = 1 AND $3 IN ('elected', 'running') THEN 'terminating' ELSE $3 END, \
         message = $4, started_ms = $5, finished_ms = $6, steps = $7, report_revision = $8 WHERE id = $1 AND epoch = $2",
        &[
            id.into(),
            report.epoch.into(),
            report.status.as_str().into(),
            report.message.into(),
            report.started_ms.into(),
            report.finished_ms.into(),
            crate::sql::json(report.steps)?,
            report.revision.into(),
        ],
    )?;
    tx.changed(ChangeKind::Build, id);
    if report.status.is_final() {
        identity::delete_keys_of(tx, scope, Subject::Build, &id.to_string())?;
        let fact = Fact::BuildFinished { account: scope.account(), build: id, status: report.status };
        facts::append(tx, scope.account(), &fact, now_ms)?;
    }
    Ok(())
}

/// Asks the taker to stop; a build that nobody has taken ends at once.
pub fn terminate(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: BuildId,
    by: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    let Some(build) = by_id(tx, scope, id)? else {
        return Err(StoreError::NotFound { what: format!("build `{id}`") });
    };
    if build.status.is_final() {
        return Ok(());
    }
    let message = format!("terminated by {by}");
    if build.status == BuildStatus::Pending {
        tx.execute(
            "UPDATE builds SET status = 'terminated', terminate = 1, message = $2, finished_ms = $3 WHERE id = $1",
            &[id.into(), message.into(), now_ms.into()],
        )?;
        let fact =
            Fact::BuildFinished { account: scope.account(), build: id, status: BuildStatus::Terminated };
        facts::append(tx, scope.account(), &fact, now_ms)?;
    } else {
        tx.execute(
            "UPDATE builds SET status = 'terminating', terminate = 1, message = $2 WHERE id = $1",
            &[id.into(), message.into()],
        )?;
    }
    tx.changed(ChangeKind::Build, id);
    Ok(())
}

#[derive(Debug, Clone)]
pub struct Runner {
    pub name: String,
    pub version: String,
    pub executor: String,
    pub last_seen_ms: i64,
}

pub fn runner_seen(tx: &mut Tx<'_>, scope: Scope, runner: &Runner) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO runners (account, name, version, executor, last_seen_ms) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (account, name) DO UPDATE SET version = excluded.version, executor = excluded.executor, \
         last_seen_ms = excluded.last_seen_ms",
        &[
            scope.account().into(),
            runner.name.as_str().into(),
            runner.version.as_str().into(),
            runner.executor.as_str().into(),
            runner.last_seen_ms.into(),
        ],
    )?;
    Ok(())
}

pub fn runners(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Runner>, StoreError> {
    tx.all(
        "SELECT name, version, executor, last_seen_ms FROM runners WHERE account = $1 ORDER BY name",
        &[scope.account().into()],
    )?
    .iter()
    .map(|row| {
        Ok(Runner {
            name: row.text(0)?,
            version: row.text(1)?,
            executor: row.text(2)?,
            last_seen_ms: row.int(3)?,
        })
    })
    .collect()
}
