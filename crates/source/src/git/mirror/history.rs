//! Who signed a commit and everything that it was made from.
//!
//! In: a commit and who is trusted. Out: the first commit that none of them signed, if there is one. A commit that says
//! in a trailer that it seals what is before it, and that somebody trusted has signed, ends the way back: who wrote it
//! vouches for its past. This is what Argo CD's mode `strict` means.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use sha2::{Digest, Sha256};

use super::repository::Mirror;
use super::signature::{self, Keyring, SignatureError};
use super::{Commit, GitCache, GitError, Repository};

/// The trailer of a commit that vouches for its past.
const SEAL: &str = "argocd-gpg-seal";
/// Commits looked at on the way back. Each costs a run of `gpgv`.
const COMMITS_MAX: usize = 5_000;
/// Runs of `gpgv` at once.
const PARALLEL: usize = 4;

/// Signers of commits that were looked at before, by commit and keyring. A key that runs out in the meantime counts for
/// the newest commit at once, which is never taken from here.
#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<[u8; 32], Arc<[String]>>>);

impl Known {
    fn key(commit: &str, keys: &Keyring) -> [u8; 32] {
        Sha256::new().chain_update(commit.as_bytes()).chain_update(keys.bytes()).finalize().into()
    }

    async fn signer(&self, id: &str, data: &[u8], keys: &Keyring) -> Result<Arc<[String]>, SignatureError> {
        let key = Self::key(id, keys);
        if let Some(known) = self.0.lock().expect("no panic while locked").get(&key) {
            return Ok(known.clone());
        }
        let found: Arc<[String]> = signature::signer(id, data, keys).await?.into();
        let mut all = self.0.lock().expect("no panic while locked");
        if all.len() >= 20 * COMMITS_MAX {
            all.clear();
        }
        all.insert(key, found.clone());
        Ok(found)
    }
}

impl GitCache {
    /// The first commit, from this one backwards, that was signed by somebody who is not trusted, and by whom. One that
    /// nobody signed well is an error.
    pub async fn distrusted(
        &self,
        repo: &Repository,
        commit: &Commit,
        keys: &Keyring,
        trusts: &(dyn Fn(&[String]) -> bool + Sync),
    ) -> Result<Option<(String, Vec<String>)>, GitError> {
        let mirror = self.mirror(repo)?;
        mirror.fetched(repo, &commit.sha).await?;
        let mut seen = HashSet::from([commit.sha.clone()]);
        let mut open = vec![commit.sha.clone()];
        while !open.is_empty() {
            if seen.len() > COMMITS_MAX {
                return Err(
                    SignatureError::LongHistory { commit: commit.sha.clone(), most: COMMITS_MAX }.into()
                );
            }
            let looks = std::mem::take(&mut open).into_iter().map(|id| {
                let mirror = &mirror;
                async move {
                    let data = read(mirror, repo, &commit.sha, &id).await?;
                    let signer = self.signers.signer(&id, &data, keys).await?;
                    Ok::<_, GitError>((id, data, signer))
                }
            });
            let looks: Vec<_> = futures::stream::iter(looks).buffered(PARALLEL).collect().await;
            for look in looks {
                let (id, data, signer) = look?;
                if !trusts(&signer) {
                    return Ok(Some((id, signer.to_vec())));
                }
                if !is_seal(&data) {
                    open.extend(parents(&data).into_iter().filter(|parent| seen.insert(parent.clone())));
                }
            }
        }
        Ok(None)
    }
}

/// A commit of the history. Mirrors have no more of it than they need, so that the rest comes when it is asked for.
async fn read(mirror: &Mirror, repo: &Repository, newest: &str, id: &str) -> Result<Vec<u8>, GitError> {
    if let Some(object) = mirror.find(id).await? {
        return Ok(object.data);
    }
    mirror.fetch_history(repo, newest).await?;
    Ok(mirror.object(id).await?.data)
}

fn header_and_message(commit: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(commit);
    text.split_once("\n\n").map_or_else(
        || (text.clone().into_owned(), String::new()),
        |(header, message)| (header.to_owned(), message.to_owned()),
    )
}

fn parents(commit: &[u8]) -> Vec<String> {
    let (header, _) = header_and_message(commit);
    header.lines().filter_map(|line| line.strip_prefix("parent ")).map(str::to_owned).collect()
}

/// True when the last paragraph of the message has the trailer.
fn is_seal(commit: &[u8]) -> bool {
    let (_, message) = header_and_message(commit);
    let message = message.trim_end();
    let Some((_, last)) = message.rsplit_once("\n\n") else { return false };
    last.lines()
        .any(|line| line.split_once(':').is_some_and(|(key, _)| key.trim().eq_ignore_ascii_case(SEAL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_a_trailer_and_a_parent_a_header() {
        let commit = |message: &str| {
            format!(
                "tree 1\nparent ab\nparent cd\ngpgsig -----BEGIN PGP SIGNATURE-----\n parent no\n\n{message}"
            )
            .into_bytes()
        };
        assert_eq!(parents(&commit("parent no\n")), ["ab", "cd"]);
        assert!(is_seal(&commit("Subject\n\nSigned-off-by: a\nArgocd-gpg-seal: why\n")));
        for message in [
            "Argocd-gpg-seal: why\n",
            "Subject\n\nArgocd-gpg-seal: why\n\nmore\n",
            "Subject\n\nno Argocd-gpg-seal\n",
        ] {
            assert!(!is_seal(&commit(message)), "{message}");
        }
    }
}
