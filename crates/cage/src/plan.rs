//! A cage and a command come in, the steps of the child go out. Everything is looked up and written down here.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::filter::{Filter, Sockets};
use crate::landlock::{Ports, Rules};
use crate::level::Level;
use crate::step::Step;
use crate::system::system;
use crate::{Cage, Network, net, user};

/// The steps, and what must stay open until they were taken.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Asked for when the child is made.
    pub(crate) namespaces: libc::c_int,
    _rules: Option<Rules>,
    _network: Network,
}

/// Where the new root is put together. The folder is everywhere, and nothing that a program sees comes from there.
const ROOT: &str = "/proc";
/// Where programs are looked for when the command does not say it.
pub(crate) const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

const NAMESPACES: libc::c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWPID;

const READ_ONLY: u64 = 1;
const NO_SET_ID: u64 = 2;
const NO_DEVICES: u64 = 4;
const NO_EXECUTION: u64 = 8;

impl Plan {
    pub(crate) fn new(cage: &Cage, command: &Command, program: &Path, level: Level) -> io::Result<Self> {
        let place = match command.get_current_dir() {
            Some(folder) if folder.is_absolute() => folder.to_owned(),
            _ => PathBuf::from("/"),
        };
        let mut plan =
            Self { steps: Vec::new(), namespaces: 0, _rules: None, _network: cage.network.clone() };
        match level {
            Level::Namespaces => {
                plan.namespaces = NAMESPACES;
                plan.enter_network(cage)?;
                plan.mounts(cage, program, &place)?;
                plan.limits(cage);
                plan.user(cage);
                plan.steps.push(Step::EndsWithParent);
            }
            Level::UserNamespace => {
                plan.user_namespace(cage)?;
                plan.mounts(cage, program, &place)?;
                plan.limits(cage);
                plan.steps.extend([Step::NoBounds, Step::NoCapabilities, Step::EndsWithParent]);
                if let Network::Private(private) = &cage.network {
                    plan.restrict(Rules::new(false, &Ports::Only(Some(private.port)))?);
                }
            }
            Level::Landlock => {
                plan.limits(cage);
                plan.user(cage);
                plan.steps.push(Step::EndsWithParent);
                plan.restrict(rules(cage, program)?);
            }
            Level::Filter => {
                plan.limits(cage);
                plan.user(cage);
                plan.steps.push(Step::EndsWithParent);
            }
        }
        plan.steps.push(Step::NoDescriptors);
        plan.steps.push(Step::Filter(Filter::for_child(match cage.network {
            Network::None => Sockets::None,
            Network::Private(_) => Sockets::Tcp,
            Network::Host => Sockets::Internet,
        })));
        Ok(plan)
    }

    /// What a number of [`crate::step::run`] means.
    pub(crate) fn explain(&self, number: i32) -> io::Error {
        if number >> 16 == 0 {
            return io::Error::from_raw_os_error(number);
        }
        let (step, number) = ((number >> 16) as usize - 1, number & 0xffff);
        let reason = io::Error::from_raw_os_error(number);
        let step = self.steps.get(step).map_or_else(|| "be built".to_owned(), Step::name);
        io::Error::other(format!("the program was not started, because its cage could not {step}: {reason}"))
    }

