//! One attempt as a pod: make it once, keep its log, enforce its end, say how it ended.
//!
//! In: a pod and its secret, complete. Out: the same files as for every other attempt. The pod's name is the
//! attempt's, so the cluster itself refuses to make it twice, and whoever comes after this process finds it.
//! What another runner has left of the same build is removed first: it has lost the build, and may not know.
//! A step that can writes its output into a file of the runner's storage; of the others the node's log is read.

mod follow;
mod judge;
mod services;
mod tail;

use std::io;
use std::time::{Duration, Instant};

use futures::AsyncReadExt;
use serde_json::Value;
use slipway_cluster::{ClusterError, PodKind, Pods};
use slipway_model::{Backoff, Next};

use super::exports;
use super::supervise::Supervisor;
use crate::task::{Exit, How, PodWork};
use follow::{Cursor, Reader};
use judge::{Seen, judge};
use tail::Tail;

/// How soon a cancellation is noticed.
const TICK: Duration = Duration::from_millis(50);
/// A pod that starts is looked at often, then less.
const LOOK_LEAST: Duration = Duration::from_millis(30);
const LOOK_MOST: Duration = Duration::from_millis(500);
/// An image out of reach, a secret that is not there yet.
const STUCK_PATIENCE: Duration = Duration::from_secs(60);
/// A cluster that does not take the pod.
const CREATE_PATIENCE: Duration = Duration::from_secs(300);
/// After the grace period: a node that does not confirm is not waited for longer.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// A cluster that does not take the pod away.
const TIDY_PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(supervisor: &mut Supervisor, work: &PodWork, adopting: bool) -> io::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let pods = Pods::connect(&work.cluster).await.map_err(io::Error::other)?;
        let mut attempt = Attempt::new(supervisor, work, pods)?;
        // Whatever went wrong, the pod may be there.
        let exit = attempt.whole(adopting).await.unwrap_or_else(|error| {
            Exit::new(How::Interrupted, None, Some(format!("the step could not be followed: {error}")))
        });
        attempt.supervisor.settle(&exit)?;
        attempt.tidy(exit).await
    })
}

/// Of an attempt whose end is known and whose supervisor was killed before its pod was removed.
pub(super) fn tidy(supervisor: &mut Supervisor, work: &PodWork, exit: Exit) -> io::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let pods = Pods::connect(&work.cluster).await.map_err(io::Error::other)?;
        Attempt::new(supervisor, work, pods)?.tidy(exit).await
    })
}

struct Attempt<'a> {
    supervisor: &'a mut Supervisor,
    work: &'a PodWork,
    pods: Pods,
    cursor: Cursor,
    tail: Option<Tail>,
    /// Bytes of the pod's log that an earlier supervisor has written and not written down.
    ahead: u64,
    stopping: Option<Stopping>,
    /// What was said last about why it does not start, so that it is said once.
    said: String,
}

struct Stopping {
    how: How,
    kill_at: Instant,
    give_up_at: Instant,
}

impl<'a> Attempt<'a> {
    fn new(supervisor: &'a mut Supervisor, work: &'a PodWork, pods: Pods) -> io::Result<Self> {
        let cursor = Cursor::load(&supervisor.dir.pod_cursor())?;
        let ahead = cursor.ahead(supervisor.output.length());
        let tail = Tail::open(&supervisor.dir.pod_log(), cursor.tail(), ahead)?;
        let ahead = if tail.is_some() { 0 } else { ahead };
        Ok(Self { supervisor, work, pods, cursor, tail, ahead, stopping: None, said: String::new() })
    }

    /// To its end, with everything that it gave back.
    async fn whole(&mut self, adopting: bool) -> io::Result<Exit> {
        let mut exit = self.drive(adopting).await?;
        self.rest_of_tail()?;
        if exit.is_success() {
            exit.members = self.work.members.read();
        }
        exit.exports = exports::take(&self.supervisor.task.volume);
        self.supervisor.save_caches(&exit)?;
        Ok(exit)
    }

