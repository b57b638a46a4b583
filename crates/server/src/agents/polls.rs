//! The calls of runners that are held until there is something for them.
//!
//! One task of the process hears every commit and wakes whom it concerns: a runner whose build was changed by somebody, and
//! as many runners as there are builds that may be taken now, which it finds out by one look for each account. So a thousand
//! runners that wait cost one look a commit, those of other accounts sleep on, and nobody who is woken writes in vain. A look also
//! finds out which pipelines are full: more builds of those are nobody's news until something else moves.
//!
//! A runner looks for itself when its call begins and whenever it was woken. What moved while it looked is not lost: it says
//! how much it has seen of the account's queue before it waits ([`Held::wait`]), and if that is not all, somebody looks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use slipway_model::{AccountId, ChangeKind, PipelineId};
use slipway_store::builds::{self, Build, Chooser, Limits};
use slipway_store::{Committed, Scope, StoreError, Tx};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;

use crate::background::driver::{Outcome, Round};
use crate::background::status;
use crate::ci::queue::{Allowed, Taking};
use crate::ctx::Server;
use crate::http::limits;

pub(crate) const NAME: &str = "waiting-runners";
/// An account whose queue moves all the time is looked at so often, and no more.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Default)]
pub(crate) struct Polls {
    accounts: Mutex<HashMap<AccountId, Account>>,
    /// Accounts that somebody has to look at.
    moved: Mutex<BTreeSet<AccountId>>,
    look: Notify,
    queue_looks: AtomicU64,
    looks: AtomicU64,
    writes: AtomicU64,
}

/// What held calls cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) held: usize,
    /// At an account's queue, for all runners that wait.
    pub(crate) queue_looks: u64,
    /// Of runners for themselves.
    pub(crate) looks: u64,
    pub(crate) writes: u64,
}

#[derive(Default)]
struct Account {
    held: BTreeMap<u64, Entry>,
    /// Runners that wait and have free places, those that came first first.
    free: BTreeSet<u64>,
    /// By the runner's name.
    named: HashMap<String, BTreeSet<u64>>,
    /// By the build that they run.
    running: HashMap<String, BTreeSet<u64>>,
    /// Those that make calls inside of their networks.
    errands: BTreeSet<u64>,
    /// Rises whenever a build may have become free.
    generation: u64,
    /// Pipelines of which nothing can start, however many builds of theirs arrive.
    full: HashSet<PipelineId>,
    /// Rises whenever one of them may not be full any more.
    emptied: u64,
    last: u64,
    /// A look is under way.
    looking: bool,
}

struct Entry {
    runner: String,
    running: Vec<String>,
    places: u32,
    /// Not given away by a look since it waits.
    left: u32,
    /// How much of the queue it has seen.
    seen: u64,
    /// It was told of a build and has not looked since.
    called: bool,
    /// The same of a call inside of its network.
    errand: bool,
    wake: Arc<Notify>,
}

