//! Where things are below the runner's data folder, and how they get there in one piece.
//!
//! ```text
//! builds/<build>/taken.json            what the server gave us; holds secrets, removed at the end
//!                journal.json          where the build is (journal.rs)
//!                volume/               /codefresh/volume of the steps
//!                images/               what `build` steps made, on Kubernetes and for forks
//!                logs/<step>.log       masked text, byte for byte what the server gets
//!                logs/<step>.cursor    how far the raw text has been masked
//!                steps/<step>/<n>/     one attempt: task, started, output, exit (task.rs)
//! caches/                              what steps keep for later builds (cache.rs)
//! ```

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Where the volume is for every step, on every executor.
pub(crate) use slipway_pipeline::volume::VOLUME;
/// The step's script and `cf_export`, read-only, outside the volume so that no step can change them.
pub(crate) const BIN: &str = "/codefresh/bin";
/// In a pod: the file that takes the step's output.
pub(crate) const LOG: &str = "/codefresh/log";
/// For steps of ours: a folder that no other step ever sees.
pub(crate) const WORK: &str = "/codefresh/work";

#[derive(Debug, Clone)]
pub(crate) struct BuildDir(pub(crate) PathBuf);

impl BuildDir {
    pub(crate) fn new(data: &Path, build: &str) -> Self {
        Self(builds(data).join(file_name(build)))
    }
    pub(crate) fn taken(&self) -> PathBuf {
        self.0.join("taken.json")
    }
    pub(crate) fn types(&self) -> PathBuf {
        self.0.join("types.json")
    }
    pub(crate) fn journal(&self) -> PathBuf {
        self.0.join("journal.json")
    }
    pub(crate) fn volume(&self) -> PathBuf {
        self.0.join("volume")
    }
    /// Images that its steps make, where they are not the engine's own.
    pub(crate) fn images(&self) -> PathBuf {
        self.0.join("images")
    }
    /// What they take of the disk, once that is known.
    pub(crate) fn images_bytes(&self) -> PathBuf {
        self.0.join("images-bytes")
    }
    pub(crate) fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }
    /// The runner's data folder.
    pub(crate) fn data(&self) -> &Path {
        self.0.parent().and_then(Path::parent).unwrap_or(&self.0)
    }
    pub(crate) fn steps(&self) -> PathBuf {
        self.0.join("steps")
    }
    pub(crate) fn attempt(&self, step: &str, attempt: u32) -> AttemptDir {
        AttemptDir(self.steps().join(file_name(step)).join(attempt.to_string()))
    }
}

/// Written when the server has answered; supervisors look at when that was, and stop after too much silence.
pub(crate) fn heard(data: &Path) -> PathBuf {
    data.join("heard")
}

pub(crate) fn builds(data: &Path) -> PathBuf {
    data.join("builds")
}

/// One attempt of one step.
#[derive(Debug, Clone)]
pub(crate) struct AttemptDir(pub(crate) PathBuf);

