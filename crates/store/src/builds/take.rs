//! The queue: which builds may be taken now, and taking them.
//!
//! Order is priority, then age. Pipelines are looked at by the first build that waits of each, which an index gives: one that
//! is frozen or full costs that one row, however many of its builds wait.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use slipway_model::{BuildId, BuildStatus, ChangeKind, PipelineId};

use super::{BUILD, Build, build};
use crate::{Scope, StoreError, Tx};

/// How many builds of a pipeline may run at once. Absent: as many as there are runners; 0: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    pub pipeline: Option<i64>,
    /// Of the same trigger.
    pub trigger: Option<i64>,
    /// Of the same branch.
    pub branch: Option<i64>,
    /// A build that waits for approval counts too.
    pub approvals_count: bool,
    /// Who takes is not who it is for.
    pub elsewhere: Option<Elsewhere>,
}

/// What of a pipeline is another runner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// All of its builds.
    Pipeline,
    /// This one.
    Build,
}

/// Who takes, and until when it holds what it gets.
#[derive(Debug, Clone, Copy)]
pub struct Taker<'a> {
    pub runner: &'a str,
    pub executor: &'a str,
    pub now_ms: i64,
    pub lease_until_ms: i64,
}

/// Word by word the condition of the index `builds_taken`: SQLite uses it for nothing else.
pub(crate) const TAKEN: &str = "status IN ('elected', 'running', 'terminating', 'pending-approval')";

/// So many of one pipeline are read in one go.
const BATCH: i64 = 100;
/// A queue in which everything waits for something else is given up after so many builds; the next call looks again.
const LOOKED_MAX: usize = 2_000;

/// Who wants builds.
pub trait Chooser {
    /// What the pipeline of a build allows now.
    fn limits(&mut self, tx: &mut Tx<'_>, build: &Build) -> Result<Limits, StoreError>;

    /// Nothing of this pipeline can start before something of it ends or its limits change, whoever asks.
    fn full(&mut self, _: PipelineId) {}

    /// This one may be taken. `false`: that is enough.
    fn chose(&mut self, tx: &mut Tx<'_>, build: Build) -> Result<bool, StoreError>;
}

/// Goes through the builds that wait and may run, and those whose lease ran out, in their order. Changes nothing by itself.
pub fn choose(
    tx: &mut Tx<'_>,
    scope: Scope,
    now_ms: i64,
    chooser: &mut dyn Chooser,
) -> Result<(), StoreError> {
    // What was let go because a runner died is gone on with first: it holds its place already.
    let lost = tx.all(&lost_sql(), &[scope.account().into(), now_ms.into()])?;
    for row in &lost {
        let build = build(row)?;
        if chooser.limits(tx, &build)?.elsewhere.is_none() && !chooser.chose(tx, build)? {
            return Ok(());
        }
    }
    let mut waiting = Waiting::read(tx, scope)?;
    let (mut places, mut chosen) = (HashMap::new(), HashSet::new());
    for _ in 0..LOOKED_MAX {
        let Some(build) = waiting.first() else { break };
        let allowed = chooser.limits(tx, &build)?;
        let (pipeline, trigger, branch) = (build.pipeline, build.trigger.clone(), build.branch.clone());
        match room(tx, scope, &build, allowed, &mut places)? {
            Room::Free => {
                if !chooser.chose(tx, build)? {
                    break;
                }
                chosen.insert(pipeline);
                if let Some(places) = places.get_mut(&pipeline) {
                    places.add(trigger, branch, 1);
                }
                waiting.advance(tx, pipeline)?;
            }
            Room::PipelineFull => {
                // What was chosen now may be left by who was told of it.
                if allowed.elsewhere.is_none() && !chosen.contains(&pipeline) {
                    chooser.full(pipeline);
                }
                waiting.leave_out(pipeline);
            }
            Room::OtherFull => waiting.advance(tx, pipeline)?,
        }
    }
    Ok(())
}

/// Takes up to `limit` builds that wait and may run, and any whose lease ran out. Each comes with a new epoch.
/// `limits` says what the pipeline of a build allows now.
pub fn take(
    tx: &mut Tx<'_>,
    scope: Scope,
    taker: &Taker<'_>,
    limit: i64,
    limits: &mut dyn FnMut(&mut Tx<'_>, &Build) -> Result<Limits, StoreError>,
) -> Result<Vec<Build>, StoreError> {
    let wanted = usize::try_from(limit).unwrap_or(0);
    let mut taking = Taking { taker, limits, wanted, taken: Vec::new() };
    if wanted > 0 {
        choose(tx, scope, taker.now_ms, &mut taking)?;
    }
    Ok(taking.taken)
}

type LimitsOf<'a> = dyn FnMut(&mut Tx<'_>, &Build) -> Result<Limits, StoreError> + 'a;

struct Taking<'a> {
    taker: &'a Taker<'a>,
    limits: &'a mut LimitsOf<'a>,
    wanted: usize,
    taken: Vec<Build>,
}

impl Chooser for Taking<'_> {
    fn limits(&mut self, tx: &mut Tx<'_>, build: &Build) -> Result<Limits, StoreError> {
        (self.limits)(tx, build)
    }

