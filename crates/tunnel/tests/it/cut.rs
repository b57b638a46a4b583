//! Connections that end, in every way that they do.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use slipway_tunnel::{Carrier, Connection};

use crate::support::{Caller, Platform, Witness, body, listen, name, text};
use crate::wire::{Swallows, Wire};

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

/// One that swallows what goes there, what comes back, or both: each end notices by itself, and neither waits for the other.
#[tokio::test]
async fn t2_a_wire_that_swallows_everything_is_noticed() {
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let noticed = [Swallows::Both, Swallows::There, Swallows::Back].map(async |swallows| {
        let platform = Platform::start().await;
        let wire = Wire::to(platform.address).await;
        let mut agent = platform.connect_by(wire.address, "prod", crate::support::KEY, local, Carrier::Raw);
        platform.until_open("prod", 1).await;
        let began = Instant::now();
        wire.swallow(swallows);
        let waiting = |state: &Connection| matches!(state, Connection::Waiting { .. });
        let (noticed, ()) = tokio::join!(agent.states.wait_for(waiting), platform.until_open("prod", 0));
        noticed.expect("a state");
        assert!(began.elapsed() < Duration::from_secs(15), "{swallows:?} {:?}", began.elapsed());
        // And is mended by itself when the wire is.
        wire.swallow(Swallows::Nothing);
        platform.until_open("prod", 1).await;
        (swallows, began.elapsed())
    });
    println!("{:?}", futures::future::join_all(noticed).await);
}

/// The runtime is back, and the platform still believes in the connection from before: callers go to the one that lives.
#[tokio::test]
async fn t2_a_half_open_connection_takes_no_requests_from_the_one_that_replaced_it() {
    let platform = Platform::start().await;
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let wire = Wire::to(platform.address).await;
    let _agent = platform.connect_by(wire.address, "prod", crate::support::KEY, local, Carrier::WebSocket);
    platform.until_open("prod", 1).await;
    wire.abandon();
    platform.until_open("prod", 2).await;
    let began = Instant::now();
    let mut caller = Caller::of(&platform, "prod").await;
    for _ in 0..20 {
        assert_eq!(caller.get("/").await, (StatusCode::OK, "here".into()));
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    platform.until_open("prod", 1).await;
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

/// Each piece that nobody reads costs h2 as much as one of 256 bytes, and it ends a connection on which there are too many: for all of
/// its streams.
#[tokio::test(flavor = "multi_thread")]
async fn t5_small_pieces_that_nobody_reads_end_no_tunnel() {
    let platform = Platform::start().await;
    let local = listen(|request| async move {
        if request.uri().path() == "/quick" {
            return text(StatusCode::OK, "quick");
        }
        let endless = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(b"a line\n\n"))));
        Response::new(StreamBody::new(endless).boxed_unsync())
    })
    .await;
    let _agent = platform.connect("prod", local, Carrier::WebSocket);
    platform.until_open("prod", 1).await;
    let open = || platform.sessions.list(&name("prod")).into_iter().map(|one| (one.id, one.received)).next();
    let (before, _) = open().expect("a tunnel");
    let mut caller = Caller::small(&platform, "prod").await;
    let request = Request::builder().uri("/lines").body(body("")).expect("a request");
    let stalled = caller.send(request).await.expect("an answer");
    // Until everything that can be full is.
    let (mut came, mut same) = (0, 0);
    while same < 20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Some((id, received)) = open() else { panic!("the tunnel ended after {came} bytes") };
        assert_eq!(id, before, "the tunnel ended after {came} bytes");
        same = if received < came + 4096 { same + 1 } else { 0 };
        came = came.max(received);
    }
    assert_eq!(Caller::of(&platform, "prod").await.get("/quick").await.1, "quick");
    assert_eq!(open().map(|(id, _)| id), Some(before));
    drop((caller, stalled));
}

/// More than h2 counts by default before it takes them for an attack and ends the connection.
#[tokio::test(flavor = "multi_thread")]
async fn callers_who_leave_in_the_middle_end_no_tunnel() {
    let platform = Platform::start().await;
    let local = listen(|_| async {
        let endless = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[1; 4 << 10]))));
        Response::new(StreamBody::new(endless).boxed_unsync())
    })
    .await;
    let _agent = platform.connect("prod", local, Carrier::WebSocket);
    platform.until_open("prod", 1).await;
    let before = platform.sessions.list(&name("prod"))[0].id;
    let turns = tokio::sync::Semaphore::new(200);
    let leave = (0..3_000).map(async |at| {
        let _turn = turns.acquire().await.expect("open");
        let request = Request::builder().uri("/").body(body("")).expect("a request");
        let tunnel = name("prod");
        let asked = platform.sessions.forward(&tunnel, request);
        if at % 3 == 0 {
            // Before it was answered, or before it was even seen.
            let _ = tokio::time::timeout(Duration::from_micros(at % 500), asked).await;
            return;
        }
        let mut answer = asked.await.expect("an answer").into_body();
        answer.frame().await.expect("it goes on").expect("read");
    });
    tokio::time::timeout(Duration::from_secs(60), futures::future::join_all(leave)).await.expect("in time");
    let after = platform.sessions.list(&name("prod"));
    assert_eq!(after.iter().map(|one| one.id).collect::<Vec<_>>(), [before]);
    assert_eq!(after[0].in_flight, 0);
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
