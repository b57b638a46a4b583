//! What a program gives up before it does anything for a step: capabilities, new rights, and the system calls with which
//! either could be won back or the machine be looked into.
//!
//! A list of what is refused, not of what is allowed: steps of the host executor run whatever their authors like. It
//! stands behind the namespaces and the user, not instead of them.

use std::collections::BTreeMap;
use std::io;

use nix::libc;
use rustix::thread::CapabilitySet;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// A namespace of one's own comes with rights in it.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// Words typed into a terminal that somebody else reads.
const TERMINAL: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// Mounts, other processes, the kernel's keys, programs, modules, clocks and devices.
const REFUSED: [libc::c_long; 47] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// For this process and all that it starts. Capabilities that are held now stay until somebody else is become: nothing
/// that is started gets them.
pub(super) fn renounce() -> io::Result<()> {
    for number in 0..64 {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(
            1 << number,
        )) {
            Ok(()) => {}
            // The kernel has no more; or they were not ours to begin with.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    nix::sys::prctl::set_no_new_privs()?;
    refuse(&calls()?, libc::EPERM)?;
    // Its flags are in memory, where no filter looks: libraries fall back to `clone`.
    refuse(&every(&[libc::SYS_clone3]), libc::ENOSYS)
}

/// Of a process that stays who it is.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn refuse(rules: &Rules, errno: libc::c_int) -> io::Result<()> {
    let architecture = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let errno = SeccompAction::Errno(u32::try_from(errno).unwrap_or(1));
    let filter = SeccompFilter::new(rules.clone(), SeccompAction::Allow, errno, architecture);
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

fn calls() -> io::Result<Rules> {
    let mut rules = every(&REFUSED);
    let flags = NAMESPACES.map(|flag| u64::try_from(flag).unwrap_or(0));
    let mask = |flag: u64| SeccompCmpOp::MaskedEq(flag);
    for call in both(libc::SYS_unshare).into_iter().chain(both(libc::SYS_clone)) {
        rules.insert(call, conditions(0, SeccompCmpArgLen::Qword, &flags, mask)?);
    }
    for call in both(libc::SYS_ioctl) {
        rules.insert(call, conditions(1, SeccompCmpArgLen::Dword, &TERMINAL, |_| SeccompCmpOp::Eq)?);
    }
    Ok(rules)
}

/// One rule a value: any of them is enough.
fn conditions(
    argument: u8,
    length: SeccompCmpArgLen,
    values: &[u64],
    how: impl Fn(u64) -> SeccompCmpOp,
) -> io::Result<Vec<SeccompRule>> {
    let rule = |value: &u64| {
        SeccompCondition::new(argument, length.clone(), how(*value), *value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(io::Error::other)
    };
    values.iter().map(rule).collect()
}

fn every(calls: &[libc::c_long]) -> Rules {
    calls.iter().flat_map(|call| both(*call)).map(|call| (call, Vec::new())).collect()
}

/// On x86-64 the same call has a second number, of programs with short pointers.
fn both(call: libc::c_long) -> Vec<i64> {
    const SHORT_POINTERS: i64 = 0x4000_0000;
    if cfg!(target_arch = "x86_64") { vec![call, call | SHORT_POINTERS] } else { vec![call] }
}
