//! Secrets at rest: envelope encryption.
//!
//! Each account has a data key; what is secret of the account is sealed with it (AES-256-GCM). Data keys are kept in
//! the database, wrapped by a master key that is kept beside it in a file that only its owner reads. Rotation makes
//! a new master key and wraps every data key again; it may die anywhere and is finished at the next start, because
//! each wrapped key says which master it needs and both masters are there until no row needs the old one.
//!
//! What a value belongs to goes in as associated data, so that a sealed text moved to another place does not open.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use slipway_model::{AccountId, Secret};
use slipway_store::data_keys::{self, DataKey as Row};
use slipway_store::{Store, StoreError, Tx};

use crate::seams::Seams;

/// Sealed under the master key itself, before there were data keys.
const OLD_PREFIX: &str = "sealed:v1:";
const PREFIX: &str = "sealed:v2:";
/// A rotation takes moments.
const OPEN_TRIES: u32 = 5;
/// The row that keeps what opens [`OLD_PREFIX`].
const OLD_KEY: &str = "before-data-keys";
/// The data key of what belongs to no account.
pub(crate) const PLATFORM: &str = "platform";

type Bytes = [u8; 32];

pub(crate) struct DataKey {
    key: LessSafeKey,
    old: Option<LessSafeKey>,
    chain: hmac::Key,
}

impl DataKey {
    pub(crate) fn seal(&self, seams: &Seams, place: &str, value: &str) -> String {
        format!("{PREFIX}{}", encrypt(&self.key, seams, place, value.as_bytes()))
    }

    /// `None` when it was not sealed here, for this place, under this key.
    pub(crate) fn unseal(&self, place: &str, sealed: &str) -> Option<Secret<String>> {
        let opened = match sealed.strip_prefix(PREFIX) {
            Some(text) => decrypt(&self.key, place, text),
            None => decrypt(self.old.as_ref()?, place, sealed.strip_prefix(OLD_PREFIX)?),
        };
        String::from_utf8(opened?).ok().map(Secret::new)
    }

    /// The mark that ties one audit record to those before it; only who holds this key can make it.
    pub(crate) fn chain(&self, text: &str) -> String {
        hex::encode(hmac::sign(&self.chain, text.as_bytes()))
    }
}

pub(crate) fn is_sealed(value: &str) -> bool {
    value.starts_with(PREFIX) || value.starts_with(OLD_PREFIX)
}

pub(crate) struct Keyring {
    path: PathBuf,
    state: RwLock<State>,
}

struct State {
    masters: BTreeMap<String, Bytes>,
    current: String,
    opened: HashMap<String, Arc<DataKey>>,
}

