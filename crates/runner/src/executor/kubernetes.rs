//! Steps as pods of a cluster, one pod an attempt, none of them privileged.
//!
//! The volume of a build is a folder of the runner's own storage, which pods mount by sub-path: a claim that the
//! runner's pod has mounted as its data folder, or the machine's disk where runner and node are the same machine.
//! So everything that reads or prepares files is the same as on any other executor, and a build's pods are where
//! its volume is. What a pod sees of that storage is its build's volume and the attempt's script, and nothing else.

mod image;
mod pod;
mod side;

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_cluster::{ClusterError, PodKind, Pods, PodsConfig};
use slipway_pipeline::spec::Shell;
use slipway_pipeline::volume::Volume;
use slipway_pipeline::{StepKind, StepSpec};

use super::beside::Beside;
use super::script::Output;
use super::{Executor, Place, Refusal, make_working_directory, reach, script, task, working_directory};
use crate::layout::create_private_dir;
use crate::shim::tidy;
use crate::task::{Members, PodWork, Run, Sandbox, Task};
use crate::within::{self, Made};
use pod::{BUILD, Mount, Of, PodShape, RUNNER, label_value};

/// How steps become pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesConfig {
    /// `None`: the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    pub namespace: String,
    pub storage: Storage,
    /// The only node that can mount the storage; any when absent.
    pub node: Option<String>,
    /// Names of secrets of the namespace that hold registries' credentials.
    pub image_pull_secrets: Vec<String>,
    /// Limits of every step, as Kubernetes writes them (`2`, `4Gi`).
    pub cpu: Option<String>,
    pub memory: Option<String>,
    /// Has `buildah` and a shell.
    pub builder_image: String,
    /// Where images go that a `build` step names no registry for: `host[:port][/prefix]`.
    pub registry: Option<String>,
    /// Registries without TLS.
    pub insecure_registries: Vec<String>,
    /// A Docker `config.json` with credentials of registries, for image steps.
    pub registry_config: Option<PathBuf>,
}

/// Where the runner's data folder is, for pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// This claim is mounted at the data folder.
    Claim(String),
    /// Runner and node are the same machine.
    Host,
}

impl KubernetesConfig {
    pub const BUILDER_IMAGE: &str = "quay.io/buildah/stable:v1.41";

    pub fn new(kubeconfig: Option<PathBuf>, namespace: impl Into<String>, storage: Storage) -> Self {
        Self {
            kubeconfig,
            context: None,
            namespace: namespace.into(),
            storage,
            node: None,
            image_pull_secrets: Vec::new(),
            cpu: None,
            memory: None,
            builder_image: Self::BUILDER_IMAGE.to_owned(),
            registry: None,
            insecure_registries: Vec::new(),
            registry_config: None,
        }
    }
}

pub(super) struct Kubernetes {
    config: KubernetesConfig,
    cluster: PodsConfig,
    data: PathBuf,
    /// Tells pods of this runner from those of another.
    owner: String,
    sandbox: Option<Sandbox>,
    describe: String,
}

impl Kubernetes {
    /// Asks the cluster once, so that a wrong configuration is told at the start and not by the first build.
    pub(super) fn open(
        config: KubernetesConfig,
        data: &Path,
        sandbox: Option<Sandbox>,
    ) -> anyhow::Result<Self> {
        let cluster = PodsConfig {
            kubeconfig: config.kubeconfig.clone(),
            context: config.context.clone(),
            namespace: config.namespace.clone(),
        };
        let owner = owner(data)?;
        let version = blocking(async {
            let pods = Pods::connect(&cluster).await?;
            let version = pods.version().await?;
            pods.list(PodKind::Pod, &format!("{RUNNER}={owner}")).await?;
            Ok::<_, ClusterError>(version)
        })
        .map_err(|error| {
            anyhow::anyhow!(
                "steps cannot run as pods of namespace {}: {error}. `slipway runner install --dry-run` prints the role that a runner needs",
                config.namespace
            )
        })?;
        let describe = format!("Steps run as pods of namespace {} by Kubernetes {version}", config.namespace);
        Ok(Self { config, cluster, data: data.to_owned(), owner, sandbox, describe })
    }

    /// The folder as a mount of a pod.
    fn mount(&self, folder: &Path, at: &str, read_only: bool) -> Result<Mount, Refusal> {
        let below = folder.strip_prefix(&self.data).map_err(|_| {
            Refusal::Unsupported(format!("{} is not in the runner's storage", folder.display()))
        })?;
        Ok(Mount { of: Of::Runner, sub_path: below.display().to_string(), at: at.to_owned(), read_only })
    }

