use std::time::Duration;

use slipway_bus::{Heard, Live};
use slipway_testkit::redis;

async fn hear(heard: &mut tokio::sync::broadcast::Receiver<Heard>) -> Heard {
    tokio::time::timeout(slipway_testkit::PATIENCE, heard.recv()).await.expect("something is heard").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_cache_everybody_in_the_process_hears() {
    let live = Live::connect(&"in-process".parse().unwrap()).await.unwrap();
    let (mut one, mut two) = (live.listen(), live.listen());
    live.say("a".into());
    assert_eq!(
        (hear(&mut one).await, hear(&mut two).await),
        (Heard::Text("a".into()), Heard::Text("a".into()))
    );
    assert!(!live.reaches_others());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_processes_hear_through_redis_and_a_gap_is_told() {
    let server = redis::Server::start();
    let url = server.url().parse().unwrap();
    let (here, there) = (Live::connect(&url).await.unwrap(), Live::connect(&url).await.unwrap());
    let mut heard = there.listen();
    here.say("a".into());
    assert_eq!(hear(&mut heard).await, Heard::Text("a".into()));
    server.stop();
    here.say("lost".into());
    server.run();
    assert_eq!(hear(&mut heard).await, Heard::Gap);
    // The sender notices at its next word, which may be lost too.
    let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
    loop {
        assert!(std::time::Instant::now() < until, "the sender did not come back");
        here.say("b".into());
        if let Ok(Ok(Heard::Text(text))) =
            tokio::time::timeout(Duration::from_millis(300), heard.recv()).await
        {
            assert_eq!(&*text, "b");
            break;
        }
    }
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_told_at_start() {
    let url = format!("redis://127.0.0.1:{}", slipway_testkit::free_port()).parse().unwrap();
    assert!(Live::connect(&url).await.is_err());
}
