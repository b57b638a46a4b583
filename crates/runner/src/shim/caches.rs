//! The caches of a step: put in place before its command begins, kept when it has succeeded.
//!
//! In: what the task says. Out: folders of the volume, entries of the runner's caches, a line of the log for each. A cache
//! never fails a step: what cannot be restored or kept is said and gone on without.

use std::io;

use super::supervise::Supervisor;
use crate::cache::{Cache, Restored, Saved};
use crate::layout::{Lasting, read_if_whole, write_json};
use crate::task::{Exit, Run};

impl Supervisor {
    /// Also writes down the keys: what they are made of may change while the step runs.
    pub(super) fn restore_caches(&mut self) -> io::Result<()> {
        let caches = self.task.caches.clone();
        if caches.is_empty() {
            return Ok(());
        }
        let mut keys = Vec::new();
        for cache in &caches {
            let key = cache.full_key(&self.task.volume);
            if let Err(error) = &key {
                self.output.line(&format!("slipway: cache `{}` is not used: {error}", cache.key))?;
            }
            let key = key.ok();
            if let Some(key) = key.as_deref().filter(|_| cache.restore) {
                let line = self.restore(cache, key);
                self.output.line(&line)?;
            }
            keys.push(key);
        }
        write_json(&self.dir.preface(), &self.output.length(), Lasting::Process)?;
        write_json(&self.dir.cache_keys(), &keys, Lasting::Process)
    }

    fn restore(&mut self, cache: &Cache, key: &str) -> String {
        let (volume, scratch) = (self.task.volume.clone(), self.dir.0.join("cache"));
        let owner = match &self.task.run {
            Run::Sandboxed { sandbox, .. } => sandbox.user,
            _ => None,
        };
        let restored = cache.restore(key, &volume, &scratch, owner, &mut || self.wanted().is_some());
        match restored {
            Ok(Restored::Found { key, bytes }) => {
                format!("slipway: cache `{key}` restored ({})", size(bytes))
            }
            Ok(Restored::Nothing) => format!("slipway: nothing is cached under `{key}` yet"),
            Ok(Restored::Unusable(why)) => format!("slipway: cache {why}; going on without it"),
            Err(error) => {
                format!("slipway: cache `{key}` cannot be read: {error}; going on without it")
            }
        }
    }

    /// Before the end is written down, so that whoever waits for it finds the entry.
    pub(super) fn save_caches(&mut self, exit: &Exit) -> io::Result<()> {
        let caches = self.task.caches.clone();
        if caches.is_empty() || !exit.is_success() {
            return Ok(());
        }
        let keys: Vec<Option<String>> = read_if_whole(&self.dir.cache_keys())?.unwrap_or_default();
        let volume = self.task.volume.clone();
        for (cache, key) in caches.iter().zip(keys) {
            let Some(key) = key else { continue };
            let line = match cache.save(&key, &volume, &mut || self.wanted().is_some()) {
                Ok(Saved::Written { bytes }) => {
                    format!("slipway: cache `{key}` saved ({})", size(bytes))
                }
                Ok(Saved::AlreadyThere) => continue,
                Ok(Saved::NothingToKeep) => {
                    format!("slipway: cache `{key}` is not saved: none of its paths is there")
                }
                Err(error) => format!("slipway: cache `{key}` is not saved: {error}"),
            };
            self.output.line(&line)?;
        }
        Ok(())
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=9_999_999 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