impl Polls {
    /// A runner's call begins; it looks next.
    pub(crate) fn enter<'p>(
        &'p self,
        account: AccountId,
        runner: &str,
        places: u32,
        running: impl Iterator<Item = String>,
    ) -> Held<'p> {
        let mut accounts = self.accounts.lock().expect("not poisoned");
        let known = accounts.entry(account).or_default();
        known.last += 1;
        let (id, running, wake) = (known.last, running.collect::<Vec<_>>(), Arc::new(Notify::new()));
        for build in &running {
            known.running.entry(build.clone()).or_default().insert(id);
        }
        known.named.entry(runner.to_owned()).or_default().insert(id);
        let entry = Entry {
            runner: runner.to_owned(),
            running,
            places,
            left: places,
            seen: known.generation,
            called: false,
            errand: false,
            wake: wake.clone(),
        };
        known.held.insert(id, entry);
        Held { polls: self, account, id, wake }
    }

    pub(crate) fn cost(&self) -> Cost {
        let held = self.accounts.lock().expect("not poisoned").values().map(|known| known.held.len()).sum();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Cost {
            held,
            queue_looks: count(&self.queue_looks),
            looks: count(&self.looks),
            writes: count(&self.writes),
        }
    }

    /// Wakes whom a commit concerns, or has somebody look.
    fn heard(&self, commit: &Committed) {
        let mut accounts = self.accounts.lock().expect("not poisoned");
        for change in commit.changes.iter().filter(|change| change.kind == ChangeKind::Build) {
            let Some(known) = change.account.and_then(|account| accounts.get(&account)) else { continue };
            known.wake_runners_of(&change.id);
        }
        for (&account, known) in accounts.iter_mut() {
            if commit.missed {
                // Which builds were changed was not heard.
                known.running.keys().for_each(|build| known.wake_runners_of(build));
            }
            if commit.moved_errands(account) {
                known.wake_one_for_errands();
            }
            if commit.moved_queue(account) && known.is_news(commit.only_arrived(account)) {
                known.generation += 1;
                if !known.free.is_empty() {
                    self.somebody_looks(account);
                }
            }
        }
    }

    /// Some commits were not heard: anything may have happened.
    fn heard_not(&self) {
        self.heard(&Committed { facts: true, missed: true, ..Committed::default() });
    }

    fn somebody_looks(&self, account: AccountId) {
        self.moved.lock().expect("not poisoned").insert(account);
        self.look.notify_one();
    }

    fn is_free(&self, account: AccountId, runner: Option<&str>) -> bool {
        let accounts = self.accounts.lock().expect("not poisoned");
        accounts.get(&account).is_some_and(|known| known.free_one(runner).is_some())
    }

    /// Tells a runner of a build that it may take. `false`: there is nobody left to tell of another.
    fn call(&self, account: AccountId, runner: Option<&str>) -> bool {
        let mut accounts = self.accounts.lock().expect("not poisoned");
        let Some(known) = accounts.get_mut(&account) else { return false };
        if let Some(id) = known.free_one(runner)
            && let Some(entry) = known.held.get_mut(&id)
        {
            entry.left -= 1;
            entry.called = true;
            entry.wake.notify_one();
            if entry.left == 0 {
                known.free.remove(&id);
            }
        }
        !known.free.is_empty()
    }

    /// How often pipelines of the account were emptied before a look.
    fn emptied(&self, account: AccountId) -> u64 {
        let accounts = self.accounts.lock().expect("not poisoned");
        accounts.get(&account).map_or(0, |known| known.emptied)
    }

    /// What a look found, unless it is not known to be true any more.
    fn are_full(&self, account: AccountId, full: HashSet<PipelineId>, emptied: u64) {
        let mut accounts = self.accounts.lock().expect("not poisoned");
        if let Some(known) = accounts.get_mut(&account).filter(|known| known.emptied == emptied) {
            known.full.extend(full);
        }
    }

    /// Whether the caller is the one who looks at the account now. While somebody does, it stays noted for them.
    fn begin_look(&self, account: AccountId) -> bool {
        let mut accounts = self.accounts.lock().expect("not poisoned");
        let known = accounts.get_mut(&account);
        if known.as_ref().is_some_and(|known| known.looking) {
            return false;
        }
        self.moved.lock().expect("not poisoned").remove(&account);
        let wanted = known.filter(|known| !known.free.is_empty());
        wanted.map(|known| known.looking = true).is_some()
    }

    /// Whether somebody has to look again because the queue has moved. If not, the look is over.
    fn end_look(&self, account: AccountId) -> bool {
        let mut accounts = self.accounts.lock().expect("not poisoned");
        let again = self.moved.lock().expect("not poisoned").remove(&account);
        let Some(known) = accounts.get_mut(&account) else { return false };
        known.looking = again && !known.free.is_empty();
        let goes_on = known.looking;
        if known.held.is_empty() {
            accounts.remove(&account);
        }
        goes_on
    }
}

impl Account {
    /// Whether somebody may take more than before. `arrived`: nothing moved but that these pipelines have more builds.
    fn is_news(&mut self, arrived: Option<&[PipelineId]>) -> bool {
        match arrived {
            Some(pipelines) => !pipelines.iter().all(|pipeline| self.full.contains(pipeline)),
            None => {
                self.full.clear();
                self.emptied += 1;
                true
            }
        }
    }

    fn wake_runners_of(&self, build: &str) {
        for id in self.running.get(build).into_iter().flatten() {
            if let Some(entry) = self.held.get(id) {
                entry.wake.notify_one();
            }
        }
    }

    /// Whoever waits longest; it takes what there is, and comes back for more.
    fn wake_one_for_errands(&mut self) {
        let one = self.errands.first().and_then(|id| self.held.get_mut(id));
        if let Some(entry) = one {
            entry.errand = true;
            entry.wake.notify_one();
        }
    }

