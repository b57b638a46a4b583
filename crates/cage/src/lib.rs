//! Room `cage`: a command and what it may see come in, a running program that sees nothing else goes out.
//!
//! A caged program has a root folder with the system's programs and libraries, the paths that were named for it, and a
//! `/tmp` of its own; no network unless it was given one; a user that owns nothing; no capability; a list of system
//! calls; limits; none of our descriptors and none of our environment. Other processes do not exist for it, and it ends
//! with us. All of that is done by system calls before the child becomes the program ([`step`]): there is no helper
//! program, and our memory is not copied ([`start`]).
//!
//! What the machine allows differs ([`Level`]); where it allows nothing, nothing is started. The room knows nothing of
//! Slipway or of what is done with the output of programs, and of one tool only how it is started safely: [`git`],
//! because three rooms start it.

mod calls;
mod child;
mod filter;
pub mod git;
mod landlock;
mod level;
mod net;
mod plan;
mod spawner;
mod start;
mod step;
mod system;
mod user;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use child::{Child, reader, writer};
pub use filter::{Sockets, confine_this_process};
pub use level::{Level, level, permit_open_files};
pub use net::{Network, Private, private_listener};
pub use start::{Stream, Streams};
pub use user::user_for;

use plan::Plan;
use start::Prepared;

/// Who a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// A number that nobody else has now.
    Own,
    /// This number, as [`user_for`] gives it: for folders that outlive one program.
    Number(u32),
    /// Who we are, without capabilities: for files that belong to us.
    Ours,
}

/// What a program may use up. None: as much as we may.
#[derive(Debug, Clone)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub descriptors: Option<u64>,
    pub file_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Address space, of which Go programs and git reserve much and use little.
            memory_bytes: Some(16 << 30),
            processes: Some(512),
            descriptors: Some(1024),
            file_bytes: Some(4 << 30),
            cpu_seconds: Some(600),
        }
    }
}

/// What a program may see.
#[derive(Debug, Clone)]
pub struct Cage {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    runnable: bool,
    network: Network,
    user: Option<u32>,
    /// The user is one for folders that outlive the program.
    lasting: bool,
    limits: Limits,
    level: Option<Level>,
}

impl Default for Cage {
    fn default() -> Self {
        Self::new()
    }
}

impl Cage {
    /// The system's programs and nothing else.
    pub fn new() -> Self {
        Self {
            read: Vec::new(),
            write: Vec::new(),
            runnable: false,
            network: Network::None,
            user: Some(user::next()),
            lasting: false,
            limits: Limits::default(),
            level: None,
        }
    }

    /// A file or a folder is there, read-only, at its own path.
    #[must_use]
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.read.push(path.into());
        self
    }

    /// Another program is there, which the first one starts: a path, or a name of our own PATH. One that is not
    /// installed is left out.
    #[must_use]
    pub fn program(self, name: &str) -> Self {
        let mut command = Command::new(name);
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        match plan::find_program(&command) {
            Ok(path) => self.read(path),
            Err(_) => self,
        }
    }

    /// A folder is there and may be written to; [`Self::give`] makes it the program's.
    #[must_use]
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.write.push(path.into());
        self
    }

    /// Programs inside of what may be written can be run.
    #[must_use]
    pub fn runnable(mut self) -> Self {
        self.runnable = true;
        self
    }

    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.lasting = matches!(user, User::Number(_));
        self.user = match user {
            User::Own => Some(user::next()),
            User::Number(number) => Some(number),
            User::Ours => None,
        };
        self
    }

    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Another strength than the one this machine allows: for tests.
    #[must_use]
    pub fn at(mut self, level: Level) -> Self {
        self.level = Some(level);
        self
    }

    /// Makes the program's user the owner of a folder and all in it. Links are not followed.
    pub fn give(&self, folder: &Path) -> io::Result<()> {
        if !self.changes_user() {
            return Ok(());
        }
        let (user, group) = self.ids();
        give(folder, user, group)
    }

    /// True when a folder was given to the program's user already.
    pub fn owns(&self, folder: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        !self.changes_user()
            || std::fs::symlink_metadata(folder).is_ok_and(|found| (found.uid(), found.gid()) == self.ids())
    }

    /// Starts a command: its program, arguments, folder, and the environment that was said for it; what it says about
    /// streams, users and hooks is not looked at. The error says which part of the cage could not be built.
    pub fn spawn(&self, command: &Command, streams: Streams) -> io::Result<Child> {
        self.start(command, streams, false)
    }

    /// Everything but the program itself.
    pub(crate) fn rehearse(&self, command: &Command) -> io::Result<Child> {
        let streams = Streams { stdin: Stream::Null, stdout: Stream::Null, stderr: Stream::Null };
        self.start(command, streams, true)
    }

    fn start(&self, command: &Command, streams: Streams, rehearsal: bool) -> io::Result<Child> {
        let level = match self.level {
            Some(level) => level,
            None => level()?,
        };
        let program = plan::find_program(command)?;
        let plan = Plan::new(self, command, &program, level)?;
        let prepared = Prepared::new(plan, &program, command, streams, rehearsal)?;
        spawner::run(move || prepared.start()).map(Child::new)
    }

    fn changes_user(&self) -> bool {
        let level = self.level.or_else(|| level().ok());
        let may = match level {
            Some(Level::Namespaces) => true,
            Some(Level::UserNamespace) | None => false,
            // The way to folders of ours is closed to others; a throw-away folder lies in the open.
            Some(Level::Landlock | Level::Filter) => !self.lasting,
        };
        may && user::can_change() && self.user.is_some()
    }

    /// The user and group that the program has, as it sees them.
    fn ids(&self) -> (u32, u32) {
        match self.user {
            Some(user) if self.changes_user() => (user, user),
            // SAFETY: both always succeed.
            _ => unsafe { (libc::geteuid(), libc::getegid()) },
        }
    }
}

fn give(path: &Path, user: u32, group: u32) -> io::Result<()> {
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), user, group)?;
        }
    }
    // A folder comes after what is in it: whose it is tells whether all of it was given.
    std::os::unix::fs::lchown(path, Some(user), Some(group))
}
