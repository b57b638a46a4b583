//! Rendered manifests on disk, by digest of what went in. Losing a file costs one render.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::{RenderError, Rendered};
use crate::private;

pub(super) struct Cache {
    folder: PathBuf,
    bytes_max: u64,
    /// What somebody still holds is not read again.
    memory: Mutex<HashMap<String, Weak<Rendered>>>,
    outside: Mutex<HashMap<String, Arc<[String]>>>,
    written: AtomicU64,
}

impl Cache {
    pub(super) fn open(folder: &Path, bytes_max: u64) -> Result<Self, RenderError> {
        let cache = Self {
            folder: folder.to_owned(),
            bytes_max,
            memory: Mutex::default(),
            outside: Mutex::default(),
            written: AtomicU64::new(0),
        };
        private::make_folder(folder).map_err(|source| cache.failed(source))?;
        cache.shrink();
        Ok(cache)
    }

    /// Which files outside of the source folder the last render of this input read.
    pub(super) fn outside(&self, key: &str) -> Option<Arc<[String]>> {
        if let Some(known) = self.outside.lock().expect("no panic while locked").get(key) {
            return Some(known.clone());
        }
        let bytes = self.read(&format!("{key}.in"))?;
        let paths: Vec<String> = serde_json::from_slice(&bytes).ok()?;
        let paths: Arc<[String]> = paths.into();
        self.outside.lock().expect("no panic while locked").insert(key.to_owned(), paths.clone());
        Some(paths)
    }

    pub(super) fn load(&self, key: &str) -> Option<Arc<Rendered>> {
        if let Some(held) =
            self.memory.lock().expect("no panic while locked").get(key).and_then(Weak::upgrade)
        {
            return Some(held);
        }
        let bytes = self.read(&format!("{key}.out"))?;
        let rendered: Arc<Rendered> = Arc::new(serde_json::from_slice(&bytes).ok()?);
        self.hold(key, &rendered);
        Some(rendered)
    }

    pub(super) fn store(
        &self,
        key: &str,
        outside: &[String],
        full_key: &str,
        rendered: &Arc<Rendered>,
    ) -> Result<(), RenderError> {
        let body = serde_json::to_vec(&**rendered).expect("objects are plain data");
        self.write(&format!("{full_key}.out"), &body)?;
        let paths = serde_json::to_vec(outside).expect("paths are plain data");
        self.write(&format!("{key}.in"), &paths)?;
        self.outside.lock().expect("no panic while locked").insert(key.to_owned(), outside.to_vec().into());
        self.hold(full_key, rendered);
        let written = self.written.fetch_add(body.len() as u64, Ordering::Relaxed) + body.len() as u64;
        if written > self.bytes_max / 8 {
            self.written.store(0, Ordering::Relaxed);
            self.shrink();
        }
        Ok(())
    }

    fn hold(&self, key: &str, rendered: &Arc<Rendered>) {
        let mut memory = self.memory.lock().expect("no panic while locked");
        if memory.len() > 4096 {
            memory.retain(|_, held| held.strong_count() > 0);
        }
        memory.insert(key.to_owned(), Arc::downgrade(rendered));
    }

    /// A file is its own checksum and then the body: a torn or foreign file reads as absent.
    fn read(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = std::fs::read(self.path(name)).ok()?;
        let (sum, body) = bytes.split_at_checked(32)?;
        (Sha256::digest(body).as_slice() == sum).then(|| body.to_vec())
    }

    fn write(&self, name: &str, body: &[u8]) -> Result<(), RenderError> {
        let mut bytes = Sha256::digest(body).to_vec();
        bytes.extend_from_slice(body);
        private::write_file(&self.path(name), &bytes).map_err(|source| self.failed(source))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(&name[..2]).join(name)
    }

    fn failed(&self, source: std::io::Error) -> RenderError {
        RenderError::Folder { folder: self.folder.display().to_string(), source }
    }

    /// Deletes the oldest files until three quarters of the limit are left.
    fn shrink(&self) {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        let folders = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in folders.filter_map(|folder| std::fs::read_dir(folder.path()).ok()).flatten().flatten() {
            if let Ok(meta) = entry.metadata()
                && let Ok(modified) = meta.modified()
            {
                files.push((modified, meta.len(), entry.path()));
            }
        }
        let mut total: u64 = files.iter().map(|file| file.1).sum();
        if total <= self.bytes_max {
            return;
        }
        files.sort();
        for (_, size, path) in files {
            if total <= self.bytes_max / 4 * 3 {
                break;
            }
            if std::fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
        self.outside.lock().expect("no panic while locked").clear();
    }
}
