//! Ways into a volume: by descriptors, never by a path that is looked at and then used.
//!
//! Steps write to the volume, also while this looks, and may put a link anywhere. So the volume is opened once, and the
//! kernel resolves everything from there in one call that may not leave it (`openat2`); links inside of it that stay
//! inside are followed, as people expect. What comes out is a descriptor: whatever a step renames afterwards, it is
//! still the same file. The module knows paths below the volume only.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, mkdirat};
use nix::unistd::{Gid, Uid, fchown};

const FOLDER: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);
/// Nothing happens to what is opened so: no pipe is waited for, no device is woken.
const LOOK: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);
/// The kernel asks for another try when somebody renames folders meanwhile.
const TRIES: u32 = 128;

/// The volume of a build, or another folder that steps write to.
pub(crate) struct Volume(OwnedFd);

/// Whose a new folder is, and for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) owner: Option<u32>,
    pub(crate) mode: u32,
}

impl Made {
    pub(crate) fn of(owner: Option<u32>) -> Self {
        Self { owner, mode: 0o755 }
    }

    /// Images run as whatever user they like.
    pub(crate) fn open_to_all() -> Self {
        Self { owner: None, mode: 0o777 }
    }

    fn give(self, folder: &OwnedFd) -> io::Result<()> {
        if let Some(owner) = self.owner {
            fchown(folder, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?;
        }
        Ok(fchmod(folder, Mode::from_bits_truncate(self.mode))?)
    }
}

impl Volume {
    /// The way to the volume itself is the runner's own: no step can change it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(open(path, FOLDER | OFlag::O_NOFOLLOW, Mode::empty())?))
    }

    /// A folder or a plain file, to be mounted or looked at.
    pub(crate) fn any(&self, relative: &Path) -> io::Result<OwnedFd> {
        let found = self.beneath(&plain(relative)?, LOOK)?;
        if is(&found, SFlag::S_IFDIR)? || is(&found, SFlag::S_IFREG)? {
            return Ok(found);
        }
        Err(io::Error::other("it is neither a folder nor a file"))
    }

    pub(crate) fn folder(&self, relative: &Path) -> io::Result<OwnedFd> {
        self.beneath(&plain(relative)?, FOLDER)
    }

    /// A plain file, and nothing else that has its name.
    pub(crate) fn file(&self, relative: &Path) -> io::Result<File> {
        for_reading(&self.beneath(&plain(relative)?, LOOK)?)
    }

    /// At most so much of a file, or an error.
    pub(crate) fn read(&self, relative: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(relative)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(io::Error::other(format!("it is larger than {bytes_max} bytes")));
        }
        Ok(bytes)
    }

    /// The folder, made with those above it where they are missing.
    pub(crate) fn make_folder(&self, relative: &Path, made: Made) -> io::Result<OwnedFd> {
        let relative = plain(relative)?;
        let mut at = self.beneath(Path::new(""), FOLDER)?;
        let mut whole = PathBuf::new();
        for part in &relative {
            whole.push(part);
            at = match self.beneath(&whole, FOLDER) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match mkdirat(&at, part, Mode::from_bits_truncate(0o700)) {
                        Ok(()) => {
                            let new =
                                openat(&at, part, FOLDER | OFlag::O_NOFOLLOW, Mode::empty()).map_err(told)?;
                            made.give(&new)?;
                            new
                        }
                        // A step beside this one was quicker, or there is a link that leads nowhere.
                        Err(Errno::EEXIST) => self.beneath(&whole, FOLDER)?,
                        Err(errno) => return Err(told(errno)),
                    }
                }
                opened => opened?,
            };
        }
        Ok(at)
    }

    fn beneath(&self, relative: &Path, flags: OFlag) -> io::Result<OwnedFd> {
        let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let how = OpenHow::new()
            .flags(flags)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        for _ in 0..TRIES {
            match openat2(&self.0, path, how) {
                Ok(opened) => return Ok(opened),
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                // An old kernel, or a filter around us that does not know the call.
                Err(Errno::ENOSYS | Errno::EPERM) => return self.step_by_step(relative, flags),
                Err(errno) => return Err(told(errno)),
            }
        }
        Err(io::Error::other("it is moved again and again"))
    }

    /// The same through folders only: no link is followed at all.
    fn step_by_step(&self, relative: &Path, flags: OFlag) -> io::Result<OwnedFd> {
        let mut at = openat(&self.0, ".", LOOK | OFlag::O_DIRECTORY, Mode::empty())?;
        let Some(name) = relative.file_name() else {
            return Ok(openat(&at, ".", flags, Mode::empty())?);
        };
        for part in relative.parent().into_iter().flat_map(Path::iter) {
            at = openat(&at, part, LOOK | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW, Mode::empty())
                .map_err(told)?;
        }
        openat(&at, name, flags | OFlag::O_NOFOLLOW, Mode::empty()).map_err(told)
    }
}

