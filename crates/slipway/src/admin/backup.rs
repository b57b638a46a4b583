//! Backups: the anchor of the audit trail, rows of one snapshot, then the repositories, then the key. In this order: a
//! push that comes between is in Git and not in the rows, which the platform's own sweep finds after a restore; the other
//! way round a row would speak of a commit that is not there.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use slipway_forge::builtin::Repository;
use slipway_server::{Config, Seams, Server};
use slipway_store::{Store, audit, backup, git};
use tokio_util::sync::CancellationToken;

use super::archive;

const FORMAT: u32 = 1;
const ANCHOR: &str = "audit.anchor";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    format: u32,
    /// Which schema wrote it: a newer one than ours cannot be read.
    schema: usize,
    slipway: String,
    rows: u64,
    repositories: Vec<Kept>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    id: String,
    default_branch: String,
}

pub(crate) struct Counted {
    pub(crate) rows: u64,
    pub(crate) repositories: usize,
    /// What is wrong with the audit trail that was restored.
    pub(crate) trail: Vec<String>,
}

pub(crate) async fn write(store: &Store, data: &Path, file: &Path) -> anyhow::Result<Counted> {
    let beside = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let work = tempfile::Builder::new().prefix(".slipway-backup-").tempdir_in(beside)?;
    let (rows_folder, repos_folder) = (work.path().join("rows"), work.path().join("repos"));
    std::fs::create_dir(&rows_folder)?;
    std::fs::create_dir(&repos_folder)?;
    // Before the rows: an anchor that is ahead of them would speak of records that are not in the backup.
    let anchor = data.join(ANCHOR);
    if anchor.exists() {
        std::fs::copy(&anchor, work.path().join(ANCHOR))?;
    }
    let rows = store.read(move |tx| backup::dump(tx, &rows_folder)).await?;
    let repos = store.read(git::list_everywhere).await?;
    let mut repositories = Vec::new();
    for repo in &repos {
        let id = repo.id.to_string();
        let repository = Repository::at(data.join("repos").join(format!("{id}.git")));
        repository
            .bundle(&repos_folder.join(format!("{id}.bundle")))
            .await
            .with_context(|| format!("cannot back up the repository `{}`", repo.name))?;
        repositories.push(Kept { id, default_branch: repo.default_branch.clone() });
    }
    let key = data.join("master.key");
    if key.exists() {
        std::fs::copy(&key, work.path().join("master.key"))?;
    }
    let counted = Counted { rows, repositories: repositories.len(), trail: Vec::new() };
    let slipway = env!("CARGO_PKG_VERSION").to_owned();
    let manifest = Manifest { format: FORMAT, schema: backup::schema_version(), slipway, rows, repositories };
    std::fs::write(work.path().join("manifest.json"), serde_json::to_vec_pretty(&manifest)?)?;
    let temporary = tempfile::Builder::new().prefix(".slipway-backup-").tempfile_in(beside)?;
    let mut out = OpenOptions::new().write(true).mode(0o600).open(temporary.path())?;
    archive::pack(work.path(), &mut out)?;
    temporary.persist(file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(counted)
}

pub(crate) async fn restore(store: &Store, data: &Path, file: &Path, force: bool) -> anyhow::Result<Counted> {
    let work = tempfile::Builder::new().prefix(".slipway-restore-").tempdir_in(data)?;
    archive::unpack(file, work.path())?;
    let manifest: Manifest = serde_json::from_slice(
        &std::fs::read(work.path().join("manifest.json")).context("the backup has no manifest.json")?,
    )?;
    ensure!(
        manifest.format == FORMAT,
        "the backup has format {}, this slipway reads {FORMAT}",
        manifest.format
    );
    ensure!(
        manifest.schema <= backup::schema_version(),
        "the backup was written by a newer slipway ({}): upgrade this one first",
        manifest.slipway
    );
    let empty = store.read(backup::is_empty).await?;
    let repos = data.join("repos");
    let no_repos = std::fs::read_dir(&repos).map_or(true, |mut entries| entries.next().is_none());
    if !(force || empty && no_repos) {
        bail!("there is data already: restore into an empty place, or replace everything with --force");
    }
    // Repositories and the key first: rows that speak of what is not there yet would be wrong.
    if repos.exists() {
        std::fs::remove_dir_all(&repos)?;
    }
    std::fs::create_dir_all(&repos)?;
    for Kept { id, default_branch } in &manifest.repositories {
        let repository = Repository::at(repos.join(format!("{id}.git")));
        let bundle = work.path().join("repos").join(format!("{id}.bundle"));
        repository
            .restore(&bundle, default_branch)
            .await
            .with_context(|| format!("cannot restore repository {id}"))?;
    }
    let key = work.path().join("master.key");
    if key.exists() {
        let bytes = std::fs::read(&key)?;
        let new = data.join("master.key.new");
        let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        std::io::Write::write_all(&mut out, &bytes)?;
        out.sync_all()?;
        std::fs::rename(&new, data.join("master.key"))?;
    }
    // The trail is compared with the anchor of its own time, and what it replaces is told in it.
    let before = store.read(audit::heads).await?.into_iter().map(|(chain, seq, _)| (chain, seq)).collect();
    let anchor = work.path().join(ANCHOR);
    match anchor.exists() {
        true => std::fs::rename(&anchor, data.join(ANCHOR))?,
        false if data.join(ANCHOR).exists() => std::fs::remove_file(data.join(ANCHOR))?,
        false => {}
    }
    let rows_folder = work.path().join("rows");
    let rows = store.write(move |tx| backup::load(tx, &rows_folder)).await?;
    ensure!(rows == manifest.rows, "{rows} rows were restored, the backup says {}", manifest.rows);
    let config = Config { data: data.to_owned(), public_url: String::new(), network: Default::default() };
    let server = Server::beside(config, store.clone(), Seams::system(), CancellationToken::new())?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let trail = server.restored(before, &name).await?;
    Ok(Counted { rows, repositories: manifest.repositories.len(), trail })
}
