//! Who an engine is among several: a name in its data folder, so that one that was killed is itself again at once, and
//! a lock on it, so that no two are the same.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A lease lasts so long unless the operator says otherwise: the same time as Kubernetes' own controllers.
const LEASE: Duration = Duration::from_secs(15);

/// An engine that shares its namespace with others.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Unlike that of every other engine of the namespace.
    pub id: String,
    /// After so long without a renewal others take over.
    pub lease: Duration,
    /// The Deployment that this engine is a pod of: what engines write down to share their work goes with it.
    pub owner: Option<String>,
    /// Held as long as anybody uses this.
    pub(crate) _lock: Option<Arc<File>>,
}

#[derive(Debug, thiserror::Error)]
pub enum SharingError {
    #[error("another engine uses the data folder {folder}; give each engine its own with --data")]
    Taken { folder: PathBuf },
    #[error("cannot keep this engine's name in {file}; make the folder writable")]
    File { file: PathBuf, source: std::io::Error },
}

impl Sharing {
    /// The engine that uses this folder.
    pub fn of_folder(folder: &Path) -> Result<Self, SharingError> {
        let path = folder.join("engine-id");
        let failed = |source| SharingError::File { file: path.clone(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut options = File::options();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(SharingError::Taken { folder: folder.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut id = String::new();
        file.read_to_string(&mut id).map_err(failed)?;
        // A torn write leaves too little or too much: then it is a new engine.
        if id.len() != 16 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let mut random = [0; 8];
            aws_lc_rs::rand::fill(&mut random).map_err(|_| failed(std::io::Error::other("no randomness")))?;
            id = hex::encode(random);
            file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
            file.write_all(id.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        Ok(Self { id, lease: LEASE, owner: None, _lock: Some(Arc::new(file)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_itself_again_and_never_two() {
        let folder = std::env::temp_dir().join(format!("slipway-identity-{}", std::process::id()));
        let first = Sharing::of_folder(&folder).expect("a name");
        assert!(matches!(Sharing::of_folder(&folder), Err(SharingError::Taken { .. })));
        let id = first.id.clone();
        drop(first);
        assert_eq!(Sharing::of_folder(&folder).expect("the same name").id, id);
        std::fs::write(folder.join("engine-id"), "torn").expect("written");
        assert_ne!(Sharing::of_folder(&folder).expect("a new name").id, id);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
