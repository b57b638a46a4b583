//! A control plane as small as the agent API allows, which notes every breach of its rules.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post, put};
use axum::{Json, Router};
use slipway_api::ErrorBody;
use slipway_api::agent::*;
use slipway_api::pipeline::Variable;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

pub const GIT_PASSWORD: &str = "git-p4ssw0rd-of-the-build";

#[derive(Clone, Default)]
pub struct Record {
    pub taken: Option<TakenBuild>,
    pub epoch: i64,
    /// Of the runner that has it.
    pub executor: String,
    pub terminate: bool,
    pub lost: bool,
    /// What people have answered.
    pub decisions: Vec<ApprovalDecision>,
    /// What people who debug it ask for, and what of it the runner has heard.
    pub debug: Vec<slipway_api::debug::DebugOrder>,
    pub heard: Vec<String>,
    /// Of shells: what was typed, what they printed, and why they ended.
    pub typed: BTreeMap<String, Vec<u8>>,
    pub printed: BTreeMap<String, Vec<u8>>,
    pub shut: BTreeMap<String, String>,
    pub report: Option<BuildReport>,
    pub logs: BTreeMap<String, String>,
    /// Definitions that the account has, and the names that were asked for, call by call.
    pub types: Vec<String>,
    pub asked: Vec<Vec<String>>,
    /// Every body that arrived about it, for canaries.
    pub traffic: String,
}

impl Record {
    pub fn status(&self) -> &str {
        self.report.as_ref().map_or("none", |report| report.status.as_str())
    }

    pub fn is_over(&self) -> bool {
        matches!(self.status(), "success" | "error" | "terminated")
    }

    pub fn log(&self, step: &str) -> &str {
        self.logs.get(step).map_or("", String::as_str)
    }

    pub fn step(&self, name: &str) -> slipway_api::build::BuildStep {
        let report = self.report.as_ref().expect("there is a report");
        let step = report.steps.iter().find(|step| step.name == name);
        step.unwrap_or_else(|| panic!("no step {name} in {report:?}")).clone()
    }
}

#[derive(Default)]
struct Inner {
    builds: BTreeMap<String, Record>,
    breaches: Vec<String>,
    /// Answers with 503 while set.
    down: bool,
}

#[derive(Clone)]
pub struct Server {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<Notify>,
    repos: Arc<tempfile::TempDir>,
    pub url: String,
}

impl Server {
    pub async fn start() -> Self {
        let repos = Arc::new(tempfile::tempdir().unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            inner: Arc::default(),
            changed: Arc::default(),
            repos,
            url: format!("http://{}", listener.local_addr().unwrap()),
        };
        let router = Router::new()
            .route("/api/agent/runner/sync", post(sync))
            .route("/api/agent/runner/builds/{id}/state", put(state))
            .route("/api/agent/runner/builds/{id}/logs", post(logs))
            .route("/api/agent/runner/builds/{id}/step-types", post(step_types))
            .route("/api/agent/runner/builds/{id}/shells/{shell}/output", post(shell_output))
            .route("/api/agent/runner/builds/{id}/shells/{shell}/input", post(shell_input))
            .route("/git/{*path}", any(git))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        server
    }

    /// A build of an inline pipeline; more can be set before it is added.
    pub fn build(&self, id: &str, yaml: &str) -> TakenBuild {
        TakenBuild {
            id: id.to_owned(),
            epoch: 1,
            pipeline_name: "demo/test".into(),
            account_name: "demo".into(),
            source: PipelineSource::Inline { yaml: yaml.to_owned() },
            variables: Vec::new(),
            commit: None,
            created_ms: 1_700_000_000_000,
            git: GitAccess {
                base_url: format!("{}/git/", self.url),
                username: "build".into(),
                password: GIT_PASSWORD.into(),
            },
            // Tests look at what their own build left in its volume.
            options: slipway_api::pipeline::RunOptions { reset_volume: true, ..Default::default() },
            ..TakenBuild::default()
        }
    }

