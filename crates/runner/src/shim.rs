//! The process beside the runner that starts one attempt and stays with it.
//!
//! In: the folder of an attempt with its `task.json`. Out: `output` while it runs, `exit.json` when it
//! has ended. It knows neither the server nor the pipeline, so the runner may be killed and come back:
//! it finds the attempt as it left it.
//!
//! An attempt starts at most once: the supervisor takes the lock, then makes the file `started`, which
//! fails if it is there. Who loses either does nothing.

mod adopt;
mod builtin;
mod caches;
mod cgroup;
mod context;
mod deploy;
mod exports;
mod init;
mod pod;
mod private;
mod rights;
mod sandbox;
mod shell;
mod silence;
mod stage;
mod supervise;
pub(crate) mod tidy;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

pub(crate) use exports::{SCRIPT as CF_EXPORT, take as take_exports};
pub(crate) use pod::{CONTAINER, made};
pub(crate) use sandbox::{mounted_below, probe, unprivileged_user};
pub(crate) use stage::unmount_below;

/// There is no sandbox around it.
const ALONE: &str = "alone";

/// The first argument by which an executable becomes a shim.
pub const SUBCOMMAND: &str = "runner-shim";

/// Call it first thing in `main` when the first argument is [`SUBCOMMAND`], with the arguments after it
/// and before any thread is started: namespaces can only be entered by a process with one thread.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // What a step makes is for later steps too, whoever they run as; the runner keeps its own things from others.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let args: Vec<OsString> = args.into_iter().collect();
    let mode = args.first().and_then(|mode| mode.to_str()).unwrap_or_default();
    match (mode, &args[1.min(args.len())..]) {
        ("supervise", [dir]) => supervise::main(Path::new(dir)),
        ("adopt", [dir]) => adopt::main(Path::new(dir)),
        ("init", [dir]) => init::main(Path::new(dir)),
        ("builtin", [place]) => builtin::main(Path::new(place), false),
        ("builtin", [place, alone]) if alone == ALONE => builtin::main(Path::new(place), true),
        ("shell", [dir, terminal]) => shell::main(Path::new(dir), Path::new(terminal)),
        ("probe", [dir]) => init::probe_main(Path::new(dir)),
        ("exec", [program, rest @ ..]) => exec(program, rest),
        _ => {
            eprintln!("slipway: `{SUBCOMMAND}` is started by the runner and by nobody else");
            ExitCode::from(2)
        }
    }
}

/// This executable again, in another of its parts.
fn part(mode: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(SUBCOMMAND).arg(mode);
    command
}

/// A program that dies with whoever started it.
fn exec(program: &OsString, args: &[OsString]) -> ExitCode {
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    let error = Command::new(program).args(args).exec();
    eprintln!("slipway: cannot start `{}`: {error}", program.to_string_lossy());
    ExitCode::from(127)
}
