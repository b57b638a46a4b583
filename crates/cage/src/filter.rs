//! Which system calls a caged program may make: a list of what ordinary programs need, everything else is answered as
//! if the kernel did not have it. In: which sockets are wanted. Out: a BPF program for the kernel.

use std::io;

use crate::calls;

/// Which sockets a program may make. Pairs of connected sockets are always possible: they reach nobody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    None,
    /// TCP alone.
    Tcp,
    /// TCP and UDP, and the kernel's table of routes, which name resolution asks for.
    Internet,
}

/// A filter that can be installed without allocating.
pub(crate) struct Filter {
    program: Vec<libc::sock_filter>,
}

/// The old way to whole frames.
const SOCK_PACKET: u32 = 10;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;

const fn refuse(errno: i32) -> u32 {
    0x0005_0000 | errno as u32
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// New namespaces are new rights; `clone3` hides its flags in memory and is not on the list, so that libraries fall
/// back to `clone`.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32;

const SET_ID_BITS: u32 = libc::S_ISUID | libc::S_ISGID;
const CREATES: u32 = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;

impl Filter {
    /// For a program that ends with us, whatever it likes.
    pub(crate) fn for_child(sockets: Sockets) -> Self {
        Self::build(sockets, true)
    }

    fn new(sockets: Sockets) -> Self {
        Self::build(sockets, false)
    }

    fn build(sockets: Sockets, child: bool) -> Self {
        let mut program = Program(Vec::with_capacity(400));
        program.load(4);
        program.unless_equal_return(ARCHITECTURE, KILL);
        program.load(0);
        program.special(libc::SYS_clone, |block| {
            block.argument(0);
            block.if_any_bit_return(NEW_NAMESPACES, refuse(libc::EPERM));
        });
        program.special(libc::SYS_ioctl, |block| {
            // Words typed into a terminal that somebody else reads.
            block.argument(1);
            block.if_equal_return(libc::TIOCSTI as u32, refuse(libc::EPERM));
            block.if_equal_return(libc::TIOCLINUX as u32, refuse(libc::EPERM));
        });
        if child {
            program.special(libc::SYS_prctl, |block| {
                block.argument(0);
                block.if_equal_return(libc::PR_SET_PDEATHSIG as u32, refuse(libc::EPERM));
            });
        }
        program.special(libc::SYS_socket, |block| sockets.check(block));
        // A program that runs as the owner of files must leave none that others could run as that owner.
        #[cfg(target_arch = "x86_64")]
        for (call, flags, mode) in
            [(libc::SYS_open, Some(1), 2), (libc::SYS_creat, None, 1), (libc::SYS_chmod, None, 1)]
        {
            program.special(call, |block| block.no_set_id(flags, mode));
        }
        for (call, flags, mode) in
            [(libc::SYS_openat, Some(2), 3), (libc::SYS_fchmod, None, 1), (libc::SYS_fchmodat, None, 2)]
        {
            program.special(call, |block| block.no_set_id(flags, mode));
        }
        for (first, last) in ranges(calls::ordinary()) {
            program.allow_range(first, last);
        }
        program.give(refuse(libc::ENOSYS));
        Self { program: program.0 }
    }

    /// For the calling thread and all programs it becomes; allocates nothing. Errors carry the system's number.
    pub(crate) fn install(&self, flags: libc::c_ulong) -> Result<(), i32> {
        let program =
            libc::sock_fprog { len: self.program.len() as u16, filter: self.program.as_ptr().cast_mut() };
        // SAFETY: numbers, and a pointer to a program that outlives the call; the kernel copies it.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &program) == 0
        };
        if done { Ok(()) } else { Err(crate::step::errno()) }
    }
}

/// Puts every thread of this process under the filter, for good.
pub fn confine_this_process(sockets: Sockets) -> io::Result<()> {
    Filter::new(sockets).install(libc::SECCOMP_FILTER_FLAG_TSYNC).map_err(io::Error::from_raw_os_error)
}