impl AttemptDir {
    pub(crate) fn task(&self) -> PathBuf {
        self.0.join("task.json")
    }
    /// Held by the supervisor as long as it lives.
    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }
    /// Made once, and only once, before the command starts.
    pub(crate) fn started(&self) -> PathBuf {
        self.0.join("started")
    }
    pub(crate) fn output(&self) -> PathBuf {
        self.0.join("output")
    }
    pub(crate) fn exit(&self) -> PathBuf {
        self.0.join("exit.json")
    }
    /// How the command ended, while what it left behind is being removed.
    pub(crate) fn settled(&self) -> PathBuf {
        self.0.join("settled.json")
    }
    pub(crate) fn cancel(&self) -> PathBuf {
        self.0.join("cancel")
    }
    pub(crate) fn bin(&self) -> PathBuf {
        self.0.join("bin")
    }
    pub(crate) fn environment(&self) -> PathBuf {
        self.0.join("env")
    }
    /// Folders of the volume, where the way to them is nobody's to change.
    pub(crate) fn mounts(&self) -> PathBuf {
        self.0.join("mounts")
    }
    /// Of a step of ours, and nobody else's.
    pub(crate) fn work(&self) -> PathBuf {
        self.0.join("work")
    }
    /// What an image is built from.
    pub(crate) fn context(&self) -> PathBuf {
        self.0.join("context")
    }
    pub(crate) fn dockerfile(&self) -> PathBuf {
        self.0.join("Dockerfile")
    }
    pub(crate) fn image_id(&self) -> PathBuf {
        self.0.join("image-id")
    }
    /// How far the log of the attempt's pod has been read.
    pub(crate) fn pod_cursor(&self) -> PathBuf {
        self.0.join("pod.cursor")
    }
    /// The output of the attempt's pod, where it can write it down itself.
    pub(crate) fn pod_log(&self) -> PathBuf {
        self.0.join("pod.log")
    }
    /// What a pod gives back besides its log.
    pub(crate) fn out(&self) -> PathBuf {
        self.0.join("out")
    }
    /// The keys of its caches, as they were when it began.
    pub(crate) fn cache_keys(&self) -> PathBuf {
        self.0.join("caches.json")
    }
    /// How much of the output was there before the command began.
    pub(crate) fn preface(&self) -> PathBuf {
        self.0.join("preface")
    }
    /// What is of no use after the attempt has ended: secrets, scripts, temporary files.
    pub(crate) fn scrub(&self) {
        // Else what is mounted there would be removed with the folder.
        let unmounted = crate::shim::unmount_below(&self.0);
        for file in [
            self.task(),
            self.environment(),
            self.dockerfile(),
            self.pod_log(),
            self.0.join("auth.json"),
            self.0.join("config.json"),
        ] {
            discard(&file);
        }
        for dir in [
            self.bin(),
            self.work(),
            self.context(),
            self.0.join("tmp"),
            self.0.join("root"),
            self.0.join("cache"),
            self.0.join("shell"),
            self.0.join("login"),
            self.0.join("secrets"),
        ] {
            discard(&dir);
        }
        match unmounted {
            Ok(()) => discard(&self.mounts()),
            Err(error) => {
                tracing::warn!(folder = %self.0.display(), %error, "Folders of a step are still mounted; the next sweep retries.");
            }
        }
    }
}

/// Removes a file or folder that may not be there. What stays may hold secrets, so it is said.
pub(crate) fn discard(path: &Path) {
    let removed = match path.symlink_metadata() {
        Ok(about) if about.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    if let Err(error) = removed.or_else(gone) {
        tracing::warn!(path = %path.display(), %error, "Cannot remove what a step no longer needs.");
    }
}

/// What is not there need not be removed.
pub(crate) fn gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// A file name for a step or build name, which may hold slashes and be long.
pub(crate) fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= 80 && name.chars().all(plain) {
        return name.to_owned();
    }
    let readable: String = name.chars().map(|c| if plain(c) { c } else { '_' }).take(60).collect();
    format!("{readable}.{}", &hex::encode(Sha256::digest(name))[..12])
}

/// Only for us: builds hold secrets and other people's code.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// How much a file has to outlive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// This process: all or nothing is enough.
    Process,
    /// The machine, once something later in the same folder does.
    InOrder,
    /// The machine, from the moment this returns.
    Now,
}

/// All or nothing: written beside, renamed.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8], lasting: Lasting) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = dir.join(format!(".{name}.{}.new", std::process::id()));
    let mut file = create_private(&beside)?;
    file.write_all(bytes)?;
    if lasting != Lasting::Process {
        file.sync_all()?;
    }
    std::fs::rename(&beside, path)?;
    if lasting == Lasting::Now { File::open(dir)?.sync_all() } else { Ok(()) }
}

pub(crate) fn write_json<T: serde::Serialize>(path: &Path, value: &T, lasting: Lasting) -> io::Result<()> {
    write_atomic(path, &serde_json::to_vec(value).map_err(io::Error::other)?, lasting)
}

/// `None` when the file is not there.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let mut text = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged: {error}", path.display()))
    })
}

/// For files that need not outlive the machine: damaged is as good as not there.
pub(crate) fn read_if_whole<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match read_json(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        read => read,
    }
}

pub(crate) fn now_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Makes a file or folder a step's own.
pub(crate) fn give(path: &Path, user: Option<u32>) -> io::Result<()> {
    use nix::unistd::{Gid, Uid, chown};
    match user {
        Some(user) => Ok(chown(path, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_steps_become_names_of_files() {
        assert_eq!(file_name("main_clone"), "main_clone");
        for odd in ["a/b", "..", "", "build.hooks.on_fail.notify", "é", &"x".repeat(150)] {
            let name = file_name(odd);
            assert!(!name.contains('/') && !name.starts_with("..") && name.len() < 80, "{name}");
        }
        assert_ne!(file_name("a/b"), file_name("a b"));
    }
}
