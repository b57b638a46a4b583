//! What other processes committed, heard by `LISTEN`.
//!
//! A notification is sent inside the committing transaction, so it comes after what it speaks of can be read.
//! While the connection is down nothing is heard; after it is back, everybody is told that something may have
//! been missed and looks again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use slipway_model::ChangeKind;
use tokio::sync::broadcast;

use super::{Address, failure};
use crate::StoreError;
use crate::engine::{Committed, Touched};

pub(super) const CHANNEL: &str = "slipway_commits";
/// PostgreSQL takes less than 8000 bytes.
const ANNOUNCEMENT_MAX: usize = 7_500;
const LOOK_UP: Duration = Duration::from_millis(250);
const RECONNECT_EVERY: Duration = Duration::from_millis(200);

/// `None` when nobody has to hear. One that is too long says that anything may have changed.
pub(super) fn announcement(committed: &Committed, quiet_logs: bool) -> Option<String> {
    let mut committed = committed.clone();
    if quiet_logs {
        committed.changes.retain(|change| change.kind != ChangeKind::Log);
    }
    if !committed.is_news() {
        return None;
    }
    let text = serde_json::to_string(&committed).expect("an announcement is JSON");
    if text.len() <= ANNOUNCEMENT_MAX {
        return Some(text);
    }
    // In whose account is said for as long as it fits: most of those who wait are in others.
    let roughly = committed.touched.clone().map(|touched| Touched { arrived: Vec::new(), ..touched });
    for touched in [committed.touched, roughly, None] {
        let shorter = Committed { facts: committed.facts, missed: true, touched, ..Committed::default() };
        let text = serde_json::to_string(&shorter).expect("an announcement is JSON");
        if text.len() <= ANNOUNCEMENT_MAX {
            return Some(text);
        }
    }
    None
}

pub(crate) struct Listener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn start(
        address: Address,
        own: Arc<AtomicI32>,
        heard: broadcast::Sender<Committed>,
    ) -> Result<Self, StoreError> {
        let client = listening(&address)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::Builder::new()
            .name("store-listener".into())
            .spawn(move || listen(&address, client, &own, &heard, &stopping))
            .expect("a thread can be started");
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn missed() -> Committed {
    Committed { facts: true, missed: true, elsewhere: true, ..Committed::default() }
}

fn listening(address: &Address) -> Result<Client, StoreError> {
    let mut client = address.connect()?;
    client.batch_execute(&format!("LISTEN {CHANNEL}")).map_err(|error| failure(&error))?;
    Ok(client)
}

fn listen(
    address: &Address,
    mut client: Client,
    own: &AtomicI32,
    heard: &broadcast::Sender<Committed>,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        if follow(&mut client, own, heard, stop).is_ok() {
            return;
        }
        tracing::warn!("Lost the connection that listens for commits of other processes; reconnecting.");
        loop {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(RECONNECT_EVERY);
            if let Ok(again) = listening(address) {
                client = again;
                break;
            }
        }
        let _ = heard.send(missed());
    }
}

fn follow(
    client: &mut Client,
    own: &AtomicI32,
    heard: &broadcast::Sender<Committed>,
    stop: &AtomicBool,
) -> Result<(), postgres::Error> {
    while !stop.load(Ordering::Relaxed) {
        {
            let mut notifications = client.notifications();
            let mut news = notifications.timeout_iter(LOOK_UP);
            while let Some(notification) = news.next()? {
                // Our own commits were announced when they were answered.
                if notification.process_id() == own.load(Ordering::Relaxed) {
                    continue;
                }
                let told = serde_json::from_str(notification.payload()).unwrap_or_else(|_| missed());
                let _ = heard.send(Committed { elsewhere: true, ..told });
            }
        }
        // The iterator ends alike on silence and when the server has gone.
        if client.is_closed() {
            client.batch_execute("SELECT 1")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use slipway_model::Change;

    use super::*;

    #[test]
    fn an_announcement_fits_or_says_that_anything_may_have_changed() {
        assert_eq!(announcement(&Committed::default(), false), None);
        let one = slipway_model::AccountId::from_parts(1, [0; 5]);
        let account = Some(one);
        let change = |index: usize| Change { account, kind: ChangeKind::Build, id: format!("{index:024x}") };
        let few = Committed { changes: vec![change(1)], ..Committed::default() };
        assert_eq!(serde_json::from_str::<Committed>(&announcement(&few, true).unwrap()).unwrap(), few);
        let touched = Some(Touched { queues: vec![one], ..Touched::default() });
        let many = Committed { changes: (0..500).map(change).collect(), touched, ..Committed::default() };
        let text = announcement(&many, false).unwrap();
        assert!(text.len() < ANNOUNCEMENT_MAX);
        let heard = serde_json::from_str::<Committed>(&text).unwrap();
        let other = slipway_model::AccountId::from_parts(2, [0; 5]);
        assert!(heard.missed && heard.moved_queue(one) && !heard.moved_queue(other));
        let arrived = (0..500).map(|index| slipway_model::PipelineId::from_parts(index, [0; 5])).collect();
        let touched =
            Some(Touched { queues: vec![one], arrived: vec![(one, arrived)], ..Touched::default() });
        let crowded = Committed { touched, ..Committed::default() };
        let heard: Committed = serde_json::from_str(&announcement(&crowded, false).unwrap()).unwrap();
        assert!(heard.moved_queue(one) && heard.only_arrived(one).is_none() && !heard.moved_queue(other));
        let accounts = (0..500).map(|index| slipway_model::AccountId::from_parts(index, [0; 5]));
        let touched = Some(Touched { queues: accounts.collect(), ..Touched::default() });
        let everywhere = Committed { touched, ..Committed::default() };
        let text = announcement(&everywhere, false).unwrap();
        assert!(serde_json::from_str::<Committed>(&text).unwrap().moved_queue(other), "whoever waits looks");
        let log = Change { account, kind: ChangeKind::Log, id: "1".into() };
        let grown = Committed { changes: vec![log], ..Committed::default() };
        assert!(announcement(&grown, false).is_some() && announcement(&grown, true).is_none());
    }
}
