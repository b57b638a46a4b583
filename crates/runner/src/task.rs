//! What the runner tells the supervisor of an attempt, and what it hears back. Both are files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_cluster::PodsConfig;

use crate::cache::Cache;

/// An identifier or a digest.
const MEMBER_BYTES_MAX: u64 = 4096;

/// Everything that is needed to run one attempt without the runner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) build: String,
    pub(crate) step: String,
    pub(crate) attempt: u32,
    /// Lines of the runner itself, at the head of the log.
    pub(crate) intro: Vec<String>,
    /// The volume on this machine.
    pub(crate) volume: PathBuf,
    pub(crate) timeout_ms: Option<u64>,
    /// Between the polite and the final signal.
    pub(crate) grace_ms: u64,
    pub(crate) output_bytes_max: u64,
    /// See [`crate::layout::heard`].
    #[serde(default)]
    pub(crate) heard: Option<PathBuf>,
    #[serde(default)]
    pub(crate) caches: Vec<Cache>,
    pub(crate) run: Run,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Run {
    /// A process of this machine in namespaces of its own.
    Sandboxed {
        sandbox: Sandbox,
        program: Program,
        #[serde(default)]
        limits: Limits,
    },
    /// Work of ours that needs no image; in a sandbox where one can be made. It never sees the volume: what it needs of
    /// it is put into a private folder before, and what it makes is handed over after.
    Builtin {
        sandbox: Option<Sandbox>,
        work: Builtin,
        /// Whose the files of the volume are; ours when absent.
        #[serde(default)]
        owner: Option<u32>,
    },
    /// `engine` is `podman` or `docker` with its own flags; `args` are those of `run`.
    Container {
        engine: Vec<String>,
        name: String,
        args: Vec<String>,
        environment: BTreeMap<String, String>,
        /// Run one after the other before the container: services, and waiting for them.
        #[serde(default)]
        before: Vec<Vec<String>>,
        /// Containers that end with this one.
        #[serde(default)]
        beside: Vec<String>,
        /// Those of them that are waited for, and have to succeed too.
        #[serde(default)]
        also: Vec<String>,
        /// The arguments of `run` for a shell in the same image, with the same volume, variables and limits.
        #[serde(default)]
        shell: Vec<String>,
        /// Folders of the volume that are mounted elsewhere too.
        #[serde(default)]
        mounts: Vec<Staged>,
    },
    /// Commands of the container engine, one after the other until one fails.
    Engine {
        commands: Vec<Vec<String>>,
        members: Members,
        /// Values that are in no argument, where everybody on the machine could read them.
        #[serde(default)]
        environment: BTreeMap<String, String>,
        #[serde(default)]
        context: Option<Context>,
    },
    /// A pod of a cluster.
    Pod(Box<PodWork>),
}

/// A folder of the volume, mounted where no step can change the way to it: the engine gets that place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Staged {
    /// Relative to the volume; made when it is not there.
    pub(crate) source: PathBuf,
    pub(crate) at: PathBuf,
    /// Of the whole build: it stays when the attempt is over.
    #[serde(default)]
    pub(crate) shared: bool,
}

/// What an image is built from: copied from the volume into a private folder, so that an engine walks through nothing
/// that a step can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    /// Relative to the volume.
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) dockerfile: Recipe,
    pub(crate) dockerfile_to: PathBuf,
    /// The builder would read files of its machine where the name of an image is expected.
    pub(crate) names_only: bool,
    /// Of build arguments: an image may be named by one.
    pub(crate) arguments: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Recipe {
    /// Relative to the volume.
    Path(PathBuf),
    Content(String),
}

/// Of a process of this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) cpu_millis: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
}