    fn free_one(&self, runner: Option<&str>) -> Option<u64> {
        match runner {
            None => self.free.first().copied(),
            Some(name) => self.named.get(name)?.iter().find(|id| self.free.contains(id)).copied(),
        }
    }

    fn leave(&mut self, id: u64) -> Option<Entry> {
        let entry = self.held.remove(&id)?;
        self.free.remove(&id);
        self.errands.remove(&id);
        forget(&mut self.named, &entry.runner, id);
        for build in &entry.running {
            forget(&mut self.running, build, id);
        }
        Some(entry)
    }
}

fn forget(known: &mut HashMap<String, BTreeSet<u64>>, key: &str, id: u64) {
    if let Some(ids) = known.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            known.remove(key);
        }
    }
}

/// One call that is held; gone when it is answered or when nobody waits for the answer any more.
pub(crate) struct Held<'p> {
    polls: &'p Polls,
    account: AccountId,
    id: u64,
    wake: Arc<Notify>,
}

impl Held<'_> {
    /// It is woken for calls inside of its network too.
    pub(crate) fn with_errands(self) -> Self {
        if let Some(known) = self.polls.accounts.lock().expect("not poisoned").get_mut(&self.account) {
            known.errands.insert(self.id);
        }
        self
    }

    /// From here on the runner looks: what moves from now on it may not see.
    pub(crate) fn looks(&self) {
        let mut accounts = self.polls.accounts.lock().expect("not poisoned");
        let Some(known) = accounts.get_mut(&self.account) else { return };
        known.free.remove(&self.id);
        if let Some(entry) = known.held.get_mut(&self.id) {
            (entry.seen, entry.left, entry.errand) = (known.generation, entry.places, false);
        }
    }

    /// It has looked, and written if there was something.
    pub(crate) fn looked(&self, wrote: bool) {
        let counter = if wrote { &self.polls.writes } else { &self.polls.looks };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut accounts = self.polls.accounts.lock().expect("not poisoned");
        let entry = accounts.get_mut(&self.account).and_then(|known| known.held.get_mut(&self.id));
        if let Some(entry) = entry {
            entry.called = false;
        }
    }

    /// Until there may be something for this runner. `false`: time is up or the server stops.
    pub(crate) async fn wait(&self, server: &Server, until: Instant) -> bool {
        self.is_free();
        tokio::select! {
            () = server.inner.shutdown.cancelled() => false,
            () = tokio::time::sleep_until(until.into()) => false,
            () = self.wake.notified() => true,
        }
    }

    fn is_free(&self) {
        let mut accounts = self.polls.accounts.lock().expect("not poisoned");
        let Some(known) = accounts.get_mut(&self.account) else { return };
        let Some(entry) = known.held.get(&self.id).filter(|entry| entry.places > 0) else { return };
        known.free.insert(self.id);
        if entry.seen != known.generation {
            self.polls.somebody_looks(self.account);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut accounts = self.polls.accounts.lock().expect("not poisoned");
        let Some(known) = accounts.get_mut(&self.account) else { return };
        let (called, errand) =
            known.leave(self.id).map_or((false, false), |entry| (entry.called, entry.errand));
        // Somebody else takes what it was told of.
        if called && !known.free.is_empty() {
            self.polls.somebody_looks(self.account);
        }
        if errand {
            known.wake_one_for_errands();
        }
        if known.held.is_empty() && !known.looking {
            accounts.remove(&self.account);
        }
    }
}

/// Until shutdown.
pub(crate) async fn run(server: &Server) -> Outcome {
    let (mut commits, polls) = (server.store().subscribe(), &server.inner.polls);
    loop {
        tokio::select! {
            () = server.inner.shutdown.cancelled() => return Ok(Round::Done),
            heard = commits.recv() => match heard {
                Ok(commit) => polls.heard(&commit),
                Err(RecvError::Lagged(_)) => polls.heard_not(),
                Err(RecvError::Closed) => return Ok(Round::Done),
            },
            () = polls.look.notified() => {
                let moved = polls.moved.lock().expect("not poisoned").clone();
                for account in moved {
                    if polls.begin_look(account) {
                        tokio::spawn(keep_looking(server.clone(), account));
                    }
                }
            }
        }
    }
}

