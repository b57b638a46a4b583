//! Who signed a commit or a tag: OpenPGP signatures, checked with `gpgv` against keys that the caller gives.
//!
//! In: the text of a commit or tag object and public keys. Out: the fingerprints of the key that made the one good signature.
//! Does not know which keys a project trusts. `gpgv` has no configuration, no agent and no network, and knows no key
//! but these; git itself would take its settings for verification from the user's home.

use std::io::Write;
use std::time::Duration;

use base64::Engine as _;
use slipway_cage::Cage;

use crate::process::{self, Limits, ProcessError};

/// Public keys as `gpgv` reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyring(Vec<u8>);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SignatureError {
    #[error("commit {0} is not signed, and its project asks for a signature")]
    Unsigned(String),
    #[error(
        "the tag of commit {0} is not signed, and its project asks for a signature; sign the tag (git tag --sign)"
    )]
    UnsignedTag(String),
    #[error(
        "commit {commit} has more than {most} commits behind it whose signatures would have to be checked; seal the history (git commit --gpg-sign --trailer 'Argocd-gpg-seal: why')"
    )]
    LongHistory { commit: String, most: usize },
    #[error("the signature of commit {commit} is not good: {why}")]
    Bad { commit: String, why: &'static str },
    #[error(
        "`gpgv` is not installed, and the project asks for signatures; install it (Debian: apt-get install gpgv)"
    )]
    NoGpgv,
    #[error("the signature of commit {commit} could not be checked: {detail}")]
    Unchecked { commit: String, detail: String },
}

impl Keyring {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// From texts with `-----BEGIN PGP PUBLIC KEY BLOCK-----`; what is no key is left out.
    pub fn from_armored<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self(texts.into_iter().flat_map(|text| blocks(text).collect::<Vec<_>>()).flatten().collect())
    }
}

/// The bytes in each block of armour.
fn blocks(text: &str) -> impl Iterator<Item = Vec<u8>> {
    text.split("-----BEGIN PGP PUBLIC KEY BLOCK-----").skip(1).filter_map(|rest| {
        let (block, _) = rest.split_once("-----END PGP PUBLIC KEY BLOCK-----")?;
        // Headers end with an empty line; the last line is a checksum.
        let block = block.replace('\r', "");
        let (_, body) = block.trim_start_matches(' ').split_once("\n\n")?;
        let body: String = body.lines().map(str::trim).filter(|line| !line.starts_with('=')).collect();
        base64::engine::general_purpose::STANDARD.decode(body).ok()
    })
}

/// What was signed, and the signature.
fn split(commit: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let end = commit.windows(2).position(|two| two == b"\n\n")? + 1;
    let (mut signed, mut signature, mut inside) = (Vec::new(), Vec::new(), "");
    for line in commit[..end].split_inclusive(|byte| *byte == b'\n') {
        if let (true, Some(rest)) = (!inside.is_empty(), line.strip_prefix(b" ")) {
            if inside == "gpgsig" {
                signature.extend_from_slice(rest);
            }
            continue;
        }
        inside = "";
        if let Some(rest) = line.strip_prefix(b"gpgsig ") {
            inside = "gpgsig";
            signature = rest.to_vec();
        } else if line.starts_with(b"gpgsig-sha256 ") {
            inside = "gpgsig-sha256";
        } else {
            signed.extend_from_slice(line);
        }
    }
    signed.extend_from_slice(&commit[end..]);
    signature.starts_with(b"-----BEGIN PGP").then_some((signed, signature))
}

/// The same of a tag, whose signature stands at its end.
fn split_tag(tag: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    const BEGIN: &[u8] = b"\n-----BEGIN PGP SIGNATURE-----\n";
    let at = tag.windows(BEGIN.len()).rposition(|some| some == BEGIN)? + 1;
    Some((tag[..at].to_vec(), tag[at..].to_vec()))
}

/// True when a tag is one of this very commit.
fn names_commit(tag: &[u8], commit: &str) -> bool {
    tag.starts_with(format!("object {commit}\ntype commit\n").as_bytes())
}

/// Checks the signature of a tag of a commit.
pub(super) async fn tag_signer(
    commit: &str,
    tag: &[u8],
    keys: &Keyring,
) -> Result<Vec<String>, SignatureError> {
    let parts = split_tag(tag).filter(|_| names_commit(tag, commit));
    check(commit, parts.ok_or_else(|| SignatureError::UnsignedTag(commit.to_owned()))?, keys).await
}

/// Checks the signature of a commit object; gives the fingerprints (of the key and of its primary key).
pub(super) async fn signer(id: &str, commit: &[u8], keys: &Keyring) -> Result<Vec<String>, SignatureError> {
    check(id, split(commit).ok_or_else(|| SignatureError::Unsigned(id.to_owned()))?, keys).await
}

