//! Which version a pod template is: its hash, bit by bit as upstream computes it, and whether two templates mean the same.
//!
//! In: a template or steps as JSON. Out: the text that a program in Go would print of its typed form ([`print`]), the hash of it,
//! and equality by meaning ([`is_same`]). The hash is part of names and labels that live in clusters: another one would make pods of
//! every Rollout that is taken over start anew. Knows no ReplicaSet.

mod printed;
mod quantity;
mod same;

use serde_json::Value;

pub use printed::{pod_template as printed_template, steps as printed_steps};
pub use same::is_same;

/// Of letters and digits that spell nothing.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

fn fnv32a(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(2_166_136_261, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619))
}

fn safe(number: u32) -> String {
    let digits = number.to_string();
    digits.bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// The hash of a pod template. `collisions`: how often another template had the same one.
pub fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let printed = printed::pod_template(template);
    let count = u32::try_from(collisions.unwrap_or(0)).unwrap_or(0).to_le_bytes();
    let tail: Vec<u8> = if collisions.is_some() { [count, [0; 4]].concat() } else { Vec::new() };
    safe(fnv32a(&[printed.as_bytes(), &tail]))
}

/// The hash of a canary's steps: with other steps an update begins again.
pub fn steps_hash(steps: &Value) -> String {
    safe(fnv32a(&[printed::steps(steps).as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_for_digits() {
        assert_eq!(fnv32a(&[b""]), 2_166_136_261);
        assert_eq!(fnv32a(&[b"a"]), 0xe40c_292c);
        assert_eq!(safe(0), "4");
    }
}