    pub fn add(&self, taken: TakenBuild) {
        let record = Record { epoch: taken.epoch, taken: Some(taken.clone()), ..Record::default() };
        self.inner.lock().unwrap().builds.insert(taken.id, record);
        self.changed.notify_waiters();
    }

    pub fn add_with_types(&self, taken: TakenBuild, types: &[String]) {
        let record = Record {
            epoch: taken.epoch,
            taken: Some(taken.clone()),
            types: types.to_vec(),
            ..Record::default()
        };
        self.inner.lock().unwrap().builds.insert(taken.id, record);
        self.changed.notify_waiters();
    }

    pub fn get(&self, id: &str) -> Record {
        self.inner.lock().unwrap().builds[id].clone()
    }

    pub fn change(&self, id: &str, change: impl FnOnce(&mut Record)) {
        change(self.inner.lock().unwrap().builds.get_mut(id).unwrap());
        self.changed.notify_waiters();
    }

    pub fn set_down(&self, down: bool) {
        self.inner.lock().unwrap().down = down;
    }

    pub fn breaches(&self) -> Vec<String> {
        self.inner.lock().unwrap().breaches.clone()
    }

    pub async fn wait(&self, id: &str, what: &str, until: impl Fn(&Record) -> bool) -> Record {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
        loop {
            let record = self.get(id);
            if until(&record) {
                return record;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "build {id} never came to: {what}. report {:#?} logs {:#?}",
                record.report,
                record.logs
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn finish(&self, id: &str) -> Record {
        let record = self.wait(id, "its end", Record::is_over).await;
        assert_eq!(self.breaches(), Vec::<String>::new());
        crate::leftovers::none(id, &record.executor).await;
        record
    }

    /// A repository with one commit of these files.
    pub fn repository(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let bare = self.repos.path().join(format!("{name}.git"));
        std::fs::create_dir_all(&bare).unwrap();
        sh(&bare, "git init -q --bare -b main . && git config http.receivepack true");
        let work = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = work.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let push = format!(
            "git init -q -b main . && git add -A && git commit -qm First && git push -q {} main",
            bare.display()
        );
        sh(work.path(), &push);
        bare
    }
}

pub fn sh(dir: &std::path::Path, script: &str) -> String {
    let output = std::process::Command::new("sh")
        .args(["-ec", script])
        .current_dir(dir)
        .envs([
            ("GIT_AUTHOR_NAME", "Ada"),
            ("GIT_AUTHOR_EMAIL", "ada@example.org"),
            ("GIT_COMMITTER_NAME", "Ada"),
            ("GIT_COMMITTER_EMAIL", "ada@example.org"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub fn variable(key: &str, value: &str, encrypted: bool) -> Variable {
    Variable { key: key.into(), value: value.into(), encrypted }
}

fn refuse(status: u16, name: &str) -> Response {
    let body = ErrorBody {
        status,
        code: name.into(),
        name: name.into(),
        message: name.into(),
        details: Vec::new(),
        request_id: None,
    };
    (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
}

async fn sync(State(server): State<Server>, Json(request): Json<RunnerSync>) -> Response {
    let until = tokio::time::Instant::now() + Duration::from_millis(request.wait_ms);
    loop {
        let changed = server.changed.notified();
        {
            let mut inner = server.inner.lock().unwrap();
            for running in &request.running {
                if let Some(record) = inner.builds.get_mut(&running.id) {
                    record.heard = running.debug_heard.clone();
                    record.executor.clone_from(&request.executor);
                }
            }
            if inner.down {
                return refuse(503, "DOWN");
            }
            let mut answer = RunnerSyncAnswer { lease_ms: 30_000, ..Default::default() };
            let mine = |id: &str| request.running.iter().find(|running| running.id == id);
            let mut free = request.free;
            for (id, record) in &inner.builds {
                let heard = |decision: &&ApprovalDecision| {
                    mine(id).is_some_and(|running| !running.decided.contains(&decision.step))
                };
                answer.decisions.extend(record.decisions.iter().filter(heard).cloned());
                let unheard = |order: &&slipway_api::debug::DebugOrder| {
                    mine(id).is_some_and(|running| !running.debug_heard.contains(&order.id))
                };
                answer.debug.extend(record.debug.iter().filter(unheard).cloned());
                match (mine(id), &record.taken) {
                    (Some(_), _) if record.lost => answer.lost.push(id.clone()),
                    (Some(running), _) if record.terminate && !running.terminating => {
                        answer.terminate.push(id.clone())
                    }
                    (None, Some(taken)) if !record.is_over() && !record.lost && free > 0 => {
                        free -= 1;
                        answer.taken.push(TakenBuild { epoch: record.epoch, ..taken.clone() });
                    }
                    _ => {}
                }
            }
            let news = !(answer.taken.is_empty()
                && answer.lost.is_empty()
                && answer.terminate.is_empty()
                && answer.decisions.is_empty()
                && answer.debug.is_empty());
            if news || tokio::time::Instant::now() >= until {
                return Json(answer).into_response();
            }
        }
        let _ = tokio::time::timeout_at(until, changed).await;
    }
}

async fn state(
    State(server): State<Server>,
    Path(id): Path<String>,
    Json(report): Json<BuildReport>,
) -> Response {
    let mut inner = server.inner.lock().unwrap();
    if inner.down {
        return refuse(503, "DOWN");
    }
    let mut breaches = Vec::new();
    let Some(record) = inner.builds.get_mut(&id) else { return refuse(404, "NOT_FOUND") };
    if report.epoch != record.epoch {
        return refuse(409, "FENCED");
    }
    record.traffic.push_str(&serde_json::to_string(&report).unwrap());
    match &record.report {
        Some(held) if report.revision < held.revision => {}
        Some(held) if held.steps.len() > report.steps.len() => {
            breaches.push(format!("{id} had {} steps and now has {}", held.steps.len(), report.steps.len()));
        }
        Some(held) if record.is_over() && held.status != report.status => {
            breaches.push(format!("{id} went from {} to {}", held.status, report.status));
        }
        _ => record.report = Some(report),
    }
    inner.breaches.extend(breaches);
    StatusCode::OK.into_response()
}

/// What a shell printed is kept apart: it is no part of what a server writes down.
async fn shell_output(
    State(server): State<Server>,
    Path((id, shell)): Path<(String, String)>,
    Json(said): Json<slipway_api::debug::ShellOutput>,
) -> Response {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(&said.piece.bytes).unwrap();
    server.change(&id, |record| {
        let held = record.printed.entry(shell.clone()).or_default();
        let known = held.len().saturating_sub(usize::try_from(said.piece.offset).unwrap());
        held.extend(&bytes[known.min(bytes.len())..]);
        if let Some(why) = said.piece.closed {
            record.shut.insert(shell, why);
        }
    });
    Json(true).into_response()
}

async fn shell_input(
    State(server): State<Server>,
    Path((id, shell)): Path<(String, String)>,
    Json(wanted): Json<slipway_api::debug::ShellInputWanted>,
) -> Response {
    let until = tokio::time::Instant::now() + Duration::from_millis(wanted.wait_ms);
    loop {
        let changed = server.changed.notified();
        let typed = server.get(&id).typed.get(&shell).cloned().unwrap_or_default();
        let rest = typed.get(usize::try_from(wanted.after).unwrap()..).unwrap_or_default();
        if !rest.is_empty() || tokio::time::Instant::now() >= until {
            let bytes = crate::debug::text(rest);
            let answer = slipway_api::debug::ShellBytes { offset: wanted.after, bytes, closed: None };
            return Json(answer).into_response();
        }
        let _ = tokio::time::timeout_at(until, changed).await;
    }
}

/// Those whose name stands in what is wanted.
async fn step_types(
    State(server): State<Server>,
    Path(id): Path<String>,
    Json(wanted): Json<StepTypesWanted>,
) -> Response {
    let mut inner = server.inner.lock().unwrap();
    if inner.down {
        return refuse(503, "DOWN");
    }
    let Some(record) = inner.builds.get_mut(&id) else { return refuse(404, "NOT_FOUND") };
    if wanted.epoch != record.epoch {
        return refuse(409, "FENCED");
    }
    let named = |text: &&String| {
        let manifest: serde_json::Value = serde_json::from_str(text).unwrap();
        let name = manifest["metadata"]["name"].as_str().unwrap();
        wanted.names.iter().any(|wanted| wanted.split(':').next() == Some(name))
    };
    let found: Vec<_> = record
        .types
        .iter()
        .filter(named)
        .map(|text| serde_json::value::RawValue::from_string(text.clone()).unwrap())
        .collect();
    record.asked.push(wanted.names);
    Json(found).into_response()
}

async fn logs(
    State(server): State<Server>,
    Path(id): Path<String>,
    Json(append): Json<LogAppend>,
) -> Response {
    let mut inner = server.inner.lock().unwrap();
    if inner.down {
        return refuse(503, "DOWN");
    }
    let mut breaches = Vec::new();
    let Some(record) = inner.builds.get_mut(&id) else { return refuse(404, "NOT_FOUND") };
    if append.epoch != record.epoch {
        return refuse(409, "FENCED");
    }
    let over = record.is_over();
    for piece in append.pieces {
        record.traffic.push_str(&piece.text);
        let held = record.logs.entry(piece.step.clone()).or_default();
        let offset = usize::try_from(piece.offset).unwrap();
        if over {
            breaches.push(format!("{id}: a line of {} came after the end", piece.step));
        }
        if offset > held.len() {
            breaches.push(format!("{id}: a gap in {} at {}..{offset}", piece.step, held.len()));
            continue;
        }
        let known = held.len() - offset;
        let same = known.min(piece.text.len());
        if held[offset..offset + same] != piece.text[..same] {
            breaches.push(format!(
                "{id}: {} at {offset} was {:?} and is {:?}",
                piece.step,
                &held[offset..],
                piece.text
            ));
        }
        held.push_str(&piece.text[same..]);
    }
    let held = record.logs.iter().map(|(step, text)| (step.clone(), text.len() as u64)).collect();
    inner.breaches.extend(breaches);
    Json(LogAppendAnswer { held }).into_response()
}

/// Git over HTTP by git's own CGI program, for whoever has the build's password.
async fn git(
    State(server): State<Server>,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    use base64::Engine as _;
    let expected = base64::engine::general_purpose::STANDARD.encode(format!("build:{GIT_PASSWORD}"));
    let text =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    if text("authorization") != format!("Basic {expected}") {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=git")]).into_response();
    }
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", server.repos.path())
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{path}"))
        .env("REQUEST_METHOD", method.as_str())
        .env("QUERY_STRING", query.unwrap_or_default())
        .env("CONTENT_TYPE", text("content-type"))
        .env("HTTP_CONTENT_ENCODING", text("content-encoding"))
        .env("GIT_PROTOCOL", text("git-protocol"))
        .env("REMOTE_USER", "build")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feed = async move {
        let _ = stdin.write_all(&body).await;
        drop(stdin);
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), feed);
    let output = output.unwrap().stdout;
    let split = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..split]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        response = match name {
            "Status" => response.status(value.split(' ').next().unwrap().parse::<u16>().unwrap()),
            _ => response.header(name, value),
        };
    }
    response.body(axum::body::Body::from(output[(split + 4).min(output.len())..].to_vec())).unwrap()
}
