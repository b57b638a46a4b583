//! A folder of one server, and its end: whatever becomes of the test process, a small shell beside it notices,
//! ends the processes noted in the folder and removes it.

use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const JANITOR: &str = r#"
cat >/dev/null
for note in "$1"/*.pid; do [ -f "$note" ] && kill -9 "$(cat "$note")" 2>/dev/null; done
tries=0
until rm -rf "$1" 2>/dev/null; do tries=$((tries+1)); [ $tries -gt 50 ] && exit; sleep 0.1; done
"#;

pub(crate) struct Folder {
    path: PathBuf,
    janitor: Child,
    owner: Option<Owner>,
}

/// Whom the server runs as: some refuse to run as root.
#[derive(Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Folder {
    /// `user` owns it and runs what is started in it, when we are root and the user exists.
    pub(crate) fn new(name: &str, user: &str) -> Self {
        let path = tempfile::Builder::new()
            .prefix(&format!("slipway-{name}-"))
            .tempdir()
            .expect("a temporary folder can be made")
            .keep();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("our own folder");
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "janitor"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh can be started");
        let owner = is_root().then(|| owner(user)).flatten();
        let folder = Self { path, janitor, owner };
        if let Some(owner) = owner {
            chown(&folder.path, Some(owner.uid), Some(owner.gid)).expect("root may give a folder away");
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.path.join(name);
        std::fs::write(&path, content).expect("our own folder");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("our own file");
        if let Some(owner) = self.owner {
            chown(&path, Some(owner.uid), Some(owner.gid)).expect("root may give a file away");
        }
        path
    }

    /// A command that runs as the folder's owner, in the folder.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = match self.owner {
            None => Command::new(program),
            Some(owner) => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={}", owner.uid))
                    .arg(format!("--regid={}", owner.gid))
                    .args(["--clear-groups", "--"])
                    .arg(program);
                command
            }
        };
        command.current_dir(&self.path).env("HOME", &self.path).stdin(Stdio::null());
        command
    }

    /// Starts it with its output in `NAME.log`, and notes it for the janitor.
    pub(crate) fn start(&self, name: &str, command: &mut Command) -> Child {
        let log = std::fs::File::create(self.path.join(format!("{name}.log"))).expect("our own folder");
        let errors = log.try_clone().expect("a file can be shared");
        let child = command
            .stdout(log)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}: run scripts/setup.sh test"));
        self.note(name, child.id());
        child
    }

    pub(crate) fn note(&self, name: &str, pid: u32) {
        std::fs::write(self.path.join(format!("{name}.pid")), pid.to_string()).expect("our own folder");
    }

    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path.join(format!("{name}.log"))).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0)
}

fn owner(user: &str) -> Option<Owner> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = |name: &str| {
        users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find_map(|fields| match fields[..] {
            [found, _, uid, gid, ..] if found == name => {
                Some(Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
            }
            _ => None,
        })
    };
    fields(user).or_else(|| fields("nobody"))
}

/// Asks until it is so, or fails with what the server said.
pub(crate) fn wait_until(
    what: &str,
    within: Duration,
    log: impl Fn() -> String,
    mut ready: impl FnMut() -> bool,
) {
    let until = Instant::now() + within;
    while !ready() {
        assert!(Instant::now() < until, "{what} is not ready after {within:?}:\n{}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// SIGTERM and its kin, to a process that we started.
pub(crate) fn signal(pid: u32, name: &str) -> io::Result<()> {
    Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().map(|_| ())
}

/// The first that is there.
pub(crate) fn program(candidates: &[&str]) -> PathBuf {
    candidates
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("none of {candidates:?} is there: run scripts/setup.sh test"))
}
