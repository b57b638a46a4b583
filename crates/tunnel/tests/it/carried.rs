//! What passes through: bodies, streams, trailers, WebSockets, as they are.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use slipway_tunnel::{Carrier, Connection, Payload, accept_key};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::support::{Caller, Platform, body, listen, name, text};

const CARRIERS: [Carrier; 2] = [Carrier::Raw, Carrier::WebSocket];

pub(crate) async fn backend(mut request: Request<Incoming>) -> Response<Payload> {
    match request.uri().path() {
        "/echo" => {
            let seen = format!(
                "{} {} host={} for={} user={}",
                request.method(),
                request.uri(),
                shown(request.headers(), "host"),
                shown(request.headers(), "x-forwarded-for"),
                shown(request.headers(), "x-slipway-user"),
            );
            let bytes = request.into_body().collect().await.expect("a body").to_bytes();
            text(StatusCode::CREATED, format!("{seen} body={}", String::from_utf8_lossy(&bytes)))
        }
        "/large" => text(StatusCode::OK, vec![7; 3_000_000]),
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().expect("a value"));
            let frames = [Ok(Frame::data(Bytes::from("one"))), Ok(Frame::trailers(trailers))];
            let mut response = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
            response.headers_mut().insert("trailer", "grpc-status".parse().expect("a value"));
            response
        }
        "/events" => {
            let ticks = stream::unfold(0, |at| async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Some((Ok(Frame::data(Bytes::from(format!("data: {at}\n\n")))), at + 1))
            });
            Response::new(StreamBody::new(ticks).boxed_unsync())
        }
        "/socket" => {
            let key = shown(request.headers(), "sec-websocket-key");
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let io = TokioIo::new(upgraded.await.expect("upgraded"));
                let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() || message.is_binary() {
                        socket.send(message).await.expect("sent");
                    }
                }
            });
            let mut response = text(StatusCode::SWITCHING_PROTOCOLS, "");
            for (name, value) in [
                ("connection", "upgrade".to_owned()),
                ("upgrade", "websocket".to_owned()),
                ("sec-websocket-accept", accept_key(&key)),
            ] {
                response.headers_mut().insert(name, value.parse().expect("a value"));
            }
            response
        }
        _ => text(StatusCode::NOT_FOUND, "nothing here"),
    }
}

