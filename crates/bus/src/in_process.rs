//! Queues in memory, between parts of one process. A publisher waits until every consumer has acknowledged, so
//! nothing that only memory holds is ever called safe.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, OwnedMutexGuard, oneshot};

use crate::{ATTEMPTS_MAX, BusError, Message};

#[derive(Clone)]
pub struct InProcess {
    queues: Arc<HashMap<String, Arc<Queue>>>,
    last: Arc<AtomicU64>,
}

#[derive(Default)]
struct Queue {
    topics: Vec<String>,
    waiting: Mutex<VecDeque<Waiting>>,
    more: Notify,
    /// What one consumer was given is answered before another is given anything: that keeps the order.
    turn: Arc<tokio::sync::Mutex<()>>,
    set_aside: Mutex<u32>,
}

struct Waiting {
    message: Message,
    /// In the order of publishing.
    number: u64,
    attempt: u32,
    done: oneshot::Sender<()>,
}

impl InProcess {
    pub(crate) fn new(queues: &[crate::Queue<'_>]) -> Self {
        let queues = queues.iter().map(|queue| {
            let topics = queue.topics.iter().map(|&topic| topic.to_owned()).collect();
            (queue.name.to_owned(), Arc::new(Queue { topics, ..Queue::default() }))
        });
        Self { queues: Arc::new(queues.collect()), last: Arc::default() }
    }

    pub(crate) async fn publish(&self, messages: &[Message]) -> Result<(), BusError> {
        let mut outstanding = Vec::new();
        for message in messages {
            let number = self.last.fetch_add(1, Ordering::Relaxed);
            for queue in self.queues.values().filter(|queue| queue.topics.contains(&message.topic)) {
                let (done, finished) = oneshot::channel();
                let waiting = Waiting { message: message.clone(), number, attempt: 1, done };
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

    pub(crate) fn consume(&self, queue: &str, most: u16) -> Consumer {
        Consumer { queue: self.queues.get(queue).cloned().unwrap_or_default(), most: most.into() }
    }

    pub(crate) fn set_aside(&self, queue: &str) -> u32 {
        self.queues.get(queue).map_or(0, |queue| *queue.set_aside.lock().expect("not poisoned"))
    }
}

pub struct Consumer {
    queue: Arc<Queue>,
    most: usize,
}

impl Consumer {
    pub(crate) async fn next(&mut self) -> Vec<Delivery> {
        let turn = Arc::new(self.queue.turn.clone().lock_owned().await);
        loop {
            // Registered before the look, so that nothing falls between the two.
            let more = self.queue.more.notified();
            let found: Vec<_> = {
                let mut waiting = self.queue.waiting.lock().expect("not poisoned");
                let most = self.most.min(waiting.len());
                waiting.drain(..most).collect()
            };
            if !found.is_empty() {
                let deliver =
                    |one| Delivery { queue: self.queue.clone(), waiting: Some(one), _turn: turn.clone() };
                return found.into_iter().map(deliver).collect();
            }
            more.await;
        }
    }
}

pub(crate) struct Delivery {
    queue: Arc<Queue>,
    waiting: Option<Waiting>,
    _turn: Arc<OwnedMutexGuard<()>>,
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
        let mut all = self.queue.waiting.lock().expect("not poisoned");
        let place = all.partition_point(|other| other.number < waiting.number);
        all.insert(place, waiting);
        drop(all);
        self.queue.more.notify_one();
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.again();
    }
}
