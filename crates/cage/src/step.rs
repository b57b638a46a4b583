//! What the child does before it becomes the program, as a list that was written before the fork.
//!
//! In that moment the child lives in our memory, beside threads that may hold the allocator's lock. So nothing here
//! allocates, locks or prints; every text was made beforehand, and what goes wrong is told by a number.

use std::ffi::CString;
use std::os::fd::RawFd;

use crate::filter::Filter;

pub(crate) enum Step {
    /// Into a namespace that was made before.
    Enter(RawFd, libc::c_int),
    /// A file with this content; where it is there already, the content is written to it.
    Write {
        path: CString,
        content: Vec<u8>,
    },
    Folder(CString),
    /// An empty file, as a place for a mount.
    File(CString),
    Link {
        target: CString,
        at: CString,
    },
    Mount {
        source: CString,
        at: CString,
        kind: Option<CString>,
        flags: libc::c_ulong,
        data: Option<CString>,
    },
    /// Attributes of a mount: some set on it and on all below it, some cleared on it alone.
    Seal {
        at: CString,
        set: u64,
        clear: u64,
    },
    /// The folder becomes the root, and what was the root is gone.
    Root(CString),
    Into(CString),
    HostName(&'static [u8]),
    /// A resource and its limit; never more than what is there.
    Limit(u32, u64),
    /// No capability can be had any more, not even by a program of the superuser.
    NoBounds,
    Groups,
    Group(u32),
    User(u32),
    NoCapabilities,
    /// Ends with the thread that started it.
    EndsWithParent,
    Landlock(RawFd),
    /// No descriptor but the first three reaches the program.
    NoDescriptors,
    Filter(Filter),
}

/// The error of a step: its place in the list in the upper half, the system's number in the lower.
pub(crate) fn run(steps: &[Step]) -> Result<(), i32> {
    for (index, step) in steps.iter().enumerate() {
        // SAFETY: after fork, single-threaded, with texts and numbers that were made before.
        if let Err(number) = unsafe { step.take() } {
            return Err((index as i32 + 1) << 16 | (number & 0xffff));
        }
    }
    Ok(())
}

pub(crate) fn errno() -> i32 {
    // SAFETY: the address of this thread's own number.
    unsafe { *libc::__errno_location() }
}

fn ok(answer: libc::c_long) -> Result<(), i32> {
    if answer < 0 { Err(errno()) } else { Ok(()) }
}

/// What is there already is as good.
fn ok_if_there(answer: libc::c_int) -> Result<(), i32> {
    match ok(answer.into()) {
        Err(libc::EEXIST) => Ok(()),
        other => other,
    }
}

impl Step {
    /// For the message: what could not be done.
    pub(crate) fn name(&self) -> String {
        let text = |path: &CString| path.to_string_lossy().into_owned();
        match self {
            Self::Enter(..) => "enter a namespace".into(),
            Self::Write { path, .. } => format!("write {}", text(path)),
            Self::Folder(path) | Self::File(path) => format!("make {}", text(path)),
            Self::Link { at, .. } => format!("make {}", text(at)),
            Self::Mount { source, at, .. } => format!("mount {} at {}", text(source), text(at)),
            Self::Seal { at, .. } => format!("seal {}", text(at)),
            Self::Root(_) => "change the root".into(),
            Self::Into(path) => format!("go to {}", text(path)),
            Self::HostName(_) => "set the name of the host".into(),
            Self::Limit(..) => "set a limit".into(),
            Self::NoBounds | Self::NoCapabilities => "drop capabilities".into(),
            Self::Groups | Self::Group(_) | Self::User(_) => "change the user".into(),
            Self::EndsWithParent => "bind its end to the parent's".into(),
            Self::Landlock(_) => "restrict itself with Landlock".into(),
            Self::NoDescriptors => "close descriptors".into(),
            Self::Filter(_) => "install the filter of system calls".into(),
        }
    }

