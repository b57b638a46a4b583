//! Takes secrets out of a log before it leaves the machine.
//!
//! In: raw bytes of a step, in pieces of any size. Out: valid UTF-8 with every secret replaced. The
//! result depends on the bytes only, never on how they were cut: what could be the beginning of a
//! secret is held back until the next byte decides, so that a restart that masks the same bytes again
//! gets the same text at the same offsets.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

const HIDDEN: &str = "*****";
/// Shorter values would mask half of every log and hide nothing.
const SECRET_CHARS_MIN: usize = 3;
/// Lines such as `}` of a multi-line secret are no secret.
const LINE_BYTES_MIN: usize = 8;
/// A shorter piece of base64 turns up by chance.
const ENCODED_BYTES_MIN: usize = 6;
/// A line that ends in fewer characters of a secret's base64 is shown at once, not held back.
const WRAP_AFTER: usize = 4;

#[derive(Clone)]
pub(crate) struct Masker {
    /// By first byte, so that most bytes of a log cost one look.
    by_first: Vec<Vec<Pattern>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Pattern {
    bytes: Vec<u8>,
    /// Tools break base64 into lines; the secret goes on after the break.
    wraps: bool,
}

enum Match {
    No,
    /// The input ends inside the pattern.
    Open,
    /// It ends after this many bytes of input.
    Full(usize),
}

impl Masker {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut patterns = BTreeSet::new();
        for secret in secrets {
            if secret.trim().chars().count() >= SECRET_CHARS_MIN {
                patterns.extend(forms(secret.trim()));
            }
        }
        let mut by_first = vec![Vec::new(); 256];
        for pattern in patterns {
            by_first[usize::from(pattern.bytes[0])].push(pattern);
        }
        Self { by_first }
    }

    /// Whether there is a secret in a text.
    pub(crate) fn hides(&self, text: &str) -> bool {
        self.mask_whole(text) != text
    }

    /// A text that is complete.
    pub(crate) fn mask_whole(&self, text: &str) -> String {
        let mut out = String::new();
        self.mask(text.as_bytes(), true, &mut out);
        out
    }

    /// Masks what is certain, and says how many bytes of the input that was. With `at_end` everything is.
    pub(crate) fn mask(&self, input: &[u8], at_end: bool, out: &mut String) -> usize {
        let mut at = 0;
        let mut plain = 0;
        while at < input.len() {
            let patterns = &self.by_first[usize::from(input[at])];
            if patterns.is_empty() {
                at += 1;
                continue;
            }
            let mut longest = None;
            let mut open = false;
            for pattern in patterns {
                match pattern.at(&input[at..]) {
                    Match::Full(length) => longest = longest.max(Some(length)),
                    Match::Open => open = true,
                    Match::No => {}
                }
            }
            match longest {
                // A longer secret may begin the same way: wait for it.
                _ if open && !at_end => {
                    return emit(&input[plain..at], true, out).map_or(at, |kept| plain + kept);
                }
                Some(length) => {
                    emit(&input[plain..at], true, out);
                    out.push_str(HIDDEN);
                    at += length;
                    plain = at;
                }
                None => at += 1,
            }
        }
        emit(&input[plain..], at_end, out).map_or(input.len(), |kept| plain + kept)
    }
}

impl Pattern {
    fn at(&self, input: &[u8]) -> Match {
        let mut matched = 0;
        for (index, byte) in input.iter().enumerate() {
            if *byte == self.bytes[matched] {
                matched += 1;
                if matched == self.bytes.len() {
                    return Match::Full(index + 1);
                }
            } else if !(self.wraps && matched >= WRAP_AFTER && matches!(byte, b'\n' | b'\r')) {
                return Match::No;
            }
        }
        Match::Open
    }
}

/// Appends bytes as text. A character that is cut off by the end of the input stays behind unless this
/// is the end of everything; then how many bytes were used is given back.
fn emit(mut bytes: &[u8], at_end: bool, out: &mut String) -> Option<usize> {
    let all = bytes.len();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                push(text, out);
                return None;
            }
            Err(error) => {
                let (good, rest) = bytes.split_at(error.valid_up_to());
                push(std::str::from_utf8(good).unwrap_or_default(), out);
                match error.error_len() {
                    Some(bad) => {
                        out.push(char::REPLACEMENT_CHARACTER);
                        bytes = &rest[bad..];
                    }
                    None if at_end => {
                        out.push(char::REPLACEMENT_CHARACTER);
                        return None;
                    }
                    None => return Some(all - rest.len()),
                }
            }
        }
    }
}

/// Stores and terminals stumble over NUL.
fn push(text: &str, out: &mut String) {
    if text.contains('\0') {
        out.push_str(&text.replace('\0', "\u{fffd}"));
    } else {
        out.push_str(text);
    }
}

/// The shapes in which tools print a secret.
fn forms(secret: &str) -> Vec<Pattern> {
    let mut plain = vec![secret.to_owned()];
    if secret.contains('\n') {
        plain.extend(
            secret.lines().map(str::trim).filter(|line| line.len() >= LINE_BYTES_MIN).map(str::to_owned),
        );
        plain.push(secret.replace('\n', "\r\n"));
        plain.push(secret.replace('\n', "\\n"));
        plain.push(secret.replace('\n', " "));
    }
    plain.push(secret.replace(' ', "\\ "));
    plain.push(secret.replace('\'', r"'\''"));
    if let Ok(json) = serde_json::to_string(secret) {
        plain.push(json.trim_matches('"').to_owned());
    }
    plain.push(url(secret, |byte| format!("%{byte:02X}")));
    plain.push(url(secret, |byte| format!("%{byte:02x}")));

    let mut patterns: Vec<Pattern> =
        plain.into_iter().map(|text| Pattern { bytes: text.into_bytes(), wraps: false }).collect();
    for text in encoded(secret) {
        patterns.push(Pattern { bytes: text.into_bytes(), wraps: true });
    }
    patterns.retain(|pattern| pattern.bytes.len() >= SECRET_CHARS_MIN);
    patterns
}

