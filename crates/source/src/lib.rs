//! Room `source`: a repository's address and a revision come in, manifests go out.
//!
//! [`GitCache`] keeps one bare mirror per repository and reads files straight from its object store, without
//! a checkout. [`Renderer`] turns a folder of a commit into Kubernetes objects (plain files, Kustomize, Helm)
//! and remembers the result by the content that went in, across restarts. [`ChartCache`] does the same for packaged
//! charts of Helm repositories and registries.
//! The room does not know what an Application, a cluster or an account is.

mod chart;
mod private;
mod process;
mod render;
mod repo_url;

pub mod git;

pub use chart::{Archive, ChartCache, ChartError, ChartLimits, ChartVersion};
pub use git::{
    Commit, Credentials, EntryKind, GitCache, GitError, GitLimits, GitOptions, Keyring, Repository,
    SignatureError, Since,
};
pub use render::{
    Content, Directory, Finding, Helm, HelmParameter, Jsonnet, JsonnetVariable, Kustomize, KustomizeTool,
    Lookup, LookupAnswer, Origin, Plugin, PluginParameter, PluginSpec, RenderError, RenderLimits,
    RenderRequest, Rendered, Renderer, Repositories, SourceKind, SourceOptions, Submodules,
};
pub use repo_url::{RepoUrlError, check_repo_url, normalise_repo_url, without_userinfo};
