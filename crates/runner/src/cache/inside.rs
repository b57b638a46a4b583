//! Ways into a volume that go through no link: steps write there, also while this looks, and may put a link anywhere.
//!
//! Every part of a path is opened from the folder before it, so what is opened is what was looked at.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{Gid, Uid, fchownat};

use crate::within::file_at;

const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// What to do with folders on the way that are not there.
#[derive(Clone, Copy)]
enum Missing {
    Refuse,
    Make(Option<u32>),
}

pub(super) fn open_file(root: &Path, relative: &Path) -> io::Result<File> {
    let (folder, name) = parent(root, relative, Missing::Refuse)?;
    file_at(&folder, name)
}

pub(super) fn folder_at(folder: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    openat(folder, name, FOLDER | OFlag::O_RDONLY, Mode::empty()).map_err(told)
}

/// The folder that a path is in, and its name there.
pub(super) fn open_parent<'a>(root: &Path, relative: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    parent(root, relative, Missing::Refuse)
}

/// Puts `new` at the path; what is there goes to `old`.
pub(super) fn replace(
    root: &Path,
    relative: &Path,
    new: &Path,
    old: &Path,
    owner: Option<u32>,
) -> io::Result<()> {
    let (folder, name) = parent(root, relative, Missing::Make(owner))?;
    match renameat(&folder, name, AT_FDCWD, old) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(renameat(AT_FDCWD, new, &folder, name)?)
}

fn parent<'a>(root: &Path, relative: &'a Path, missing: Missing) -> io::Result<(OwnedFd, &'a OsStr)> {
    let outside = || io::Error::new(io::ErrorKind::PermissionDenied, "it leaves the volume");
    let mut parts = Vec::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::CurDir => {}
            _ => return Err(outside()),
        }
    }
    let name = parts.pop().ok_or_else(outside)?;
    let mut at = open(root, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    for part in parts {
        at = match (openat(&at, part, FOLDER | OFlag::O_RDONLY, Mode::empty()), missing) {
            (Err(Errno::ENOENT), Missing::Make(owner)) => {
                mkdirat(&at, part, Mode::from_bits_truncate(0o755))?;
                if let Some(owner) = owner {
                    let (user, group) = (Uid::from_raw(owner), Gid::from_raw(owner));
                    fchownat(&at, part, Some(user), Some(group), AtFlags::AT_SYMLINK_NOFOLLOW)?;
                }
                let made = folder_at(&at, part)?;
                if owner.is_none() {
                    // Images run as whatever user they like.
                    fchmod(&made, Mode::from_bits_truncate(0o777))?;
                }
                made
            }
            (opened, _) => opened.map_err(told)?,
        };
    }
    Ok((at, name))
}

/// The two answers to a link where none may be.
fn told(errno: Errno) -> io::Error {
    match errno {
        Errno::ELOOP | Errno::ENOTDIR => {
            io::Error::new(io::ErrorKind::PermissionDenied, "it goes through a link, or is not a folder")
        }
        errno => errno.into(),
    }
}