    async fn drive(&mut self, adopting: bool) -> io::Result<Exit> {
        // Lines of the runner are not of the pod's log: the cursor starts after them.
        if !adopting {
            self.mark(0)?;
            self.ahead = 0;
            if let Some(tail) = &mut self.tail {
                tail.nothing_ahead();
            }
            if let Some(exit) = self.make().await? {
                return Ok(exit);
            }
        }
        let mut look = LOOK_LEAST;
        let mut stuck_since: Option<Instant> = None;
        let mut silent = false;
        loop {
            self.obey().await;
            if self.stopping.as_ref().is_some_and(|stopping| Instant::now() >= stopping.give_up_at) {
                return Ok(self.stopped("; the cluster has not confirmed that its pod is gone"));
            }
            let pod = match self.pods.get(PodKind::Pod, &self.work.name).await {
                Ok(Some(pod)) => pod,
                Ok(None) if self.stopping.is_some() => return Ok(self.stopped("")),
                Ok(None) => return Ok(interrupted("its pod was deleted, or never made")),
                Err(error) => {
                    if !std::mem::replace(&mut silent, true) {
                        self.say(&format!("slipway: {error}; the step goes on, and is looked for again"))?;
                    }
                    tokio::time::sleep(LOOK_MOST).await;
                    continue;
                }
            };
            silent = false;
            match judge(&pod, CONTAINER) {
                Seen::Running => {
                    stuck_since = None;
                    self.follow(true).await?;
                    look = LOOK_LEAST;
                }
                Seen::Ended { code, message } => {
                    // The last lines: whatever the connection before may have missed.
                    self.drain().await?;
                    if self.stopping.is_none() && !services::all_ended(&pod, &self.work.also) {
                        self.say_once("slipway: waiting for the other candidates")?;
                        tokio::time::sleep(LOOK_MOST).await;
                        continue;
                    }
                    let (code, message) = self.others(&pod, code, message).await?;
                    return Ok(self.ended(code, message));
                }
                Seen::Unprepared { container, code } => {
                    self.copy(&container).await?;
                    let why = format!("the step did not begin: its {container} ended with exit code {code}");
                    return Ok(Exit::new(How::Exited, Some(code), Some(why)));
                }
                Seen::TimedOut => {
                    self.drain().await?;
                    return Ok(self.timed_out());
                }
                Seen::Taken { why } if self.stopping.is_none() => return Ok(interrupted(&why)),
                Seen::Taken { .. } => return Ok(self.stopped("")),
                Seen::Stuck { why, patient } => {
                    let since = *stuck_since.get_or_insert_with(Instant::now);
                    if self.stopping.is_none() && (!patient || since.elapsed() > STUCK_PATIENCE) {
                        return Ok(Exit::new(How::NotStarted, None, Some(why)));
                    }
                    self.say_once(&format!("slipway: {why}. Waiting a little"))?;
                }
                Seen::Waiting { note } => {
                    stuck_since = None;
                    if let Some(note) = note {
                        self.say_once(&note)?;
                    }
                }
            }
            tokio::time::sleep(look).await;
            look = (look * 3 / 2).min(LOOK_MOST);
        }
    }

    /// Makes the pod, or says why it cannot be made.
    async fn make(&mut self) -> io::Result<Option<Exit>> {
        let until = Instant::now() + CREATE_PATIENCE;
        loop {
            let error = match self.try_make().await {
                Ok(None) => return Ok(None),
                Ok(Some(exit)) => return Ok(Some(exit)),
                Err(error) => error,
            };
            if self.supervisor.dir.cancel().exists() {
                return Ok(Some(Exit::new(How::Cancelled, None, Some("the step was stopped".to_owned()))));
            }
            let quota = error.to_string().contains("exceeded quota");
            if (error.next() == Next::NeedsHuman && !quota) || Instant::now() > until {
                let why = format!("Kubernetes did not take the step's pod: {error}");
                return Ok(Some(Exit::new(How::NotStarted, None, Some(why))));
            }
            self.say_once(&format!("slipway: {error}; trying again"))?;
            tokio::time::sleep(LOOK_MOST * 2).await;
        }
    }

    async fn try_make(&mut self) -> Result<Option<Exit>, ClusterError> {
        self.fence().await?;
        if let Some(pull) = &self.work.pull {
            made(self.pods.create(PodKind::Secret, pull).await)?;
        }
        if let Some(services) = &self.work.services
            && let Some(exit) = self.serve(services).await?
        {
            return Ok(Some(exit));
        }
        if let Some(secret) = &self.work.secret {
            made(self.pods.create(PodKind::Secret, secret).await)?;
        }
        made(self.pods.create(PodKind::Pod, &self.work.pod).await)?;
        Ok(None)
    }

