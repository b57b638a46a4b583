//! Signed pipelines: who trusts the people who write pipelines and not the control plane gives the runner their public
//! keys, and it runs nothing else.
//!
//! In: text of a pipeline, keys as JSON Web Keys (`OKP`, `Ed25519`). Out: a text with its signature, or whether one is
//! good. Values of variables and the choice of steps in a run are not signed: what a signed command does with
//! `${{NAME}}` is decided by whoever sets the variable.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use slipway_pipeline::signed::{Mark, mark, signed_bytes, with_mark};

const SEED_BYTES: usize = 32;

/// One key; `d` is there for who signs, and must stay with them.
#[derive(Serialize, Deserialize)]
struct Jwk {
    kty: String,
    crv: String,
    kid: String,
    x: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    d: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

/// Public keys by their ids.
#[derive(Debug, Clone)]
pub struct Trusted(BTreeMap<String, Vec<u8>>);

impl Trusted {
    /// Reads a key set; all that is wrong with it is told at once.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no set of keys", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let set: Jwks = serde_json::from_str(text)?;
        let (mut keys, mut wrong) = (BTreeMap::new(), Vec::new());
        for key in set.keys {
            let bytes = BASE64.decode(&key.x).unwrap_or_default();
            if (key.kty.as_str(), key.crv.as_str(), bytes.len()) != ("OKP", "Ed25519", SEED_BYTES) {
                wrong.push(format!("`{}` is no public key of type OKP with curve Ed25519", key.kid));
            } else if keys.insert(key.kid.clone(), bytes).is_some() {
                wrong.push(format!("`{}` is there twice", key.kid));
            }
        }
        if keys.is_empty() && wrong.is_empty() {
            wrong.push("it has no key: nothing could be run".to_owned());
        }
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        Ok(Self(keys))
    }

    /// The id of the key that the text is signed with, or why this runner does not run it.
    pub(crate) fn check(&self, text: &str) -> Result<String, String> {
        let refused = |why: &str| {
            Err(format!(
                "this runner runs signed pipelines alone (--trust), and {why}: sign it with `slipway sign`"
            ))
        };
        let Some(Mark { key, value }) = mark(text) else { return refused("this one has no signature") };
        let Some(public) = self.0.get(&key) else {
            return refused(&format!("this one is signed with `{key}`, which it does not trust"));
        };
        let signature = BASE64.decode(value).unwrap_or_default();
        let good = signed_bytes(text)
            .is_some_and(|bytes| UnparsedPublicKey::new(&ED25519, public).verify(&bytes, &signature).is_ok());
        if good { Ok(key) } else { refused("this one is not what was signed") }
    }
}

/// A new key under this id: what the signer keeps, and the set of keys for runners.
pub fn new_key(id: &str) -> anyhow::Result<(String, String)> {
    anyhow::ensure!(
        !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)),
        "the id of a key has letters, digits, `-`, `_` and `.`"
    );
    let mut seed = [0; SEED_BYTES];
    getrandom::fill(&mut seed).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    let pair =
        Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| anyhow::anyhow!("no key can be made"))?;
    let jwk = |d: Option<String>| Jwk {
        kty: "OKP".into(),
        crv: "Ed25519".into(),
        kid: id.into(),
        x: BASE64.encode(pair.public_key()),
        d,
    };
    let private = serde_json::to_string_pretty(&jwk(Some(BASE64.encode(seed))))?;
    Ok((private, serde_json::to_string_pretty(&Jwks { keys: vec![jwk(None)] })?))
}

/// The text with a signature by this key, in the place of an older one.
pub fn sign(text: &str, private: &str) -> anyhow::Result<String> {
    let key: Jwk = serde_json::from_str(private).context("the key is no JSON Web Key")?;
    let seed = key.d.as_deref().and_then(|d| BASE64.decode(d).ok()).unwrap_or_default();
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| {
        anyhow::anyhow!("the key has no private part of curve Ed25519: `slipway sign --new-key` makes one")
    })?;
    let bytes = signed_bytes(text).context("the text is no pipeline")?;
    let mark = Mark { key: key.kid, value: BASE64.encode(pair.sign(&bytes)) };
    Ok(with_mark(text, &mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version: '1.0'\nsteps:\n  say: {image: x, commands: ['echo hello']}\n";

    #[test]
    fn what_was_signed_is_run_and_nothing_else() {
        let (mine, public) = new_key("mine").unwrap();
        let trusted = Trusted::parse(&public).unwrap();
        let signed = sign(TEXT, &mine).unwrap();
        assert_eq!(trusted.check(&signed).unwrap(), "mine");
        assert_eq!(sign(&signed, &mine).unwrap(), signed, "signing again changes nothing");
        let refused = |text: &str, why: &str| {
            let said = trusted.check(text).unwrap_err();
            assert!(said.contains(why), "{said}");
        };
        refused(TEXT, "no signature");
        refused(&signed.replace("hello", "evil"), "not what was signed");
        refused(&format!("{signed}mode: parallel\n"), "not what was signed");
        let (other, _) = new_key("other").unwrap();
        refused(&sign(TEXT, &other).unwrap(), "does not trust");
        // Another's key under an id that is trusted.
        let (forged, _) = new_key("mine").unwrap();
        refused(&sign(TEXT, &forged).unwrap(), "not what was signed");
        refused(&format!("{TEXT}# slipway-signature: mine AAAA\n"), "not what was signed");
    }

    #[test]
    fn a_key_set_that_would_trust_nobody_or_anybody_is_refused() {
        let (private, public) = new_key("one").unwrap();
        for text in [
            r#"{"keys":[]}"#,
            "{}",
            &public.replace("Ed25519", "P-256"),
            &public.replace("\"x\": \"", "\"x\": \"A"),
        ] {
            assert!(Trusted::parse(text).is_err(), "{text}");
        }
        assert!(sign(TEXT, &public).is_err() && sign("- no", &private).is_err());
        assert!(new_key("a b").is_err());
    }
}
