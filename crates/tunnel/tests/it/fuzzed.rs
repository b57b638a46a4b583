//! K91: frames as no honest end would send them. Whatever a connection carries, other runtimes' callers get their own bytes, nobody
//! waits for ever, and the platform goes on. `SLIPWAY_FUZZ` says how many connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use slipway_tunnel::Carrier;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Caller, KEY, Platform, body, listen, text};

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A frame with a head that HTTP/2 could read, and nonsense in every field.
fn frame(dice: &mut Dice) -> Vec<u8> {
    let length = dice.roll(40);
    let kind = dice.roll(12) as u8;
    let flags = dice.roll(256) as u8;
    // Mostly streams that may be there.
    let stream = if dice.roll(4) == 0 { dice.roll(1 << 32) as u32 } else { dice.roll(30) as u32 };
    let mut bytes = vec![0, 0, length as u8, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend((0..length).map(|_| dice.roll(256) as u8));
    bytes
}

/// What a piece on the wire becomes.
fn spoil(dice: &mut Dice, piece: &[u8]) -> Vec<u8> {
    let mut bytes = piece.to_vec();
    let at = dice.roll(bytes.len() as u64) as usize;
    match dice.roll(7) {
        0 => bytes[at] ^= 1 << dice.roll(8),
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, frame(dice))),
        3 => bytes.extend_from_slice(piece),
        4 => bytes = frame(dice).into_iter().chain(bytes).collect(),
        5 => bytes.iter_mut().skip(at).take(9).for_each(|byte| *byte = dice.roll(256) as u8),
        _ => bytes.reverse(),
    }
    bytes
}

/// Copies until one end is gone; after `clean` bytes one piece in `one_in` is spoilt.
async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut dice: Dice,
    clean: usize,
    one_in: u64,
) {
    let (mut buffer, mut passed) = (vec![0; 4096], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        passed += count;
        let spoilt = passed > clean && dice.roll(one_in) == 0;
        let piece = if spoilt { spoil(&mut dice, &buffer[..count]) } else { buffer[..count].to_vec() };
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
}

/// A wire that spoils what it carries, both ways, each connection in its own way.
async fn wire(target: SocketAddr, seed: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut seed = seed * 7919 + 1;
        loop {
            let (near, _) = listener.accept().await.expect("a caller");
            let far = TcpStream::connect(target).await.expect("connected");
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            seed += 1;
            // The upgrade is honest, and a while after it.
            let clean = 600 + (seed % 5) as usize * 700;
            tokio::spawn(copy(near_in, far_out, Dice(seed | 1), clean, 3));
            tokio::spawn(copy(far_in, near_out, Dice(seed.wrapping_mul(31) | 1), clean, 5));
        }
    });
    address
}

/// What belongs to one request of one runtime, and to nobody else.
fn mark(runtime: &str, number: usize) -> String {
    format!("<{runtime}:{number}>").repeat(1_500)
}

async fn backend(runtime: String) -> SocketAddr {
    listen(move |request: Request<hyper::body::Incoming>| {
        let runtime = runtime.clone();
        async move {
            let number = request.uri().path().trim_start_matches('/').parse().unwrap_or_default();
            let _ = request.into_body().collect().await;
            text(StatusCode::OK, mark(&runtime, number))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn k91_spoilt_frames_reach_nobody_else_and_nobody_waits_for_ever() {
    let connections: u64 =
        std::env::var("SLIPWAY_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(48);
    let platform = Platform::start().await;
    let honest = platform.connect("honest", backend("honest".into()).await, Carrier::WebSocket);
    platform.until_open("honest", 1).await;
    let (over, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let asking: Vec<_> = (0..4)
        .map(|caller| {
            let (platform, over, asked) = (platform.clone(), over.clone(), asked.clone());
            tokio::spawn(async move {
                let mut connection = Caller::of(&platform, "honest").await;
                let mut number = caller;
                while !over.load(Ordering::SeqCst) {
                    let (status, said) = connection.get(&format!("/{number}")).await;
                    assert!(status == StatusCode::OK && said == mark("honest", number), "{number}: {status}");
                    number += 4;
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let attacks = (0..connections).map(|seed| {
        let platform = platform.clone();
        tokio::spawn(async move {
            let runtime = format!("evil{seed}");
            let local = backend(runtime.clone()).await;
            let address = wire(platform.address, seed).await;
            let carrier = if seed % 4 == 0 { Carrier::WebSocket } else { Carrier::Raw };
            let _agent = platform.connect_by(address, &runtime, KEY, local, carrier);
            for number in 0..6 {
                let mut caller = Caller::of(&platform, &runtime).await;
                let request =
                    Request::builder().uri(format!("/{number}")).body(body("x")).expect("a request");
                let whole = async {
                    let response = caller.send(request).await.ok()?;
                    let bytes = response.into_body().collect().await.ok()?.to_bytes();
                    Some(String::from_utf8_lossy(&bytes).into_owned())
                };
                // Two heartbeats, and the time to notice the second.
                let said = tokio::time::timeout(Duration::from_secs(30), whole)
                    .await
                    .expect("nobody waits for ever");
                assert!(!said.unwrap_or_default().contains("<honest:"), "bytes of another runtime");
            }
        })
    });
    for attack in futures::future::join_all(attacks).await {
        attack.expect("no panic");
    }
    over.store(true, Ordering::SeqCst);
    for one in asking {
        one.await.expect("every answer was its own");
    }
    assert!(asked.load(Ordering::SeqCst) > 20, "{asked:?}");
    // Nothing of the attacks is left.
    for seed in 0..connections {
        platform.until_open(&format!("evil{seed}"), 0).await;
    }
    println!(
        "{connections} spoilt connections beside {} answers that were right",
        asked.load(Ordering::SeqCst)
    );
    drop(honest);
}
