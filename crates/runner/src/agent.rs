//! The runner as the server knows it: one long-polled call that renews leases, takes builds and hears
//! of terminations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use slipway_api::agent::{BuildReport, RunnerSync, RunnerSyncAnswer, RunningBuild, TakenBuild};
use slipway_api::{Client, ClientError};
use slipway_model::Next;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::build::{Build, Context, Left, Orders, ToldReport, bequeathed, keep};
use crate::errands::Errands;
use crate::journal::Journal;
use crate::layout::{BuildDir, Lasting, builds, read_if_whole};
use crate::mask::Masker;
use crate::sweep::{Active, periodically, sweep};
use crate::uplink::Backoff;

/// How long the server may hold a call, unless leases are shorter.
const WAIT_MS: u64 = 20_000;
/// What builds that are not ours any more may take to stop their steps.
const LEAVING_MAX: Duration = Duration::from_secs(120);
/// Folders of finished builds that are kept, for people who look for what went wrong.
const FINISHED_KEPT: usize = 10;

pub(crate) struct Agent {
    context: Arc<Context>,
    capacity: u32,
    /// The build that we are here for: when the server says that it is not ours (any more), we end.
    only: Option<String>,
    shutdown: CancellationToken,
    running: BTreeMap<String, Running>,
    /// The same builds, for the sweep.
    active: Active,
    tasks: JoinSet<()>,
    tell: mpsc::Sender<(String, Told)>,
    told: mpsc::Receiver<(String, Told)>,
    may_start: watch::Sender<bool>,
    wait_ms: u64,
    /// When nothing new may begin any more unless the server is heard before.
    fence_at: Option<tokio::time::Instant>,
    errands: Errands,
}

/// A build of ours, as the agent sees it.
struct Running {
    orders: watch::Sender<Orders>,
    /// It waits for a person and takes nobody's place.
    idle: bool,
}

/// What a build tells the agent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Told {
    Left(Left),
    Idle(bool),
}

impl Agent {
    pub(crate) fn new(
        context: Arc<Context>,
        capacity: u32,
        only: Option<String>,
        may_start: watch::Sender<bool>,
        shutdown: CancellationToken,
    ) -> Self {
        let (tell, told) = mpsc::channel(64);
        let errands = Errands::new(context.client.clone());
        Self {
            context,
            capacity,
            only,
            shutdown,
            running: BTreeMap::new(),
            active: Active::default(),
            tasks: JoinSet::new(),
            tell,
            told,
            may_start,
            wait_ms: WAIT_MS,
            fence_at: None,
            errands,
        }
    }

