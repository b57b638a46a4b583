//! Trees of files, by descriptors: copied, given away, laid over others, removed, and no link is ever followed.
//!
//! In: folders that are open. Out: what was done to what is in them. A step may change either side meanwhile: then it
//! gets what it made, and nothing outside of the two folders is touched or read.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, openat, readlinkat, renameat, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, fchownat, symlinkat, unlinkat};

use crate::within::file_at;

const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const NEW: OFlag = OFlag::O_WRONLY
    .union(OFlag::O_CREAT)
    .union(OFlag::O_EXCL)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);
/// Deeper than anything that people make.
const DEPTH_MAX: usize = 200;
/// Against somebody who works against us.
const TRIES: u32 = 64;
const ENTRIES_MAX: u64 = 1_000_000;
const BYTES_MAX: u64 = 32 << 30;

/// Asked again and again: whether to give up.
pub(crate) type Stop<'a> = &'a mut dyn FnMut() -> bool;

/// A copy under way.
pub(crate) struct Copy<'a> {
    /// Whose the copies are; ours when absent.
    pub(crate) owner: Option<u32>,
    /// Paths that are left out, with all below them.
    pub(crate) skip: &'a dyn Fn(&Path) -> bool,
    pub(crate) stop: Stop<'a>,
    entries: u64,
    bytes: u64,
}

impl<'a> Copy<'a> {
    pub(crate) fn new(owner: Option<u32>, skip: &'a dyn Fn(&Path) -> bool, stop: Stop<'a>) -> Self {
        Self { owner, skip, stop, entries: 0, bytes: 0 }
    }

    /// Everything in a folder; devices, pipes and sockets are left out, and so are bits that make a program somebody
    /// else. `to` is a folder that nobody else has.
    pub(crate) fn all(&mut self, from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
        self.folder(from, to, Path::new(""), 0)
    }

    fn folder(&mut self, from: &OwnedFd, to: &OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        for name in names(from)? {
            let here = path.join(&name);
            if (self.skip)(&here) {
                continue;
            }
            if (self.stop)() {
                return Err(io::Error::other("the step has to end"));
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX || depth > DEPTH_MAX {
                return Err(too_much());
            }
            // Gone since, or changed into something else: as if it had been so from the start.
            let Some(about) = look(from, &name)? else { continue };
            match kind(&about) {
                SFlag::S_IFDIR => {
                    let Ok(inside) = openat(from, name.as_os_str(), FOLDER, Mode::empty()) else { continue };
                    mkdirat(to, name.as_os_str(), Mode::S_IRWXU)?;
                    let made = folder_at(to, &name)?;
                    self.folder(&inside, &made, &here, depth + 1)?;
                    self.give(&made)?;
                    fchmod(&made, Mode::from_bits_truncate(about.st_mode & 0o777))?;
                }
                SFlag::S_IFREG => self.file(from, to, &name)?,
                SFlag::S_IFLNK => {
                    let Ok(target) = readlinkat(from, name.as_os_str()) else { continue };
                    symlinkat(target.as_os_str(), to, name.as_os_str())?;
                    give_at(to, &name, self.owner)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn file(&mut self, from: &OwnedFd, to: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let Ok(mut file) = file_at(from, name) else { return Ok(()) };
        let about = file.metadata()?;
        self.bytes = self.bytes.saturating_add(about.len());
        if self.bytes > BYTES_MAX {
            return Err(too_much());
        }
        let mut copy = File::from(openat(to, name, NEW, Mode::from_bits_truncate(0o600))?);
        // As long as it was when it was looked at, whatever somebody does to it now.
        io::copy(&mut io::Read::take(&mut file, about.len()), &mut copy)?;
        self.give(&copy)?;
        copy.set_permissions(Permissions::from_mode(about.permissions().mode() & 0o777))?;
        let seconds = u64::try_from(std::os::unix::fs::MetadataExt::mtime(&about)).unwrap_or(0);
        copy.set_modified(UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH))
    }

    fn give(&self, made: impl AsFd) -> io::Result<()> {
        match self.owner {
            Some(owner) => Ok(fchown(made, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?),
            None => Ok(()),
        }
    }
}

/// Makes everything in a folder, and itself, somebody's.
pub(crate) fn give(folder: &OwnedFd, owner: u32) -> io::Result<()> {
    give_below(folder, owner, 0)?;
    Ok(fchown(folder, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?)
}

fn give_below(folder: &OwnedFd, owner: u32, depth: usize) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(too_much());
    }
    for name in names(folder)? {
        if is_folder(folder, &name)? {
            give_below(&folder_at(folder, &name)?, owner, depth + 1)?;
        }
        give_at(folder, &name, Some(owner))?;
    }
    Ok(())
}

fn give_at(folder: &OwnedFd, name: &OsStr, owner: Option<u32>) -> io::Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let (user, group) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)));
    Ok(fchownat(folder, name, user, group, AtFlags::AT_SYMLINK_NOFOLLOW)?)
}