/// At most so much of a plain file in a folder that somebody else writes to.
pub(crate) fn read_in(folder: &Path, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    Volume::open(folder)?.read(Path::new(name), bytes_max)
}

/// A plain file of a folder, and nothing else that has its name: no link, and no device, which merely to open would do
/// something to the machine.
pub(crate) fn file_at(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    for_reading(&openat(folder, name, LOOK | OFlag::O_NOFOLLOW, Mode::empty()).map_err(told)?)
}

fn for_reading(found: &OwnedFd) -> io::Result<File> {
    if !is(found, SFlag::S_IFREG)? {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a file"));
    }
    // The same file again, for reading.
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(File::from(open(again.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?))
}

fn is(opened: impl AsFd, kind: SFlag) -> io::Result<bool> {
    Ok(fstat(opened)?.st_mode & SFlag::S_IFMT.bits() == kind.bits())
}

/// Names alone.
fn plain(relative: &Path) -> io::Result<PathBuf> {
    let mut clean = PathBuf::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            _ => return Err(left()),
        }
    }
    Ok(clean)
}

fn left() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "it leaves the volume")
}

/// The kernel's answers to a way out, in words.
fn told(errno: Errno) -> io::Error {
    match errno {
        Errno::EXDEV | Errno::ELOOP => left(),
        Errno::ENOTDIR => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it goes through a link that leaves the volume, or is not a folder",
        ),
        errno => errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn volume() -> (tempfile::TempDir, Volume) {
        let dir = tempfile::tempdir().unwrap();
        let volume = Volume::open(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        std::fs::write(dir.path().join("in/file"), "text").unwrap();
        symlink("in", dir.path().join("link")).unwrap();
        symlink("/etc", dir.path().join("out")).unwrap();
        symlink("../../../../../../etc/passwd", dir.path().join("far")).unwrap();
        symlink("/proc/self/root", dir.path().join("magic")).unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        (dir, volume)
    }

    #[test]
    fn a_link_out_of_the_volume_is_not_followed() {
        let (dir, volume) = volume();
        let made = Made::of(None);
        for way in ["out", "out/ssl", "far", "magic/etc", "../x", "in/../../x", "/etc", "dangling/x"] {
            let way = Path::new(way);
            assert!(volume.any(way).is_err() && volume.file(way).is_err(), "{}", way.display());
            assert!(
                volume.folder(way).is_err() && volume.make_folder(way, made).is_err(),
                "{}",
                way.display()
            );
        }
        assert_eq!(volume.read(Path::new("link/file"), 4).unwrap(), b"text");
        assert!(volume.read(Path::new("link/file"), 3).is_err(), "it is larger");
        volume.make_folder(Path::new("link/new/deep"), made).unwrap();
        assert!(dir.path().join("in/new/deep").is_dir());
        assert!(volume.folder(Path::new("none")).is_err());
    }

    #[test]
    fn step_by_step_no_link_is_followed_at_all() {
        let (_dir, volume) = volume();
        assert!(volume.step_by_step(Path::new("in/file"), LOOK).is_ok());
        assert!(volume.step_by_step(Path::new(""), FOLDER).is_ok());
        for way in ["link/file", "out/ssl", "link", "out"] {
            assert!(volume.step_by_step(Path::new(way), FOLDER).is_err(), "{way}");
        }
    }

    #[test]
    fn pipes_are_not_waited_for_and_are_no_files() {
        let (dir, volume) = volume();
        nix::unistd::mkfifo(&dir.path().join("pipe"), Mode::S_IRWXU).unwrap();
        assert!(volume.file(Path::new("pipe")).is_err());
        assert!(volume.any(Path::new("pipe")).is_err());
    }

    /// A step swaps a folder for a link as fast as it can: what is opened is never outside.
    #[test]
    fn a_swap_between_look_and_use_wins_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("f"), "secret").unwrap();
        let root = dir.path().to_owned();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let racer = std::thread::spawn({
            let (stop, outside) = (stop.clone(), outside.path().to_owned());
            move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = std::fs::create_dir(root.join("x"));
                    let _ = std::fs::write(root.join("x/f"), "mine");
                    let _ = std::fs::remove_dir_all(root.join("x"));
                    let _ = symlink(&outside, root.join("x"));
                    let _ = std::fs::remove_file(root.join("x"));
                }
            }
        });
        let volume = Volume::open(dir.path()).unwrap();
        let (mut seen, mut tries) = (0, 0);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        // On a busy machine the other thread may not run for a while.
        while tries < 20_000 || (seen == 0 && std::time::Instant::now() < until) {
            tries += 1;
            if let Ok(text) = volume.read(Path::new("x/f"), 100) {
                assert!(text == b"mine" || text.is_empty(), "{text:?}");
                seen += 1;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        racer.join().unwrap();
        assert!(seen > 0, "the race was one");
    }
}