/// Base64 of the secret alone, and inside longer data at each of the three alignments.
fn encoded(secret: &str) -> Vec<String> {
    let mut found = Vec::new();
    for engine in [&STANDARD, &URL_SAFE] {
        found.push(engine.encode(secret));
        for shift in 0..3 {
            let bytes = [&[0; 3][..shift], secret.as_bytes()].concat();
            let text = engine.encode(&bytes);
            let (first, last) = ((shift * 8).div_ceil(6), bytes.len() * 8 / 6);
            found.extend(text.get(first..last).map(str::to_owned));
        }
    }
    found.retain(|text| text.len() >= ENCODED_BYTES_MIN);
    // The line may break right after the first characters; then the rest is the secret.
    let broken = found
        .iter()
        .filter(|text| text.len() >= 24)
        .flat_map(|text| (1..WRAP_AFTER).map(|cut| text[cut..].to_owned()));
    let broken: Vec<String> = broken.collect();
    found.extend(broken);
    found
}

fn url(secret: &str, escape: impl Fn(u8) -> String) -> String {
    secret
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => escape(byte),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the log pump does it: what was not used comes again with the next piece.
    fn in_pieces(masker: &Masker, input: &[u8], size: usize) -> String {
        let mut out = String::new();
        let mut kept: Vec<u8> = Vec::new();
        for piece in input.chunks(size.max(1)) {
            kept.extend(piece);
            let used = masker.mask(&kept, false, &mut out);
            kept.drain(..used);
        }
        masker.mask(&kept, true, &mut out);
        out
    }

    fn check(secrets: &[&str], input: &str, expect: &str) {
        let masker = Masker::new(secrets.iter().copied());
        for size in [1, 2, 3, 7, 64, input.len()] {
            assert_eq!(in_pieces(&masker, input.as_bytes(), size), expect, "in pieces of {size}");
        }
    }

    #[test]
    fn a_secret_is_found_however_the_text_is_cut() {
        check(&["s3cret"], "a s3cret b s3cre c s3cs3cret", "a ***** b s3cre c s3c*****");
    }

    #[test]
    fn the_longest_secret_wins() {
        check(&["pass", "password"], "password pass passwor", "***** ***** *****wor");
    }

    #[test]
    fn the_shapes_that_tools_print_are_secrets_too() {
        let secret = "pa ss/w0rd!x";
        for shape in ["pa\\ ss/w0rd!x", "pa%20ss%2Fw0rd%21x", "pa%20ss%2fw0rd%21x"] {
            check(&[secret], &format!("<{shape}>"), "<*****>");
        }
        for before in ["", "u:", "me:", "user=me "] {
            let text = STANDARD.encode(format!("{before}{secret}\n"));
            let masker = Masker::new([secret]);
            let shown = in_pieces(&masker, text.as_bytes(), 5);
            assert!(shown.contains(HIDDEN) && shown.len() < text.len(), "{text} -> {shown}");
        }
    }

    #[test]
    fn a_secret_of_several_lines_is_hidden_as_a_whole_and_line_by_line() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----";
        check(&[key], &format!("x{key}y"), "x*****y");
        check(&[key], "  MIIEvQIBADANBg\n", "  *****\n");
        check(&[key], "-----BEGIN KEY-----\\nMIIEvQIBADANBg\\n-----END KEY-----", "*****");
        let wrapped = STANDARD.encode(key);
        let (head, tail) = wrapped.split_at(40);
        check(&[key], &format!("{head}\n{tail}\n"), "*****\n");
        let (head, tail) = wrapped.split_at(2);
        check(&[key], &format!("{head}\n{tail}\n"), &format!("{head}\n*****\n"));
    }

    #[test]
    fn bytes_that_are_no_text_become_visible_and_characters_are_never_cut() {
        let masker = Masker::new(["geheim"]);
        for size in 1..8 {
            assert_eq!(in_pieces(&masker, "größe ✓ geheim\0".as_bytes(), size), "größe ✓ *****\u{fffd}");
            assert_eq!(in_pieces(&masker, b"a\xff\xe2\x82", size), "a\u{fffd}\u{fffd}");
        }
    }

    #[test]
    fn values_too_short_to_be_secrets_are_left_alone() {
        check(&["a", "", "ab", "  "], "a ab abc", "a ab abc");
    }

    #[test]
    fn random_texts_give_the_same_result_in_one_piece_and_in_many() {
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize
        };
        let masker = Masker::new(["aba", "abab", "bb\nab", "äb"]);
        for _ in 0..2_000 {
            let text: String = (0..next() % 40).map(|_| ['a', 'b', '\n', 'ä', 'c'][next() % 5]).collect();
            let whole = in_pieces(&masker, text.as_bytes(), text.len());
            let size = 1 + next() % 5;
            assert_eq!(in_pieces(&masker, text.as_bytes(), size), whole, "{text:?} in pieces of {size}");
            assert!(!whole.contains("aba"), "{text:?} -> {whole:?}");
        }
    }
}
