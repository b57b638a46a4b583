//! Builds: created once for each cause, taken under a lease with a fencing epoch, ended once.
//!
//! A taker holds (`runner`, `epoch`) until its lease runs out; taking again raises the epoch, and
//! every write of a taker asks for its epoch in SQL, so that a late one changes nothing.

mod delayed;
mod runners;
mod take;

pub use delayed::{delayed, delayed_beyond, waiting_before, waiting_since};
pub use runners::{Runner, runner, runner_gone, runner_seen, runners, runners_seen};
pub(crate) use take::TAKEN;
use take::hand_over;

pub use take::{Active, Chooser, Elsewhere, Limits, Taker, active, choose, take};

use serde::Serialize;
use serde::de::DeserializeOwned;
use slipway_model::{AccountId, BuildId, BuildStatus, ChangeKind, Fact, PipelineId};

use crate::identity::{self, Subject};
use crate::{Ask, Row, Scope, StoreError, Tx, Value, facts};

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
    pub priority: i64,
    pub trigger: String,
    pub branch: String,
    /// It has waited for a runner for so long that it says so; of a build that is pending.
    pub delayed: bool,
    /// Of its pipeline, from 1.
    pub number: i64,
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
     order_body, steps, message, runner, executor, epoch, terminate, queue_rank, trigger_name, branch, delayed_ms, number FROM builds";

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
        priority: -row.int(15)?,
        trigger: row.text(16)?,
        branch: row.text(17)?,
        delayed: row.maybe_int(18)?.is_some() && status == "pending",
        number: row.int(19)?,
    })
}

pub struct NewBuild<'a, O> {
    pub id: BuildId,
    pub pipeline: PipelineId,
    pub pipeline_name: &'a str,
    pub order: &'a O,
    /// The same cause gives the same build.
    pub cause: &'a str,
    pub queue: Queue<'a>,
}

/// Where a build stands in the queue, what counts against the limits of its pipeline, and what it is found by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Queue<'a> {
    /// Higher goes first.
    pub priority: i64,
    pub trigger: &'a str,
    pub branch: &'a str,
    /// The commit's id, if there is one.
    pub revision: &'a str,
}

/// Gives back the id of the build for this cause, whether it was made now or before.
pub fn create<O: Serialize>(
    tx: &mut Tx<'_>,
    scope: Scope,
    new: &NewBuild<'_, O>,
    now_ms: i64,
) -> Result<BuildId, StoreError> {
    match tx.ask(&asks_by_cause(scope, new.cause))?.first() {
        Some(row) => row.id(0),
        None => create_new(tx, scope, new, now_ms),
    }
}

/// What [`create`] asks.
pub fn asks_by_cause(scope: Scope, cause: &str) -> Ask {
    let sql = "SELECT id FROM builds WHERE account = $1 AND cause = $2";
    Ask::new(sql, [scope.account().into(), cause.into()]).of_row(caused(scope, cause))
}

/// The row that a question about a cause is about.
fn caused(scope: Scope, cause: &str) -> String {
    format!("builds/{}/{cause}", scope.account())
}

/// For a cause that nobody can have used before: nothing is waited for.
pub fn create_new<O: Serialize>(
    tx: &mut Tx<'_>,
    scope: Scope,
    new: &NewBuild<'_, O>,
    now_ms: i64,
) -> Result<BuildId, StoreError> {
    tx.send_row(&caused(scope, new.cause), INSERT, &inserted(scope, new, now_ms)?)?;
    created(tx, scope, new, now_ms)
}

/// With the next number. That there is one build for a cause is a constraint of the table.
const INSERT: &str = "INSERT INTO builds (id, account, pipeline, pipeline_name, status, created_ms, order_body, steps, cause, \
         queue_rank, trigger_name, branch, revision, number) \
         SELECT $1, $2, $3, $4, 'pending', CAST($5 AS BIGINT), $6, '[]', $7, CAST($8 AS BIGINT), $9, $10, $11, \
         1 + coalesce((SELECT last FROM build_numbers WHERE account = $2 AND pipeline = $3), 0)";

fn inserted<O: Serialize>(
    scope: Scope,
    new: &NewBuild<'_, O>,
    now_ms: i64,
) -> Result<[Value; 11], StoreError> {
    Ok([
        new.id.into(),
        scope.account().into(),
        new.pipeline.into(),
        new.pipeline_name.into(),
        now_ms.into(),
        crate::sql::json(new.order)?,
        new.cause.into(),
        (-new.queue.priority).into(),
        new.queue.trigger.into(),
        new.queue.branch.into(),
        new.queue.revision.to_ascii_lowercase().into(),
    ])
}