    fn enter_network(&mut self, cage: &Cage) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let descriptor = match &cage.network {
            Network::Host => return Ok(()),
            Network::None => net::empty()?,
            Network::Private(private) => match &private.namespace {
                Some(namespace) => namespace.as_raw_fd(),
                None => return Err(io::Error::other("this listener is not in a namespace of its own")),
            },
        };
        self.steps.push(Step::Enter(descriptor, libc::CLONE_NEWNET));
        Ok(())
    }

    fn user_namespace(&mut self, cage: &Cage) -> io::Result<()> {
        // SAFETY: both always succeed.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        self.namespaces = NAMESPACES | libc::CLONE_NEWUSER;
        if matches!(cage.network, Network::None) {
            self.namespaces |= libc::CLONE_NEWNET;
        }
        for (path, content) in [
            ("/proc/self/setgroups", "deny".to_owned()),
            ("/proc/self/uid_map", format!("{user} {user} 1\n")),
            ("/proc/self/gid_map", format!("{group} {group} 1\n")),
        ] {
            self.steps.push(Step::Write { path: text(path)?, content: content.into_bytes() });
        }
        Ok(())
    }

    /// A root of its own with the system's programs, the program, what is read, what is written.
    fn mounts(&mut self, cage: &Cage, program: &Path, place: &Path) -> io::Result<()> {
        let system = system();
        let mut read: Vec<PathBuf> = system.shown.clone();
        if matches!(cage.network, Network::Host) {
            read.extend(system.for_network.iter().cloned());
        }
        read.extend(cage.read.iter().cloned());
        // The rehearsal starts nothing.
        read.extend(Some(program.to_owned()).filter(|path| path != Path::new("/")));
        let mut tree = Tree::default();
        self.steps.push(Step::HostName(b"cage"));
        self.mount("none", "/", None, libc::MS_REC | libc::MS_PRIVATE, None)?;
        self.mount("cage", ROOT, Some("tmpfs"), 0, Some("size=4m,mode=755"))?;
        self.steps.push(Step::Folder(text(inside("/tmp"))?));
        let private = libc::MS_NOSUID | libc::MS_NODEV;
        self.mount("cage", inside("/tmp"), Some("tmpfs"), private, Some("size=256m,mode=1777"))?;
        for (link, target) in &system.links {
            self.steps.push(Step::Link { target: text(target)?, at: text(inside(link))? });
        }
        for path in &read {
            self.show(&mut tree, path)?;
        }
        for path in cage.write.iter().chain(&system.devices) {
            tree.place(path, &mut self.steps)?;
        }
        if !tree.is_below(place) {
            tree.folders(place, &mut self.steps)?;
        }
        self.people(cage, &mut tree)?;
        self.seal(ROOT, READ_ONLY | NO_SET_ID | NO_DEVICES, 0)?;
        self.seal(inside("/tmp"), 0, READ_ONLY)?;
        for path in &cage.write {
            self.mount(path, inside(path), None, libc::MS_BIND | libc::MS_REC, None)?;
            let execution = if cage.runnable { 0 } else { NO_EXECUTION };
            self.seal(inside(path), NO_SET_ID | NO_DEVICES | execution, 0)?;
        }
        for path in &system.devices {
            self.mount(path, inside(path), None, libc::MS_BIND, None)?;
        }
        self.steps.push(Step::Root(text(ROOT)?));
        self.steps.push(Step::Into(text(place)?));
        Ok(())
    }

    fn show(&mut self, tree: &mut Tree, path: &Path) -> io::Result<()> {
        if tree.is_below(path) {
            return Ok(());
        }
        tree.place(path, &mut self.steps)?;
        tree.shown.push(path.to_owned());
        self.mount(path, inside(path), None, libc::MS_BIND | libc::MS_REC, None)
    }

    /// ssh asks who it runs as.
    fn people(&mut self, cage: &Cage, tree: &mut Tree) -> io::Result<()> {
        tree.folders(Path::new("/etc"), &mut self.steps)?;
        let (user, group) = cage.ids();
        for (path, content) in [
            ("/etc/passwd", format!("cage:x:{user}:{group}::/tmp:/bin/false\n")),
            ("/etc/group", format!("cage:x:{group}:\n")),
        ] {
            self.steps.push(Step::Write { path: text(inside(path))?, content: content.into_bytes() });
        }
        Ok(())
    }

    fn limits(&mut self, cage: &Cage) {
        let limits = &cage.limits;
        let own_user = cage.ids().0 != 0 && cage.changes_user();
        for (resource, most) in [
            (libc::RLIMIT_CORE, Some(0)),
            (libc::RLIMIT_AS, limits.memory_bytes),
            (libc::RLIMIT_FSIZE, limits.file_bytes),
            (libc::RLIMIT_NOFILE, limits.descriptors),
            (libc::RLIMIT_CPU, limits.cpu_seconds),
            // Processes are counted by user: a shared one has others already.
            (libc::RLIMIT_NPROC, limits.processes.filter(|_| own_user)),
        ] {
            if let Some(most) = most {
                self.steps.push(Step::Limit(resource, most));
            }
        }
    }

    fn user(&mut self, cage: &Cage) {
        if user::can_change() {
            self.steps.extend([Step::NoBounds, Step::Groups]);
        }
        if cage.changes_user() {
            let (user, group) = cage.ids();
            self.steps.extend([Step::Group(group), Step::User(user)]);
        }
        self.steps.push(Step::NoCapabilities);
    }

    fn restrict(&mut self, rules: Rules) {
        self.steps.push(Step::Landlock(rules.descriptor()));
        self._rules = Some(rules);
    }

    fn mount(
        &mut self,
        source: impl AsRef<OsStr>,
        at: impl AsRef<OsStr>,
        kind: Option<&str>,
        flags: libc::c_ulong,
        data: Option<&str>,
    ) -> io::Result<()> {
        self.steps.push(Step::Mount {
            source: text(source)?,
            at: text(at)?,
            kind: kind.map(text).transpose()?,
            flags,
            data: data.map(text).transpose()?,
        });
        Ok(())
    }

    fn seal(&mut self, at: impl AsRef<OsStr>, set: u64, clear: u64) -> io::Result<()> {
        self.steps.push(Step::Seal { at: text(at)?, set, clear });
        Ok(())
    }
}

