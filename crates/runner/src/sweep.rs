//! What builds that are over have left on this machine: containers, pods, processes, mounts.
//!
//! Steps and builds clean up after themselves, and say so when they cannot. This is for what is left then: a runner that
//! was killed, an engine that was away. It runs at the start and every few minutes. What is there is listed before the
//! living builds are asked for, so whatever a build starts meanwhile is not mistaken for one that is over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio_util::sync::CancellationToken;

use crate::build::Context;
use crate::layout::{BuildDir, builds};
use crate::shim::{SUBCOMMAND, mounted_below, unmount_below};

/// The ids of builds that are going on here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Active(Arc<Mutex<BTreeSet<String>>>);

impl Active {
    pub(crate) fn insert(&self, build: &str) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(build.to_owned());
    }

    pub(crate) fn remove(&self, build: &str) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(build);
    }

    fn all(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.iter().cloned().collect()
    }

    fn folders(&self, data: &Path) -> Vec<PathBuf> {
        self.all().iter().map(|build| BuildDir::new(data, build).0).collect()
    }
}

/// Once. What stays is said and tried again by the next one.
pub(crate) fn sweep(context: &Context, active: &Active) {
    let data = &context.data;
    let mut left = Vec::new();
    processes(data, active);
    left.extend(context.executor.reap(&|| active.all()).err());
    left.extend(mounts(data, active).err().map(|error| format!("mounts of ended builds stay: {error}")));
    if !left.is_empty() {
        tracing::warn!(why = left.join("; "), "Cleanup after finished builds failed; retrying later.");
    }
}

/// Every `period`, until `shutdown`.
pub(crate) async fn periodically(
    context: Arc<Context>,
    active: Active,
    period: Duration,
    shutdown: CancellationToken,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = shutdown.cancelled() => return,
        }
        let (context, active) = (context.clone(), active.clone());
        if let Err(error) = tokio::task::spawn_blocking(move || sweep(&context, &active)).await {
            tracing::error!(%error, "Cleanup after finished builds panicked.");
        }
    }
}

/// Ends supervisors of builds that are over; whatever runs in a sandbox of theirs ends with them.
fn processes(data: &Path, active: &Active) {
    let found = supervisors(data);
    let active = active.folders(data);
    for (pid, folder) in found.into_iter().filter(|(_, folder)| !active.contains(folder)) {
        tracing::warn!(pid, folder = %folder.display(), "Stopping the supervisor of a finished build.");
        if let Err(errno) = kill(Pid::from_raw(pid), Signal::SIGKILL)
            && errno != nix::errno::Errno::ESRCH
        {
            tracing::warn!(pid, error = errno.desc(), "Cannot stop the supervisor of a finished build.");
        }
    }
}

/// Supervisors of this runner, and the folders of their builds.
fn supervisors(data: &Path) -> Vec<(i32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words: Vec<&str> = std::str::from_utf8(&line).ok()?.split('\0').collect();
            let [_, SUBCOMMAND, "supervise" | "adopt", attempt, ..] = words[..] else { return None };
            Some((pid, build_of(data, Path::new(attempt))?))
        })
        .collect()
}

fn mounts(data: &Path, active: &Active) -> std::io::Result<()> {
    let found: BTreeSet<PathBuf> =
        mounted_below(&builds(data))?.iter().filter_map(|point| build_of(data, point)).collect();
    let active = active.folders(data);
    found.iter().filter(|folder| !active.contains(folder)).try_for_each(|folder| unmount_below(folder))
}

/// The folder of the build that a path is in.
fn build_of(data: &Path, path: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix(builds(data)).ok()?;
    Some(builds(data).join(below.components().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_belong_to_the_build_whose_folder_they_are_in() {
        let data = Path::new("/data");
        let of = |path: &str| build_of(data, Path::new(path)).map(|path| path.display().to_string());
        assert_eq!(of("/data/builds/b1/steps/s/1").as_deref(), Some("/data/builds/b1"));
        assert_eq!(of("/data/builds/b1").as_deref(), Some("/data/builds/b1"));
        assert_eq!(of("/data/builds"), None);
        assert_eq!(of("/elsewhere/builds/b1"), None);
    }
}
