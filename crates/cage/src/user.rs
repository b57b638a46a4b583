//! Numbers of users that own nothing: each caged program gets one of its own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Above the numbers that people, services and container engines are given.
const FIRST: u32 = 1_900_000_000;
const COUNT: u32 = 1 << 16;

struct Range {
    first: u32,
    count: u32,
}

/// Inside of a user namespace fewer numbers exist; the highest of them are the least used.
fn range() -> &'static Range {
    static RANGE: OnceLock<Range> = OnceLock::new();
    RANGE.get_or_init(|| {
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let spans: Vec<(u32, u32)> = map
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
                Some((words.next()?, words.nth(1)?))
            })
            .collect();
        let covers = |first: u32, count: u32| {
            spans.iter().any(|(start, length)| {
                *start <= first
                    && u64::from(first) + u64::from(count) <= u64::from(*start) + u64::from(*length)
            })
        };
        if covers(FIRST, COUNT) {
            return Range { first: FIRST, count: COUNT };
        }
        // 65534 is nobody, and systemd gives out numbers up to 65519.
        let (start, length) = spans.iter().copied().max_by_key(|(_, length)| *length).unwrap_or((0, 65_536));
        let end = start.saturating_add(length).min(start.saturating_add(61_000));
        let count = (end - start).min(4096);
        Range { first: end - count, count }
    })
}

/// Capabilities without which another user is more trouble than use: to change to it, to give it files and have them
/// back, to end its programs. A pod may run as root and have none of them.
const NEEDED: [u32; 7] = [0, 1, 3, 5, 6, 7, 8];

/// Whether this process is root with the rights of it.
pub(crate) fn can_change() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        const VERSION_3: u32 = 0x2008_0522;
        let header = [VERSION_3, 0];
        let mut sets = [0u32; 6];
        // SAFETY: both are on this stack and as long as this version has them.
        let known = unsafe { libc::syscall(libc::SYS_capget, &header, &mut sets) == 0 };
        // SAFETY: always succeeds.
        let root = unsafe { libc::geteuid() == 0 };
        known && root && NEEDED.iter().all(|number| sets[0] & (1 << number) != 0)
    })
}

/// A number that no other program of this process has now; other processes start elsewhere in the range.
pub(crate) fn next() -> u32 {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        let mut bytes = [0; 4];
        // Without randomness all begin at the start, which only means that two processes may share a number.
        let _ = getrandom::fill(&mut bytes);
        AtomicU32::new(u32::from_ne_bytes(bytes))
    });
    let range = range();
    range.first + next.fetch_add(1, Ordering::Relaxed) % range.count
}

/// The same number for the same seed: for folders that outlive a program.
pub fn user_for(seed: &[u8]) -> u32 {
    // FNV-1a; it spreads, and nothing depends on it being hard to guess.
    let hash = seed.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let range = range();
    range.first + (hash % u64::from(range.count)) as u32
}
