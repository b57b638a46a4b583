//! Many of everything: cuts, tunnels, streams, callers who stop reading. Short here; `make soak` sets SLIPWAY_TUNNEL_CUTS,
//! SLIPWAY_TUNNELS, SLIPWAY_TUNNEL_REQUESTS and SLIPWAY_TUNNEL_STALLED to what reliability asks for. Each prints what it saw.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use slipway_tunnel::{Carrier, Payload};
use tokio_util::sync::CancellationToken;

use crate::soak::{alone, number, resident_bytes};
use crate::support::{Caller, KEY, Platform, body, dial, listen, name, text};
use crate::wire::Wire;

fn percentile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() as f64 * share) as usize).min(times.len() - 1)]
}

#[tokio::test(flavor = "multi_thread")]
async fn t1_many_tunnels_are_cut_at_once_and_are_back() {
    let cuts = number("SLIPWAY_TUNNEL_CUTS", 20);
    let tunnels = cuts.min(100);
    let platform = Platform::start().await;
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let one = |at: usize| {
        let platform = platform.clone();
        async move {
            let (runtime, wire) = (format!("r{at}"), Wire::to(platform.address).await);
            let _agent = platform.connect_by(wire.address, &runtime, KEY, local, Carrier::WebSocket);
            let mut took = Vec::new();
            for round in 0..cuts / tunnels {
                platform.until_open(&runtime, 1).await;
                // Who is cut right after it was opened waits longer each time: these had a life.
                if round > 0 {
                    tokio::time::sleep(Duration::from_millis(5_100)).await;
                }
                let before = platform.sessions.list(&name(&runtime))[0].id;
                let began = Instant::now();
                wire.cut();
                while platform.sessions.list(&name(&runtime)).first().is_none_or(|one| one.id == before) {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    assert!(began.elapsed() < Duration::from_secs(30), "not back");
                }
                took.push(began.elapsed());
            }
            assert_eq!(Caller::of(&platform, &runtime).await.get("/").await.1, "here");
            took
        }
    };
    let mut took: Vec<_> = futures::future::join_all((0..tunnels).map(one)).await.concat();
    let (p50, p99) = (percentile(&mut took, 0.5), percentile(&mut took, 0.99));
    println!("T1: {} cuts of {tunnels} tunnels, back after p50 {p50:?}, p99 {p99:?}", took.len());
    assert!(p50 <= Duration::from_secs(1) && p99 <= Duration::from_secs(5), "{p50:?} {p99:?}");
}

/// What belongs to one stream of one runtime, and to nobody else.
fn mark(runtime: &str, path: &str) -> String {
    format!("<{runtime}{path}>").repeat(100)
}

/// Without sockets but those of the tunnels, of which a process may have so many.
#[tokio::test(flavor = "multi_thread")]
async fn t3_t7_many_tunnels_with_ten_streams_each_answer_with_their_own_bytes() {
    const STREAMS: usize = 10;
    let tunnels = number("SLIPWAY_TUNNELS", 40);
    let rounds = number("SLIPWAY_TUNNEL_REQUESTS", 2_000).div_ceil(tunnels * STREAMS);
    let (platform, stop) = (Platform::start().await, CancellationToken::new());
    for at in 0..tunnels {
        let runtime = format!("r{at}");
        let carrier = if at % 2 == 0 { Carrier::Raw } else { Carrier::WebSocket };
        let io = dial(platform.address, &runtime, KEY, carrier).connect().await.expect("connected");
        let stop = stop.clone();
        tokio::spawn(async move {
            let answer = |request: Request<Payload>| {
                let said = mark(&runtime, request.uri().path());
                async move { text(StatusCode::OK, said) }
            };
            slipway_tunnel::answer_through(io, answer, &stop).await
        });
    }
    let began = Instant::now();
    // Both ends are this process: more at once, and it is too late for its own heartbeat.
    let turns = Arc::new(tokio::sync::Semaphore::new(1_000));
    let stream = |tunnel: usize, stream: usize| {
        let (platform, turns) = (platform.clone(), turns.clone());
        tokio::spawn(async move {
            let (runtime, mut wrong) = (format!("r{tunnel}"), 0);
            platform.until_open(&runtime, 1).await;
            for round in 0..rounds {
                let path = format!("/{stream}/{round}");
                let request = Request::builder().uri(&path).body(body("")).expect("a request");
                let _turn = turns.acquire().await.expect("open");
                let answer = platform.sessions.forward(&name(&runtime), request).await.expect("an answer");
                if (round + stream).is_multiple_of(9) {
                    // Left in the middle: the stream is reset, and its number is not used again.
                    continue;
                }
                let said = answer.into_body().collect().await.expect("a body").to_bytes();
                wrong += usize::from(said != mark(&runtime, &path));
            }
            wrong
        })
    };
    let streams = (0..tunnels).flat_map(|tunnel| (0..STREAMS).map(move |at| (tunnel, at)));
    let all = futures::future::join_all(streams.map(|(tunnel, at)| stream(tunnel, at))).await;
    let wrong: usize = all.into_iter().map(|wrong| wrong.expect("no panic")).sum();
    println!(
        "T3, T7: {} requests through {tunnels} tunnels of {STREAMS} streams in {:?}, {wrong} with other bytes",
        tunnels * STREAMS * rounds,
        began.elapsed()
    );
    assert_eq!(wrong, 0);
    stop.cancel();
}

