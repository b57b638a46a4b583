//! The single writer: what it takes in on PostgreSQL beside SQLite and beside the bare database, and what runners cost that wait.
//!
//! `slipway-bench writer --database postgres://… [--runs N] [--runners N] [--only WORDS] [--rounds N]`. Both engines are measured
//! in turns in one run, every round is printed as it ends, then the medians: the machine is shared, so that ratios are what to
//! compare.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use slipway_model::AccountId;
use slipway_server::{Config, Seams, Server};
use slipway_store::Store;
use slipway_store::identity::Subject;
use tokio_util::sync::CancellationToken;

use crate::bare::{Bare, Kind};
use crate::{argument, load, request, serve};

const HOOK_BYTES: usize = 10_000;
/// A runner that is not held by then never will be.
const PARKING: std::time::Duration = std::time::Duration::from_secs(60);

struct Engine {
    name: &'static str,
    server: Server,
    store: Store,
    account: AccountId,
    address: String,
    key: String,
    hook: (String, String),
}

/// A round of announcements that is no other's.
const PUSHES: usize = 1_000;

fn sha(round: usize, number: usize) -> String {
    format!("{:040x}", round * 1_000_000 + number + 1)
}

/// What is measured, and how many callers there are at once.
const MEASURED: [(&str, usize); 4] = [
    ("POST runs, 16 at once", 16),
    ("POST runs, 1 at once", 1),
    ("list of 20, 8 at once", 8),
    ("webhooks of 10 kB, 16 at once", 16),
];

