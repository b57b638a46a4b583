//! Group commit over a [`Session`].
//!
//! The writer takes all jobs that wait, asks what they begin with, runs one after the other inside one transaction, commits once,
//! and only then answers. A job that fails is undone alone. There is one writer at a time in the whole platform, on both engines:
//! SQLite has one anyway, on PostgreSQL the transaction holds a lock (decision 0005). So a job sees what every earlier one did,
//! and numbers of facts are given in the order in which they become visible.

use std::collections::HashMap;
use std::sync::mpsc;

use tokio::sync::broadcast;

use crate::engine::{Committed, Touched};
use crate::services::Service;
use crate::session::{Access, Ahead, Ask, Session};
use crate::sql::Row;
use crate::touching::Spoilt;
use crate::{StoreError, Tx};

/// Bounds how long the first of a group waits for its answer.
const GROUP_MAX: usize = 256;

pub(crate) type Undo = Box<dyn FnOnce(StoreError) + Send>;
pub(crate) type Answer = Box<dyn FnOnce() + Send>;
/// Runs in the group's transaction; gives back how to answer after commit, and how if the commit fails.
pub(crate) type Work = Box<dyn FnOnce(&mut Tx<'_>) -> (bool, Answer, Undo) + Send>;

pub(crate) struct Job {
    pub(crate) service: Option<Service>,
    /// What the work asks first.
    pub(crate) asks: Vec<Ask>,
    pub(crate) work: Work,
    /// For a job that never ran because no transaction could be opened.
    pub(crate) refuse: Undo,
}

pub(crate) fn write_loop(
    session: &mut dyn Session,
    queue: &mpsc::Receiver<Job>,
    announce: &broadcast::Sender<Committed>,
) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        while group.len() < GROUP_MAX
            && let Ok(job) = queue.try_recv()
        {
            group.push(job);
        }
        run_group(session, group, announce);
    }
}

/// Answers to what each job of a group asks first.
type Known = Vec<Vec<(Ask, Vec<Row>)>>;

/// Asks for all jobs at once. A question that fails is left to the job that asks it, in a transaction that begins anew.
fn ask_ahead(session: &mut dyn Session, group: &mut [Job]) -> Result<Known, StoreError> {
    session.begin(Access::Write)?;
    if group.iter().all(|job| job.asks.is_empty()) {
        return Ok(Vec::new());
    }
    let asked: Vec<Ahead> =
        group.iter_mut().map(|job| (job.service, std::mem::take(&mut job.asks))).collect();
    match session.ahead(&asked) {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(found)) => {
            let of_job = |((_, asked), found): (Ahead, Vec<_>)| asked.into_iter().zip(found).collect();
            Ok(asked.into_iter().zip(found).map(of_job).collect())
        }
        Err(error @ StoreError::Unavailable { .. }) => Err(error),
        Err(_) => {
            session.rollback();
            session.begin(Access::Write).map(|()| Vec::new())
        }
    }
}

fn run_group(session: &mut dyn Session, mut group: Vec<Job>, announce: &broadcast::Sender<Committed>) {
    let known = match ask_ahead(session, &mut group) {
        Ok(known) => known,
        Err(error) => {
            tracing::error!(error = format!("{error}: {error:?}"), "Cannot open a transaction.");
            return group.into_iter().for_each(|job| (job.refuse)(error.again()));
        }
    };
    let mut spoilt = (!known.is_empty()).then(Spoilt::default);
    let mut known = known.into_iter();
    let mut committed = Committed::default();
    let mut touched = Touched::default();
    let mut answers = Vec::with_capacity(group.len());
    let (mut broken, mut culprit) = (None, None);
    let mut heads = HashMap::new();
    for job in group {
        let known = known.next().unwrap_or_default();
        // After the connection broke, nothing of this transaction will be.
        if let Some(error) = &broken {
            (job.refuse)(StoreError::again(error));
            continue;
        }
        if let Err(error) = session.start_job(job.service) {
            (job.refuse)(error.again());
            broken = Some(error);
            continue;
        }
        let mut tx = Tx::new(session);
        tx.heads = std::mem::take(&mut heads);
        tx.spoilt = spoilt.take();
        tx.know(known);
        let (keep, answer, undo) = (job.work)(&mut tx);
        if keep {
            heads = std::mem::take(&mut tx.heads);
        }
        // Also of a job that is undone: it may have asked again what it had changed.
        spoilt = tx.spoilt.take();
        let (changes, facts) = (std::mem::take(&mut tx.changes), tx.facts);
        let of_job = std::mem::take(&mut tx.touched);
        let ended = if keep { session.keep_job() } else { session.undo_job() };
        if let Err(error) = ended {
            broken = Some(error);
        }
        if let Some(found) = session.culprit() {
            culprit = Some(found);
            broken = Some(beside());
        }
        if keep {
            committed.facts |= facts;
            touched.add(of_job);
            for change in changes {
                if !committed.changes.contains(&change) {
                    committed.changes.push(change);
                }
            }
        }
        answers.push((answer, undo));
    }
    committed.touched = Some(touched);
    match broken.map_or_else(|| session.commit(&committed), Err) {
        Ok(mut failed) => {
            for (place, (answer, undo)) in answers.into_iter().enumerate() {
                match failed.iter().position(|(of, _)| *of == place) {
                    Some(found) => undo(failed.swap_remove(found).1),
                    None => answer(),
                }
            }
            if committed.is_news() {
                // Nobody listening is fine.
                let _ = announce.send(committed);
            }
        }
        Err(error) => {
            let mut culprit = culprit.or_else(|| session.culprit());
            session.rollback();
            tracing::error!(
                error = format!("{error}: {error:?}"),
                "A commit failed; all of its writes are refused."
            );
            let was_one = culprit.is_some();
            for (place, (_, undo)) in answers.into_iter().enumerate() {
                undo(match culprit.take_if(|(of, _)| *of == place) {
                    Some((_, its_own)) => its_own,
                    None if was_one => beside(),
                    None => error.again(),
                });
            }
        }
    }
}

/// For those whose writes went with one that failed.
fn beside() -> StoreError {
    StoreError::Unavailable { why: "another write of the same commit failed".into() }
}
