//! Repositories of a real Git provider: opened by a GitHub App's token, and with large files beside them.
//!
//! The API that gives Apps their tokens is GitHub's alone, so that one is played here; git and LFS are Gitea's.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_forge::lists::Carrier;
use slipway_forge::{APP_USER, GithubApp, remote};
use slipway_model::Secret;
use slipway_source::git::{Giving, Token, Tokens};
use slipway_source::{Credentials, GitCache, GitError, GitOptions, Repository, Since};
use slipway_testkit::gitea;

fn private_repository(server: &gitea::Server) -> (String, String) {
    let (owner, token) = owner(server);
    let name = server.name("app");
    let body = json!({"name": name, "private": true, "auto_init": true, "default_branch": "main"});
    let (status, made) = server.api_as(&token, "POST", "/user/repos", Some(body));
    assert_eq!(status, 201, "{made}");
    (format!("{}/{owner}/{name}.git", server.url()), token)
}

fn owner(server: &gitea::Server) -> (String, String) {
    let owner = server.name("owner");
    server.user(&owner);
    let token = server.token(&owner);
    (owner, token)
}

fn opened(url: &str, credentials: Credentials) -> Repository {
    Repository { url: url.to_owned(), credentials: Arc::new(credentials) }
}

/// A key as GitHub gives it, and its public half.
fn key() -> (Secret<String>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    let run = |words: &[&str]| {
        let output =
            Command::new("ssh-keygen").args(words).arg("-f").arg(&file).output().expect("ssh-keygen");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    run(&["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""]);
    let public = run(&["-e", "-m", "PKCS8"]);
    (Secret::new(std::fs::read_to_string(&file).expect("a key")), public)
}

struct Github {
    public: String,
    token: String,
    granted: AtomicUsize,
    lifetime: SignedDuration,
}

impl Github {
    fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(sent) = headers.get("authorization").and_then(|value| value.to_str().ok()) else {
            return false;
        };
        let mut rules = Validation::new(Algorithm::RS256);
        rules.set_issuer(&["4711"]);
        let key = DecodingKey::from_rsa_pem(self.public.as_bytes()).expect("a public key");
        let claim = sent.strip_prefix("Bearer ").unwrap_or_default();
        jsonwebtoken::decode::<Value>(claim, &key, &rules).is_ok()
    }
}

async fn installation(State(hub): State<Arc<Github>>, headers: HeaderMap) -> Result<Json<Value>, StatusCode> {
    hub.knows(&headers).then(|| Json(json!({"id": 9}))).ok_or(StatusCode::UNAUTHORIZED)
}

async fn grant(
    State(hub): State<Arc<Github>>,
    Path(id): Path<u64>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Value>), StatusCode> {
    if !hub.knows(&headers) || id != 9 {
        return Err(StatusCode::UNAUTHORIZED);
    }
    hub.granted.fetch_add(1, Ordering::Relaxed);
    let until = Timestamp::now() + hub.lifetime;
    Ok((StatusCode::CREATED, Json(json!({"token": hub.token, "expires_at": until.to_string()}))))
}

async fn github(public: String, token: String, lifetime: SignedDuration) -> (Arc<Github>, String) {
    let hub = Arc::new(Github { public, token, granted: AtomicUsize::new(0), lifetime });
    let router = Router::new()
        .route("/repos/{owner}/{name}/installation", get(installation))
        .route("/app/installations/{id}/access_tokens", post(grant))
        .with_state(hub.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (hub, url)
}

fn app(private_key: &Secret<String>, api: &str, installation: &str) -> Credentials {
    let app = GithubApp {
        id: "4711".into(),
        installation: installation.into(),
        private_key: private_key.clone(),
        api: api.into(),
    };
    Credentials { tokens: Some(Arc::new(App(app))), ..Credentials::default() }
}

/// An App that asks its GitHub in the plainest way; the runtime has its own, with rules about addresses.
struct App(GithubApp);

impl Tokens for App {
    fn fingerprint(&self) -> String {
        self.0.identity()
    }

    fn token<'a>(&'a self, repo: &'a Repository) -> Giving<'a> {
        Box::pin(async move {
            let token = self.0.token(self, &repo.url).await?;
            Ok(Token { username: APP_USER.to_owned(), password: token.value, until: token.until })
        })
    }
}

impl Carrier for App {
    fn api(&self) -> &str {
        &self.0.api
    }

    async fn carry(&self, call: &remote::Call) -> Result<remote::Answer, String> {
        let method = call.method.parse().expect("a method");
        let mut request =
            reqwest::Client::new().request(method, format!("{}{}", self.0.api, call.path)).json(&call.body);
        if let Some(bearer) = &call.bearer {
            request = request.bearer_auth(bearer.expose());
        }
        let answer = request.send().await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.map_err(|error| error.to_string())?.to_vec();
        Ok(remote::Answer { status, body, link: None })
    }
}

fn cache(folder: &tempfile::TempDir) -> GitCache {
    GitCache::open(folder.path().join("mirrors"), GitOptions::default()).expect("a cache")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_github_app_opens_a_private_repository_with_one_token_for_an_hour() {
    let server = gitea::shared();
    let (url, token) = private_repository(server);
    let (private, public) = key();
    let (hub, api) = github(public, token, SignedDuration::from_hours(1)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(&folder);
    for given in ["9", ""] {
        let repository = opened(&url, app(&private, &api, given));
        let commit = cache.resolve(&repository, "main", Since::now()).await.expect("opened by the App");
        assert!(cache.file(&repository, &commit, "README.md").await.expect("readable").is_some());
        cache.resolve(&repository, "main", Since::now()).await.expect("and again");
    }
    assert_eq!(hub.granted.load(Ordering::Relaxed), 2, "one token for each way of saying who it is");

    let (stranger, _) = key();
    let refused = cache.resolve(&opened(&url, app(&stranger, &api, "9")), "main", Since::now()).await;
    let message = refused.expect_err("another key").to_string();
    assert!(message.contains("GitHub App") && !message.contains("PRIVATE KEY"), "{message}");
    let broken = Secret::new("no key".to_owned());
    let refused = cache.resolve(&opened(&url, app(&broken, &api, "9")), "main", Since::now()).await;
    assert!(refused.expect_err("no key").to_string().contains("githubAppPrivateKey"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_about_to_end_is_not_used() {
    let server = gitea::shared();
    let (url, token) = private_repository(server);
    let (private, public) = key();
    let (hub, api) = github(public, token, SignedDuration::from_mins(2)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (cache, repository) = (cache(&folder), opened(&url, app(&private, &api, "9")));
    for _ in 0..2 {
        cache.resolve(&repository, "main", Since::now()).await.expect("opened");
    }
    assert!(hub.granted.load(Ordering::Relaxed) >= 2);
}

/// Puts a file into the repository as git-lfs would: the content at the LFS server, a pointer in git.
async fn push_large(url: &str, token: &str, content: &[u8]) {
    let oid = hex::encode(Sha256::digest(content));
    let client = reqwest::Client::new();
    let wanted = json!({"operation": "upload", "transfers": ["basic"], "objects": [{"oid": oid, "size": content.len()}]});
    let batch: Value = client
        .post(format!("{url}/info/lfs/objects/batch"))
        .basic_auth("git", Some(token))
        .header("accept", "application/vnd.git-lfs+json")
        .header("content-type", "application/vnd.git-lfs+json")
        .body(wanted.to_string())
        .send()
        .await
        .expect("an answer")
        .json()
        .await
        .expect("JSON");
    let place = &batch["objects"][0]["actions"]["upload"];
    let mut put = client.put(place["href"].as_str().expect("a place")).body(content.to_vec());
    for (name, value) in place["header"].as_object().into_iter().flatten() {
        put = put.header(name, value.as_str().expect("text"));
    }
    let stored = put.send().await.expect("an answer");
    assert!(stored.status().is_success(), "{}", stored.status());
    let pointer =
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {}\n", content.len());
    let work = tempfile::tempdir().expect("a folder");
    let address = url.replacen("://", &format!("://git:{token}@"), 1);
    let git = |words: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(words)
            .current_dir(work.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["clone", "--quiet", &address, "."]);
    std::fs::write(work.path().join("large.yaml"), pointer).expect("written");
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "Large"]);
    git(&["push", "--quiet", "origin", "HEAD:main"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pointer_is_read_as_the_large_file_where_that_is_wanted() {
    let server = gitea::shared();
    let (url, token) = private_repository(server);
    let content = "kind: ConfigMap\n".repeat(4000).into_bytes();
    push_large(&url, &token, &content).await;
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(&folder);
    let credentials = |lfs| Credentials { lfs, ..Credentials::basic("git", Secret::new(token.clone())) };
    let read = async |repository: &Repository| {
        let commit = cache.resolve(repository, "main", Since::now()).await.expect("resolved");
        cache.file(repository, &commit, "large.yaml").await
    };
    let plain = read(&opened(&url, credentials(false))).await.expect("readable").expect("there");
    assert!(plain.starts_with(b"version https://git-lfs"), "a pointer stays one where nobody asks for more");
    let with = opened(&url, credentials(true));
    assert_eq!(read(&with).await.expect("readable").expect("there"), content);
    // The second time from the mirror: the server could be away.
    let (owner_and_name, _) = url.rsplit_once(".git").expect("an address");
    let path = owner_and_name.strip_prefix(&server.url()).expect("ours");
    let (status, _) = server.api_as(&token, "DELETE", &format!("/repos{path}"), None);
    assert_eq!(status, 204);
    let commit = cache.resolve(&with, &head(&cache, &with).await, Since::now()).await.expect("known");
    assert_eq!(cache.file(&with, &commit, "large.yaml").await.expect("readable").expect("there"), content);
}

async fn head(cache: &GitCache, repository: &Repository) -> String {
    let known = cache.resolve(repository, "main", Since::Within(std::time::Duration::from_secs(3600))).await;
    known.expect("asked a moment ago").sha
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_that_is_not_there_says_so() {
    let server = gitea::shared();
    let (url, token) = private_repository(server);
    let lost = b"never uploaded";
    push_large(&url, &token, lost).await;
    // The same pointer in a repository whose server has not got it.
    let (other, other_token) = private_repository(server);
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 11\n",
        hex::encode(Sha256::digest(b"other bytes"))
    );
    let path = other.strip_prefix(&server.url()).and_then(|rest| rest.strip_suffix(".git")).expect("ours");
    let encoded = base64_of(&pointer);
    let body = json!({"content": encoded, "message": "A pointer", "branch": "main"});
    let (status, said) =
        server.api_as(&other_token, "POST", &format!("/repos{path}/contents/large.yaml"), Some(body));
    assert_eq!(status, 201, "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(&folder);
    let credentials = Credentials { lfs: true, ..Credentials::basic("git", Secret::new(other_token)) };
    let repository = opened(&other, credentials);
    let commit = cache.resolve(&repository, "main", Since::now()).await.expect("resolved");
    match cache.file(&repository, &commit, "large.yaml").await {
        Err(GitError::Lfs { .. }) => {}
        other => panic!("{other:?}"),
    }
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
