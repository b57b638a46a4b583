use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use slipway_bus::{Bus, BusError, Queue};
use slipway_testkit::rabbitmq;

async fn refused(options: QueueDeclareOptions) -> String {
    let url = tokio::task::spawn_blocking(|| rabbitmq::shared().host()).await.unwrap();
    let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.queue_declare("slipway.triggers".into(), options, FieldTable::default()).await.unwrap();
    match Bus::connect(&url.parse().unwrap(), &[Queue { name: "triggers", topics: &["facts.test"] }]).await {
        Err(error @ BusError::Unsafe { .. }) => error.to_string(),
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("not refused"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_classic_queue_in_the_place_of_ours_is_refused_by_name() {
    let said = refused(QueueDeclareOptions::durable()).await;
    assert!(
        said.contains("`slipway.triggers`")
            && said.contains("durable quorum queue")
            && said.contains("PRECONDITION"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_not_durable_is_refused_by_name() {
    let said = refused(QueueDeclareOptions::default()).await;
    assert!(said.contains("slipway.triggers") && said.contains("durable"), "{said}");
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_told_at_start() {
    let url = format!("amqp://127.0.0.1:{}", slipway_testkit::free_port()).parse().unwrap();
    assert!(matches!(
        Bus::connect(&url, &[Queue { name: "a", topics: &["facts.test"] }]).await,
        Err(BusError::Unavailable { .. })
    ));
}
