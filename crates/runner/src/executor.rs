//! Where steps run. One trait, one contract; what differs is only how a step becomes a task.
//!
//! In: a [`StepSpec`] with everything resolved, and the folders of its attempt. Out: a [`Task`] for
//! the supervisor, or a sentence on why this executor cannot run the step. Nothing is started here.

mod beside;
mod builtin;
mod caches;
mod container;
pub(crate) mod engine;
mod host;
mod kubernetes;
mod layers;
mod names;
mod reach;
pub(crate) mod registries;
mod script;
mod secrets;
mod stores;
mod typed;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use slipway_api::agent::{GitAccess, GitIntegration, Machine, RegistryAccess};
use slipway_pipeline::resources::{Amounts, Resources};
use slipway_pipeline::spec::WorkingDirectory;
use slipway_pipeline::{StepKind, StepSpec, unsupported};

pub use engine::{Detected, detect};
pub use kubernetes::{KubernetesConfig, Storage};

pub(crate) use typed::{Inside, StepTypes};

use beside::Beside;

use crate::layout::{AttemptDir, BuildDir, VOLUME, file_name, give};
use crate::mask::Masker;
use crate::task::{Run, Sandbox, Task};
use crate::trust::Trust;
use crate::within::{Made, Volume};

/// 1 GiB a step, then the log says that it is full.
const OUTPUT_BYTES_MAX: u64 = 1 << 30;
const GRACE_MS: u64 = 5_000;
/// Marks the containers of one attempt with the name of the step's own.
pub(crate) const ATTEMPT: &str = "io.slipway.attempt";

/// What the person who starts the runner asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorChoice {
    /// Podman, else Docker if its daemon answers, else the host.
    #[default]
    Auto,
    Podman,
    Docker,
    Host,
    Kubernetes(Box<KubernetesConfig>),
}

/// Who vouches for the control plane, when that is not one of those that the system trusts.
pub(crate) struct Authority {
    /// The control plane's address.
    pub(crate) server: String,
    /// PEM.
    pub(crate) certificates: String,
}

impl Authority {
    /// Its certificates, for an address of the control plane (its Git host), and for nobody else's.
    pub(crate) fn of(&self, url: &str) -> Option<String> {
        let below = url.strip_prefix(self.server.trim_end_matches('/'))?;
        below.starts_with('/').then(|| self.certificates.clone())
    }
}

/// One attempt of one step, before it starts.
pub(crate) struct Place<'a> {
    pub(crate) build: &'a str,
    pub(crate) attempt: u32,
    pub(crate) dir: &'a BuildDir,
    pub(crate) at: &'a AttemptDir,
    pub(crate) git: &'a GitAccess,
    pub(crate) authority: Option<&'a Authority>,
    /// By the names that steps use.
    pub(crate) integrations: &'a [GitIntegration],
    /// In the order in which this step asks them.
    pub(crate) registries: Vec<RegistryAccess>,
    pub(crate) types: &'a StepTypes,
    /// Kubeconfigs by the names that `deploy` steps use.
    pub(crate) clusters: &'a BTreeMap<String, PathBuf>,
    pub(crate) trust: &'a Trust,
    /// Whoever started the build wants nothing of earlier ones in it.
    pub(crate) fresh: bool,
    pub(crate) cache_bytes_max: u64,
    /// Of the build, as they are now.
    pub(crate) variables: BTreeMap<String, String>,
    /// Knows what must not be seen.
    pub(crate) masker: &'a Masker,
    /// What steps may use that say nothing themselves.
    pub(crate) machine: &'a Machine,
    /// At the root of the pipeline, as written.
    pub(crate) services: Option<serde_json::Value>,
}

/// Why a step cannot run here, for the person who wrote it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    Unsupported(String),
    #[error("the files of the step could not be prepared: {0}")]
    Io(#[from] std::io::Error),
}