impl Keyring {
    /// The master key beside the database, made when the database has nothing that one was needed for. A key that does not
    /// open what is there is refused: a process with another one would answer every question about a secret with an error.
    pub(crate) fn open(path: &Path, seams: &Seams, store: &Store) -> Result<Self, StoreError> {
        let failed = |error| StoreError::File { path: path.display().to_string(), error };
        let mut tries = 0;
        loop {
            let sealed = store.read_at_start(data_keys::list)?;
            if !path.exists() && !next_of(path).exists() {
                if let Some(row) = sealed.first() {
                    return Err(StoreError::WrongKey {
                        path: path.display().to_string(),
                        wanted: row.master.clone(),
                    });
                }
                write_key(path, &seams.random()).map_err(failed)?;
            }
            let (masters, current) = load(path).map_err(failed)?;
            let Some(row) = sealed.iter().find(|row| !masters.contains_key(&row.master)) else {
                let state = State { masters, current, opened: HashMap::new() };
                return Ok(Self { path: path.to_owned(), state: RwLock::new(state) });
            };
            tries += 1;
            if tries >= OPEN_TRIES {
                return Err(StoreError::WrongKey {
                    path: path.display().to_string(),
                    wanted: row.master.clone(),
                });
            }
            // Another process may be rotating the key at this moment.
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }

    pub(crate) fn account(&self, tx: &mut Tx<'_>, account: AccountId) -> Result<Arc<DataKey>, StoreError> {
        self.named(tx, &account.to_string())
    }

    /// The data key of an account or of the platform.
    pub(crate) fn named(&self, tx: &mut Tx<'_>, id: &str) -> Result<Arc<DataKey>, StoreError> {
        if let Some(known) = self.known(id) {
            return Ok(known);
        }
        let row = data_keys::one(tx, id)?
            .ok_or_else(|| StoreError::corrupt(format!("there is no data key for `{id}`")))?;
        let bytes = self.unwrap(&row)?;
        let old = data_keys::one(tx, OLD_KEY)?.map(|row| self.unwrap(&row)).transpose()?;
        let opened = Arc::new(DataKey {
            key: cipher(&bytes),
            old: old.as_ref().map(cipher),
            chain: hmac::Key::new(
                hmac::HMAC_SHA256,
                hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &bytes), b"audit").as_ref(),
            ),
        });
        self.state.write().expect("not poisoned").opened.insert(id.to_owned(), opened.clone());
        Ok(opened)
    }

    pub(crate) fn known(&self, id: &str) -> Option<Arc<DataKey>> {
        self.state.read().expect("not poisoned").opened.get(id).cloned()
    }

    /// Makes the data key unless it is there.
    pub(crate) fn ensure(
        &self,
        tx: &mut Tx<'_>,
        seams: &Seams,
        id: &str,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        match data_keys::one(tx, id)? {
            Some(_) => Ok(()),
            None => data_keys::create(tx, &self.wrap(seams, id, &seams.random()), now_ms),
        }
    }

    /// A database of before data keys: what was sealed with the master key stays readable, also after a rotation.
    pub(crate) fn keep_old(&self, tx: &mut Tx<'_>, seams: &Seams, now_ms: i64) -> Result<(), StoreError> {
        let current = {
            let state = self.state.read().expect("not poisoned");
            state.masters[&state.current]
        };
        data_keys::create(tx, &self.wrap(seams, OLD_KEY, &current), now_ms)
    }

    fn wrap(&self, seams: &Seams, id: &str, bytes: &Bytes) -> Row {
        let state = self.state.read().expect("not poisoned");
        let master = cipher(&state.masters[&state.current]);
        Row {
            id: id.to_owned(),
            master: state.current.clone(),
            wrapped: encrypt(&master, seams, &wrapping(id), bytes),
        }
    }

    fn unwrap(&self, row: &Row) -> Result<Bytes, StoreError> {
        if !self.state.read().expect("not poisoned").masters.contains_key(&row.master) {
            // Another process may have rotated: its key is in the file by now.
            let (masters, current) = load(&self.path).map_err(StoreError::corrupt)?;
            let mut state = self.state.write().expect("not poisoned");
            (state.masters, state.current) = (masters, current);
        }
        let state = self.state.read().expect("not poisoned");
        let master = state.masters.get(&row.master).ok_or_else(|| {
            StoreError::corrupt(format!(
                "data key `{}` is wrapped by master key {}, which is not in {}: restore that file",
                row.id,
                row.master,
                self.path.display()
            ))
        })?;
        decrypt(&cipher(master), &wrapping(&row.id), &row.wrapped)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| StoreError::corrupt(format!("cannot decrypt data key `{}`", row.id)))
    }

    /// A rotation that a crash left unfinished.
    pub(crate) fn is_rotating(&self) -> bool {
        next_of(&self.path).exists()
    }

    /// First half: the new master key is on disk before any row needs it.
    pub(crate) fn begin_rotation(&self, seams: &Seams) -> std::io::Result<()> {
        let next = next_of(&self.path);
        if !next.exists() {
            write_key(&next, &seams.random())?;
        }
        let (masters, current) = load(&self.path)?;
        let mut state = self.state.write().expect("not poisoned");
        (state.masters, state.current) = (masters, current);
        Ok(())
    }

    /// Second half, in a transaction: every row is wrapped by the new one. Gives back how many were not.
    pub(crate) fn rewrap_all(&self, tx: &mut Tx<'_>, seams: &Seams) -> Result<usize, StoreError> {
        let mut done = 0;
        for row in data_keys::list(tx)? {
            let current = self.state.read().expect("not poisoned").current.clone();
            if row.master != current {
                let bytes = self.unwrap(&row)?;
                data_keys::rewrap(tx, &self.wrap(seams, &row.id, &bytes), &row.master)?;
                done += 1;
            }
        }
        Ok(done)
    }

    /// After the commit of the second half nothing needs the old master key: it goes.
    pub(crate) fn end_rotation(&self) -> std::io::Result<String> {
        let next = next_of(&self.path);
        if next.exists() {
            std::fs::rename(&next, &self.path)?;
            sync_folder(&self.path)?;
        }
        let (masters, current) = load(&self.path)?;
        let mut state = self.state.write().expect("not poisoned");
        (state.masters, state.current) = (masters, current.clone());
        Ok(current)
    }
}

