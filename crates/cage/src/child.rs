//! A program that runs: waiting for it, ending it, and its pipes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Output};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

use crate::start::Started;

/// Ends with this value: who drops it ends the program and all that it started.
#[derive(Debug)]
pub struct Child {
    id: libc::pid_t,
    handle: OwnedFd,
    ended: Option<ExitStatus>,
    /// Our ends of pipes; [`writer`] and [`reader`] make them wait for a runtime instead of a thread.
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
}

impl Child {
    pub(crate) fn new(started: Started) -> Self {
        let [stdin, stdout, stderr] = started.ends;
        Self { id: started.id, handle: started.handle, ended: None, stdin, stdout, stderr }
    }

    pub fn id(&self) -> u32 {
        self.id.cast_unsigned()
    }

    /// Ends it, and with it everything inside of its cage.
    pub fn kill(&self) {
        if self.ended.is_none() {
            // SAFETY: it was not waited for, so the number is still its own. Its group too, for cages without a
            // namespace of processes.
            unsafe {
                libc::kill(-self.id, libc::SIGKILL);
                libc::kill(self.id, libc::SIGKILL);
            }
        }
    }

    /// How it ended, if it did.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = reap(self.id, libc::WNOHANG)?;
        }
        Ok(self.ended)
    }

    /// Waits with the calling thread.
    pub fn wait_blocking(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        loop {
            if let Some(status) = self.ended {
                return Ok(status);
            }
            self.ended = reap(self.id, 0)?;
        }
    }

    /// All that it says, and how it ended; waits with the calling thread.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        self.stdin = None;
        let all = |end: Option<OwnedFd>| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            if let Some(end) = end {
                File::from(end).read_to_end(&mut bytes)?;
            }
            Ok(bytes)
        };
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let (stdout, stderr) = std::thread::scope(|scope| {
            let other = scope.spawn(|| all(stderr));
            (all(stdout), other.join().unwrap_or_else(|_| Ok(Vec::new())))
        });
        Ok(Output { status: self.wait_blocking()?, stdout: stdout?, stderr: stderr? })
    }

    /// Waits with the runtime. May be given up and called again.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        // A copy, so that nothing is lost where the caller gives up in the middle.
        let handle = self.handle.try_clone()?;
        // SAFETY: the descriptor is owned by what is registered and stays open as long as that.
        let handle = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }?;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            // The handle stays readable once the program has ended.
            handle.readable().await?.clear_ready();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        if !matches!(self.try_wait(), Ok(None)) {
            return;
        }
        // Killed, but not gone yet: somebody has to wait for it.
        let _ = reaper().send(self.id);
    }
}

fn reaper() -> &'static Sender<libc::pid_t> {
    static REAPER: OnceLock<Sender<libc::pid_t>> = OnceLock::new();
    REAPER.get_or_init(|| {
        let (send, receive) = channel();
        let body = move || {
            for id in receive {
                let _ = reap(id, 0);
            }
        };
        std::thread::Builder::new().name("cage-reaper".into()).spawn(body).expect("a thread can be started");
        send
    })
}

fn reap(id: libc::pid_t, flags: libc::c_int) -> io::Result<Option<ExitStatus>> {
    let mut status = 0;
    loop {
        // SAFETY: the number is on this stack.
        match unsafe { libc::waitpid(id, &mut status, flags) } {
            0 => return Ok(None),
            -1 if crate::step::errno() == libc::EINTR => {}
            -1 => return Err(io::Error::last_os_error()),
            _ => return Ok(Some(ExitStatus::from_raw(status))),
        }
    }
}

/// Our end of a program's standard output, for a runtime.
pub fn reader(end: OwnedFd) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(end)
}

/// Our end of a program's standard input, for a runtime.
pub fn writer(end: OwnedFd) -> io::Result<pipe::Sender> {
    pipe::Sender::from_owned_fd(end)
}
