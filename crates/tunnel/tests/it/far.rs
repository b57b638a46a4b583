//! A line with a delay: what one stream carries over it, and that the next callers do not pay for it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use slipway_tunnel::Carrier;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Caller, KEY, Platform, body, listen, text};

/// There and back together.
const DELAY: Duration = Duration::from_millis(100);
const LARGE: usize = 24 << 20;
const PIECE: usize = 64 << 10;
/// How many pieces `/gated` may still send.
static GATE: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(0);

/// A wire that hands on everything, half of the delay later.
async fn far(target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (near, _) = listener.accept().await.expect("a caller");
            let far = TcpStream::connect(target).await.expect("connected");
            for end in [&near, &far] {
                end.set_nodelay(true).expect("set");
            }
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            late(near_in, far_out);
            late(far_in, near_out);
        }
    });
    address
}

fn late(mut from: tokio::net::tcp::OwnedReadHalf, mut to: tokio::net::tcp::OwnedWriteHalf) {
    let (sender, mut pieces) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let _ = sender.send((tokio::time::Instant::now() + DELAY / 2, buffer[..count].to_vec()));
        }
    });
    tokio::spawn(async move {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    });
}

async fn backend(request: Request<Incoming>) -> Response<slipway_tunnel::Payload> {
    if request.method() == Method::POST {
        let mut body = request.into_body();
        let mut count = 0;
        while let Some(Ok(frame)) = body.frame().await {
            count += frame.data_ref().map_or(0, Bytes::len);
        }
        return text(StatusCode::OK, count.to_string());
    }
    if request.uri().path() == "/quick" {
        return text(StatusCode::OK, "quick");
    }
    let piece = Bytes::from_static(&[7; PIECE]);
    if request.uri().path() == "/gated" {
        let pieces = stream::unfold(piece, async |piece| {
            GATE.acquire().await.expect("never closed").forget();
            Some((Ok(Frame::data(piece.clone())), piece))
        });
        return Response::new(StreamBody::new(pieces).boxed_unsync());
    }
    let pieces = (0..LARGE / piece.len()).map(move |_| Ok(Frame::data(piece.clone())));
    Response::new(StreamBody::new(stream::iter(pieces)).boxed_unsync())
}

/// With 64 KiB for each round it would be 640 KB/s: 39 seconds. Each way by a tunnel of its own: what one finds out is no help to the other.
#[tokio::test(flavor = "multi_thread")]
async fn one_stream_over_a_long_line_carries_more_than_a_window_a_round() {
    let platform = Platform::start().await;
    let address = far(platform.address).await;
    let local = listen(backend).await;
    for way in ["down", "up"] {
        let _agent = platform.connect_by(address, way, KEY, local, Carrier::WebSocket);
        platform.until_open(way, 1).await;
        let mut caller = Caller::of(&platform, way).await;
        let (method, path, large) = match way {
            "down" => (Method::GET, "/large", Vec::new()),
            _ => (Method::POST, "/", vec![7; LARGE]),
        };
        let request = Request::builder().method(method).uri(path).body(body(large)).expect("a request");
        let began = Instant::now();
        let carried = async {
            let answer = caller.send(request).await.expect("an answer").into_body();
            answer.collect().await.expect("a body").to_bytes()
        };
        let said = tokio::time::timeout(Duration::from_secs(10), carried).await;
        let said = said.unwrap_or_else(|_| panic!("{way}: {} MiB take too long over {DELAY:?}", LARGE >> 20));
        println!("{} MiB {way} over {DELAY:?}: {:?}", LARGE >> 20, began.elapsed());
        match way {
            "down" => assert_eq!(said.len(), LARGE),
            _ => assert_eq!(said, LARGE.to_string()),
        }
    }
}

/// A burst while windows are large waits once until they are smaller, not once for each.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_beside_a_long_stream_waits_no_more_than_a_few_rounds() {
    let platform = Platform::start().await;
    let address = far(platform.address).await;
    let local = listen(backend).await;
    let _agent = platform.connect_by(address, "prod", KEY, local, Carrier::WebSocket);
    platform.until_open("prod", 1).await;
    let mut caller = Caller::of(&platform, "prod").await;
    let request = Request::builder().uri("/large").body(body("")).expect("a request");
    let mut large = caller.send(request).await.expect("an answer").into_body();
    let mut came = 0;
    while came < LARGE / 4 {
        came += large.frame().await.expect("more").expect("read").data_ref().map_or(0, Bytes::len);
    }
    let began = Instant::now();
    let quick = (0..200).map(async |_| Caller::of(&platform, "prod").await.get("/quick").await.1);
    let said = futures::future::join_all(quick).await;
    let took = began.elapsed();
    println!("200 callers beside a long stream: {took:?}");
    assert!(said.iter().all(|said| said == "quick"));
    assert!(took < Duration::from_secs(4), "{took:?}");
    while let Some(frame) = large.frame().await {
        came += frame.expect("read").data_ref().map_or(0, Bytes::len);
    }
    assert_eq!(came, LARGE);
}

/// Whoever has read everything reads on, although its window fell below nothing while it waited for more.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_read_to_its_end_goes_on_after_windows_became_smaller() {
    let platform = Platform::start().await;
    let address = far(platform.address).await;
    let local = listen(backend).await;
    let _agent = platform.connect_by(address, "prod", KEY, local, Carrier::WebSocket);
    platform.until_open("prod", 1).await;
    let mut caller = Caller::of(&platform, "prod").await;
    let request = Request::builder().uri("/gated").body(body("")).expect("a request");
    let mut gated = caller.send(request).await.expect("an answer").into_body();
    // Each round leaves another part of the window that is not given back yet.
    for round in 0..6 {
        let pieces = 64 + 3 * round;
        GATE.add_permits(pieces);
        let mut left = pieces * PIECE;
        while left > 0 {
            let frame = tokio::time::timeout(Duration::from_secs(20), gated.frame()).await;
            let frame = frame.unwrap_or_else(|_| panic!("round {round} stands still, {left} bytes are left"));
            left -= frame.expect("more").expect("read").data_ref().map_or(0, Bytes::len);
        }
        let quick = (0..40).map(async |_| Caller::of(&platform, "prod").await.get("/quick").await.1);
        assert!(futures::future::join_all(quick).await.iter().all(|said| said == "quick"));
    }
}