async fn check(
    id: &str,
    (signed, signature): (Vec<u8>, Vec<u8>),
    keys: &Keyring,
) -> Result<Vec<String>, SignatureError> {
    let unchecked = |detail: String| SignatureError::Unchecked { commit: id.to_owned(), detail };
    let folder = crate::private::throw_away("slipway-gpgv-").map_err(|error| unchecked(error.to_string()))?;
    let file = |name: &str, content: &[u8]| -> std::io::Result<std::path::PathBuf> {
        let path = folder.path().join(name);
        std::fs::File::create(&path)?.write_all(content)?;
        Ok(path)
    };
    let paths = (|| {
        Ok::<_, std::io::Error>((file("keys", &keys.0)?, file("sig", &signature)?, file("text", &signed)?))
    })();
    let (ring, signature, text) = paths.map_err(|error| unchecked(error.to_string()))?;
    let mut command = process::clean("gpgv", folder.path());
    command.args(["--status-fd", "1", "--keyring"]).arg(ring).arg(signature).arg(text);
    // It sees the keys, the signature and the text, and changes none of them.
    let cage = Cage::new().read(folder.path());
    cage.give(folder.path()).map_err(|error| unchecked(error.to_string()))?;
    let limits = Limits { deadline: Duration::from_secs(20), stdout_bytes: 1 << 16 };
    match process::run(&command, &cage, "gpgv", None, &limits, || true).await {
        Ok(output) => judge(id, &String::from_utf8_lossy(&output.stdout), output.success),
        Err(ProcessError::Missing { .. }) => Err(SignatureError::NoGpgv),
        Err(error) => Err(unchecked(error.to_string())),
    }
}

/// One good signature and nothing else: a second, bad one beside it must not hide behind the first.
fn judge(id: &str, said: &str, success: bool) -> Result<Vec<String>, SignatureError> {
    let lines: Vec<Vec<&str>> = said
        .lines()
        .filter_map(|line| line.strip_prefix("[GNUPG:] "))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let count = |word: &str| lines.iter().filter(|line| line.first() == Some(&word)).count();
    let bad = |why: &'static str| Err(SignatureError::Bad { commit: id.to_owned(), why });
    for (word, why) in [
        ("BADSIG", "it does not fit the commit"),
        ("REVKEYSIG", "its key was revoked"),
        ("EXPKEYSIG", "its key has expired"),
        ("EXPSIG", "it has expired"),
        ("NO_PUBKEY", "its key is not in argocd-gpg-keys-cm"),
        ("ERRSIG", "it cannot be read"),
    ] {
        if count(word) > 0 {
            return bad(why);
        }
    }
    if !success || count("GOODSIG") != 1 || count("VALIDSIG") != 1 {
        return bad("there is not exactly one");
    }
    let valid = lines.iter().find(|line| line.first() == Some(&"VALIDSIG")).expect("counted above");
    // The second word is the key's fingerprint, the last one its primary key's.
    Ok([valid.get(1), valid.last()].into_iter().flatten().map(|word| (*word).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_split_into_what_was_signed_and_the_signature() {
        let text = b"tree 1\nauthor a <b> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----\ngpgsig-sha256 x\n y\nencoding z\n\nmessage\n\ngpgsig no\n";
        let (signed, signature) = split(text).expect("signed");
        assert_eq!(signed, b"tree 1\nauthor a <b> 1 +0000\nencoding z\n\nmessage\n\ngpgsig no\n");
        assert_eq!(signature, b"-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n");
        assert!(
            split(b"tree 1\n\ngpgsig -----BEGIN PGP SIGNATURE-----\n").is_none(),
            "the message signs nothing"
        );
        assert!(split(b"tree 1\ngpgsig -----BEGIN SSH SIGNATURE-----\n x\n\nm\n").is_none());
    }

    #[test]
    fn a_tag_is_split_at_its_last_signature_and_has_to_name_the_commit() {
        let signature = "-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n";
        let head = "object 12ab\ntype commit\ntag v1\n\nfirst\n";
        let text = format!("{head}{signature}");
        let (signed, found) = split_tag(text.as_bytes()).expect("signed");
        assert_eq!((signed, found), (head.as_bytes().to_vec(), signature.as_bytes().to_vec()));
        assert!(split_tag(head.as_bytes()).is_none());
        assert!(names_commit(text.as_bytes(), "12ab") && !names_commit(text.as_bytes(), "12a"));
    }

    #[test]
    fn only_one_good_signature_counts() {
        let good = "[GNUPG:] GOODSIG K a\n[GNUPG:] VALIDSIG SUB 2026 1 0 4 0 1 8 00 PRIMARY\n";
        assert_eq!(judge("c", good, true).expect("good"), ["SUB", "PRIMARY"]);
        for (said, success) in [
            ("", true),
            (good, false),
            (&*format!("{good}[GNUPG:] BADSIG K b\n"), true),
            (&*format!("{good}{good}"), true),
            ("[GNUPG:] NO_PUBKEY K\n", false),
            ("[GNUPG:] EXPKEYSIG K a\n[GNUPG:] VALIDSIG SUB x PRIMARY\n", true),
        ] {
            assert!(judge("c", said, success).is_err(), "{said}");
        }
    }
}
