//! API keys, session tokens and passwords: made here, hashed here, compared here.

use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use slipway_model::{AccountId, Secret};
use slipway_store::identity::{ApiKey, Subject};

use crate::seams::Seams;

/// A fresh key: the row to keep, and the text to show once.
pub struct NewKey {
    pub row: ApiKey,
    pub text: Secret<String>,
}

pub(crate) fn new_key(
    seams: &Seams,
    account: AccountId,
    name: &str,
    kind: Subject,
    subject: &str,
    scopes: Vec<String>,
) -> NewKey {
    let id = seams.new_id();
    let secret = hex::encode(seams.random::<20>());
    let row = ApiKey {
        id,
        account,
        name: name.to_owned(),
        prefix: secret[..6].to_owned(),
        secret_hash: digest(&secret),
        subject_kind: kind,
        subject: subject.to_owned(),
        scopes,
        created_ms: seams.now_ms(),
        last_used_ms: None,
        platform: false,
    };
    NewKey { row, text: Secret::new(format!("{id}.{secret}")) }
}

/// Secrets of 160 random bits need no slow hash.
pub(crate) fn digest(secret: &str) -> String {
    hex::encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret.as_bytes()))
}

pub(crate) fn same(left: &str, right: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(left.as_bytes(), right.as_bytes()).is_ok()
}

pub(crate) fn random_token(seams: &Seams) -> String {
    hex::encode(seams.random::<32>())
}

/// 16 letters and digits that cannot be mistaken for one another: about 80 bits.
pub(crate) fn readable_password(seams: &Seams) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let letters = seams.random::<16>().map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
    letters.chunks(4).map(|part| part.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

/// A hash of nothing anybody knows, so that an unknown e-mail costs as much as a wrong password.
pub(crate) const NOBODYS_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Slow on purpose: call it off the async threads.
pub(crate) fn hash_password(seams: &Seams, password: &str) -> String {
    let salt = seams.random::<16>();
    Argon2::default()
        .hash_password_with_salt(password.as_bytes(), &salt)
        .expect("argon2id with default parameters")
        .to_string()
}

pub(crate) fn password_matches(hash: &str, password: &str) -> bool {
    argon2::PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Algorithm, version and costs, without salt and sum.
    fn work(hash: &str) -> Vec<&str> {
        let parts: Vec<_> = hash.split('$').collect();
        assert_eq!(parts.len(), 6, "{hash}");
        parts[..4].to_vec()
    }

    #[test]
    fn k08_an_unknown_person_is_as_much_work_as_a_known_one() {
        let real = hash_password(&Seams::system(), "correct horse battery staple");
        assert_eq!(work(NOBODYS_HASH), work(&real));
        assert!(argon2::PasswordHash::new(NOBODYS_HASH).is_ok(), "one that cannot be read costs nothing");
        assert!(password_matches(&real, "correct horse battery staple"));
        assert!(!password_matches(NOBODYS_HASH, ""));
    }
}
