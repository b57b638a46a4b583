//! Many runtimes that report to one platform: how long a change takes until it is in the read model, and a list of everything.
//!
//! `slipway-bench reports [--runtimes N] [--applications N] [--seconds N] [--database URL]`. A body is answered after its commit, so the
//! time until the answer is the time until everybody can see it. Platform and generator are one process.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use slipway_server::{Config, Seams, Server};
use slipway_store::Store;
use slipway_store::identity::Subject;
use tokio_util::sync::CancellationToken;

use crate::{argument, load, request, serve, verdict};

const LAG_P95_MS: f64 = 5_000.0;
const LIST_P95_MS: f64 = 300.0;
/// Changes a second of the whole platform.
const RATE: u64 = 200;

pub(crate) async fn run() -> anyhow::Result<()> {
    let number =
        |name: &str, usual: usize| argument(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (runtimes, each, seconds) =
        (number("--runtimes", 100), number("--applications", 100), number("--seconds", 10));
    let folder = tempfile::tempdir()?;
    let (address, admin, keys) = platform(folder.path(), runtimes).await?;
    let keys = Arc::new(keys);
    let told = keys.clone();
    let everything: Arc<load::Make> = Arc::new(move |number| {
        let apps = (0..each).map(|app| application(app, "Healthy")).collect();
        let mut body = report(number, 1, apps);
        body["complete"] = json!({"page": 0, "last": true});
        ("complete", request("POST", "/2.0/api/events", &told[number], &body.to_string()))
    });
    let first = load::run(&address, runtimes.min(100), 0, runtimes, everything).await?;
    println!(
        "{runtimes} complete reports of {each}       all in {:.1} s, p95 {:.0} ms, {} failed",
        first.took.as_secs_f64(),
        first.percentile("complete", 0.95),
        first.failed()
    );
    let told = keys.clone();
    let changes: Arc<load::Make> = Arc::new(move |number| {
        let state = ["Healthy", "Degraded", "Progressing"][number % 3];
        let at = number % runtimes;
        let body = report(at, 2 + number as i64, vec![application(number % each, state)]);
        ("change", request("POST", "/2.0/api/events", &told[at], &body.to_string()))
    });
    let open = load::run(&address, 64, RATE, RATE as usize * seconds, changes).await?;
    let p95 = open.percentile("change", 0.95);
    println!(
        "changes at {RATE} /s             p50 {:.1} p95 {p95:.1} ms until they are seen, {} failed   target p95 {LAG_P95_MS} ms: {}",
        open.percentile("change", 0.5),
        open.failed(),
        verdict(p95 <= LAG_P95_MS && open.failed() == 0)
    );
    let list: Arc<load::Make> = Arc::new(move |number| {
        let page = format!("/api/applications?limit=100&offset={}", number % 100 * 100);
        ("list", request("GET", &page, &admin, ""))
    });
    let lists = load::run(&address, 4, 0, 50 * seconds, list).await?;
    let p95 = lists.percentile("list", 0.95);
    println!(
        "pages of {} Applications      p50 {:.1} p95 {p95:.1} ms, {} failed   target p95 {LIST_P95_MS} ms: {}",
        runtimes * each,
        lists.percentile("list", 0.5),
        lists.failed(),
        verdict(p95 <= LIST_P95_MS && lists.failed() == 0)
    );
    println!("memory of the process          {:.0} MiB", crate::resident("self")? / 1024.0 / 1024.0);
    Ok(())
}

fn report(runtime: usize, sequence: i64, entities: Vec<Value>) -> Value {
    json!({"runtime": format!("runtime-{runtime}"), "version": "bench", "cluster": "c", "sequence": sequence, "entities": entities})
}

/// As large as one with ten resources is.
fn application(number: usize, health: &str) -> Value {
    let name = format!("app-{number}");
    let resources: Vec<_> = (0..10)
        .map(|at| json!({"group": "apps", "kind": "Deployment", "namespace": "shop", "name": format!("part-{at}"), "status": "Synced", "health": health}))
        .collect();
    json!({"kind": "argoproj.io/Application", "namespace": "argocd", "name": name, "uid": "u", "resourceVersion": "1",
        "state": {"health": health, "sync": "Synced"},
        "body": {"namespace": "argocd", "name": name, "project": "default", "repoUrl": "https://git.example/shop.git", "path": "app",
            "targetRevision": "HEAD", "destination": "shop", "syncStatus": "Synced", "healthStatus": health,
            "summary": "all is well", "observedAt": "2026-01-01T00:00:00Z", "resources": resources}})
}

async fn platform(folder: &Path, runtimes: usize) -> anyhow::Result<(String, String, Vec<String>)> {
    let config =
        Config { data: folder.to_owned(), public_url: "http://bench".into(), network: Default::default() };
    let store = match argument("--database") {
        None => Store::open(folder)?,
        Some(url) => Store::connect(&url.parse()?)?,
    };
    let server = Server::beside(config, store, Seams::system(), CancellationToken::new())?;
    let first = server.first_start("admin@slipway.local").await?;
    let first = first.ok_or_else(|| anyhow::anyhow!("give it an empty database"))?;
    let account = server.first_account().await?.ok_or_else(|| anyhow::anyhow!("it was just made"))?;
    let mut keys = Vec::new();
    for number in 0..runtimes {
        let key = server.agent_key(account, Subject::Runtime, &format!("runtime-{number}")).await?;
        keys.push(key.expose().clone());
    }
    let address = serve(slipway_server::router(&server)).await?;
    Ok((address, first.api_key.expose().clone(), keys))
}