    /// Pods of this build that belong to another runner: it lost the build, and they must not go on beside ours.
    async fn fence(&self) -> Result<(), ClusterError> {
        loop {
            let others = self.pods.list(PodKind::Pod, &self.work.others).await?;
            if others.is_empty() {
                // Nobody comes back for its variables either.
                for secret in self.pods.list(PodKind::Secret, &self.work.others).await? {
                    let name = secret["metadata"]["name"].as_str().unwrap_or_default();
                    self.pods.delete(PodKind::Secret, name, None).await?;
                }
                return Ok(());
            }
            for other in &others {
                let name = other["metadata"]["name"].as_str().unwrap_or_default();
                self.pods.delete(PodKind::Pod, name, Some(1)).await?;
            }
            tokio::time::sleep(LOOK_MOST).await;
        }
    }

    /// Copies the log until the connection ends or the step is to stop.
    async fn follow(&mut self, follow: bool) -> io::Result<bool> {
        let since = self.cursor.since();
        let opened = self.pods.log(&self.work.name, CONTAINER, since.as_deref(), follow).await;
        let Ok(mut stream) = opened else { return Ok(false) };
        let mut reader = Reader::new(std::mem::take(&mut self.cursor), self.ahead);
        let (mut buffer, mut out) = (vec![0; 1 << 16], Vec::new());
        let clean = loop {
            let read = tokio::select! {
                read = stream.read(&mut buffer) => read,
                () = tokio::time::sleep(TICK), if follow => {
                    self.copy_tail(reader.cursor())?;
                    if self.stopping.is_none() && self.wanted().is_some() {
                        break false;
                    }
                    if self.stopping.as_ref().is_some_and(|stopping| Instant::now() >= stopping.kill_at) {
                        break false;
                    }
                    continue;
                }
            };
            match read {
                Ok(0) => break true,
                Ok(count) => {
                    out.clear();
                    reader.feed(&buffer[..count], &mut out);
                    if out.is_empty() {
                        continue;
                    }
                    let path = self.supervisor.dir.pod_cursor();
                    if self.tail.is_some() {
                        // Bytes that are not written down are taken for the file's: these never are.
                        let length = self.supervisor.output.length().saturating_add(out.len() as u64);
                        reader.cursor().save(&path, length)?;
                        self.supervisor.output.write(&out)?;
                    } else {
                        self.supervisor.output.write(&out)?;
                        reader.cursor().save(&path, self.supervisor.output.length())?;
                    }
                }
                Err(_) => break false,
            }
        };
        (self.cursor, self.ahead) = reader.into_parts();
        Ok(clean)
    }

    /// What the step has written into its file since the last look.
    fn copy_tail(&mut self, cursor: &mut Cursor) -> io::Result<bool> {
        let Some(tail) = &mut self.tail else { return Ok(false) };
        let (output, path) = (&mut self.supervisor.output, self.supervisor.dir.pod_cursor());
        let more = tail.read(|bytes, at| {
            output.write(bytes)?;
            cursor.tail_is_at(at);
            cursor.save(&path, output.length())
        })?;
        if more && output.is_full() {
            tail.discard()?;
        }
        Ok(more)
    }

    /// After the pod's end nothing more comes.
    fn rest_of_tail(&mut self) -> io::Result<()> {
        let mut cursor = std::mem::take(&mut self.cursor);
        while self.copy_tail(&mut cursor)? {}
        self.cursor = cursor;
        Ok(())
    }

    /// The whole log of a container that has ended, with its name before each line.
    async fn copy(&mut self, container: &str) -> io::Result<()> {
        let work = self.work;
        self.copy_of(&work.name, container).await
    }

    async fn copy_of(&mut self, pod: &str, container: &str) -> io::Result<()> {
        let Ok(mut stream) = self.pods.log(pod, container, None, false).await else {
            return Ok(());
        };
        let mut raw = Vec::new();
        let _ = stream.read_to_end(&mut raw).await;
        let mut text = Vec::new();
        Reader::new(Cursor::default(), 0).feed(&raw, &mut text);
        for line in String::from_utf8_lossy(&text).lines() {
            self.say(&format!("{container}: {line}"))?;
        }
        Ok(())
    }

