//! Steps as sandboxed processes of this machine, where there is no container engine.

use std::path::Path;

use slipway_pipeline::spec::{Freestyle, Shell};
use slipway_pipeline::{StepKind, StepSpec};

use super::beside::Beside;
use super::{Executor, Place, Refusal, make_working_directory, script, task, working_directory};
use crate::layout::VOLUME;
use crate::task::{Limits, Program, Run, Sandbox, Task};

pub(super) struct Host {
    sandbox: Sandbox,
}

impl Host {
    pub(super) fn new(sandbox: Sandbox) -> Self {
        Self { sandbox }
    }
}

impl Executor for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn describe(&self) -> &str {
        "Steps run as sandboxed processes of this machine, without a container engine: their images are not used"
    }

    fn user(&self) -> Option<u32> {
        self.sandbox.user
    }

    fn sandbox(&self) -> Option<Sandbox> {
        Some(self.sandbox.clone())
    }

    fn freestyle(&self, step: &StepSpec, place: &Place<'_>, beside: &Beside) -> Result<Task, Refusal> {
        if !beside.all_names().is_empty() {
            return Err(Refusal::Unsupported(format!(
                "step `{}` has services ({}), which are containers, and this machine has no container engine: install podman and start the runner again, or use a Kubernetes runner",
                step.name,
                beside.all_names().join(", ")
            )));
        }
        let StepKind::Freestyle(spec) = &step.kind else { unreachable!("called for freestyle steps only") };
        let directory = working_directory(step).unwrap_or_else(|| VOLUME.to_owned());
        make_working_directory(&directory, place, self.user())?;
        let mut environment = spec.environment.clone();
        for (name, value) in [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", "/tmp/home"),
            ("USER", "slipway"),
            ("LANG", "C.UTF-8"),
        ] {
            environment.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        script::write(&place.at.bin(), spec.commands.as_deref())?;
        let program = Program {
            argv: argv(spec)?,
            environment,
            working_directory: directory.into(),
            interactive: false,
        };
        let intro = vec![format!(
            "Running on the host in a sandbox; image {} is not used, because there is no container engine",
            if spec.image.is_empty() { "(none)" } else { &spec.image }
        )];
        Ok(task(
            step,
            place,
            intro,
            Run::Sandboxed { sandbox: self.sandbox.clone(), program, limits: Limits::of(step) },
        ))
    }

    fn image(&self, step: &StepSpec, _: &Place<'_>) -> Result<Task, Refusal> {
        Err(Refusal::Unsupported(format!(
            "step `{}` needs a container engine to {} an image, and this machine has none: install podman and start the runner again, or leave the step out with a condition on SLIPWAY_EXECUTOR",
            step.name,
            if matches!(step.kind, StepKind::Build(_)) { "build" } else { "push" }
        )))
    }

    fn remove(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::remove_dir_all(folder)
    }

    /// Nothing outlives its supervisor here.
    fn reap(&self, _: &dyn Fn() -> Vec<String>) -> Result<(), String> {
        Ok(())
    }
}

fn argv(spec: &Freestyle) -> Result<Vec<String>, Refusal> {
    if spec.commands.is_some() {
        let shell = match spec.shell {
            Shell::Sh => "sh",
            Shell::Bash => "bash",
        };
        return Ok(vec![shell.to_owned(), script::path()]);
    }
    let argv: Vec<String> =
        spec.entry_point.iter().flatten().chain(spec.cmd.iter().flatten()).cloned().collect();
    if argv.is_empty() {
        return Err(Refusal::Unsupported(format!(
            "the step runs what image `{}` has as its entry point, and there is no container engine: give it `commands`",
            spec.image
        )));
    }
    Ok(argv)
}
