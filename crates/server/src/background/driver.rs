//! Runs background tasks: when they are due, where they may run, and again after they failed.
//!
//! In: a [`Task`]. Out: its [`super::status`]. A task says what one round does; it knows neither when it runs next nor whether
//! somebody else leads. A round that panics is a failure like any other.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use slipway_store::Committed;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::background::lease::{self, Lead};
use crate::ctx::Server;
use crate::http::roles::Role;

pub(crate) struct Task {
    /// In metrics, messages and on the health page.
    pub(crate) name: &'static str,
    /// What it is for, in one sentence for an operator.
    pub(crate) description: &'static str,
    /// Processes without this role do not run it; `None` for every process.
    pub(crate) role: Option<Role>,
    /// One process of the platform at a time runs it, whoever holds this lease; `None` for each process by itself.
    pub(crate) lease: Option<&'static str>,
    pub(crate) wake: Wake,
    pub(crate) run: fn(Turn) -> BoxFuture<'static, Outcome>,
}

/// When a task runs.
#[derive(Clone, Copy)]
pub(crate) enum Wake {
    /// At once, and again after each pause.
    Every(Duration),
    /// The same without the first round at once.
    After(Duration),
    /// With these pauses, in seconds, and then with the last.
    Pauses(&'static [u64]),
    /// When a commit is news to it, and now and then as a safety net. Never twice within `gap`.
    Commits { news: fn(&Committed) -> bool, or_every: Duration, gap: Duration },
    /// It waits by itself, and says how its rounds went ([`super::status::ran`]). It runs until shutdown.
    Always,
}

/// What one round is given.
#[derive(Clone)]
pub(crate) struct Turn {
    pub(crate) server: Server,
    lead: Option<Lead>,
}

impl Turn {
    /// Of a task with a lease.
    pub(crate) fn lead(&self) -> &Lead {
        self.lead.as_ref().expect("the table gives this task a lease")
    }
}

/// How a round ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    Done,
    /// There is more to do now.
    Again,
}

/// Why a round failed, for people.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

pub(crate) type Outcome = Result<Round, Failure>;

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Until shutdown.
pub(crate) async fn run(server: &Server, tasks: impl IntoIterator<Item = &'static Task>) {
    let mut running = tokio::task::JoinSet::new();
    for task in tasks {
        if task.role.is_none_or(|role| server.inner.roles.has(role)) {
            server.inner.jobs.register(task);
            let server = server.clone();
            running.spawn(async move { drive(&server, task).await });
        }
    }
    running.join_all().await;
}

async fn drive(server: &Server, task: &'static Task) {
    match task.lease {
        Some(lease) => lease::hold(server, lease, |lead| term(server, task, Some(lead))).await,
        None => tokio::select! {
            () = server.inner.shutdown.cancelled() => {}
            () = term(server, task, None) => {}
        },
    }
}

