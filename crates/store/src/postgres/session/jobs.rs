//! What the jobs of a group changed, on its way to the server.
//!
//! A job that only sends says nothing by itself: what it changed is kept, and said before the next job asks something, or with the
//! commit. Should one of those fail then, what was kept is said again one job after the other, without the one that failed and
//! those that build on a row that it would have left.

use super::super::together::{Change, Statement, together};
use super::{Postgres, Savepoint, set_role};
use crate::StoreError;
use crate::services::Service;
use crate::session::Access;

/// A change of a job that is to stay.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) job: usize,
    pub(super) role: Option<Service>,
    pub(super) change: Change,
}

/// For those whose writes went with one that failed.
fn beside() -> StoreError {
    StoreError::Unavailable { why: "another write of the same commit failed".into() }
}

impl Postgres {
    /// The server comes to where the job that runs is: the beginning, what jobs before it changed, then its own savepoint, role
    /// and changes.
    pub(super) fn catch_up(&mut self) -> Result<(), StoreError> {
        self.say_beginning()?;
        if self.access == Access::Read {
            return Ok(());
        }
        self.settle()?;
        let (job, role, acting) = (self.job, self.role, self.acting);
        self.before_kept = false;
        self.spoke.insert(job);
        let savepoint = match self.savepoint {
            Savepoint::None => "SAVEPOINT job",
            Savepoint::Old => "RELEASE SAVEPOINT job; SAVEPOINT job",
            Savepoint::Mine(_) => "",
        };
        let wire = self.wire()?;
        wire.sending_for = job;
        if !savepoint.is_empty() {
            let act = if role == acting { String::new() } else { format!("; {}", set_role(role)) };
            wire.send_batch(format!("{savepoint}{act}"));
            (self.savepoint, self.acting) = (Savepoint::Mine(acting), role);
        }
        let unheard = std::mem::take(&mut self.unheard);
        self.say(unheard)
    }

    /// What jobs changed that are to stay, before somebody asks.
    fn settle(&mut self) -> Result<(), StoreError> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let kept = self.say_kept()?;
        let done = self.wire()?.flush().map(drop);
        self.settled(kept, done)
    }

    /// Says what is kept and gives it back.
    pub(super) fn say_kept(&mut self) -> Result<Vec<Kept>, StoreError> {
        let kept = std::mem::take(&mut self.kept);
        if !std::mem::replace(&mut self.before_kept, true) && !kept.is_empty() {
            self.wire()?.send_batch("SAVEPOINT kept".into());
        }
        let mut said: Vec<Kept> = Vec::with_capacity(kept.len());
        // Where the changes begin that are not said yet: of jobs with the same rights that asked the server nothing, together.
        let mut begin = 0;
        for of_job in kept.chunk_by(|one, other| one.job == other.job) {
            if self.builds_on_lost(of_job)? {
                continue;
            }
            let fits = |before: &Kept| before.role == of_job[0].role && !self.spoke.contains(&before.job);
            if self.spoke.contains(&of_job[0].job) || !said[begin..].last().is_none_or(fits) {
                self.say_of(&said[begin..])?;
                begin = said.len();
            }
            said.extend_from_slice(of_job);
        }
        self.say_of(&said[begin..])?;
        Ok(said)
    }

    /// Whether a job builds on a row that one left which is not to stay: then it is not to stay either.
    fn builds_on_lost(&mut self, of_job: &[Kept]) -> Result<bool, StoreError> {
        let job = of_job[0].job;
        let rows = || of_job.iter().filter_map(|kept| kept.change.row.as_ref());
        if !rows().any(|row| self.lost.contains(row)) {
            return Ok(false);
        }
        if self.spoke.contains(&job) {
            // A part of what it did is there already.
            self.culprit.get_or_insert((job, beside()));
            return Err(beside());
        }
        self.lost.extend(rows().cloned());
        self.failed.push((job, beside()));
        Ok(true)
    }

    /// Should one of several jobs fail, the first of them is said to have: they are said again one by one then.
    fn say_of(&mut self, of_jobs: &[Kept]) -> Result<(), StoreError> {
        let Some(&Kept { job, role, .. }) = of_jobs.first() else { return Ok(()) };
        let act = role != self.acting;
        let wire = self.wire()?;
        wire.sending_for = job;
        if act {
            wire.send_batch(set_role(role));
            self.acting = role;
        }
        self.say(of_jobs.iter().map(|kept| kept.change.clone()).collect())
    }

    /// After what was kept was said. Where one of those failed, the others are said again, each by itself: it is undone alone, with
    /// those that build on a row that it would have left.
    pub(super) fn settled(
        &mut self,
        kept: Vec<Kept>,
        done: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Err(error) = done else { return Ok(()) };
        let blamed = self.wire.as_mut().and_then(|wire| wire.failed_for.take());
        let Some(blamed) = blamed.filter(|blamed| *blamed != usize::MAX) else { return Err(error) };
        if self.spoke.contains(&blamed) {
            // A part of what it did is behind the savepoint.
            self.culprit.get_or_insert((blamed, error));
            return Err(beside());
        }
        self.again(kept)
    }

    fn again(&mut self, kept: Vec<Kept>) -> Result<(), StoreError> {
        // Roles go back too: to what, nobody knows any more.
        self.wire()?.forget();
        self.batch("ROLLBACK TO SAVEPOINT kept; SET LOCAL ROLE NONE".into())?;
        self.acting = None;
        for of_job in kept.chunk_by(|one, other| one.job == other.job) {
            if self.builds_on_lost(of_job)? {
                continue;
            }
            self.wire()?.send_batch("SAVEPOINT again".into());
            self.say_of(of_job)?;
            let Err(error) = self.wire()?.flush() else { continue };
            self.wire()?.failed_for = None;
            self.batch("ROLLBACK TO SAVEPOINT again; SET LOCAL ROLE NONE".into())?;
            self.acting = None;
            self.lost.extend(of_job.iter().filter_map(|kept| kept.change.row.clone()));
            self.failed.push((of_job[0].job, error));
        }
        Ok(())
    }

    fn say(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        for Statement { sql, values } in together(changes) {
            let wire = self.wire()?;
            let statement = wire.prepared(&sql, &values)?;
            wire.send(statement, values);
        }
        Ok(())
    }
}
