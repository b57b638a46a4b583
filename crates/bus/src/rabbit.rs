//! RabbitMQ: quorum queues, publisher confirms, one active consumer a queue, as many messages under way as it asked for.
//!
//! Every connection declares the topology anew, so a broker that comes back empty is put in order, and a queue
//! that is not durable is found whenever it appears. The connection is supervised here, with growing pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions,
    BasicQosOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ErrorKind, ExchangeKind};
use slipway_model::Backoff;

use crate::address::Address;
use crate::{ATTEMPTS_MAX, BusError, Message};

const EXCHANGE: &str = "slipway";
const DEAD_EXCHANGE: &str = "slipway.dead";
const EVERYTHING: &str = "#";
const PERSISTENT: u8 = 2;
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A broker that restarts is back before this.
const LONG: Duration = Duration::from_secs(60);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Confirms are awaited together for so many messages.
const CONFIRM_TOGETHER: usize = 200;

#[derive(Clone)]
pub struct Rabbit {
    inner: Arc<Inner>,
}

struct Inner {
    url: String,
    queues: Vec<Wanted>,
    link: tokio::sync::Mutex<Option<Link>>,
    up: AtomicBool,
}

struct Wanted {
    name: String,
    topics: Vec<String>,
}

struct Link {
    connection: Connection,
    publisher: Channel,
}

fn queue_name(queue: &str) -> String {
    format!("slipway.{queue}")
}

fn dead_name(queue: &str) -> String {
    format!("slipway.{queue}.dead")
}

fn short(text: &str) -> ShortString {
    text.into()
}

fn failure(error: &lapin::Error) -> BusError {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) if refusal.get_id() != 320 => {
            BusError::Refused { why: refusal.to_string() }
        }
        _ => BusError::Unavailable { why: error.to_string() },
    }
}

async fn in_time<T>(work: impl Future<Output = lapin::Result<T>>) -> Result<T, BusError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, work).await {
        Ok(done) => done.map_err(|error| failure(&error)),
        Err(_) => Err(BusError::Unavailable { why: "no answer in time".into() }),
    }
}

impl Rabbit {
    pub(crate) async fn connect(address: &Address, queues: &[crate::Queue<'_>]) -> Result<Self, BusError> {
        let wanted = |queue: &crate::Queue<'_>| Wanted {
            name: queue.name.to_owned(),
            topics: queue.topics.iter().map(|&topic| topic.to_owned()).collect(),
        };
        let inner = Inner {
            url: address.url.clone(),
            queues: queues.iter().map(wanted).collect(),
            link: tokio::sync::Mutex::new(None),
            up: AtomicBool::new(false),
        };
        let bus = Self { inner: Arc::new(inner) };
        bus.channel().await?;
        Ok(bus)
    }

    /// A channel of a connection that works now.
    async fn channel(&self) -> Result<Channel, BusError> {
        let mut link = self.inner.link.lock().await;
        self.ensure(&mut link).await?;
        let made = in_time(link.as_ref().expect("just made").connection.create_channel()).await;
        if made.is_err() {
            *link = None;
        }
        made
    }

    async fn ensure(&self, link: &mut Option<Link>) -> Result<(), BusError> {
        let ensured = self.linked(link).await;
        self.inner.up.store(ensured.is_ok(), Ordering::Relaxed);
        ensured
    }

    pub(crate) fn is_up(&self) -> bool {
        self.inner.up.load(Ordering::Relaxed)
    }

    async fn linked(&self, link: &mut Option<Link>) -> Result<(), BusError> {
        if link
            .as_ref()
            .is_some_and(|link| link.connection.status().connected() && link.publisher.status().connected())
        {
            return Ok(());
        }
        *link = None;
        let properties = ConnectionProperties::default().with_connection_name("slipway".into());
        let connection = in_time(Connection::connect(&self.inner.url, properties)).await?;
        let publisher = in_time(connection.create_channel()).await?;
        in_time(publisher.confirm_select(ConfirmSelectOptions::default())).await?;
        for (exchange, kind) in [(EXCHANGE, ExchangeKind::Topic), (DEAD_EXCHANGE, ExchangeKind::Direct)] {
            let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            in_time(publisher.exchange_declare(short(exchange), kind, options, FieldTable::default()))
                .await?;
        }
        for queue in &self.inner.queues {
            declare(&publisher, queue).await?;
        }
        *link = Some(Link { connection, publisher });
        Ok(())
    }

    pub(crate) async fn publish(&self, messages: &[Message]) -> Result<(), BusError> {
        let mut link = self.inner.link.lock().await;
        self.ensure(&mut link).await?;
        let channel = link.as_ref().expect("just made").publisher.clone();
        // What nobody consumes is not sent: the broker would give it back, as if something were wrong with a queue.
        let consumed =
            |message: &&Message| self.inner.queues.iter().any(|queue| queue.topics.contains(&message.topic));
        let messages: Vec<_> = messages.iter().filter(consumed).collect();
        let published = publish(&channel, &messages).await;
        if published.is_err() {
            self.inner.up.store(false, Ordering::Relaxed);
            // Which of them arrived is not known; the next attempt starts clean.
            *link = None;
        }
        published
    }