/// Removes what has this name, with everything in it; nothing is fine too.
pub(crate) fn remove(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    remove_at(folder, name, 0)
}

fn remove_at(folder: &OwnedFd, name: &OsStr, depth: usize) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(too_much());
    }
    for _ in 0..TRIES {
        if !is_folder(folder, name)? {
            return gone(unlinkat(folder, name, UnlinkatFlags::NoRemoveDir));
        }
        let inside = folder_at(folder, name)?;
        for name in names(&inside)? {
            remove_at(&inside, &name, depth + 1)?;
        }
        match unlinkat(folder, name, UnlinkatFlags::RemoveDir) {
            // Something was put into it meanwhile.
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => {}
            done => return gone(done),
        }
    }
    Err(io::Error::other("another step puts something into it again and again"))
}

fn gone(done: nix::Result<()>) -> io::Result<()> {
    match done {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Paths of a tree that stay when another one is laid over it.
#[derive(Debug, Default)]
pub(crate) struct Kept(BTreeSet<PathBuf>);

impl Kept {
    /// Ends with NUL each, folders with a slash before it, as [`list`] writes them.
    pub(crate) fn read(text: &[u8]) -> Self {
        let paths = text.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Self(
            paths
                .map(|path| PathBuf::from(OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path))))
                .collect(),
        )
    }

    fn has(&self, path: &Path) -> bool {
        self.0.contains(path)
    }

    fn has_below(&self, path: &Path) -> bool {
        self.0.range(path.to_owned()..).next().is_some_and(|first| first.starts_with(path))
    }
}

/// Moves everything of `new` into `into`; what was there goes, unless it is kept. `.git` is new as a whole.
pub(crate) fn lay_over(new: &OwnedFd, into: &OwnedFd, kept: &Kept) -> io::Result<()> {
    lay(Some(new), into, Path::new(""), kept, 0)
}

fn lay(new: Option<&OwnedFd>, into: &OwnedFd, path: &Path, kept: &Kept, depth: usize) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(too_much());
    }
    let coming: BTreeSet<OsString> = new.map(names).transpose()?.unwrap_or_default().into_iter().collect();
    for name in names(into)?.into_iter().filter(|name| !coming.contains(name)) {
        let here = path.join(&name);
        if kept.has(&here) {
            continue;
        }
        if kept.has_below(&here) && is_folder(into, &name)? {
            lay(None, &folder_at(into, &name)?, &here, kept, depth + 1)?;
        } else {
            remove_at(into, &name, depth)?;
        }
    }
    let Some(new) = new else { return Ok(()) };
    for name in coming {
        let git = depth == 0 && name == ".git";
        if !git && is_folder(new, &name)? && is_folder(into, &name)? {
            let (from, to) = (folder_at(new, &name)?, folder_at(into, &name)?);
            lay(Some(&from), &to, &path.join(&name), kept, depth + 1)?;
            continue;
        }
        replace(new, into, &name, depth)?;
    }
    Ok(())
}

