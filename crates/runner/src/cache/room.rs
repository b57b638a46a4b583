//! How much all entries of a room take, and which go when it is full.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Nobody writes on one entry for longer.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);
const BESIDE: &str = ".new";

pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) used: SystemTime,
}

/// A name for an entry that is being written.
pub(super) fn beside(scope: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(scope.join(format!("{}{BESIDE}", hex::encode(random))))
}

/// The whole ones.
pub(super) fn entries(scope: &Path) -> Vec<Entry> {
    files(scope).into_iter().filter(|entry| !is_beside(&entry.path)).collect()
}

/// Removes what was used longest ago until the rest fits.
pub(super) fn make(pool: &Path, bytes_max: u64) -> io::Result<()> {
    let Ok(scopes) = std::fs::read_dir(pool) else { return Ok(()) };
    let mut kept = Vec::new();
    for entry in scopes.flatten().flat_map(|scope| files(&scope.path())) {
        if !is_beside(&entry.path) {
            kept.push(entry);
        } else if entry.used.elapsed().is_ok_and(|age| age > ABANDONED) {
            let _ = std::fs::remove_file(&entry.path);
        }
    }
    kept.sort_by_key(|entry| entry.used);
    let mut bytes: u64 = kept.iter().map(|entry| entry.bytes).sum();
    for entry in kept {
        if bytes <= bytes_max {
            break;
        }
        match std::fs::remove_file(&entry.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => bytes -= entry.bytes,
        }
    }
    Ok(())
}

fn files(scope: &Path) -> Vec<Entry> {
    let Ok(found) = std::fs::read_dir(scope) else { return Vec::new() };
    found
        .flatten()
        .filter_map(|entry| {
            let about = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some(Entry { path: entry.path(), bytes: about.len(), used: about.modified().ok()? })
        })
        .collect()
}

fn is_beside(path: &Path) -> bool {
    path.to_string_lossy().ends_with(BESIDE)
}
