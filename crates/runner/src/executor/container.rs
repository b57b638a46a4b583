//! Steps as containers of Podman or Docker.
//!
//! What people write reaches an engine in forms that mean one thing: mounts as `--mount` with a checked target and a
//! source of the runner's own, variables as lines of a file that name and value are checked for, images by names alone.

mod images;
mod services;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use slipway_pipeline::spec::{Freestyle, Shell};
use slipway_pipeline::volume::Volume;
use slipway_pipeline::{StepKind, StepSpec};

use super::beside::Beside;
use super::engine::{self, Engine};
use super::reach::Environment;
use super::stores::Stores;
use super::{
    ATTEMPT, Executor, Place, Refusal, container_name, make_working_directory, reach, script, task,
    working_directory,
};
use crate::layout::{BIN, BuildDir, VOLUME};
use crate::shell::shell_name;
use crate::shim::tidy;
use crate::task::{Limits, Run, Sandbox, Staged, Task};
use services::{Side, services_folder};

/// Marks our containers, so that those of dead builds are found.
const LABEL: &str = "io.slipway.build";
/// Tells the containers of one runner of the machine from those of another.
const OWNER: &str = "io.slipway.runner";

pub(super) struct Container {
    engine: Engine,
    sandbox: Option<Sandbox>,
    describe: String,
    owner: String,
    data: PathBuf,
    stores: Stores,
}

impl Container {
    pub(super) fn new(engine: Engine, sandbox: Option<Sandbox>, data: &Path) -> Self {
        let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
        let owner = hex::encode(&Sha256::digest(data.as_os_str().as_encoded_bytes())[..8]);
        let describe = format!("Steps run in containers by {} {}", engine.name, engine.version);
        Self { engine, sandbox, describe, owner, data, stores: Stores::default() }
    }

    fn podman(&self) -> bool {
        self.engine.name == "podman"
    }

    fn command(&self, args: &[&str]) -> Vec<String> {
        self.engine.program.iter().cloned().chain(args.iter().map(|arg| (*arg).to_owned())).collect()
    }

    /// The engine as this build may use it.
    fn program(&self, place: &Place<'_>) -> Result<Vec<String>, Refusal> {
        if place.trust.is_fork() && self.podman() {
            return Ok(self.stores.program(&self.engine, place.dir)?);
        }
        let mut program = self.engine.program.clone();
        if !self.podman() {
            // Docker takes a folder with a config.json in it, before its verb.
            program.extend(self.logins(place)?.map(|folder| format!("--config={}", folder.display())));
        }
        Ok(program)
    }

    fn command_of(&self, place: &Place<'_>, args: &[&str]) -> Result<Vec<String>, Refusal> {
        Ok(self.program(place)?.into_iter().chain(args.iter().map(|arg| (*arg).to_owned())).collect())
    }

    fn run_args(
        &self,
        step: &StepSpec,
        spec: &Freestyle,
        place: &Place<'_>,
        side: &Side,
        mounts: &mut Vec<Staged>,
    ) -> Result<Vec<String>, Refusal> {
        let mut args = vec![
            "--rm=false".to_owned(),
            "--pull=missing".to_owned(),
            format!("--name={}", container_name(step, place)),
            format!("--label={LABEL}={}", place.build),
            format!("--label={OWNER}={}", self.owner),
            format!("--label={ATTEMPT}={}", container_name(step, place)),
        ];
        args.extend(self.login_flag(place)?);
        args.extend(self.network(side));
        if self.podman() {
            // Kept by the engine too, should the supervisor be lost.
            args.push("--log-driver=k8s-file".to_owned());
        } else {
            args.push("--init".to_owned());
        }
        args.extend(self.limits(step));
        args.push(bind(&place.dir.volume(), VOLUME, false));
        args.push(bind(&place.at.bin(), BIN, true));
        args.extend(self.mounts(
            &reach::volumes(&spec.volumes, place)?,
            place,
            &Stage::of_step(place),
            mounts,
        )?);
        if let Some(directory) = working_directory(step) {
            make_working_directory(&directory, place, None)?;
            args.push(format!("--workdir={directory}"));
        }
        Ok(args)
    }

    fn limits(&self, step: &StepSpec) -> Vec<String> {
        let limits = Limits::of(step);
        if !self.engine.limits {
            return Vec::new();
        }
        let cpu = limits.cpu_millis.map(|millis| format!("--cpus={}.{:03}", millis / 1000, millis % 1000));
        let memory = limits.memory_bytes.map(|bytes| format!("--memory={bytes}b"));
        cpu.into_iter().chain(memory).collect()
    }