    /// Runs until it is told to stop, or until its only build is over. Steps go on without us; they are found again at the next start.
    pub(crate) async fn run(mut self, sweep: Duration) -> anyhow::Result<()> {
        self.resume().await?;
        tokio::spawn(periodically(self.context.clone(), self.active.clone(), sweep, self.shutdown.clone()));
        let mut backoff = Backoff::new(Duration::from_secs(10));
        let mut over = false;
        while !over && !self.shutdown.is_cancelled() {
            let request = self.request();
            let full = request.free == 0;
            let asked = tokio::time::Instant::now();
            let call = sync(self.context.client.clone(), request);
            tokio::pin!(call);
            loop {
                tokio::select! {
                    answer = &mut call => {
                        match answer {
                            Ok(answer) => {
                                backoff.reset();
                                // A little before supervisors stop what runs.
                                let silence = Duration::from_millis(answer.fence_ms / 10 * 9);
                                self.fence_at = (!silence.is_zero()).then(|| asked + silence);
                                over = self.is_over(&answer);
                                self.heed(answer);
                            }
                            Err(error) if self.only.is_some() && error.status() == Some(401) => {
                                tracing::info!("The server no longer knows this runner: its build is over.");
                                over = true;
                            }
                            Err(error) => {
                                tracing::warn!(%error, "The server did not answer; retrying.");
                                tokio::select! {
                                    () = backoff.pause() => {}
                                    () = self.shutdown.cancelled() => {}
                                }
                            }
                        }
                        break;
                    }
                    Some((build, told)) = self.told.recv() => {
                        match told {
                            Told::Left(left) => self.part(&build, left),
                            Told::Idle(idle) => {
                                if let Some(running) = self.running.get_mut(&build) {
                                    running.idle = idle;
                                }
                            }
                        }
                        // The server holds the call of a runner that was full: say that it is not.
                        if full {
                            break;
                        }
                    }
                    () = until(self.fence_at) => {
                        tracing::warn!("No answer from the server for too long: starting nothing new until it answers.");
                        self.fence_at = None;
                        self.may_start.send_replace(false);
                    }
                    () = self.shutdown.cancelled() => break,
                }
            }
        }
        if over {
            // What still runs here is nobody's: its steps are stopped and removed before we go.
            let ids: Vec<String> = self.running.keys().cloned().collect();
            ids.iter().for_each(|id| self.order(id, |orders| orders.lost = true));
            let all = async { while self.tasks.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(LEAVING_MAX, all).await;
            self.shutdown.cancel();
        }
        while self.tasks.join_next().await.is_some() {}
        Ok(())
    }

    /// Our only build has ended, or is another runner's, and nothing of it is left here.
    fn is_over(&self, answer: &RunnerSyncAnswer) -> bool {
        self.only.as_ref().is_some_and(|only| answer.lost.contains(only) && !self.running.contains_key(only))
    }

    /// Builds of an earlier life of this runner.
    async fn resume(&mut self) -> anyhow::Result<()> {
        let folder = builds(&self.context.data);
        crate::layout::create_private_dir(&folder)?;
        for entry in std::fs::read_dir(&folder)? {
            let dir = BuildDir(entry?.path());
            let journal = Journal::load(&dir)?;
            if journal.as_ref().is_some_and(|journal| journal.reported) {
                continue;
            }
            let Some(taken) = read_if_whole::<TakenBuild>(&dir.taken())? else {
                self.context.executor.remove(&dir.0)?;
                continue;
            };
            let epoch = journal.map_or(taken.epoch, |journal| journal.epoch.max(taken.epoch));
            tracing::info!(build = %taken.id, "Resuming a build.");
            self.start(&taken.id, epoch);
        }
        let (context, active) = (self.context.clone(), self.active.clone());
        tokio::task::spawn_blocking(move || sweep(&context, &active)).await?;
        self.forget_old();
        Ok(())
    }

    fn request(&self) -> RunnerSync {
        let running: Vec<RunningBuild> = self
            .running
            .iter()
            .map(|(id, running)| {
                let orders = running.orders.borrow();
                RunningBuild {
                    id: id.clone(),
                    epoch: orders.epoch,
                    terminating: orders.terminate,
                    // The build has them, or hears them again after our next start.
                    decided: orders.decisions.iter().map(|decision| decision.step.clone()).collect(),
                    debug_heard: orders.debug.iter().map(|order| order.id.clone()).collect(),
                }
            })
            .collect();
        let busy = self.running.values().filter(|running| !running.idle).count();
        RunnerSync {
            runner: self.context.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            executor: self.context.executor.name().to_owned(),
            free: self.capacity.saturating_sub(u32::try_from(busy).unwrap_or(u32::MAX)),
            running,
            wait_ms: self.wait_ms,
            errands: self.only.is_none(),
        }
    }

    fn heed(&mut self, answer: RunnerSyncAnswer) {
        let heard = crate::layout::heard(&self.context.data);
        let text = answer.fence_ms.to_string();
        if let Err(error) = crate::layout::write_atomic(&heard, text.as_bytes(), Lasting::Process) {
            tracing::warn!(%error, "Cannot record that the server answered; steps will stop if that lasts.");
        }
        // A lease must survive one call that goes wrong.
        self.wait_ms = WAIT_MS.min((answer.lease_ms / 3).max(100));
        for id in &answer.lost {
            self.order(id, |orders| orders.lost = true);
        }
        for id in &answer.terminate {
            self.order(id, |orders| orders.terminate = true);
        }
        for decision in answer.decisions {
            let build = decision.build.clone();
            self.order(&build, |orders| {
                if !orders.decisions.iter().any(|known| known.step == decision.step) {
                    orders.decisions.push(decision);
                }
            });
        }
        for order in answer.debug {
            let build = order.build.clone();
            self.order(&build, |orders| {
                if !orders.debug.iter().any(|known| known.id == order.id) {
                    orders.debug.push(order);
                }
            });
        }
        for errand in answer.errands {
            self.errands.start(errand);
        }
        for taken in answer.taken {
            if self.running.contains_key(&taken.id) {
                // An answer of ours got lost and the server gives it again, under a new epoch perhaps.
                self.order(&taken.id, |orders| orders.epoch = orders.epoch.max(taken.epoch));
                continue;
            }
            tracing::info!(build = %taken.id, pipeline = %taken.pipeline_name, "Accepted a build.");
            match keep(&self.context, &taken) {
                Ok(()) => self.start(&taken.id, taken.epoch),
                // Not in our next list, so the server gives it to somebody who can keep it.
                Err(error) => tracing::error!(build = %taken.id, %error, "Cannot save the build."),
            }
        }
        self.may_start.send_if_modified(|may| !std::mem::replace(may, true));
    }

    fn order(&self, id: &str, change: impl FnOnce(&mut Orders)) {
        if let Some(running) = self.running.get(id) {
            running.orders.send_if_modified(|orders| {
                let before = orders.clone();
                change(orders);
                *orders != before
            });
        }
    }

    fn start(&mut self, id: &str, epoch: i64) {
        let orders = watch::Sender::new(Orders { epoch, ..Orders::default() });
        let seen = orders.subscribe();
        self.active.insert(id);
        self.running.insert(id.to_owned(), Running { orders, idle: false });
        let (context, shutdown, tell) = (self.context.clone(), self.shutdown.clone(), self.tell.clone());
        let id = id.to_owned();
        self.tasks.spawn(async move {
            let how = match drive(&context, &id, epoch, seen, &tell, &shutdown).await {
                Some(how) => how,
                None => return,
            };
            let _ = tell.send((id, Told::Left(how))).await;
        });
    }

    fn part(&mut self, id: &str, left: Left) {
        tracing::info!(build = %id, ?left, "Build finished.");
        self.running.remove(id);
        self.active.remove(id);
        self.forget_old();
    }

    /// Removes the folders of the oldest finished builds.
    fn forget_old(&self) {
        let Ok(entries) = std::fs::read_dir(builds(&self.context.data)) else { return };
        let mut finished: Vec<(i64, BuildDir)> = entries
            .flatten()
            .map(|entry| BuildDir(entry.path()))
            .filter_map(|dir| {
                let journal = Journal::load(&dir).ok()??;
                let at = journal.finished.as_ref().map_or(0, |finished| finished.at_ms);
                journal.reported.then_some((at, dir))
            })
            .collect();
        finished.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let wanted = bequeathed(&self.context.data, self.context.cache_bytes_max);
        let wanted =
            |dir: &BuildDir| wanted.iter().any(|id| BuildDir::new(&self.context.data, id).0 == dir.0);
        for (_, dir) in finished.into_iter().skip(FINISHED_KEPT) {
            if wanted(&dir) {
                continue;
            }
            if let Err(error) = self.context.executor.remove(&dir.0) {
                tracing::warn!(folder = %dir.0.display(), %error, "Cannot remove the folder of a finished build.");
            }
        }
    }
}

/// Never, when there is no such moment.
async fn until(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Runs a build, again after an error of this machine (a full disk, say); nothing when shutting down.
async fn drive(
    context: &Arc<Context>,
    id: &str,
    epoch: i64,
    orders: watch::Receiver<Orders>,
    tell: &mpsc::Sender<(String, Told)>,
    shutdown: &CancellationToken,
) -> Option<Left> {
    let mut backoff = Backoff::new(Duration::from_secs(30));
    loop {
        let done = match Build::open(context.clone(), id, epoch) {
            Ok(build) => build.run(orders.clone(), tell.clone(), shutdown.clone()).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(Left::Paused) => return None,
            Ok(left) => return Some(left),
            Err(error) => {
                tracing::error!(build = %id, error = format!("{error:#}"), "A build hit an error; continuing.")
            }
        }
        tokio::select! {
            () = backoff.pause() => {}
            () = shutdown.cancelled() => return None,
        }
    }
}

/// Says of the build that this runner is here for why it cannot be run here.
pub(crate) async fn cannot(client: &Client, runner: &str, why: &str) -> anyhow::Result<()> {
    let request = RunnerSync {
        runner: runner.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        executor: String::new(),
        free: 1,
        running: Vec::new(),
        wait_ms: 0,
        errands: false,
    };
    let mut backoff = Backoff::new(Duration::from_secs(10));
    let answer = loop {
        match sync(client.clone(), request.clone()).await {
            Ok(answer) => break answer,
            Err(error) if error.next() == Next::Retry => backoff.pause().await,
            Err(error) => return Err(error.into()),
        }
    };
    for taken in answer.taken {
        let now_ms = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
        let report = BuildReport {
            epoch: taken.epoch,
            revision: 1,
            status: "error".to_owned(),
            message: Some(why.to_owned()),
            started_ms: Some(now_ms),
            finished_ms: Some(now_ms),
            ..BuildReport::default()
        };
        let path = format!("/api/agent/runner/builds/{}/state", taken.id);
        let secrets = crate::variables::secrets(&Default::default(), &taken);
        let told = ToldReport::new(report, &Masker::new(secrets.iter().map(String::as_str)));
        client.send(client.request(reqwest::Method::PUT, &path).json(&told.with_epoch(taken.epoch))).await?;
    }
    // That nothing is left here to be cleared away is heard by asking once more.
    let _ = sync(client.clone(), request).await;
    Ok(())
}

async fn sync(client: Client, request: RunnerSync) -> Result<RunnerSyncAnswer, ClientError> {
    let timeout = Duration::from_millis(request.wait_ms) + Duration::from_secs(15);
    let call =
        client.request(reqwest::Method::POST, "/api/agent/runner/sync").timeout(timeout).json(&request);
    let response = client.send(call).await?;
    let url = response.url().to_string();
    response.json().await.map_err(|source| ClientError::Unexpected { url, source })
}
