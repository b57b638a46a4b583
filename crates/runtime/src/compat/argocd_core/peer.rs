//! Who is at the other end of a connection on loopback.
//!
//! The CLI sends nothing that says who it is. Its port-forward ends in a connection that the kubelet makes, as root, or
//! the embedded cluster, as us. So nobody else is answered: not another person of this machine, and not a tool of ours,
//! which has a user of its own. The kernel's table of connections says whose a socket is.

use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;

/// Nobody that this user namespace knows: root of the machine, seen from inside of one.
const UNKNOWN: u32 = 65_534;
const ESTABLISHED: &str = "01";

/// Whether the other end belongs to root or to us. Where that cannot be told, it does not.
pub(super) async fn is_trusted(stream: &TcpStream) -> bool {
    let (Ok(here), Ok(there)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    let mut table = String::new();
    for file in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        table.push_str(&tokio::fs::read_to_string(file).await.unwrap_or_default());
    }
    let own = std::fs::metadata("/proc/self/task").map(|found| std::os::unix::fs::MetadataExt::uid(&found));
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let trusts = |owner: u32| {
        owner == 0 || own.as_ref().is_ok_and(|own| *own == owner) || (owner == UNKNOWN && is_inner(&map))
    };
    owner(&table, there, here).is_some_and(trusts)
}

/// A user namespace that does not hold everybody.
fn is_inner(map: &str) -> bool {
    let words: Vec<&str> = map.split_whitespace().collect();
    words != ["0", "0", "4294967295"]
}

/// Whose the socket from `from` to `to` is. One that is not open any more has no owner, though the table names root.
fn owner(table: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (from, to) = (written(from), written(to));
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let fits = words.get(1) == Some(&from.as_str())
            && words.get(2) == Some(&to.as_str())
            && words.get(3) == Some(&ESTABLISHED)
            && words.get(9).is_some_and(|inode| *inode != "0");
        words.get(7).filter(|_| fits)?.parse().ok()
    })
}

/// As the kernel writes it: words of the address in the machine's order, then the port.
fn written(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = bytes.chunks(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    let words: String = words.map(|word| format!("{word:08X}")).collect();
    format!("{words}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1F91 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 x\n   \
                     1: 0100007F:1F92 0100007F:0050 06 00000000:00000000 00:00000000 00000000     0        0 0 1 x\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(owner(table, at(0x1f91), at(80)), Some(1000));
        assert_eq!(owner(table, at(0x1f92), at(80)), None, "a connection that is over");
        assert_eq!(owner(table, at(0x1f93), at(80)), None);
        assert!(!is_inner("         0          0 4294967295\n") && is_inner("0 100000 65536"));
    }

    #[tokio::test]
    async fn others_of_this_machine_are_strangers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let ours = TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
        let (accepted, _) = listener.accept().await.expect("accepted");
        assert!(is_trusted(&accepted).await, "this process itself");
        drop(ours);

        let mut stranger = Command::new("setpriv")
            .args(["--reuid=61998", "--regid=61998", "--clear-groups", "bash", "-c"])
            .arg(format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3"))
            .stdout(Stdio::null())
            .spawn()
            .expect("setpriv is installed");
        let (accepted, _) = listener.accept().await.expect("accepted");
        assert!(!is_trusted(&accepted).await, "somebody else");
        drop(accepted);
        stranger.wait().expect("it ends");
    }
}