    pub(crate) fn consume(&self, queue: &str, most: u16) -> Consumer {
        Consumer {
            bus: self.clone(),
            queue: queue.to_owned(),
            most,
            open: None,
            given: Vec::new(),
            away_since: None,
            told: None,
        }
    }

    /// One after the other: each is in its queue, confirmed, before it leaves the other one.
    pub(crate) async fn play_again(&self, queue: &str) -> Result<u32, BusError> {
        let channel = self.channel().await?;
        in_time(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        let mut moved = 0;
        loop {
            let got =
                in_time(channel.basic_get(short(&dead_name(queue)), BasicGetOptions::default())).await?;
            let Some(message) = got else { return Ok(moved) };
            // Its headers say how often it failed, and would have it set aside at once.
            let mut properties = BasicProperties::default()
                .with_delivery_mode(PERSISTENT)
                .with_content_type(short("application/json"));
            if let Some(id) = message.properties.message_id() {
                properties = properties.with_message_id(id.clone());
            }
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            // The nameless exchange gives it to this queue alone.
            let sent = channel.basic_publish(
                short(""),
                short(&queue_name(queue)),
                options,
                &message.data,
                properties,
            );
            let confirmation = in_time(in_time(sent).await?).await?;
            if !confirmation.is_ack() || confirmation.take_message().is_some() {
                return Err(BusError::Unavailable { why: "the broker did not take a message".into() });
            }
            in_time(message.ack(BasicAckOptions::default())).await?;
            moved += 1;
        }
    }

    pub(crate) async fn set_aside(&self, queue: &str) -> Result<u32, BusError> {
        let channel = self.channel().await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found =
            in_time(channel.queue_declare(short(&dead_name(queue)), options, FieldTable::default())).await?;
        Ok(found.message_count())
    }
}

async fn publish(channel: &Channel, messages: &[&Message]) -> Result<(), BusError> {
    for together in messages.chunks(CONFIRM_TOGETHER) {
        let mut confirms = Vec::with_capacity(together.len());
        for message in together {
            let properties = BasicProperties::default()
                .with_delivery_mode(PERSISTENT)
                .with_message_id(short(&message.id))
                .with_content_type(short("application/json"));
            // Mandatory: a message that no queue takes is an error, not a loss.
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let sent = channel.basic_publish(
                short(EXCHANGE),
                short(&message.topic),
                options,
                message.body.as_bytes(),
                properties,
            );
            confirms.push(in_time(sent).await?);
        }
        for confirm in confirms {
            let confirmation = in_time(confirm).await?;
            let safe = confirmation.is_ack();
            if !safe || confirmation.take_message().is_some() {
                return Err(BusError::Unavailable { why: "the broker did not take a message".into() });
            }
        }
    }
    Ok(())
}

/// A queue of another kind with this name is refused by the broker, and so by us.
async fn declare(channel: &Channel, wanted: &Wanted) -> Result<(), BusError> {
    let queue = wanted.name.as_str();
    let text = |text: &str| AMQPValue::LongString(LongString::from(text));
    let mut arguments = FieldTable::default();
    arguments.insert(short("x-queue-type"), text("quorum"));
    arguments.insert(short("x-single-active-consumer"), AMQPValue::Boolean(true));
    // Counted by the broker, so that also a message which kills its consumer is set aside in the end.
    let limit = i32::try_from(ATTEMPTS_MAX - 1).expect("a small number");
    arguments.insert(short("x-delivery-limit"), AMQPValue::LongInt(limit));
    arguments.insert(short("x-dead-letter-exchange"), text(DEAD_EXCHANGE));
    arguments.insert(short("x-dead-letter-routing-key"), text(queue));
    let mut dead = FieldTable::default();
    dead.insert(short("x-queue-type"), text("quorum"));
    let topics: Vec<_> = wanted.topics.iter().map(String::as_str).collect();
    for (name, exchange, keys, arguments) in [
        (dead_name(queue), DEAD_EXCHANGE, &[queue][..], dead),
        (queue_name(queue), EXCHANGE, &topics, arguments),
    ] {
        let made =
            in_time(channel.queue_declare(short(&name), QueueDeclareOptions::durable(), arguments)).await;
        made.map_err(|error| match error {
            BusError::Refused { why } => BusError::Unsafe { queue: name.clone(), why },
            other => other,
        })?;
        for key in keys {
            let options = QueueBindOptions::default();
            let bound =
                channel.queue_bind(short(&name), short(exchange), short(key), options, FieldTable::default());
            in_time(bound).await?;
        }
    }
    // An older version had every message sent to every queue. There is no harm in unbinding what is not bound.
    let name = queue_name(queue);
    let unbound =
        channel.queue_unbind(short(&name), short(EXCHANGE), short(EVERYTHING), FieldTable::default());
    in_time(unbound).await
}

pub struct Consumer {
    bus: Rabbit,
    queue: String,
    most: u16,
    open: Option<(Channel, lapin::Consumer)>,
    /// What was given out, and whether it was answered. What was dropped is given back before more is asked for.
    given: Vec<(lapin::Acker, Arc<AtomicBool>)>,
    /// Since when nothing can be consumed, and when that was last said.
    away_since: Option<Instant>,
    told: Option<Instant>,
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Consumer {
    pub(crate) async fn next(&mut self) -> Result<Vec<Delivery>, BusError> {
        let mut backoff = Backoff::new(PAUSE, PAUSE_MAX);
        loop {
            match self.try_next().await {
                Ok(deliveries) => return Ok(deliveries),
                Err(error @ (BusError::Unsafe { .. } | BusError::Closed)) => return Err(error),
                Err(error) => {
                    self.let_go();
                    // Waiting for a message is not waiting for the broker.
                    let since = *self.away_since.get_or_insert_with(Instant::now);
                    let told = self.told.is_some_and(|told| told.elapsed() < LONG);
                    if since.elapsed() > LONG && !told {
                        self.told = Some(Instant::now());
                        tracing::error!(%error, queue = self.queue, "Cannot consume messages; retrying.");
                    } else {
                        tracing::debug!(%error, queue = self.queue, "The broker is unreachable; reconnecting.");
                    }
                    tokio::time::sleep(backoff.failed()).await;
                }
            }
        }
    }

    /// What was delivered and not answered goes back to the queue.
    fn let_go(&mut self) {
        let Some((channel, _)) = self.open.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { in_time(channel.close(200, "done".into())).await });
        }
    }