impl Sockets {
    fn check(self, block: &mut Program) {
        let unsupported = refuse(libc::EAFNOSUPPORT);
        match self {
            Self::None => block.give(unsupported),
            Self::Tcp => {
                block.argument(1);
                block.keep_bits(0xf);
                block.unless_equal_return(libc::SOCK_STREAM as u32, unsupported);
                block.argument(0);
                block.if_equal_return(libc::AF_INET as u32, ALLOW);
                block.if_equal_return(libc::AF_INET6 as u32, ALLOW);
                block.give(unsupported);
            }
            Self::Internet => {
                block.argument(1);
                block.keep_bits(0xf);
                block.if_equal_return(SOCK_PACKET, unsupported);
                block.argument(0);
                block.if_equal_return(libc::AF_INET as u32, ALLOW);
                block.if_equal_return(libc::AF_INET6 as u32, ALLOW);
                block.unless_equal_return(libc::AF_NETLINK as u32, unsupported);
                block.argument(2);
                block.unless_equal_return(libc::NETLINK_ROUTE as u32, unsupported);
            }
        }
    }
}

/// Instructions in order; jumps only go over the next one or over one block.
struct Program(Vec<libc::sock_filter>);

impl Program {
    fn push(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        self.0.push(libc::sock_filter { code: code as u16, jt, jf, k });
    }

    /// A word of `seccomp_data`.
    fn load(&mut self, offset: u32) {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    }

    /// The low half of an argument; flags, modes and families have no more.
    fn argument(&mut self, index: u32) {
        self.load(16 + 8 * index + if cfg!(target_endian = "big") { 4 } else { 0 });
    }

    fn keep_bits(&mut self, mask: u32) {
        self.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, mask);
    }

    fn give(&mut self, verdict: u32) {
        self.push(libc::BPF_RET | libc::BPF_K, 0, 0, verdict);
    }

    fn if_equal_return(&mut self, value: u32, verdict: u32) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, value);
        self.give(verdict);
    }

    fn unless_equal_return(&mut self, value: u32, verdict: u32) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, value);
        self.give(verdict);
    }

    fn if_any_bit_return(&mut self, bits: u32, verdict: u32) {
        self.push(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits);
        self.give(verdict);
    }

    /// Files with set-id bits are not made; `flags`: the argument that says whether a file is made at all.
    fn no_set_id(&mut self, flags: Option<u32>, mode: u32) {
        if let Some(flags) = flags {
            self.argument(flags);
            self.push(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 1, 0, CREATES);
            self.give(ALLOW);
        }
        self.argument(mode);
        self.if_any_bit_return(SET_ID_BITS, refuse(libc::EPERM));
    }

    /// A call that is judged by its arguments; what the block does not answer is allowed.
    fn special(&mut self, call: libc::c_long, block: impl FnOnce(&mut Self)) {
        let mut inner = Self(Vec::new());
        block(&mut inner);
        inner.give(ALLOW);
        let over = u8::try_from(inner.0.len()).expect("a block is short");
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, over, call as u32);
        self.0.extend(inner.0);
    }

    /// Ranges come in rising order, so a number below this one is in none.
    fn allow_range(&mut self, first: u32, last: u32) {
        self.push(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, 0, first);
        self.give(refuse(libc::ENOSYS));
        self.push(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 1, 0, last);
        self.give(ALLOW);
    }
}

/// Sorted numbers as ranges without holes.
fn ranges(mut numbers: Vec<u32>) -> Vec<(u32, u32)> {
    numbers.sort_unstable();
    numbers.dedup();
    let mut out: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match out.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => out.push((number, number)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_range() {
        assert_eq!(ranges(vec![5, 1, 2, 3, 5, 9]), [(1, 3), (5, 5), (9, 9)]);
    }

    #[test]
    fn every_jump_lands_inside_the_program() {
        for sockets in [Sockets::None, Sockets::Tcp, Sockets::Internet] {
            let program = Filter::for_child(sockets).program;
            for (at, instruction) in program.iter().enumerate() {
                let furthest = usize::from(instruction.jt.max(instruction.jf));
                assert!(at + furthest + 1 < program.len() || instruction.code & 7 == libc::BPF_RET as u16);
            }
        }
    }

    #[test]
    fn calls_that_change_the_machine_are_not_on_the_list() {
        let listed = calls::ordinary();
        for call in [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_open_by_handle_at,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_clone3,
            libc::SYS_pidfd_getfd,
            libc::SYS_mknodat,
            libc::SYS_fsopen,
            libc::SYS_move_mount,
            libc::SYS_open_tree,
            libc::SYS_syslog,
            libc::SYS_settimeofday,
            libc::SYS_clock_settime,
            libc::SYS_sethostname,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_quotactl,
            libc::SYS_acct,
            libc::SYS_kcmp,
            libc::SYS_openat2,
            libc::SYS_memfd_create,
            libc::SYS_personality,
            libc::SYS_fchmodat2,
        ] {
            assert!(!listed.contains(&(call as u32)), "{call}");
        }
    }
}