pub(crate) fn shown(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn requests_and_answers_pass_as_they_are() {
    let (platform, local) = (Platform::start().await, listen(backend).await);
    for (at, carrier) in CARRIERS.into_iter().enumerate() {
        let runtime = format!("prod{at}");
        let _agent = platform.connect(&runtime, local, carrier);
        platform.until_open(&runtime, 1).await;
        let mut caller = Caller::of(&platform, &runtime).await;
        let request = Request::builder()
            .method(Method::PUT)
            .uri("/echo?a=b%20c")
            .header("x-slipway-user", "root")
            .header("x-forwarded-for", "10.0.0.1")
            .body(body("what was sent"))
            .expect("a request");
        let response = caller.send(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::CREATED);
        let seen = response.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(
            String::from_utf8_lossy(&seen),
            format!(
                "PUT /echo?a=b%20c host={}.tunnels.test for=192.0.2.7 user= body=what was sent",
                name(&runtime)
            )
        );
        let (status, large) = caller.get("/large").await;
        assert_eq!((status, large.len()), (StatusCode::OK, 3_000_000));
        assert_eq!(caller.get("/other").await, (StatusCode::NOT_FOUND, "nothing here".into()));
    }
}

#[tokio::test]
async fn trailers_and_events_arrive_while_the_answer_goes_on() {
    let (platform, local) = (Platform::start().await, listen(backend).await);
    for (at, carrier) in CARRIERS.into_iter().enumerate() {
        let runtime = format!("prod{at}");
        let _agent = platform.connect(&runtime, local, carrier);
        platform.until_open(&runtime, 1).await;
        let mut caller = Caller::of(&platform, &runtime).await;
        let request =
            Request::builder().uri("/trailers").header("te", "trailers").body(body("")).expect("a request");
        let collected =
            caller.send(request).await.expect("an answer").into_body().collect().await.expect("a body");
        assert_eq!(collected.trailers().map(|trailers| shown(trailers, "grpc-status")), Some("0".to_owned()));
        let request = Request::builder().uri("/events").body(body("")).expect("a request");
        let mut events = caller.send(request).await.expect("an answer").into_body();
        for expected in 0..3 {
            let frame = events.frame().await.expect("goes on").expect("a frame");
            assert_eq!(frame.into_data().expect("data"), format!("data: {expected}\n\n"));
        }
    }
}

#[tokio::test]
async fn a_websocket_goes_through_and_a_refused_one_is_refused() {
    let (platform, local) = (Platform::start().await, listen(backend).await);
    for (at, carrier) in CARRIERS.into_iter().enumerate() {
        let runtime = format!("prod{at}");
        let _agent = platform.connect(&runtime, local, carrier);
        platform.until_open(&runtime, 1).await;
        let ask = |path: &str| {
            Request::builder()
                .uri(path)
                .header("connection", "Upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
                .body(body(""))
                .expect("a request")
        };
        let mut caller = Caller::of(&platform, &runtime).await;
        assert_eq!(caller.send(ask("/nothing")).await.expect("an answer").status(), StatusCode::NOT_FOUND);
        let mut caller = Caller::of(&platform, &runtime).await;
        let response = caller.send(ask("/socket")).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(shown(response.headers(), "sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let io = TokioIo::new(hyper::upgrade::on(response).await.expect("upgraded"));
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Client, None).await;
        for said in ["one", "two"] {
            socket.send(Message::text(said)).await.expect("sent");
            assert_eq!(socket.next().await.expect("open").expect("a message"), Message::text(said));
        }
    }
}

#[tokio::test]
async fn without_a_key_or_a_tunnel_nothing_opens_and_the_reason_is_said() {
    let (platform, local) = (Platform::start().await, listen(backend).await);
    let mut stranger =
        platform.connect_by(platform.address, "prod", "another key", local, Carrier::WebSocket);
    let waiting = |state: &Connection| matches!(state, Connection::Waiting { .. });
    let state = stranger.states.wait_for(waiting).await.expect("a state").clone();
    let Connection::Waiting { error, .. } = state else { panic!("{state:?}") };
    assert!(error.contains("401") && error.contains("opens no tunnel"), "{error}");
    let mut caller = Caller::of(&platform, "prod").await;
    let (status, said) = caller.get("/echo").await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert!(said.contains("not connected"), "{said}");
    // Connected, but nobody is at home.
    let closed =
        tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("it");
    let _agent = platform.connect("prod", closed, Carrier::Raw);
    platform.until_open("prod", 1).await;
    let (status, said) = caller.get("/echo").await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert!(said.contains("connected, but"), "{said}");
}

/// Its own connection is for WebSockets; everything else is answered without one, as if it had come by one.
#[tokio::test]
async fn an_end_inside_of_the_process_is_asked_without_a_connection() {
    use slipway_tunnel::Agent;
    let (platform, local) = (Platform::start().await, listen(backend).await);
    let (state, _states) = tokio::sync::watch::channel(Connection::Connecting);
    let stop = tokio_util::sync::CancellationToken::new();
    let dial = crate::support::dial(platform.address, "prod", crate::support::KEY, Carrier::WebSocket);
    let answer = |request: Request<slipway_tunnel::Payload>| async move {
        let hop = request.headers().contains_key("connection");
        let (uri, version) = (request.uri().clone(), request.version());
        let said = request.into_body().collect().await.expect("a body").to_bytes();
        let mut answer = text(StatusCode::OK, format!("{uri} {version:?} {} {hop}", said.len()));
        answer.headers_mut().insert("connection", "x-hop".parse().expect("a value"));
        answer.headers_mut().insert("x-hop", "1".parse().expect("a value"));
        answer
    };
    let agent = Agent { dial, local, state, traffic: std::sync::Arc::default() };
    tokio::spawn(agent.run_inside(answer, stop.clone()));
    platform.until_open("prod", 1).await;
    let request = Request::post("/inside?a=b").header("connection", "x-hop").header("x-hop", "1");
    let request = request.body(body(vec![7; 300_000])).expect("a request");
    let response = Caller::of(&platform, "prod").await.send(request).await.expect("an answer");
    assert!(!response.headers().contains_key("x-hop"));
    let said = response.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(said, "/inside?a=b HTTP/1.1 300000 false");
    let stream = tokio::net::TcpStream::connect(platform.address).await.expect("connected");
    let uri = format!("ws://{}.{}/socket", name("prod"), crate::support::DOMAIN);
    let (mut socket, _) = tokio_tungstenite::client_async(uri, stream).await.expect("opened");
    socket.send(Message::text("one")).await.expect("sent");
    assert_eq!(socket.next().await.expect("open").expect("read"), Message::text("one"));
    stop.cancel();
}