/// Looks, and again for as long as the queue moves meanwhile.
async fn keep_looking(server: Server, account: AccountId) {
    loop {
        let inner = server.clone();
        let emptied = inner.inner.polls.emptied(account);
        let looked = server.store().read(move |tx| look(&inner, tx, account, emptied)).await;
        status::ran(&server, NAME, looked);
        tokio::time::sleep(LOOK_EVERY).await;
        if !server.inner.polls.end_look(account) {
            return;
        }
    }
}

/// Tells as many runners that wait as there are builds which they may take.
fn look(server: &Server, tx: &mut Tx<'_>, account: AccountId, emptied: u64) -> Result<(), StoreError> {
    let (scope, now_ms) = (Scope::of(account), server.now_ms());
    server.inner.polls.queue_looks.fetch_add(1, Ordering::Relaxed);
    let left = limits::free_builds(tx, scope, now_ms)?;
    if left == 0 {
        return Ok(());
    }
    let polls = &server.inner.polls;
    let is_free = |runner: &str| polls.is_free(account, Some(runner));
    let allowed = Allowed::load(tx, scope, Taking::Waiting(&is_free))?;
    let mut calling = Calling { polls, scope, allowed, left, full: HashSet::new() };
    builds::choose(tx, scope, now_ms, &mut calling)?;
    polls.are_full(account, calling.full, emptied);
    Ok(())
}

struct Calling<'a> {
    polls: &'a Polls,
    scope: Scope,
    allowed: Allowed<'a>,
    left: i64,
    full: HashSet<PipelineId>,
}

impl Chooser for Calling<'_> {
    fn limits(&mut self, tx: &mut Tx<'_>, build: &Build) -> Result<Limits, StoreError> {
        self.allowed.of(tx, self.scope, build)
    }

    fn full(&mut self, pipeline: PipelineId) {
        self.full.insert(pipeline);
    }

    fn chose(&mut self, _: &mut Tx<'_>, build: Build) -> Result<bool, StoreError> {
        self.left -= 1;
        let more = self.polls.call(self.scope.account(), self.allowed.runtime_of(&build));
        Ok(more && self.left > 0)
    }
}

#[cfg(test)]
mod tests {
    use slipway_model::Change;
    use slipway_store::Touched;

    use super::*;

    fn account(number: u64) -> AccountId {
        AccountId::from_parts(number, [0; 5])
    }

    fn moved(account: AccountId) -> Committed {
        let touched = Some(Touched { queues: vec![account], ..Touched::default() });
        Committed { facts: true, touched, ..Committed::default() }
    }

    fn marked(polls: &Polls) -> Vec<AccountId> {
        polls.moved.lock().unwrap().iter().copied().collect()
    }

    async fn woken(held: &Held<'_>) -> bool {
        tokio::time::timeout(Duration::ZERO, held.wake.notified()).await.is_ok()
    }

    /// In the state in which [`Held::wait`] waits.
    fn waits(held: &Held<'_>) {
        held.looks();
        held.looked(false);
        held.is_free();
    }

    #[tokio::test]
    async fn a_commit_of_another_account_wakes_nobody_and_one_of_a_build_wakes_its_runner() {
        let polls = Polls::default();
        let idle = polls.enter(account(1), "idle", 1, std::iter::empty());
        let busy = polls.enter(account(1), "busy", 0, std::iter::once("b1".to_owned()));
        waits(&idle);
        waits(&busy);
        polls.heard(&moved(account(2)));
        let change = |owner: u64, kind: ChangeKind, id: &str| Committed {
            changes: vec![Change { account: Some(account(owner)), kind, id: id.into() }],
            touched: Some(Touched::default()),
            ..Committed::default()
        };
        polls.heard(&change(1, ChangeKind::Build, "b2"));
        polls.heard(&change(2, ChangeKind::Build, "b1"));
        polls.heard(&change(1, ChangeKind::Log, "b1"));
        assert_eq!((marked(&polls), woken(&idle).await, woken(&busy).await), (vec![], false, false));
        polls.heard(&change(1, ChangeKind::Build, "b1"));
        assert_eq!((marked(&polls), woken(&idle).await, woken(&busy).await), (vec![], false, true));
        polls.heard(&moved(account(1)));
        assert_eq!((marked(&polls), woken(&idle).await), (vec![account(1)], false), "somebody looks first");
        polls.heard_not();
        assert!(woken(&busy).await, "what was not heard may have been about its build");
        let asked = polls.enter(account(1), "asked", 0, std::iter::empty()).with_errands();
        let second = polls.enter(account(1), "second", 0, std::iter::empty()).with_errands();
        let errand = |owner: u64| Committed {
            touched: Some(Touched { errands: vec![account(owner)], ..Touched::default() }),
            ..Committed::default()
        };
        polls.heard(&errand(2));
        assert!(!woken(&asked).await);
        polls.heard(&errand(1));
        assert_eq!((woken(&asked).await, woken(&second).await, woken(&idle).await), (true, false, false));
        drop(asked);
        assert!(woken(&second).await, "another one is told of what the first did not look at any more");
        second.looks();
        let third = polls.enter(account(1), "third", 0, std::iter::empty()).with_errands();
        drop(second);
        assert!(!woken(&third).await, "the second has looked");
        polls.heard(&errand(1));
        assert!(woken(&third).await, "another one is asked when the first has gone");
    }