pub(crate) trait Executor: Send + Sync {
    /// `podman`, `docker`, `kubernetes` or `host`.
    fn name(&self) -> &'static str;
    /// In a sentence, for the head of every build's log.
    fn describe(&self) -> &str;
    /// Whom the files of a volume belong to; ourselves when absent.
    fn user(&self) -> Option<u32>;
    /// For steps of ours that need no image.
    fn sandbox(&self) -> Option<Sandbox>;
    /// A step of type freestyle, with what runs beside it.
    fn freestyle(&self, step: &StepSpec, place: &Place<'_>, beside: &Beside) -> Result<Task, Refusal>;
    fn image(&self, step: &StepSpec, place: &Place<'_>) -> Result<Task, Refusal>;
    /// Removes a folder that steps have written to.
    fn remove(&self, folder: &Path) -> std::io::Result<()>;
    /// Removes what builds of this runner other than the active ones have left behind. `active` is asked after what is
    /// there was listed: whatever was listed then belongs to one of these, or to nobody.
    fn reap(&self, active: &dyn Fn() -> Vec<String>) -> Result<(), String>;
    /// Removes what a build that is over may have left behind, and retries until it holds. May take a while.
    fn release(&self, _build: &str) -> Result<(), String> {
        Ok(())
    }
    /// Images that name no registry go to one of the runner's own.
    fn has_own_registry(&self) -> bool {
        false
    }
    /// Of the volume's folder.
    fn volume_mode(&self) -> u32 {
        0o700
    }

    /// The only way to a container: what it names of the machine is checked, on every executor alike.
    fn contained(&self, step: &StepSpec, place: &Place<'_>, beside: &Beside) -> Result<Task, Refusal> {
        if let StepKind::Freestyle(spec) = &step.kind {
            reach::check(step, spec, beside, place)?;
        }
        self.freestyle(step, place, beside)
    }

    fn prepare(&self, step: &StepSpec, place: &Place<'_>) -> Result<Task, Refusal> {
        crate::layout::create_private_dir(&place.at.0)?;
        let step = &with_resources(step, place)?;
        match &step.kind {
            StepKind::Freestyle(_) => {
                let task = self.contained(step, place, &beside::of_step(step, place)?)?;
                Ok(Task { caches: caches::of_step(step, place)?, ..task })
            }
            StepKind::Composition(spec) => {
                let (step, beside) = beside::of_composition(step, spec, place)?;
                self.contained(&step, place, &beside)
            }
            StepKind::LaunchComposition(_) => Err(Refusal::Unsupported(format!(
                "step `{}` launches an environment that outlives its build, which no runner of your own does: use a composition step, or deploy to a cluster",
                step.name
            ))),
            StepKind::Build(_) | StepKind::Push(_) | StepKind::PushTag(_) => {
                if let StepKind::Build(spec) = &step.kind
                    && let Some(why) = unsupported::refusal(spec.options.keys().map(String::as_str))
                {
                    return Err(Refusal::Unsupported(format!("step `{}`: {why}", step.name)));
                }
                let (step, said) = registries::resolve(step, place, self.has_own_registry())?;
                let mut task = self.image(&step, place)?;
                task.intro.extend(said);
                Ok(task)
            }
            StepKind::Typed(spec) if place.types.knows(&spec.type_name) => {
                let step = place.types.expand(step, spec)?;
                let beside = Beside { of_build: beside::of_build(&step, place)?, ..Beside::default() };
                let task = self.contained(&step, place, &beside)?;
                Ok(Task { caches: caches::of_step(&step, place)?, ..task })
            }
            StepKind::GitClone(_) | StepKind::Typed(_) | StepKind::Deploy(_) => {
                builtin::prepare(step, place, self.sandbox(), self.user())
            }
            other => Err(Refusal::Unsupported(format!(
                "steps of type `{}` cannot run on the {} executor: use a freestyle step",
                type_of(other),
                self.name()
            ))),
        }
    }
}

/// What the step may use: what it says, else what its build's runtime environment says.
fn with_resources(step: &StepSpec, place: &Place<'_>) -> Result<StepSpec, Refusal> {
    let (cpu, memory) = (place.machine.cpu.clone(), place.machine.memory.clone());
    let of_build = Resources { limits: Amounts { cpu, memory }, ..Resources::default() };
    let resources = step.resources.clone().or(of_build);
    let wrong = resources.findings();
    if !wrong.is_empty() {
        return Err(Refusal::Unsupported(wrong.join("; ")));
    }
    Ok(StepSpec { resources, ..step.clone() })
}

/// Everything about the executor that `run` decides once, at the start.
pub(crate) fn choose(
    choice: ExecutorChoice,
    data: &Path,
    shim: &Path,
    read_only: &[PathBuf],
    hide: &[PathBuf],
) -> anyhow::Result<Box<dyn Executor>> {
    let (found, cluster) = match choice {
        ExecutorChoice::Kubernetes(config) => (None, Some(*config)),
        other => (engine::choose(&other, data)?, None),
    };
    let probe_dir = data.join("probe");
    let sandbox_works = crate::shim::probe(shim, &probe_dir);
    let _ = std::fs::remove_dir_all(&probe_dir);
    let hide = hide.iter().chain([&data.to_owned()]).cloned().collect();
    let user = crate::shim::unprivileged_user();
    let sandbox = Sandbox { user, read_only: read_only.to_vec(), hide };
    if let Some(config) = cluster {
        if let Err(why) = &sandbox_works {
            tracing::info!(%why, "Built-in steps run without a separate sandbox.");
        }
        let sandbox = sandbox_works.is_ok().then_some(sandbox);
        return Ok(Box::new(kubernetes::Kubernetes::open(config, data, sandbox)?));
    }
    match (found, sandbox_works) {
        (Some(engine), works) => {
            if let Err(why) = &works {
                tracing::warn!(%why, "built-in steps run without a separate sandbox");
            }
            Ok(Box::new(container::Container::new(engine, works.is_ok().then_some(sandbox), data)))
        }
        (None, Ok(())) => Ok(Box::new(host::Host::new(sandbox))),
        (None, Err(why)) => anyhow::bail!(
            "steps cannot run on this machine: there is no container engine, and no sandbox can be made ({why}). Install podman, or run as root"
        ),
    }
}

fn type_of(kind: &StepKind) -> &'static str {
    match kind {
        StepKind::Freestyle(_) => "freestyle",
        StepKind::GitClone(_) => "git-clone",
        StepKind::Build(_) => "build",
        StepKind::Push(_) => "push",
        StepKind::PushTag(_) => "push-tag",
        StepKind::Deploy(_) => "deploy",
        StepKind::Composition(_) => "composition",
        StepKind::LaunchComposition(_) => "launch-composition",
        StepKind::PendingApproval(_) => "pending-approval",
        StepKind::FreestyleSsh(_) => "freestyle-ssh",
        StepKind::Typed(_) => "typed",
        StepKind::Annotate(_) => "annotate",
    }
}

/// Made once per build, with what every step expects to find in it.
pub(crate) fn make_volume(dir: &BuildDir, executor: &dyn Executor) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let (volume, user) = (dir.volume(), executor.user());
    crate::layout::create_private_dir(&volume)?;
    std::fs::set_permissions(&volume, std::fs::Permissions::from_mode(executor.volume_mode()))?;
    script::write_cf_export(&volume, user)?;
    give(&volume, user)
}

