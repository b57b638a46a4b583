//! Start once, keep the output, enforce the end, write down how it ended.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, Flock, FlockArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use super::private::Private;
use super::silence::{Silence, sentence};
use super::{ALONE, cgroup, exports, part, pod, sandbox, stage, tidy};
use crate::executor::ATTEMPT;
use crate::layout::{AttemptDir, Lasting, now_ms, read_json, write_json};
use crate::task::{Builtin, Exit, How, Members, Outcome, Run, Task};

/// How soon a cancellation is noticed; each look is one `stat`.
const TICK: Duration = Duration::from_millis(50);
/// What still comes out of the pipe after the process has ended is waited for this long.
const DRAIN: Duration = Duration::from_secs(2);

pub(super) fn main(dir: &Path) -> ExitCode {
    // Away from the runner's terminal and process group: Ctrl-C and its death are not ours.
    let _ = nix::unistd::setsid();
    // What is made for steps is for them to read, whatever the runner keeps for itself.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let dir = AttemptDir(dir.to_owned());
    match claim(&dir) {
        Ok(Some(_lock)) => finish(&dir, Supervisor::open(&dir).and_then(Supervisor::run)),
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slipway: cannot claim the attempt {}: {error}", dir.0.display());
            ExitCode::FAILURE
        }
    }
}

/// The lock, if this attempt is ours to start; nothing if somebody has started it before.
fn claim(dir: &AttemptDir) -> io::Result<Option<Flock<File>>> {
    let lock = lock(dir)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.started()) {
        Ok(mut started) => {
            write!(started, "{}", now_ms())?;
            // On disk before the command begins: not even a power cut makes it begin twice.
            File::open(&dir.0)?.sync_all()?;
            Ok(Some(lock))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn lock(dir: &AttemptDir) -> io::Result<Flock<File>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.lock())?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}

