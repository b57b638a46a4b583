//! A server on a free port, with its first administrator.

use std::path::{Path, PathBuf};

use serde_json::Value;
use slipway_model::AccountId;
use slipway_server::{Config, Seams, Server};
use slipway_store::identity::Subject;
use tokio_util::sync::CancellationToken;

pub(crate) struct Platform {
    pub(crate) url: String,
    pub(crate) admin_key: String,
    pub(crate) email: String,
    pub(crate) password: String,
    pub(crate) account: AccountId,
    pub(crate) server: Server,
    pub(crate) folder: tempfile::TempDir,
    shutdown: CancellationToken,
}

impl Drop for Platform {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Platform {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let config = Config { data: folder.path().to_owned(), public_url: url.clone() };
        let server = Server::open(config, Seams::system(), shutdown.clone()).unwrap();
        let first = server.first_start("admin@example.com").await.unwrap().expect("an empty database");
        let account = server.first_account().await.unwrap().unwrap();
        let app = slipway_server::router(&server, None);
        tokio::spawn(async move { axum::serve(listener, app).await });
        let background = server.clone();
        tokio::spawn(async move { background.run().await });
        Self {
            url,
            admin_key: first.api_key.expose().clone(),
            email: first.email,
            password: first.password.expose().clone(),
            account,
            server,
            folder,
            shutdown,
        }
    }

    pub(crate) async fn agent(&self, kind: Subject, name: &str) -> String {
        self.server.agent_key(self.account, kind, name).await.unwrap().expose().clone()
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        key: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let method: reqwest::Method = method.parse().unwrap();
        let mut request = reqwest::Client::new().request(method, format!("{}{path}", self.url));
        if !key.is_empty() {
            request = request.header("authorization", key);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, &self.admin_key, None).await;
        assert_eq!(status, 200, "GET {path}: {body}");
        body
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.call("POST", path, &self.admin_key, Some(body)).await;
        assert_eq!(status, 200, "POST {path}: {answer}");
        answer
    }

    pub(crate) fn clone_url(&self, repo: &str, key: &str) -> String {
        format!("{}/git/{repo}.git", self.url).replacen("http://", &format!("http://me:{key}@"), 1)
    }

    /// A pipeline on pushes to `repo`, with its steps inline.
    pub(crate) async fn pipeline(&self, name: &str, repo: &str) {
        let trigger =
            serde_json::json!({"name": "push", "type": "git", "repo": repo, "events": ["push.heads"]});
        let steps = serde_json::json!({"hello": {"image": "busybox", "commands": ["echo hello"]}});
        let body =
            serde_json::json!({"metadata": {"name": name}, "spec": {"triggers": [trigger], "steps": steps}});
        self.post("/api/pipelines", body).await;
    }
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = std::process::Command::new("git")
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

/// A working copy with one commit, ready to be pushed.
pub(crate) fn working_copy(folder: &Path, remote: &str) -> PathBuf {
    let path = folder.join("work");
    std::fs::create_dir_all(&path).unwrap();
    for arguments in [&["init", "-q", "-b", "main"][..], &["remote", "add", "origin", remote]] {
        assert!(git(&path, arguments).0);
    }
    commit(&path, "first");
    path
}

pub(crate) fn commit(work: &Path, text: &str) {
    std::fs::write(work.join("file.txt"), text).unwrap();
    for arguments in [&["add", "."][..], &["commit", "-q", "-m", text]] {
        let (good, output) = git(work, arguments);
        assert!(good, "{output}");
    }
}
