//! A server on a free port, with its first administrator.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value;
use slipway_model::AccountId;
use slipway_server::{Config, Network, Seams, Server};
use slipway_store::Store;
use slipway_store::identity::Subject;
use slipway_testkit::postgres;
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
    ahead_ms: Arc<AtomicI64>,
    held_ms: Arc<AtomicI64>,
    http: reqwest::Client,
    /// On PostgreSQL, the name of this platform's own database.
    database: Option<String>,
}

impl Drop for Platform {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Platform {
    pub(crate) async fn start() -> Self {
        Self::start_with(Network::default()).await
    }

    pub(crate) async fn start_with(network: Network) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let config = Config { data: folder.path().to_owned(), public_url: url.clone(), network };
        let ahead_ms = Arc::new(AtomicI64::new(0));
        let held_ms = Arc::new(AtomicI64::new(0));
        let (ahead, held, system) = (ahead_ms.clone(), held_ms.clone(), Seams::system());
        let seams = Seams::with_clock(move || {
            let now = match held.load(Ordering::SeqCst) {
                0 => system.now_ms(),
                held => held,
            };
            now + ahead.load(Ordering::SeqCst)
        });
        // SLIPWAY_TEST_DATABASE=postgres runs the same tests on PostgreSQL, each with a database of its own.
        let on_postgres = std::env::var("SLIPWAY_TEST_DATABASE").as_deref() == Ok("postgres");
        let address = on_postgres.then(|| postgres::shared().database());
        let server = match &address {
            Some(address) => {
                let store = Store::connect(&address.parse().unwrap()).unwrap();
                Server::beside(config, store, seams, shutdown.clone()).unwrap()
            }
            None => Server::open(config, seams, shutdown.clone()).unwrap(),
        };
        let database = address.and_then(|address| Some(address.rsplit_once('/')?.1.to_owned()));
        let first = server.first_start("admin@example.com").await.unwrap().expect("an empty database");
        let account = server.first_account().await.unwrap().unwrap();
        let app = slipway_server::router(&server);
        tokio::spawn(slipway_server::serve(listener, app, shutdown.clone()));
        let background = server.clone();
        tokio::spawn(async move { background.run().await });
        Self {
            url,
            admin_key: first.api_key.expose().clone(),
            email: first.email,
            password: first.password.as_ref().expect("nobody chose one").expose().clone(),
            account,
            server,
            folder,
            shutdown,
            ahead_ms,
            held_ms,
            database,
            http: reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap(),
        }
    }

