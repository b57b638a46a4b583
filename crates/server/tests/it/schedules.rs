//! Schedules: that one was due is written once, and its build is made once, whoever dies between the two.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};
use slipway_bus::{BusUrl, LiveUrl};
use slipway_server::{Config, Network, Parts, Role, Roles, Seams, Server};
use tokio_util::sync::CancellationToken;

struct Process {
    url: String,
    server: Server,
    shutdown: CancellationToken,
}

/// A process of the platform on this folder that does these things in the background.
async fn process(folder: &std::path::Path, roles: Roles, now_ms: &Arc<AtomicI64>) -> Process {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let config = Config { data: folder.to_owned(), public_url: url.clone(), network: Network::default() };
    let parts = Parts {
        database: format!("sqlite:{}", folder.display()).parse().unwrap(),
        bus: BusUrl::InProcess,
        cache: LiveUrl::InProcess,
        roles,
    };
    let (shutdown, clock) = (CancellationToken::new(), now_ms.clone());
    let seams = Seams::with_clock(move || clock.load(Ordering::SeqCst));
    let server = Server::connect(config, parts, seams, shutdown.clone()).await.unwrap();
    tokio::spawn(slipway_server::serve(listener, slipway_server::router(&server, None), shutdown.clone()));
    let background = server.clone();
    tokio::spawn(async move { background.run().await });
    Process { url, server, shutdown }
}

impl Process {
    async fn get(&self, path: &str, key: &str) -> Value {
        let asked = reqwest::Client::new().get(format!("{}{path}", self.url)).header("authorization", key);
        asked.send().await.unwrap().json().await.unwrap()
    }

    async fn builds(&self, key: &str) -> usize {
        self.get("/api/workflow?limit=50", key).await["workflows"]["docs"].as_array().unwrap().len()
    }

    async fn until(&self, what: &str, key: &str, path: &str, good: impl Fn(&Value) -> bool) {
        for _ in 0..600 {
            if good(&self.get(path, key).await) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("it did not come to this: {what}");
    }

    /// Nothing is finished, nothing is given back.
    fn dies(self) {
        self.shutdown.cancel();
        self.server.close();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_was_due_starts_one_build_whoever_dies_before_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let noon = 1_767_268_800_000_i64;
    let now_ms = Arc::new(AtomicI64::new(noon - 90_000));
    let some = |roles: &[Role]| Roles::of(roles.iter().copied()).unwrap();
    // It finds what is due, and follows up nothing.
    let first = process(folder.path(), some(&[Role::PipelinesApi, Role::CronExecutor]), &now_ms).await;
    let key = first.server.first_start("admin@example.com").await.unwrap().unwrap().api_key.expose().clone();
    let cron = json!([{"name": "noon", "type": "cron", "expression": "0 12 * * *", "message": "m"}]);
    let body = json!({"metadata": {"name": "c/noon"}, "spec": {"steps": {"s": {"image": "x"}}, "cronTriggers": cron}});
    let made =
        reqwest::Client::new().post(format!("{}/api/pipelines", first.url)).header("authorization", &key);
    assert_eq!(made.json(&body).send().await.unwrap().status(), 200);
    now_ms.store(noon + 1_000, Ordering::SeqCst);
    first
        .until("it was due", &key, "/api/admin/health", |health| health["factsWaiting"].as_i64() >= Some(1))
        .await;
    assert_eq!(first.builds(&key).await, 0, "nobody here follows it up");
    first.dies();
    // The next one looks for what is due again, too.
    let second = process(folder.path(), Roles::all(), &now_ms).await;
    second
        .until("its build", &key, "/api/workflow?limit=50", |page| page["workflows"]["total"] == json!(1))
        .await;
    let rounds = |health: &Value| {
        let jobs = health["jobs"].as_array().unwrap();
        jobs.iter().find(|job| job["name"] == "schedules").and_then(|job| job["rounds"].as_u64()).unwrap_or(0)
    };
    second
        .until("it looked again, and everything was followed up", &key, "/api/admin/health", |health| {
            rounds(health) >= 2 && health["factsWaiting"] == json!(0)
        })
        .await;
    assert_eq!(second.builds(&key).await, 1);
    now_ms.store(noon + 24 * 60 * 60 * 1000, Ordering::SeqCst);
    second
        .until("the next day's", &key, "/api/workflow?limit=50", |page| {
            page["workflows"]["total"] == json!(2)
        })
        .await;
    second.dies();
}
