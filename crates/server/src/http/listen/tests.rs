//! Callers who want a connection and not its answers, with both HTTPs.

use std::time::Instant;

use axum::body::Body;
use axum::http::{Request, StatusCode, Version};
use axum::routing::{get, post};
use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

const SHORT: Limits = Limits {
    head: Duration::from_millis(150),
    idle: Duration::from_millis(200),
    ping: Duration::from_millis(200),
};
/// How long anything here may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty frame of SETTINGS.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

fn app() -> Router {
    let version = |request: axum::extract::Request| async move {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("none");
        format!("{:?} {host}", request.version())
    };
    let echo = |request: axum::extract::Request| async move {
        Body::from_stream(request.into_body().into_data_stream())
    };
    let slow = get(|| async {
        tokio::time::sleep(SHORT.idle * 4).await;
        "late"
    });
    Router::new().route("/", get(version)).route("/echo", post(echo)).route("/slow", slow)
}

/// A connection to it, and its end.
fn dialled(limits: Limits) -> (DuplexStream, tokio::task::JoinHandle<Result<(), BoxError>>) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let serving =
        tokio::spawn(limited(far, ([192, 0, 2, 7], 1).into(), app(), CancellationToken::new(), limits));
    (near, serving)
}

type Http2 = hyper::client::conn::http2::SendRequest<Body>;

async fn http2(limits: Limits) -> (Http2, tokio::task::JoinHandle<Result<(), BoxError>>) {
    let (near, serving) = dialled(limits);
    let asked = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near)).await;
    let (sender, connection) = asked.expect("HTTP/2");
    tokio::spawn(connection);
    (sender, serving)
}

fn ask(path: &str) -> Request<Body> {
    let request = Request::builder().uri(format!("http://host.test{path}"));
    request.version(Version::HTTP_2).body(Body::empty()).expect("a request")
}

async fn text(body: hyper::body::Incoming) -> String {
    let bytes = axum::body::to_bytes(Body::new(body), 1 << 20).await.expect("a body");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn both_versions_are_spoken_and_both_say_whom_they_are_for() {
    let (mut sender, _serving) = http2(LIMITS).await;
    let answer = sender.send_request(ask("/")).await.expect("an answer");
    assert_eq!(text(answer.into_body()).await, "HTTP/2.0 host.test");
    let (mut near, _serving) = dialled(LIMITS);
    // In pieces, as slow as somebody likes who is no attacker.
    for piece in ["P", "OST", " / HTTP/1.1\r\nhost: a.test\r\n", "\r\n"] {
        near.write_all(piece.as_bytes()).await.expect("written");
        tokio::task::yield_now().await;
    }
    let mut answer = [0; 64];
    let count = near.read(&mut answer).await.expect("an answer");
    assert!(answer[..count].starts_with(b"HTTP/1.1 405"), "it begins as HTTP/2 does: {answer:?}");
}

#[tokio::test]
async fn both_directions_of_http2_go_on_at_once() {
    let (mut sender, _serving) = http2(LIMITS).await;
    let (say, said) = futures::channel::mpsc::unbounded::<Result<&str, std::io::Error>>();
    let mut request = ask("/echo").map(|_| Body::from_stream(said));
    *request.method_mut() = axum::http::Method::POST;
    let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
    let mut heard = Body::new(answer.expect("before the request ends").expect("an answer").into_body())
        .into_data_stream();
    for one in ["first", "second"] {
        say.unbounded_send(Ok(one)).expect("it is open");
        assert_eq!(heard.next().await.expect("more").expect("read"), one);
    }
    drop(say);
    while let Some(rest) = heard.next().await {
        assert!(rest.expect("read").is_empty());
    }
}

async fn is_let_go(serving: tokio::task::JoinHandle<Result<(), BoxError>>, what: &str) {
    let _ = tokio::time::timeout(PATIENCE, serving)
        .await
        .unwrap_or_else(|_| panic!("{what} stays"))
        .expect("no panic");
}

#[tokio::test]
async fn whoever_sends_a_head_byte_by_byte_or_nothing_is_let_go() {
    for (what, sent) in [
        ("nothing", &b""[..]),
        ("half of a greeting", &PREFACE[..9]),
        ("half of a head", b"GET / HTTP/1.1\r\nhost: "),
        ("a greeting and nothing", PREFACE),
        ("settings and nothing", &[PREFACE, SETTINGS].concat()),
        // HEADERS of stream 1 without the flag that ends them.
        ("half of the headers", &[PREFACE, SETTINGS, &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]].concat()),
    ] {
        let (mut near, serving) = dialled(SHORT);
        near.write_all(sent).await.expect("written");
        is_let_go(serving, what).await;
        drop(near);
    }
}

