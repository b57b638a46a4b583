//! Requests through a tunnel beside the same requests without one: rate, latency, one large body, and what an idle tunnel costs.
//!
//! `slipway-bench tunnel [--tunnels N] [--seconds N]`. Platform, runtime and generator are one process on the same cores, without TLS: the
//! memory of a tunnel is that of both its ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use slipway_model::Secret;
use slipway_server::{Config, Seams, Server};
use slipway_store::identity::Subject;
use slipway_tunnel::{Agent, Connection, Dial};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{load, request, serve, verdict};

const CONNECTIONS: usize = 64;
const LARGE: usize = 256 << 20;
/// What the issue asks for.
const RATE: f64 = 8_000.0;
const ADDED_MS: f64 = 0.3;
const SHARE: f64 = 0.12;
const IDLE_KB: f64 = 100.0;

pub(crate) async fn run() -> anyhow::Result<()> {
    let number =
        |name: &str, usual: usize| crate::argument(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (tunnels, seconds) = (number("--tunnels", 500), number("--seconds", 5));
    let folder = tempfile::tempdir()?;
    let piece = Bytes::from(vec![7_u8; 64 << 10]);
    let backend =
        axum::Router::new().route("/webhooks/small", axum::routing::get(|| async { "hello" })).route(
            "/webhooks/large",
            axum::routing::get(move || {
                let count = LARGE / piece.len();
                let pieces = std::iter::repeat_n(piece.clone(), count).map(Ok::<_, std::io::Error>);
                async move { axum::body::Body::from_stream(futures::stream::iter(pieces)) }
            }),
        );
    let local = serve(backend).await?;
    let config = Config {
        data: folder.path().to_owned(),
        public_url: "http://bench".into(),
        network: Default::default(),
    };
    let server = Server::open(config, Seams::system(), CancellationToken::new())?;
    server.first_start("admin@slipway.local").await?.context("an empty folder")?;
    let account = server.first_account().await?.context("it was just made")?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let platform = listener.local_addr()?.to_string();
    let stop = CancellationToken::new();
    tokio::spawn(slipway_server::serve(listener, slipway_server::router(&server), stop.clone()));
    open(&server, account, "bench", &platform, &local).await?;
    let path = format!("/tunnels/{account}-bench/webhooks");

    let direct = measured(&local, "/webhooks", seconds).await?;
    let through = measured(&platform, &path, seconds).await?;
    println!(
        "requests, {CONNECTIONS} at once       direct {:>9.0} /s   tunnel {:>9.0} /s   {:.3} of it   target {RATE} /s: {}",
        direct.rate,
        through.rate,
        through.rate / direct.rate,
        verdict(through.rate >= RATE)
    );
    let added = through.p50_ms - direct.p50_ms;
    println!(
        "latency, one at a time     direct p50 {:.3} p99 {:.3} ms   tunnel p50 {:.3} p99 {:.3} ms   added p50 {added:.3} ms   target {ADDED_MS} ms: {}",
        direct.p50_ms,
        direct.p99_ms,
        through.p50_ms,
        through.p99_ms,
        verdict(added <= ADDED_MS)
    );
    println!(
        "one stream of {} MiB      direct {:>9.0} MB/s   tunnel {:>9.0} MB/s   {:.3} of it (no TLS on either)   target {SHARE}: {}",
        LARGE >> 20,
        direct.bytes_per_second / 1e6,
        through.bytes_per_second / 1e6,
        through.bytes_per_second / direct.bytes_per_second,
        verdict(through.bytes_per_second / direct.bytes_per_second >= SHARE)
    );
    let before = resident()?;
    for number in 0..tunnels {
        open(&server, account, &format!("idle-{number}"), &platform, &local).await?;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = (resident()? - before) / tunnels as f64 / 1024.0;
    println!(
        "{tunnels} idle tunnels          {each:.0} KiB each, both ends together   target {IDLE_KB} KB for one: {}",
        verdict(each <= IDLE_KB)
    );
    stop.cancel();
    Ok(())
}

struct Measured {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    bytes_per_second: f64,
}

async fn measured(address: &str, path: &str, seconds: usize) -> anyhow::Result<Measured> {
    let small = format!("{path}/small");
    let make: Arc<load::Make> = Arc::new(move |_| {
        let mut request = request("GET", &small, "", "");
        request.headers_mut().remove("authorization");
        ("small", request)
    });
    load::run(address, CONNECTIONS, 0, 2_000, make.clone()).await?;
    let most = load::run(address, CONNECTIONS, 0, 4_000 * seconds, make.clone()).await?;
    let alone = load::run(address, 1, 0, 400 * seconds, make).await?;
    anyhow::ensure!(most.failed() + alone.failed() == 0, "{} failed", most.failed() + alone.failed());
    let mut sender = load::connect(address).await?;
    let started = Instant::now();
    let mut large = request("GET", &format!("{path}/large"), "", "");
    large.headers_mut().remove("authorization");
    let mut body = sender.send_request(large).await?.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
    }
    anyhow::ensure!(bytes == LARGE, "{bytes} of {LARGE} bytes came");
    Ok(Measured {
        rate: most.per_second(),
        p50_ms: alone.percentile("small", 0.5),
        p99_ms: alone.percentile("small", 0.99),
        bytes_per_second: bytes as f64 / started.elapsed().as_secs_f64(),
    })
}

/// A runtime of this name whose tunnel is open.
async fn open(
    server: &Server,
    account: slipway_model::AccountId,
    name: &str,
    platform: &str,
    local: &str,
) -> anyhow::Result<()> {
    let key = server.agent_key(account, Subject::Runtime, name).await?.expose().clone();
    let address = slipway_tunnel::Server::parse(&format!("http://{platform}"))?;
    let dial = Dial::plain(address, slipway_tunnel::PATH, Secret::new(key));
    let (state, mut states) = watch::channel(Connection::Connecting);
    let local: SocketAddr = local.parse()?;
    tokio::spawn(Agent { dial, local, state }.run(CancellationToken::new()));
    let opened = states.wait_for(|state| *state == Connection::Open);
    tokio::time::timeout(Duration::from_secs(30), opened).await.context("no tunnel")??;
    Ok(())
}

/// Bytes of this process in memory.
pub(crate) fn resident() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib * 1024.0)
}