    unsafe fn take(&self) -> Result<(), i32> {
        // SAFETY: plain system calls; every pointer is to a text of the list, which outlives the child's exec.
        unsafe {
            match self {
                Self::Enter(descriptor, kind) => ok(libc::setns(*descriptor, *kind).into()),
                Self::Write { path, content } => write(path, content),
                Self::Folder(path) => ok_if_there(libc::mkdir(path.as_ptr(), 0o755)),
                Self::File(path) => {
                    let made = libc::open(path.as_ptr(), libc::O_CREAT | libc::O_CLOEXEC, 0o644);
                    ok(made.into())?;
                    libc::close(made);
                    Ok(())
                }
                Self::Link { target, at } => ok_if_there(libc::symlink(target.as_ptr(), at.as_ptr())),
                Self::Mount { source, at, kind, flags, data } => {
                    let kind = kind.as_ref().map_or(std::ptr::null(), |kind| kind.as_ptr());
                    let data = data.as_ref().map_or(std::ptr::null(), |data| data.as_ptr());
                    ok(libc::mount(source.as_ptr(), at.as_ptr(), kind, *flags, data.cast()).into())
                }
                Self::Seal { at, set, clear } => {
                    let change = [*set, *clear, 0, 0];
                    let flags = if *clear == 0 { libc::AT_RECURSIVE } else { 0 };
                    let call = libc::SYS_mount_setattr;
                    ok(libc::syscall(call, libc::AT_FDCWD, at.as_ptr(), flags, &change, size_of_val(&change)))
                }
                Self::Root(folder) => root(folder),
                Self::Into(path) => ok(libc::chdir(path.as_ptr()).into()),
                Self::HostName(name) => ok(libc::sethostname(name.as_ptr().cast(), name.len()).into()),
                Self::Limit(resource, most) => limit(*resource, *most),
                Self::NoBounds => no_bounds(),
                Self::Groups => ok(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>())),
                Self::Group(id) => ok(libc::syscall(libc::SYS_setresgid, *id, *id, *id)),
                Self::User(id) => ok(libc::syscall(libc::SYS_setresuid, *id, *id, *id)),
                Self::NoCapabilities => no_capabilities(),
                Self::EndsWithParent => {
                    ok(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0).into())
                }
                Self::Landlock(ruleset) => {
                    ok(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
                    ok(libc::syscall(libc::SYS_landlock_restrict_self, *ruleset, 0))
                }
                // Marked and not closed: by one of them `std` tells the parent that exec failed.
                Self::NoDescriptors => {
                    ok(libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC))
                }
                Self::Filter(filter) => filter.install(0),
            }
        }
    }
}

unsafe fn write(path: &CString, content: &[u8]) -> Result<(), i32> {
    // SAFETY: as above.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC, 0o644);
        ok(file.into())?;
        let written = libc::write(file, content.as_ptr().cast(), content.len());
        let failed = (written != content.len() as isize).then(errno);
        libc::close(file);
        failed.map_or(Ok(()), Err)
    }
}

/// With `pivot_root(".", ".")` the old root lies over the new one, and goes away from there.
unsafe fn root(folder: &CString) -> Result<(), i32> {
    // SAFETY: as above.
    unsafe {
        ok(libc::chdir(folder.as_ptr()).into())?;
        ok(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()))?;
        ok(libc::umount2(c".".as_ptr(), libc::MNT_DETACH).into())?;
        ok(libc::chdir(c"/".as_ptr()).into())
    }
}

unsafe fn limit(resource: u32, most: u64) -> Result<(), i32> {
    // SAFETY: as above; the structure is on this stack.
    unsafe {
        let mut known: libc::rlimit64 = std::mem::zeroed();
        let none = std::ptr::null::<libc::rlimit64>();
        ok(libc::syscall(libc::SYS_prlimit64, 0, resource, none, &mut known))?;
        let most = most.min(known.rlim_max);
        let wanted = libc::rlimit64 { rlim_cur: most, rlim_max: most };
        ok(libc::syscall(libc::SYS_prlimit64, 0, resource, &wanted, std::ptr::null_mut::<libc::rlimit64>()))
    }
}

unsafe fn no_bounds() -> Result<(), i32> {
    // SAFETY: numbers alone.
    unsafe {
        let _ = libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        for capability in 0..64 {
            // The first number that the kernel does not know ends the list.
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 {
                return if errno() == libc::EINVAL { Ok(()) } else { Err(errno()) };
            }
        }
        Ok(())
    }
}

unsafe fn no_capabilities() -> Result<(), i32> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let none = [0u32; 6];
    // SAFETY: as above.
    unsafe { ok(libc::syscall(libc::SYS_capset, &header, &none)) }
}