fn number(name: &str, usual: usize) -> usize {
    argument(name).and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// One caller is slower, and as much of it is enough.
fn calls(at_once: usize, runs: usize) -> usize {
    if at_once == 1 { runs / 4 } else { runs }
}

fn rounds() -> usize {
    number("--rounds", 3)
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let (runs, runners) = (number("--runs", 1_000), number("--runners", 1_000));
    let folders = [tempfile::tempdir()?, tempfile::tempdir()?];
    let url = argument("--database").context("give --database postgres://…, an empty one")?;
    println!("load of the machine: {}", load_average());
    let engines = [
        Engine::start("SQLite", folders[0].path(), Store::open(folders[0].path())?).await?,
        Engine::start("PostgreSQL", folders[1].path(), Store::connect(&url.parse()?)?).await?,
    ];
    let wanted = argument("--only");
    let measured: Vec<_> = MEASURED
        .into_iter()
        .filter(|(what, _)| wanted.as_deref().is_none_or(|only| what.contains(only)))
        .collect();
    let mut seen: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for round in 0..rounds() {
        for (what, at_once) in &measured {
            for engine in &engines {
                let before = engine.store.stats();
                let rate = engine.measure(what, *at_once, runs, round).await?;
                let after = engine.store.stats();
                let of_each = |count: u64| count as f64 / calls(*at_once, runs) as f64;
                let trips = of_each(after.round_trips - before.round_trips);
                let statements = of_each(after.statements - before.statements);
                let trips = match trips > 0.0 {
                    true => format!(", {trips:.1} round trips and {statements:.1} statements for each"),
                    false => String::new(),
                };
                println!("round {}: {:<10} {what:<32} {rate:>8.0} a second{trips}", round + 1, engine.name);
                seen.entry((what, engine.name)).or_default().push(rate);
            }
            if let Some((kind, group)) = bare_of(what, *at_once) {
                let (url, count) = (url.clone(), calls(*at_once, runs));
                let bare = move || Bare::connect(&url)?.per_second(kind, group, count);
                // The synchronous client refuses to run where tasks run.
                let rate = tokio::task::spawn_blocking(bare).await??;
                println!("round {}: {:<10} {what:<32} {rate:>8.0} a second", round + 1, "bare");
                seen.entry((what, "bare")).or_default().push(rate);
            }
        }
    }
    println!("load of the machine: {}", load_average());
    println!("{:<32} {:>10} {:>10} {:>8} {:>12}", "a second", "SQLite", "PostgreSQL", "ratio", "bare");
    for (what, _) in &measured {
        let [one, other] = ["SQLite", "PostgreSQL"].map(|engine| median(&seen[&(*what, engine)]));
        let bare = seen.get(&(*what, "bare")).map_or("-".to_owned(), |rates| format!("{:.0}", median(rates)));
        println!("{what:<32} {one:>10.0} {other:>10.0} {:>8.2} {bare:>12}", other / one);
    }
    if wanted.is_none() {
        for engine in &engines {
            engine.pushes(runs * 2).await?;
        }
    }
    if runners > 0 {
        for engine in &engines {
            engine.with_runners(runners, runs.min(600)).await?;
        }
    }
    Ok(())
}

/// What the bare database is asked for the same.
fn bare_of(what: &str, at_once: usize) -> Option<(Kind, usize)> {
    match what.split(' ').next() {
        Some("POST") => Some((Kind::Run, at_once)),
        Some("webhooks") => Some((Kind::Webhook { bytes: HOOK_BYTES }, at_once)),
        _ => None,
    }
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn median(rates: &[f64]) -> f64 {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

impl Engine {
    async fn start(name: &'static str, folder: &Path, store: Store) -> anyhow::Result<Self> {
        let config = Config {
            data: folder.to_owned(),
            public_url: "http://bench".into(),
            network: Default::default(),
        };
        let server = Server::beside(config, store.clone(), Seams::system(), CancellationToken::new())?;
        let first = server.first_start("admin@slipway.local").await?.context("give it an empty database")?;
        let account = server.first_account().await?.context("it was just made")?;
        let key = first.api_key.expose().clone();
        let address = serve(slipway_server::router(&server)).await?;
        let background = server.clone();
        tokio::spawn(async move { background.run().await });
        let mut engine = Self { name, server, store, account, address, key, hook: Default::default() };
        engine.prepare().await?;
        Ok(engine)
    }

    /// Pipelines whose builds nobody can take, and one that a provider's announcements start.
    async fn prepare(&mut self) -> anyhow::Result<()> {
        let steps = json!({"a": {"image": "x", "commands": ["true"]}});
        let frozen =
            json!({"metadata": {"name": "bench/frozen"}, "spec": {"concurrency": 0, "steps": steps}});
        self.call("POST", "/api/pipelines", &frozen).await?;
        let context = json!({"metadata": {"name": "lab"}, "spec": {"type": "git.gitlab",
            "data": {"auth": {"type": "basic", "password": "t"}}}});
        self.call("POST", "/api/contexts", &context).await?;
        let trigger = json!({"name": "push", "type": "git", "repo": "bench/app", "context": "lab", "events": ["push.heads"]});
        let pushed = json!({"metadata": {"name": "bench/pushed"},
            "spec": {"concurrency": 0, "triggers": [trigger], "steps": steps}});
        self.call("POST", "/api/pipelines", &pushed).await?;
        let hooks = self.call("GET", "/api/hooks", &Value::Null).await?;
        let id = hooks[0]["id"].as_str().context("a hook")?.to_owned();
        let shown = self.call("POST", &format!("/api/hooks/{id}/secret"), &json!({})).await?;
        let secret = shown["secret"].as_str().context("its secret")?.to_owned();
        self.hook = (format!("/api/webhooks/git/{id}"), secret);
        Ok(())
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut sender = load::connect(&self.address).await?;
        let response = sender.send_request(request(method, path, &self.key, &body)).await?;
        let status = response.status();
        let text = response.into_body().collect().await?.to_bytes();
        anyhow::ensure!(status.is_success(), "{method} {path}: {}", String::from_utf8_lossy(&text));
        Ok(serde_json::from_slice(&text)?)
    }

    async fn measure(&self, what: &str, at_once: usize, runs: usize, round: usize) -> anyhow::Result<f64> {
        let make = match what.split(' ').next() {
            Some("POST") => self.runs(),
            Some("list") => {
                let key = self.key.clone();
                Arc::new(move |_| ("list", request("GET", "/api/workflow?limit=20", &key, "")))
                    as Arc<load::Make>
            }
            _ => self.webhooks(round),
        };
        let outcome = load::run(&self.address, at_once, 0, calls(at_once, runs), make).await?;
        anyhow::ensure!(outcome.failed() == 0, "{what} on {}: {} failed", self.name, outcome.failed());
        self.quiet().await?;
        Ok(outcome.per_second())
    }

    fn runs(&self) -> Arc<load::Make> {
        let key = self.key.clone();
        Arc::new(move |_| ("run", request("POST", "/api/pipelines/run/bench%2Ffrozen", &key, "{}")))
    }

    fn webhooks(&self, round: usize) -> Arc<load::Make> {
        let ((path, secret), filler) = (self.hook.clone(), "x".repeat(HOOK_BYTES));
        Arc::new(move |number| {
            let sha = sha(round, number);
            let commit = json!({"id": sha, "message": filler, "author": {"name": "Ada"}, "added": [], "modified": [], "removed": []});
            let body = json!({"object_kind": "push", "ref": "refs/heads/main", "before": "1".repeat(40), "after": sha,
                "checkout_sha": sha, "user_username": "ada", "project": {"path_with_namespace": "bench/app"},
                "commits": [commit], "total_commits_count": 1});
            let mut made = request("POST", &path, "", &body.to_string());
            let headers = made.headers_mut();
            headers.remove("authorization");
            headers.insert("x-gitlab-event", "Push Hook".parse().expect("a header"));
            headers.insert("x-gitlab-token", secret.parse().expect("a header"));
            headers.insert("x-gitlab-event-uuid", sha.parse().expect("a header"));
            ("hook", made)
        })
    }

    /// How long a push waits for its build when nothing else happens, and amid many runs that are posted meanwhile.
    async fn pushes(&self, runs: usize) -> anyhow::Result<()> {
        let (mut alone, mut amid) = (Vec::new(), Vec::new());
        for round in 0..rounds() {
            alone.push(self.push(2 * round).await?);
            let (address, make) = (self.address.clone(), self.runs());
            let posting = tokio::spawn(async move { load::run(&address, 16, 0, runs, make).await });
            let (before, half) = (self.server_writes(), runs as u64 / 2);
            while self.server_writes() < before + half && !posting.is_finished() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            amid.push(self.push(2 * round + 1).await?);
            anyhow::ensure!(posting.await??.failed() == 0, "runs failed on {}", self.name);
            self.quiet().await?;
        }
        println!(
            "{:<12} a push has its build after {:.0} ms, amid {runs} runs that are posted after {:.0} ms",
            self.name,
            median(&alone),
            median(&amid)
        );
        Ok(())
    }

    /// Announces a push; until its build is there, in milliseconds.
    async fn push(&self, number: usize) -> anyhow::Result<f64> {
        let (_, announcement) = self.webhooks(PUSHES)(number);
        let began = std::time::Instant::now();
        let mut sender = load::connect(&self.address).await?;
        let response = sender.send_request(announcement).await?;
        anyhow::ensure!(response.status().is_success(), "the push was refused: {}", response.status());
        let built = format!("/api/workflow?limit=1&revision={}", sha(PUSHES, number));
        while self.call("GET", &built, &Value::Null).await?["workflows"]["total"].as_i64() < Some(1) {
            anyhow::ensure!(began.elapsed() < PARKING, "a push has no build after {PARKING:?}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    }

    fn server_writes(&self) -> u64 {
        self.store.stats().writes
    }

    /// Until the bus has every fact: what one measurement left behind is not the next one's.
    async fn quiet(&self) -> anyhow::Result<()> {
        loop {
            let health = self.call("GET", "/api/admin/health", &Value::Null).await?;
            if health["factsWaiting"].as_i64().unwrap_or_default() <= 0 {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Runs posted without runners and beside as many that wait, in turns.
    async fn with_runners(&self, runners: usize, runs: usize) -> anyhow::Result<()> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        let mut keys = Vec::with_capacity(runners);
        for some in (0..runners).collect::<Vec<_>>().chunks(64) {
            let made = some.iter().map(|number| {
                let (server, account) = (self.server.clone(), self.account);
                let name = format!("idle{number}");
                tokio::spawn(async move { server.agent_key(account, Subject::Runner, &name).await })
            });
            for key in made.collect::<Vec<_>>() {
                keys.push(key.await??.expose().clone());
            }
        }
        println!("{:<10} {runners} keys of runners are made", self.name);
        for round in 0..rounds() {
            alone.push(self.measure(MEASURED[0].0, MEASURED[0].1, runs, 0).await?);
            let looked = self.looked().await?;
            let waiting: Vec<_> = keys
                .iter()
                .enumerate()
                .map(|(number, key)| {
                    tokio::spawn(idle(self.address.clone(), format!("idle{number}"), key.clone()))
                })
                .collect();
            // Each has looked once, and written that it is there.
            let began = std::time::Instant::now();
            while self.held().await? < runners || self.looked().await? < looked + runners {
                anyhow::ensure!(
                    began.elapsed() < PARKING,
                    "{runners} runners were not all held within {PARKING:?}"
                );
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            let parked = began.elapsed().as_secs_f64();
            beside.push(self.measure(MEASURED[0].0, MEASURED[0].1, runs, 0).await?);
            for one in waiting {
                one.abort();
            }
            let began = std::time::Instant::now();
            while self.held().await? > 0 {
                anyhow::ensure!(began.elapsed() < PARKING, "runners that are gone are still held");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            println!(
                "round {}: {:<10} {:.0} a second alone, {:.0} beside {runners} that wait, held after {parked:.1} s",
                round + 1,
                self.name,
                alone[round],
                beside[round]
            );
        }
        let (alone, beside) = (median(&alone), median(&beside));
        println!(
            "{:<12} POST runs, 16 at once: {alone:.0} a second without runners, {beside:.0} beside {runners} that wait, {:.2}",
            self.name,
            beside / alone
        );
        Ok(())
    }

    async fn held(&self) -> anyhow::Result<usize> {
        self.metric("slipway_runner_calls_held ").await
    }

    async fn looked(&self) -> anyhow::Result<usize> {
        let looks = self.metric("slipway_runner_looks_total{by=\"runner\"} ").await?;
        Ok(looks + self.metric("slipway_runner_writes_total ").await?)
    }

    async fn metric(&self, name: &str) -> anyhow::Result<usize> {
        let mut sender = load::connect(&self.address).await?;
        let response = sender.send_request(request("GET", "/metrics", &self.key, "")).await?;
        let text = response.into_body().collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.context("the metric is there")?.parse()?)
    }
}

/// A runner with a free place and nothing to do.
async fn idle(address: String, name: String, key: String) -> anyhow::Result<()> {
    let body = json!({"runner": name, "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 20_000});
    let mut sender = load::connect(&address).await?;
    loop {
        sender.ready().await?;
        let response =
            sender.send_request(request("POST", "/api/agent/runner/sync", &key, &body.to_string())).await?;
        response.into_body().collect().await?;
    }
}
