//! What the platform keeps is its user's alone: folders of mode 0700, files of mode 0600, from the first moment on.
//!
//! In: a data folder, new or of an earlier version. Out: the folder, with what others could read taken from them.

use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::Context;

/// What was made before 0.2 for everybody to read, below a data folder: databases with their logs, and folders.
const MENDED: [&str; 14] = [
    "slipway.db",
    "slipway.db-wal",
    "slipway.db-shm",
    "repos",
    "runner",
    "runtime",
    "engine",
    "cluster",
    "cluster/pki",
    "cluster/volumes",
    "cluster/objects.db",
    "cluster/objects.db-wal",
    "cluster/objects.db-shm",
    "audit.anchor",
];

/// Nobody else reads what this process makes, wherever it makes it. What steps and pods read is opened by those who make it.
pub(crate) fn from_now_on() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Makes the folder, or takes over one of before.
pub(crate) fn folder(path: &Path) -> anyhow::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot make the folder {}", path.display()))?;
    let mut mended = Vec::new();
    close(path, &mut mended)?;
    for name in MENDED {
        close(&path.join(name), &mut mended)?;
    }
    if !mended.is_empty() {
        tracing::warn!(
            folder = %path.display(),
            paths = mended.join(", "),
            "Other users of this machine could read the platform's data; they no longer can. \
             If you do not trust all of them, rotate secrets and keys."
        );
    }
    Ok(())
}

/// Takes away what group and others may; somebody else's file is left as it is, and said.
fn close(path: &Path, mended: &mut Vec<String>) -> anyhow::Result<()> {
    let Ok(about) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let mode = about.mode() & 0o7777;
    if about.is_symlink() || mode & 0o077 == 0 {
        return Ok(());
    }
    if about.uid() != rustix::process::geteuid().as_raw() {
        tracing::warn!(path = %path.display(), "This belongs to another user and others may read it: set its mode to 0700.");
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode & !0o077))
        .with_context(|| format!("cannot close {} to others", path.display()))?;
    mended.push(path.display().to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn h4_a_folder_of_before_is_closed_to_others_and_a_new_one_never_open() {
        let temporary = tempfile::tempdir().unwrap();
        let old = temporary.path().join("old");
        for name in ["repos", "cluster/pki"] {
            std::fs::create_dir_all(old.join(name)).unwrap();
        }
        for name in ["", "repos", "cluster", "cluster/pki"] {
            std::fs::set_permissions(old.join(name), Permissions::from_mode(0o755)).unwrap();
        }
        for name in ["slipway.db", "slipway.db-wal", "cluster/objects.db-wal"] {
            std::fs::write(old.join(name), "x").unwrap();
            std::fs::set_permissions(old.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        folder(&old).unwrap();
        for name in ["", "repos", "cluster", "cluster/pki"] {
            assert_eq!(mode(&old.join(name)), 0o700, "{name}");
        }
        for name in ["slipway.db", "slipway.db-wal", "cluster/objects.db-wal"] {
            assert_eq!(mode(&old.join(name)), 0o600, "{name}");
        }
        let fresh = temporary.path().join("a/b");
        folder(&fresh).unwrap();
        assert_eq!(mode(&fresh), 0o700);
    }
}
