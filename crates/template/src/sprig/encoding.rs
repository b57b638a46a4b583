//! Base 64, base 32 and checksums.

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use sha2::Digest as _;

use crate::functions::{Function, Type::Text, takes, text};

/// Go ignores bits that are left over at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("b64enc", &[Text], |_, a| Ok(BASE64.encode(text(&a[0])).into())),
    takes("b64dec", &[Text], |_, a| {
        let plain: String = text(&a[0]).chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        Ok(match BASE64.decode(&plain) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => format!("illegal base64 data at input byte {}", bad_byte(&plain)),
        }
        .into())
    }),
    takes("b32enc", &[Text], |_, a| Ok(base32_encode(text(&a[0]).as_bytes()).into())),
    takes("b32dec", &[Text], |_, a| {
        Ok(match base32_decode(text(&a[0])) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(at) => format!("illegal base32 data at input byte {at}"),
        }
        .into())
    }),
    takes("sha1sum", &[Text], |_, a| Ok(hex::encode(sha1::Sha1::digest(text(&a[0]))).into())),
    takes("sha256sum", &[Text], |_, a| Ok(hex::encode(sha2::Sha256::digest(text(&a[0]))).into())),
    takes("sha512sum", &[Text], |_, a| Ok(hex::encode(sha2::Sha512::digest(text(&a[0]))).into())),
    takes("adler32sum", &[Text], |_, a| {
        let (low, high) = text(&a[0]).bytes().fold((1_u32, 0_u32), |(low, high), byte| {
            let low = (low + u32::from(byte)) % 65521;
            (low, (high + low) % 65521)
        });
        Ok((high << 16 | low).to_string().into())
    }),
];

/// Where Go stops reading.
fn bad_byte(text: &str) -> usize {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = text.bytes().take_while(|byte| is_digit(*byte)).count();
    match text.as_bytes().get(digits) {
        Some(b'=') if digits % 4 >= 2 => {
            let padding = text.as_bytes()[digits..].iter().take_while(|byte| **byte == b'=').count();
            let wanted = 4 - digits % 4;
            if padding < wanted { text.len() } else { digits + wanted }
        }
        Some(_) => digits,
        None => digits - digits % 4,
    }
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32_encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let mut block = [0_u8; 5];
        block[..chunk.len()].copy_from_slice(chunk);
        let number = block.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let digits = (chunk.len() * 8).div_ceil(5);
        for index in 0..8 {
            let digit = (number >> (35 - 5 * index) & 31) as usize;
            out.push(if index < digits { BASE32[digit] as char } else { '=' });
        }
    }
    out
}

fn base32_decode(text: &str) -> Result<Vec<u8>, usize> {
    let plain: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let mut out = Vec::new();
    let end = plain.iter().position(|byte| *byte == b'=').unwrap_or(plain.len());
    if !plain.len().is_multiple_of(8) || plain[end..].iter().any(|byte| *byte != b'=') {
        return Err(end - end % 8);
    }
    let (mut number, mut bits) = (0_u64, 0);
    for (at, byte) in plain[..end].iter().enumerate() {
        let digit = BASE32.iter().position(|digit| digit == byte).ok_or(at)? as u64;
        number = (number << 5 | digit) & 0xffff;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push((number >> bits) as u8);
        }
    }
    Ok(out)
}