fn created<O>(
    tx: &mut Tx<'_>,
    scope: Scope,
    new: &NewBuild<'_, O>,
    now_ms: i64,
) -> Result<BuildId, StoreError> {
    tx.send(
        "INSERT INTO build_numbers (account, pipeline, last) VALUES ($1, $2, 1) \
         ON CONFLICT (account, pipeline) DO UPDATE SET last = build_numbers.last + 1",
        &[scope.account().into(), new.pipeline.into()],
    )?;
    tx.send(
        "INSERT INTO build_counts (account, day, total) VALUES ($1, $2, 1) \
         ON CONFLICT (account, day) DO UPDATE SET total = build_counts.total + 1",
        &[scope.account().into(), day(now_ms).into()],
    )?;
    let fact = Fact::BuildCreated { account: scope.account(), build: new.id, pipeline: new.pipeline };
    facts::note(tx, scope.account(), &fact, now_ms)?;
    tx.changed(scope.account(), ChangeKind::Build, new.id);
    tx.build_arrived(scope.account(), new.pipeline);
    Ok(new.id)
}

pub fn by_id(tx: &mut Tx<'_>, scope: Scope, id: BuildId) -> Result<Option<Build>, StoreError> {
    tx.ask(&asks_by_id(scope, id))?.first().map(build).transpose()
}

/// What [`by_id`] asks.
pub fn asks_by_id(scope: Scope, id: BuildId) -> Ask {
    Ask::new(format!("{BUILD} WHERE account = $1 AND id = $2"), [scope.account().into(), id.into()])
}

pub fn by_number(
    tx: &mut Tx<'_>,
    scope: Scope,
    pipeline: PipelineId,
    number: i64,
) -> Result<Option<Build>, StoreError> {
    tx.one(
        &format!("{BUILD} WHERE account = $1 AND pipeline = $2 AND number = $3"),
        &[scope.account().into(), pipeline.into(), number.into()],
    )?
    .as_ref()
    .map(build)
    .transpose()
}

/// Builds whose id begins with this, or ends with it when it is eight digits long, which is what pages show. Newest first.
pub fn by_part(tx: &mut Tx<'_>, scope: Scope, part: &str, limit: i64) -> Result<Vec<Build>, StoreError> {
    // Every hex digit sorts before `g`.
    let beyond = format!("{part}g");
    tx.all(
        &format!(
            "{BUILD} WHERE account = $1 AND (substr(id, 17) = $2 OR (id >= $2 AND id < $3)) ORDER BY id DESC LIMIT $4"
        ),
        &[scope.account().into(), part.into(), beyond.into(), limit.into()],
    )?
    .iter()
    .map(build)
    .collect()
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub pipeline: Option<PipelineId>,
    /// Only builds of these, however many they are.
    pub pipelines: Option<Vec<PipelineId>>,
    pub status: Option<String>,
    pub branch: Option<String>,
    pub trigger: Option<String>,
    /// The first letters of the commit's id.
    pub revision: Option<String>,
    pub created_from_ms: Option<i64>,
    pub created_to_ms: Option<i64>,
    pub limit: i64,
    pub offset: i64,
}

/// Nobody goes through more by pages, and counting them all takes longer each day.
const COUNTED_MAX: i64 = 10_000;

/// A page, and how many there are. Of builds that were filtered no more than [`COUNTED_MAX`] are counted, unless the page is
/// beyond that: then one more than it needs.
pub fn list(tx: &mut Tx<'_>, scope: Scope, filter: &Filter) -> Result<(Vec<Build>, i64), StoreError> {
    let [count, page] = asks_list(scope, filter);
    tx.fetch([count.clone(), page.clone()])?;
    let total = tx.ask(&count)?.first().map_or(Ok(0), |row| row.int(0))?;
    Ok((tx.ask(&page)?.iter().map(build).collect::<Result<_, _>>()?, total))
}

