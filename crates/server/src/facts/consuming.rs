//! The frame of a consumer of the bus: what came is followed up together, and each message has its effect once.
//!
//! What follows from messages is found out by reading, outside of the one writer's transaction; most messages have no effect
//! and cost no write. The others share a transaction with their inbox notes. If that fails, each is tried for itself, so that
//! one that cannot be handled holds up none of its neighbours. The bus hears of a message after the commit. What has to wait
//! for somebody else is kept by [`crate::facts::later`].

use std::time::Duration;

use slipway_bus::{ATTEMPTS_MAX, Delivery, Message, Queue};
use slipway_model::Next;
use slipway_store::{Ask, Store, StoreError, Tx, inbox};

use crate::background::driver::{Outcome, Round};
use crate::background::status;
use crate::ctx::Server;
use crate::facts::later::{self, Trouble};
use crate::facts::relay;

const PAUSE: Duration = Duration::from_millis(200);
/// So many messages share a transaction: others wait for the writer meanwhile.
const TOGETHER: u16 = 64;

/// A consumer: what it hears of, and what it does then.
pub(crate) trait Consumer {
    const QUEUE: Queue<'static>;

    /// What follows from a message.
    type Work: Send + 'static;

    /// Finds out what follows from each of these facts, in their order. `None`: nothing.
    fn prepare(
        server: &Server,
        facts: Vec<slipway_store::facts::Recorded>,
    ) -> impl Future<Output = Vec<Result<Option<Self::Work>, Trouble>>> + Send;

    /// What doing it asks first: asked for all messages at once.
    fn asks(_work: &Self::Work) -> Vec<Ask> {
        Vec::new()
    }

    /// Does it, in a transaction that others may share.
    fn carry_out(server: &Server, tx: &mut Tx<'_>, work: &Self::Work) -> Result<(), StoreError>;

    /// With the rights that it needs for that.
    fn store(server: &Server) -> Store;
}

/// Until shutdown.
pub(crate) async fn run<C: Consumer>(server: &Server) -> Outcome {
    let mut consumer = server.inner.bus.consume_together(C::QUEUE.name, TOGETHER);
    let shutdown = server.inner.shutdown.clone();
    loop {
        let batch = tokio::select! {
            () = shutdown.cancelled() => return Ok(Round::Done),
            batch = consumer.next_batch() => batch,
        };
        match batch {
            // What is given up here by shutdown comes again.
            Ok(batch) => tokio::select! {
                () = shutdown.cancelled() => return Ok(Round::Done),
                () = follow_up::<C>(server, batch) => {}
            },
            Err(error) => {
                tracing::error!(%error, queue = C::QUEUE.name, "Facts are not followed up: the bus cannot be used.");
                tokio::time::sleep(PAUSE * 10).await;
            }
        }
    }
}

async fn follow_up<C: Consumer>(server: &Server, batch: Vec<Delivery>) {
    let (fresh, mut tried): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|delivery| delivery.attempt() == 1);
    let mut alone = together::<C>(server, fresh).await;
    // From both ends in turn: one that stops the whole process does not take those before or behind it with it.
    if tried.first().is_some_and(|delivery| delivery.attempt() % 2 == 1) {
        tried.reverse();
    }
    alone.append(&mut tried);
    for delivery in alone {
        follow_up_one::<C>(server, delivery).await;
    }
}