    async fn try_next(&mut self) -> Result<Vec<Delivery>, BusError> {
        for (acker, answered) in std::mem::take(&mut self.given) {
            if !answered.load(Ordering::Acquire) && self.open.is_some() {
                // On the channel that it came by: closing the channel instead would let the next message overtake it.
                let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
                in_time(acker.nack(options)).await?;
            }
        }
        if self.open.is_none() {
            let channel = self.bus.channel().await?;
            in_time(channel.basic_qos(self.most, BasicQosOptions::default())).await?;
            let consuming = channel.basic_consume(
                short(&queue_name(&self.queue)),
                short(""),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            );
            let consumer = in_time(consuming).await?;
            self.open = Some((channel, consumer));
            (self.away_since, self.told) = (None, None);
        }
        let (_, consumer) = self.open.as_mut().expect("just opened");
        let first = consumer.next().await;
        let mut deliveries = vec![self.given_out(first)?];
        while deliveries.len() < usize::from(self.most) {
            let (_, consumer) = self.open.as_mut().expect("just opened");
            let Some(next) = consumer.next().now_or_never() else { break };
            deliveries.push(self.given_out(next)?);
        }
        Ok(deliveries)
    }

    fn given_out(
        &mut self,
        next: Option<lapin::Result<lapin::message::Delivery>>,
    ) -> Result<Delivery, BusError> {
        let delivery = next
            .ok_or_else(|| BusError::Unavailable { why: "the broker ended the subscription".into() })?
            .map_err(|error| failure(&error))?;
        let answered = Arc::new(AtomicBool::new(false));
        self.given.push((delivery.acker.clone(), answered.clone()));
        Ok(Delivery::read(delivery, answered))
    }
}

pub(crate) struct Delivery {
    message: Message,
    attempt: u32,
    delivery: lapin::message::Delivery,
    answered: Arc<AtomicBool>,
}

impl Delivery {
    fn read(delivery: lapin::message::Delivery, answered: Arc<AtomicBool>) -> Self {
        let headers = delivery.properties.headers().as_ref();
        let returned = headers.and_then(|headers| headers.inner().get("x-delivery-count")).and_then(
            |count| match count {
                AMQPValue::LongLongInt(count) => u32::try_from(*count).ok(),
                AMQPValue::LongInt(count) => u32::try_from(*count).ok(),
                AMQPValue::ShortInt(count) => u32::try_from(*count).ok(),
                AMQPValue::ShortShortInt(count) => u32::try_from(*count).ok(),
                AMQPValue::LongUInt(count) => Some(*count),
                _ => None,
            },
        );
        let message = Message {
            id: delivery.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default(),
            topic: delivery.routing_key.to_string(),
            body: String::from_utf8_lossy(&delivery.data).into_owned(),
        };
        Self { message, attempt: returned.unwrap_or(0) + 1, delivery, answered }
    }

    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(crate) async fn ack(self) -> Result<(), BusError> {
        in_time(self.delivery.ack(BasicAckOptions::default())).await?;
        self.answered.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) async fn retry(self) -> Result<(), BusError> {
        let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        in_time(self.delivery.nack(options)).await?;
        self.answered.store(true, Ordering::Release);
        Ok(())
    }
}
