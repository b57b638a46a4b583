//! One build, from taking it to its reported end: observe → plan → apply → report.
//!
//! In: what the server gave, and what the files of the build say. Out: started and stopped attempts,
//! reports, logs. All decisions are the planner's; all state is in the journal, which is written before
//! an effect, and every effect may be done again without harm: that is what makes kill -9 harmless.

mod annotations;
mod approval;
mod debug;
mod init;
mod inner;
mod record;
mod report;
mod volume;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use slipway_api::Client;
use slipway_api::agent::{ApprovalDecision, PipelineSource, TakenBuild};
use slipway_api::debug::DebugOrder;
use slipway_pipeline::plan::{Outcome, apply};
use slipway_pipeline::{Action, BuildStatus, Pipeline, Plan, StepKind, StepSpec, StepStatus, plan};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::agent::Told;
use crate::attempt::{Observed, Shims, Watched, cancel, give_up, observe, write_task};
use crate::executor::{Authority, Executor, Place, StepTypes, make_volume};
use crate::journal::{Finished, INIT, Journal, log_of};
use crate::layout::{AttemptDir, BuildDir, Lasting, gone, now_ms, read_json, write_json};
use crate::logs::Logs;
use crate::mask::Masker;
use crate::signing::Trusted;
use crate::task::Exit;
use crate::trust::Trust;
use crate::uplink::Uplink;
use crate::variables::secrets;

/// How often output and ends are looked for while something runs: often when there is news, then less.
const TICK_LEAST: Duration = Duration::from_millis(10);
const TICK_MOST: Duration = Duration::from_millis(100);
/// A build whose steps have been told to stop and do not.
const STOP_WAIT: Duration = Duration::from_secs(30);

/// What all builds of a runner share.
pub(crate) struct Context {
    pub(crate) name: String,
    pub(crate) client: Client,
    pub(crate) data: PathBuf,
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) shims: Shims,
    pub(crate) types: StepTypes,
    /// Whose pipelines are run; anybody's when absent.
    pub(crate) trusted: Option<Trusted>,
    pub(crate) authority: Option<Authority>,
    pub(crate) clusters: BTreeMap<String, PathBuf>,
    pub(crate) cache_bytes_max: u64,
    /// How long a step may stand at a breakpoint.
    pub(crate) pause: Duration,
    /// After a restart nothing new is started before the server has been asked whose the builds are.
    pub(crate) may_start: watch::Receiver<bool>,
}

/// What the agent loop tells a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) epoch: i64,
    pub(crate) terminate: bool,
    /// Stop and forget.
    pub(crate) lost: bool,
    /// Answers to steps that wait for one.
    pub(crate) decisions: Vec<ApprovalDecision>,
    /// What people who debug it ask for.
    pub(crate) debug: Vec<DebugOrder>,
}

/// How a build left us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// The server has its end.
    Reported,
    Lost,
    /// The runner is going down; the build goes on when it is back.
    Paused,
}

pub(crate) use report::Told as ToldReport;
pub(crate) use volume::bequeathed;

pub(crate) struct Build {
    context: Arc<Context>,
    dir: BuildDir,
    taken: TakenBuild,
    trust: Trust,
    journal: Journal,
    pipeline: Option<Arc<Pipeline>>,
    plan: Plan,
    logs: Logs,
    masker: Masker,
    ended: Arc<Notify>,
    uplink: Arc<Uplink>,
    reports: watch::Sender<Option<report::Told>>,
    lengths: watch::Sender<BTreeMap<String, u64>>,
    /// Attempts whose supervisor this process has started or adopted.
    attended: BTreeMap<(String, u32), Watched>,
    resumed: bool,
    /// Nothing of it is left on the machine, as far as this process could see to it.
    released: bool,
    /// It waits for a person and for nothing else.
    idle: bool,
    tick: Duration,
    /// When a pipeline inside of a step has to be looked at again.
    inner_wake: Option<i64>,
    types: StepTypes,
    /// Of people who debug it.
    shells: Vec<debug::Open>,
}

/// Writes down a build before anybody counts on us to have it.
pub(crate) fn keep(context: &Context, taken: &TakenBuild) -> std::io::Result<()> {
    let dir = BuildDir::new(&context.data, &taken.id);
    crate::layout::create_private_dir(&dir.0)?;
    // Nobody counts on it before the journal beside it is there.
    write_json(&dir.taken(), taken, Lasting::InOrder)
}

