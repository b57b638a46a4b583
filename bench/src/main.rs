//! The control plane's API and its durable intake, beside a bare handler and the disk itself, in one run.
//!
//! `slipway-bench [--database URL] [--builds N] [--seconds N]`, `slipway-bench writer`, see [`writer`], `slipway-bench tunnel`, see [`tunnel`], or `slipway-bench reports`, see [`reports`]. Ratios are what to compare: the machine is shared, and
//! the generator runs on the same cores.

mod bare;
mod load;
mod reports;
mod tunnel;
mod writer;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::Full;
use serde_json::json;
use slipway_model::{BuildId, PipelineId};
use slipway_server::{Config, Seams, Server};
use slipway_store::builds::NewBuild;
use slipway_store::identity::Subject;
use slipway_store::{Scope, Store, builds};
use tokio_util::sync::CancellationToken;

const CONNECTIONS: usize = 64;
const PIPELINES: usize = 1_000;
/// A project holds no more than 500.
const IN_PROJECT: usize = 400;
/// The targets of the service objectives.
const MIXED_RATE: u64 = 1_000;
const READ_P99_MS: f64 = 100.0;
const WRITE_P99_MS: f64 = 300.0;
const DASHBOARD_RATE: u64 = 100;
const DASHBOARD_P99_MS: f64 = 300.0;
const INTAKE_RATE: u64 = 2_000;
const INTAKE_P99_MS: f64 = 500.0;
const BURST: usize = 10_000;
const BURST_WITHIN: Duration = Duration::from_secs(5);
const INTAKE_BYTES: usize = 10_000;

fn argument(name: &str) -> Option<String> {
    let mut words = std::env::args().skip_while(|word| word != name);
    words.next().and_then(|_| words.next())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("writer") => return writer::run().await,
        Some("tunnel") => return tunnel::run().await,
        Some(tunnel::roles::PLATFORM) => return tunnel::roles::platform().await,
        Some(tunnel::roles::AGENT) => return tunnel::roles::agent().await,
        Some("reports") => return reports::run().await,
        _ => {}
    }
    let number =
        |name: &str, usual: usize| argument(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (builds, seconds) = (number("--builds", 50_000), number("--seconds", 10));
    let folder = tempfile::tempdir()?;
    let synced = synced_per_second(folder.path(), Duration::from_secs(2))?;
    println!("fdatasync of 4 KiB                      {synced:>9.0} /s");

    let bare = serve(axum::Router::new().route("/", axum::routing::get(|| async { "hello" }))).await?;
    let hello: Arc<load::Make> = Arc::new(|_| ("hello", request("GET", "/", "", "")));
    load::run(&bare, CONNECTIONS, 0, 2_000, hello.clone()).await?;
    let bare_rate = load::run(&bare, CONNECTIONS, 0, 10_000 * seconds.min(5), hello).await?.per_second();
    println!("bare handler                            {bare_rate:>9.0} /s");

    let (address, key, runtime) = platform(folder.path(), builds).await?;
    let dashboard = dashboard(&key);
    let mixed: Arc<load::Make> = Arc::new(move |number| match number % 10 {
        0 | 5 => (
            "write",
            request(
                "POST",
                "/api/pipelines",
                &key,
                &pipeline(&format!("new{}/p{number}", number / IN_PROJECT)),
            ),
        ),
        1 | 6 => (
            "read",
            request(
                "GET",
                &format!("/api/pipelines/{}", seeded_name(number % PIPELINES).replace('/', "%2F")),
                &key,
                "",
            ),
        ),
        _ => ("read", request("GET", "/api/workflow?limit=20", &key, "")),
    });
    load::run(&address, CONNECTIONS, 0, 500, offset(&mixed, 10_000_000)).await?;
    let most = load::run(&address, CONNECTIONS, 0, 500 * seconds, offset(&mixed, 20_000_000)).await?;
    println!(
        "API 80/20, {builds} builds, at most        {:>9.0} /s   {:.3} of the bare handler, {} failed   target {MIXED_RATE} /s: {}",
        most.per_second(),
        most.per_second() / bare_rate,
        most.failed(),
        verdict(most.per_second() >= MIXED_RATE as f64 && most.failed() == 0)
    );
    let rate = within_reach(MIXED_RATE, &most);
    let open = load::run(&address, CONNECTIONS, rate, rate as usize * seconds, mixed).await?;
    let (read, write) = (open.percentile("read", 0.99), open.percentile("write", 0.99));
    println!(
        "API 80/20 at {rate} /s                      read p50 {:.1} p99 {read:.1} ms, write p50 {:.1} p99 {write:.1} ms, {} failed   \
         target p99 {READ_P99_MS} and {WRITE_P99_MS} ms at {MIXED_RATE} /s: {}",
        open.percentile("read", 0.5),
        open.percentile("write", 0.5),
        open.failed(),
        verdict(rate == MIXED_RATE && read <= READ_P99_MS && write <= WRITE_P99_MS && open.failed() == 0)
    );

    let open = load::run(&address, CONNECTIONS, DASHBOARD_RATE, DASHBOARD_RATE as usize * seconds, dashboard)
        .await?;
    let p99 = open.percentile("dashboard", 0.99);
    println!(
        "GraphQL dashboard at {DASHBOARD_RATE} /s             p50 {:.1} p99 {p99:.1} ms, {} failed   target p99 {DASHBOARD_P99_MS} ms: {}",
        open.percentile("dashboard", 0.5),
        open.failed(),
        verdict(p99 <= DASHBOARD_P99_MS && open.failed() == 0)
    );

    let filler = "x".repeat(INTAKE_BYTES);
    let intake: Arc<load::Make> = Arc::new(move |number| {
        let body = json!({
            "runtime": "bench", "version": filler, "cluster": "c", "ingressUrl": "", "sequence": number + 1,
            "removed": [{"kind": "argoproj.io/Application", "namespace": "ns", "name": format!("app{number}")}],
        });
        ("intake", request("POST", "/2.0/api/events", &runtime, &body.to_string()))
    });
    let most = load::run(&address, CONNECTIONS, 0, BURST, intake.clone()).await?;
    println!(
        "intake of 10 kB, durable, {BURST} at once  {:>9.0} /s   {:.2} of fdatasync, {:.3} of the bare handler, all in {:.1} s, {} failed   \
         target {} s: {}",
        most.per_second(),
        most.per_second() / synced,
        most.per_second() / bare_rate,
        most.took.as_secs_f64(),
        most.failed(),
        BURST_WITHIN.as_secs(),
        verdict(most.took <= BURST_WITHIN && most.failed() == 0)
    );
    let rate = within_reach(INTAKE_RATE, &most);
    let open = load::run(&address, CONNECTIONS, rate, rate as usize * seconds, intake).await?;
    let p99 = open.percentile("intake", 0.99);
    println!(
        "intake at {rate} /s                         p50 {:.1} p99 {p99:.1} ms, {} failed   target p99 {INTAKE_P99_MS} ms at {INTAKE_RATE} /s: {}",
        open.percentile("intake", 0.5),
        open.failed(),
        verdict(rate == INTAKE_RATE && p99 <= INTAKE_P99_MS && open.failed() == 0)
    );
    Ok(())
}

