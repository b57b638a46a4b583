//! The volume of a build: a new one, or the one that the last build of the same pipeline left behind.
//!
//! A pipeline's volume is found by a note that names the build that had it last. Taking it is one rename, so two
//! builds never have the same one: the second gets an empty one. Trust is part of the note's name: what the pull
//! request of a fork left behind is found by pull requests of that fork and by nobody else.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use slipway_api::agent::TakenBuild;
use slipway_pipeline::{StepState, StepStatus};

use super::Build;
use crate::journal::{INIT, Journal};
use crate::layout::{BuildDir, Lasting, create_private_dir, now_ms, read_if_whole, write_json};

/// Volumes of pipelines that are kept; the ones that were used longest ago go first.
const KEPT: usize = 50;

#[derive(Serialize, Deserialize)]
struct Note {
    build: String,
    at_ms: i64,
}

impl Build {
    /// Before the volume is made: puts an earlier one in its place if there is one for us.
    pub(super) fn inherit_volume(&mut self) -> anyhow::Result<()> {
        if self.dir.volume().exists() {
            return Ok(());
        }
        if let Some(restart) = self.taken.restart.clone() {
            if self.take_from(&restart.build)? {
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
        let path = note(&self.context.data, &self.taken);
        if self.taken.options.reset_volume {
            let _ = std::fs::remove_file(&path);
            return Ok(());
        }
        let Some(found) = read_if_whole::<Note>(&path)? else { return Ok(()) };
        let _ = std::fs::remove_file(&path);
        if self.take_from(&found.build)? {
            self.journal.say(INIT, &format!("Using the volume that build {} left behind", found.build));
        }
        Ok(())
    }

    /// At the end: the next build of the pipeline may have it.
    pub(super) fn bequeath_volume(&self) -> std::io::Result<()> {
        let path = note(&self.context.data, &self.taken);
        create_private_dir(&folder(&self.context.data))?;
        write_json(&path, &Note { build: self.taken.id.clone(), at_ms: now_ms() }, Lasting::Process)
    }

    fn take_from(&self, build: &str) -> anyhow::Result<bool> {
        let old = BuildDir::new(&self.context.data, build);
        // A build that runs keeps what it has.
        if !Journal::load(&old)?.is_some_and(|journal| journal.reported) {
            return Ok(false);
        }
        let taken = std::fs::rename(old.volume(), self.dir.volume());
        for left in ["env_vars_to_export", "env_vars_to_mask"] {
            let _ = std::fs::remove_file(self.dir.volume().join(left));
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

/// Builds whose volumes wait for the next of their pipeline; notes beyond the newest are removed.
pub(crate) fn bequeathed(data: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder(data)) else { return Vec::new() };
    let mut notes: Vec<(Note, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((read_if_whole::<Note>(&entry.path()).ok()??, entry.path())))
        .collect();
    notes.sort_by_key(|(note, _)| std::cmp::Reverse(note.at_ms));
    for (_, path) in notes.iter().skip(KEPT) {
        let _ = std::fs::remove_file(path);
    }
    notes.into_iter().take(KEPT).map(|(note, _)| note.build).collect()
}

fn folder(data: &Path) -> PathBuf {
    data.join("volumes")
}

fn note(data: &Path, taken: &TakenBuild) -> PathBuf {
    let request = taken.commit.as_ref().and_then(|commit| commit.pull_request.as_ref());
    let trust = match (taken.from_fork, request) {
        (false, _) => "own".to_owned(),
        (true, Some(request)) => format!("fork {}", request.head_repo),
        (true, None) => format!("fork of build {}", taken.id),
    };
    let key = format!("{}\n{}\n{trust}", taken.account_name, taken.pipeline_name);
    folder(data).join(hex::encode(&Sha256::digest(key)[..16]))
}
