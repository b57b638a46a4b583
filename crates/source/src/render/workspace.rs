//! The throw-away folder in which a tool sees a part of the repository, and nothing else.

use std::path::{Path, PathBuf};

use slipway_cage::{Cage, Network};

use super::{Files, RenderError, RenderRequest, Renderer};
use crate::git::{EntryKind, GitError};
use crate::process::{self, Limits, ProcessError};

pub(super) struct Workspace {
    folder: tempfile::TempDir,
    /// What tools see: this folder, and what is added for one of them.
    cage: Cage,
    /// Files of ours, and how people know them.
    shown: Vec<(String, String)>,
}

/// What one run of a tool gets beside the folder.
#[derive(Default)]
pub(super) struct With<'a> {
    pub(super) variables: &'a [(String, String)],
    pub(super) network: Option<Network>,
    /// Files and folders of this machine.
    pub(super) reads: Vec<PathBuf>,
    /// Another tool that this one starts.
    pub(super) starts: Option<String>,
    /// Files of the folder may be run.
    pub(super) runnable: bool,
}

impl Workspace {
    /// Writes the files below `repo/`. Links were already replaced by what they point at.
    pub(super) fn with(files: &Files) -> Result<Self, RenderError> {
        let folder = crate::private::throw_away("slipway-render-").map_err(failed)?;
        let cage = Cage::new().write(folder.path());
        let workspace = Self { folder, cage, shown: Vec::new() };
        for (path, content) in files {
            workspace.write(&format!("repo/{path}"), content)?;
        }
        for name in ["repo", "home", "own"] {
            std::fs::create_dir_all(workspace.path(name)).map_err(failed)?;
        }
        Ok(workspace)
    }

    /// `relative` was built from checked parts.
    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    pub(super) fn write(&self, relative: &str, content: &[u8]) -> Result<PathBuf, RenderError> {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
        std::fs::write(&path, content).map_err(failed)?;
        Ok(path)
    }

    /// In messages a file of ours is called by this name.
    pub(super) fn show_as(&mut self, relative: &str, name: &str) {
        self.shown.push((relative.to_owned(), name.to_owned()));
    }

    pub(super) fn make_executable(&self, relative: &str) -> Result<(), RenderError> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.path(relative), std::fs::Permissions::from_mode(0o700)).map_err(failed)
    }

    /// Runs a tool here; `Ok(None)`: it is not installed.
    pub(super) async fn run(
        &self,
        renderer: &Renderer,
        request: &RenderRequest,
        tool: &str,
        arguments: &[String],
    ) -> Result<Option<Vec<u8>>, RenderError> {
        self.run_in(renderer, request, "repo", tool, arguments, With::default()).await
    }

    /// As [`Self::run`], in one of its folders and with more than that.
    pub(super) async fn run_in(
        &self,
        renderer: &Renderer,
        request: &RenderRequest,
        folder: &str,
        tool: &str,
        arguments: &[String],
        with: With<'_>,
    ) -> Result<Option<Vec<u8>>, RenderError> {
        let _slot = renderer.tools.acquire().await.expect("the semaphore is never closed");
        let home = self.path("home");
        let mut command = process::clean(&renderer.program(tool), &home);
        command.args(arguments).current_dir(self.path(folder)).envs(SHORT_LIVED);
        command.envs(with.variables.iter().cloned());
        for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR"] {
            command.env(name, &home);
        }
        let mut cage = self.cage.clone().network(with.network.unwrap_or(Network::None));
        cage = with.reads.into_iter().fold(cage, Cage::read);
        if let Some(other) = &with.starts {
            cage = cage.program(other);
        }
        if with.runnable {
            cage = cage.runnable();
        }
        cage.give(self.folder.path()).map_err(failed)?;
        let limits =
            Limits { deadline: renderer.limits.deadline, stdout_bytes: renderer.limits.output_bytes };
        let broken =
            |detail: String| RenderError::Tool { tool: tool.to_owned(), path: request.path.clone(), detail };
        match process::run(&command, &cage, tool, None, &limits, || true).await {
            Ok(output) if output.success => Ok(Some(output.stdout)),
            Ok(output) => Err(broken(self.without_paths(&output.stderr))),
            Err(ProcessError::Missing { .. }) => Ok(None),
            Err(error) => Err(broken(error.to_string())),
        }
    }

    /// A tool's words with paths of the repository instead of this machine's, and not more than a screen.
    fn without_paths(&self, text: &str) -> String {
        let root = self.folder.path().display().to_string();
        let mut text = text.trim().replace(&format!("{root}/repo/"), "").replace(&root, "");
        for (own, name) in &self.shown {
            text = text.replace(&format!("../{own}"), name).replace(&format!("/{own}"), name);
        }
        text.chars().take(2000).collect()
    }
}

