//! Large files that git keeps elsewhere: a pointer in the repository, the content at the LFS server beside it.
//!
//! In: a pointer and the repository that it is in. Out: the content, checked against the pointer's digest and kept by it.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Credentials, GitError, Repository, display_url};
use crate::chart::{Ask, Http, origin};

const VERSION: &str = "version https://git-lfs.github.com/spec/v1\n";
/// What a pointer may have, by its definition.
const POINTER_BYTES_MAX: usize = 1024;
const ANSWER_BYTES: u64 = 256 * 1024;
const MEDIA: &str = "application/vnd.git-lfs+json";

/// Where the content is.
#[derive(Debug, PartialEq)]
pub(super) struct Pointer {
    oid: String,
    size: u64,
}

impl Pointer {
    pub(super) fn parse(blob: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(blob).ok().filter(|text| text.len() < POINTER_BYTES_MAX)?;
        let lines = text.strip_prefix(VERSION)?.lines();
        let (mut oid, mut size) = (None, None);
        for line in lines {
            match line.split_once(' ')? {
                ("oid", value) => oid = value.strip_prefix("sha256:").filter(|oid| is_digest(oid)),
                ("size", value) => size = value.parse().ok(),
                _ => {}
            }
        }
        Some(Self { oid: oid?.to_owned(), size: size? })
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[derive(Deserialize)]
struct Batch {
    objects: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    oid: String,
    #[serde(default)]
    actions: Actions,
    error: Option<Refusal>,
}

#[derive(Default, Deserialize)]
struct Actions {
    download: Option<Place>,
}

#[derive(Deserialize)]
struct Place {
    href: String,
    #[serde(default)]
    header: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

/// The content of a pointer; from `folder` when it was read before.
pub(super) async fn content(
    http: &Http,
    repo: &Repository,
    credentials: &Credentials,
    pointer: &Pointer,
    folder: &Path,
    limit: usize,
) -> Result<Vec<u8>, GitError> {
    let name = display_url(&repo.url);
    let failed = |detail: String| GitError::Lfs { repo: name.clone(), oid: pointer.oid.clone(), detail };
    if pointer.size > limit as u64 {
        return Err(GitError::TooLarge {
            what: format!("LFS file {}", pointer.oid),
            limit: format!("{limit} bytes"),
        });
    }
    let kept = folder.join(&pointer.oid);
    // What lies there is looked at as what comes from outside: a disk can be full or wrong.
    if let Ok(bytes) = tokio::fs::read(&kept).await
        && hex::encode(Sha256::digest(&bytes)) == pointer.oid
    {
        return Ok(bytes);
    }
    let place = find(http, repo, credentials, pointer).await.map_err(&failed)?;
    // The credential is for the repository's host; whoever else serves content has to bring its own header.
    let home =
        origin(&place.href) == origin(&repo.url) && !place.header.keys().any(|name| is_authorization(name));
    let authorization = place.header.iter().find(|(name, _)| is_authorization(name)).map(|(_, v)| v.clone());
    let authorization = authorization.or_else(|| credentials.authorization_value().filter(|_| home));
    let ask = Ask {
        url: &place.href,
        credentials: Some(credentials),
        authorization: authorization.as_deref(),
        headers: &[],
        body: None,
    };
    let bytes = http.answer(ask, pointer.size).await.map_err(|error| failed(error.to_string()))?;
    if hex::encode(Sha256::digest(&bytes)) != pointer.oid {
        return Err(failed("the server gave something else than the repository names".into()));
    }
    let io = |source| GitError::io(folder, source);
    crate::private::make_folder(folder).map_err(io)?;
    let beside = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
    tokio::fs::write(beside.path(), &bytes).await.map_err(io)?;
    beside.persist(&kept).map_err(|error| io(error.error))?;
    Ok(bytes)
}

fn is_authorization(name: &str) -> bool {
    name.eq_ignore_ascii_case("authorization")
}

async fn find(
    http: &Http,
    repo: &Repository,
    credentials: &Credentials,
    pointer: &Pointer,
) -> Result<Place, String> {
    if !repo.url.starts_with("http://") && !repo.url.starts_with("https://") {
        return Err("LFS is read over http(s) alone; give the repository's https address".into());
    }
    let base = repo.url.trim_end_matches('/');
    let base = base.strip_suffix(".git").unwrap_or(base);
    let url = format!("{base}.git/info/lfs/objects/batch");
    let wanted = json!({"operation": "download", "transfers": ["basic"], "hash_algo": "sha256",
        "objects": [{"oid": pointer.oid, "size": pointer.size}]});
    let authorization = credentials.authorization_value();
    let ask = Ask {
        url: &url,
        credentials: Some(credentials),
        authorization: authorization.as_deref(),
        headers: &[("accept", MEDIA), ("content-type", MEDIA)],
        body: Some(wanted.to_string().into_bytes()),
    };
    let bytes = http.answer(ask, ANSWER_BYTES).await.map_err(|error| error.to_string())?;
    let batch: Batch =
        serde_json::from_slice(&bytes).map_err(|_| "it is not an LFS server that answers".to_owned())?;
    let found = batch.objects.into_iter().find(|found| found.oid == pointer.oid);
    let found = found.ok_or("the server does not speak of the file")?;
    if let Some(refusal) = found.error {
        return Err(refusal.message);
    }
    found.actions.download.ok_or_else(|| "the server does not say where the file is".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_pointer_is_one() {
        let oid = "a".repeat(64);
        let text = format!("{VERSION}oid sha256:{oid}\nsize 12\n");
        assert_eq!(Pointer::parse(text.as_bytes()), Some(Pointer { oid, size: 12 }));
        for wrong in [
            "kind: ConfigMap\n".to_owned(),
            format!("{VERSION}oid sha256:../../etc\nsize 12\n"),
            format!("{VERSION}size 12\n"),
            text.replace("12", "many"),
            format!("{text}{}", " x\n".repeat(500)),
        ] {
            assert_eq!(Pointer::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
