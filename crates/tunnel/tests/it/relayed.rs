//! Through a process that does not hold the tunnel to the one that does.

use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use slipway_tunnel::{Carrier, ForwardError, Sessions, answer_through, relay};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

use crate::carried::{backend, shown};
use crate::support::{Caller, Platform, body, listen, name, text};

/// A process without tunnels in front of one that has them.
async fn in_front_of(holder: &Platform) -> (Platform, Arc<Sessions<String>>) {
    let links = Arc::new(Sessions::<String>::default());
    let (near, far) = tokio::io::duplex(64 << 10);
    let sessions = holder.sessions.clone();
    tokio::spawn(async move {
        let answer = |request| {
            let sessions = sessions.clone();
            async move {
                match relay(&sessions, &name("prod"), request).await {
                    Ok(answer) => answer,
                    Err(ForwardError::Offline) => text(StatusCode::GONE, "not here"),
                    Err(error) => text(error.status(), error.to_string()),
                }
            }
        };
        answer_through(far, answer, &CancellationToken::new()).await
    });
    let ours = links.clone();
    let (listed, opened) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        ours.serve_telling(&"holder".to_owned(), String::new(), near, move || {
            listed.send(()).expect("somebody waits")
        })
        .await
    });
    opened.await.expect("a connection between the two");
    let forwarding = links.clone();
    let address = listen(move |request: Request<hyper::body::Incoming>| {
        let links = forwarding.clone();
        async move {
            let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            match links.forward(&"holder".to_owned(), request).await {
                Ok(answer) => answer,
                Err(error) => text(error.status(), error.to_string()),
            }
        }
    })
    .await;
    (Platform { address, sessions: Arc::default() }, links)
}

#[tokio::test]
async fn what_another_process_holds_is_reached_through_it() {
    let (holder, local) = (Platform::start().await, listen(backend).await);
    let (front, links) = in_front_of(&holder).await;
    let mut caller = Caller::of(&front, "prod").await;
    assert_eq!(caller.get("/large").await, (StatusCode::GONE, "not here".into()), "nothing is held yet");
    let agent = holder.connect("prod", local, Carrier::WebSocket);
    holder.until_open("prod", 1).await;
    let (status, large) = caller.get("/large").await;
    assert_eq!((status, large.len()), (StatusCode::OK, 3_000_000));
    let request =
        Request::builder().uri("/trailers").header("te", "trailers").body(body("")).expect("a request");
    let collected =
        caller.send(request).await.expect("an answer").into_body().collect().await.expect("a body");
    assert_eq!(collected.trailers().map(|trailers| shown(trailers, "grpc-status")), Some("0".to_owned()));
    let ask = Request::builder()
        .uri("/socket")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let response = caller.send(ask.body(body("")).expect("a request")).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(shown(response.headers(), "sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let io = TokioIo::new(hyper::upgrade::on(response).await.expect("upgraded"));
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Client, None).await;
    socket.send(Message::text("through two")).await.expect("sent");
    assert_eq!(socket.next().await.expect("open").expect("a message"), Message::text("through two"));
    // The tunnel goes: it is told, and the connection between the processes stays.
    drop((socket, agent));
    holder.until_open("prod", 0).await;
    let mut caller = Caller::of(&front, "prod").await;
    assert_eq!(caller.get("/large").await.0, StatusCode::GONE);
    assert!(links.is_open(&"holder".to_owned()));
}
