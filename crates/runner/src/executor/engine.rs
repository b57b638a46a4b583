//! Which container engine there is, and the flags without which it does not start a container here.
//!
//! Machines differ: a runtime may refuse the kernel's cgroups, limits may not be raised, a network may
//! be missing. Instead of a table of machines there is a short list of flags, tried once with a
//! container made of the machine's own `/usr`, so that no image is needed; what worked is kept.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::ExecutorChoice;
use crate::layout::{Lasting, create_private_dir, read_if_whole, write_json};

/// What steps run on, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// `podman`, `docker` or `host`.
    pub executor: &'static str,
    /// In one sentence.
    pub why: String,
}

/// An engine that has started a container on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Engine {
    pub(super) name: String,
    pub(super) version: String,
    /// The program and its own flags.
    pub(super) program: Vec<String>,
    pub(super) run_flags: Vec<String>,
    pub(super) build_flags: Vec<String>,
    /// It starts containers with limits of CPU and memory here.
    #[serde(default)]
    pub(super) limits: bool,
    /// It takes the lines of a file of variables as they are, whatever is in them.
    #[serde(default)]
    pub(super) literal: bool,
    /// Tells a machine from another one, or from itself after an upgrade.
    key: String,
}

/// Looks at the machine without changing anything.
pub fn detect() -> Detected {
    let podman = version("podman");
    if let Ok(version) = &podman {
        return Detected { executor: "podman", why: format!("podman {version} is installed") };
    }
    match version("docker") {
        Ok(version) => {
            Detected { executor: "docker", why: format!("the daemon of docker {version} answers") }
        }
        Err(docker) => Detected {
            executor: "host",
            why: format!(
                "there is no container engine (podman: {}; docker: {docker}): steps run as sandboxed processes and their images are not used",
                podman.unwrap_err()
            ),
        },
    }
}

pub(super) fn choose(choice: &ExecutorChoice, data: &Path) -> anyhow::Result<Option<Engine>> {
    match choice {
        ExecutorChoice::Host | ExecutorChoice::Kubernetes(_) => Ok(None),
        ExecutorChoice::Podman => open("podman", data).map(Some).map_err(anyhow::Error::msg),
        ExecutorChoice::Docker => open("docker", data).map(Some).map_err(anyhow::Error::msg),
        ExecutorChoice::Auto => {
            for name in ["podman", "docker"] {
                match open(name, data) {
                    Ok(engine) => return Ok(Some(engine)),
                    Err(why) => tracing::info!(engine = name, %why, "Container engine not used."),
                }
            }
            Ok(None)
        }
    }
}

fn open(name: &str, data: &Path) -> Result<Engine, String> {
    let version = version(name)?;
    let key = format!(
        "{version} {} limits literal",
        std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim()
    );
    let kept = data.join(format!("{name}.json"));
    if let Ok(Some(engine)) = read_if_whole::<Engine>(&kept)
        && engine.key == key
    {
        return Ok(engine);
    }
    let mut engine = Engine {
        name: name.to_owned(),
        version,
        program: vec![name.to_owned()],
        run_flags: Vec::new(),
        build_flags: Vec::new(),
        limits: true,
        literal: true,
        key,
    };
    if name == "podman" {
        let dir = data.join("probe-podman");
        create_private_dir(&dir.join("root")).map_err(|error| error.to_string())?;
        let found = probe_podman(&mut engine, &dir);
        let _ = std::fs::remove_dir_all(&dir);
        found?;
    }
    create_private_dir(data)
        .and_then(|()| write_json(&kept, &engine, Lasting::Process))
        .map_err(|error| error.to_string())?;
    Ok(engine)
}

fn version(name: &str) -> Result<String, String> {
    let format = if name == "docker" { "{{.Server.Version}}" } else { "{{.Client.Version}}" };
    let text = run(&[name, "version", "--format", format], Duration::from_secs(10))?;
    Ok(text.trim().to_owned())
}

fn probe_podman(engine: &mut Engine, dir: &Path) -> Result<(), String> {
    let limits = limits();
    let runtime = |name: &str| vec!["--runtime".to_owned(), name.to_owned()];
    let start: [(Vec<&str>, Vec<String>); 6] = [
        (vec![], vec![]),
        (vec![], limits.clone()),
        (vec![], [runtime("runc"), limits.clone()].concat()),
        (vec!["--cgroup-manager=cgroupfs"], [runtime("runc"), limits.clone()].concat()),
        (vec!["--cgroup-manager=cgroupfs"], limits.clone()),
        (vec!["--cgroup-manager=cgroupfs"], [vec!["--cgroups=disabled".to_owned()], limits].concat()),
    ];
    let mut why = String::new();
    for network in [vec![], vec!["--network=host".to_owned()]] {
        for (global, flags) in &start {
            let mut program = vec!["podman".to_owned()];
            program.extend(global.iter().map(|flag| (*flag).to_owned()));
            let flags = [flags.clone(), network.clone()].concat();
            let mut argv = program.clone();
            argv.push("run".to_owned());
            argv.push("--rm".to_owned());
            argv.extend(flags.iter().cloned());
            argv.extend(system_mounts());
            argv.extend([
                "--rootfs".to_owned(),
                dir.join("root").display().to_string(),
                "/usr/bin/true".to_owned(),
            ]);
            match run(&argv, Duration::from_secs(60)) {
                Ok(_) => {
                    let init = with_init(&argv);
                    engine.program = program;
                    engine.run_flags = flags;
                    if run(&init, Duration::from_secs(60)).is_ok() {
                        engine.run_flags.push("--init".to_owned());
                    }
                    engine.literal = reads_literally(&argv, dir);
                    engine.limits = run(&with_limits(&argv), Duration::from_secs(60)).is_ok();
                    engine.build_flags = probe_build(&engine.program, dir)?;
                    return Ok(());
                }
                Err(error) => why = error,
            }
        }
    }
    Err(format!("podman cannot start a container here: {why}"))
}

