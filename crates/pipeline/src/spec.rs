//! A step as the runner gets it: every `${{VAR}}` resolved, every default applied.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resources::Resources;

/// A step that is ready to run. Nothing in it needs the pipeline file any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepSpec {
    /// The key in [`BuildState::steps`](crate::state::BuildState): the step's name, or a hook step's id.
    pub id: String,
    /// The name as written in the file.
    pub name: String,
    pub title: String,
    pub stage: Option<String>,
    /// The `type` as written, without the version; `freestyle` when none was.
    pub type_name: String,
    /// The whole attempt, image pull included.
    pub timeout_ms: Option<u64>,
    pub retry: Retry,
    pub fail_fast: bool,
    pub working_directory: WorkingDirectory,
    /// Side services that must be up before the step, in compose form.
    pub services: Option<Value>,
    /// Where it stops when its build is debugged.
    #[serde(default)]
    pub breakpoint: Breakpoint,
    #[serde(default)]
    pub resources: Resources,
    pub kind: StepKind,
}

/// `debug.phases` of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Breakpoint {
    pub before: bool,
    /// Instead of its commands: `override` in files.
    pub instead: bool,
    pub after: bool,
}

/// Where a step works. Relative parts are already joined, variables already resolved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkingDirectory {
    /// The volume itself.
    #[default]
    Volume,
    /// An absolute path.
    Absolute(String),
    /// A path below the volume; never leaves it.
    UnderVolume(String),
    /// The image's own `WORKDIR`.
    Image,
}

/// How often a failed step is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    pub max_attempts: u32,
    pub delay_seconds: f64,
    pub exponential_factor: f64,
}

impl Default for Retry {
    fn default() -> Self {
        Self { max_attempts: 1, delay_seconds: 5.0, exponential_factor: 1.0 }
    }
}

/// What the runner has to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum StepKind {
    Freestyle(Freestyle),
    GitClone(GitClone),
    Build(Box<Build>),
    Push(Push),
    PushTag(PushTag),
    Deploy(Deploy),
    Composition(Composition),
    LaunchComposition(LaunchComposition),
    PendingApproval(PendingApproval),
    /// Commands over ssh on a node that is not a container (macOS builders).
    FreestyleSsh(FreestyleSsh),
    /// A step of the marketplace or the account (`git-commit`, `helm`, …), travis façades included.
    Typed(Typed),
    /// Annotations and image metadata of a hook; nothing runs.
    Annotate(Annotate),
}

/// A command to run in a container.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Freestyle {
    pub image: String,
    /// Joined into one script that stops at the first failure; replaces the image's entry point.
    pub commands: Option<Vec<String>>,
    /// Arguments of the image's entry point.
    pub cmd: Option<Vec<String>>,
    pub entry_point: Option<Vec<String>>,
    pub shell: Shell,
    /// The whole environment of the step, layers already merged, in the order of precedence.
    pub environment: BTreeMap<String, String>,
    /// `source:target`, the source below the volume.
    pub volumes: Vec<String>,
    pub registry_context: Option<String>,
    pub role_arn: Option<String>,
    pub cache: Vec<Cache>,
}

/// Folders that a step finds again as an earlier build left them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    pub key: String,
    /// What they hold is part of the key.
    pub files: Vec<String>,
    /// Below the volume; relative ones are of the step's working directory.
    pub paths: Vec<String>,
    /// Beginnings of other keys that will do when there is nothing under this one.
    pub restore_keys: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shell {
    #[default]
    Sh,
    Bash,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GitClone {
    pub repo: String,
    pub revision: Option<String>,
    /// Name of the git integration.
    pub git: Option<String>,
    pub credentials: Option<Credentials>,
    pub depth: Option<u32>,
    pub use_proxy: bool,
    pub exclude_blobs: bool,
    pub skip_tags_on_update: bool,
}

/// Interpolated from the file, so it may be a secret: kept out of `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    pub username: String,
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dockerfile {
    /// Relative to the working directory.
    Path(String),
    Content(String),
}

impl Default for Dockerfile {
    fn default() -> Self {
        Self::Path("Dockerfile".to_owned())
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Build {
    pub image_name: String,
    /// `tag` and `tags` together, in order, lower-cased when the policy says so; never empty.
    pub tags: Vec<String>,
    pub dockerfile: Dockerfile,
    pub build_arguments: Vec<String>,
    pub target: Option<String>,
    pub no_cache: bool,
    pub no_cf_cache: bool,
    pub squash: bool,
    pub disable_push: bool,
    pub registry: Option<String>,
    pub registry_contexts: Vec<String>,
    pub cache_from: Vec<String>,
    pub cache_to: Vec<String>,
    pub buildkit: bool,
    pub progress: Option<String>,
    /// `ssh`, `secrets`, `buildx`, `provider`, `cosign`, `metadata`, `annotations` as written.
    pub options: BTreeMap<String, Value>,
    pub platform: Option<String>,
    pub region: Option<String>,
    pub role_arn: Option<String>,
    pub aws_session_name: Option<String>,
    pub aws_duration_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Push {
    pub candidate: String,
    pub image_name: Option<String>,
    pub tags: Vec<String>,
    pub registry: Option<String>,
    pub registry_context: Option<String>,
    pub provider: Option<String>,
    pub credentials: Option<Credentials>,
    pub region: Option<String>,
    pub role_arn: Option<String>,
    pub aws_session_name: Option<String>,
    pub aws_duration_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PushTag {
    pub image_name: String,
    pub tags: Vec<String>,
    pub registry: Option<String>,
    pub region: Option<String>,
    pub role_arn: Option<String>,
    pub aws_session_name: Option<String>,
    pub aws_duration_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Deploy {
    pub kind: String,
    pub cluster: String,
    pub namespace: String,
    pub service: Option<String>,
    pub file_path: Option<String>,
    pub candidate_image: Option<String>,
    pub candidate_registry: Option<String>,
    pub commands: Vec<String>,
}

/// Inline compose text, a file, or a stored composition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Composition {
    /// A map (inline) or a string (a path or a stored name).
    pub composition: Value,
    pub candidates: Value,
    pub variables: BTreeMap<String, String>,
    pub registry_contexts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchComposition {
    pub composition: Value,
    pub variables: BTreeMap<String, String>,
    pub environment_name: Option<String>,
    pub entry_point: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingApproval {
    /// How long the question stands; `None` only when the file says so.
    pub timeout_ms: Option<u64>,
    pub final_state: FinalState,
}

/// What an approval that nobody answered becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinalState {
    #[default]
    Terminated,
    Approved,
    Denied,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FreestyleSsh {
    pub commands: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// Every other field as written (`ssh`, `credentials`, node selection).
    pub arguments: Value,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Typed {
    pub type_name: String,
    pub version: Option<String>,
    pub arguments: Value,
    /// Variables in effect, for the sub-steps of the type.
    pub environment: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Annotate {
    pub annotations: Value,
    pub metadata: Value,
}