    #[tokio::test]
    async fn as_many_are_told_as_have_places_and_a_name_calls_its_runner() {
        let polls = Polls::default();
        let one = polls.enter(account(1), "one", 2, std::iter::empty());
        let two = polls.enter(account(1), "two", 1, std::iter::empty());
        waits(&one);
        waits(&two);
        assert!(polls.begin_look(account(1)) && !polls.begin_look(account(1)), "one looks at a time");
        assert!(polls.is_free(account(1), Some("two")) && !polls.is_free(account(1), Some("three")));
        assert!(polls.call(account(1), Some("two")));
        assert!(!polls.is_free(account(1), Some("two")));
        assert!(polls.call(account(1), None), "one has a second place");
        assert!(!polls.call(account(1), None));
        assert!(woken(&one).await && woken(&two).await);
        assert!(!polls.end_look(account(1)), "nothing moved meanwhile");
    }

    #[tokio::test]
    async fn more_builds_of_a_full_pipeline_are_no_news_until_something_else_moves() {
        let polls = Polls::default();
        let pipeline = |number: u64| PipelineId::from_parts(number, [0; 5]);
        let arrived = |numbers: &[u64]| Committed {
            facts: true,
            touched: Some(Touched {
                queues: vec![account(1)],
                arrived: vec![(account(1), numbers.iter().map(|&number| pipeline(number)).collect())],
                ..Touched::default()
            }),
            ..Committed::default()
        };
        let idle = polls.enter(account(1), "idle", 1, std::iter::empty());
        waits(&idle);
        let looks = |commit: &Committed| {
            polls.heard(commit);
            let marked = marked(&polls) == [account(1)];
            polls.moved.lock().unwrap().clear();
            marked
        };
        assert!(looks(&arrived(&[7])), "nobody has looked at it");
        polls.are_full(account(1), HashSet::from([pipeline(7)]), polls.emptied(account(1)));
        assert!(!looks(&arrived(&[7])));
        assert!(looks(&arrived(&[7, 8])), "the other one may have room");
        assert!(!looks(&arrived(&[7])), "that says nothing of this one");
        let before = polls.emptied(account(1));
        assert!(looks(&moved(account(1))), "something may have ended");
        polls.are_full(account(1), HashSet::from([pipeline(7)]), before);
        assert!(looks(&arrived(&[7])), "the look began before that");
        polls.are_full(account(1), HashSet::from([pipeline(7)]), polls.emptied(account(1)));
        polls.heard_not();
        polls.moved.lock().unwrap().clear();
        assert!(looks(&arrived(&[7])), "anything may have happened");
    }

    #[tokio::test]
    async fn what_moves_while_a_runner_looks_or_dies_with_it_is_looked_at_again() {
        let polls = Polls::default();
        let one = polls.enter(account(1), "one", 1, std::iter::empty());
        one.looks();
        polls.heard(&moved(account(1)));
        assert_eq!(marked(&polls), [], "nobody waits");
        one.looked(false);
        one.is_free();
        assert_eq!(marked(&polls), [account(1)], "it may not have seen it");

        let two = polls.enter(account(1), "two", 1, std::iter::empty());
        waits(&two);
        assert!(polls.begin_look(account(1)));
        assert!(polls.call(account(1), None));
        drop(one);
        assert!(polls.end_look(account(1)), "it was told of a build and has gone");
        drop(two);
        assert!(!polls.end_look(account(1)));
        assert!(
            polls.accounts.lock().unwrap().is_empty(),
            "nothing is kept of accounts in which nobody waits"
        );
    }
}