/// As the step sees it; `None` means the image's own.
fn working_directory(step: &StepSpec) -> Option<String> {
    match &step.working_directory {
        WorkingDirectory::Volume => Some(VOLUME.to_owned()),
        WorkingDirectory::Absolute(path) => Some(path.clone()),
        WorkingDirectory::UnderVolume(path) => Some(format!("{VOLUME}/{}", path.trim_matches('/'))),
        WorkingDirectory::Image => None,
    }
}

/// Where a step works, for steps that want to work there too.
pub(crate) fn directory(step: &StepSpec) -> Option<String> {
    match step.kind {
        // Known only when the clone is there.
        StepKind::GitClone(_) => None,
        _ => working_directory(step),
    }
}

/// The part of a path below the volume, or nothing if it is elsewhere.
fn in_volume(path: &str) -> Option<PathBuf> {
    Path::new(path).strip_prefix(VOLUME).ok().map(Path::to_owned)
}

/// Makes the working directory if it is in the volume and not there yet.
fn make_working_directory(
    path: &str,
    place: &Place<'_>,
    user: Option<u32>,
) -> Result<Option<OwnedFd>, Refusal> {
    let Some(relative) = in_volume(path) else { return Ok(None) };
    Volume::open(&place.dir.volume())
        .and_then(|volume| volume.make_folder(&relative, Made::of(user)))
        .map(Some)
        .map_err(|error| {
            Refusal::Unsupported(format!("the working directory {path} cannot be used: {error}"))
        })
}

fn task(step: &StepSpec, place: &Place<'_>, intro: Vec<String>, run: Run) -> Task {
    Task {
        build: place.build.to_owned(),
        step: step.id.clone(),
        attempt: place.attempt,
        intro,
        volume: place.dir.volume(),
        timeout_ms: step.timeout_ms,
        grace_ms: GRACE_MS,
        output_bytes_max: OUTPUT_BYTES_MAX,
        heard: Some(crate::layout::heard(place.dir.data())),
        caches: Vec::new(),
        run,
    }
}

/// Unique on the machine, and the same after a restart.
fn container_name(step: &StepSpec, place: &Place<'_>) -> String {
    format!("slipway-{}-{}-{}", place.build, file_name(&step.id), place.attempt)
}
