//! A Gitea of the test's own: a Git provider with webhooks, and an identity provider with OpenID Connect.
//!
//! `scripts/gitea.sh` builds it and writes its configuration; everything else is made through its API, which is asked
//! with curl so that a test of any kind may use it. What fails is a panic with what Gitea said.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};

use crate::folder::{Folder, signal, wait_until};
use crate::free_port;

const ADMIN: &str = "root-admin";

/// Of every user that is made here.
pub const PASSWORD: &str = "correct horse battery staple";

pub struct Server {
    folder: Folder,
    program: PathBuf,
    port: u16,
    running: Mutex<Option<Child>>,
    token: String,
    names: AtomicU32,
}

/// A program that may ask Gitea who somebody is.
pub struct OauthApp {
    pub client_id: String,
    pub client_secret: String,
}

/// The one that tests of this process share; [`Server::name`] keeps them apart.
pub fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

fn script(arguments: &[&str]) -> String {
    let output = Command::new(crate::script("gitea.sh"))
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("scripts/gitea.sh can be started");
    assert!(output.status.success(), "scripts/gitea.sh {} failed", arguments.join(" "));
    String::from_utf8(output.stdout).expect("a script prints text").trim().to_owned()
}

impl Server {
    pub fn start() -> Self {
        let program = PathBuf::from(script(&["build"]));
        // What is in the cache may be readable for its owner alone, so it runs as whoever runs the test.
        let folder = Folder::new("gitea", "root");
        let port = free_port();
        script(&["configure", folder.path().to_str().expect("the folder's name is text"), &port.to_string()]);
        let mut server = Self {
            folder,
            program,
            port,
            running: Mutex::new(None),
            token: String::new(),
            names: AtomicU32::new(0),
        };
        server.run();
        server.token = server.administrator();
        server
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.folder.command(&self.program);
        command
            .args(arguments)
            .arg("--config")
            .arg(self.folder.path().join("app.ini"))
            .arg("--work-path")
            .arg(self.folder.path())
            .env("GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT", "true");
        command
    }

    /// Starts it again after [`Self::stop`], on the same port and data.
    pub fn run(&self) {
        let child = self.folder.start("gitea", &mut self.command(&["web"]));
        *self.running.lock().expect("not poisoned") = Some(child);
        let health = format!("{}/api/healthz", self.url());
        wait_until(
            "Gitea",
            Duration::from_secs(90),
            || self.folder.log("gitea"),
            || {
                let asked = Command::new("curl").args(["-fs", "-o", "/dev/null", &health]).status();
                asked.is_ok_and(|status| status.success())
            },
        );
    }

    /// As a crash would.
    pub fn stop(&self) {
        if let Some(mut child) = self.running.lock().expect("not poisoned").take() {
            signal(child.id(), "KILL").expect("kill can be started");
            let _ = child.wait();
        }
    }

    fn administrator(&self) -> String {
        let email = format!("{ADMIN}@gitea.example");
        let create = ["admin", "user", "create", "--admin", "--must-change-password=false"];
        let who = ["--username", ADMIN, "--email", &email, "--password", PASSWORD];
        let made = self.command(&[&create[..], &who].concat()).output().expect("gitea can be started");
        assert!(made.status.success(), "gitea admin user create: {}", self.folder.log("gitea"));
        self.token(ADMIN)
    }

    /// Where it is, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn admin_token(&self) -> &str {
        &self.token
    }

    /// What it wrote, for the message of a test that fails.
    pub fn log(&self) -> String {
        self.folder.log("gitea")
    }

    /// A name that no other test of this process has.
    pub fn name(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// `POST`, `/repos/…/hooks` and the like as the administrator; the answer, `Null` for an empty one.
    pub fn api(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, answer) =
            self.call(method, path, &["-H", &format!("Authorization: token {}", self.token)], body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}\n{}", self.log());
        answer
    }

    /// The same as the owner of a token; with the status, whatever it is.
    pub fn api_as(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        self.call(method, path, &["-H", &format!("Authorization: token {token}")], body)
    }

    fn call(&self, method: &str, path: &str, access: &[&str], body: Option<Value>) -> (u16, Value) {
        let address = format!("{}/api/v1{path}", self.url());
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60", "-w", "\n%{http_code}", "-X", method]).args(access);
        if let Some(body) = body {
            command.args(["-H", "Content-Type: application/json", "--data-raw", &body.to_string()]);
        }
        let output = command.arg(address).output().expect("curl can be started");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        let (answer, status) =
            text.rsplit_once('\n').unwrap_or_else(|| panic!("{method} {path}: {complaint}"));
        let status = status.parse().unwrap_or_else(|_| panic!("{method} {path}: {complaint}"));
        (status, serde_json::from_str(answer).unwrap_or(Value::Null))
    }

    /// A person with [`PASSWORD`]; their e-mail address.
    pub fn user(&self, name: &str) -> String {
        let email = format!("{name}@gitea.example");
        let body =
            json!({"username": name, "email": email, "password": PASSWORD, "must_change_password": false});
        self.api("POST", "/admin/users", Some(body));
        email
    }

    /// A token of a user's that may do everything they may.
    pub fn token(&self, user: &str) -> String {
        let body = json!({"name": self.name("token-"), "scopes": ["all"]});
        let path = format!("/users/{user}/tokens");
        let (status, made) = self.call("POST", &path, &["-u", &format!("{user}:{PASSWORD}")], Some(body));
        assert_eq!(status, 201, "a token for {user}: {made}\n{}", self.log());
        made["sha1"].as_str().expect("a token is text").to_owned()
    }

    pub fn org(&self, name: &str) {
        self.api("POST", "/orgs", Some(json!({"username": name})));
    }

    /// A team of an organisation; its number.
    pub fn team(&self, org: &str, name: &str) -> i64 {
        let body = json!({"name": name, "permission": "write", "units": ["repo.code", "repo.pulls"]});
        self.api("POST", &format!("/orgs/{org}/teams"), Some(body))["id"]
            .as_i64()
            .expect("a team has a number")
    }

    pub fn add_to_team(&self, team: i64, user: &str) {
        self.api("PUT", &format!("/teams/{team}/members/{user}"), None);
    }

    pub fn remove_from_team(&self, team: i64, user: &str) {
        self.api("DELETE", &format!("/teams/{team}/members/{user}"), None);
    }

    /// A repository of a user's or an organisation's, with one commit on `main`; its address for `git clone`.
    pub fn repo(&self, owner: &str, name: &str) -> String {
        let body = json!({"name": name, "auto_init": true, "default_branch": "main"});
        let made = self.api("POST", &format!("/admin/users/{owner}/repos"), Some(body));
        made["clone_url"].as_str().expect("a repository has an address").to_owned()
    }

    pub fn oauth_app(&self, name: &str, redirect: &str) -> OauthApp {
        let body = json!({"name": name, "redirect_uris": [redirect], "confidential_client": true});
        let made = self.api("POST", "/user/applications/oauth2", Some(body));
        let field = |field: &str| made[field].as_str().expect("an application has it").to_owned();
        OauthApp { client_id: field("client_id"), client_secret: field("client_secret") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
