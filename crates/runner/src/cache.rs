//! Dependency caches: folders of a volume that are kept under a key and found again by later builds.
//!
//! In: a key, the folders' paths, the scopes that a build may read and the one that it may write. Out: one file an entry,
//! in the runner's data folder, never at the server. Builds at once do not tear each other's: an entry is written beside
//! and renamed, whoever reads an old one goes on reading it, and its digest is looked at before anything is put in place.
//! What the paths lead to is in the hands of steps, so no link is ever followed. It does not know who is trusted: that is
//! [`crate::trust`].
//!
//! ```text
//! caches/own/<scope>/<digest of the key>     what the pipeline's own builds left
//! caches/forks/<scope>/<digest of the key>   what pull requests of a fork left: other scopes, and a room of their own
//! ```

mod archive;
mod inside;
mod room;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::layout::{create_private, create_private_dir};
use crate::trust::Trust;

pub(crate) use archive::Stop;

/// What a key may be long.
pub(crate) const KEY_BYTES_MAX: usize = 512;
/// Of the room of a runner's caches, for all forks together: they cannot push out what others need.
const SHARE_OF_FORKS: u64 = 10;
/// No entry takes more than this share of the room.
const SHARE_OF_ENTRY: u64 = 2;
const LINE_BYTES_MAX: u64 = 1 << 16;
/// Of a file that is part of a key: a list of dependencies, not one of them.
const KEY_FILE_BYTES_MAX: u64 = 64 << 20;

/// One `cache` of a step, complete: whoever restores and saves it has no choices left.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cache {
    pub(crate) key: String,
    /// Relative to the volume: what they hold is part of the key.
    pub(crate) files: Vec<PathBuf>,
    /// Relative to the volume.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) restore_keys: Vec<String>,
    /// Folders of scopes, in this order.
    pub(crate) reads: Vec<PathBuf>,
    pub(crate) writes: PathBuf,
    /// All scopes that share a room.
    pub(crate) pool: PathBuf,
    pub(crate) pool_bytes_max: u64,
    /// `false`: whoever started the build wants it made from nothing.
    pub(crate) restore: bool,
}

/// The scopes' folders, and the room that they are in.
pub(crate) struct Scopes {
    pub(crate) reads: Vec<PathBuf>,
    pub(crate) writes: PathBuf,
    pub(crate) pool: PathBuf,
    pub(crate) pool_bytes_max: u64,
}

impl Scopes {
    pub(crate) fn new(data: &Path, trust: &Trust, bytes_max: u64) -> Self {
        let caches = data.join("caches");
        let (pool, pool_bytes_max) = if trust.is_fork() {
            (caches.join("forks"), bytes_max / SHARE_OF_FORKS)
        } else {
            (caches.join("own"), bytes_max)
        };
        let writes = pool.join(trust.writes());
        let mut reads = vec![writes.clone()];
        reads.extend(trust.reads_only().map(|scope| caches.join("own").join(scope)));
        Self { reads, writes, pool, pool_bytes_max }
    }
}

/// The first line of an entry.
#[derive(Serialize, Deserialize)]
struct Head {
    key: String,
    /// Of everything after this line, in hex.
    digest: String,
    /// The folders that it holds: an entry of other folders is none of ours.
    paths: Vec<PathBuf>,
}

/// What was found for a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Restored {
    Nothing,
    /// Under this key.
    Found {
        key: String,
        bytes: u64,
    },
    /// It was there and was of no use; why, in a sentence.
    Unusable(String),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Saved {
    Written {
        bytes: u64,
    },
    /// The key says what is in it, and it is there.
    AlreadyThere,
    /// None of the folders is there.
    NothingToKeep,
}

