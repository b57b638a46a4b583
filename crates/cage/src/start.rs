//! Starting a program without copying this process.
//!
//! A fork copies the page tables of everything we hold, a tenth of a millisecond for each megabyte. So the child shares
//! our memory until it becomes the program, as `posix_spawn` does it: the thread that starts it waits, all its signals
//! are blocked, and the child runs on a stack of its own and only takes the steps that were written down. The
//! namespaces of processes and users are asked for in the same call, so that the child is the first process of its own.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::plan::{Plan, SEARCH_PATH};
use crate::step;

/// Where a program reads from or writes to.
#[derive(Debug)]
pub enum Stream {
    Null,
    Pipe,
    /// As ours.
    Inherit,
    File(OwnedFd),
}

#[derive(Debug)]
pub struct Streams {
    pub stdin: Stream,
    pub stdout: Stream,
    pub stderr: Stream,
}

impl Streams {
    /// No input; what it says comes by pipes.
    pub fn listening() -> Self {
        Self { stdin: Stream::Null, stdout: Stream::Pipe, stderr: Stream::Pipe }
    }

    /// All three are pipes.
    pub fn talking() -> Self {
        Self { stdin: Stream::Pipe, ..Self::listening() }
    }
}

pub(crate) struct Started {
    pub(crate) id: libc::pid_t,
    pub(crate) handle: OwnedFd,
    /// Our ends of the pipes.
    pub(crate) ends: [Option<OwnedFd>; 3],
}

/// Everything that the child needs, in the form that the system takes.
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    theirs: [Option<OwnedFd>; 3],
    ours: [Option<OwnedFd>; 3],
    /// Not to become the program, only to try the steps.
    rehearsal: bool,
}

impl Prepared {
    pub(crate) fn new(
        plan: Plan,
        program: &Path,
        command: &Command,
        streams: Streams,
        rehearsal: bool,
    ) -> io::Result<Self> {
        let first = std::iter::once(command.get_program());
        let arguments = first.chain(command.get_args()).map(text).collect::<io::Result<_>>()?;
        let mut environment = command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)))
            .map(|(name, value)| text([name, value].join(OsStr::new("="))))
            .collect::<io::Result<Vec<_>>>()?;
        if !environment.iter().any(|pair| pair.as_bytes().starts_with(b"PATH=")) {
            environment.push(text(format!("PATH={SEARCH_PATH}"))?);
        }
        let (mut theirs, mut ours) = ([None, None, None], [None, None, None]);
        for (number, stream) in [streams.stdin, streams.stdout, streams.stderr].into_iter().enumerate() {
            (theirs[number], ours[number]) = ends(stream, number == 0)?;
        }
        Ok(Self { plan, program: text(program)?, arguments, environment, theirs, ours, rehearsal })
    }

    /// To be called on the thread that lives as long as this process.
    pub(crate) fn start(self) -> io::Result<Started> {
        let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let mut task = Task {
            prepared: &self,
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            failed: 0,
        };
        let mut stack = vec![0u128; STACK_BYTES / 16];
        let mut handle: RawFd = -1;
        let flags =
            self.plan.namespaces | libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        // SAFETY: the child has a stack of its own and this thread waits until it is gone from our memory, so that
        // `task`, the stack and all that they point to outlive it; signals are blocked meanwhile, because a handler
        // of ours would run in the child with our memory.
        let id = unsafe {
            let was_dumpable = libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0);
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            let top = stack.as_mut_ptr().add(stack.len()).cast();
            let id = libc::clone(child, top, flags, (&raw mut task).cast(), &raw mut handle);
            let error = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            // A change of user marks the memory, which was ours too.
            if was_dumpable == 1 {
                libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
            }
            if id < 0 {
                return Err(error);
            }
            id
        };
        // SAFETY: the kernel made it for us.
        let handle = unsafe { OwnedFd::from_raw_fd(handle) };
        // SAFETY: the child wrote it, if at all, before this thread went on.
        let failed = unsafe { (&raw const task.failed).read_volatile() };
        if failed != 0 {
            // SAFETY: it has ended or is about to; its id is kept until it was waited for.
            unsafe { libc::waitpid(id, std::ptr::null_mut(), 0) };
            return Err(self.plan.explain(failed));
        }
        Ok(Started { id, handle, ends: self.ours })
    }
}

const STACK_BYTES: usize = 64 << 10;

struct Task<'a> {
    prepared: &'a Prepared,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
    failed: i32,
}

/// The child's life until it is the program.
extern "C" fn child(task: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the pointer that `start` gave; the thread that owns it waits.
    unsafe {
        let task = task.cast::<Task<'_>>();
        let prepared = (*task).prepared;
        let failed = match become_program(prepared, (*task).arguments, (*task).environment) {
            Ok(()) => 0,
            Err(number) => number,
        };
        (&raw mut (*task).failed).write_volatile(failed);
        libc::_exit(if failed == 0 { 0 } else { 127 });
    }
}

unsafe fn become_program(
    prepared: &Prepared,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
) -> Result<(), i32> {
    // SAFETY: system calls with what was prepared; nothing is allocated.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        for (number, end) in prepared.theirs.iter().enumerate() {
            if let Some(end) = end
                && libc::dup2(end.as_raw_fd(), number as i32) < 0
            {
                return Err(step::errno());
            }
        }
        // A group of its own, so that a signal for our terminal is none for it.
        libc::setpgid(0, 0);
        // Folders of the new root are for a user who does not own them, however private we are otherwise.
        let before = libc::umask(0o022);
        step::run(&prepared.plan.steps)?;
        libc::umask(before);
        if prepared.rehearsal {
            return Ok(());
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::execve(prepared.program.as_ptr(), arguments, environment);
        Err(step::errno())
    }
}

/// The program's end and ours.
fn ends(stream: Stream, input: bool) -> io::Result<(Option<OwnedFd>, Option<OwnedFd>)> {
    let (theirs, ours) = match stream {
        Stream::Inherit => return Ok((None, None)),
        Stream::Null => {
            let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
            (OwnedFd::from(null), None)
        }
        Stream::File(file) => (file, None),
        Stream::Pipe => {
            let (read, write) = io::pipe()?;
            let (read, write) = (OwnedFd::from(read), OwnedFd::from(write));
            if input { (read, Some(write)) } else { (write, Some(read)) }
        }
    };
    // Where our own first three are closed, a new descriptor may have one of their numbers.
    let theirs = if theirs.as_raw_fd() < 3 { above_three(&theirs)? } else { theirs };
    Ok((Some(theirs), ours))
}

fn above_three(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: a copy with a higher number, owned from here.
    unsafe {
        let copy = libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3);
        if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(copy)) }
    }
}

fn text(value: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(value.as_ref().as_bytes())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