pub(super) fn finish(dir: &AttemptDir, exit: io::Result<Exit>) -> ExitCode {
    let exit = exit.unwrap_or_else(|error| not_started(&error));
    // Whoever gave the build up may have taken the folder away.
    if dir.exit().exists() || !dir.0.exists() {
        return ExitCode::SUCCESS;
    }
    if let Err(error) = write_json(&dir.exit(), &exit, Lasting::Process) {
        eprintln!("slipway: cannot write {}: {error}", dir.exit().display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn not_started(error: &io::Error) -> Exit {
    Exit::new(How::NotStarted, None, Some(format!("the step could not be started: {error}")))
}

pub(super) struct Supervisor {
    pub(super) dir: AttemptDir,
    pub(super) task: Task,
    pub(super) output: Output,
    pub(super) deadline: Option<Instant>,
    pub(super) silence: Silence,
}

/// How a process was ended, and with which status.
pub(super) struct Ended {
    pub(super) how: How,
    pub(super) status: ExitStatus,
}

impl Supervisor {
    pub(super) fn open(dir: &AttemptDir) -> io::Result<Self> {
        let task: Task = read_json(&dir.task())?
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no task.json"))?;
        let mut output = Output::open(&dir.output(), task.output_bytes_max)?;
        output.bell = Bell::new();
        let deadline = task.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
        let silence = Silence::new(task.heard.clone());
        Ok(Self { dir: dir.clone(), task, output, deadline, silence })
    }

    /// Writes the end down before its container or pod goes: killed in between, the next supervisor would find neither,
    /// and take a step that is done for one that was interrupted. The attempt is over when what it left is removed.
    pub(super) fn settle(&self, exit: &Exit) -> io::Result<()> {
        write_json(&self.dir.settled(), exit, Lasting::Process)
    }

    /// Removes what the attempt has on this machine. What stays is said in the step's log and in its result.
    pub(super) fn tidy(&mut self, mut exit: Exit) -> io::Result<Exit> {
        let mut left = Vec::new();
        left.extend(self.unstage().err());
        if let Run::Container { engine, name, before, beside, .. } = &self.task.run {
            if !before.is_empty() {
                // First, because it uses the network of the others: what prepares services has no name, and goes on when
                // only its client was stopped.
                left.extend(tidy::labelled(engine, &format!("{ATTEMPT}={name}")).err());
            }
            let names: Vec<String> = beside.iter().chain([name]).cloned().collect();
            left.extend(tidy::named(engine, &names).err());
        }
        if !left.is_empty() {
            self.left_behind(&mut exit, &left.join("; "))?;
        }
        Ok(exit)
    }

    pub(super) fn left_behind(&mut self, exit: &mut Exit, why: &str) -> io::Result<()> {
        let line = format!("clean-up after the step failed, the runner tries again later: {why}");
        self.output.line(&format!("slipway: {line}"))?;
        exit.message = Some(match exit.message.take() {
            Some(message) => format!("{message}; {line}"),
            None => line,
        });
        Ok(())
    }

    fn run(mut self) -> io::Result<Exit> {
        // Before the first child: the end of one that is quick must not be missed.
        let signals = child_signals()?;
        for line in std::mem::take(&mut self.task.intro) {
            self.output.line(&line)?;
        }
        self.restore_caches()?;
        let mut exit = match self.task.run.clone() {
            Run::Sandboxed { limits, .. } => {
                if !limits.is_empty()
                    && let Err(why) = cgroup::make(&self.dir, &limits)
                {
                    self.output.line(&format!("slipway: {why}"))?;
                }
                sandbox::enter_pid_namespace()?;
                let mut command = part("init");
                command.arg(&self.dir.0).stdin(Stdio::null());
                let ended = self.spawn_and_watch(&mut command, &signals, &Target::Init)?;
                let mut exit = self.own_exit(&ended);
                if !limits.is_empty() {
                    if cgroup::ran_out(&self.dir) && !exit.is_success() && exit.how != How::TimedOut {
                        exit.how = if exit.how == How::Interrupted { How::Exited } else { exit.how };
                        exit.code = exit.code.or(Some(137));
                        exit.message =
                            Some("the step used more memory than its limit, and was killed".to_owned());
                    }
                    cgroup::remove(&self.dir);
                }
                exit
            }
            Run::Builtin { sandbox, work, owner } => {
                self.builtin(sandbox.as_ref(), &work, owner, &signals)?
            }
            Run::Container { .. } => {
                // Whatever went wrong, containers and mounts may be there.
                let exit = self.contained(&signals).unwrap_or_else(|error| not_started(&error));
                self.settle(&exit)?;
                return self.tidy(exit);
            }
            Run::Engine { commands, members, environment, context } => {
                if let Some(context) = &context
                    && let Err(why) = self.bring(context)
                {
                    return self.refused(why);
                }
                self.engine(&commands, &environment, &members, &signals)?
            }
            Run::Pod(work) => {
                if let Some(context) = &work.context
                    && let Err(why) = self.bring(context)
                {
                    return self.refused(why);
                }
                return pod::run(&mut self, &work, false);
            }
        };
        exit.exports = exports::take(&self.task.volume);
        self.save_caches(&exit)?;
        Ok(exit)
    }

    /// A container, with those that have to run beside it.
    fn contained(&mut self, signals: &SignalFd) -> io::Result<Exit> {
        let Run::Container { engine, name, args, environment, before, also, mounts, .. } =
            self.task.run.clone()
        else {
            unreachable!("called for containers only")
        };
        stage::stage(&self.task.volume, &mounts)?;
        let prepared = self.engine(&before, &BTreeMap::new(), &Members::default(), signals)?;
        if !prepared.is_success() {
            let why = "the step did not begin: its services did not get ready".to_owned();
            return Ok(Exit { message: prepared.message.clone().or(Some(why)), ..prepared });
        }
        let mut command = part("exec");
        command.args(&engine).arg("run").args(&args).envs(&environment).stdin(Stdio::null());
        command.current_dir(&self.dir.0);
        let target = Target::Container { engine: engine.clone(), name: name.clone() };
        let ended = self.spawn_and_watch(command.process_group(0), signals, &target)?;
        let exit = self.container_exit(&engine[0], &ended);
        let mut exit = self.others(exit, &engine, &also, signals)?;
        exit.exports = exports::take(&self.task.volume);
        self.save_caches(&exit)?;
        Ok(exit)
    }

    /// Candidates beside the first: each is waited for, its log is kept, and the first that failed decides.
    pub(super) fn others(
        &mut self,
        first: Exit,
        engine: &[String],
        names: &[String],
        signals: &SignalFd,
    ) -> io::Result<Exit> {
        const WAIT: &str = "name=$1; shift; code=$(\"$@\" wait \"$name\") || code=125; \
            \"$@\" logs \"$name\" 2>&1; exit \"$code\"";
        let mut exit = first;
        for name in names {
            if exit.how != How::Exited {
                return Ok(exit);
            }
            self.output.line(&format!("slipway: waiting for {name}"))?;
            let mut command = part("exec");
            command.args(["sh", "-c", WAIT, "sh", name]).args(engine).stdin(Stdio::null());
            let target = Target::Container { engine: engine.to_vec(), name: name.clone() };
            let ended = self.spawn_and_watch(command.process_group(0), signals, &target)?;
            let other = self.exit(&ended);
            if exit.is_success() || other.how != How::Exited {
                exit = other;
            }
        }
        Ok(exit)
    }

    /// Containers hold what is mounted in them by themselves.
    fn unstage(&self) -> Result<(), String> {
        let folder = self.dir.mounts();
        tidy::retry(|| {
            stage::unmount_below(&folder)
                .map_err(|error| format!("{} cannot be unmounted: {error}", folder.display()))
        })
    }

    /// The step has failed before it began, and the log says why.
    pub(super) fn refused(&mut self, why: String) -> io::Result<Exit> {
        self.output.line(&why)?;
        let how = self.wanted().unwrap_or(How::Exited);
        Ok(Exit::new(how, Some(1), Some(why)))
    }

    fn engine(
        &mut self,
        commands: &[Vec<String>],
        environment: &BTreeMap<String, String>,
        members: &Members,
        signals: &SignalFd,
    ) -> io::Result<Exit> {
        let mut exit = Exit::new(How::Exited, Some(0), None);
        for argv in commands {
            let mut command = part("exec");
            command.args(argv).envs(environment).stdin(Stdio::null()).process_group(0);
            // Nothing that a name could lead to.
            command.current_dir(&self.dir.0);
            let ended = self.spawn_and_watch(&mut command, signals, &Target::Group)?;
            exit = self.exit(&ended);
            if !exit.is_success() {
                return Ok(exit);
            }
        }
        exit.members = members.read();
        Ok(exit)
    }

    fn builtin(
        &mut self,
        sandbox: Option<&crate::task::Sandbox>,
        work: &Builtin,
        owner: Option<u32>,
        signals: &SignalFd,
    ) -> io::Result<Exit> {
        let user = sandbox.and_then(|sandbox| sandbox.user);
        let private = Private::make(&self.dir, user)?;
        let volume = self.task.volume.clone();
        let work = match private.prepare(&volume, work, user, &mut || self.wanted().is_some()) {
            Ok(work) => work,
            Err(why) => {
                private.remove();
                return self.refused(why);
            }
        };
        // The work and its result travel over stdin: no argument, no environment, no file of the volume.
        let (mut ours, theirs) = UnixStream::pair()?;
        let mut command = match sandbox {
            Some(_) => {
                sandbox::enter_pid_namespace()?;
                let mut command = part("init");
                command.arg(&self.dir.0);
                command
            }
            None => {
                let mut command = part("builtin");
                command.arg(private.path()).arg(ALONE).process_group(0);
                command.env_clear().envs(slipway_container::network_environment());
                command
            }
        };
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut line = serde_json::to_vec(&work).map_err(io::Error::other)?;
        line.push(b'\n');
        ours.write_all(&line)?;
        let target = if sandbox.is_some() { Target::Init } else { Target::Group };
        let ended = self.spawn_and_watch(&mut command, signals, &target)?;
        drop(command);
        let mut exit = self.own_exit(&ended);
        let mut answer = String::new();
        ours.set_read_timeout(Some(DRAIN))?;
        let _ = ours.read_to_string(&mut answer);
        if let Ok(outcome) = serde_json::from_str::<Outcome>(answer.trim()) {
            exit.members = outcome.members;
            exit.working_directory = outcome.working_directory;
            exit.message = exit.message.or(outcome.error);
        }
        // Whoever worked in it is gone with its namespace.
        if exit.is_success()
            && let Err(error) = private.hand_over(&volume, &work, owner)
        {
            exit = self.refused(format!("what was made cannot be put into the volume: {error}"))?;
        }
        private.remove();
        Ok(exit)
    }

    pub(super) fn spawn_and_watch(
        &mut self,
        command: &mut Command,
        signals: &SignalFd,
        target: &Target,
    ) -> io::Result<Ended> {
        let (reader, writer) = io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The command holds the other end of the pipe; without this it would never be seen to close.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(io::Error::from)?;
        self.watch(child, Some(reader), signals, target)
    }

    /// Stays with a process until it has ended; `None` for one whose output is of no interest.
    pub(super) fn watch(
        &mut self,
        mut child: Child,
        mut reader: Option<PipeReader>,
        signals: &SignalFd,
        target: &Target,
    ) -> io::Result<Ended> {
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0));
        let mut stopping: Option<(How, Instant)> = None;
        let mut look_at = Instant::now();
        let status = loop {
            let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            fds.extend(reader.as_ref().map(|reader| PollFd::new(reader.as_fd(), PollFlags::POLLIN)));
            let timeout = PollTimeout::try_from(TICK).unwrap_or(PollTimeout::NONE);
            match poll(&mut fds, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            while let Ok(Some(_)) = signals.read_signal() {}
            self.output.copy(&mut reader)?;
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let now = Instant::now();
            if now < look_at {
                continue;
            }
            look_at = now + TICK;
            match &mut stopping {
                None => {
                    let Some(how) = self.wanted() else { continue };
                    target.stop(pid, false);
                    stopping = Some((how, now + Duration::from_millis(self.task.grace_ms)));
                }
                Some((_, kill_at)) if now >= *kill_at => {
                    target.stop(pid, true);
                    *kill_at = now + DRAIN;
                }
                Some(_) => {}
            }
        };
        let until = Instant::now() + DRAIN;
        while let Some(open) = &reader
            && Instant::now() < until
        {
            let mut fds = [PollFd::new(open.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, PollTimeout::try_from(TICK).unwrap_or(PollTimeout::NONE));
            self.output.copy(&mut reader)?;
        }
        Ok(Ended { how: stopping.map_or(How::Exited, |(how, _)| how), status })
    }

    /// Why it should stop, if it should.
    pub(super) fn wanted(&mut self) -> Option<How> {
        if self.dir.cancel().exists() {
            Some(How::Cancelled)
        } else if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            Some(How::TimedOut)
        } else {
            self.silence.too_long().map(|_| How::Interrupted)
        }
    }

    pub(super) fn exit(&mut self, ended: &Ended) -> Exit {
        let code = exit_code(ended.status);
        let message = match ended.how {
            How::TimedOut => Some(format!(
                "the step ran longer than its timeout of {} s and was stopped",
                self.task.timeout_ms.unwrap_or(0).div_ceil(1000)
            )),
            How::Cancelled => Some("the step was stopped".to_owned()),
            How::Interrupted => self.silence.too_long().map(sentence),
            _ => None,
        };
        Exit::new(ended.how, Some(code), message)
    }

    /// Of a process that is ours and gives back how the command ended: when it was killed itself, by whoever runs out of
    /// memory or patience, that says nothing about the command.
    fn own_exit(&mut self, ended: &Ended) -> Exit {
        let exit = self.exit(ended);
        match ended.status.signal() {
            Some(signal) if exit.how == How::Exited => {
                let why = format!("the process around the step's command was killed (signal {signal})");
                Exit::new(How::Interrupted, None, Some(why))
            }
            _ => exit,
        }
    }

    fn container_exit(&mut self, engine: &str, ended: &Ended) -> Exit {
        let mut exit = self.own_exit(ended);
        if exit.how == How::Exited && exit.code == Some(125) {
            exit.message = Some(format!("{engine} could not start the container: the log says why"));
        }
        exit
    }
}

pub(super) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

pub(super) fn child_signals() -> io::Result<SignalFd> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    Ok(SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

/// Whom to stop.
pub(super) enum Target {
    /// The first process of a namespace: it passes a polite end on; its death takes all others along.
    Init,
    Group,
    Container {
        engine: Vec<String>,
        name: String,
    },
}

impl Target {
    fn stop(&self, pid: Pid, now: bool) {
        let signal = if now { Signal::SIGKILL } else { Signal::SIGTERM };
        match self {
            Self::Init => drop(kill(pid, signal)),
            Self::Group => drop(killpg(pid, signal)),
            Self::Container { engine, name } => {
                let name_signal = format!("--signal={}", signal.as_str());
                let stopped = run_quietly(engine, &["kill", &name_signal, name]);
                // Nothing to signal yet (the image is being fetched), or the engine itself hangs.
                if now || !stopped {
                    let _ = killpg(pid, signal);
                }
            }
        }
    }
}

fn run_quietly(engine: &[String], args: &[&str]) -> bool {
    Command::new(&engine[0])
        .args(&engine[1..])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The raw log of the attempt. It stops growing at its limit, and says so.
pub(super) struct Output {
    file: File,
    written: u64,
    bytes_max: u64,
    bell: Option<Bell>,
}

/// Our standard output, which the runner that started us listens to. What is on it means nothing but that there is
/// something in the file; a runner that is gone, or does not listen, finds the file by itself.
pub(super) struct Bell(File);

impl Bell {
    fn new() -> Option<Self> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
        fcntl(&file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).ok()?;
        Some(Self(file))
    }

    fn ring(&mut self) {
        let _ = self.0.write(b".");
    }
}

impl Output {
    fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let written = file.metadata()?.len();
        Ok(Self { file, written, bytes_max, bell: None })
    }

    /// Bytes in the file, or where it stopped growing.
    pub(super) fn length(&self) -> u64 {
        self.written
    }

    /// It has said that the rest is not kept.
    pub(super) fn is_full(&self) -> bool {
        self.written == u64::MAX
    }

    pub(super) fn line(&mut self, line: &str) -> io::Result<()> {
        self.write(format!("{line}\n").as_bytes())
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written >= self.bytes_max {
            return Ok(());
        }
        let room = usize::try_from(self.bytes_max - self.written).unwrap_or(usize::MAX);
        let (kept, dropped) = bytes.split_at(bytes.len().min(room));
        self.file.write_all(kept)?;
        self.written += kept.len() as u64;
        if !dropped.is_empty() {
            self.written = u64::MAX;
            let note = format!(
                "\nslipway: the output is longer than {} bytes; the rest is not kept\n",
                self.bytes_max
            );
            self.file.write_all(note.as_bytes())?;
        }
        if let Some(bell) = &mut self.bell {
            bell.ring();
        }
        Ok(())
    }

    /// Copies what is there, and drops the reader when the other end is closed.
    fn copy(&mut self, from: &mut Option<PipeReader>) -> io::Result<()> {
        let Some(reader) = from else { return Ok(()) };
        let mut buffer = [0; 1 << 16];
        // Not for ever: a command that writes without end must still be stoppable.
        for _ in 0..64 {
            match reader.read(&mut buffer) {
                Ok(0) => {
                    *from = None;
                    return Ok(());
                }
                Ok(count) => self.write(&buffer[..count])?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_over_the_limit_is_said_to_be_missing_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output");
        let mut output = Output::open(&path, 10).unwrap();
        for _ in 0..5 {
            output.write(b"1234").unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "1234123412\nslipway: the output is longer than 10 bytes; the rest is not kept\n");
    }
}