impl Cache {
    /// The key, with what the files hold.
    pub(crate) fn full_key(&self, volume: &Path) -> io::Result<String> {
        if self.files.is_empty() {
            return Ok(self.key.clone());
        }
        let mut hash = Sha256::new();
        for file in &self.files {
            let name = file.as_os_str().as_encoded_bytes();
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
            let mut content = Sha256::new();
            match inside::open_file(volume, file) {
                Ok(opened) if opened.metadata()?.len() > KEY_FILE_BYTES_MAX => {
                    return Err(io::Error::other(format!(
                        "`{}` is larger than {} MiB, which no file of a key may be",
                        file.display(),
                        KEY_FILE_BYTES_MAX >> 20
                    )));
                }
                Ok(opened) => {
                    io::copy(&mut opened.take(KEY_FILE_BYTES_MAX), &mut Hashing(&mut content))?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => content.update("not there"),
                Err(error) => return Err(error),
            }
            hash.update(content.finalize());
        }
        Ok(format!("{}-{}", self.key, &hex::encode(hash.finalize())[..32]))
    }

    /// Puts the folders of the best entry in their places; what was there before goes. `scratch` is on the same disk
    /// as the volume, and nobody else's.
    pub(crate) fn restore(
        &self,
        key: &str,
        volume: &Path,
        scratch: &Path,
        owner: Option<u32>,
        stop: Stop<'_>,
    ) -> io::Result<Restored> {
        let Some(path) = self.find(key)? else { return Ok(Restored::Nothing) };
        // From here on it is this file, whatever is renamed over it or removed.
        let Some((head, file)) = open_entry(&path)? else { return Ok(Restored::Nothing) };
        if head.paths != self.paths {
            return Ok(Restored::Unusable(format!("`{}` was kept of other paths than these", head.key)));
        }
        let bytes = file.get_ref().metadata()?.len();
        // Whoever is used last goes last.
        let _ = file.get_ref().set_modified(std::time::SystemTime::now());
        let _ = std::fs::remove_dir_all(scratch);
        create_private_dir(scratch)?;
        let done = archive::unpack(file, &scratch.join("new"), owner, stop).and_then(|digest| {
            if digest != head.digest {
                let _ = std::fs::remove_file(&path);
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged, and was removed"));
            }
            self.put_in_place(volume, scratch, owner)
        });
        let _ = std::fs::remove_dir_all(scratch);
        Ok(match done {
            Ok(()) => Restored::Found { key: head.key, bytes },
            Err(error) => Restored::Unusable(format!("`{}` cannot be used: {error}", head.key)),
        })
    }

    fn put_in_place(&self, volume: &Path, scratch: &Path, owner: Option<u32>) -> io::Result<()> {
        let new = scratch.join("new");
        let old = scratch.join("old");
        create_private_dir(&old)?;
        for (number, path) in self.paths.iter().enumerate() {
            let name = number.to_string();
            if new.join(&name).symlink_metadata().is_ok() {
                inside::replace(volume, path, &new.join(&name), &old.join(&name), owner)?;
            }
        }
        Ok(())
    }

    /// Keeps the folders under the key, for later builds.
    pub(crate) fn save(&self, key: &str, volume: &Path, stop: Stop<'_>) -> io::Result<Saved> {
        let named = |scope: &PathBuf| scope.join(entry_name(key));
        if !self.files.is_empty() && self.reads.iter().any(|scope| named(scope).exists()) {
            return Ok(Saved::AlreadyThere);
        }
        create_private_dir(&self.writes)?;
        let beside = room::beside(&self.writes)?;
        let written = self.write(key, volume, &beside, stop);
        let saved = match written {
            Ok(Some(bytes)) => {
                std::fs::rename(&beside, named(&self.writes)).map(|()| Saved::Written { bytes })
            }
            Ok(None) => Ok(Saved::NothingToKeep),
            Err(error) => Err(error),
        };
        let _ = std::fs::remove_file(&beside);
        room::make(&self.pool, self.pool_bytes_max)?;
        saved
    }

    fn write(&self, key: &str, volume: &Path, to: &Path, stop: Stop<'_>) -> io::Result<Option<u64>> {
        let head = |digest: String| {
            let head = Head { key: key.to_owned(), digest, paths: self.paths.clone() };
            serde_json::to_vec(&head).map(|mut line| {
                line.push(b'\n');
                line
            })
        };
        let mut file = create_private(to)?;
        // As long as the one that takes its place.
        file.write_all(&head("0".repeat(64))?)?;
        let bytes_max = self.pool_bytes_max / SHARE_OF_ENTRY;
        let packed = archive::pack(volume, &self.paths, BufWriter::new(&mut file), bytes_max, stop)?;
        let Some(digest) = packed else { return Ok(None) };
        file.rewind()?;
        file.write_all(&head(digest)?)?;
        Ok(Some(file.metadata()?.len()))
    }

    /// The entry of the key itself, or else the newest of the first beginning that any has.
    fn find(&self, key: &str) -> io::Result<Option<PathBuf>> {
        for scope in &self.reads {
            let path = scope.join(entry_name(key));
            if path.exists() {
                return Ok(Some(path));
            }
        }
        for beginning in &self.restore_keys {
            for scope in &self.reads {
                let mut found: Vec<_> = room::entries(scope)
                    .into_iter()
                    .filter(|entry| {
                        open_entry(&entry.path)
                            .ok()
                            .flatten()
                            .is_some_and(|(head, _)| head.key.starts_with(beginning))
                    })
                    .collect();
                found.sort_by_key(|entry| entry.used);
                if let Some(newest) = found.pop() {
                    return Ok(Some(newest.path));
                }
            }
        }
        Ok(None)
    }
}

/// Whatever is in a key, it names a file of its scope.
fn entry_name(key: &str) -> String {
    hex::encode(Sha256::digest(key))
}

/// `None` when it is not there, or not an entry.
fn open_entry(path: &Path) -> io::Result<Option<(Head, BufReader<File>)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line).ok().map(|head| (head, reader)))
}

struct Hashing<'a>(&'a mut Sha256);

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
