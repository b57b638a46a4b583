//! What is measured of every way to a backend, in the same manner.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{load, request};

const CONNECTIONS: usize = 64;
const STEADY: u64 = 1_000;
const LARGE_ROUNDS: usize = 3;

/// A way to the backend: where to connect, and what its paths begin with.
pub(super) struct Target {
    address: String,
    below: String,
}

impl Target {
    pub(super) fn new(address: &str, below: &str) -> Self {
        Self { address: address.to_owned(), below: below.to_owned() }
    }

    fn get(&self, what: &str) -> http::Request<http_body_util::Full<Bytes>> {
        let mut request = request("GET", &format!("{}/{what}", self.below), "", "");
        request.headers_mut().remove("authorization");
        request
    }
}

pub(super) struct Measured {
    pub(super) rate: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// At a fixed rate, from when each request was due.
    pub(super) open_p99_ms: f64,
    pub(super) bytes_per_second: f64,
}

/// A short answer, and a long one.
pub(super) fn backend(large: usize) -> axum::Router {
    let piece = Bytes::from(vec![7_u8; 64 << 10]);
    let small = axum::routing::get(|| async { "hello" });
    let large = axum::routing::get(move || {
        let pieces = std::iter::repeat_n(piece.clone(), large / piece.len()).map(Ok::<_, std::io::Error>);
        async move { axum::body::Body::from_stream(futures::stream::iter(pieces)) }
    });
    axum::Router::new().route("/webhooks/small", small).route("/webhooks/large", large)
}

pub(super) async fn all(target: &Target, seconds: usize, large: usize) -> anyhow::Result<Measured> {
    let (below, address) = (target.below.clone(), target.address.clone());
    let make: Arc<load::Make> =
        Arc::new(move |_| ("small", Target { address: String::new(), below: below.clone() }.get("small")));
    load::run(&address, CONNECTIONS, 0, 2_000, make.clone()).await?;
    let most = load::run(&address, CONNECTIONS, 0, 4_000 * seconds, make.clone()).await?;
    let alone = load::run(&address, 1, 0, 1_000 * seconds, make.clone()).await?;
    let steady = load::run(&address, CONNECTIONS, STEADY, STEADY as usize * seconds, make).await?;
    let failed = most.failed() + alone.failed() + steady.failed();
    anyhow::ensure!(failed == 0, "{failed} requests failed");
    let mut fastest = 0_f64;
    for _ in 0..LARGE_ROUNDS {
        fastest = fastest.max(one_stream(target, large).await?);
    }
    Ok(Measured {
        rate: most.per_second(),
        p50_ms: alone.percentile("small", 0.5),
        p99_ms: alone.percentile("small", 0.99),
        open_p99_ms: steady.percentile("small", 0.99),
        bytes_per_second: fastest,
    })
}

async fn one_stream(target: &Target, large: usize) -> anyhow::Result<f64> {
    let mut sender = load::connect(&target.address).await?;
    let started = Instant::now();
    let mut body = sender.send_request(target.get("large")).await?.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
    }
    anyhow::ensure!(bytes == large, "{bytes} of {large} bytes came");
    Ok(bytes as f64 / started.elapsed().as_secs_f64())
}

/// Bytes a second through one TCP connection of this machine, with nothing in between: what everything else is held against.
pub(super) async fn raw_loopback(bytes: usize) -> anyhow::Result<f64> {
    let mut fastest = 0_f64;
    for _ in 0..LARGE_ROUNDS {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let writer = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            let piece = vec![7_u8; 64 << 10];
            for _ in 0..bytes / piece.len() {
                stream.write_all(&piece).await?;
            }
            anyhow::Ok(())
        });
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        let (mut buffer, mut read, started) = (vec![0_u8; 256 << 10], 0, Instant::now());
        loop {
            match stream.read(&mut buffer).await? {
                0 => break,
                count => read += count,
            }
        }
        fastest = fastest.max(read as f64 / started.elapsed().as_secs_f64());
        writer.await.context("it writes")??;
    }
    Ok(fastest)
}
