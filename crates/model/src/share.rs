//! Objects dealt out in parts, so that several processes can each look after some of them.

use sha2::{Digest, Sha256};

/// Objects are dealt out in so many parts. Everybody must know the same number: another one means other parts, so it never
/// changes.
pub const SHARES: u16 = 64;

/// The part that an object belongs to, whatever its kind.
pub fn share_of(namespace: &str, name: &str) -> u16 {
    let mut hash = Sha256::new();
    for part in [namespace, name] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let hash = hash.finalize();
    u16::from_be_bytes([hash[0], hash[1]]) % SHARES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_same_everywhere_and_all_have_some() {
        // Written down, because processes of several versions share one cluster.
        assert_eq!([share_of("argocd", "shop"), share_of("argocds", "hop")], [37, 5]);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..2_000 {
            seen.insert(share_of("argocd", &format!("app-{number}")));
        }
        assert_eq!(seen.len(), usize::from(SHARES));
    }
}