/// What [`list`] asks.
pub fn asks_list(scope: Scope, filter: &Filter) -> [Ask; 2] {
    // Only what is asked for is in the condition: an index serves nothing that may or may not be asked.
    let mut condition = String::from("account = $1");
    let mut values = vec![scope.account().into()];
    // A build that is delayed is a pending one that has waited for long.
    let (status, waited) = match filter.status.as_deref() {
        Some("delayed") => (Some("pending"), " AND delayed_ms IS NOT NULL"),
        Some("pending") => (Some("pending"), " AND delayed_ms IS NULL"),
        other => (other, ""),
    };
    condition += waited;
    // Letters and digits alone: a prefix of those ends before `~`.
    let letters = |text: &String| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    let revision = filter.revision.as_ref().map(|text| letters(text).to_ascii_lowercase());
    if revision.is_some() {
        condition += " AND revision <> ''";
    }
    let more: [(&str, Option<Value>); 8] = [
        ("pipeline = ", filter.pipeline.map(Into::into)),
        ("status = ", status.map(Into::into)),
        ("branch = ", filter.branch.clone().map(Into::into)),
        ("trigger_name = ", filter.trigger.clone().map(Into::into)),
        ("created_ms >= ", filter.created_from_ms.map(Into::into)),
        ("created_ms <= ", filter.created_to_ms.map(Into::into)),
        ("revision >= ", revision.clone().map(Into::into)),
        ("revision < ", revision.map(|first| format!("{first}~").into())),
    ];
    for (test, value) in more {
        if let Some(value) = value {
            values.push(value);
            condition += &format!(" AND {test}${}", values.len());
        }
    }
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
    let count = if condition == "account = $1" {
        Ask::new(KEPT, values.clone())
    } else {
        let most = COUNTED_MAX.max(filter.offset.saturating_add(filter.limit).saturating_add(1));
        Ask::new(
            format!("SELECT count(*) FROM (SELECT 1 FROM builds WHERE {condition} LIMIT {most}) AS counted"),
            values.clone(),
        )
    };
    let page = crate::sql::page(&mut values, filter.limit, filter.offset);
    [count, Ask::new(format!("{BUILD} WHERE {condition} ORDER BY id DESC {page}"), values)]
}

/// Builds of the account since the beginning of a day of UTC, by numbers that every new one raises: counting them
/// would take longer each day.
pub(crate) fn made_since(tx: &mut Tx<'_>, scope: Scope, since_ms: i64) -> Result<i64, StoreError> {
    let sum = tx.one(
        "SELECT CAST(coalesce(sum(total), 0) AS BIGINT) FROM build_counts WHERE account = $1 AND day >= $2",
        &[scope.account().into(), day(since_ms).into()],
    )?;
    sum.map_or(Ok(0), |row| row.int(0))
}

/// Builds of the account that are there still, by the same numbers.
const KEPT: &str =
    "SELECT CAST(coalesce(sum(total - gone), 0) AS BIGINT) FROM build_counts WHERE account = $1";

/// One that was made then is not there any more. That it was made stays counted.
pub(crate) fn forgotten(tx: &mut Tx<'_>, scope: Scope, created_ms: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE build_counts SET gone = gone + 1 WHERE account = $1 AND day = $2",
        &[scope.account().into(), day(created_ms).into()],
    )?;
    Ok(())
}

fn day(at_ms: i64) -> i64 {
    at_ms / 86_400_000
}

/// Whom a build waits for that was taken for somebody who comes later: the runner in a pod that an agent is to make.
pub fn meant_for(tx: &mut Tx<'_>, scope: Scope, id: BuildId, runner: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE builds SET runner = $3 WHERE account = $1 AND id = $2",
        &[scope.account().into(), id.into(), runner.into()],
    )?;
    Ok(())
}

/// Takes this one build, under a new epoch, for the runner that it is [`meant_for`]. Nothing when it is not, or has ended.
pub fn take_over(
    tx: &mut Tx<'_>,
    scope: Scope,
    taker: &Taker<'_>,
    id: BuildId,
) -> Result<Option<Build>, StoreError> {
    let found = tx.one(
        &format!("{BUILD} WHERE account = $1 AND id = $2 AND runner = $3 AND {TAKEN}"),
        &[scope.account().into(), id.into(), taker.runner.into()],
    )?;
    match found {
        Some(row) => hand_over(tx, taker, build(&row)?).map(Some),
        None => Ok(None),
    }
}

/// Builds of a pipeline that have not ended, newest first; those asked to stop are left out.
pub fn unfinished(tx: &mut Tx<'_>, scope: Scope, pipeline: PipelineId) -> Result<Vec<Build>, StoreError> {
    tx.all(
        &format!(
            "{BUILD} WHERE account = $1 AND pipeline = $2 AND terminate = 0 AND status = 'pending' UNION ALL \
             {BUILD} WHERE account = $1 AND pipeline = $2 AND terminate = 0 AND {TAKEN} AND status <> 'terminating' \
             ORDER BY id DESC"
        ),
        &[scope.account().into(), pipeline.into()],
    )?
    .iter()
    .map(build)
    .collect()
}

/// Frees what this runner holds on paper but does not know of: it died before it could note the build down.
pub fn forget_unknown(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: &str,
    known: &[BuildId],
) -> Result<(), StoreError> {
    for id in unknown(tx, scope, runner, known)? {
        tx.execute("UPDATE builds SET lease_until_ms = 0 WHERE id = $1", &[id.into()])?;
        tx.queue_moved(scope.account());
    }
    Ok(())
}

