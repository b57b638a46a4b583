//! Processes of the built binary, and a `git` that pushes to them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_testkit::{postgres, rabbitmq, redis};

/// The most builds that one answer holds.
const PAGE: usize = 500;

/// The binary, with nothing of the person whose machine this is: no contexts, no port, no data folder that a platform of
/// theirs may hold.
pub(crate) fn command() -> Command {
    static HOME: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_slipway"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SLIPWAY_") && name != "SLIPWAY_CACHE" {
            command.env_remove(name);
        }
    }
    command
        .env("HOME", HOME.path())
        .env("SLIPWAY_CONFIG", HOME.path().join("contexts.json"))
        .env("SLIPWAY_LISTEN", "127.0.0.1:0")
        .env("SLIPWAY_DATA", HOME.path().join("data"));
    command
}

pub(crate) fn slipway(arguments: &[&str]) -> Output {
    slipway_with(&[], arguments)
}

pub(crate) fn slipway_with(variables: &[(&str, String)], arguments: &[&str]) -> Output {
    let variables = variables.iter().map(|(name, value)| (name, value));
    command().envs(variables).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// What all processes of one platform share.
pub(crate) struct Shared {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) database: String,
    pub(crate) bus: String,
    pub(crate) cache: String,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self::on(postgres::shared(), rabbitmq::shared())
    }

    pub(crate) fn on(postgres: &postgres::Server, rabbitmq: &rabbitmq::Server) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            database: postgres.database(),
            bus: rabbitmq.host(),
            cache: redis::shared().url(),
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn start(&self, roles: &str) -> Process {
        let data = self.data();
        let mut arguments = vec!["--database", &self.database, "--bus", &self.bus, "--cache", &self.cache];
        arguments.extend(["--data", data.to_str().unwrap()]);
        if !roles.is_empty() {
            arguments.extend(["--roles", roles]);
        }
        Process::start(&arguments)
    }
}

pub(crate) struct Process {
    child: Child,
    pub(crate) url: String,
    /// Of the first administrator, when this process made it.
    pub(crate) first_key: Option<String>,
}

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", arguments)
    }

    /// Where another one listened before.
    pub(crate) fn start_at(listen: &str, arguments: &[&str]) -> Self {
        let mut child = command()
            .args(["server", "--output", "json", "--listen", listen])
            .args(arguments)
            .env("SLIPWAY_LOG", "info")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("the process says that it is ready");
        Self {
            child,
            url: ready["url"].as_str().unwrap().to_owned(),
            first_key: ready["apiKey"].as_str().map(str::to_owned),
        }
    }

    /// SIGTERM; how long it took, and whether it went well.
    pub(crate) fn stop(mut self) -> (Duration, Option<i32>) {
        let asked = Instant::now();
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        let status = self.child.wait().unwrap();
        (asked.elapsed(), status.code())
    }

    /// As `kill -9` does; returns when it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        key: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(40)).build().unwrap();
        let mut request = client
            .request(method.parse().unwrap(), format!("{}{path}", self.url))
            .header("authorization", key);
        if let Some(body) = body {
            request = request.json(&body);
        }
        match request.send().await {
            Ok(response) => {
                let status = response.status().as_u16();
                let text = response.text().await.unwrap_or_default();
                (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
            }
            Err(error) => (0, Value::String(error.to_string())),
        }
    }

    pub(crate) async fn good(&self, method: &str, path: &str, key: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.call(method, path, key, body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    }

    /// A key for a runner, as a runner comes to one: it trades a token for it.
    pub(crate) async fn runner_key(&self, key: &str, name: &str) -> String {
        let token = self.good("POST", "/api/runners", key, Some(json!({"name": name}))).await;
        let secret = "0123456789abcdef".repeat(4);
        // Its SHA-256.
        let digest = "a8ae6e6ee929abea3afcfc5258c8ccd6f85273e0d4626d26c7279f3250f77c8e";
        let body = json!({"token": token["token"], "secretDigest": digest});
        let registered = self.good("POST", "/api/agent/runner/register", key, Some(body)).await;
        format!("{}.{secret}", registered["keyId"].as_str().unwrap())
    }

    pub(crate) async fn repository_with_pipeline(&self, key: &str) {
        self.good("POST", "/api/repos", key, Some(json!({"name": "demo/app"}))).await;
        let trigger = json!({"name": "push", "type": "git", "repo": "demo/app", "events": ["push.heads"]});
        let steps = json!({"hello": {"image": "busybox", "commands": ["echo hello"]}});
        let body =
            json!({"metadata": {"name": "demo/build"}, "spec": {"triggers": [trigger], "steps": steps}});
        self.good("POST", "/api/pipelines", key, Some(body)).await;
    }

    /// All of them, page by page; a build that a newer one pushed onto the next page counts once.
    pub(crate) async fn builds(&self, key: &str) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        for page in 1.. {
            let path = format!("/api/workflow?limit={PAGE}&page={page}");
            let (status, answer) = self.call("GET", &path, key, None).await;
            if status != 200 {
                return Vec::new();
            }
            let docs = answer["workflows"]["docs"].as_array().cloned().unwrap_or_default();
            let last = docs.len() < PAGE;
            all.extend(docs);
            if last {
                break;
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|build| seen.insert(build["id"].to_string()));
        all
    }

    pub(crate) async fn wait_for_builds(&self, key: &str, count: usize, within: Duration) -> Vec<Value> {
        let until = Instant::now() + within;
        loop {
            let found = self.builds(key).await;
            if found.len() >= count || Instant::now() > until {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn remote(&self, key: &str) -> String {
        format!("{}/git/demo/app.git", self.url).replacen("http://", &format!("http://me:{key}@"), 1)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How far each chain of the audit trail is anchored.
pub(crate) fn anchored(data: &Path) -> Vec<i64> {
    let text = std::fs::read_to_string(data.join("audit.anchor")).unwrap();
    let lines: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    lines.values().filter_map(|line| line["seq"].as_i64()).collect()
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("GIT_AUTHOR_EMAIL", "ada@example.com")
        .env("GIT_COMMITTER_NAME", "Ada")
        .env("GIT_COMMITTER_EMAIL", "ada@example.com")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), text)
}

pub(crate) fn working_copy(folder: &Path) -> PathBuf {
    let path = folder.join("work");
    std::fs::create_dir_all(&path).unwrap();
    assert!(git(&path, &["init", "-q", "-b", "main"]).0);
    path
}

/// The commit's id.
pub(crate) fn commit(work: &Path, text: &str) -> String {
    std::fs::write(work.join("file.txt"), text).unwrap();
    for arguments in [&["add", "."][..], &["commit", "-q", "-m", text]] {
        let (good, output) = git(work, arguments);
        assert!(good, "{output}");
    }
    git(work, &["rev-parse", "HEAD"]).1.trim().to_owned()
}
