//! A place for a process of this machine: its own mounts, processes, host name and IPC.
//!
//! It sees the system's programs and libraries read-only, a private `/tmp`, a small `/dev`, its own
//! `/proc` and the volume, the only thing of ours it may write. Everything else, homes and data
//! folders above all, is not hidden but simply not there. As root the program becomes a user that
//! owns nothing on the machine; otherwise a user namespace gives us the right to mount, and a second
//! one takes it away again before the program starts. The network is the machine's.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, geteuid, pivot_root, sethostname};

use super::SUBCOMMAND;
use crate::layout::{BIN, give};
use crate::task::Sandbox;

/// Owns nothing on the machine. Below the range of dynamic users, above those of packages and people.
const UNPRIVILEGED: u32 = 61_100;
/// Of the root folder; what is not there is left out.
const VISIBLE: [&str; 11] =
    ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "nix", "gnu"];
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Whom a step becomes when the runner is root.
pub(crate) fn unprivileged_user() -> Option<u32> {
    geteuid().is_root().then_some(UNPRIVILEGED)
}

/// Whether this machine lets us make a sandbox, and if not, what it said.
pub(crate) fn probe(shim: &Path, dir: &Path) -> Result<(), String> {
    for name in ["root", "tmp", "volume", "bin"] {
        crate::layout::create_private_dir(&dir.join(name)).map_err(|error| error.to_string())?;
    }
    give(&dir.join("volume"), unprivileged_user()).map_err(|error| error.to_string())?;
    let output = Command::new(shim)
        .env_clear()
        .envs(slipway_container::environment())
        .args([OsStr::new(SUBCOMMAND), OsStr::new("probe"), dir.as_os_str()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", shim.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().last().unwrap_or("it gave no reason").to_owned())
}

/// The next child of this process is the first of a new process namespace.
pub(super) fn enter_pid_namespace() -> io::Result<()> {
    if geteuid().is_root() {
        return named("process namespace", unshare(CloneFlags::CLONE_NEWPID));
    }
    let (uid, gid) = (geteuid(), nix::unistd::getegid());
    named("user namespace", unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID))?;
    map_ids(0, uid.as_raw(), gid.as_raw())
}

pub(super) struct Mounts {
    /// Where the new root is put together.
    pub(super) root: PathBuf,
    pub(super) tmp: PathBuf,
    /// What it may write.
    pub(super) volume: PathBuf,
    /// Where that is inside.
    pub(super) volume_at: &'static str,
    pub(super) bin: PathBuf,
}

/// To be called by the first process of the namespace.
pub(super) fn enter(sandbox: &Sandbox, mounts: &Mounts) -> io::Result<()> {
    // Before the first namespace the runner was this user; inside it is 0, mapped to the same.
    let outer = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let outer: Vec<u32> = outer.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let nested = !matches!(outer.as_slice(), [0, 0, _]);
    let owner = (outer.get(1).copied().unwrap_or(0), group_of(nested));

    let all = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    named("mount namespace", unshare(all))?;
    let _ = sethostname("slipway");
    at("/", mount(none(), "/", none(), MsFlags::MS_REC | MsFlags::MS_PRIVATE, none()))?;
    build_root(sandbox, mounts)?;

    chdir(&mounts.root)?;
    named("new root", pivot_root(".", "."))?;
    named("new root", umount2(".", MntFlags::MNT_DETACH))?;
    chdir("/")?;
    if nested {
        // In this second namespace the program holds no right over the mounts of the first.
        named("user namespace", unshare(CloneFlags::CLONE_NEWUSER))?;
        map_ids_to_inner_root(owner.0, owner.1)?;
    }
    Ok(())
}

fn build_root(sandbox: &Sandbox, mounts: &Mounts) -> io::Result<()> {
    let root = &mounts.root;
    crate::layout::create_private_dir(root)?;
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    at(root, mount(Some("tmpfs"), root, Some("tmpfs"), plain, Some("size=16m,mode=0755")))?;

    for name in VISIBLE {
        let source = Path::new("/").join(name);
        match fs::symlink_metadata(&source) {
            Ok(meta) if meta.is_symlink() => {
                std::os::unix::fs::symlink(fs::read_link(&source)?, root.join(name))?;
            }
            Ok(meta) if meta.is_dir() => bind(&source, &root.join(name), Access::ReadOnly)?,
            _ => {}
        }
    }
    for path in &sandbox.read_only {
        if path.is_absolute() && path.exists() {
            bind(path, &below(root, path), Access::ReadOnly)?;
        }
    }
    resolver(root)?;
    devices(root)?;

    make_dir(&root.join("proc"))?;
    let proc_flags = plain | MsFlags::MS_NOEXEC;
    at("/proc", mount(Some("proc"), &root.join("proc"), Some("proc"), proc_flags, none()))?;

    temporary(root, mounts, sandbox.user)?;
    make_dir(&root.join("run"))?;
    make_dir(&root.join("root"))?;
    bind(&mounts.volume, &below(root, Path::new(mounts.volume_at)), Access::Writable)?;
    bind(&mounts.bin, &below(root, Path::new(BIN)), Access::ReadOnly)?;

    for path in &sandbox.hide {
        let inside = below(root, path);
        if path.is_absolute() && inside.is_dir() {
            at(
                &inside,
                mount(Some("tmpfs"), &inside, Some("tmpfs"), plain | MsFlags::MS_RDONLY, Some("size=4k")),
            )?;
        }
    }
    if let Some(user) = sandbox.user {
        accounts(root, user)?;
    }
    let read_only = plain | MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    at(root, mount(none(), root, none(), read_only, none()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadOnly,
    Writable,
}

fn bind(source: &Path, target: &Path, access: Access) -> io::Result<()> {
    if source.is_dir() {
        make_dir(target)?;
    } else {
        make_dir(target.parent().unwrap_or(Path::new("/")))?;
        if !target.exists() {
            fs::File::create(target)?;
        }
    }
    at(source, mount(Some(source), target, none(), MsFlags::MS_BIND | MsFlags::MS_REC, none()))?;
    // A remount changes one mount only, so everything below it has its turn too.
    let target = target.canonicalize()?;
    for (point, mut flags) in mounts_below(&target)? {
        flags |= MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID;
        if !point.starts_with("/dev") && !target.ends_with("dev") {
            flags |= MsFlags::MS_NODEV;
        }
        if access == Access::ReadOnly {
            flags |= MsFlags::MS_RDONLY;
        }
        at(&point, mount(none(), &point, none(), flags, none()))?;
    }
    Ok(())
}

/// Mount points at and below a path with the flags that a remount has to keep.
fn mounts_below(target: &Path) -> io::Result<Vec<(PathBuf, MsFlags)>> {
    let text = fs::read_to_string("/proc/self/mountinfo")?;
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ').skip(4);
        let (Some(point), Some(options)) = (words.next(), words.next()) else { continue };
        let point = PathBuf::from(unescape(point));
        if !point.starts_with(target) {
            continue;
        }
        let flags = options.split(',').fold(MsFlags::empty(), |flags, option| {
            flags
                | match option {
                    "ro" => MsFlags::MS_RDONLY,
                    "noexec" => MsFlags::MS_NOEXEC,
                    "nodev" => MsFlags::MS_NODEV,
                    "noatime" => MsFlags::MS_NOATIME,
                    "nodiratime" => MsFlags::MS_NODIRATIME,
                    "relatime" => MsFlags::MS_RELATIME,
                    _ => MsFlags::empty(),
                }
        });
        found.push((point, flags));
    }
    Ok(found)
}

/// Mount points at and below a path, the outer ones first.
pub(crate) fn mounted_below(target: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(mounts_below(target)?.into_iter().map(|(point, _)| point).collect())
}

/// `\040` and friends.
fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.filter(|_| bytes[at] == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// `/etc/resolv.conf` is often a link into `/run`, which is not there.
fn resolver(root: &Path) -> io::Result<()> {
    let Ok(real) = Path::new("/etc/resolv.conf").canonicalize() else { return Ok(()) };
    let inside = below(root, &real);
    if inside.exists() { Ok(()) } else { bind(&real, &inside, Access::ReadOnly) }
}

fn devices(root: &Path) -> io::Result<()> {
    let dev = root.join("dev");
    make_dir(&dev)?;
    for name in DEVICES {
        let source = Path::new("/dev").join(name);
        if source.exists() {
            let target = dev.join(name);
            fs::File::create(&target)?;
            at(&source, mount(Some(&source), &target, none(), MsFlags::MS_BIND, none()))?;
        }
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        std::os::unix::fs::symlink(target, dev.join(name))?;
    }
    let shm = dev.join("shm");
    make_dir(&shm)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    at("/dev/shm", mount(Some("tmpfs"), &shm, Some("tmpfs"), flags, Some("size=64m,mode=1777")))
}

fn temporary(root: &Path, mounts: &Mounts, user: Option<u32>) -> io::Result<()> {
    let home = mounts.tmp.join("home");
    crate::layout::create_private_dir(&home)?;
    fs::set_permissions(&mounts.tmp, fs::Permissions::from_mode(0o1777))?;
    give(&home, user)?;
    bind(&mounts.tmp, &root.join("tmp"), Access::Writable)?;
    bind(&mounts.tmp, &root.join("var/tmp"), Access::Writable)
}

/// Many programs want to know who they are.
fn accounts(root: &Path, user: u32) -> io::Result<()> {
    for (name, line) in [
        ("passwd", format!("slipway:x:{user}:{user}:a step of a build:/tmp/home:/bin/sh\n")),
        ("group", format!("slipway:x:{user}:\n")),
    ] {
        let target = root.join("etc").join(name);
        if !target.is_file() {
            continue;
        }
        let mut text = fs::read_to_string(&target)?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let own = root.join(format!(".{name}"));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&own)?;
        file.write_all((text + &line).as_bytes())?;
        at(&target, mount(Some(&own), &target, none(), MsFlags::MS_BIND, none()))?;
    }
    Ok(())
}

fn map_ids(inside: u32, uid: u32, gid: u32) -> io::Result<()> {
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{inside} {uid} 1"))?;
    write("/proc/self/gid_map", &format!("{inside} {gid} 1"))
}

/// The user's own number again, seen from a namespace in which it is 0.
fn map_ids_to_inner_root(uid: u32, gid: u32) -> io::Result<()> {
    write("/proc/self/uid_map", &format!("{uid} 0 1"))?;
    write("/proc/self/gid_map", &format!("{gid} 0 1"))
}

fn write(path: &str, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

fn group_of(nested: bool) -> u32 {
    if !nested {
        return 0;
    }
    let map = fs::read_to_string("/proc/self/gid_map").unwrap_or_default();
    map.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn make_dir(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn none() -> Option<&'static str> {
    None
}

fn named<T>(what: &str, result: nix::Result<T>) -> io::Result<T> {
    result.map_err(|errno| io::Error::other(format!("{what}: {}", errno.desc())))
}

fn at(path: impl AsRef<Path>, result: nix::Result<()>) -> io::Result<()> {
    result
        .map_err(|errno| io::Error::other(format!("mount of {}: {}", path.as_ref().display(), errno.desc())))
}