/// Versions differ in what quotes and signs mean in such a file; this one is asked.
fn reads_literally(argv: &[String], dir: &Path) -> bool {
    const ODD: [&str; 5] = ["\"quoted\"", "'quoted' # not a note", " $HOME ${HOME} `x` ", "\\n \\", "a=b=*"];
    let file = dir.join("variables");
    let lines: String =
        ODD.iter().enumerate().map(|(number, odd)| format!("SLIPWAY_{number}={odd}\n")).collect();
    if std::fs::write(&file, lines).is_err() {
        return false;
    }
    let at = argv.iter().position(|word| word == "--rm").unwrap_or(1);
    let mut argv = argv.to_vec();
    argv.insert(at, format!("--env-file={}", file.display()));
    argv.pop();
    argv.push("/usr/bin/env".to_owned());
    let said = run(&argv, Duration::from_secs(60)).unwrap_or_default();
    ODD.iter()
        .enumerate()
        .all(|(number, odd)| said.lines().any(|line| line == format!("SLIPWAY_{number}={odd}")))
}

fn with_limits(argv: &[String]) -> Vec<String> {
    let at = argv.iter().position(|word| word == "--rm").unwrap_or(1);
    let mut argv = argv.to_vec();
    argv.splice(at..at, ["--cpus=1".to_owned(), "--memory=256m".to_owned()]);
    argv
}

/// With a first process that passes signals on, a step ends politely instead of after the grace period.
fn with_init(argv: &[String]) -> Vec<String> {
    let at = argv.iter().position(|word| word == "--rm").unwrap_or(1);
    let mut argv = argv.to_vec();
    argv.insert(at, "--init".to_owned());
    argv
}

fn probe_build(program: &[String], dir: &Path) -> Result<Vec<String>, String> {
    std::fs::write(dir.join("Dockerfile"), "FROM scratch\nRUN [\"/usr/bin/true\"]\n")
        .map_err(|e| e.to_string())?;
    let limits = limits();
    let candidates = [
        vec![],
        limits.clone(),
        [vec!["--runtime".to_owned(), "runc".to_owned()], limits].concat(),
        vec!["--isolation=chroot".to_owned()],
    ];
    let mut why = String::new();
    for flags in candidates {
        let id = dir.join("id");
        let mut argv = program.to_vec();
        argv.extend(["build", "--no-cache", "--quiet"].map(str::to_owned));
        argv.extend(flags.iter().cloned());
        argv.extend(system_mounts());
        argv.extend(["--iidfile".to_owned(), id.display().to_string(), dir.display().to_string()]);
        match run(&argv, Duration::from_secs(60)) {
            Ok(_) => {
                if let Ok(id) = std::fs::read_to_string(&id) {
                    let remove = [program, &["rmi".into(), "--force".into(), id.trim().into()]].concat();
                    let _ = run(&remove, Duration::from_secs(30));
                }
                return Ok(flags);
            }
            Err(error) => why = error,
        }
    }
    // Steps run; only `build` steps will not, and they will say so themselves.
    tracing::warn!(%why, "podman cannot build images on this machine");
    Ok(Vec::new())
}

/// The machine's own programs stand in for an image.
fn system_mounts() -> Vec<String> {
    ["/usr", "/lib", "/lib64"]
        .into_iter()
        .filter(|path| Path::new(path).exists())
        .flat_map(|path| ["-v".to_owned(), format!("{path}:{path}:ro")])
        .collect()
}

/// Engines ask for more open files and processes than an ordinary process may give.
fn limits() -> Vec<String> {
    // Well below the machine's own: podman lowers them for itself before it asks the runtime.
    [("nofile", Resource::RLIMIT_NOFILE, 1 << 16), ("nproc", Resource::RLIMIT_NPROC, 1 << 14)]
        .into_iter()
        .filter_map(|(name, resource, most)| {
            let (_, hard) = getrlimit(resource).ok()?;
            let hard = hard.min(most);
            Some(["--ulimit".to_owned(), format!("{name}={hard}:{hard}")])
        })
        .flatten()
        .collect()
}

/// Runs a short command; the error is what it said last.
pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(argv: &[S], deadline: Duration) -> Result<String, String> {
    let mut child = Command::new(&argv[0])
        .args(&argv[1..])
        .env_clear()
        .envs(crate::clean::of_engine())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "it is not installed".to_owned(),
            _ => error.to_string(),
        })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stdout = std::thread::spawn(move || read(stdout));
    let stderr = std::thread::spawn(move || read(stderr));
    let until = Instant::now() + deadline;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() >= until => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not answer within {} s", deadline.as_secs()));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error.to_string()),
        }
    };
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    if status.success() {
        return Ok(stdout);
    }
    Err(stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it gave no reason").to_owned())
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(1 << 20).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