/// Rounds, until the lease is lost or the caller stops it.
async fn term(server: &Server, task: &Task, lead: Option<Lead>) {
    let mut commits = server.store().subscribe();
    let mut rounds = 0_usize;
    if let Wake::After(pause) = task.wake {
        server.inner.jobs.next(task.name, server.now_ms(), pause);
        tokio::time::sleep(pause).await;
    }
    loop {
        let turn = Turn { server: server.clone(), lead: lead.clone() };
        let began = Instant::now();
        server.inner.jobs.began(task.name, server.now_ms());
        // What happened before this round is in it.
        if matches!(task.wake, Wake::Commits { .. }) {
            commits = commits.resubscribe();
        }
        let outcome = fenced((task.run)(turn)).await;
        if lead.as_ref().is_some_and(Lead::is_lost) {
            return;
        }
        let failures = server.inner.jobs.ended(server, task, began.elapsed(), &outcome);
        rounds += 1;
        match (&outcome, task.wake) {
            (Ok(Round::Again), _) => {}
            // It had nothing to do here, or the process is going.
            (Ok(_), Wake::Always) => return std::future::pending().await,
            (Ok(Round::Done), wake) => wait(server, task, wake, rounds, &mut commits).await,
            (Err(_), wake) => {
                let pause = retry_after(wake, failures);
                server.inner.jobs.next(task.name, server.now_ms(), pause);
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// A panic is a failure of this round and of nothing else.
async fn fenced(round: BoxFuture<'static, Outcome>) -> Outcome {
    match AssertUnwindSafe(round).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(Failure(format!("it panicked: {}", text.unwrap_or_else(|| "no message".into()))))
        }
    }
}

async fn wait(server: &Server, task: &Task, wake: Wake, rounds: usize, commits: &mut Receiver<Committed>) {
    let (pause, gap) = match wake {
        Wake::Every(pause) | Wake::After(pause) => (pause, Duration::ZERO),
        Wake::Pauses(all) => {
            (Duration::from_secs(all.get(rounds - 1).or(all.last()).copied().unwrap_or(60)), Duration::ZERO)
        }
        Wake::Commits { or_every, gap, .. } => (or_every, gap),
        Wake::Always => return,
    };
    server.inner.jobs.next(task.name, server.now_ms(), pause);
    match wake {
        Wake::Commits { news, .. } => {
            let _ = tokio::time::timeout(pause, heard(commits, news)).await;
            tokio::time::sleep(gap).await;
        }
        _ => tokio::time::sleep(pause).await,
    }
}

async fn heard(commits: &mut Receiver<Committed>, news: fn(&Committed) -> bool) {
    loop {
        match commits.recv().await {
            Ok(commit) if news(&commit) => return,
            Ok(_) => {}
            // Missed some: look.
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending::<()>().await,
        }
    }
}

const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// The first retries come with the usual pause; what keeps failing is tried more and more rarely. What commits wake is tried
/// again soon.
fn retry_after(wake: Wake, failures: u64) -> Duration {
    let usual = match wake {
        Wake::Every(pause) | Wake::After(pause) => pause,
        Wake::Pauses(all) => Duration::from_secs(all.first().copied().unwrap_or(1)),
        Wake::Commits { or_every, .. } => {
            let growing =
                RETRY_FIRST * 2_u32.pow(u32::try_from(failures.min(10)).unwrap_or(0).saturating_sub(1));
            return growing.min(or_every.max(Duration::from_secs(5)));
        }
        Wake::Always => Duration::from_secs(1),
    };
    let beyond = u32::try_from(failures.saturating_sub(super::status::FAILING).min(10)).unwrap_or(0);
    (usual * 2_u32.pow(beyond)).min(RETRY_MAX.max(usual))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_keeps_failing_is_tried_more_and_more_rarely() {
        let every = Wake::Every(Duration::from_secs(2));
        let seconds = |failures| retry_after(every, failures).as_secs();
        assert_eq!([1, 3, 4, 5, 6, 7, 50].map(seconds), [2, 2, 4, 8, 16, 30, 30]);
        // A long period is not cut short.
        assert_eq!(retry_after(Wake::Every(Duration::from_secs(60)), 9).as_secs(), 60);
        let wake = Wake::Commits { news: |_| true, or_every: Duration::from_secs(5), gap: Duration::ZERO };
        assert_eq!([1, 2, 3, 20].map(|n| retry_after(wake, n).as_millis()), [100, 200, 400, 5000]);
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_of_one_round() {
        let outcome = fenced(Box::pin(async { panic!("out of {}", "range") })).await;
        assert_eq!(outcome.unwrap_err().0, "it panicked: out of range");
    }

    static ROUNDS: AtomicUsize = AtomicUsize::new(0);

    static FRAGILE: Task = Task {
        name: "fragile",
        description: "Panics, then works.",
        role: None,
        lease: Some("fragile"),
        wake: Wake::Every(Duration::from_millis(5)),
        run: |_| {
            Box::pin(async {
                match ROUNDS.fetch_add(1, Ordering::SeqCst) {
                    0..4 => panic!("on purpose"),
                    _ => Ok(Round::Done),
                }
            })
        },
    };

    static HOPELESS: Task = Task {
        name: "hopeless",
        description: "Always fails.",
        role: None,
        lease: None,
        wake: Wake::Every(Duration::from_millis(5)),
        run: |_| Box::pin(async { Err(Failure("no such table".into())) }),
    };

    #[tokio::test(flavor = "multi_thread")]
    async fn a_task_that_panics_goes_on_and_one_that_keeps_failing_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let config = crate::Config {
            data: folder.path().to_owned(),
            public_url: String::new(),
            network: Default::default(),
        };
        let shutdown = tokio_util::sync::CancellationToken::new();
        let server = Server::open(config, crate::Seams::system(), shutdown.clone()).unwrap();
        let (running, mut shown) = (server.clone(), Vec::new());
        let driving = tokio::spawn(async move { run(&running, [&FRAGILE, &HOPELESS]).await });
        let job = |name: &str| {
            let found = server.inner.jobs.list().into_iter().find(|(known, _)| *known == name);
            found.map(|(_, job)| job).unwrap_or_default()
        };
        let until = Instant::now() + Duration::from_secs(60);
        while (job("fragile").last_success_ms.is_none() || !job("hopeless").is_failing())
            && Instant::now() < until
        {
            shown.extend(job("fragile").error);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(shown.iter().all(|error| error == "it panicked: on purpose"), "{shown:?}");
        let fragile = job("fragile");
        assert_eq!((fragile.failures, fragile.failures_total, fragile.error), (0, 4, None));
        assert!(fragile.took.is_some() && server.inner.jobs.leading().contains_key("fragile"));
        let hopeless = job("hopeless");
        assert_eq!((hopeless.is_failing(), hopeless.error.as_deref()), (true, Some("no such table")));
        assert!(hopeless.next_run_ms.is_some() && hopeless.last_success_ms.is_none());
        shutdown.cancel();
        driving.await.unwrap();
    }
}
