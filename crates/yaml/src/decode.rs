//! Bytes → text: UTF-8 with or without a byte order mark, and UTF-16 with one, as libyaml accepts.

use std::borrow::Cow;

use crate::YamlError;

/// Decodes a file's bytes; the error names the line on which the text stops being valid.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, YamlError> {
    match bytes {
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes).map(Cow::Owned),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes).map(Cow::Owned),
        [0xEF, 0xBB, 0xBF, rest @ ..] => utf8(rest),
        _ => utf8(bytes),
    }
}

fn utf8(bytes: &[u8]) -> Result<Cow<'_, str>, YamlError> {
    std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        YamlError { line, column, message: "this byte is not valid UTF-8; save the file as UTF-8".to_owned() }
    })
}

fn utf16(bytes: &[u8], read: fn([u8; 2]) -> u16) -> Result<String, YamlError> {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| read([pair[0], pair[1]])).collect();
    String::from_utf16(&units).map_err(|_| YamlError {
        line: 1,
        column: 1,
        message: "the file starts as UTF-16 but is not valid UTF-16; save it as UTF-8".to_owned(),
    })
}