/// What [`forget_unknown`] would free.
pub fn unknown(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: &str,
    known: &[BuildId],
) -> Result<Vec<BuildId>, StoreError> {
    let held = tx.all(
        &format!(
            "SELECT id FROM builds WHERE account = $1 AND runner = $2 AND lease_until_ms > 0 AND {TAKEN}"
        ),
        &[scope.account().into(), runner.into()],
    )?;
    let mut held = held.iter().map(|row| row.id(0)).collect::<Result<Vec<_>, _>>()?;
    held.retain(|id| !known.contains(id));
    Ok(held)
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

/// What [`renew`] would say now.
pub fn lease(
    tx: &mut Tx<'_>,
    scope: Scope,
    runner: &str,
    id: BuildId,
    epoch: i64,
) -> Result<Lease, StoreError> {
    let row = tx.one(
        &format!(
            "SELECT terminate FROM builds WHERE account = $1 AND id = $2 AND runner = $3 AND epoch = $4 AND {TAKEN}"
        ),
        &[scope.account().into(), id.into(), runner.into(), epoch.into()],
    )?;
    Ok(match row {
        Some(row) => Lease::Held { terminate: row.bool(0)? },
        None => Lease::Lost,
    })
}

/// Who writes about a build: the name comes from a key, because an epoch is a small number that anybody can guess.
#[derive(Debug, Clone, Copy)]
pub struct Holder<'a> {
    pub runner: &'a str,
    pub epoch: i64,
}

pub(crate) struct Held {
    status: Option<BuildStatus>,
    revision: i64,
}

impl Held {
    pub(crate) fn is_over(&self) -> bool {
        self.status.is_some_and(BuildStatus::is_final)
    }
}

/// What every write of a taker asks first: the build is there, and it is this runner's in this epoch.
pub(crate) fn held(tx: &mut Tx<'_>, scope: Scope, id: BuildId, by: Holder<'_>) -> Result<Held, StoreError> {
    let row = tx
        .one(
            "SELECT COALESCE(runner, ''), epoch, report_revision, status FROM builds WHERE account = $1 AND id = $2",
            &[scope.account().into(), id.into()],
        )?
        .ok_or_else(|| StoreError::NotFound { what: format!("build `{id}`") })?;
    if row.text(0)? != by.runner || row.int(1)? != by.epoch {
        return Err(StoreError::Conflict { what: format!("build `{id}`") });
    }
    Ok(Held { status: BuildStatus::parse(&row.text(3)?), revision: row.int(2)? })
}

/// For what a taker reads in the name of its build.
pub fn is_held(tx: &mut Tx<'_>, scope: Scope, id: BuildId, by: Holder<'_>) -> Result<(), StoreError> {
    held(tx, scope, id, by).map(drop)
}

pub struct Report<'a, S> {
    pub by: Holder<'a>,
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
) -> Result<bool, StoreError> {
    let before = held(tx, scope, id, report.by)?;
    if before.is_over() || before.revision >= report.revision {
        return Ok(false);
    }
    tx.execute(
        "UPDATE builds SET status = CASE WHEN terminate = 1 AND $3 IN ('elected', 'running', 'pending-approval') THEN 'terminating' ELSE $3 END, \
         message = $4, started_ms = $5, finished_ms = $6, steps = $7, report_revision = $8 WHERE id = $1 AND epoch = $2",
        &[
            id.into(),
            report.by.epoch.into(),
            report.status.as_str().into(),
            report.message.into(),
            report.started_ms.into(),
            report.finished_ms.into(),
            crate::sql::json(report.steps)?,
            report.revision.into(),
        ],
    )?;
    tx.changed(scope.account(), ChangeKind::Build, id);
    if report.status == BuildStatus::PendingApproval && before.status != Some(BuildStatus::PendingApproval) {
        // A build that waits for people leaves its place to others.
        tx.queue_moved(scope.account());
        let fact = Fact::ApprovalAsked { account: scope.account(), build: id };
        facts::note(tx, scope.account(), &fact, now_ms)?;
    }
    if report.status.is_final() {
        tx.queue_moved(scope.account());
        identity::delete_keys_of(tx, scope, Subject::Build, &id.to_string())?;
        let fact = Fact::BuildFinished { account: scope.account(), build: id, status: report.status };
        facts::note(tx, scope.account(), &fact, now_ms)?;
    }
    Ok(true)
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
        facts::note(tx, scope.account(), &fact, now_ms)?;
    } else {
        tx.execute(
            "UPDATE builds SET status = 'terminating', terminate = 1, message = $2 WHERE id = $1",
            &[id.into(), message.into()],
        )?;
    }
    tx.changed(scope.account(), ChangeKind::Build, id);
    Ok(())
}

#[cfg(test)]
mod tests;