/// Helm and Kustomize are Go programs that live for a tenth of a second: collecting garbage before they hold much is a
/// quarter of their processor time.
const SHORT_LIVED: [(&str, &str); 2] = [("GOGC", "off"), ("GOMEMLIMIT", "192MiB")];

fn failed(source: std::io::Error) -> RenderError {
    RenderError::Folder { folder: "the temporary folder".to_owned(), source }
}

/// Adds every file below a folder of the repository, links replaced by what they point at.
pub(super) async fn add_folder(
    renderer: &Renderer,
    request: &RenderRequest,
    folder: &str,
    files: &mut Files,
    outside: &mut Vec<String>,
) -> Result<(), RenderError> {
    let (content_of, git) = (&request.content, &renderer.git);
    let tree = content_of.tree(git, folder, true).await?;
    let prefix = super::directory::folder_prefix(folder);
    for (path, entry) in &tree.entries {
        let path = format!("{prefix}{path}");
        let content = match entry.kind {
            EntryKind::File | EntryKind::Executable => content_of.blob(git, &entry.id).await?,
            EntryKind::Link => {
                let target = content_of.blob(git, &entry.id).await?;
                let target = crate::git::mirror::tree::link_target(&path, &String::from_utf8_lossy(&target))?;
                let Some(content) = content_of.file(git, &target).await? else { continue };
                outside.push(target);
                content
            }
            EntryKind::Folder | EntryKind::Submodule => continue,
        };
        files.insert(path, content);
        check_size(renderer, request, files)?;
    }
    Ok(())
}

/// Adds one file; `false`: it is not there.
pub(super) async fn add_file(
    renderer: &Renderer,
    request: &RenderRequest,
    path: &str,
    files: &mut Files,
) -> Result<bool, RenderError> {
    match request.content.file(&renderer.git, path).await? {
        Some(content) => {
            files.insert(path.to_owned(), content);
            check_size(renderer, request, files)?;
            Ok(true)
        }
        None => Ok(false),
    }
}

fn check_size(renderer: &Renderer, request: &RenderRequest, files: &Files) -> Result<(), RenderError> {
    // A chart may carry pictures and archives; ten times the manifests' limit is still nothing for a disk.
    let most = renderer.limits.input_bytes * 10;
    if files.values().map(Vec::len).sum::<usize>() > most {
        return Err(RenderError::TooLarge {
            what: format!("the files in `{}`", request.path),
            limit: format!("{most} bytes"),
        });
    }
    Ok(())
}

/// A path written in a file of `folder`, as a path from the root; "/x" means from the root.
pub(super) fn join(folder: &str, relative: &str) -> Result<String, GitError> {
    let joined = match relative.strip_prefix('/') {
        Some(absolute) => absolute.to_owned(),
        None => format!("{folder}/{relative}").trim_start_matches('/').to_owned(),
    };
    Ok(crate::git::mirror::tree::parts(&joined)
        .map_err(|_| GitError::PathEscapes { path: relative.to_owned() })?
        .join("/"))
}