    /// The file that takes the output of a step whose script we write.
    fn log_mount(&self, place: &Place<'_>) -> Result<Mount, Refusal> {
        let path = place.at.pod_log();
        std::fs::write(&path, "")?;
        // Images run as whatever user they like.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
        self.mount(&path, crate::layout::LOG, false)
    }

    fn shape(&self, image: &str) -> PodShape {
        PodShape {
            image: image.to_owned(),
            config: self.config.clone(),
            data: self.data.clone(),
            owner: self.owner.clone(),
            ..PodShape::default_for(&self.config)
        }
    }

    fn task(
        &self,
        step: &StepSpec,
        place: &Place<'_>,
        intro: Vec<String>,
        shape: &PodShape,
        members: Members,
    ) -> Task {
        let name = shape.name(step, place);
        let work = PodWork {
            cluster: self.cluster.clone(),
            pod: shape.pod(&name, step, place),
            secret: shape.secret(&name, step, place),
            pull: shape.pull_secret(place),
            others: format!("{BUILD}={},{RUNNER}!={}", label_value(place.build), self.owner),
            name,
            members,
            also: shape.candidates(),
            services: None,
            context: None,
        };
        task(step, place, intro, Run::Pod(Box::new(work)))
    }

    /// Folders of the volume at other places of a pod. The kubelet resolves them when it mounts, long after this, and
    /// keeps them inside of the volume of the pod that they are of: so that is the build's volume, not all of ours.
    fn user_volumes(&self, volumes: &[Volume], place: &Place<'_>) -> Result<Vec<Mount>, Refusal> {
        let mut mounts = Vec::new();
        for volume in volumes {
            let no = |why: &str| {
                Refusal::Unsupported(format!(
                    "`{}` of the volume cannot be mounted at {}: {why}",
                    volume.source.display(),
                    volume.target
                ))
            };
            if volume.source.as_os_str().is_empty() {
                mounts.push(self.mount(&place.dir.volume(), &volume.target, volume.read_only)?);
                continue;
            }
            if matches!(self.config.storage, Storage::Claim(_)) {
                return Err(no(&format!(
                    "where the runner's storage is a claim, nothing could keep a step from putting a link there. Use {}/{}, where it is anyway, or mount the whole volume (`.`)",
                    crate::layout::VOLUME,
                    volume.source.display()
                )));
            }
            let made = within::Volume::open(&place.dir.volume())
                .and_then(|opened| opened.make_folder(&volume.source, Made::open_to_all()))
                .and_then(open_to_all);
            made.map_err(|error| no(&error.to_string()))?;
            mounts.push(Mount {
                of: Of::Build,
                sub_path: volume.source.display().to_string(),
                at: volume.target.clone(),
                read_only: volume.read_only,
            });
        }
        Ok(mounts)
    }
}