    /// The flags for folders of the volume. The engine sees places of the runner's own, which the supervisor fills.
    fn mounts(
        &self,
        volumes: &[Volume],
        place: &Place<'_>,
        stage: &Stage,
        staged: &mut Vec<Staged>,
    ) -> Result<Vec<String>, Refusal> {
        let mut flags = Vec::new();
        for volume in volumes {
            if volume.source.as_os_str().is_empty() {
                flags.push(bind(&place.dir.volume(), &volume.target, volume.read_only));
                continue;
            }
            if !nix::unistd::geteuid().is_root() {
                return Err(Refusal::Unsupported(format!(
                    "`{}` of the volume cannot be mounted at {}: only a runner that is root can keep a step from putting a link there. Use {VOLUME}/{}, where it is anyway, or mount the whole volume (`.`)",
                    volume.source.display(),
                    volume.target,
                    volume.source.display()
                )));
            }
            let known = staged.iter().find(|one| one.source == volume.source && one.shared == stage.shared);
            let at = match known {
                Some(known) => known.at.clone(),
                None => {
                    let at = stage.folder.join(staged.len().to_string());
                    let source = volume.source.clone();
                    staged.push(Staged { source, at: at.clone(), shared: stage.shared });
                    at
                }
            };
            flags.push(bind(&at, &volume.target, volume.read_only));
        }
        Ok(flags)
    }

    /// Values of several lines reach a script by a file that it reads, and an entry point by the engine's own
    /// environment, unless the name means something there.
    fn environment<'a>(
        &self,
        spec: &'a Freestyle,
        place: &Place<'_>,
        args: &mut Vec<String>,
    ) -> Result<Environment<'a>, Refusal> {
        let environment = Environment::of(&spec.environment, spec.commands.is_some(), self.engine.literal);
        reach::write_environment(&place.at.environment(), environment.lines.iter().copied())?;
        args.push(format!("--env-file={}", place.at.environment().display()));
        args.extend(environment.passed.keys().map(|name| format!("--env={name}")));
        Ok(environment)
    }

    /// Of `run`, for a person's shell where the step runs. Its services are the step's alone.
    fn shell_args(
        &self,
        step: &StepSpec,
        spec: &Freestyle,
        place: &Place<'_>,
        environment: &BTreeMap<String, String>,
        mounts: &mut Vec<Staged>,
    ) -> Result<Vec<String>, Refusal> {
        let attempt = format!("--label={ATTEMPT}=");
        let own = ["--rm=", "--name=", "--log-driver=", attempt.as_str()];
        let mut args: Vec<String> = self
            .run_args(step, spec, place, &Side::default(), mounts)?
            .into_iter()
            .filter(|flag| !own.iter().any(|own| flag.starts_with(own)))
            .collect();
        args.extend(["--rm".to_owned(), "--interactive".to_owned(), "--tty".to_owned()]);
        args.push(format!("--name={}", shell_name(&container_name(step, place))));
        args.extend(environment.keys().map(|name| format!("--env={name}")));
        args.push(format!("--env-file={}", place.at.environment().display()));
        // An interactive shell reads it first, as the script does.
        args.push(format!("--env=ENV={}", script::variables_path()));
        args.extend(["--entrypoint=sh".to_owned(), spec.image.clone()]);
        Ok(args)
    }
}