    /// Past the platform, into its database: what an older version left there, or somebody who has the machine.
    pub(crate) fn sql(&self, text: &str) {
        if let Some(database) = &self.database {
            let server = postgres::shared();
            let schemas = "SELECT string_agg(nspname, ', ') FROM pg_namespace WHERE nspname NOT LIKE 'pg%' \
                 AND nspname NOT IN ('information_schema', 'public')";
            let path = server.psql(database, schemas).unwrap();
            server.psql(database, &format!("SET search_path = {path}; {text}")).unwrap();
            return;
        }
        let script = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1],timeout=10); c.executescript(sys.argv[2]); c.commit()";
        let done = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(self.folder.path().join("slipway.db"))
            .arg(text)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Every fact, in order.
    pub(crate) fn facts(&self) -> Vec<Value> {
        let text = if let Some(database) = &self.database {
            let sql = "SELECT body FROM outbox.facts ORDER BY seq";
            postgres::shared().psql(database, sql).unwrap()
        } else {
            let script = "import sqlite3,sys\nfor (body,) in sqlite3.connect(sys.argv[1],timeout=10).execute('SELECT body FROM facts ORDER BY seq'): print(body)";
            let file = self.folder.path().join("slipway.db");
            let done = std::process::Command::new("python3").args(["-c", script]).arg(file).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8(done.stdout).unwrap()
        };
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Whether these words stand anywhere in the database or in a file beside it.
    pub(crate) fn holds(&self, words: &str) -> bool {
        let in_files = std::fs::read_dir(self.folder.path()).unwrap().flatten().any(|entry| {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            bytes.windows(words.len()).any(|window| window == words.as_bytes())
        });
        let in_tables = self.database.as_ref().is_some_and(|database| {
            let all = "SELECT query_to_xml(format('SELECT * FROM %I.%I', table_schema, table_name), true, true, '') \
                 FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')";
            let text = postgres::shared().psql(database, all).unwrap();
            assert!(text.contains("admin@example.com"), "all tables were read");
            text.contains(words)
        });
        in_files || in_tables
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// The server's clock moves on.
    pub(crate) fn pass(&self, ms: i64) {
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// The server's clock stands still, so that nothing depends on how fast this machine is; [`Self::pass`] moves it.
    pub(crate) fn hold_the_clock(&self) {
        self.held_ms.store(Seams::system().now_ms(), Ordering::SeqCst);
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
        let mut request = self.http.request(method, format!("{}{path}", self.url));
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

    /// Somebody who was invited to the caller's account and came; gives back their id and a key of theirs.
    pub(crate) async fn member_of(&self, key: &str, email: &str, role: &str) -> (String, String) {
        let browser = self.invited(key, email, role).await;
        let (status, made) =
            browser.send(self, "POST", "/api/auth/key", Some(serde_json::json!({"name": "k"}))).await;
        assert_eq!(status, 200, "{made}");
        (browser.user["_id"].as_str().unwrap().to_owned(), made.as_str().unwrap().to_owned())
    }

    pub(crate) async fn member(&self, email: &str, role: &str) -> (String, String) {
        self.member_of(&self.admin_key, email, role).await
    }

    pub(crate) async fn invited(&self, key: &str, email: &str, role: &str) -> Browser {
        let body = serde_json::json!({"email": email, "role": role});
        let (status, made) = self.call("POST", "/api/invitations", key, Some(body)).await;
        assert_eq!(status, 200, "{made}");
        let token = made["url"].as_str().unwrap().split_once('#').unwrap().1.to_owned();
        let body = serde_json::json!({"token": token, "name": email, "password": PASSWORD});
        Browser::enter(self, "/api/auth/invitation/accept", &body).await.unwrap()
    }

    /// Another account with an administrator of its own: its id and a key.
    pub(crate) async fn account(&self, name: &str) -> (String, String) {
        let email = format!("admin@{name}.example");
        let made =
            self.post("/api/admin/accounts", serde_json::json!({"name": name, "adminEmail": email})).await;
        let token = made["invitationUrl"].as_str().unwrap().split_once('#').unwrap().1.to_owned();
        let body = serde_json::json!({"token": token, "password": PASSWORD});
        let browser = Browser::enter(self, "/api/auth/invitation/accept", &body).await.unwrap();
        let (_, key) =
            browser.send(self, "POST", "/api/auth/key", Some(serde_json::json!({"name": "k"}))).await;
        (made["account"]["_id"].as_str().unwrap().to_owned(), key.as_str().unwrap().to_owned())
    }

    pub(crate) async fn sign_in(&self, email: &str, password: &str) -> Result<Browser, u16> {
        let body = serde_json::json!({"email": email, "password": password});
        Browser::enter(self, "/api/auth/login", &body).await
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

pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// A browser that is signed in: its cookie, and the token that its page has.
#[derive(Clone)]
pub(crate) struct Browser {
    pub(crate) cookie: String,
    pub(crate) csrf: String,
    pub(crate) user: Value,
}

impl Browser {
    async fn enter(platform: &Platform, path: &str, body: &Value) -> Result<Self, u16> {
        let answer = platform.http.post(format!("{}{path}", platform.url)).json(body).send().await.unwrap();
        if answer.status() != 200 {
            return Err(answer.status().as_u16());
        }
        Ok(Self::from_answer(answer).await)
    }

    pub(crate) async fn from_answer(answer: reqwest::Response) -> Self {
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let user: Value = answer.json().await.unwrap();
        Self { cookie, csrf: user["csrfToken"].as_str().unwrap().to_owned(), user }
    }

    pub(crate) fn request(&self, platform: &Platform, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method: reqwest::Method = method.parse().unwrap();
        platform
            .http
            .request(method, format!("{}{path}", platform.url))
            .header("cookie", &self.cookie)
            .header("x-csrf-token", &self.csrf)
    }

    pub(crate) async fn send(
        &self,
        platform: &Platform,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let mut request = self.request(platform, method, path);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}