    fn chose(&mut self, tx: &mut Tx<'_>, build: Build) -> Result<bool, StoreError> {
        self.taken.push(hand_over(tx, self.taker, build)?);
        Ok(self.taken.len() < self.wanted)
    }
}

/// Where a build stands: priority (the higher, the smaller), age, id.
type Rank = (i64, i64, BuildId);

fn rank(build: &Build) -> Rank {
    (-build.priority, build.created_ms, build.id)
}

/// The builds that wait, pipeline by pipeline, merged into one order.
struct Waiting {
    scope: Scope,
    /// The first build that is left of each pipeline.
    heads: BinaryHeap<Reverse<(Rank, PipelineId)>>,
    /// What was read of each, the first one first.
    read: HashMap<PipelineId, VecDeque<Build>>,
}

impl Waiting {
    fn read(tx: &mut Tx<'_>, scope: Scope) -> Result<Self, StoreError> {
        let mut waiting = Self { scope, heads: BinaryHeap::new(), read: HashMap::new() };
        for row in &tx.all(&heads_sql(), &[scope.account().into()])? {
            let build = build(row)?;
            waiting.heads.push(Reverse((rank(&build), build.pipeline)));
            waiting.read.insert(build.pipeline, VecDeque::from([build]));
        }
        Ok(waiting)
    }

    fn first(&self) -> Option<Build> {
        let Reverse((_, pipeline)) = self.heads.peek()?;
        self.read.get(pipeline)?.front().cloned()
    }

    /// Nothing of this pipeline, which the first build is of, is looked at any more.
    fn leave_out(&mut self, pipeline: PipelineId) {
        self.heads.pop();
        self.read.remove(&pipeline);
    }

    fn advance(&mut self, tx: &mut Tx<'_>, pipeline: PipelineId) -> Result<(), StoreError> {
        self.heads.pop();
        let Some(read) = self.read.get_mut(&pipeline) else { return Ok(()) };
        let Some(done) = read.pop_front() else { return Ok(()) };
        if read.is_empty() {
            let (queue_rank, created_ms, id) = rank(&done);
            let values = [
                self.scope.account().into(),
                pipeline.into(),
                queue_rank.into(),
                created_ms.into(),
                id.into(),
            ];
            for row in &tx.all(&next_sql(), &values)? {
                read.push_back(build(row)?);
            }
        }
        if let Some(next) = read.front() {
            self.heads.push(Reverse((rank(next), pipeline)));
        }
        Ok(())
    }
}

/// Held on paper by somebody who has not been heard for too long.
pub(super) fn lost_sql() -> String {
    format!(
        "{BUILD} WHERE account = $1 AND {TAKEN} AND (lease_until_ms IS NULL OR lease_until_ms < $2) \
         ORDER BY queue_rank, created_ms, id LIMIT {BATCH}"
    )
}

/// The first build that waits of each pipeline: from one pipeline to the next by the index, over all that wait behind it.
pub(super) fn heads_sql() -> String {
    format!(
        "WITH RECURSIVE waiting(of_pipeline) AS (\
         SELECT min(pipeline) FROM builds WHERE account = $1 AND status = 'pending' UNION ALL \
         SELECT (SELECT min(next.pipeline) FROM builds next WHERE next.account = $1 AND next.status = 'pending' \
         AND next.pipeline > waiting.of_pipeline) FROM waiting WHERE waiting.of_pipeline IS NOT NULL) \
         {BUILD} JOIN waiting ON id = (SELECT head.id FROM builds head WHERE head.account = $1 \
         AND head.pipeline = waiting.of_pipeline AND head.status = 'pending' \
         ORDER BY head.queue_rank, head.created_ms, head.id LIMIT 1)"
    )
}

