//! What tests of several rooms share: real servers, started by the test itself on loopback with a data folder
//! and a port of their own, and a real Kubernetes that they share.
//!
//! A server that cannot be started is a failed test, not a skipped one: `scripts/setup.sh test` installs them.
//! `kube` knows `scripts/kube.sh` and `kubectl`, and nothing of Slipway.

use std::path::PathBuf;

mod folder;
pub mod gitea;
pub mod inside;
mod kube;
pub mod postgres;
pub mod power;
pub mod rabbitmq;
mod reads;
pub mod redis;
mod registry;

pub use kube::{Fault, Kube, Namespace, OwnKube, TEST_IMAGE, executor, tool};
pub use registry::{REGISTRY_PASSWORD, REGISTRY_USER, Registry};

/// How long a test waits for what must happen on a busy machine. Only one that fails waits that long; how quick
/// something has to be is said, where it is promised, by a limit of its own.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);

/// A script of this clone. Found from where the test runs: a compiled-in path may be that of another clone, because
/// clones share what is compiled.
fn script(name: &str) -> PathBuf {
    let here = std::env::current_dir().expect("a test runs in its package's folder");
    here.ancestors()
        .map(|folder| folder.join("scripts").join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("there is no scripts/{name} above {}", here.display()))
}

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener.local_addr().expect("a bound socket has an address").port()
}
