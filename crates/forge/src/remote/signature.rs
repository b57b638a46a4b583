//! Whether a webhook was written by somebody who knows its secret. Compared in constant time.

use aws_lc_rs::{constant_time, digest, hmac as mac};

/// Says what is wrong without saying what would be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    #[error("there is no signature, or more than one: set the hook's secret at the provider")]
    Missing,
    #[error("the signature is not one of the kind that is expected here")]
    Shape,
    #[error("the signature does not fit: is the secret at the provider the one that is shown for this hook?")]
    Wrong,
}

/// HMAC-SHA-256 over the body, as hex after `prefix`.
pub(super) fn hmac(given: Option<&str>, prefix: &str, body: &[u8], secret: &str) -> Result<(), Rejected> {
    let given = given.ok_or(Rejected::Missing)?.strip_prefix(prefix).ok_or(Rejected::Shape)?;
    verify(mac::HMAC_SHA256, given, body, secret)
}

/// The same, or HMAC-SHA-1 where the prefix says so: what old installations of GitHub and Bitbucket Server send.
pub(super) fn hmac_or_old(given: Option<&str>, body: &[u8], secret: &str) -> Result<(), Rejected> {
    match given.and_then(|given| given.strip_prefix("sha1=")) {
        Some(old) => verify(mac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, old, body, secret),
        None => hmac(given, "sha256=", body, secret),
    }
}

fn verify(algorithm: mac::Algorithm, given: &str, body: &[u8], secret: &str) -> Result<(), Rejected> {
    let bytes = hex::decode(given).map_err(|_| Rejected::Shape)?;
    if bytes.len() != algorithm.digest_algorithm().output_len {
        return Err(Rejected::Shape);
    }
    mac::verify(&mac::Key::new(algorithm, secret.as_bytes()), body, &bytes).map_err(|_| Rejected::Wrong)
}

/// The secret itself in a header. Both sides are hashed first, so that not even the length shows.
pub(super) fn token(given: Option<&str>, secret: &str) -> Result<(), Rejected> {
    let given = given.ok_or(Rejected::Missing)?;
    let hash = |text: &str| digest::digest(&digest::SHA256, text.as_bytes());
    constant_time::verify_slices_are_equal(hash(given).as_ref(), hash(secret).as_ref())
        .map_err(|_| Rejected::Wrong)
}
