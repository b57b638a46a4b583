//! A real repository to read from, made with the git command line.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use slipway_source::{ChartCache, ChartLimits, GitCache, GitOptions, RenderLimits, Renderer, Repository};

pub(crate) struct Repo {
    pub(crate) root: tempfile::TempDir,
}

impl Repo {
    pub(crate) fn new() -> Self {
        let repo = Self { root: tempfile::tempdir().expect("a temporary folder") };
        std::fs::create_dir(repo.folder()).expect("a new folder");
        repo.git(&["init", "--quiet", "--initial-branch=main"]);
        repo
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.folder(), arguments)
    }

    pub(crate) fn write(&self, path: &str, content: &str) -> &Self {
        let path = self.folder().join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a new folder");
        std::fs::write(path, content).expect("a new file");
        self
    }

    pub(crate) fn link(&self, path: &str, target: &str) -> &Self {
        std::os::unix::fs::symlink(target, self.folder().join(path)).expect("a new link");
        self
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// A cache in a folder of its own, which survives being opened again.
    pub(crate) fn cache(&self) -> Arc<GitCache> {
        let options = GitOptions { allow_local: true, ..GitOptions::default() };
        Arc::new(GitCache::open(self.root.path().join("mirrors"), options).expect("a cache"))
    }

    pub(crate) fn renderer(&self) -> Renderer {
        let charts =
            ChartCache::open(self.root.path().join("charts"), ChartLimits::default()).expect("a cache");
        let tools = ["helm", "kustomize", "jsonnet"]
            .iter()
            .map(|name| slipway_testkit::tool(name).parent().expect("a program is in a folder").to_owned());
        Renderer::new(self.cache(), self.root.path().join("rendered"), RenderLimits::default())
            .expect("a renderer")
            .with_charts(Arc::new(charts))
            .with_tools(tools.collect())
    }

    pub(crate) fn repository(&self) -> Repository {
        Repository::public(format!("file://{}", self.folder().display()))
    }
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