impl Executor for Container {
    fn name(&self) -> &'static str {
        if self.podman() { "podman" } else { "docker" }
    }

    fn describe(&self) -> &str {
        &self.describe
    }

    fn user(&self) -> Option<u32> {
        None
    }

    fn sandbox(&self) -> Option<Sandbox> {
        self.sandbox.clone()
    }

    fn freestyle(&self, step: &StepSpec, place: &Place<'_>, beside: &Beside) -> Result<Task, Refusal> {
        let StepKind::Freestyle(spec) = &step.kind else { unreachable!("called for freestyle steps only") };
        if spec.image.is_empty() {
            return Err(Refusal::Unsupported(format!("step `{}` has no image it could run in", step.name)));
        }
        let mut side = self.beside(step, place, beside)?;
        let mut mounts = std::mem::take(&mut side.mounts);
        let mut again = mounts.clone();
        let mut args = self.run_args(step, spec, place, &side, &mut mounts)?;
        let environment = self.environment(spec, place, &mut args)?;
        script::write_with(&place.at.bin(), spec.commands.as_deref(), &environment.exported)?;
        let shell = self.shell_args(step, spec, place, &environment.passed, &mut again)?;
        if spec.commands.is_some() {
            let interpreter = match spec.shell {
                Shell::Sh => "sh",
                Shell::Bash => "bash",
            };
            args.push(format!("--entrypoint={interpreter}"));
            args.extend([spec.image.clone(), script::path()]);
        } else {
            let mut entry = spec.entry_point.iter().flatten();
            args.extend(entry.next().map(|program| format!("--entrypoint={program}")));
            args.push(spec.image.clone());
            args.extend(entry.cloned());
            args.extend(spec.cmd.iter().flatten().cloned());
        }
        let mut intro = vec![format!("Running in image {} by {}", spec.image, self.engine.name)];
        if !Limits::of(step).is_empty() && !self.engine.limits {
            intro.push(format!(
                "The limits of this step are not enforced: {} starts no container with limits on this machine",
                self.engine.name
            ));
        }
        intro.extend(environment.left_out.iter().map(|name| {
            format!("Variable {name} has several lines and is left out: give the step `commands`")
        }));
        let run = Run::Container {
            engine: self.program(place)?,
            name: container_name(step, place),
            args,
            environment: environment.passed,
            before: side.before,
            beside: side.names,
            also: side.also,
            shell,
            mounts,
        };
        Ok(task(step, place, intro, run))
    }

    fn image(&self, step: &StepSpec, place: &Place<'_>) -> Result<Task, Refusal> {
        if place.trust.is_fork() && !self.podman() {
            return Err(Refusal::Unsupported(format!(
                "step `{}` would leave an image where every other build of this machine finds it, and this one is the pull request of a fork: Docker has one store for all. Use a runner with Podman or Kubernetes, or leave the step out for forks",
                step.name
            )));
        }
        match &step.kind {
            StepKind::Build(spec) => self.build(step, spec, place),
            StepKind::Push(spec) => self.push(step, spec, place),
            StepKind::PushTag(spec) => self.push_tag(step, spec, place),
            _ => unreachable!("called for image steps only"),
        }
    }

    /// Without root, files of a container's other users belong to numbers that only the engine may touch.
    fn remove(&self, folder: &Path) -> std::io::Result<()> {
        crate::shim::unmount_below(folder)?;
        std::fs::remove_dir_all(folder).or_else(|error| {
            if !self.podman() || !folder.exists() {
                return Err(error);
            }
            let argv = self.command(&["unshare", "rm", "-rf", "--", &folder.display().to_string()]);
            engine::run(&argv, Duration::from_secs(60)).map(drop).map_err(std::io::Error::other)
        })
    }

    /// Containers of steps end with their steps; those of the build end here.
    fn release(&self, build: &str) -> Result<(), String> {
        let dir = BuildDir::new(&self.data, build);
        let fork = dir.images().exists();
        if !fork && !services_folder(&dir).exists() {
            return Ok(());
        }
        let program = if fork {
            self.stores.program(&self.engine, &dir).map_err(|error| error.to_string())?
        } else {
            self.engine.program.clone()
        };
        tidy::labelled(&program, &format!("{LABEL}={build}"))?;
        tidy::retry(|| {
            crate::shim::unmount_below(&services_folder(&dir))
                .map_err(|error| format!("folders of its services cannot be unmounted: {error}"))?;
            if fork {
                self.stores
                    .remove(&dir, |folder| self.remove(folder))
                    .map_err(|error| format!("the images of a fork's build cannot be removed: {error}"))?;
            }
            Ok(())
        })
    }

    fn reap(&self, active: &dyn Fn() -> Vec<String>) -> Result<(), String> {
        let mut left = Vec::new();
        let format = format!("--format={{{{.ID}}}} {{{{index .Labels \"{LABEL}\"}}}}");
        let format =
            if self.podman() { format } else { format!("--format={{{{.ID}}}} {{{{.Label \"{LABEL}\"}}}}") };
        let filter = format!("--filter=label={OWNER}={}", self.owner);
        let found = engine::run(&self.command(&["ps", "--all", &filter, &format]), Duration::from_secs(30));
        let stores = self.stores.of_builds(&self.data);
        let active = active();
        match &found {
            Ok(text) => {
                let dead: Vec<String> = text
                    .lines()
                    .filter_map(|line| line.split_once(' '))
                    .filter(|(_, build)| !active.iter().any(|kept| kept == build.trim()))
                    .map(|(id, _)| id.to_owned())
                    .collect();
                left.extend(tidy::remove(&self.engine.program, dead.iter()).err());
            }
            Err(why) => left.push(format!("containers cannot be listed: {why}")),
        }
        for build in stores.iter().filter(|build| !active.contains(build)) {
            left.extend(self.release(build).err());
        }
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    }
}

/// Where folders of the volume are mounted for the engine.
struct Stage {
    folder: PathBuf,
    shared: bool,
}

impl Stage {
    fn of_step(place: &Place<'_>) -> Self {
        Self { folder: place.at.mounts(), shared: false }
    }
}

/// One flag, whatever is in the runner's own paths: fields are separated as in a table of values.
fn bind(source: &Path, target: &str, read_only: bool) -> String {
    let field = |text: String| {
        if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    let source = field(format!("src={}", source.display()));
    let target = field(format!("dst={target}"));
    format!("--mount=type=bind,{source},{target}{}", if read_only { ",ro" } else { "" })
}
