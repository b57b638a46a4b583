//! The system calls that ordinary programs make: files, memory, processes, time, and sockets that they already have.
//!
//! Not here, on purpose: mounts, namespaces, other processes' memory, keys, modules, clocks, BPF, io_uring (it makes
//! calls that no filter sees), file handles, device nodes, memory files (a way around `noexec`).

macro_rules! numbers {
    ($($name:ident)*) => { vec![$(libc::$name as u32),*] };
}

pub(crate) fn ordinary() -> Vec<u32> {
    let mut calls = numbers!(
        // Files.
        SYS_read SYS_write SYS_close SYS_fstat SYS_lseek SYS_pread64 SYS_pwrite64 SYS_readv SYS_writev SYS_preadv
        SYS_pwritev SYS_preadv2 SYS_pwritev2 SYS_sendfile SYS_splice SYS_tee SYS_copy_file_range SYS_fcntl SYS_flock
        SYS_fsync SYS_fdatasync SYS_sync_file_range SYS_truncate SYS_ftruncate SYS_fallocate SYS_fadvise64
        SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir SYS_mkdirat SYS_unlinkat SYS_renameat SYS_renameat2
        SYS_linkat SYS_symlinkat SYS_readlinkat SYS_faccessat SYS_faccessat2 SYS_newfstatat SYS_statx SYS_statfs
        SYS_fstatfs SYS_fchown SYS_fchownat SYS_umask SYS_utimensat SYS_dup SYS_dup3 SYS_pipe2 SYS_close_range
        SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_inotify_init1
        SYS_inotify_add_watch SYS_inotify_rm_watch
        // Waiting.
        SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2
        SYS_signalfd4 SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime
        // Memory.
        SYS_mmap SYS_mprotect SYS_munmap SYS_mremap SYS_madvise SYS_brk SYS_msync SYS_mincore SYS_mlock SYS_munlock
        SYS_membarrier SYS_get_mempolicy SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect
        // Processes and threads.
        SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid SYS_kill SYS_tkill SYS_tgkill
        SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigtimedwait
        SYS_rt_sigsuspend SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_sigaltstack SYS_restart_syscall SYS_futex
        SYS_set_robust_list SYS_get_robust_list SYS_set_tid_address SYS_rseq SYS_sched_yield SYS_sched_getaffinity
        SYS_sched_setaffinity SYS_sched_getparam SYS_sched_getscheduler SYS_sched_get_priority_max
        SYS_sched_get_priority_min SYS_getpriority SYS_setpriority SYS_getpid SYS_getppid SYS_gettid SYS_getpgid
        SYS_setpgid SYS_getsid SYS_setsid SYS_getrlimit SYS_setrlimit SYS_prlimit64 SYS_getrusage SYS_times
        SYS_uname SYS_sysinfo SYS_prctl SYS_capget SYS_capset SYS_getrandom SYS_getcpu SYS_pidfd_open
        SYS_pidfd_send_signal
        // Who one is; without capabilities these change nothing.
        SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getgroups SYS_getresuid SYS_getresgid SYS_setuid SYS_setgid
        SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setgroups SYS_setfsuid SYS_setfsgid
        // Time.
        SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday SYS_getitimer
        SYS_setitimer SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete
        // Sockets that are there; `socket` itself is judged by its arguments.
        SYS_socketpair SYS_bind SYS_connect SYS_listen SYS_accept SYS_accept4 SYS_getsockname SYS_getpeername
        SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_sendmmsg SYS_recvmmsg SYS_setsockopt SYS_getsockopt
        SYS_shutdown
    );
    #[cfg(target_arch = "x86_64")]
    calls.extend(numbers!(
        SYS_stat SYS_lstat SYS_poll SYS_access SYS_pipe SYS_select SYS_dup2 SYS_pause SYS_alarm SYS_fork SYS_vfork
        SYS_getdents SYS_rename SYS_mkdir SYS_rmdir SYS_link SYS_unlink SYS_symlink SYS_readlink SYS_chown
        SYS_lchown SYS_getpgrp SYS_utime SYS_utimes SYS_futimesat SYS_arch_prctl SYS_time SYS_epoll_create
        SYS_epoll_wait SYS_inotify_init SYS_signalfd SYS_eventfd
    ));
    calls
}
