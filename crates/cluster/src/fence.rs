//! Writes under a condition: whoever works on behalf of a lease wraps the work, and every write inside of it asks first.
//!
//! In: a question that is cheap to ask. Out: writes that are refused once the answer was no. What the lease is, and
//! who else wants it, is not known here. Reads are never refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// True while writes may go out.
pub type Gate = Arc<dyn Fn() -> bool + Send + Sync>;

tokio::task_local! {
    static GATE: Gate;
}

/// Runs the future; its writes to any cluster go out while the gate says yes, and never again after the first no:
/// what was planned under a lost lease is not finished under a new one.
pub async fn fenced<F: Future>(gate: Gate, future: F) -> F::Output {
    let closed = AtomicBool::new(false);
    let latch: Gate = Arc::new(move || {
        if !gate() {
            closed.store(true, Ordering::Relaxed);
        }
        !closed.load(Ordering::Relaxed)
    });
    GATE.scope(latch, future).await
}

/// Called before each write of a connection with what is written: tests kill their process here.
#[derive(Clone)]
pub struct BeforeWrite(pub Arc<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for BeforeWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BeforeWrite")
    }
}

/// Work that is not fenced may always write.
pub(crate) fn may_write() -> bool {
    GATE.try_with(|gate| gate()).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_gate_that_closed_stays_closed() {
        assert!(may_write());
        let open = Arc::new(AtomicBool::new(true));
        let asked = open.clone();
        fenced(Arc::new(move || asked.load(Ordering::Relaxed)), async {
            assert!(may_write());
            open.store(false, Ordering::Relaxed);
            assert!(!may_write());
            open.store(true, Ordering::Relaxed);
            assert!(!may_write(), "the lease came back, but not for this work");
        })
        .await;
        assert!(may_write());
    }
}
