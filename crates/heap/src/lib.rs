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