impl Build {
    pub(crate) fn open(context: Arc<Context>, id: &str, epoch: i64) -> anyhow::Result<Self> {
        let dir = BuildDir::new(&context.data, id);
        let taken: TakenBuild = read_json(&dir.taken())?
            .ok_or_else(|| anyhow::anyhow!("build {id} has no taken.json: it was never taken"))?;
        let found = Journal::load(&dir)?;
        let resumed = found.is_some();
        let mut journal = found.unwrap_or_default();
        journal.epoch = epoch.max(journal.epoch);
        let masker = masker(&journal, &taken);
        let uplink = Arc::new(Uplink {
            client: context.client.clone(),
            build: taken.id.clone(),
            dir: dir.clone(),
            epoch: AtomicI64::new(journal.epoch),
            fenced: CancellationToken::new(),
        });
        let types = context.types.with(&read_json::<Vec<Box<RawValue>>>(&dir.types())?.unwrap_or_default());
        Ok(Self {
            logs: Logs::open(&dir)?,
            context,
            dir,
            trust: Trust::of(&taken),
            taken,
            journal,
            pipeline: None,
            plan: Plan::default(),
            masker,
            ended: Arc::new(Notify::new()),
            uplink,
            reports: watch::Sender::new(None),
            lengths: watch::Sender::new(BTreeMap::new()),
            attended: BTreeMap::new(),
            resumed,
            released: false,
            idle: false,
            tick: TICK_LEAST,
            inner_wake: None,
            types,
            shells: Vec::new(),
        })
    }

    /// Runs the build to its end.
    pub(crate) async fn run(
        mut self,
        mut orders: watch::Receiver<Orders>,
        tell: mpsc::Sender<(String, Told)>,
        shutdown: CancellationToken,
    ) -> anyhow::Result<Left> {
        let (held, _) = watch::channel(BTreeMap::new());
        let mut held_seen = held.subscribe();
        let uplink = self.uplink.clone();
        let reporter = tokio::spawn({
            let (uplink, states) = (uplink.clone(), self.reports.subscribe());
            async move { uplink.report(states).await }
        });
        let streamer = tokio::spawn({
            let (uplink, lengths, resumed) = (uplink.clone(), self.lengths.subscribe(), self.resumed);
            async move { uplink.stream(lengths, held, resumed).await }
        });
        let left = tokio::select! {
            left = self.live(&mut orders, &mut held_seen, &tell) => left,
            () = shutdown.cancelled() => Ok(Left::Paused),
        };
        let left = match left {
            Ok(Left::Lost) => {
                reporter.abort();
                self.forget().await.map(|()| Left::Lost)
            }
            Ok(Left::Reported) => {
                // The last report has to be taken; only then is the build over for us.
                self.reports = watch::Sender::new(None);
                tokio::select! {
                    _ = reporter => self.part(uplink.fenced.is_cancelled()).await,
                    () = shutdown.cancelled() => Ok(Left::Paused),
                }
            }
            other => {
                reporter.abort();
                other
            }
        };
        streamer.abort();
        left
    }

    /// The server has the end, or does not want it from us.
    async fn part(&mut self, fenced: bool) -> anyhow::Result<Left> {
        if fenced {
            return self.forget().await.map(|()| Left::Lost);
        }
        self.journal.reported = true;
        self.journal.scrub();
        self.journal.save(&self.dir)?;
        self.bequeath_volume()?;
        std::fs::remove_file(self.dir.taken()).or_else(gone)?;
        self.measure_images().await;
        Ok(Left::Reported)
    }