/// Gives back those that have to be tried one by one.
async fn together<C: Consumer>(server: &Server, batch: Vec<Delivery>) -> Vec<Delivery> {
    if batch.len() < 2 {
        return batch;
    }
    let (mut alone, mut readable, mut facts) = (Vec::new(), Vec::new(), Vec::new());
    for delivery in batch {
        match relay::read(delivery.message()) {
            Ok(fact) => {
                facts.push(fact);
                readable.push(delivery);
            }
            Err(_) => alone.push(delivery),
        }
    }
    let (mut works, mut deliveries) = (Vec::new(), Vec::new());
    for (delivery, found) in readable.into_iter().zip(C::prepare(server, facts).await) {
        match found {
            Ok(None) => ack(delivery).await,
            Ok(Some(work)) => {
                works.push((delivery.message().id.clone(), work));
                deliveries.push(delivery);
            }
            // Who is away is not asked a second time.
            Err(trouble @ Trouble::Away { .. }) => {
                match later::keep(server, C::QUEUE.name, delivery.message(), &trouble, false).await {
                    Ok(()) => ack(delivery).await,
                    Err(_) => alone.push(delivery),
                }
            }
            Err(Trouble::Store(_)) => alone.push(delivery),
        }
    }
    match write::<C>(server, works).await {
        Ok(()) => {
            status::ran(server, C::QUEUE.name, Ok::<_, StoreError>(()));
            for delivery in deliveries {
                ack(delivery).await;
            }
        }
        Err(_) => alone.append(&mut deliveries),
    }
    alone
}

/// The inbox and what follows from the messages are one transaction.
async fn write<C: Consumer>(server: &Server, works: Vec<(String, C::Work)>) -> Result<(), StoreError> {
    if works.is_empty() {
        return Ok(());
    }
    let inner = server.clone();
    let noted = works.iter().map(|(id, _)| inbox::asks_known(C::QUEUE.name, id));
    let asked = noted.chain(works.iter().flat_map(|(_, work)| C::asks(work))).collect();
    C::store(server)
        .write_asking(asked, move |tx| {
            let ids: Vec<_> = works.iter().map(|(id, _)| id.as_str()).collect();
            let mut known = inbox::known(tx, C::QUEUE.name, &ids)?;
            for (id, work) in &works {
                if known.insert(id.clone()) {
                    inbox::note(tx, C::QUEUE.name, id, inner.now_ms())?;
                    C::carry_out(&inner, tx, work)?;
                }
            }
            Ok(())
        })
        .await
}

/// Follows up one message by itself.
pub(crate) async fn take<C: Consumer>(server: &Server, message: &Message) -> Result<(), Trouble> {
    let fact = relay::read(message)?;
    let mut found = C::prepare(server, vec![fact]).await;
    match found.pop().transpose()?.flatten() {
        Some(work) => Ok(write::<C>(server, vec![(message.id.clone(), work)]).await?),
        None => Ok(()),
    }
}

async fn follow_up_one<C: Consumer>(server: &Server, delivery: Delivery) {
    let name = C::QUEUE.name;
    // The database may be away: that is not this message's fault, and does not count against it.
    let outcome = loop {
        let outcome = match take::<C>(server, delivery.message()).await {
            // It is tried again later, and holds nobody up.
            Err(trouble @ Trouble::Away { .. }) => {
                later::keep(server, name, delivery.message(), &trouble, false).await
            }
            Err(Trouble::Store(error))
                if !matches!(error.next(), Next::Retry) && delivery.attempt() >= ATTEMPTS_MAX =>
            {
                later::keep(server, name, delivery.message(), &error.into(), true).await
            }
            Err(Trouble::Store(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        match outcome {
            Err(error) if matches!(error.next(), Next::Retry) => {
                status::ran(server, name, Err::<(), _>(error));
                tokio::time::sleep(PAUSE).await;
            }
            other => break other,
        }
    };
    let failed = outcome.is_err();
    status::ran(server, name, outcome);
    if !failed {
        return ack(delivery).await;
    }
    tokio::time::sleep(PAUSE).await;
    unheard(delivery.retry().await);
}

async fn ack(delivery: Delivery) {
    unheard(delivery.ack().await);
}

fn unheard(answered: Result<(), slipway_bus::BusError>) {
    if let Err(error) = answered {
        tracing::debug!(%error, "Cannot acknowledge a message; the bus will deliver it again.");
    }
}
