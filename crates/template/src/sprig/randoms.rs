//! Chance, out of the environment's dice: the same dice give the same text.

use base64::Engine as _;

use crate::exec::Scope;
use crate::functions::{
    Function,
    Type::{Int, Text},
    int, takes, text,
};
use crate::value::{IntType, Value};

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DIGITS: &[u8] = b"0123456789";

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("randAlphaNum", &[Int], |s, a| pick(s, int(&a[0]), &[LETTERS, DIGITS].concat())),
    takes("randAlpha", &[Int], |s, a| pick(s, int(&a[0]), LETTERS)),
    takes("randNumeric", &[Int], |s, a| pick(s, int(&a[0]), DIGITS)),
    takes("randAscii", &[Int], |s, a| pick(s, int(&a[0]), &(32..127).collect::<Vec<u8>>())),
    takes("randBytes", &[Int], |s, a| {
        let bytes: Vec<u8> = bytes(s, int(&a[0]))?;
        Ok(base64::engine::general_purpose::STANDARD.encode(bytes).into())
    }),
    takes("randInt", &[Int, Int], |s, a| {
        let (low, high) = (int(&a[0]), int(&a[1]));
        if high <= low {
            return Err("invalid argument to Intn".into());
        }
        Ok(Value::Int(low + s.random_below(high.abs_diff(low)) as i64, IntType::Int))
    }),
    takes("shuffle", &[Text], |s, a| {
        let mut chars: Vec<char> = text(&a[0]).chars().collect();
        for index in (1..chars.len()).rev() {
            let other = s.random_below(index as u64 + 1) as usize;
            chars.swap(index, other);
        }
        Ok(chars.into_iter().collect::<String>().into())
    }),
    takes("uuidv4", &[], |s, _| {
        let mut bytes = bytes(s, 16)?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let text = hex::encode(bytes);
        let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
        Ok(parts.join("-").into())
    }),
];

fn bytes(scope: &mut Scope<'_>, count: i64) -> Result<Vec<u8>, String> {
    let count = usize::try_from(count).map_err(|_| "makeslice: len out of range")?;
    scope.charge(count * 2)?;
    Ok((0..count).map(|_| scope.random() as u8).collect())
}

fn pick(scope: &mut Scope<'_>, count: i64, of: &[u8]) -> Result<Value, String> {
    // goutils gives an error for a negative count, and sprig drops it.
    let count = usize::try_from(count).unwrap_or(0);
    scope.charge(count)?;
    let text: String = (0..count).map(|_| of[scope.random_below(of.len() as u64) as usize] as char).collect();
    Ok(text.into())
}