/// Those of one pipeline after a build of it.
pub(super) fn next_sql() -> String {
    format!(
        "{BUILD} WHERE account = $1 AND pipeline = $2 AND status = 'pending' AND queue_rank >= $3 AND (queue_rank > $3 OR \
         (created_ms > $4 OR (created_ms = $4 AND id > $5))) ORDER BY queue_rank, created_ms, id LIMIT {BATCH}"
    )
}

enum Room {
    Free,
    /// Nothing of the pipeline can start now.
    PipelineFull,
    /// Another branch or trigger of it may.
    OtherFull,
}

fn room(
    tx: &mut Tx<'_>,
    scope: Scope,
    build: &Build,
    limits: Limits,
    known: &mut HashMap<PipelineId, Places>,
) -> Result<Room, StoreError> {
    match limits.elsewhere {
        Some(Elsewhere::Pipeline) => return Ok(Room::PipelineFull),
        Some(Elsewhere::Build) => return Ok(Room::OtherFull),
        None => {}
    }
    if limits.pipeline.is_none() && limits.trigger.is_none() && limits.branch.is_none() {
        return Ok(Room::Free);
    }
    if limits.pipeline.is_some_and(|limit| limit <= 0) {
        return Ok(Room::PipelineFull);
    }
    let places = match known.entry(build.pipeline) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => {
            place.insert(Places::read(tx, scope, build.pipeline, limits.approvals_count)?)
        }
    };
    let active = places.active(build);
    let over = |limit: Option<i64>, used: i64| limit.is_some_and(|limit| used >= limit);
    Ok(if over(limits.pipeline, active.pipeline) {
        Room::PipelineFull
    } else if over(limits.trigger, active.trigger) || over(limits.branch, active.branch) {
        Room::OtherFull
    } else {
        Room::Free
    })
}

/// How many builds of a build's pipeline, trigger and branch run now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Active {
    pub pipeline: i64,
    pub trigger: i64,
    pub branch: i64,
}

/// What runs of a pipeline, by trigger and branch.
struct Places(Vec<(String, String, i64)>);

impl Places {
    fn read(
        tx: &mut Tx<'_>,
        scope: Scope,
        pipeline: PipelineId,
        approvals_count: bool,
    ) -> Result<Self, StoreError> {
        let rows = tx.all(
            &format!(
                "SELECT trigger_name, branch, count(*) FROM builds WHERE account = $1 AND pipeline = $2 AND {TAKEN} \
                 AND (status <> 'pending-approval' OR CAST($3 AS BIGINT) = 1) GROUP BY trigger_name, branch"
            ),
            &[scope.account().into(), pipeline.into(), approvals_count.into()],
        )?;
        let places = rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?, row.int(2)?)));
        Ok(Self(places.collect::<Result<_, StoreError>>()?))
    }

    fn add(&mut self, trigger: String, branch: String, count: i64) {
        self.0.push((trigger, branch, count));
    }

    fn active(&self, build: &Build) -> Active {
        let mut active = Active::default();
        for (trigger, branch, count) in &self.0 {
            active.pipeline += count;
            if *trigger == build.trigger {
                active.trigger += count;
            }
            if *branch == build.branch {
                active.branch += count;
            }
        }
        active
    }
}

pub fn active(
    tx: &mut Tx<'_>,
    scope: Scope,
    build: &Build,
    approvals_count: bool,
) -> Result<Active, StoreError> {
    Ok(Places::read(tx, scope, build.pipeline, approvals_count)?.active(build))
}

pub(super) fn hand_over(tx: &mut Tx<'_>, taker: &Taker<'_>, mut build: Build) -> Result<Build, StoreError> {
    build.epoch += 1;
    build.runner = Some(taker.runner.to_owned());
    build.status = match (build.terminate, build.status) {
        (true, _) => BuildStatus::Terminating,
        // Its question stays asked while somebody else takes it over.
        (false, BuildStatus::PendingApproval) => BuildStatus::PendingApproval,
        (false, _) => BuildStatus::Elected,
    };
    tx.execute(
        "UPDATE builds SET status = $2, runner = $3, executor = $4, epoch = $5, lease_until_ms = $6, report_revision = -1, \
         delayed_ms = NULL WHERE id = $1",
        &[
            build.id.into(),
            build.status.as_str().into(),
            taker.runner.into(),
            taker.executor.into(),
            build.epoch.into(),
            taker.lease_until_ms.into(),
        ],
    )?;
    tx.changed(build.account, ChangeKind::Build, build.id);
    Ok(build)
}
