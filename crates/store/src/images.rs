//! Images that builds have made or pushed: what they are called and where they come from. The images themselves are
//! in the registries of their owners.

use slipway_model::{BuildId, PipelineId};

use crate::{Row, Scope, StoreError, Tx};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// `sha256:…`, or the name where nobody knows more.
    pub image: String,
    pub name: String,
    pub tag: String,
    pub registry: String,
    pub digest: String,
    pub build: BuildId,
    pub pipeline: PipelineId,
    pub branch: String,
    pub revision: String,
    pub at_ms: i64,
}

fn image(row: &Row) -> Result<Image, StoreError> {
    Ok(Image {
        image: row.text(0)?,
        name: row.text(1)?,
        tag: row.text(2)?,
        registry: row.text(3)?,
        digest: row.text(4)?,
        build: row.id(5)?,
        pipeline: row.id(6)?,
        branch: row.text(7)?,
        revision: row.text(8)?,
        at_ms: row.int(9)?,
    })
}

/// Telling it twice is telling it once; the latest build of the same name and tag counts.
pub fn record(tx: &mut Tx<'_>, scope: Scope, new: &Image) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO images (account, image, name, tag, registry, digest, build, pipeline, branch, revision, at_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (account, image, name, tag) DO UPDATE SET \
         registry = excluded.registry, digest = excluded.digest, build = excluded.build, pipeline = excluded.pipeline, \
         branch = excluded.branch, revision = excluded.revision, at_ms = excluded.at_ms",
        &[
            scope.account().into(),
            new.image.as_str().into(),
            new.name.as_str().into(),
            new.tag.as_str().into(),
            new.registry.as_str().into(),
            new.digest.as_str().into(),
            new.build.into(),
            new.pipeline.into(),
            new.branch.as_str().into(),
            new.revision.as_str().into(),
            new.at_ms.into(),
        ],
    )?;
    Ok(())
}

const IMAGE: &str =
    "SELECT image, name, tag, registry, digest, build, pipeline, branch, revision, at_ms FROM images";

/// Newest first.
pub fn list(tx: &mut Tx<'_>, scope: Scope, limit: i64) -> Result<Vec<Image>, StoreError> {
    tx.all(
        &format!("{IMAGE} WHERE account = $1 ORDER BY at_ms DESC, name, tag LIMIT $2"),
        &[scope.account().into(), limit.into()],
    )?
    .iter()
    .map(image)
    .collect()
}

pub fn of_build(tx: &mut Tx<'_>, scope: Scope, build: BuildId) -> Result<Vec<Image>, StoreError> {
    tx.all(
        &format!("{IMAGE} WHERE account = $1 AND build = $2 ORDER BY at_ms, name, tag"),
        &[scope.account().into(), build.into()],
    )?
    .iter()
    .map(image)
    .collect()
}

/// Forgets what is beyond the newest `kept` of each account, at most `at_once` of them, with the annotations of images
/// that nothing is known about any more. Gives back how many went.
pub fn forget_beyond(tx: &mut Tx<'_>, kept: i64, at_once: i64) -> Result<usize, StoreError> {
    let full = tx.all("SELECT account FROM images GROUP BY account HAVING count(*) > $1", &[kept.into()])?;
    let mut gone = 0;
    for row in &full {
        let account = row.text(0)?;
        let old = tx.all(
            "SELECT image, name, tag FROM images WHERE account = $1 ORDER BY at_ms DESC, image, name, tag LIMIT $2 OFFSET $3",
            &[account.as_str().into(), at_once.into(), kept.into()],
        )?;
        for row in &old {
            let image = row.text(0)?;
            tx.execute(
                "DELETE FROM images WHERE account = $1 AND image = $2 AND name = $3 AND tag = $4",
                &[account.as_str().into(), image.as_str().into(), row.text(1)?.into(), row.text(2)?.into()],
            )?;
            tx.execute(
                "DELETE FROM annotations WHERE account = $1 AND entity_kind = 'image' AND entity = $2 \
                 AND NOT EXISTS (SELECT 1 FROM images WHERE account = $1 AND image = $2)",
                &[account.as_str().into(), image.as_str().into()],
            )?;
        }
        gone += old.len();
    }
    Ok(gone)
}