/// How a caller's request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Ended {
    Whole,
    Refused,
    /// In the middle of its answer, which the caller sees.
    Broken,
}

async fn order(platform: &Platform, runtime: &str, path: &str) -> Ended {
    let mut caller = Caller::of(platform, runtime).await;
    let request = Request::builder().method(Method::POST).uri(path);
    let request = request.body(body(vec![b'x'; 2_000])).expect("a request");
    let Ok(answer) = caller.send(request).await else { return Ended::Broken };
    let status = answer.status();
    let Ok(said) = answer.into_body().collect().await else { return Ended::Broken };
    match status {
        StatusCode::OK => {
            assert_eq!(said.to_bytes(), mark("", path));
            Ended::Whole
        }
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => Ended::Refused,
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_wherever_a_tunnel_is_cut_every_request_ends_and_none_arrives_twice() {
    const LANES: usize = 4;
    let cuts = number("SLIPWAY_TUNNEL_CUTS", 100);
    let platform = Platform::start().await;
    let arrived: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let witness = arrived.clone();
    let local = listen(move |request: Request<Incoming>| {
        let path = request.uri().path().to_owned();
        *witness.lock().expect("not poisoned").entry(path.clone()).or_default() += 1;
        async move {
            let _ = request.into_body().collect().await;
            text(StatusCode::OK, mark("", &path))
        }
    })
    .await;
    let lane = |lane: usize| {
        let platform = platform.clone();
        async move {
            let (runtime, wire) = (format!("r{lane}"), Wire::to(platform.address).await);
            let mut ended: HashMap<Ended, usize> = HashMap::new();
            for cut in 0..cuts / LANES {
                // From the middle of the upgrade to some requests later, another place each time.
                let bytes = (cut * 7_919 + lane * 104_729) % 30_000;
                wire.cut_after(200 + i64::try_from(bytes).expect("small"));
                let dial = dial(wire.address, &runtime, KEY, Carrier::WebSocket);
                let Ok(io) = dial.connect().await else { continue };
                let serving =
                    tokio::spawn(
                        async move { slipway_tunnel::serve(io, local, &CancellationToken::new()).await },
                    );
                let mut number = 0;
                while !serving.is_finished() && number < 100 {
                    let paths = [0, 1, 2].map(|at| format!("/{lane}/{cut}/{}", number + at));
                    let orders = paths.iter().map(|path| order(&platform, &runtime, path));
                    let orders = futures::future::join_all(orders);
                    let all = tokio::time::timeout(Duration::from_secs(30), orders).await;
                    let all = all.unwrap_or_else(|_| {
                        let tunnels = platform.sessions.list(&name(&runtime));
                        panic!("waits for ever: {paths:?} {bytes} {} {tunnels:?}", serving.is_finished())
                    });
                    for one in all {
                        *ended.entry(one).or_default() += 1;
                    }
                    number += 3;
                }
                serving.abort();
            }
            ended
        }
    };
    let all = futures::future::join_all((0..LANES).map(lane)).await;
    let mut total: HashMap<Ended, usize> = HashMap::new();
    all.into_iter().flatten().for_each(|(how, count)| *total.entry(how).or_default() += count);
    let arrived = arrived.lock().expect("not poisoned");
    let twice = arrived.values().filter(|count| **count > 1).count();
    println!("T4: {cuts} cuts, requests {total:?}, {} arrived, {twice} of them twice", arrived.len());
    assert_eq!(twice, 0);
    assert!(total.get(&Ended::Whole).is_some_and(|count| *count >= cuts), "{total:?}");
}

#[test]
fn t5_callers_who_stop_reading_cost_little_and_stall_nobody() {
    alone("long::t5_callers_who_stop_reading_cost_little_and_stall_nobody", stalled);
}

async fn stalled() {
    let count = number("SLIPWAY_TUNNEL_STALLED", 100);
    let platform = Platform::start().await;
    let local = listen(|request| async move {
        if request.uri().path() == "/quick" {
            return text(StatusCode::OK, "quick");
        }
        let endless = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[1; 16 << 10]))));
        let endless: Payload = StreamBody::new(endless).boxed_unsync();
        Response::new(endless)
    })
    .await;
    let _agent = platform.connect("prod", local, Carrier::WebSocket);
    platform.until_open("prod", 1).await;
    let mut quick = Caller::of(&platform, "prod").await;
    let mut times = async || {
        let mut times = Vec::new();
        for _ in 0..200 {
            let began = Instant::now();
            assert_eq!(quick.get("/quick").await.1, "quick");
            times.push(began.elapsed());
        }
        (percentile(&mut times, 0.5), percentile(&mut times, 0.99))
    };
    let (before, bytes_before) = (times().await, resident_bytes());
    let mut stalled = Vec::new();
    for _ in 0..count {
        let mut caller = Caller::small(&platform, "prod").await;
        let request = Request::builder().uri("/endless").body(body("")).expect("a request");
        let response = caller.send(request).await.expect("an answer");
        stalled.push((caller, response));
    }
    // Until everything that can be full is.
    let (mut bytes, mut same) = (resident_bytes(), 0);
    while same < 10 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = resident_bytes();
        same = if now < bytes + (256 << 10) { same + 1 } else { 0 };
        bytes = bytes.max(now);
    }
    let during = times().await;
    let (all, each) = (bytes - bytes_before, (bytes - bytes_before) / count / 1024);
    println!(
        "T5: {count} callers do not read: {each} KiB each at both ends; others' p50 and p99 {before:?}, then {during:?}"
    );
    // What else the machine does is in it too: who is stalled waits for ever.
    assert!(during.0 <= before.0 * 2 + Duration::from_millis(20), "{before:?} {during:?}");
    assert!(during.1 <= before.1 * 2 + Duration::from_millis(200), "{before:?} {during:?}");
    // The tunnel's share is bounded however many there are; what callers and backend keep is in it, too.
    assert!(all <= (64 << 20) + count * (320 << 10), "{each} KiB");
}

#[test]
fn t7_an_idle_tunnel_costs_little() {
    alone("long::t7_an_idle_tunnel_costs_little", idle);
}

async fn idle() {
    let tunnels = number("SLIPWAY_TUNNELS", 100);
    let platform = Platform::start().await;
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let open = async |runtime: String| {
        let agent = platform.connect(&runtime, local, Carrier::WebSocket);
        platform.until_open(&runtime, 1).await;
        agent
    };
    let mut agents = Vec::new();
    for at in 0..tunnels / 5 {
        agents.push(open(format!("first{at}")).await);
    }
    let before = resident_bytes();
    for at in 0..tunnels {
        agents.push(open(format!("r{at}")).await);
    }
    let each = (resident_bytes() - before) / tunnels / 1_000;
    println!("T7: {tunnels} idle tunnels: {each} kB each, both ends together, without TLS");
    assert!(each <= 200, "{each} kB");
}
