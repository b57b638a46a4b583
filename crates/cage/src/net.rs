//! Networks for caged programs: none, the machine's, or one in which nothing but one listener of ours can be reached.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};

use crate::level::Level;

#[derive(Clone, Debug)]
pub enum Network {
    /// No interface, and no way to make a socket.
    None,
    /// The machine's own, loopback included.
    Host,
    /// Nothing but the listener that came with it.
    Private(Arc<Private>),
}

/// The way to one listener.
#[derive(Debug)]
pub struct Private {
    /// The namespace that holds it; without one, Landlock lets through its port alone.
    pub(crate) namespace: Option<OwnedFd>,
    pub(crate) port: u16,
}

/// A listener on loopback that only programs caged with the second value can reach.
pub fn private_listener() -> io::Result<(TcpListener, Network)> {
    if crate::level()? == Level::Namespaces {
        let (listener, namespace) = in_new_namespace(|| {
            raise_loopback()?;
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        })?;
        let port = listener.local_addr()?.port();
        return Ok((listener, Network::Private(Arc::new(Private { namespace: Some(namespace), port }))));
    }
    if crate::landlock::version() < 4 {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a program cannot be given one port alone here; run as root, or on Linux 6.7 or newer",
        ));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    Ok((listener, Network::Private(Arc::new(Private { namespace: None, port }))))
}

/// A namespace without any interface that is up, made once: entering it costs a tenth of making one.
pub(crate) fn empty() -> io::Result<RawFd> {
    static EMPTY: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(known) = EMPTY.get() {
        return Ok(known.as_raw_fd());
    }
    let ((), made) = in_new_namespace(|| Ok(()))?;
    Ok(EMPTY.get_or_init(|| made).as_raw_fd())
}

/// On a thread of its own, which ends: sockets stay in the namespace that they were made in.
fn in_new_namespace<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<(T, OwnedFd)> {
    std::thread::scope(|scope| {
        let body = || {
            // SAFETY: it changes this thread alone, and the thread ends below.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let namespace = std::fs::File::open("/proc/thread-self/ns/net")?;
            Ok((work()?, OwnedFd::from(namespace)))
        };
        scope.spawn(body).join().unwrap_or_else(|_| Err(io::Error::other("the thread ended early")))
    })
}

fn raise_loopback() -> io::Result<()> {
    // SAFETY: the structure is zeroed, on this stack, and holds the name with its zero byte.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
