use std::time::Duration;

use slipway_bus::{ATTEMPTS_MAX, Bus, BusUrl, Consumer, Delivery, Message, Queue};
use slipway_testkit::rabbitmq;

#[derive(Clone, Copy)]
enum On {
    InProcess,
    Rabbit,
}

macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod in_process {
            $(#[tokio::test(flavor = "multi_thread")] async fn $test() { super::$test(super::On::InProcess).await })*
        }
        mod on_rabbitmq {
            $(#[tokio::test(flavor = "multi_thread")] async fn $test() { super::$test(super::On::Rabbit).await })*
        }
    };
}

on_both!(
    every_queue_gets_every_message_of_its_topics_in_order,
    several_are_given_out_at_once_and_each_is_answered_for_itself,
    what_was_not_acknowledged_comes_again_before_the_next,
    a_message_that_always_fails_is_set_aside_and_the_next_flows,
    two_consumers_of_one_queue_share_it_without_mixing_the_order,
    publishing_the_same_again_delivers_it_again_with_the_same_id,
);

async fn bus(on: On, queues: &[&str]) -> Bus {
    let url: BusUrl = match on {
        On::InProcess => "in-process".parse().unwrap(),
        On::Rabbit => {
            tokio::task::spawn_blocking(|| rabbitmq::shared().host()).await.unwrap().parse().unwrap()
        }
    };
    let queues: Vec<_> = queues.iter().map(|&name| Queue { name, topics: TOPICS }).collect();
    Bus::connect(&url, &queues).await.unwrap()
}

const TOPICS: &[&str] = &["facts.test"];

fn message(number: usize) -> Message {
    Message { id: format!("m{number}"), topic: "facts.test".into(), body: format!("{{\"number\":{number}}}") }
}

/// In-process a publisher waits for the consumers, so it runs beside them.
fn publish(bus: &Bus, numbers: std::ops::Range<usize>) -> tokio::task::JoinHandle<()> {
    let bus = bus.clone();
    tokio::spawn(async move {
        let messages: Vec<_> = numbers.map(message).collect();
        bus.publish(&messages).await.unwrap();
    })
}

async fn next(consumer: &mut Consumer) -> Delivery {
    tokio::time::timeout(slipway_testkit::PATIENCE, consumer.next()).await.expect("a message comes").unwrap()
}

async fn every_queue_gets_every_message_of_its_topics_in_order(on: On) {
    let bus = bus(on, &["a", "b"]).await;
    // Nobody consumes it: that is nobody's trouble.
    let other = Message { topic: "facts.other".into(), ..message(99) };
    bus.publish(&[other]).await.unwrap();
    let publishing = publish(&bus, 0..50);
    for queue in ["a", "b"] {
        let mut consumer = bus.consume(queue);
        for number in 0..50 {
            let delivery = next(&mut consumer).await;
            assert_eq!(delivery.message(), &message(number));
            assert_eq!(delivery.attempt(), 1);
            delivery.ack().await.unwrap();
        }
    }
    publishing.await.unwrap();
}

async fn several_are_given_out_at_once_and_each_is_answered_for_itself(on: On) {
    let bus = bus(on, &["a"]).await;
    let publishing = publish(&bus, 0..6);
    let mut consumer = bus.consume_together("a", 4);
    let (mut seen, mut most) = (Vec::new(), 0);
    while seen.len() < 7 {
        let batch =
            tokio::time::timeout(slipway_testkit::PATIENCE, consumer.next_batch()).await.unwrap().unwrap();
        most = most.max(batch.len());
        for delivery in batch {
            seen.push((delivery.message().id.clone(), delivery.attempt()));
            match delivery.message().id.as_str() {
                // Dropped without a word, and asked for again.
                "m1" if delivery.attempt() == 1 => drop(delivery),
                _ => delivery.ack().await.unwrap(),
            }
        }
    }
    publishing.await.unwrap();
    assert!(most <= 4);
    assert!(seen.contains(&("m1".to_owned(), 2)), "{seen:?}");
    let first: Vec<_> = seen.iter().filter(|(_, attempt)| *attempt == 1).map(|(id, _)| id.as_str()).collect();
    assert_eq!(
        first,
        ["m0", "m1", "m2", "m3", "m4", "m5"],
        "in their order, each once but the one that was dropped"
    );
}

async fn what_was_not_acknowledged_comes_again_before_the_next(on: On) {
    let bus = bus(on, &["a"]).await;
    let _publishing = publish(&bus, 0..3);
    let mut consumer = bus.consume("a");
    let first = next(&mut consumer).await;
    assert_eq!(first.message().id, "m0");
    drop(first);
    let again = next(&mut consumer).await;
    assert_eq!((again.message().id.as_str(), again.attempt()), ("m0", 2));
    again.retry().await.unwrap();
    let again = next(&mut consumer).await;
    assert_eq!((again.message().id.as_str(), again.attempt()), ("m0", 3));
    again.ack().await.unwrap();
    // A consumer that goes away gives back what it held.
    let held = next(&mut consumer).await;
    assert_eq!(held.message().id, "m1");
    drop((held, consumer));
    let mut other = bus.consume("a");
    let mut taken_over = Vec::new();
    for _ in 0..2 {
        let delivery = next(&mut other).await;
        taken_over.push(delivery.message().id.clone());
        delivery.ack().await.unwrap();
    }
    // RabbitMQ may hand the next one over before it has taken back what the other held.
    taken_over.sort();
    assert_eq!(taken_over, ["m1", "m2"]);
}

