//! Folders of the volume where engines can mount them: at a place of the runner's own, pinned by a descriptor.
//!
//! In: a path below the volume. Out: the same folder at a place that no step can change the way to. An engine that is
//! given a path of the volume resolves it again, after a step has put a link there; a descriptor of ours it cannot use,
//! because the kernel mounts nothing from another mount namespace. So it is mounted here, from the descriptor, and
//! unmounted when the attempt is over. What a crash leaves mounted is found by whoever takes the folder away.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::sandbox::mounted_below;
use crate::layout::create_private_dir;
use crate::task::Staged;
use crate::within::{Made, Volume};

/// Puts every folder in its place. What is of the whole build may be there already.
pub(super) fn stage(volume: &Path, mounts: &[Staged]) -> io::Result<()> {
    stage_unless(volume, mounts, |staged| staged.shared)
}

/// What is there stays.
pub(super) fn stage_missing(volume: &Path, mounts: &[Staged]) -> io::Result<()> {
    stage_unless(volume, mounts, |_| true)
}

fn stage_unless(volume: &Path, mounts: &[Staged], stays: impl Fn(&Staged) -> bool) -> io::Result<()> {
    if mounts.is_empty() {
        return Ok(());
    }
    let opened = Volume::open(volume)?;
    for staged in mounts {
        let folder = staged.at.parent().unwrap_or(Path::new("/"));
        create_private_dir(folder)?;
        // Steps of one build share what is of the whole build, and come at once.
        let lock = File::create(folder.join(".lock"))?;
        let _lock =
            Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
        if stays(staged) && !mounted_below(&staged.at)?.is_empty() {
            continue;
        }
        let shown = || format!("`{}` of the volume", staged.source.display());
        let source = source(&opened, &staged.source).map_err(|error| {
            io::Error::new(error.kind(), format!("{} cannot be mounted: {error}", shown()))
        })?;
        place(&source, &staged.at)?;
        let pinned = format!("/proc/self/fd/{}", source.as_raw_fd());
        mount(Some(pinned.as_str()), &staged.at, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(|errno| io::Error::other(format!("{} cannot be mounted: {}", shown(), errno.desc())))?;
    }
    Ok(())
}

fn source(volume: &Volume, relative: &Path) -> io::Result<OwnedFd> {
    match volume.any(relative) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            volume.make_folder(relative, Made::of(None)).map(drop)?;
            volume.any(relative)
        }
        found => found,
    }
}

/// Something to mount on, of the same kind.
fn place(source: &OwnedFd, at: &Path) -> io::Result<()> {
    let about = nix::sys::stat::fstat(source)?;
    if about.st_mode & nix::libc::S_IFMT == nix::libc::S_IFDIR {
        return create_private_dir(at);
    }
    File::create(at).map(drop)
}

/// Takes away what is mounted at and below a folder, the last first.
pub(crate) fn unmount_below(folder: &Path) -> io::Result<()> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let found: Vec<PathBuf> = mounted_below(&folder)?;
    for point in found.iter().rev() {
        umount2(point, MntFlags::MNT_DETACH)?;
    }
    Ok(())
}
