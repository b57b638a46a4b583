//! Requests through a tunnel beside the same requests without one, beside a bare TCP connection, and beside published tunnels.
//!
//! `slipway-bench tunnel [--tunnels N] [--seconds N] [--mib N] [--peers DIR]`. The platform and the runtime's end are processes of their own
//! ([`roles`]), as those of every peer are ([`peers`]); the backend and the generator are this one. All share the same cores: compare ratios.
//! The tunnel's own connection has TLS, as in production; callers come without it, as they do to the peers.

mod measure;
mod peers;
pub(crate) mod roles;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use crate::{argument, serve, verdict};
use measure::{Measured, Target};

/// What issue 17 asks for.
const RATE: f64 = 8_000.0;
const ADDED_MS: f64 = 0.3;
const SHARE: f64 = 0.12;
const IDLE_KB: f64 = 100.0;

pub(crate) async fn run() -> anyhow::Result<()> {
    let number =
        |name: &str, usual: usize| argument(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (tunnels, seconds, mib) = (number("--tunnels", 500), number("--seconds", 5), number("--mib", 256));
    println!("load before: {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    let raw = measure::raw_loopback(mib << 20).await?;
    println!("one bare TCP connection     {:>7.0} MB/s", raw / 1e6);
    let local = serve(measure::backend(mib << 20)).await?;
    let direct = measure::all(&Target::new(&local, "/webhooks"), seconds, mib << 20).await?;
    heading();
    row("direct, no tunnel", &direct, &direct, raw);

    let platform = roles::Platform::start(tunnels + 2)?;
    for (at, (carrier, what)) in
        [("websocket", "slipway, TLS, WebSocket"), ("raw", "slipway, TLS, --raw-tunnel")]
            .into_iter()
            .enumerate()
    {
        let agent = platform.agent(at..at + 1, carrier, &local).await?;
        let target = Target::new(&platform.plain, &platform.path(at));
        let through = measure::all(&target, seconds, mib << 20).await?;
        row(what, &through, &direct, raw);
        if at == 0 {
            judge(&through, &direct, raw);
        }
        drop(agent);
    }
    idle(&platform, tunnels, &local).await?;
    drop(platform);
    match argument("--peers").or_else(|| std::env::var("SLIPWAY_PEERS").ok()) {
        None => println!(
            "no peers: give a folder of frps and frpc, chisel, bore, rathole with --peers DIR or SLIPWAY_PEERS"
        ),
        Some(folder) => beside(&PathBuf::from(folder), &local, &direct, raw, seconds, mib << 20).await,
    }
    println!("load after: {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    Ok(())
}

fn heading() {
    println!(
        "| {:<28} | {:>9} | {:>6} | {:>7} | {:>7} | {:>8} | {:>9} | {:>8} | {:>6} |",
        "64 at once, one at a time",
        "a second",
        "ratio",
        "p50 ms",
        "p99 ms",
        "added ms",
        "at 1000/s",
        "MB/s",
        "of raw"
    );
    println!("|{}|", ["-"; 9].map(|_| "---").join("|"));
}

fn row(what: &str, seen: &Measured, direct: &Measured, raw: f64) {
    println!(
        "| {what:<28} | {:>9.0} | {:>6.3} | {:>7.3} | {:>7.3} | {:>8.3} | {:>9} | {:>8.0} | {:>6.3} |",
        seen.rate,
        seen.rate / direct.rate,
        seen.p50_ms,
        seen.p99_ms,
        seen.p50_ms - direct.p50_ms,
        format!("p99 {:.1}", seen.open_p99_ms),
        seen.bytes_per_second / 1e6,
        seen.bytes_per_second / raw
    );
}

fn judge(seen: &Measured, direct: &Measured, raw: f64) {
    let added = seen.p50_ms - direct.p50_ms;
    let share = seen.bytes_per_second / raw;
    println!("  requests a second: target {RATE}: {}", verdict(seen.rate >= RATE));
    println!("  added latency: target {ADDED_MS} ms: {}", verdict(added <= ADDED_MS));
    println!("  one stream: target {SHARE} of a bare connection: {}", verdict(share >= SHARE));
}

/// What a tunnel costs that nobody uses, at each end.
async fn idle(platform: &roles::Platform, tunnels: usize, local: &str) -> anyhow::Result<()> {
    let few = platform.agent(0..2, "websocket", local).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (here, there) = (platform.resident()?, few.resident()?);
    drop(few);
    let many = platform.agent(0..tunnels + 2, "websocket", local).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let each = |now: f64, before: f64| (now - before) / tunnels as f64 / 1000.0;
    let (here, there) = (each(platform.resident()?, here), each(many.resident()?, there));
    println!(
        "{tunnels} idle tunnels: {here:.0} kB each at the platform, {there:.0} kB at the runtime   target {IDLE_KB} kB: {}",
        verdict(here <= IDLE_KB && there <= IDLE_KB)
    );
    Ok(())
}

async fn beside(
    folder: &std::path::Path,
    local: &str,
    direct: &Measured,
    raw: f64,
    seconds: usize,
    bytes: usize,
) {
    for peer in peers::ALL {
        match measured_peer(peer, folder, local, seconds, bytes).await {
            Ok(Some(seen)) => row(peer.what, &seen, direct, raw),
            Ok(None) => println!("{}: not in {}, skipped", peer.what, folder.display()),
            Err(error) => println!("{}: {error:#}", peer.what),
        }
    }
}

async fn measured_peer(
    peer: &peers::Peer,
    folder: &std::path::Path,
    local: &str,
    seconds: usize,
    bytes: usize,
) -> anyhow::Result<Option<Measured>> {
    let Some(running) = peer.start(folder, local).await? else { return Ok(None) };
    let target = Target::new(&running.address, "/webhooks");
    measure::all(&target, seconds, bytes).await.context("measuring it").map(Some)
}
