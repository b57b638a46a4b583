//! Queues in memory, between parts of one process. A publisher waits until every consumer has acknowledged, so
//! nothing that only memory holds is ever called safe.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, OwnedMutexGuard, oneshot};

use crate::{ATTEMPTS_MAX, BusError, Message};

#[derive(Clone)]
pub struct InProcess {
    queues: Arc<HashMap<String, Arc<Queue>>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<Waiting>>,
    more: Notify,
    /// One message at a time is under way, whoever consumes: that keeps the order.
    turn: Arc<tokio::sync::Mutex<()>>,
    set_aside: Mutex<u32>,
}

struct Waiting {
    message: Message,
    attempt: u32,
    done: oneshot::Sender<()>,
}

impl InProcess {
    pub(crate) fn new(queues: &[&str]) -> Self {
        let queues = queues.iter().map(|&name| (name.to_owned(), Arc::default())).collect();
        Self { queues: Arc::new(queues) }
    }

    pub(crate) async fn publish(&self, messages: &[Message]) -> Result<(), BusError> {
        let mut outstanding = Vec::new();
        for message in messages {
            for queue in self.queues.values() {
                let (done, finished) = oneshot::channel();
                let waiting = Waiting { message: message.clone(), attempt: 1, done };
                queue.waiting.lock().expect("not poisoned").push_back(waiting);
                queue.more.notify_one();
                outstanding.push(finished);
            }
        }
        for finished in outstanding {
            finished.await.map_err(|_| BusError::Closed)?;
        }
        Ok(())
    }

    pub(crate) fn consume(&self, queue: &str) -> Consumer {
        Consumer { queue: self.queues.get(queue).cloned().unwrap_or_default() }
    }

    pub(crate) fn set_aside(&self, queue: &str) -> u32 {
        self.queues.get(queue).map_or(0, |queue| *queue.set_aside.lock().expect("not poisoned"))
    }
}

pub struct Consumer {
    queue: Arc<Queue>,
}

impl Consumer {
    pub(crate) async fn next(&mut self) -> Delivery {
        let turn = self.queue.turn.clone().lock_owned().await;
        loop {
            // Registered before the look, so that nothing falls between the two.
            let more = self.queue.more.notified();
            let found = self.queue.waiting.lock().expect("not poisoned").pop_front();
            match found {
                Some(waiting) => {
                    return Delivery { queue: self.queue.clone(), waiting: Some(waiting), _turn: turn };
                }
                None => more.await,
            }
        }
    }
}

pub(crate) struct Delivery {
    queue: Arc<Queue>,
    waiting: Option<Waiting>,
    _turn: OwnedMutexGuard<()>,
}

impl Delivery {
    fn waiting(&self) -> &Waiting {
        self.waiting.as_ref().expect("there until it is answered")
    }

    pub(crate) fn message(&self) -> &Message {
        &self.waiting().message
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.waiting().attempt
    }

    pub(crate) fn ack(mut self) {
        if let Some(waiting) = self.waiting.take() {
            let _ = waiting.done.send(());
        }
    }

    pub(crate) fn retry(mut self) {
        self.again();
    }

    fn again(&mut self) {
        let Some(mut waiting) = self.waiting.take() else { return };
        if waiting.attempt >= ATTEMPTS_MAX {
            tracing::error!(message = waiting.message.id, "Gave up on a message that failed too often.");
            *self.queue.set_aside.lock().expect("not poisoned") += 1;
            let _ = waiting.done.send(());
            return;
        }
        waiting.attempt += 1;
        self.queue.waiting.lock().expect("not poisoned").push_front(waiting);
        self.queue.more.notify_one();
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.again();
    }
}