fn wrapping(id: &str) -> String {
    format!("data-key/{id}")
}

fn next_of(path: &Path) -> PathBuf {
    path.with_extension("key.next")
}

/// Every master key there is, and which one wraps from now on: the next one while there is one.
fn load(path: &Path) -> std::io::Result<(BTreeMap<String, Bytes>, String)> {
    let (mut masters, mut current) = (BTreeMap::new(), String::new());
    for path in [path, &next_of(path)] {
        if !path.exists() {
            continue;
        }
        let bytes: Bytes = std::fs::read(path)?.try_into().map_err(|_| {
            std::io::Error::other(format!("{} is not 32 bytes: restore it from a backup", path.display()))
        })?;
        current = hex::encode(&digest::digest(&digest::SHA256, &bytes).as_ref()[..6]);
        masters.insert(current.clone(), bytes);
    }
    Ok((masters, current))
}

fn write_key(path: &Path, bytes: &Bytes) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) => std::fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn cipher(bytes: &Bytes) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).expect("32 bytes are a key"))
}

fn encrypt(key: &LessSafeKey, seams: &Seams, place: &str, value: &[u8]) -> String {
    let nonce = seams.random::<12>();
    let mut bytes = value.to_vec();
    key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(place.as_bytes()),
        &mut bytes,
    )
    .expect("sealing a small value does not fail");
    STANDARD.encode([nonce.as_slice(), &bytes].concat())
}

