//! Requests that nobody wants any more, at an end that says nothing.

use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tokio::io::DuplexStream;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

/// A body without an end, and whether it is still there.
fn endless() -> (Payload, Arc<()>) {
    let there = Arc::new(());
    let kept = there.clone();
    let pieces = stream::repeat_with(move || {
        let _ = &kept;
        Ok(Frame::data(Bytes::from_static(&[7; 16 << 10])))
    });
    (StreamBody::new(pieces).boxed_unsync(), there)
}

async fn until_gone(body: &Arc<()>, within: Duration) {
    let gone = async {
        while Arc::strong_count(body) > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(within, gone).await.expect("what was to be sent is still kept");
}

/// Takes nothing of a request but its head, says nothing of that, and answers at once where it is to.
async fn silent(io: DuplexStream, answers: bool) {
    let mut connection = h2::server::handshake(io).await.expect("HTTP/2");
    let mut held = Vec::new();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        if answers {
            respond.send_response(Response::new(()), true).expect("an answer");
        }
        held.push((request, respond));
    }
}

fn dialled(answers: bool) -> impl Future<Output = Client> {
    let (near, far) = tokio::io::duplex(1 << 20);
    tokio::spawn(silent(far, answers));
    async {
        let (client, driver) = handshake(near).await.unwrap_or_else(|error| panic!("{error}"));
        tokio::spawn(driver.run());
        client
    }
}

fn upload(body: Payload) -> Request<Payload> {
    Request::post("http://runtime/").body(body).expect("a request")
}

#[tokio::test]
async fn what_a_caller_who_left_had_to_say_is_kept_no_longer() {
    let client = dialled(false).await;
    let (body, there) = endless();
    let asked = tokio::time::timeout(Duration::from_millis(500), client.send(upload(body)));
    assert!(asked.await.is_err(), "it is not answered");
    until_gone(&there, PATIENCE).await;
}

#[tokio::test]
async fn a_request_goes_on_behind_its_answer_and_not_for_ever() {
    let client = dialled(true).await;
    let (body, there) = endless();
    let Ok(Answer::Plain(answer)) = client.send(upload(body)).await else { panic!("an answer") };
    answer.into_body().collect().await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Arc::strong_count(&there), 2, "it may be read yet");
    until_gone(&there, BEHIND_THE_ANSWER + PATIENCE).await;
}
