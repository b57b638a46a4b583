//! Connections that end, in every way that they do.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use slipway_tunnel::{Carrier, Connection};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::support::{Caller, Platform, Witness, body, listen, name, text};

/// A wire between two ends that can be cut, or made to swallow everything.
struct Wire {
    address: std::net::SocketAddr,
    cut: std::sync::Mutex<CancellationToken>,
    deaf: tokio::sync::watch::Sender<bool>,
}

impl Wire {
    async fn to(target: std::net::SocketAddr) -> std::sync::Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let deaf = tokio::sync::watch::Sender::new(false);
        let wire = std::sync::Arc::new(Self { address, cut: CancellationToken::new().into(), deaf });
        let ours = wire.clone();
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.expect("a caller");
                let mut far = TcpStream::connect(target).await.expect("connected");
                let cut = ours.cut.lock().expect("not poisoned").clone();
                let mut deaf = ours.deaf.subscribe();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        // Reset, not closed.
                        () = cut.cancelled() => near.set_zero_linger().expect("set"),
                        () = async { drop(deaf.wait_for(|deaf| *deaf).await) } => std::future::pending().await,
                    }
                });
            }
        });
        wire
    }

    fn cut(&self) {
        std::mem::take(&mut *self.cut.lock().expect("not poisoned")).cancel();
    }
}

#[tokio::test]
async fn t1_a_tunnel_that_is_reset_is_back_within_a_second() {
    let platform = Platform::start().await;
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let wire = Wire::to(platform.address).await;
    let _agent = platform.connect_by(wire.address, "prod", crate::support::KEY, local, Carrier::WebSocket);
    let mut took = Vec::new();
    for _ in 0..3 {
        platform.until_open("prod", 1).await;
        let before = platform.sessions.list(&name("prod"))[0].id;
        let began = Instant::now();
        wire.cut();
        while platform.sessions.list(&name("prod")).first().is_none_or(|session| session.id == before) {
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert!(began.elapsed() < Duration::from_secs(30), "not back");
        }
        took.push(began.elapsed());
        assert_eq!(Caller::of(&platform, "prod").await.get("/").await.1, "here");
        // The pause doubles while connections are cut right after they were opened.
        if took.len() == 2 {
            assert!(took.iter().all(|took| *took < Duration::from_secs(1)), "{took:?}");
        }
    }
}

#[tokio::test]
async fn t2_a_wire_that_swallows_everything_is_noticed() {
    let platform = Platform::start().await;
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let wire = Wire::to(platform.address).await;
    let mut agent = platform.connect_by(wire.address, "prod", crate::support::KEY, local, Carrier::Raw);
    platform.until_open("prod", 1).await;
    let began = Instant::now();
    wire.deaf.send_replace(true);
    let waiting = |state: &Connection| matches!(state, Connection::Waiting { .. });
    let (noticed, ()) = tokio::join!(agent.states.wait_for(waiting), platform.until_open("prod", 0));
    noticed.expect("a state");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test]
async fn t4_a_request_that_was_cut_is_answered_and_never_repeated() {
    let platform = Platform::start().await;
    let witness = Witness::default();
    let seen = witness.clone();
    let local = listen(move |_| {
        seen.note();
        std::future::pending()
    })
    .await;
    let wire = Wire::to(platform.address).await;
    // Two tunnels: the second one would be there to send it again.
    let agents = [1, 2]
        .map(|_| platform.connect_by(wire.address, "prod", crate::support::KEY, local, Carrier::WebSocket));
    platform.until_open("prod", 2).await;
    let mut caller = Caller::of(&platform, "prod").await;
    let order = Request::builder().method(Method::POST).uri("/sync").body(body("now")).expect("a request");
    let answer = tokio::spawn(async move { caller.send(order).await.expect("an answer").status() });
    while witness.seen() == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    wire.cut();
    assert_eq!(answer.await.expect("no panic"), StatusCode::BAD_GATEWAY);
    platform.until_open("prod", 2).await;
    assert_eq!(witness.seen(), 1);
    drop(agents);
}

#[tokio::test]
async fn t5_callers_who_stop_reading_stall_nobody_else() {
    let platform = Platform::start().await;
    let local = listen(|request| async move {
        if request.uri().path() == "/quick" {
            return text(StatusCode::OK, "quick");
        }
        let endless = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[1; 16 << 10]))));
        Response::new(StreamBody::new(endless).boxed_unsync())
    })
    .await;
    let _agent = platform.connect("prod", local, Carrier::Raw);
    platform.until_open("prod", 1).await;
    let mut stalled = Vec::new();
    for _ in 0..100 {
        let mut caller = Caller::of(&platform, "prod").await;
        let request = Request::builder().uri("/endless").body(body("")).expect("a request");
        let response = caller.send(request).await.expect("an answer");
        stalled.push((caller, response));
    }
    let mut caller = Caller::of(&platform, "prod").await;
    let began = Instant::now();
    for _ in 0..50 {
        assert_eq!(caller.get("/quick").await.1, "quick");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn t6_a_second_tunnel_of_the_same_runtime_takes_over_and_a_revoked_one_ends() {
    let platform = Platform::start().await;
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let first = platform.connect("prod", local, Carrier::Raw);
    let second = platform.connect("prod", local, Carrier::WebSocket);
    platform.until_open("prod", 2).await;
    let mut caller = Caller::of(&platform, "prod").await;
    for _ in 0..20 {
        assert_eq!(caller.get("/").await, (StatusCode::OK, "here".into()));
    }
    let served: Vec<u64> =
        platform.sessions.list(&name("prod")).iter().map(|session| session.served).collect();
    assert_eq!(served.iter().sum::<u64>(), 20, "{served:?}");
    drop(first);
    platform.until_open("prod", 1).await;
    assert_eq!(caller.get("/").await, (StatusCode::OK, "here".into()));
    // Another runtime's callers never come here.
    assert_eq!(Caller::of(&platform, "dev").await.get("/").await.0, StatusCode::BAD_GATEWAY);
    second.cancel.cancel();
    platform.until_open("prod", 0).await;
    let third = platform.connect("prod", local, Carrier::Raw);
    platform.until_open("prod", 1).await;
    let before = platform.sessions.list(&name("prod"))[0].id;
    platform.sessions.close(&name("prod"));
    while platform.sessions.list(&name("prod")).iter().any(|session| session.id == before) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    drop(third);
}

#[tokio::test]
async fn t3_no_byte_crosses_to_another_runtime_or_request() {
    let platform = Platform::start().await;
    let mut agents = Vec::new();
    for runtime in ["one", "two", "three"] {
        let local = listen(move |request| async move {
            let path = request.uri().path().to_owned();
            text(StatusCode::OK, format!("{runtime}{path}").repeat(500))
        })
        .await;
        agents.push(platform.connect(runtime, local, Carrier::WebSocket));
        platform.until_open(runtime, 1).await;
    }
    let callers = ["one", "two", "three"].into_iter().flat_map(|runtime| {
        let platform = &platform;
        (0..20).map(move |caller| async move {
            let mut connection = Caller::of(platform, runtime).await;
            for at in 0..30 {
                let (status, said) = connection.get(&format!("/{caller}/{at}")).await;
                assert_eq!(status, StatusCode::OK);
                assert!(said == format!("{runtime}/{caller}/{at}").repeat(500), "{runtime} {caller} {at}");
            }
        })
    });
    futures::future::join_all(callers).await;
}