fn verdict(held: bool) -> &'static str {
    if held { "held" } else { "missed" }
}

/// The target, or 70 % of what this machine can do at most when that is less: an open loop beyond it measures its queue.
fn within_reach(target: u64, most: &load::Outcome) -> u64 {
    target.min((most.per_second() * 0.7) as u64).max(1)
}

/// Bytes of a process in memory: its number, or `self`.
fn resident(process: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib * 1024.0)
}

fn offset(make: &Arc<load::Make>, by: usize) -> Arc<load::Make> {
    let make = make.clone();
    Arc::new(move |number| make(number + by))
}

fn request(method: &str, path: &str, key: &str, body: &str) -> http::Request<Full<Bytes>> {
    http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "bench")
        .header("authorization", key)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .expect("a plain request")
}

/// What a page that shows everything asks for.
fn dashboard(key: &str) -> Arc<load::Make> {
    let query = "{ me { name } builds(limit: 50) { id status pipelineName created finished branchName revision message } \
                 applications { edges { node { metadata { runtime namespace name } syncStatus healthStatus summary } } } limitsStatus { states { name used limit } } }";
    let (key, body) = (key.to_owned(), json!({ "query": query }).to_string());
    Arc::new(move |_| ("dashboard", request("POST", "/2.0/api/graphql", &key, &body)))
}

fn pipeline(name: &str) -> String {
    json!({"metadata": {"name": name}, "spec": {"steps": {"a": {"image": "x", "commands": ["true"]}}}})
        .to_string()
}

fn synced_per_second(folder: &Path, during: Duration) -> anyhow::Result<f64> {
    let mut file = std::fs::File::create(folder.join("synced"))?;
    let (started, mut count) = (Instant::now(), 0u32);
    while started.elapsed() < during {
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

async fn serve(app: axum::Router) -> anyhow::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// A control plane with an administrator, pipelines and builds; where it is, the administrator's key and a runtime's.
async fn platform(folder: &Path, count: usize) -> anyhow::Result<(String, String, String)> {
    let config =
        Config { data: folder.to_owned(), public_url: "http://bench".into(), network: Default::default() };
    let stop = CancellationToken::new();
    let store = match argument("--database") {
        None => Store::open(folder)?,
        Some(url) => Store::connect(&url.parse()?)?,
    };
    let server = Server::beside(config, store.clone(), Seams::system(), stop)?;
    let first = server.first_start("admin@slipway.local").await?.context("give it an empty database")?;
    let account = server.first_account().await?.context("it was just made")?;
    let key = first.api_key.expose().clone();
    let runtime = server.agent_key(account, Subject::Runtime, "bench").await?.expose().clone();
    let address = serve(slipway_server::router(&server)).await?;
    let scope = Scope::of(account);
    for start in (0..count).step_by(1_000) {
        store
            .write(move |tx| {
                for number in start..(start + 1_000).min(count) {
                    let id = BuildId::from_parts(number as u64, [7; 5]);
                    let pipeline = PipelineId::from_parts((number % PIPELINES) as u64, [8; 5]);
                    let (order, cause) = (json!({"source": {"location": "inline", "yaml": ""}, "variables": [], "commit": null, "webhook": false}), format!("bench {number}"));
                    let new = NewBuild { id, pipeline, pipeline_name: "bench/p0", order: &order, cause: &cause, queue: Default::default() };
                    builds::create(tx, scope, &new, number as i64)?;
                }
                Ok(())
            })
            .await?;
    }
    let seed_key = key.clone();
    let seed: Arc<load::Make> = Arc::new(move |number| {
        ("seed", request("POST", "/api/pipelines", &seed_key, &pipeline(&seeded_name(number))))
    });
    let seeded = load::run(&address, 16, 0, PIPELINES, seed).await?;
    anyhow::ensure!(seeded.failed() == 0, "{} of {PIPELINES} pipelines could not be made", seeded.failed());
    Ok((address, key, runtime))
}

fn seeded_name(number: usize) -> String {
    format!("bench{}/p{number}", number / IN_PROJECT)
}
