//! Folders and files that only this user may read: repositories and rendered manifests hold secrets.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A folder that is gone with its value.
pub(crate) fn throw_away(prefix: &str) -> std::io::Result<tempfile::TempDir> {
    throw_away_in(&std::env::temp_dir(), prefix)
}

pub(crate) fn throw_away_in(folder: &Path, prefix: &str) -> std::io::Result<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt;
    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix(prefix).permissions(private).tempdir_in(folder)
}

/// Writes beside and renames, so that a reader sees the old file or the new one and never half of it.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make_folder(folder)?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