    async fn live(
        &mut self,
        orders: &mut watch::Receiver<Orders>,
        held: &mut watch::Receiver<BTreeMap<String, u64>>,
        tell: &mpsc::Sender<(String, Told)>,
    ) -> anyhow::Result<Left> {
        if self.journal.lost {
            return Ok(Left::Lost);
        }
        if self.journal.started_ms == 0 {
            self.begin()?;
        }
        self.read_pipeline()?;
        self.logs.follow(&self.journal.logs)?;
        if self.resumed {
            self.publish();
        }
        let fenced = self.uplink.fenced.clone();
        if self.journal.yaml.is_none() && self.journal.finished.is_none() {
            if matches!(self.taken.source, PipelineSource::Git { .. }) {
                // It may take a while; what is known is shown meanwhile.
                self.save()?;
                self.logs.pump(&self.masker)?;
                self.lengths.send_replace(self.logs.lengths());
            }
            tokio::select! {
                done = self.initialize() => done?,
                () = fenced.cancelled() => return Ok(Left::Lost),
                stop = stopped(orders) => {
                    if stop.lost {
                        return Ok(Left::Lost);
                    }
                    self.finish(BuildStatus::Terminated, "the build was terminated by request")?;
                }
            }
        }
        let mut may_start = self.context.may_start.clone();
        loop {
            let now = orders.borrow_and_update().clone();
            self.obey(&now)?;
            if now.lost || fenced.is_cancelled() {
                return Ok(Left::Lost);
            }
            if self.journal.finished.is_none() {
                self.advance(*may_start.borrow_and_update())?;
            }
            let idle = self.waits_for_people();
            if std::mem::replace(&mut self.idle, idle) != idle {
                let _ = tell.send((self.taken.id.clone(), Told::Idle(idle))).await;
            }
            self.logs.follow(&self.journal.logs)?;
            let more = self.logs.pump(&self.masker)?;
            let news = self.lengths.send_if_modified(|known| {
                let now = self.logs.lengths();
                std::mem::replace(known, now.clone()) != now
            });
            self.tick = if news { TICK_LEAST } else { (self.tick * 2).min(TICK_MOST) };
            if self.journal.finished.is_some() && !self.released {
                // Said before the end is told: whoever reads that the build is over finds nothing of it running.
                if let Err(why) = self.release().await {
                    let line =
                        format!("Clean-up after the build failed, the runner tries again later: {why}");
                    self.journal.say(INIT, &line);
                    self.save()?;
                }
                self.released = true;
                continue;
            }
            if self.journal.finished.is_some()
                && self.logs.done()
                && self.delivered(&held.borrow_and_update())
            {
                self.publish_end();
                return Ok(Left::Reported);
            }
            if more {
                tokio::task::yield_now().await;
                continue;
            }
            let nap = self.nap();
            let ended = self.ended.clone();
            tokio::select! {
                () = ended.notified() => {}
                () = tokio::time::sleep(nap) => {}
                _ = orders.changed() => {}
                _ = may_start.changed() => {}
                _ = held.changed(), if self.journal.finished.is_some() => {}
                () = fenced.cancelled() => {}
            }
        }
    }

    fn delivered(&self, held: &BTreeMap<String, u64>) -> bool {
        self.logs.lengths().iter().all(|(log, length)| held.get(log).copied().unwrap_or(0) >= *length)
    }

    fn nap(&self) -> Duration {
        if !self.logs.done() {
            return self.tick;
        }
        let wake = self.plan.wake_at_ms.into_iter().chain(self.inner_wake).chain(self.pause_wake()).min();
        let until = wake.map_or(60_000, |at| at - now_ms()).clamp(1, 60_000);
        Duration::from_millis(u64::try_from(until).unwrap_or(1))
    }

    fn obey(&mut self, orders: &Orders) -> anyhow::Result<()> {
        if orders.epoch > self.journal.epoch {
            self.journal.epoch = orders.epoch;
            self.uplink.epoch.store(orders.epoch, Ordering::Relaxed);
            self.save()?;
        }
        if orders.terminate && !self.journal.state.terminate_requested && self.journal.finished.is_none() {
            self.journal.state.terminate_requested = true;
            self.save()?;
        }
        self.hear(&orders.decisions)?;
        self.debug(&orders.debug)
    }

    /// Looks at what runs, then does what the planner says until it has nothing more to say.
    fn advance(&mut self, may_start: bool) -> anyhow::Result<()> {
        self.look()?;
        match self.pipeline.clone() {
            Some(pipeline) => self.follow_plan(&pipeline, may_start),
            None => Ok(()),
        }
    }

    fn follow_plan(&mut self, pipeline: &Pipeline, may_start: bool) -> anyhow::Result<()> {
        loop {
            self.journal.state.now_ms = now_ms();
            self.plan = plan(pipeline, &self.journal.state);
            if let Some(finished) = self.plan.finished.clone() {
                return self.finish(finished.status, &finished.reason);
            }
            let actions: Vec<Action> = std::mem::take(&mut self.plan.actions)
                .into_iter()
                .filter(|action| {
                    may_start || !matches!(action, Action::Start { .. } | Action::RunHook { .. })
                })
                .collect();
            if actions.is_empty() {
                return Ok(());
            }
            for action in &actions {
                self.intend(pipeline, action)?;
            }
            self.save()?;
            // The effects: each is found again by `look` if we do not get to it.
            self.look()?;
        }
    }

