//! How strong a cage this machine allows, found once by trying.

use std::io;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Cage, Network};

/// From strong to weak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Own mounts, processes, network and user; needs root.
    Namespaces,
    /// The same inside of a user namespace; the user stays ours.
    UserNamespace,
    /// The kernel refuses files outside and every socket; other processes can be seen.
    Landlock,
    /// System calls are filtered and files are open: only where the operator said so.
    Filter,
}

impl Level {
    /// For the log and for people who ask.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces, a user of its own, filtered system calls",
            Self::UserNamespace => "user namespace, filtered system calls",
            Self::Landlock => "Landlock, filtered system calls",
            Self::Filter => "filtered system calls alone: tools can read what this process can read",
        }
    }
}

static PERMIT_FILTER: AtomicBool = AtomicBool::new(false);

/// The operator takes it upon them that programs see this machine's files. To be said before the first program.
pub fn permit_open_files() {
    PERMIT_FILTER.store(true, Ordering::Relaxed);
}

/// What is in force here; an error says what was tried.
pub fn level() -> io::Result<Level> {
    static LEVEL: OnceLock<Result<Level, String>> = OnceLock::new();
    let known = LEVEL.get_or_init(|| {
        let mut tried = Vec::new();
        for level in [Level::Namespaces, Level::UserNamespace, Level::Landlock] {
            match attempt(level) {
                Ok(()) => return Ok(level),
                Err(error) => tried.push(format!("{}: {error}", level.describe())),
            }
        }
        if PERMIT_FILTER.load(Ordering::Relaxed) && attempt(Level::Filter).is_ok() {
            return Ok(Level::Filter);
        }
        Err(format!(
            "tools cannot be confined on this machine ({}); allow user namespaces or Landlock, run as root, or set \
             SLIPWAY_TOOLS_SEE_THIS_MACHINE=yes",
            tried.join("; ")
        ))
    });
    known.clone().map_err(|message| io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Goes all the way to the moment before a program would be started.
fn attempt(level: Level) -> io::Result<()> {
    // SAFETY: number 0 is always there.
    if level == Level::Namespaces && unsafe { libc::geteuid() } != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "this process is not root"));
    }
    let mut child = Cage::new().network(Network::None).at(level).rehearse(&Command::new("/"))?;
    match child.wait_blocking()?.code() {
        Some(0) => Ok(()),
        code => Err(io::Error::other(format!("the rehearsal ended with {code:?}"))),
    }
}