impl Limits {
    pub(crate) fn of(step: &slipway_pipeline::StepSpec) -> Self {
        use slipway_pipeline::resources::{cpu_millis, memory_bytes};
        let limits = &step.resources.limits;
        Self {
            cpu_millis: limits.cpu.as_deref().and_then(cpu_millis),
            memory_bytes: limits.memory.as_deref().and_then(memory_bytes),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A pod, complete: whoever runs it has no choices left.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PodWork {
    pub(crate) cluster: PodsConfig,
    /// Of the pod and of its secret; the same after a restart.
    pub(crate) name: String,
    pub(crate) pod: Value,
    /// The environment: in the pod itself everybody who may read pods would see it.
    pub(crate) secret: Option<Value>,
    /// What opens registries for the node: not this pod's alone, so it stays until the build is over.
    #[serde(default)]
    pub(crate) pull: Option<Value>,
    /// Selects pods of the same build that another runner has made.
    pub(crate) others: String,
    pub(crate) members: Members,
    /// Containers of the pod that have to succeed beside the step's own.
    #[serde(default)]
    pub(crate) also: Vec<String>,
    /// Has to be there before the step's own pod is made.
    #[serde(default)]
    pub(crate) services: Option<ServicePod>,
    #[serde(default)]
    pub(crate) context: Option<Context>,
}

/// The services of a whole build: one pod, which the first step that needs it makes.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ServicePod {
    pub(crate) name: String,
    pub(crate) pod: Value,
    /// `/etc/hosts` of the step: the address of the pod is added to it, with these names.
    pub(crate) hosts: PathBuf,
    pub(crate) names: Vec<String>,
}

impl std::fmt::Debug for PodWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodWork").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What becomes `${{step.member}}` after work that succeeded.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Members {
    pub(crate) fixed: BTreeMap<String, String>,
    /// Members whose value is in a file when the commands have ended.
    pub(crate) from_files: BTreeMap<String, PathBuf>,
}

impl Members {
    pub(crate) fn read(&self) -> BTreeMap<String, String> {
        let mut all = self.fixed.clone();
        for (name, path) in &self.from_files {
            // The folder may be a pod's, which may have put a link there.
            let (Some(folder), Some(file)) = (path.parent(), path.file_name().and_then(|file| file.to_str()))
            else {
                continue;
            };
            if let Ok(text) = crate::within::read_in(folder, file, MEMBER_BYTES_MAX) {
                all.insert(name.clone(), String::from_utf8_lossy(&text).trim().to_owned());
            }
        }
        all
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) argv: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// As the program sees it.
    pub(crate) working_directory: PathBuf,
    /// A person sits at its terminal.
    #[serde(default)]
    pub(crate) interactive: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sandbox {
    /// Become this user before the program starts; stay who we are when absent.
    pub(crate) user: Option<u32>,
    /// Visible, read-only, besides the system's own folders.
    pub(crate) read_only: Vec<PathBuf>,
    /// Covered with an empty folder, should they be below something visible.
    pub(crate) hide: Vec<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub(crate) enum Builtin {
    GitClone(GitClone),
    GitCommit(GitCommit),
    Deploy(Deploy),
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Login {
    pub(crate) username: String,
    pub(crate) password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GitClone {
    pub(crate) url: String,
    pub(crate) login: Option<Login>,
    /// Certificates (PEM) that count besides the system's own.
    #[serde(default)]
    pub(crate) authority: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) depth: Option<u32>,
    pub(crate) exclude_blobs: bool,
    pub(crate) skip_tags: bool,
    /// Relative to the volume.
    pub(crate) into: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GitCommit {
    pub(crate) url: String,
    pub(crate) login: Option<Login>,
    /// Certificates (PEM) that count besides the system's own.
    #[serde(default)]
    pub(crate) authority: Option<String>,
    /// Relative to the volume.
    pub(crate) folder: PathBuf,
    pub(crate) add: Vec<String>,
    pub(crate) branch: Option<String>,
    pub(crate) message: String,
    pub(crate) name: String,
    pub(crate) email: String,
    /// Value of the trailer that marks the commit as this step's of this build.
    pub(crate) mark: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Deploy {
    pub(crate) cluster: String,
    /// Its text; the runner's own pod's cluster when absent.
    pub(crate) kubeconfig: Option<String>,
    pub(crate) namespace: String,
    /// Relative to the volume.
    pub(crate) file: Option<PathBuf>,
    /// What it holds, read when the step begins.
    #[serde(default)]
    pub(crate) text: Option<String>,
    pub(crate) service: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) timeout_ms: u64,
}

impl std::fmt::Debug for Deploy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deploy").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// What a built-in step gives back.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) error: Option<String>,
    pub(crate) members: BTreeMap<String, String>,
    pub(crate) working_directory: Option<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) how: How,
    pub(crate) code: Option<i32>,
    /// In one sentence, when there is more to say than the code.
    pub(crate) message: Option<String>,
    pub(crate) finished_ms: i64,
    pub(crate) exports: Vec<Export>,
    pub(crate) members: BTreeMap<String, String>,
    pub(crate) working_directory: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    Exited,
    TimedOut,
    Cancelled,
    /// The supervisor is gone and nobody can say how the command ended.
    Interrupted,
    /// The command never began.
    NotStarted,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) masked: bool,
}

impl Exit {
    pub(crate) fn new(how: How, code: Option<i32>, message: Option<String>) -> Self {
        Self {
            how,
            code,
            message,
            finished_ms: crate::layout::now_ms(),
            exports: Vec::new(),
            members: BTreeMap::new(),
            working_directory: None,
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        self.how == How::Exited && self.code == Some(0)
    }
}
