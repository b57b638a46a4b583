//! A small control plane: it tells of pushes, takes reports and knows one user.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use slipway_api::application::{Application, PassMoment, PassQuestion, ProxyQuestion, changes_something};
use slipway_api::report::{APPLICATION, Entity, EntityName, ReportTaken, RuntimeReport};
use slipway_api::runtime::{RuntimeEvent, RuntimeEvents};
use slipway_model::Secret;
use tokio::sync::Notify;

#[derive(Clone, Default)]
pub(crate) struct ControlPlane {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    events: Mutex<Vec<RuntimeEvent>>,
    pushed: Notify,
    entities: Mutex<BTreeMap<EntityName, Entity>>,
    /// By the complete report under way.
    named: Mutex<BTreeSet<EntityName>>,
    reports: Mutex<Vec<(bool, usize)>>,
    asked: Mutex<Vec<ProxyQuestion>>,
    /// Whose passes are good no more.
    revoked: Mutex<BTreeSet<String>>,
    /// What the app-proxy said of ends.
    ended: Mutex<Vec<(ProxyQuestion, String)>>,
}

impl ControlPlane {
    /// Listens on a free port; gives itself and a client for it.
    pub(crate) async fn start() -> (Self, slipway_api::Client) {
        let plane = Self::default();
        let router = Router::new()
            .route("/api/agent/runtime/events", get(events))
            .route("/2.0/api/events", post(report))
            .route("/api/access/application", post(may))
            .with_state(plane.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        (plane, slipway_api::Client::new(format!("http://{address}"), Secret::new("agent-key".into())))
    }

    pub(crate) fn push(&self, url: &str, changed: &[&str]) {
        let mut events = self.inner.events.lock().unwrap();
        let seq = events.len() as i64 + 1;
        events.push(RuntimeEvent {
            seq,
            clone_url: url.to_owned(),
            reference: "refs/heads/main".into(),
            sha: None,
            changed_paths: changed.iter().map(|path| (*path).to_owned()).collect(),
        });
        self.inner.pushed.notify_waiters();
    }

    pub(crate) fn reports(&self) -> Vec<(bool, usize)> {
        self.inner.reports.lock().unwrap().clone()
    }

    /// What the app-proxy asked, in order.
    pub(crate) fn asked(&self) -> Vec<ProxyQuestion> {
        self.inner.asked.lock().unwrap().clone()
    }

    /// From now on passes of `user` or `read` are good for nothing.
    pub(crate) fn revoke(&self, who: &str) {
        self.inner.revoked.lock().unwrap().insert(format!("pass.{who}"));
    }

    /// Waits for the end of the so manieth thing that went on: how it ended.
    pub(crate) async fn until_ended(&self, count: usize) -> (ProxyQuestion, String) {
        let started = Instant::now();
        loop {
            if let Some(last) = self.inner.ended.lock().unwrap().get(count - 1) {
                return last.clone();
            }
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "no end was told");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the reported Application is as the question wants it.
    pub(crate) async fn until(&self, name: &str, question: impl Fn(&Application) -> bool) -> Application {
        let started = Instant::now();
        loop {
            let known = self.entity(APPLICATION, name).map(|entity| {
                serde_json::from_value::<Application>(entity.body).expect("the body of an Application")
            });
            if let Some(app) = &known
                && question(app)
            {
                return app.clone();
            }
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "never reported so: {known:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.entity(APPLICATION, name).is_some()
    }

    /// What was last reported of one of this name, in whichever namespace.
    pub(crate) fn entity(&self, kind: &str, name: &str) -> Option<Entity> {
        let entities = self.inner.entities.lock().unwrap();
        entities.values().find(|entity| entity.kind == kind && entity.name == name).cloned()
    }

    /// Waits until it is reported and as the question wants it.
    pub(crate) async fn until_entity(
        &self,
        kind: &str,
        name: &str,
        question: impl Fn(&Entity) -> bool,
    ) -> Entity {
        let started = Instant::now();
        loop {
            let known = self.entity(kind, name);
            if let Some(entity) = known.clone().filter(|entity| question(entity)) {
                return entity;
            }
            assert!(started.elapsed() < slipway_testkit::PATIENCE, "never reported so: {known:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn events(
    State(plane): State<ControlPlane>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Json<RuntimeEvents> {
    let after = query.get("after").and_then(|text| text.parse::<i64>().ok());
    let Some(after) = after else {
        let next = plane.inner.events.lock().unwrap().len() as i64;
        return Json(RuntimeEvents { events: Vec::new(), next });
    };
    for _ in 0..100 {
        let heard = plane.inner.pushed.notified();
        let new: Vec<RuntimeEvent> =
            plane.inner.events.lock().unwrap().iter().filter(|event| event.seq > after).cloned().collect();
        if let Some(last) = new.last() {
            let next = last.seq;
            return Json(RuntimeEvents { events: new, next });
        }
        let _ = tokio::time::timeout(Duration::from_millis(100), heard).await;
    }
    Json(RuntimeEvents { events: Vec::new(), next: after })
}

/// Takes pages in the order in which they are sent, as the runtime sends them.
async fn report(
    State(plane): State<ControlPlane>,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Json<ReportTaken> {
    assert_eq!(headers["content-encoding"], "gzip");
    let report: RuntimeReport =
        serde_json::from_reader(flate2::read::GzDecoder::new(&*body)).expect("a packed report");
    let mut entities = plane.inner.entities.lock().unwrap();
    if report.complete.is_some_and(|complete| complete.page == 0) {
        plane.inner.named.lock().unwrap().clear();
    }
    // Of custom resources; clusters are told of by every runtime.
    let count = report.entities.iter().filter(|entity| entity.kind != slipway_api::report::CLUSTER).count();
    for entity in report.entities {
        plane.inner.named.lock().unwrap().insert(entity.name());
        entities.insert(entity.name(), entity);
    }
    for name in report.removed {
        entities.remove(&name);
    }
    let is_end = report.complete.is_some_and(|complete| complete.last);
    if is_end {
        entities.retain(|name, _| plane.inner.named.lock().unwrap().contains(name));
    }
    plane.inner.reports.lock().unwrap().push((is_end, count));
    Json(ReportTaken { taken: true, sequence: report.sequence, ..ReportTaken::default() })
}

/// As the control plane decides about a pass: by what is asked for.
async fn may(
    State(plane): State<ControlPlane>,
    headers: HeaderMap,
    Json(PassQuestion { pass, question, moment, outcome }): Json<PassQuestion>,
) -> Result<Json<Value>, StatusCode> {
    let operation = question.operation;
    match moment {
        PassMoment::Shown => plane.inner.asked.lock().unwrap().push(question),
        PassMoment::Ongoing => {}
        PassMoment::Ended => {
            plane.inner.ended.lock().unwrap().push((question, outcome.unwrap_or_default()));
            return Ok(Json(json!({"userName": ""})));
        }
    }
    if headers.get("authorization").and_then(|value| value.to_str().ok()) != Some("agent-key") {
        return Err(StatusCode::BAD_REQUEST);
    }
    let who = pass.split('-').next();
    if who.is_some_and(|who| plane.inner.revoked.lock().unwrap().contains(who)) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    match who {
        Some("pass.user" | "pass.user.bob") => {}
        Some("pass.read") if !changes_something(operation) => {}
        Some("pass.read") => return Err(StatusCode::FORBIDDEN),
        _ => return Err(StatusCode::UNAUTHORIZED),
    }
    // Whose passes they are: `user.bob`; otherwise ada's.
    let name = who.and_then(|who| who.split('.').nth(2)).unwrap_or("ada");
    Ok(Json(json!({"userName": name, "userId": format!("user/{name}")})))
}

/// A pass of somebody who may (`user`) or who may only look (`read`); no two are alike.
pub(crate) fn pass(who: &str) -> String {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    format!("Bearer pass.{who}-{}", COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}
