//! Steps that stand at a breakpoint: before they begin, instead of their commands, or after their end.
//!
//! In: breakpoints of the pipeline's text, of the run and of people who set them later; what people ask for meanwhile.
//! Out: a step that waits, a shell in it, and the step going on. A pause is in the journal, so a killed runner comes
//! back to it; it ends by itself when its time is up. The planner sees a step that runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slipway_api::build::BuildStep;
use slipway_api::debug::{DebugOrder, Paused, Phases};
use slipway_pipeline::spec::{Freestyle, WorkingDirectory};
use slipway_pipeline::{StepKind, StepSpec, StepStatus};
use tokio_util::sync::CancellationToken;

use super::Build;
use crate::journal::{Pause, Phase, log_of};
use crate::layout::{AttemptDir, Lasting, now_ms, read_if_whole, write_json};
use crate::shell::{Prepared, Shell, folder, shell_of};
use crate::task::{Exit, How, Task};

/// For steps that have no image of their own.
const PLAIN_IMAGE: &str = "alpine:3";

/// A shell that is open now.
pub(super) struct Open {
    step: String,
    by: String,
    cancel: CancellationToken,
    over: Arc<AtomicBool>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Build {
    fn debugging(&self) -> bool {
        self.taken.options.debug || self.journal.debugging
    }

    /// Hooks, and steps inside of a typed step, do not stop.
    fn phases(&self, id: &str, spec: Option<&StepSpec>) -> Phases {
        if !self.debugging() || id.contains('.') {
            return Phases::default();
        }
        let set = self.journal.breakpoints.get(id).or_else(|| self.taken.options.breakpoints.get(id));
        let written = spec.map(|spec| spec.breakpoint).or_else(|| self.journal.written.get(id).copied());
        let (set, written) = (set.copied().unwrap_or_default(), written.unwrap_or_default());
        Phases {
            before: set.before || written.before,
            instead: set.instead || written.instead,
            after: set.after || written.after,
        }
    }

    /// An attempt has been prepared and has not begun. `false`: it does not stop.
    pub(super) fn pause_before(&mut self, id: &str, attempt: u32, spec: &StepSpec) -> bool {
        let phases = self.phases(id, Some(spec));
        if self.debugging() {
            self.journal.written.insert(id.to_owned(), spec.breakpoint);
        }
        let freestyle = matches!(spec.kind, StepKind::Freestyle(_));
        let phase = match phases {
            Phases { before: true, .. } => Phase::Before,
            Phases { instead: true, .. } if freestyle => Phase::Override,
            _ => return false,
        };
        self.pause(id, attempt, phase, None);
        true
    }

    /// An attempt has ended. In a build that is debugged one that failed stops even where nobody has set a breakpoint.
    pub(super) fn pause_after(&mut self, id: &str, attempt: u32, status: StepStatus, exit: &Exit) -> bool {
        let ended = matches!(exit.how, How::Exited | How::TimedOut | How::NotStarted);
        let overridden = self.journal.passed.get(id) == Some(&(attempt, Phase::Override));
        let failed = !exit.is_success() && self.debugging() && !id.contains('.') && !overridden;
        if status == StepStatus::Terminating || !ended || !(self.phases(id, None).after || failed) {
            return false;
        }
        if self.journal.passed.get(id) == Some(&(attempt, Phase::After)) {
            return false;
        }
        self.pause(id, attempt, Phase::After, Some(exit.clone()));
        true
    }

    fn pause(&mut self, id: &str, attempt: u32, phase: Phase, exit: Option<Exit>) {
        let since_ms = now_ms();
        let until_ms = since_ms + i64::try_from(self.context.pause.as_millis()).unwrap_or(i64::MAX);
        let why = match (&exit, phase) {
            (Some(exit), _) if !exit.is_success() => {
                let code = exit.code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
                format!("after it failed{code}")
            }
            (_, Phase::Before) => "before it begins".to_owned(),
            (_, Phase::Override) => "instead of its commands".to_owned(),
            (_, Phase::After) => "after its end".to_owned(),
        };
        let until = time(until_ms).unwrap_or_default();
        self.journal.say(
            log_of(id),
            &format!(
                "Paused {why}, until {until} at the latest. `slipway build debug {}` opens a shell here, `slipway build continue {}` lets the step go on",
                self.taken.id, self.taken.id
            ),
        );
        self.journal.pauses.insert(id.to_owned(), Pause { attempt, phase, since_ms, until_ms, exit });
    }

    /// Stays at the breakpoint of an attempt. `false`: it has none, and everything is as ever.
    pub(super) fn stand(&mut self, id: &str, attempt: u32, status: StepStatus) -> anyhow::Result<bool> {
        let Some(pause) = self.journal.pauses.get(id).filter(|pause| pause.attempt == attempt) else {
            return Ok(false);
        };
        if status == StepStatus::Terminating {
            self.pass(id, "The pause ends with the build")?;
            return Ok(false);
        }
        if now_ms() < pause.until_ms {
            return Ok(true);
        }
        let (phase, minutes) = (pause.phase, self.context.pause.as_secs().div_ceil(60));
        self.pass(id, &format!("Nobody let the step go on within {minutes} min"))?;
        if phase != Phase::After {
            // What it would do was to be looked at first: it is not done unseen.
            let why = format!("it stood at a breakpoint for {minutes} min and nobody let it go on");
            self.conclude(id, attempt, &Exit::new(How::NotStarted, None, Some(why)))?;
            self.journal.passed.insert(id.to_owned(), (attempt, Phase::After));
        }
        Ok(false)
    }

    /// The pause is over, whatever comes next.
    fn pass(&mut self, id: &str, line: &str) -> anyhow::Result<Option<Pause>> {
        for open in self.shells.iter().filter(|open| open.step == id) {
            open.cancel.cancel();
        }
        let pause = self.journal.pauses.remove(id);
        if let Some(pause) = &pause {
            self.journal.passed.insert(id.to_owned(), (pause.attempt, pause.phase));
        }
        self.journal.say(log_of(id), line);
        if let Some(pause) = pause.as_ref().filter(|pause| pause.phase != Phase::After) {
            self.journal.print(id, pause.attempt);
        }
        self.save()?;
        Ok(pause)
    }

    /// Writes down an end that no supervisor comes to.
    fn conclude(&self, id: &str, attempt: u32, exit: &Exit) -> anyhow::Result<()> {
        let at = self.dir.attempt(id, attempt);
        if at.task().exists() {
            // Nobody starts it any more.
            crate::layout::create_private(&at.started())?;
        }
        Ok(write_json(&at.exit(), exit, Lasting::Process)?)
    }

    /// What people ask for; each order is heard once.
    pub(super) fn debug(&mut self, orders: &[DebugOrder]) -> anyhow::Result<()> {
        self.close_ended()?;
        for order in orders {
            if self.journal.debug_heard.contains(&order.id) {
                continue;
            }
            self.journal.debug_heard.push(order.id.clone());
            match order.action.as_str() {
                "continue" => self.go_on(order)?,
                "shell" => self.open_shell(order),
                "breakpoints" => {
                    self.journal.debugging = true;
                    self.journal.breakpoints.extend(order.breakpoints.clone());
                }
                _ => {}
            }
            self.save()?;
        }
        Ok(())
    }

    fn meant(&self, order: &DebugOrder) -> Option<Pause> {
        self.journal.pauses.get(&order.step).filter(|pause| pause.phase.word() == order.phase).cloned()
    }

    fn go_on(&mut self, order: &DebugOrder) -> anyhow::Result<()> {
        let Some(pause) = self.meant(order) else { return Ok(()) };
        self.pass(&order.step, &format!("{} lets the step go on", order.by))?;
        if pause.phase == Phase::Override {
            let mut exit = Exit::new(How::Exited, Some(0), None);
            exit.exports = crate::shim::take_exports(&self.dir.volume());
            self.conclude(&order.step, pause.attempt, &exit)?;
        }
        Ok(())
    }

    fn open_shell(&mut self, order: &DebugOrder) {
        let Some(pause) = self.meant(order) else { return };
        // One at a time: a second one is for who has lost the first.
        for open in self.shells.iter().filter(|open| open.step == order.step) {
            open.cancel.cancel();
        }
        let prepared = match self.prepare_shell(order, &pause) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.journal.say(log_of(&order.step), &format!("No shell can be opened: {error}"));
                return;
            }
        };
        self.journal.say(log_of(&order.step), &format!("{} opened a shell", order.by));
        let (cancel, over) = (CancellationToken::new(), Arc::<AtomicBool>::default());
        let shell = Shell {
            order: order.clone(),
            prepared,
            executable: self.context.shims.executable.clone(),
            uplink: self.uplink.clone(),
            cancel: cancel.clone(),
        };
        let (ended, done) = (self.ended.clone(), over.clone());
        tokio::spawn(async move {
            shell.serve().await;
            done.store(true, Ordering::Release);
            ended.notify_one();
        });
        self.shells.push(Open { step: order.step.clone(), by: order.by.clone(), cancel, over });
    }

    fn close_ended(&mut self) -> anyhow::Result<()> {
        let (over, open) =
            std::mem::take(&mut self.shells).into_iter().partition(|open| open.over.load(Ordering::Acquire));
        self.shells = open;
        let over: Vec<Open> = over;
        for shell in &over {
            self.journal.say(log_of(&shell.step), &format!("The shell of {} was closed", shell.by));
        }
        if !over.is_empty() {
            self.save()?;
        }
        Ok(())
    }

    /// Where the step itself runs, or beside its volume where it has no such place.
    fn prepare_shell(&self, order: &DebugOrder, pause: &Pause) -> Result<Prepared, String> {
        let at = self.dir.attempt(&order.step, pause.attempt);
        let seconds = u64::try_from((pause.until_ms - now_ms()).div_euclid(1000)).unwrap_or(0).max(30);
        let text = |error: std::io::Error| error.to_string();
        let task = read_if_whole::<Task>(&at.task()).map_err(text)?;
        let task = match task.as_ref().and_then(|task| shell_of(task, seconds)) {
            Some(task) => task,
            None => self.plain_shell(&order.step, pause.attempt, &folder(&at, &order.id), seconds)?,
        };
        Prepared::new(&at, folder(&at, &order.id), task, &order.id).map_err(text)
    }

    fn plain_shell(&self, step: &str, attempt: u32, at: &AttemptDir, seconds: u64) -> Result<Task, String> {
        let variables = self.journal.state.variables.effective();
        let spec = StepSpec {
            id: step.to_owned(),
            name: step.to_owned(),
            title: String::new(),
            stage: None,
            type_name: "freestyle".to_owned(),
            timeout_ms: None,
            retry: Default::default(),
            fail_fast: true,
            working_directory: WorkingDirectory::Volume,
            services: None,
            breakpoint: Default::default(),
            resources: Default::default(),
            kind: StepKind::Freestyle(Freestyle {
                image: PLAIN_IMAGE.to_owned(),
                commands: Some(Vec::new()),
                environment: variables.clone(),
                ..Freestyle::default()
            }),
        };
        let place = self.place(attempt, at, &spec, variables);
        let task = self.context.executor.prepare(&spec, &place).map_err(|refusal| refusal.to_string())?;
        shell_of(&task, seconds).ok_or_else(|| "there is no place for a shell".to_owned())
    }

    /// When a pause has to be looked at.
    pub(super) fn pause_wake(&self) -> Option<i64> {
        self.journal.pauses.values().map(|pause| pause.until_ms).min()
    }

    pub(super) fn paused(&self, step: BuildStep) -> BuildStep {
        let Some(pause) = self.journal.pauses.get(&step.name) else { return step };
        let phase = pause.phase.word();
        let message = match pause.phase {
            Phase::Before => "paused before it begins",
            Phase::Override => "paused instead of its commands",
            Phase::After => "paused after its end",
        };
        let paused = Paused {
            phase: phase.to_owned(),
            since: time(pause.since_ms).unwrap_or_default(),
            until: time(pause.until_ms).unwrap_or_default(),
            shell: self.shells.iter().any(|open| open.step == step.name),
        };
        BuildStep { paused: Some(paused), message: Some(message.to_owned()), ..step }
    }
}

fn time(ms: i64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(ms).ok()?;
    Some(time.round(jiff::Unit::Second).unwrap_or(time).to_string())
}