fn rules(cage: &Cage, program: &Path) -> io::Result<Rules> {
    let ports = match &cage.network {
        Network::None => Ports::Only(None),
        Network::Private(private) => Ports::Only(Some(private.port)),
        Network::Host => Ports::All,
    };
    let (rules, system) = (Rules::new(true, &ports)?, system());
    let people = ["/etc/passwd", "/etc/group"].map(PathBuf::from);
    let network = system.for_network.iter().filter(|_| matches!(cage.network, Network::Host));
    for path in
        system.shown.iter().chain(network).chain(&cage.read).chain(people.iter().filter(|p| p.exists()))
    {
        rules.read(path)?;
    }
    // The rehearsal starts nothing.
    if program != Path::new("/") {
        rules.read(program)?;
    }
    for path in &system.devices {
        rules.device(path)?;
    }
    for path in &cage.write {
        rules.write(path, cage.runnable)?;
    }
    Ok(rules)
}

/// What was made in the new root so far.
#[derive(Default)]
struct Tree {
    made: BTreeSet<PathBuf>,
    shown: Vec<PathBuf>,
}

impl Tree {
    fn is_below(&self, path: &Path) -> bool {
        self.shown.iter().any(|shown| path.starts_with(shown))
            || system().links.iter().any(|(link, _)| path.starts_with(link))
    }

    /// Makes a folder or an empty file where something is mounted later.
    fn place(&mut self, path: &Path, steps: &mut Vec<Step>) -> io::Result<()> {
        check(path)?;
        if self.is_below(path) {
            return Ok(());
        }
        let unseen =
            |error| io::Error::other(format!("`{}` cannot be shown to the program: {error}", path.display()));
        if std::fs::metadata(path).map_err(unseen)?.is_dir() {
            return self.folders(path, steps);
        }
        self.folders(path.parent().unwrap_or(Path::new("/")), steps)?;
        if self.made.insert(path.to_owned()) {
            steps.push(Step::File(text(inside(path))?));
        }
        Ok(())
    }

    fn folders(&mut self, path: &Path, steps: &mut Vec<Step>) -> io::Result<()> {
        let mut at = PathBuf::from("/");
        for part in path.components().filter(|part| matches!(part, Component::Normal(_))) {
            at.push(part);
            if at != Path::new("/tmp") && self.made.insert(at.clone()) {
                steps.push(Step::Folder(text(inside(&at))?));
            }
        }
        Ok(())
    }
}

fn check(path: &Path) -> io::Result<()> {
    let plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    let message = || format!("`{}` is not an absolute path without `..`", path.display());
    if plain { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, message())) }
}

/// The place of an absolute path below the new root, before it is the root.
fn inside(path: impl AsRef<OsStr>) -> OsString {
    let mut place = OsString::from(ROOT);
    place.push(path);
    place
}

fn text(value: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(value.as_ref().as_bytes())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Where exec will find the program: the same folders in the same order.
pub(crate) fn find_program(command: &Command) -> io::Result<PathBuf> {
    let name = command.get_program();
    if name.as_bytes().contains(&b'/') {
        // Relative to the folder that it runs in, as exec reads it.
        let folder = command.get_current_dir().unwrap_or(Path::new("/"));
        let path: PathBuf =
            folder.join(name).components().filter(|part| *part != Component::CurDir).collect();
        check(&path)?;
        return std::fs::metadata(&path).map(|_| path);
    }
    let folders = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    let folders = folders.unwrap_or(OsStr::new(SEARCH_PATH));
    std::env::split_paths(folders)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