    /// Everything that the node still has. Not for ever: a node that is away keeps it.
    async fn drain(&mut self) -> io::Result<()> {
        let until = Instant::now() + STUCK_PATIENCE;
        while !self.follow(false).await? {
            if Instant::now() > until {
                return self.say("slipway: the end of the log could not be read from the node");
            }
            tokio::time::sleep(LOOK_MOST).await;
        }
        Ok(())
    }

    /// Why it should stop, if it should.
    fn wanted(&mut self) -> Option<How> {
        self.supervisor.wanted()
    }

    /// Asks the cluster to end the pod, politely and then not.
    async fn obey(&mut self) {
        let grace = Duration::from_millis(self.supervisor.task.grace_ms);
        if self.stopping.is_none()
            && let Some(how) = self.wanted()
        {
            let kill_at = Instant::now() + grace + Duration::from_secs(2);
            self.stopping = Some(Stopping { how, kill_at, give_up_at: kill_at + STOP_PATIENCE });
            let seconds = u32::try_from(grace.as_secs()).unwrap_or(5);
            let _ = self.pods.delete(PodKind::Pod, &self.work.name, Some(seconds)).await;
        }
        if let Some(stopping) = &mut self.stopping
            && Instant::now() >= stopping.kill_at
        {
            stopping.kill_at = Instant::now() + Duration::from_secs(5);
            let _ = self.pods.delete(PodKind::Pod, &self.work.name, Some(0)).await;
        }
    }

    fn ended(&self, code: i32, message: Option<String>) -> Exit {
        match &self.stopping {
            // It was asked to stop and did: the code is that of the signal.
            Some(_) => Exit { code: Some(code), ..self.stopped("") },
            None => Exit::new(How::Exited, Some(code), message),
        }
    }

    fn stopped(&self, more: &str) -> Exit {
        match self.stopping.as_ref().map(|stopping| stopping.how) {
            Some(How::TimedOut) => self.timed_out(),
            Some(How::Interrupted) => interrupted("the server was not heard for too long"),
            _ => Exit::new(How::Cancelled, None, Some(format!("the step was stopped{more}"))),
        }
    }

    fn timed_out(&self) -> Exit {
        let seconds = self.supervisor.task.timeout_ms.unwrap_or(0).div_ceil(1000);
        let why = format!("the step ran longer than its timeout of {seconds} s and was stopped");
        Exit::new(How::TimedOut, None, Some(why))
    }

    /// The cluster forgets the attempt. What stays is said in the step's log; the runner's sweep finds it by its labels.
    async fn tidy(&mut self, mut exit: Exit) -> io::Result<Exit> {
        let until = Instant::now() + TIDY_PATIENCE;
        let mut backoff = Backoff::new(LOOK_LEAST, LOOK_MOST);
        while let Err(why) = self.delete().await {
            if Instant::now() > until {
                self.supervisor.left_behind(&mut exit, &why.to_string())?;
                break;
            }
            tokio::time::sleep(backoff.failed()).await;
        }
        Ok(exit)
    }

    async fn delete(&self) -> Result<(), ClusterError> {
        self.pods.delete(PodKind::Pod, &self.work.name, Some(0)).await?;
        if self.work.secret.is_some() {
            self.pods.delete(PodKind::Secret, &self.work.name, None).await?;
        }
        Ok(())
    }

    /// Notes that the output will be this much longer with bytes that are not the pod's.
    fn mark(&mut self, more: u64) -> io::Result<()> {
        let length = self.supervisor.output.length().saturating_add(more);
        self.cursor.save(&self.supervisor.dir.pod_cursor(), length)
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        self.mark(line.len() as u64 + 1)?;
        self.supervisor.output.line(line)
    }

    fn say_once(&mut self, line: &str) -> io::Result<()> {
        if self.said == line {
            return Ok(());
        }
        line.clone_into(&mut self.said);
        self.say(line)
    }
}

/// The container whose end is the step's.
pub(crate) const CONTAINER: &str = "step";

pub(crate) fn made(answer: Result<Value, ClusterError>) -> Result<(), ClusterError> {
    match answer {
        // An earlier try of ours got through, and its answer did not.
        Err(error) if error.already_exists() => Ok(()),
        answer => answer.map(drop),
    }
}

fn interrupted(why: &str) -> Exit {
    Exit::new(How::Interrupted, None, Some(why.to_owned()))
}
