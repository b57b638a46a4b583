//! Messages between the parts of the control plane: durable ones ([`Bus`]) and live ones ([`Live`]).
//!
//! Durable: [`Bus::publish`] returns when every queue holds the messages safely; a consumer gets each at least
//! once, in the order of publishing (RabbitMQ may swap two when one consumer takes over from another), and
//! acknowledges after its own commit. Its inbox (room `store`) makes the
//! effect happen once. In-process, "safely" means that every consumer has acknowledged: the outbox, whose cursor
//! moves only then, is what survives a crash. With RabbitMQ it means quorum queues and publisher confirms.
//!
//! Live: whoever listens now hears it, others never do, and a gap is told. Nothing durable may rest on it.
//!
//! Held: which process holds which name at this moment ([`Holders`]); it is forgotten when a process falls silent.
//!
//! It knows no SQL, no HTTP, and not what a message means.

mod address;
mod holders;
mod in_process;
mod live;
mod rabbit;

pub use address::{BadBusUrl, BusUrl, LiveUrl};
pub use holders::{Holder, Holders, SILENCE};
pub use live::{Heard, Live};

use slipway_model::Next;

/// After so many failures a message is set aside, so that those behind it flow.
pub const ATTEMPTS_MAX: u32 = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The same message again has the same id: what inboxes go by.
    pub id: String,
    /// What it is about, as `facts.pushed`.
    pub topic: String,
    pub body: String,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum BusError {
    #[error("the message broker does not answer ({why}): it is tried again")]
    Unavailable { why: String },
    #[error(
        "the queue `{queue}` of the message broker is not what an acknowledged message needs ({why}): remove it, \
         and slipway declares it as a durable quorum queue"
    )]
    Unsafe { queue: String, why: String },
    #[error("the message broker refused this: {why}")]
    Refused { why: String },
    #[error("the cache does not answer ({why})")]
    CacheAway { why: String },
    #[error("the bus is shutting down")]
    Closed,
}

impl BusError {
    pub fn next(&self) -> Next {
        match self {
            Self::Unavailable { .. } | Self::CacheAway { .. } | Self::Closed => Next::Retry,
            Self::Unsafe { .. } | Self::Refused { .. } => Next::NeedsHuman,
        }
    }
}

/// A consumer's queue and what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue<'q> {
    pub name: &'q str,
    /// It gets messages of these topics and no others.
    pub topics: &'q [&'q str],
}

/// Cheap to clone.
#[derive(Clone)]
pub enum Bus {
    InProcess(in_process::InProcess),
    Rabbit(rabbit::Rabbit),
}

impl Bus {
    pub fn in_process(queues: &[Queue<'_>]) -> Self {
        Self::InProcess(in_process::InProcess::new(queues))
    }

    /// Unsafe queues that are there already are refused; those that are bound to more than they ask for are put in order.
    pub async fn connect(url: &BusUrl, queues: &[Queue<'_>]) -> Result<Self, BusError> {
        Ok(match url {
            BusUrl::InProcess => Self::in_process(queues),
            BusUrl::Rabbit(address) => Self::Rabbit(rabbit::Rabbit::connect(address, queues).await?),
        })
    }

    /// Returns when all are safe that anybody consumes. After an error any of them may be: publish the same ones again.
    pub async fn publish(&self, messages: &[Message]) -> Result<(), BusError> {
        match self {
            Self::InProcess(bus) => bus.publish(messages).await,
            Self::Rabbit(bus) => bus.publish(messages).await,
        }
    }

    /// Of all consumers of one queue in the platform, one is given messages at a time.
    pub fn consume(&self, queue: &str) -> Consumer {
        self.consume_together(queue, 1)
    }

    /// The same, and it is given up to `most` of them at once.
    pub fn consume_together(&self, queue: &str, most: u16) -> Consumer {
        match self {
            Self::InProcess(bus) => Consumer::InProcess(bus.consume(queue, most)),
            Self::Rabbit(bus) => Consumer::Rabbit(Box::new(bus.consume(queue, most))),
        }
    }

    /// Whether the broker answered when it was last asked for something.
    pub fn is_up(&self) -> bool {
        match self {
            Self::InProcess(_) => true,
            Self::Rabbit(bus) => bus.is_up(),
        }
    }

    /// Gives what was set aside in this queue to its consumer again; says how many.
    pub async fn play_again(&self, queue: &str) -> Result<u32, BusError> {
        match self {
            // What is set aside here is gone from memory; the server keeps it in the database.
            Self::InProcess(_) => Ok(0),
            Self::Rabbit(bus) => bus.play_again(queue).await,
        }
    }

    /// How many messages were set aside in this queue.
    pub async fn set_aside(&self, queue: &str) -> Result<u32, BusError> {
        match self {
            Self::InProcess(bus) => Ok(bus.set_aside(queue)),
            Self::Rabbit(bus) => bus.set_aside(queue).await,
        }
    }
}

pub enum Consumer {
    InProcess(in_process::Consumer),
    Rabbit(Box<rabbit::Consumer>),
}

impl Consumer {
    /// Waits for the next message and takes those with it that are there, in their order, as many as the consumer asked
    /// for; never none. What was given out before and not answered comes again. Comes back by itself after the broker was
    /// away.
    pub async fn next_batch(&mut self) -> Result<Vec<Delivery>, BusError> {
        Ok(match self {
            Self::InProcess(consumer) => {
                consumer.next().await.into_iter().map(|one| Delivery(Kind::InProcess(one))).collect()
            }
            Self::Rabbit(consumer) => {
                consumer.next().await?.into_iter().map(|one| Delivery(Kind::Rabbit(Box::new(one)))).collect()
            }
        })
    }

    /// For a consumer that takes one at a time.
    pub async fn next(&mut self) -> Result<Delivery, BusError> {
        self.next_batch().await?.pop().ok_or(BusError::Closed)
    }
}

/// One message under way. Dropped without a word, it comes again.
pub struct Delivery(Kind);

enum Kind {
    InProcess(in_process::Delivery),
    Rabbit(Box<rabbit::Delivery>),
}

impl Delivery {
    pub fn message(&self) -> &Message {
        match &self.0 {
            Kind::InProcess(delivery) => delivery.message(),
            Kind::Rabbit(delivery) => delivery.message(),
        }
    }

    /// 1 the first time.
    pub fn attempt(&self) -> u32 {
        match &self.0 {
            Kind::InProcess(delivery) => delivery.attempt(),
            Kind::Rabbit(delivery) => delivery.attempt(),
        }
    }

    /// Its effect is on disk. Should this fail, it comes again, and the inbox knows it.
    pub async fn ack(self) -> Result<(), BusError> {
        match self.0 {
            Kind::InProcess(delivery) => {
                delivery.ack();
                Ok(())
            }
            Kind::Rabbit(delivery) => delivery.ack().await,
        }
    }

    /// It could not be handled: it comes again before all others that were not given out yet, [`ATTEMPTS_MAX`] times, and is
    /// then set aside.
    pub async fn retry(self) -> Result<(), BusError> {
        match self.0 {
            Kind::InProcess(delivery) => {
                delivery.retry();
                Ok(())
            }
            Kind::Rabbit(delivery) => delivery.retry().await,
        }
    }
}
