//! The flags without which Podman does not start a container here.
//!
//! Machines differ: a runtime may refuse the kernel's cgroups, limits may not be raised, a network may
//! be missing. Instead of a table of machines there is a short list of flags, tried once with a
//! container made of the machine's own `/usr`, so that no image is needed.

use std::path::Path;
use std::time::Duration;

use crate::{run, ulimits};

/// What has worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flags {
    /// The program and its own flags.
    pub program: Vec<String>,
    pub run: Vec<String>,
    pub build: Vec<String>,
    /// It starts containers with limits of CPU and memory here.
    pub limits: bool,
    /// It takes the lines of a file of variables as they are, whatever is in them.
    pub literal: bool,
}

/// Well below the machine's own: podman lowers them for itself before it asks the runtime.
fn limits() -> Vec<String> {
    ulimits(1 << 16, 1 << 14)
}

/// Starts containers until one runs. `dir` has an empty folder `root` and is removed by the caller.
pub fn probe_podman(dir: &Path) -> Result<Flags, String> {
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
                    let mut flags = flags;
                    if run(&with_init(&argv), Duration::from_secs(60)).is_ok() {
                        flags.push("--init".to_owned());
                    }
                    return Ok(Flags {
                        run: flags,
                        literal: reads_literally(&argv, dir),
                        limits: run(&with_limits(&argv), Duration::from_secs(60)).is_ok(),
                        build: probe_build(&program, dir)?,
                        program,
                    });
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