async fn a_message_that_always_fails_is_set_aside_and_the_next_flows(on: On) {
    let bus = bus(on, &["a"]).await;
    let publishing = publish(&bus, 0..2);
    let mut consumer = bus.consume("a");
    for attempt in 1..=ATTEMPTS_MAX {
        let delivery = next(&mut consumer).await;
        assert_eq!((delivery.message().id.as_str(), delivery.attempt()), ("m0", attempt));
        delivery.retry().await.unwrap();
    }
    let neighbour = next(&mut consumer).await;
    assert_eq!((neighbour.message().id.as_str(), neighbour.attempt()), ("m1", 1));
    neighbour.ack().await.unwrap();
    publishing.await.unwrap();
    let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
    while bus.set_aside("a").await.unwrap() != 1 {
        assert!(std::time::Instant::now() < until, "the failing message was not set aside");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn two_consumers_of_one_queue_share_it_without_mixing_the_order(on: On) {
    let bus = bus(on, &["a"]).await;
    let publishing = publish(&bus, 0..40);
    let (seen, mut order) = tokio::sync::mpsc::unbounded_channel();
    let consumers: Vec<_> = (0..2)
        .map(|_| {
            let (bus, seen) = (bus.clone(), seen.clone());
            tokio::spawn(async move {
                let mut consumer = bus.consume("a");
                loop {
                    let delivery = consumer.next().await.unwrap();
                    seen.send(delivery.message().id.clone()).unwrap();
                    delivery.ack().await.unwrap();
                }
            })
        })
        .collect();
    for number in 0..40 {
        let id = tokio::time::timeout(slipway_testkit::PATIENCE, order.recv()).await.unwrap().unwrap();
        assert_eq!(id, format!("m{number}"));
    }
    publishing.await.unwrap();
    consumers.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn publishing_the_same_again_delivers_it_again_with_the_same_id(on: On) {
    let bus = bus(on, &["a"]).await;
    let mut consumer = bus.consume("a");
    for _ in 0..2 {
        let publishing = publish(&bus, 7..8);
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.message(), &message(7));
        delivery.ack().await.unwrap();
        publishing.await.unwrap();
    }
}

/// Safe means: the broker may be killed after `publish` has returned, and before anybody consumed.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_outlives_a_killed_broker_and_consumers_come_back() {
    let server = tokio::task::spawn_blocking(rabbitmq::Server::start).await.unwrap();
    let server = std::sync::Arc::new(server);
    let queues = [Queue { name: "a", topics: TOPICS }];
    let bus = Bus::connect(&server.host().parse().unwrap(), &queues).await.unwrap();
    let mut consumer = bus.consume("a");
    publish(&bus, 0..100).await.unwrap();
    for number in 0..40 {
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.message().id, format!("m{number}"));
        delivery.ack().await.unwrap();
    }
    let restarted = server.clone();
    tokio::task::spawn_blocking(move || {
        restarted.settle();
        restarted.stop();
        restarted.run();
    })
    .await
    .unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
    while seen.len() < 60 {
        assert!(std::time::Instant::now() < until, "only {} came", seen.len());
        let Ok(delivery) = tokio::time::timeout(slipway_testkit::PATIENCE, consumer.next()).await.unwrap()
        else {
            continue;
        };
        let number: usize = delivery.message().id[1..].parse().unwrap();
        // An acknowledgement that the killed broker had not written down yet may come again.
        if number >= 40 {
            seen.insert(number);
        }
        let _ = delivery.ack().await;
    }
    assert_eq!(seen, (40..100).collect());
    let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
    while bus.publish(&[message(100)]).await.is_err() {
        assert!(std::time::Instant::now() < until, "the publisher did not come back");
    }
}

/// What the broker has set aside is given to its consumer once more, as if it were new.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_set_aside_is_played_again() {
    let bus = bus(On::Rabbit, &["a"]).await;
    assert!(bus.is_up());
    publish(&bus, 0..1).await.unwrap();
    let mut consumer = bus.consume("a");
    for _ in 1..=ATTEMPTS_MAX {
        next(&mut consumer).await.retry().await.unwrap();
    }
    let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
    while bus.set_aside("a").await.unwrap() == 0 && std::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(bus.play_again("a").await.unwrap(), 1);
    let again = next(&mut consumer).await;
    assert_eq!((again.message().id.as_str(), again.attempt()), ("m0", 1));
    again.ack().await.unwrap();
    assert_eq!((bus.set_aside("a").await.unwrap(), bus.play_again("a").await.unwrap()), (0, 0));
}

/// A queue that an older version bound to everything hears of its own topics alone from now on.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_was_bound_to_everything_is_bound_to_what_it_asks_for() {
    let host = tokio::task::spawn_blocking(|| rabbitmq::shared().host()).await.unwrap();
    let url: BusUrl = host.parse().unwrap();
    let own = Queue { name: "a", topics: TOPICS };
    drop(Bus::connect(&url, &[own]).await.unwrap());
    let connection = lapin::Connection::connect(&host, lapin::ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let (options, arguments) =
        (lapin::options::QueueBindOptions::default(), lapin::types::FieldTable::default());
    channel.queue_bind("slipway.a".into(), "slipway".into(), "#".into(), options, arguments).await.unwrap();

    let bus = Bus::connect(&url, &[own, Queue { name: "b", topics: &["facts.loud"] }]).await.unwrap();
    bus.publish(&[Message { topic: "facts.loud".into(), ..message(1) }, message(2)]).await.unwrap();
    assert_eq!(next(&mut bus.consume("a")).await.message().id, "m2");
}