impl Executor for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
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

    fn has_own_registry(&self) -> bool {
        self.config.registry.is_some()
    }

    /// Images run as whatever user they like, and all of them write here.
    fn volume_mode(&self) -> u32 {
        0o777
    }

    fn freestyle(&self, step: &StepSpec, place: &Place<'_>, beside: &Beside) -> Result<Task, Refusal> {
        let StepKind::Freestyle(spec) = &step.kind else { unreachable!("called for freestyle steps only") };
        if spec.image.is_empty() {
            return Err(Refusal::Unsupported(format!("step `{}` has no image it could run in", step.name)));
        }
        let mut shape = self.shape(&spec.image);
        script::write_with_output(&place.at.bin(), spec.commands.as_deref(), Output::File)?;
        if spec.commands.is_some() {
            let shell = match spec.shell {
                Shell::Sh => "sh",
                Shell::Bash => "bash",
            };
            shape.command = vec![shell.to_owned(), script::path()];
        } else {
            shape.command = spec.entry_point.clone().unwrap_or_default();
            shape.arguments = spec.cmd.clone().unwrap_or_default();
        }
        shape.working_directory = working_directory(step);
        if let Some(directory) = &shape.working_directory
            && let Some(made) = make_working_directory(directory, place, None)?
        {
            open_to_all(made)?;
        }
        let left_out = shape.environment(&spec.environment);
        shape.mounts = vec![
            self.mount(&place.dir.volume(), crate::layout::VOLUME, false)?,
            self.mount(&place.at.bin(), crate::layout::BIN, true)?,
        ];
        if spec.commands.is_some() {
            shape.mounts.push(self.log_mount(place)?);
        }
        shape.mounts.extend(self.user_volumes(&reach::volumes(&spec.volumes, place)?, place)?);
        self.put_beside(&mut shape, beside, place)?;
        let mut intro =
            vec![format!("Running in image {} as a pod of namespace {}", spec.image, self.config.namespace)];
        intro.extend(
            left_out.iter().map(|name| format!("Variable {name} cannot be given to a pod and is left out")),
        );
        let mut task = self.task(step, place, intro, &shape, Members::default());
        if let (Some(root), Run::Pod(work)) = (&beside.of_build, &mut task.run) {
            work.services = Some(self.services_of_build(step, root, place)?);
        }
        Ok(task)
    }

    fn image(&self, step: &StepSpec, place: &Place<'_>) -> Result<Task, Refusal> {
        create_private_dir(&place.at.out())?;
        open_folder(&place.at.out())?;
        match &step.kind {
            StepKind::Build(spec) => self.build_image(step, spec, place),
            StepKind::Push(spec) => self.push_image(step, spec, place),
            StepKind::PushTag(spec) => self.tag_image(step, spec, place),
            _ => unreachable!("called for image steps only"),
        }
    }

    fn remove(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::remove_dir_all(folder)
    }

    fn reap(&self, active: &dyn Fn() -> Vec<String>) -> Result<(), String> {
        let found = self.list(&format!("{RUNNER}={}", self.owner))?;
        let active: Vec<String> = active().iter().map(|build| label_value(build)).collect();
        self.delete(found.into_iter().filter(|object| !active.contains(&object.build)).collect())
    }

    fn release(&self, build: &str) -> Result<(), String> {
        let selector = format!("{RUNNER}={},{BUILD}={}", self.owner, label_value(build));
        tidy::retry(|| self.delete(self.list(&selector)?))
    }
}

impl Kubernetes {
    fn list(&self, selector: &str) -> Result<Vec<Left>, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        blocking(async {
            let pods = Pods::connect(&self.cluster).await?;
            let mut all = Vec::new();
            for kind in [PodKind::Pod, PodKind::Secret] {
                all.extend(pods.list(kind, selector).await?.iter().map(|object| Left {
                    kind,
                    name: text(&object["metadata"]["name"]),
                    build: text(&object["metadata"]["labels"][BUILD]),
                }));
            }
            Ok::<_, ClusterError>(all)
        })
        .map_err(|error| format!("pods cannot be listed: {error}"))
    }

    fn delete(&self, all: Vec<Left>) -> Result<(), String> {
        if all.is_empty() {
            return Ok(());
        }
        blocking(async {
            let pods = Pods::connect(&self.cluster).await?;
            for object in &all {
                let grace = (object.kind == PodKind::Pod).then_some(0);
                pods.delete(object.kind, &object.name, grace).await?;
            }
            Ok::<_, ClusterError>(())
        })
        .map_err(|error| format!("pods cannot be removed: {error}"))
    }
}

/// An object of this runner's in the cluster.
struct Left {
    kind: PodKind,
    name: String,
    /// As its label says.
    build: String,
}

/// A name for this runner that stays as long as its storage does.
fn owner(data: &Path) -> std::io::Result<String> {
    let path = data.join("owner");
    if let Ok(text) = std::fs::read_to_string(&path)
        && !text.trim().is_empty()
    {
        return Ok(text.trim().to_owned());
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    let owner = hex::encode(random);
    crate::layout::write_atomic(&path, owner.as_bytes(), crate::layout::Lasting::Now)?;
    Ok(owner)
}

fn open_to_all(folder: OwnedFd) -> std::io::Result<()> {
    Ok(nix::sys::stat::fchmod(folder, nix::sys::stat::Mode::from_bits_truncate(0o777))?)
}

/// One of the runner's own.
fn open_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777))
}

/// On a thread of its own: callers may be inside of a runtime already.
fn blocking<T: Send>(work: impl Future<Output = Result<T, ClusterError>> + Send) -> Result<T, ClusterError> {
    std::thread::scope(|scope| {
        let run = || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
                    ClusterError::Unreachable { detail: format!("no runtime can be made: {error}") }
                })?;
            runtime.block_on(work)
        };
        scope.spawn(run).join().unwrap_or_else(|_| {
            Err(ClusterError::Unreachable { detail: "the thread that asked has panicked".to_owned() })
        })
    })
}