fn decrypt(key: &LessSafeKey, place: &str, text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text).ok()?;
    let (nonce, body) = bytes.split_at_checked(12)?;
    let mut body = body.to_vec();
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    Some(key.open_in_place(nonce, Aad::from(place.as_bytes()), &mut body).ok()?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn key(store: &Store, keyring: &Arc<Keyring>) -> Arc<DataKey> {
        let keyring = keyring.clone();
        let made = store.write(move |tx| {
            keyring.ensure(tx, &Seams::system(), "a", 1)?;
            keyring.named(tx, "a")
        });
        made.await.unwrap()
    }

    #[tokio::test]
    async fn a_sealed_value_opens_in_its_place_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let (path, seams) = (folder.path().join("master.key"), Seams::system());
        let store = Store::open(folder.path()).unwrap();
        let sealed = key(&store, &Arc::new(Keyring::open(&path, &seams, &store).unwrap())).await.seal(
            &seams,
            "pipeline/a",
            "hunter2",
        );
        assert!(!sealed.contains("hunter2") && is_sealed(&sealed));
        let again = key(&store, &Arc::new(Keyring::open(&path, &seams, &store).unwrap())).await;
        assert_eq!(again.unseal("pipeline/a", &sealed).unwrap().expose(), "hunter2");
        assert!(again.unseal("pipeline/b", &sealed).is_none());
        assert!(again.unseal("pipeline/a", "sealed:v2:AAAA").is_none());
    }

    #[tokio::test]
    async fn what_was_sealed_before_there_were_data_keys_opens_still_and_after_a_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let (path, seams) = (folder.path().join("master.key"), Seams::system());
        let store = Store::open(folder.path()).unwrap();
        let keyring = Arc::new(Keyring::open(&path, &seams, &store).unwrap());
        let master: Bytes = std::fs::read(&path).unwrap().try_into().unwrap();
        let old = format!("{OLD_PREFIX}{}", encrypt(&cipher(&master), &seams, "p", b"hunter2"));
        let keep = keyring.clone();
        store.write(move |tx| keep.keep_old(tx, &Seams::system(), 1)).await.unwrap();
        assert_eq!(key(&store, &keyring).await.unseal("p", &old).unwrap().expose(), "hunter2");
        keyring.begin_rotation(&seams).unwrap();
        let rotating = keyring.clone();
        assert_eq!(store.write(move |tx| rotating.rewrap_all(tx, &Seams::system())).await.unwrap(), 2);
        keyring.end_rotation().unwrap();
        let again = Arc::new(Keyring::open(&path, &seams, &store).unwrap());
        assert_eq!(key(&store, &again).await.unseal("p", &old).unwrap().expose(), "hunter2");
    }

    /// S7: a folder that is not the platform's own gives no new key to a database that has secrets.
    #[tokio::test]
    async fn a_key_that_does_not_open_what_is_there_is_refused_and_none_is_made() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let seams = Seams::system();
        let store = Store::open(folder.path()).unwrap();
        let path = folder.path().join("master.key");
        key(&store, &Arc::new(Keyring::open(&path, &seams, &store).unwrap())).await;
        let wrong = other.path().join("master.key");
        let refused = Keyring::open(&wrong, &seams, &store).err().expect("it is refused");
        assert!(
            refused.to_string().contains("the folder that all processes of the platform share"),
            "{refused}"
        );
        assert!(!wrong.exists(), "and nothing was made");
        write_key(&wrong, &seams.random()).unwrap();
        assert!(matches!(Keyring::open(&wrong, &seams, &store), Err(StoreError::WrongKey { .. })));
        assert!(Keyring::open(&path, &seams, &store).is_ok());
    }

    /// A rotation dies after each of its steps; at the next start everything opens, and when it is done the old key opens nothing.
    #[tokio::test]
    async fn a_rotation_may_die_anywhere() {
        for steps in 0..4 {
            let folder = tempfile::tempdir().unwrap();
            let (path, seams) = (folder.path().join("master.key"), Seams::system());
            let store = Store::open(folder.path()).unwrap();
            let first = Arc::new(Keyring::open(&path, &seams, &store).unwrap());
            let sealed = key(&store, &first).await.seal(&seams, "p", "hunter2");
            let old_master = std::fs::read(&path).unwrap();
            let rewrap =
                |keyring: Arc<Keyring>| store.write(move |tx| keyring.rewrap_all(tx, &Seams::system()));
            if steps > 0 {
                first.begin_rotation(&seams).unwrap();
            }
            if steps > 1 {
                assert_eq!(rewrap(first.clone()).await.unwrap(), 1);
            }
            if steps > 2 {
                first.end_rotation().unwrap();
            }
            let second = Arc::new(Keyring::open(&path, &seams, &store).unwrap());
            assert_eq!(second.is_rotating(), steps == 1 || steps == 2, "{steps}");
            assert_eq!(
                key(&store, &second).await.unseal("p", &sealed).unwrap().expose(),
                "hunter2",
                "{steps}"
            );
            if second.is_rotating() {
                rewrap(second.clone()).await.unwrap();
                second.end_rotation().unwrap();
            }
            let third = Arc::new(Keyring::open(&path, &seams, &store).unwrap());
            assert_eq!(
                key(&store, &third).await.unseal("p", &sealed).unwrap().expose(),
                "hunter2",
                "{steps}"
            );
            if steps > 0 {
                std::fs::write(&path, old_master).unwrap();
                let stolen = Keyring::open(&path, &seams, &store);
                assert!(matches!(stolen, Err(StoreError::WrongKey { .. })), "{steps}");
            }
        }
    }
}