    /// Records an action in the journal's state. Nothing has happened yet when this returns.
    fn intend(&mut self, pipeline: &Pipeline, action: &Action) -> anyhow::Result<()> {
        let (step, attempt, spec) = match action {
            Action::Start { step, attempt, spec } | Action::RunHook { step, attempt, spec, .. } => {
                (step, *attempt, spec)
            }
            Action::Skip { step, reason } => {
                self.journal.say(log_of(step), &format!("The step was skipped: {reason}"));
                return Ok(apply(&mut self.journal.state, action)?);
            }
            Action::AwaitApproval { step, deadline_ms, .. } => {
                apply(&mut self.journal.state, action)?;
                return self.ask(pipeline, step, *deadline_ms);
            }
            Action::Settle { step, reason, .. } => {
                self.journal.say(log_of(step), reason);
                return Ok(apply(&mut self.journal.state, action)?);
            }
            Action::Cancel { .. } => return Ok(apply(&mut self.journal.state, action)?),
        };
        if let StepKind::Annotate(annotate) = &spec.kind {
            apply(&mut self.journal.state, action)?;
            self.annotate(pipeline, step, annotate, None);
            return self.settle(pipeline, step, attempt, Outcome::new(StepStatus::Success));
        }
        let inside = match &spec.kind {
            StepKind::Typed(typed) => self.types.inside(spec, typed),
            _ => Ok(None),
        };
        let inside = match inside {
            Ok(inside) => inside,
            Err(refusal) => {
                apply(&mut self.journal.state, action)?;
                return self.refuse(pipeline, step, attempt, &refusal);
            }
        };
        if let Some(inside) = inside {
            apply(&mut self.journal.state, action)?;
            self.open_inner(step, attempt, inside);
            return Ok(());
        }
        let at = self.dir.attempt(step, attempt);
        let mut place = self.place(attempt, &at, spec, self.journal.state.variables.effective());
        place.services = slipway_pipeline::services(pipeline, &self.journal.state);
        let prepared = self.context.executor.prepare(spec, &place);
        apply(&mut self.journal.state, action)?;
        if attempt > 1 {
            self.journal.say(log_of(step), &format!("Attempt {attempt}"));
        }
        self.note_for_later(step, spec);
        match prepared {
            Ok(task) => {
                write_task(&at, &task)?;
                if let StepKind::Freestyle(freestyle) = &spec.kind
                    && let Some(patterns) = freestyle.environment.get(crate::junit::VARIABLE)
                {
                    self.journal.junit.insert(step.clone(), patterns.clone());
                }
                if let Some(directory) = crate::executor::directory(spec) {
                    self.journal.directories.insert(step.clone(), directory);
                }
                // A log is read in order: what is said during a pause comes before what the step prints.
                if !self.pause_before(step, attempt, spec) {
                    self.journal.print(step, attempt);
                }
            }
            Err(refusal) => self.refuse(pipeline, step, attempt, &refusal)?,
        }
        Ok(())
    }