/// Moves an entry into a folder, in place of what has its name there. That steps aside within the same folder first: a
/// step that writes to it meanwhile must neither keep the new one out nor follow the old one out of the volume.
fn replace(new: &OwnedFd, into: &OwnedFd, name: &OsStr, depth: usize) -> io::Result<()> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    for number in 0..TRIES {
        match renameat2(new, name, into, name, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let aside = format!(".slipway-old-{}-{number}", hex::encode(random));
        match renameat(into, name, into, aside.as_str()) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let placed = renameat2(new, name, into, name, RenameFlags::RENAME_NOREPLACE);
        remove_at(into, aside.as_ref(), depth)?;
        match placed {
            Ok(()) => return Ok(()),
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::Error::other("another step puts something in the way again and again"))
}

/// Every path below a folder but `.git`; nothing when there are more than anybody wants to look at.
pub(crate) fn list(folder: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    const LIST_BYTES_MAX: usize = 32 << 20;
    fn below(folder: &OwnedFd, path: &Path, text: &mut Vec<u8>, depth: usize) -> io::Result<bool> {
        if depth > DEPTH_MAX {
            return Ok(false);
        }
        for name in names(folder)? {
            if depth == 0 && name == ".git" {
                continue;
            }
            let here = path.join(&name);
            text.extend(here.as_os_str().as_bytes());
            let inside = openat(folder, name.as_os_str(), FOLDER, Mode::empty()).ok();
            text.extend(if inside.is_some() { &b"/\0"[..] } else { &b"\0"[..] });
            if text.len() > LIST_BYTES_MAX {
                return Ok(false);
            }
            if let Some(inside) = inside
                && !below(&inside, &here, text, depth + 1)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
    let mut text = Vec::new();
    Ok(below(folder, Path::new(""), &mut text, 0)?.then_some(text))
}

/// In the order of their names, whatever order the disk gives.
pub(crate) fn names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    // Opened again: two readers of one descriptor would share a place in it.
    for entry in Dir::from_fd(openat(folder, ".", FOLDER, Mode::empty())?)?.iter() {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort();
    Ok(names)
}

pub(crate) fn folder_at(folder: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(openat(folder, name, FOLDER, Mode::empty())?)
}

pub(crate) fn is_folder(folder: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    Ok(look(folder, name)?.is_some_and(|about| kind(&about) == SFlag::S_IFDIR))
}

fn look(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<FileStat>> {
    match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(about) => Ok(Some(about)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn kind(about: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(about.st_mode & SFlag::S_IFMT.bits())
}

fn too_much() -> io::Error {
    io::Error::other(format!(
        "it has more than {ENTRIES_MAX} files, more than {} GiB, or folders deeper than {DEPTH_MAX}",
        BYTES_MAX >> 30
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::fcntl::open;

    use super::*;

    fn opened(path: &Path) -> OwnedFd {
        open(path, FOLDER, Mode::empty()).unwrap()
    }

    fn made(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            std::fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(path), text).unwrap();
        }
        dir
    }

    fn shown(dir: &Path) -> Vec<String> {
        let text = list(&opened(dir)).unwrap().unwrap();
        let paths = String::from_utf8(text).unwrap();
        paths.split('\0').filter(|path| !path.is_empty() && !path.ends_with('/')).map(str::to_owned).collect()
    }

    #[test]
    fn a_tree_laid_over_another_replaces_it_but_for_what_is_kept() {
        let new =
            made(&[(".git/HEAD", "new"), ("a", "new"), ("d/x", "new"), ("f/g", "new"), ("link", "new")]);
        let old = made(&[
            (".git/config", "old"),
            ("a", "old"),
            ("d/y", "old"),
            ("d/z.o", "old"),
            ("f", "old"),
            ("link/deep", "old"),
            ("node_modules/m/i", "old"),
            ("gone/q.o", "old"),
            ("gone/q", "old"),
        ]);
        let outside = made(&[("kept", "outside")]);
        symlink(outside.path(), old.path().join("out")).unwrap();
        let kept = Kept::read(b"node_modules/\0d/z.o\0gone/q.o\0");
        lay_over(&opened(new.path()), &opened(old.path()), &kept).unwrap();
        assert_eq!(shown(old.path()), ["a", "d/x", "d/z.o", "f/g", "gone/q.o", "link", "node_modules/m/i"]);
        assert_eq!(std::fs::read_to_string(old.path().join("a")).unwrap(), "new");
        assert!(old.path().join(".git/HEAD").exists() && !old.path().join(".git/config").exists());
        assert!(outside.path().join("kept").exists(), "a link is removed, not what it leads to");
    }

    #[test]
    fn a_copy_has_links_as_links_and_nothing_that_is_left_out() {
        let from = made(&[("a/b", "text"), ("a/c", "text"), ("skip/d", "text")]);
        symlink("/etc/passwd", from.path().join("l")).unwrap();
        nix::unistd::mkfifo(&from.path().join("pipe"), Mode::S_IRWXU).unwrap();
        std::fs::set_permissions(from.path().join("a/b"), Permissions::from_mode(0o4755)).unwrap();
        let to = tempfile::tempdir().unwrap();
        let skip = |path: &Path| path == Path::new("skip");
        Copy::new(None, &skip, &mut || false).all(&opened(from.path()), &opened(to.path())).unwrap();
        assert_eq!(shown(to.path()), ["a/b", "a/c", "l"]);
        assert_eq!(std::fs::read_link(to.path().join("l")).unwrap(), Path::new("/etc/passwd"));
        let mode = std::fs::metadata(to.path().join("a/b")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "nobody else's program");
        let stopped = Copy::new(None, &skip, &mut || true).all(&opened(from.path()), &opened(to.path()));
        assert!(stopped.is_err());
    }
}
