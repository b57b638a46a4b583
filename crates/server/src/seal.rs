//! Secrets at rest: AES-256-GCM under a key kept beside the database, readable by its owner alone.
//!
//! What a value belongs to goes in as associated data, so that a sealed text moved to another place
//! does not open.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use slipway_model::Secret;

use crate::seams::Seams;

const PREFIX: &str = "sealed:v1:";

pub(crate) struct Sealer {
    key: LessSafeKey,
}

impl Sealer {
    pub(crate) fn open(path: &Path, seams: &Seams) -> std::io::Result<Self> {
        if !path.exists() {
            let bytes = seams.random::<32>();
            let temporary = path.with_extension("new");
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)?;
        }
        let bytes = std::fs::read(path)?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes)
            .map_err(|_| std::io::Error::other("not 32 bytes; restore it from a backup"))?;
        Ok(Self { key: LessSafeKey::new(key) })
    }

    pub(crate) fn seal(&self, seams: &Seams, place: &str, value: &str) -> String {
        let nonce = seams.random::<12>();
        let mut bytes = value.as_bytes().to_vec();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(place.as_bytes()),
                &mut bytes,
            )
            .expect("sealing a small value does not fail");
        format!("{PREFIX}{}", STANDARD.encode([nonce.as_slice(), &bytes].concat()))
    }

    /// `None` when it was not sealed here, for this place, under this key.
    pub(crate) fn unseal(&self, place: &str, sealed: &str) -> Option<Secret<String>> {
        let bytes = STANDARD.decode(sealed.strip_prefix(PREFIX)?).ok()?;
        let (nonce, body) = bytes.split_at_checked(12)?;
        let mut body = body.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.key.open_in_place(nonce, Aad::from(place.as_bytes()), &mut body).ok()?;
        String::from_utf8(opened.to_vec()).ok().map(Secret::new)
    }

    pub(crate) fn is_sealed(value: &str) -> bool {
        value.starts_with(PREFIX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_in_its_place_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let (path, seams) = (folder.path().join("master.key"), Seams::system());
        let sealer = Sealer::open(&path, &seams).unwrap();
        let sealed = sealer.seal(&seams, "pipeline/a", "hunter2");
        assert!(!sealed.contains("hunter2") && Sealer::is_sealed(&sealed));
        let again = Sealer::open(&path, &seams).unwrap();
        assert_eq!(again.unseal("pipeline/a", &sealed).unwrap().expose(), "hunter2");
        assert!(again.unseal("pipeline/b", &sealed).is_none());
        assert!(again.unseal("pipeline/a", "sealed:v1:AAAA").is_none());
    }
}
