//! Packaged charts from a Helm repository over http and from a real registry, rendered by the real Helm.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use slipway_model::Secret;
use slipway_source::{
    ChartCache, ChartError, ChartLimits, Content, Credentials, Helm, RenderRequest, Renderer, Repositories,
    Repository, Since, SourceOptions,
};
use slipway_testkit::{Registry, tool};

use crate::render::{names, request};
use crate::repo::Repo;

/// A path and the credential that came with the question.
type Asked = (String, Option<String>);

/// A chart repository: files by path, the credential it wants, and who asked for what with which credential.
#[derive(Clone, Default)]
struct Site {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    wants: Option<String>,
    seen: Arc<Mutex<Vec<Asked>>>,
    answered: Arc<AtomicUsize>,
}

impl Site {
    fn wanting(user: &str, password: &str) -> Self {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        Self { wants: Some(format!("Basic {text}")), ..Self::default() }
    }

    fn put(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.files.lock().expect("not poisoned").insert(path.to_owned(), content.into());
    }

    async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}")
    }
}

async fn answer(State(site): State<Site>, uri: Uri, headers: HeaderMap) -> Response {
    let shown = headers.get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
    site.seen.lock().expect("not poisoned").push((uri.path().to_owned(), shown.clone()));
    if site.wants.is_some() && site.wants != shown {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    site.answered.fetch_add(1, Ordering::Relaxed);
    match site.files.lock().expect("not poisoned").get(uri.path()) {
        Some(content) => content.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn helm(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(tool("helm"))
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .env("XDG_CACHE_HOME", folder.join(".cache"))
        .output()
        .expect("helm runs");
    assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Packages a chart `web` of this version with Helm; gives the archive.
fn package(folder: &Path, version: &str) -> PathBuf {
    let chart = folder.join("web");
    std::fs::create_dir_all(chart.join("templates")).expect("a folder");
    std::fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: web\nversion: {version}\n"))
        .expect("written");
    std::fs::write(chart.join("values.yaml"), "color: red\n").expect("written");
    std::fs::write(
        chart.join("templates/map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  color: {{ .Values.color }}\n  version: {{ .Chart.Version }}\n",
    )
    .expect("written");
    helm(folder, &["package", "web"]);
    folder.join(format!("web-{version}.tgz"))
}

fn charts(repo: &Repo) -> ChartCache {
    ChartCache::open(repo.root.path().join("downloaded"), ChartLimits::default()).expect("a cache")
}

fn with_credentials(url: &str, user: &str, password: &str) -> Repository {
    let credentials = Credentials::basic(user, Secret::new(password.to_owned()));
    Repository { url: url.to_owned(), credentials: Arc::new(credentials) }
}

async fn chart_request(repo: &Repo, renderer: &Renderer, content: Content, options: Helm) -> RenderRequest {
    let ask = request(repo, renderer, "", SourceOptions::Helm(Box::new(options))).await;
    RenderRequest { content, path: String::new(), ..ask }
}

#[tokio::test]
async fn a_chart_of_a_helm_repository_is_chosen_fetched_once_and_rendered_with_values_of_another_source() {
    let repo = Repo::new();
    repo.write("env/prod.yaml", "color: blue\n").commit("First");
    let site = Site::wanting("ada", "pa:ss");
    for version in ["1.0.0", "1.2.0", "2.0.0-rc.1"] {
        let archive = package(repo.root.path(), version);
        let name = archive.file_name().expect("a name").to_string_lossy().into_owned();
        site.put(&format!("/stable/{name}"), std::fs::read(&archive).expect("readable"));
        std::fs::create_dir_all(repo.root.path().join("site")).expect("a folder");
        std::fs::rename(&archive, repo.root.path().join("site").join(name)).expect("moved");
    }
    helm(repo.root.path(), &["repo", "index", "site"]);
    site.put(
        "/stable/index.yaml",
        std::fs::read(repo.root.path().join("site/index.yaml")).expect("an index"),
    );
    let url = format!("{}/stable", site.serve().await);
    let charts = charts(&repo);

    let anonymous =
        charts.resolve(&Repository::public(&url), "web", "", Since::now()).await.expect_err("closed");
    assert!(matches!(anonymous, ChartError::Credentials { .. }), "{anonymous}");
    let wrong = with_credentials(&url, "ada", "canary");
    let error = charts.resolve(&wrong, "web", "", Since::now()).await.expect_err("closed").to_string();
    assert!(!error.contains("canary"), "{error}");

    let known = with_credentials(&url, "ada", "pa:ss");
    let asked = std::time::Instant::now();
    let version = charts.resolve(&known, "web", "^1.0", Since::Asked(asked)).await.expect("resolved");
    assert_eq!(version.version, "1.2.0");
    let before = site.answered.load(Ordering::Relaxed);
    for wanted in ["1.x", "", ">=1.0.0 <1.2.0"] {
        charts.resolve(&known, "web", wanted, Since::Asked(asked)).await.expect("resolved");
    }
    assert_eq!(site.answered.load(Ordering::Relaxed), before, "one question for all who ask at once");
    for (chart, wanted) in [("nope", ""), ("web", "9.9.9")] {
        charts.resolve(&known, chart, wanted, Since::Asked(asked)).await.expect_err("not there");
    }

    let archive = charts.archive(&known, "web", &version, false).await.expect("fetched");
    drop(archive);
    let before = site.answered.load(Ordering::Relaxed);
    let archive = charts.archive(&known, "web", &version, false).await.expect("from the disk");
    assert_eq!(site.answered.load(Ordering::Relaxed), before);

    let renderer = repo.renderer();
    let options = Helm { value_files: vec!["$values/env/prod.yaml".into()], ..Helm::default() };
    let mut ask = chart_request(&repo, &renderer, Content::Archive(archive), options.clone()).await;
    let git = request(&repo, &renderer, "", SourceOptions::Detect).await.content;
    ask.references.insert("values".into(), git);
    let made = renderer.render(&ask).await.expect("rendered");
    assert_eq!(names(&made), ["shop"]);
    assert_eq!(made.objects[0]["data"], serde_json::json!({"color": "blue", "version": "1.2.0"}));

    // The other source's file counts: the same chart with other values is another result.
    repo.write("env/prod.yaml", "color: green\n").commit("Second");
    let git = request(&repo, &renderer, "", SourceOptions::Detect).await.content;
    ask.references.insert("values".into(), git);
    assert_eq!(renderer.render(&ask).await.expect("rendered").objects[0]["data"]["color"], "green");
    for file in ["$values/../../etc/passwd", "$other/env/prod.yaml", "$values/missing.yaml"] {
        let options = Helm { value_files: vec![file.into()], ..Helm::default() };
        let mut ask = chart_request(&repo, &renderer, ask.content.clone(), options).await;
        ask.references
            .insert("values".into(), request(&repo, &renderer, "", SourceOptions::Detect).await.content);
        let error = renderer.render(&ask).await.expect_err(file).to_string();
        assert!(!error.contains("root:"), "{file}: {error}");
    }
}

#[tokio::test]
async fn credentials_go_to_their_own_host_alone_unless_the_user_says_otherwise() {
    let repo = Repo::new();
    let archive = std::fs::read(package(repo.root.path(), "1.0.0")).expect("readable");
    let elsewhere = Site::default();
    elsewhere.put("/web-1.0.0.tgz", archive);
    let other = elsewhere.serve().await;
    let site = Site::wanting("ada", "canary");
    site.put(
        "/index.yaml",
        format!(
            "apiVersion: v1\nentries:\n  web:\n  - version: 1.0.0\n    urls: [\"{other}/web-1.0.0.tgz\"]\n"
        ),
    );
    let known = with_credentials(&site.serve().await, "ada", "canary");
    for (pass, expected) in [(false, false), (true, true)] {
        let charts = ChartCache::open(repo.root.path().join(format!("c{pass}")), ChartLimits::default())
            .expect("a cache");
        let version = charts.resolve(&known, "web", "1.0.0", Since::now()).await.expect("resolved");
        charts.archive(&known, "web", &version, pass).await.expect("fetched");
        let shown = elsewhere.seen.lock().expect("not poisoned").last().expect("asked").1.is_some();
        assert_eq!(shown, expected, "passCredentials: {pass}");
    }
}

#[tokio::test]
async fn a_repository_that_lies_or_never_ends_is_refused() {
    let repo = Repo::new();
    let site = Site::default();
    site.put("/web.tgz", std::fs::read(package(repo.root.path(), "1.0.0")).expect("readable"));
    let digest = "0".repeat(64);
    site.put(
        "/index.yaml",
        format!("entries:\n  web:\n  - version: 1.0.0\n    digest: \"{digest}\"\n    urls: [web.tgz]\n"),
    );
    let from = Repository::public(site.serve().await);
    let charts = charts(&repo);
    let version = charts.resolve(&from, "web", "", Since::now()).await.expect("resolved");
    let error = charts.archive(&from, "web", &version, false).await.err().expect("another digest");
    assert!(matches!(error, ChartError::Digest { .. }), "{error}");

    let limits = ChartLimits { index_bytes: 1 << 16, archive_bytes: 64, ..ChartLimits::default() };
    let small = ChartCache::open(repo.root.path().join("small"), limits).expect("a cache");
    let error = small.archive(&from, "web", &version, false).await.err().expect("too large");
    assert!(matches!(error, ChartError::TooLarge { .. }), "{error}");
    site.put("/index.yaml", vec![b' '; 1 << 20]);
    let error = small.resolve(&from, "web", "", Since::now()).await.expect_err("too large");
    assert!(matches!(error, ChartError::TooLarge { .. }), "{error}");
    // An index that is a bomb of aliases.
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..10 {
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(",")));
    }
    site.put("/index.yaml", bomb + "entries: {}\n");
    charts.resolve(&from, "web", "", Since::now()).await.expect_err("a bomb");

    for url in [
        "http://169.254.169.254/latest",
        "http://[::ffff:169.254.169.254]/x",
        "file:///etc",
        "http://0.0.0.0/x",
    ] {
        let error = charts.resolve(&Repository::public(url), "web", "", Since::now()).await.expect_err(url);
        assert!(matches!(error, ChartError::Unreachable { .. } | ChartError::Address(_)), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_chart_of_a_registry_is_rendered_and_can_be_a_dependency() {
    let repo = Repo::new();
    let registry = Registry::start();
    for version in ["1.0.0", "1.1.0+build.5"] {
        let archive = package(repo.root.path(), version);
        let to = format!("oci://{}/charts", registry.address());
        helm(repo.root.path(), &["push", "--plain-http", &archive.display().to_string(), &to]);
    }
    let credentials = Credentials { plain_http: true, ..Credentials::default() };
    let from = Repository {
        url: format!("oci://{}/charts", registry.address()),
        credentials: Arc::new(credentials),
    };
    let charts = charts(&repo);
    let version = charts.resolve(&from, "web", "~1", Since::now()).await.expect("resolved");
    assert_eq!(version.version, "1.1.0+build.5", "an underscore in a tag is a plus");
    let archive = charts.archive(&from, "web", &version, false).await.expect("pulled");
    let made = repo_render(&repo, Content::Archive(archive), Helm::default()).await;
    assert_eq!(made.objects[0]["data"]["version"], "1.1.0+build.5");
    let missing = charts.resolve(&from, "nope", "", Since::now()).await.expect_err("not there");
    assert!(matches!(missing, ChartError::NoChart { .. }), "{missing}");

    // A chart in Git depends on the packaged one; Chart.lock says which.
    let dependency = format!("dependencies:\n- name: web\n  version: 1.x\n  repository: {}\n", from.url);
    repo.write(
        "umbrella/Chart.yaml",
        &format!("apiVersion: v2\nname: umbrella\nversion: 0.1.0\n{dependency}"),
    )
    .write("umbrella/Chart.lock", &dependency.replace("1.x", "1.0.0"))
    .write("umbrella/values.yaml", "web: {color: gold}\n")
    .commit("An umbrella");
    let renderer = repo.renderer();
    let mut ask = request(&repo, &renderer, "umbrella", SourceOptions::Detect).await;
    let error = renderer.render(&ask).await.expect_err("not permitted").to_string();
    assert!(error.contains("which this project may not ask"), "{error}");
    let allowed = from.clone();
    ask.repositories = Repositories(Arc::new(move |url| (url == allowed.url).then(|| allowed.clone())));
    let made = renderer.render(&ask).await.expect("rendered");
    assert_eq!(made.objects[0]["data"], serde_json::json!({"color": "gold", "version": "1.0.0"}));
}

/// R3: a chart of the first API whose requirements.yaml names a Helm repository over http, beside one of this repository.
#[tokio::test]
async fn r3_requirements_of_a_remote_repository_are_fetched_as_the_lock_says() {
    let repo = Repo::new();
    let site = Site::wanting("ada", "secret");
    for version in ["1.0.0", "1.2.0"] {
        let archive = package(repo.root.path(), version);
        let name = archive.file_name().expect("a name").to_string_lossy().into_owned();
        site.put(&format!("/stable/{name}"), std::fs::read(&archive).expect("readable"));
        std::fs::create_dir_all(repo.root.path().join("site")).expect("a folder");
        std::fs::rename(&archive, repo.root.path().join("site").join(name)).expect("moved");
    }
    helm(repo.root.path(), &["repo", "index", "site"]);
    site.put(
        "/stable/index.yaml",
        std::fs::read(repo.root.path().join("site/index.yaml")).expect("an index"),
    );
    let from = with_credentials(&format!("{}/stable", site.serve().await), "ada", "secret");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: near}\n";
    let needs = format!(
        "dependencies:\n- {{name: web, version: 1.x, repository: '{}'}}\n- {{name: near, version: 0.1.0, repository: 'file://../near'}}\n",
        from.url
    );
    repo.write("old/Chart.yaml", "apiVersion: v1\nname: old\nversion: 0.1.0\n")
        .write("old/requirements.yaml", &needs)
        .write("old/values.yaml", "web: {color: gold}\n")
        .write("near/Chart.yaml", "apiVersion: v1\nname: near\nversion: 0.1.0\n")
        .write("near/templates/m.yaml", template)
        .commit("Without a lock");
    let renderer = repo.renderer();
    let render = async || {
        let mut ask = request(&repo, &renderer, "old", SourceOptions::Detect).await;
        let allowed = from.clone();
        ask.repositories = Repositories(Arc::new(move |url| (url == allowed.url).then(|| allowed.clone())));
        let made = renderer.render(&ask).await.expect("rendered");
        let web =
            made.objects.iter().find(|object| object["metadata"]["name"] == "shop").expect("of the remote");
        assert!(names(&made).contains(&"near"), "{:?}", names(&made));
        web["data"].clone()
    };
    assert_eq!(
        render().await,
        serde_json::json!({"color": "gold", "version": "1.2.0"}),
        "the newest that fits"
    );
    repo.write("old/requirements.lock", &needs.replace("1.x", "1.0.0")).commit("With a lock");
    assert_eq!(render().await, serde_json::json!({"color": "gold", "version": "1.0.0"}), "what was locked");
    // Whom the project does not permit is not asked.
    let ask = request(&repo, &renderer, "old", SourceOptions::Detect).await;
    let before = site.answered.load(Ordering::Relaxed);
    let error = renderer.render(&ask).await.expect_err("not permitted").to_string();
    assert!(error.contains("which this project may not ask"), "{error}");
    assert_eq!(site.answered.load(Ordering::Relaxed), before);
}

async fn repo_render(repo: &Repo, content: Content, options: Helm) -> Arc<slipway_source::Rendered> {
    repo.write("x", "x").commit("Something");
    let renderer = repo.renderer();
    let ask = chart_request(repo, &renderer, content, options).await;
    renderer.render(&ask).await.expect("rendered")
}