    /// Where an attempt of this build runs.
    fn place<'a>(
        &'a self,
        attempt: u32,
        at: &'a AttemptDir,
        step: &StepSpec,
        variables: BTreeMap<String, String>,
    ) -> Place<'a> {
        Place {
            registries: crate::executor::registries::for_step(&self.taken.registries, step),
            build: &self.taken.id,
            attempt,
            dir: &self.dir,
            at,
            git: &self.taken.git,
            authority: self.context.authority.as_ref(),
            integrations: &self.taken.integrations,
            types: &self.types,
            clusters: &self.context.clusters,
            trust: &self.trust,
            fresh: self.taken.options.no_cache || self.taken.options.no_cf_cache,
            cache_bytes_max: if self.trust.is_alone() { 0 } else { self.context.cache_bytes_max },
            variables,
            masker: &self.masker,
            machine: &self.taken.machine,
            services: None,
        }
    }

    /// Makes what is so on disk: what should run runs, what should stop is told, what has ended is recorded.
    fn look(&mut self) -> anyhow::Result<()> {
        for (step, attempt, status) in inner::active(&self.journal.state) {
            if self.stand(&step, attempt, status)? {
                continue;
            }
            if self.journal.inner.get(&step).is_some_and(|inner| inner.attempt == attempt) {
                self.look_inside(&step, attempt, status)?;
            } else if let Some(exit) = self.tend(&step, attempt, status)? {
                if self.pause_after(&step, attempt, status, &exit) {
                    self.save()?;
                } else {
                    self.record(&step, attempt, exit)?;
                }
            }
        }
        Ok(())
    }

    /// Stays with one attempt: stops it, starts its supervisor, or gives back how it ended.
    fn tend(&mut self, step: &str, attempt: u32, status: StepStatus) -> anyhow::Result<Option<Exit>> {
        let at = self.dir.attempt(step, attempt);
        if status == StepStatus::Terminating {
            cancel(&at)?;
        }
        let key = (step.to_owned(), attempt);
        let lost = match observe(&at)? {
            Observed::Ended(exit) => {
                self.attended.remove(&key);
                return Ok(Some(*exit));
            }
            Observed::Running => return Ok(None),
            Observed::NotStarted => false,
            Observed::Lost => true,
        };
        match self.attended.get(&key) {
            // Its supervisor is on its way, or has died on it: then the next life of it looks.
            Some(watched) if watched.adopting == lost => {
                if watched.is_over() {
                    give_up(&at, lost, watched.was_killed())?;
                    self.ended.notify_one();
                }
            }
            _ => {
                let watched = self.context.shims.start(&at, lost, &self.ended)?;
                self.attended.insert(key, watched);
            }
        }
        Ok(None)
    }

    /// The text was checked before it was kept.
    pub(super) fn read_pipeline(&mut self) -> anyhow::Result<()> {
        if let Some(yaml) = &self.journal.yaml {
            let pipeline = Pipeline::parse(yaml).0;
            self.pipeline =
                Some(Arc::new(pipeline.ok_or_else(|| anyhow::anyhow!("the kept pipeline cannot be read"))?));
        }
        Ok(())
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.journal.started_ms = now_ms();
        self.inherit_volume()?;
        make_volume(&self.dir, self.context.executor.as_ref())?;
        self.introduce();
        self.take_over_steps();
        Ok(())
    }

    fn finish(&mut self, status: BuildStatus, reason: &str) -> anyhow::Result<()> {
        self.journal.finished = Some(Finished {
            status: report::build_word(status).to_owned(),
            message: reason.to_owned(),
            at_ms: now_ms(),
        });
        self.save()
    }

    fn save(&mut self) -> anyhow::Result<()> {
        self.journal.save(&self.dir)?;
        self.publish();
        Ok(())
    }

    /// The build belongs to somebody else: stop what runs and remove every trace of it here.
    async fn forget(&mut self) -> anyhow::Result<()> {
        self.journal.lost = true;
        self.journal.save(&self.dir)?;
        let mut running: Vec<_> = inner::active(&self.journal.state)
            .into_iter()
            .map(|(id, attempt, _)| self.dir.attempt(&id, attempt))
            .collect();
        for (step, inner) in &self.journal.inner {
            running.extend(
                inner::active(&inner.state)
                    .into_iter()
                    .map(|(name, attempt, _)| self.dir.attempt(&inner::inner_id(step, &name), attempt)),
            );
        }
        let until = tokio::time::Instant::now() + STOP_WAIT;
        for at in &running {
            cancel(at)?;
            while matches!(observe(at)?, Observed::Running) && tokio::time::Instant::now() < until {
                tokio::time::sleep(TICK_LEAST).await;
            }
        }
        if let Err(why) = self.release().await {
            tracing::warn!(build = %self.taken.id, %why, "Cleanup after a lost build failed; the next sweep retries.");
        }
        self.context.executor.remove(&self.dir.0)?;
        Ok(())
    }

    /// Off this thread: it may ask a cluster.
    async fn release(&self) -> Result<(), String> {
        let (context, build) = (self.context.clone(), self.taken.id.clone());
        let work = tokio::task::spawn_blocking(move || context.executor.release(&build));
        work.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// Waits until the build is to end.
async fn stopped(orders: &mut watch::Receiver<Orders>) -> Orders {
    loop {
        let now = orders.borrow_and_update().clone();
        if now.terminate || now.lost {
            return now;
        }
        if orders.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn masker(journal: &Journal, taken: &TakenBuild) -> Masker {
    let secrets = secrets(&journal.state.variables, taken);
    Masker::new(secrets.iter().map(String::as_str))
}
