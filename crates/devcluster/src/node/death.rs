//! The end of a container, heard from the kernel.
//!
//! In: the process of a running container. Out: a nudge when it has ended. The engine's event stream tells the same, but it
//! loses events under load and while it is started again; then an end was seen by the next look, a minute later.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The engine writes an exit code down a little after the process has gone.
const LOOKS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// Nudges when the process has ended, also when it already has. Nothing where the kernel does not say (an engine on
/// another machine): there the events have to do.
#[expect(
    deprecated,
    reason = "the descriptor is owned by what waits for it, and nobody else has it; the other way is unsafe"
)]
pub(super) fn watch(pid: i64, notify: Arc<Notify>) -> Option<JoinHandle<()>> {
    let pid = Pid::from_raw(i32::try_from(pid).ok().filter(|pid| *pid > 0)?)?;
    let ended = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(process) => Some(AsyncFd::with_interest(process, Interest::READABLE).ok()?),
        Err(rustix::io::Errno::SRCH) => None,
        Err(_) => return None,
    };
    Some(tokio::spawn(async move {
        if let Some(process) = ended
            && process.readable().await.is_err()
        {
            return;
        }
        for pause in LOOKS {
            tokio::time::sleep(pause).await;
            notify.notify_one();
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_is_heard_also_when_it_was_before() {
        let mut child = tokio::process::Command::new("sleep").arg("0.2").spawn().unwrap();
        let pid = i64::from(child.id().unwrap());
        for _ in 0..2 {
            let notify = Arc::new(Notify::new());
            let watching = watch(pid, notify.clone()).unwrap();
            tokio::time::timeout(Duration::from_secs(10), notify.notified()).await.unwrap();
            watching.abort();
            child.wait().await.unwrap();
        }
        assert!(watch(0, Arc::default()).is_none());
    }
}
