//! The volume of a build: a new one, or the one that the last build of the same pipeline left behind; with it go the
//! layers of the images that it made, where the executor keeps them by the build.
//!
//! A pipeline's volume is found by a note that names the build that had it last. Taking it is one rename, so two
//! builds never have the same one: the second gets an empty one. Trust is part of the note's name: what the pull
//! request of a fork left behind is found by pull requests of that fork and by nobody else.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use slipway_pipeline::{StepState, StepStatus};

use super::Build;
use crate::journal::{INIT, Journal};
use crate::layout::{BuildDir, Lasting, create_private_dir, now_ms, read_if_whole, read_json, write_json};
use crate::trust::Trust;

/// Volumes of pipelines that are kept; the ones that were used longest ago go first.
const KEPT: usize = 50;

#[derive(Serialize, Deserialize)]
struct Note {
    build: String,
    at_ms: i64,
}

/// What a build gets of an earlier one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    /// It goes on where that one failed: also the images by their names.
    All,
    VolumeAndLayers,
    Layers,
}

impl Build {
    /// Before the volume is made: puts an earlier one in its place if there is one for us.
    pub(super) fn inherit_volume(&mut self) -> anyhow::Result<()> {
        if self.dir.volume().exists() {
            return Ok(());
        }
        if let Some(restart) = self.taken.restart.clone() {
            if self.take_from(&restart.build, Given::All)? {
                self.journal.say(INIT, &format!("Going on with the volume of build {}", restart.build));
            } else {
                self.journal.say(
                    INIT,
                    &format!(
                        "The volume of build {} is not here any more; this build starts with an empty one",
                        restart.build
                    ),
                );
            }
            return Ok(());
        }
        if self.trust.is_alone() {
            return Ok(());
        }
        let path = note(&self.context.data, &self.trust);
        let Some(found) = read_if_whole::<Note>(&path)? else { return Ok(()) };
        // Before it is taken: two builds must not have one volume.
        std::fs::remove_file(&path).or_else(crate::layout::gone)?;
        let given = if self.taken.options.reset_volume { Given::Layers } else { Given::VolumeAndLayers };
        if self.take_from(&found.build, given)? {
            self.journal.say(INIT, &format!("Using the volume that build {} left behind", found.build));
        }
        Ok(())
    }

    /// At the end: the next build of the pipeline may have it.
    pub(super) fn bequeath_volume(&self) -> std::io::Result<()> {
        if self.trust.is_alone() {
            return Ok(());
        }
        let path = note(&self.context.data, &self.trust);
        create_private_dir(&folder(&self.context.data))?;
        write_json(&path, &Note { build: self.taken.id.clone(), at_ms: now_ms() }, Lasting::Process)
    }

    /// After that, because it may take a while: the next build does not wait for it.
    pub(super) async fn measure_images(&self) {
        let dir = self.dir.clone();
        let measured = tokio::task::spawn_blocking(move || {
            if !dir.images().exists() {
                return Ok(());
            }
            write_json(&dir.images_bytes(), &bytes_below(&dir.images()), Lasting::Process)
        });
        if let Ok(Err(error)) = measured.await {
            tracing::warn!(build = %self.taken.id, %error, "Cannot measure the images of a build.");
        }
    }

    /// Whether there was a volume to take.
    fn take_from(&self, build: &str, given: Given) -> anyhow::Result<bool> {
        let old = BuildDir::new(&self.context.data, build);
        // A build that runs keeps what it has.
        if !Journal::load(&old)?.is_some_and(|journal| journal.reported) {
            return Ok(false);
        }
        if std::fs::rename(old.images(), self.dir.images()).is_ok()
            && given != Given::All
            && forget_names(&self.dir).is_err()
        {
            // Under the names of another pipeline they must not be found.
            self.context.executor.remove(&self.dir.images())?;
        }
        if given == Given::Layers {
            return Ok(false);
        }
        let taken = std::fs::rename(old.volume(), self.dir.volume());
        for left in ["env_vars_to_export", "env_vars_to_mask"] {
            // Else they would be exports of this build.
            std::fs::remove_file(self.dir.volume().join(left)).or_else(crate::layout::gone)?;
        }
        Ok(taken.is_ok())
    }

    /// Steps of the build that this one goes on from are as they were, up to where it starts again.
    pub(super) fn take_over_steps(&mut self) {
        let Some(restart) = self.taken.restart.clone() else { return };
        let mut taken_over = Vec::new();
        for step in restart.steps.iter().filter(|step| step.name != INIT) {
            if restart.step.as_deref() == Some(step.name.as_str()) {
                break;
            }
            let status = match step.status.as_str() {
                "success" => StepStatus::Success,
                "approved" => StepStatus::Approved,
                "skipped" => StepStatus::Skipped,
                _ if restart.step.is_none() => break,
                _ => continue,
            };
            let state = StepState {
                status,
                attempt: step.attempt.max(1),
                exit: step.exit_code,
                reason: step.message.clone(),
                working_directory: Some(crate::layout::VOLUME.to_owned()),
                ..StepState::default()
            };
            self.journal.state.steps.insert(step.name.clone(), state);
            taken_over.push(step.name.clone());
        }
        if !taken_over.is_empty() {
            let line = format!(
                "Taken over from build {} and not run again: {}. Variables that they exported are not kept",
                restart.build,
                taken_over.join(", ")
            );
            self.journal.say(INIT, &line);
        }
        self.journal.taken_over = taken_over;
    }
}

/// Builds whose volumes wait for the next of their pipeline; notes beyond the newest are removed, and so are images
/// beyond what caches may take.
pub(crate) fn bequeathed(data: &Path, images_bytes_max: u64) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder(data)) else { return Vec::new() };
    let mut notes: Vec<(Note, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((read_if_whole::<Note>(&entry.path()).ok()??, entry.path())))
        .collect();
    notes.sort_by_key(|(note, _)| std::cmp::Reverse(note.at_ms));
    for (_, path) in notes.iter().skip(KEPT) {
        crate::layout::discard(path);
    }
    let mut images_bytes = 0u64;
    for (note, _) in notes.iter().take(KEPT) {
        let dir = BuildDir::new(data, &note.build);
        let bytes: u64 = read_if_whole(&dir.images_bytes()).ok().flatten().unwrap_or(0);
        images_bytes = images_bytes.saturating_add(bytes);
        if bytes > 0 && images_bytes > images_bytes_max {
            crate::layout::discard(&dir.images());
        }
    }
    notes.into_iter().take(KEPT).map(|(note, _)| note.build).collect()
}

/// Layers are found by what made them. A name would stand for whatever an earlier build has called so: an image that
/// this build never made, or a base that has changed since.
fn forget_names(dir: &BuildDir) -> std::io::Result<()> {
    let path = dir.images().join("vfs-images/images.json");
    let Some(mut images) = read_json::<Vec<serde_json::Map<String, serde_json::Value>>>(&path)? else {
        return Ok(());
    };
    for image in &mut images {
        image.remove("names");
        image.remove("names-history");
    }
    write_json(&path, &images, Lasting::Process)
}

fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let mut bytes = 0;
    for entry in entries.flatten() {
        let Ok(about) = entry.path().symlink_metadata() else { continue };
        bytes += if about.is_dir() { bytes_below(&entry.path()) } else { about.len() };
    }
    bytes
}

fn folder(data: &Path) -> PathBuf {
    data.join("volumes")
}

fn note(data: &Path, trust: &Trust) -> PathBuf {
    folder(data).join(trust.writes())
}
