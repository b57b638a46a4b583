//! How the system's allocator keeps memory. In: nothing. Out: a setting of this process. Knows nothing of Slipway.

/// One heap for two cores.
///
/// The GNU allocator gives threads heaps of their own, up to eight for each core, and memory that a thread gave back
/// stays with its heap. Few of our threads are busy at once: shared heaps take a fifth off the platform at rest.
/// To be called before the first thread starts.
pub fn share_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let heaps = i32::try_from(cores.div_ceil(2)).unwrap_or(i32::MAX);
        // Safe: it takes two numbers, and no other thread is there to allocate meanwhile.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, heaps);
        }
    }
}

/// Gives back what only the start of a program needed: memory that is free, and the pages of its code.
///
/// Code is read from the file again where it is used again, from the system's cache as a rule. Until then it counts for
/// nobody: neither as resident memory nor, where a container's memory is limited, as pages in use. Gives how many bytes of
/// code the process was told to do without.
pub fn settle() -> usize {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // Safe: it takes a number, and frees only what is free.
        unsafe {
            libc::malloc_trim(0);
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let program = std::env::current_exe().unwrap_or_default();
        code_of(&maps, &program.to_string_lossy()).into_iter().map(forget).sum()
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    0
}

/// Where a program's code is mapped. What can be written, or could when it was loaded, has contents of its own and is none
/// of it: forgetting that would be losing it.
#[cfg(any(test, all(target_os = "linux", target_env = "gnu")))]
fn code_of(maps: &str, program: &str) -> Vec<std::ops::Range<usize>> {
    maps.lines()
        .filter_map(|line| {
            let (place, rest) = line.split_once(' ')?;
            let rest = rest.strip_prefix("r-xp ")?;
            let path = rest.find('/').map(|at| &rest[at..])?;
            let (from, to) = place.split_once('-')?;
            let range = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
            (path == program).then_some(range)
        })
        .collect()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn forget(range: std::ops::Range<usize>) -> usize {
    let place = std::ptr::with_exposed_provenance_mut(range.start);
    // Cold first: what is merely dropped is taken for used by the system, and kept for that.
    // Safe: nobody can write to these pages, so that what is read next is what was there, whoever runs in them meanwhile.
    let told = [libc::MADV_COLD, libc::MADV_DONTNEED]
        .map(|advice| unsafe { libc::madvise(place, range.len(), advice) == 0 });
    if told[1] { range.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_itself_is_forgotten() {
        let maps = "\
55d0c0000000-55d0c0400000 r--p 00000000 08:01 1 /usr/bin/slipway
55d0c0400000-55d0c0900000 r-xp 00400000 08:01 1 /usr/bin/slipway
55d0c0900000-55d0c0a00000 r--p 00900000 08:01 1 /usr/bin/slipway
55d0c0a00000-55d0c0b00000 rw-p 00a00000 08:01 1 /usr/bin/slipway
7f0000000000-7f0000100000 r-xp 00000000 08:01 2 /usr/lib/libc.so.6
7f0000200000-7f0000300000 r-xp 00000000 00:00 0
7ffe00000000-7ffe00002000 r-xp 00000000 00:00 0 [vdso]
";
        let code = |maps, program| -> Vec<_> {
            code_of(maps, program).into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(code(maps, "/usr/bin/slipway"), [(0x55d0_c040_0000, 0x55d0_c090_0000)]);
        assert_eq!(code(maps, "/usr/bin/other"), []);
        assert_eq!(code("nonsense\n", "/usr/bin/slipway"), []);
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn a_program_goes_on_without_the_pages_of_its_code() {
        let resident = || {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let program = std::env::current_exe().unwrap();
            let program = program.to_str().unwrap();
            let (mut ours, mut sum) = (false, 0);
            for line in maps.lines() {
                if line.contains('-') && line.contains(" r") {
                    ours = line.contains(" r-xp ") && line.ends_with(program);
                } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| ours) {
                    sum += size.trim().trim_end_matches(" kB").parse::<usize>().unwrap();
                }
            }
            sum
        };
        let before = resident();
        let forgotten = settle();
        let after = resident();
        assert!(forgotten / 1024 >= before && before > 0, "{forgotten} bytes of {before} kB");
        assert!(after < before, "{before} kB before, {after} after");
        // Everything that runs from here on is read again.
        assert_eq!((1..=10).map(|number| number * number).sum::<u32>(), 385);
    }
}