#[tokio::test]
async fn a_request_that_takes_long_is_no_silence() {
    let (mut sender, serving) = http2(SHORT).await;
    let answer = sender.send_request(ask("/slow")).await.expect("an answer");
    assert_eq!(text(answer.into_body()).await, "late");
    is_let_go(serving, "one that asks for nothing more").await;
}

/// The next frame: its kind and what is in it.
async fn frame(near: &mut DuplexStream) -> (u8, Vec<u8>) {
    let mut head = [0; 9];
    near.read_exact(&mut head).await.expect("a frame");
    let mut payload = vec![0; usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])];
    near.read_exact(&mut payload).await.expect("all of it");
    (head[3], payload)
}

/// It was on its way when the connection had not been used for so long that it was to go.
#[tokio::test]
async fn a_request_that_meets_the_end_of_its_connection_is_answered() {
    const DATA: u8 = 0;
    const GOAWAY: u8 = 7;
    let (mut near, _serving) = dialled(Limits { head: SHORT.idle * 3, ping: PATIENCE, ..SHORT });
    near.write_all(&[PREFACE, SETTINGS].concat()).await.expect("written");
    while frame(&mut near).await.0 != GOAWAY {}
    // `:method GET`, `:scheme http`, `:path /slow`: HEADERS of stream 1 with both ends in them.
    let head = [&[0x82, 0x86, 0x04, 5][..], b"/slow"].concat();
    near.write_all(&[&[0, 0, head.len() as u8, 1, 5, 0, 0, 0, 1][..], &head].concat())
        .await
        .expect("written");
    loop {
        let (kind, payload) = frame(&mut near).await;
        if kind == DATA {
            return assert_eq!(payload, b"late");
        }
    }
}

/// Requests that are taken back as soon as they were sent, on and on.
#[tokio::test]
async fn resets_one_after_the_other_end_the_connection() {
    let (mut near, serving) = dialled(LIMITS);
    near.write_all(&[PREFACE, SETTINGS].concat()).await.expect("written");
    let began = Instant::now();
    let mut stream = 1_u32;
    // `:method GET`, `:scheme http`, `:path /`, then RST_STREAM with CANCEL.
    while !serving.is_finished() {
        let mut frames = Vec::new();
        for _ in 0..50 {
            frames.extend([0, 0, 3, 1, 5]);
            frames.extend(stream.to_be_bytes());
            frames.extend([0x82, 0x86, 0x84, 0, 0, 4, 3, 0]);
            frames.extend(stream.to_be_bytes());
            frames.extend([0, 0, 0, 8]);
            stream += 2;
        }
        if near.write_all(&frames).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
        assert!(began.elapsed() < PATIENCE && stream < 1_000_000, "{stream} streams");
    }
    is_let_go(serving, "one that resets").await;
}

/// A head that goes on for ever, in frames of CONTINUATION.
#[tokio::test]
async fn a_head_without_an_end_ends_the_connection() {
    let (mut near, serving) = dialled(LIMITS);
    near.write_all(&[PREFACE, SETTINGS, &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]].concat()).await.expect("written");
    let mut sent = 0;
    while sent < 64 << 20 {
        // A field that is not kept for later ones, of 16 bytes and 4,000.
        let mut field = vec![0, 1, b'a', 0x7f];
        field.extend([0xa1, 0x1e]);
        field.extend([b'b'; 4_000]);
        let mut frame = vec![0];
        frame.extend((field.len() as u16).to_be_bytes());
        frame.extend([9, 0, 0, 0, 0, 1]);
        frame.extend(field);
        sent += frame.len();
        if near.write_all(&frame).await.is_err() {
            break;
        }
    }
    assert!(sent < 8 << 20, "{sent} bytes of one head were taken");
    is_let_go(serving, "one without an end").await;
}

#[tokio::test]
async fn more_requests_than_fit_wait_and_more_headers_than_fit_are_refused() {
    let (sender, _serving) = http2(LIMITS).await;
    let all = (0..STREAMS * 2).map(|_| {
        let mut sender = sender.clone();
        async move { sender.send_request(ask("/")).await.expect("an answer").status() }
    });
    let all = tokio::time::timeout(PATIENCE, futures::future::join_all(all)).await.expect("in time");
    assert!(all.iter().all(|status| *status == StatusCode::OK), "{all:?}");
    let mut many = ask("/");
    for number in 0..=HEADERS_MAX {
        let name: axum::http::HeaderName = format!("x-{number}").parse().expect("a name");
        many.headers_mut().insert(name, HeaderValue::from_static("y"));
    }
    let answer = sender.clone().send_request(many).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}
