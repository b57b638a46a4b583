//! The kernel's own fence for processes without rights: which folders may be read, which written, which port reached.
//!
//! Everything is opened before the fork; the child only puts itself inside.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
/// Remove, make of every kind but devices; bits 4 to 12.
const MAKE: u64 = 0x1ff0 & !(1 << 6 | 1 << 11);
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;
/// Sockets without a path, and signals, to processes outside.
const SCOPES: u64 = 0b11;

/// The version that this kernel has; 0: none.
pub(crate) fn version() -> i64 {
    // SAFETY: with no structure and the flag for it, the call only tells a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, 1) };
    version.max(0)
}

pub(crate) struct Rules {
    ruleset: OwnedFd,
    version: i64,
}

pub(crate) enum Ports {
    All,
    Only(Option<u16>),
}

impl Rules {
    /// `files`: whether anything is said about files, or the mounts say it all.
    pub(crate) fn new(files: bool, ports: &Ports) -> io::Result<Self> {
        let version = version();
        if version < 1 || (!files && version < 4) {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let files = match version {
            _ if !files => 0,
            1 => 0x1fff,
            2 => 0x1fff | REFER,
            3 | 4 => 0x1fff | REFER | TRUNCATE,
            _ => 0x1fff | REFER | TRUNCATE | IOCTL_DEV,
        };
        let net = if version >= 4 && matches!(ports, Ports::Only(_)) { BIND_TCP | CONNECT_TCP } else { 0 };
        let scoped = if version >= 6 { SCOPES } else { 0 };
        let attributes = [files, net, scoped];
        let size = match version {
            1..=3 => 8,
            4 | 5 => 16,
            _ => 24,
        };
        // SAFETY: the structure is on this stack and as long as said.
        let ruleset = unsafe {
            let made = libc::syscall(libc::SYS_landlock_create_ruleset, &attributes, size, 0);
            if made < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(made as i32)
        };
        let rules = Self { ruleset, version };
        if let (Ports::Only(Some(port)), true) = (ports, net != 0) {
            rules.add(2, &[CONNECT_TCP, u64::from(*port)])?;
        }
        Ok(rules)
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.ruleset.as_raw_fd()
    }

    pub(crate) fn read(&self, path: &Path) -> io::Result<()> {
        self.beneath(path, EXECUTE | READ_FILE | READ_DIR)
    }

    pub(crate) fn write(&self, path: &Path, execute: bool) -> io::Result<()> {
        let mut access = WRITE_FILE | READ_FILE | READ_DIR | MAKE;
        if execute {
            access |= EXECUTE;
        }
        if self.version >= 2 {
            access |= REFER;
        }
        if self.version >= 3 {
            access |= TRUNCATE;
        }
        self.beneath(path, access)
    }

    /// Devices such as /dev/null.
    pub(crate) fn device(&self, path: &Path) -> io::Result<()> {
        self.beneath(path, READ_FILE | WRITE_FILE)
    }

    fn beneath(&self, path: &Path, access: u64) -> io::Result<()> {
        let text = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a text that ends with zero; the descriptor is owned from here.
        let opened = unsafe {
            let opened = libc::open(text.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            if opened < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(opened)
        };
        let folder = path.is_dir();
        let for_files = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;
        let access = if folder { access } else { access & for_files };
        // The kernel's structure is packed: eight bytes of rights, four of descriptor.
        self.add(1, &[access, u64::from(opened.as_raw_fd().cast_unsigned())])
    }

    fn add(&self, kind: libc::c_int, rule: &[u64; 2]) -> io::Result<()> {
        // SAFETY: the kernel reads 12 or 16 bytes of the 16; the low half of the second word comes first here.
        let added = unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, self.ruleset.as_raw_fd(), kind, rule.as_ptr(), 0)
        };
        if added < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
