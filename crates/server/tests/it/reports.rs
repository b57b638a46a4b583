//! What runtimes report: the envelope, its pages, what hostile ones send, and the facts that follow.

use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};
use slipway_store::identity::Subject;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::knock::Knock;
use crate::support::Platform;

static SEQUENCE: AtomicI64 = AtomicI64::new(1);

/// Higher than all before.
pub(crate) fn sequence() -> i64 {
    SEQUENCE.fetch_add(1, Ordering::SeqCst)
}

pub(crate) fn application(body: Value) -> Value {
    json!({"kind": "argoproj.io/Application", "namespace": body["namespace"], "name": body["name"],
        "uid": body["uid"].as_str().unwrap_or("u"), "resourceVersion": "1", "body": body})
}

/// What changed, by runtime `local`.
pub(crate) fn changes(apps: Vec<Value>) -> Value {
    let entities: Vec<Value> = apps.into_iter().map(application).collect();
    json!({"runtime": "local", "version": "1", "cluster": "c", "sequence": sequence(), "entities": entities})
}

/// Everything there is, by runtime `local`.
pub(crate) fn everything(apps: Vec<Value>) -> Value {
    let mut body = changes(apps);
    body["complete"] = json!({"page": 0, "last": true});
    body
}

pub(crate) fn app(name: &str, more: Value) -> Value {
    let mut app = json!({"namespace": "argocd", "name": name, "project": "default", "repoUrl": "r", "path": "p",
        "targetRevision": "HEAD", "destination": "d", "syncStatus": "Synced", "healthStatus": "Healthy",
        "summary": "all is well", "observedAt": "2026-01-01T00:00:00Z"});
    for (key, value) in more.as_object().into_iter().flatten() {
        app[key] = value.clone();
    }
    app
}

struct Reporting {
    platform: Platform,
    key: String,
}

impl Reporting {
    async fn start() -> Self {
        let platform = Platform::start().await;
        let key = platform.agent(Subject::Runtime, "local").await;
        Self { platform, key }
    }

    async fn send(&self, body: Value) -> (u16, Value) {
        self.platform.call("POST", "/2.0/api/events", &self.key, Some(body)).await
    }

    async fn taken(&self, body: Value) -> Value {
        let (status, answer) = self.send(body).await;
        assert_eq!((status, &answer["taken"]), (200, &json!(true)), "{answer}");
        answer
    }

    /// A page of the complete report with this number.
    async fn page(&self, sequence: i64, page: u32, last: bool, names: &[&str]) -> Value {
        let mut body = changes(names.iter().map(|name| app(name, json!({}))).collect());
        body["sequence"] = json!(sequence);
        body["complete"] = json!({"page": page, "last": last});
        let (status, answer) = self.send(body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    async fn names(&self) -> Vec<String> {
        let list = self.platform.get("/api/applications").await;
        let apps = list["applications"].as_array().unwrap().iter();
        apps.map(|app| app["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Facts about Applications, in their order: what happened to which.
    fn facts(&self) -> Vec<Value> {
        let facts = self.platform.facts().into_iter();
        facts.filter(|fact| fact["event"]["runtime"].is_string()).collect()
    }
}

fn kinds(facts: &[Value]) -> Vec<&str> {
    facts.iter().map(|fact| fact["kind"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_are_lost_repeated_or_out_of_order_converge() {
    let runtime = Reporting::start().await;
    runtime.taken(everything(vec![app("old", json!({}))])).await;
    // The last page first; then one twice.
    let number = sequence();
    let answer = runtime.page(number, 2, true, &["e"]).await;
    assert_eq!(answer["missing"], json!([0, 1]), "{answer}");
    runtime.page(number, 0, false, &["a", "b"]).await;
    let answer = runtime.page(number, 0, false, &["a", "b"]).await;
    assert_eq!(answer["missing"], json!([1]), "{answer}");
    assert_eq!(runtime.names().await, ["a", "b", "e", "old"], "nothing goes before the end");
    let answer = runtime.page(number, 1, false, &["c"]).await;
    assert_eq!(answer.get("missing"), None, "{answer}");
    assert_eq!(runtime.names().await, ["a", "b", "c", "e"]);
    // What changed since is not undone by a page that comes again.
    let mut gone = changes(vec![app("a", json!({"summary": "new"}))]);
    gone["removed"] = json!([{"kind": "argoproj.io/Application", "namespace": "argocd", "name": "b"}]);
    runtime.taken(gone).await;
    runtime.page(number, 0, false, &["a", "b"]).await;
    assert_eq!(runtime.names().await, ["a", "c", "e"]);
    assert_eq!(runtime.platform.get("/api/applications/local/argocd/a").await["summary"], "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_report_that_never_ends_removes_nothing_and_a_later_one_takes_its_place() {
    let runtime = Reporting::start().await;
    runtime.taken(everything(vec![app("old", json!({})), app("kept", json!({}))])).await;
    let first = sequence();
    runtime.page(first, 0, false, &["a"]).await;
    assert_eq!(runtime.names().await, ["a", "kept", "old"]);
    let second = sequence();
    runtime.page(second, 0, false, &["kept"]).await;
    // The end of the first is nobody's end any more.
    let answer = runtime.page(first, 1, true, &["late"]).await;
    assert_eq!((&answer["taken"], &answer["sequence"]), (&json!(false), &json!(second)));
    assert_eq!(runtime.names().await, ["a", "kept", "old"]);
    runtime.page(second, 1, true, &[]).await;
    assert_eq!(runtime.names().await, ["kept"]);
    // So is a change from before it.
    let mut late = changes(vec![app("late", json!({}))]);
    late["sequence"] = json!(first);
    assert_eq!(runtime.send(late).await.1["taken"], json!(false));
    assert_eq!(runtime.names().await, ["kept"]);
}

/// The parts of these, and the others.
fn parts_of(names: &[&str]) -> (Vec<u16>, Vec<u16>) {
    let ours: std::collections::BTreeSet<_> =
        names.iter().map(|name| slipway_model::share_of("argocd", name)).collect();
    (0..slipway_model::SHARES).partition(|part| ours.contains(part))
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_one_runtime_each_report_their_own_part_completely() {
    let runtime = Reporting::start().await;
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let name = format!("app-{number}");
        let half = slipway_model::share_of("argocd", &name) < 32;
        if half { &mut one } else { &mut two }.push(name);
    }
    let names = |all: &[String]| all.iter().map(|name| app(name, json!({}))).collect::<Vec<_>>();
    let low: Vec<u16> = (0..32).collect();
    let high: Vec<u16> = (32..64).collect();
    let body = |apps: Vec<Value>, replica: &str, parts: &[u16]| {
        let mut body = everything(apps);
        (body["replica"], body["parts"]) = (json!(replica), json!(parts));
        body
    };
    // An earlier process that was alone told of something that is gone since.
    runtime.taken(everything(vec![app("gone", json!({})), app("app-0", json!({}))])).await;
    let mut expected: Vec<_> = one.iter().chain(&two).cloned().collect();
    expected.sort();
    // Page by page, one between the pages of the other: neither takes the place of the other.
    let mut first = body(names(&one[..1]), "a", &low);
    first["complete"] = json!({"page": 0, "last": false});
    let number = first["sequence"].clone();
    runtime.taken(first).await;
    runtime.taken(body(names(&two), "b", &high)).await;
    let mut last = body(names(&one[1..]), "a", &low);
    (last["complete"], last["sequence"]) = (json!({"page": 1, "last": true}), number.clone());
    runtime.taken(last).await;
    assert_eq!(runtime.names().await, expected);
    // What one does not name goes when it is of its part, and of its part alone.
    let between = sequence();
    let kept = &one[1..];
    runtime.taken(body(names(kept), "a", &low)).await;
    expected.retain(|name| *name != one[0]);
    assert_eq!(runtime.names().await, expected);
    // A change from before the complete report of its part comes late; in the same body another part's does not.
    let mut late = changes(vec![app(&one[0], json!({})), app(&two[0], json!({"summary": "new"}))]);
    late["sequence"] = json!(between);
    let answer = runtime.taken(late).await;
    let stale: Vec<_> =
        answer["stale"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(stale, [one[0].as_str()], "{answer}");
    assert_eq!(runtime.names().await, expected, "nothing came back");
    let shown = runtime.platform.get(&format!("/api/applications/local/argocd/{}", two[0])).await;
    assert_eq!(shown["summary"], "new");
    // Said again with a higher number it stands.
    runtime.taken(changes(vec![app(&two[0], json!({"summary": "newer"}))])).await;
    let shown = runtime.platform.get(&format!("/api/applications/local/argocd/{}", two[0])).await;
    assert_eq!(shown["summary"], "newer");
    // A part moved: its new process says all of it, and the old one's body comes too late.
    let (part, _) = parts_of(&[&two[1]]);
    let mut old = changes(vec![app(&two[1], json!({"summary": "old"}))]);
    let before = old["sequence"].clone();
    runtime.taken(body(vec![app(&two[1], json!({"summary": "theirs"}))], "c", &part)).await;
    old["sequence"] = before;
    let (_, answer) = runtime.send(old).await;
    assert_eq!(answer["stale"][0]["name"], two[1].as_str(), "{answer}");
    let shown = runtime.platform.get(&format!("/api/applications/local/argocd/{}", two[1])).await;
    assert_eq!(shown["summary"], "theirs");
    // Numbers of parts and names of processes have limits.
    for (key, wrong) in [("parts", json!([64])), ("replica", json!("x".repeat(65)))] {
        let mut body = everything(Vec::new());
        body[key] = wrong;
        assert_eq!(runtime.send(body).await.0, 400, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_says_what_was_heard_before_and_when_to_come_again() {
    let runtime = Reporting::start().await;
    runtime.platform.hold_the_clock();
    let first = changes(vec![app("a", json!({}))]);
    let number = first["sequence"].clone();
    assert_eq!(runtime.taken(first).await["before"], 0);
    assert_eq!(runtime.taken(changes(Vec::new())).await["before"], number);
    // Whoever says too much at once is asked to wait, and loses nothing by it.
    let mut flood = changes(Vec::new());
    let large = |name: &str| json!({"kind": "argoproj.io/Rollout", "namespace": "a", "name": name, "body": "x".repeat(3 << 20)});
    flood["entities"] = json!([large("a"), large("b")]);
    let asked_to_wait = loop {
        flood["sequence"] = json!(sequence());
        let call = runtime.platform.http().post(format!("{}/2.0/api/events", runtime.platform.url));
        let answer = call.header("authorization", &runtime.key).json(&flood).send().await.unwrap();
        if answer.status() != 200 {
            break answer;
        }
    };
    assert_eq!(asked_to_wait.status(), 429);
    let seconds: u64 = asked_to_wait.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..60).contains(&seconds), "{seconds}");
    runtime.platform.pass(i64::try_from(seconds).unwrap() * 1_000);
    runtime.taken(changes(vec![app("b", json!({}))])).await;
    assert_eq!(runtime.names().await, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packed_report_is_a_report_and_one_that_unpacks_to_too_much_is_refused() {
    use std::io::Write as _;
    let runtime = Reporting::start().await;
    let pack = |bytes: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    };
    let send = async |encoding: &str, body: Vec<u8>, key: &str| {
        let call = runtime.platform.http().post(format!("{}/2.0/api/events", runtime.platform.url));
        let call = call.header("authorization", key).header("content-type", "application/json");
        let answer = call.header("content-encoding", encoding).body(body).send().await.unwrap();
        answer.status().as_u16()
    };
    let report = || everything(vec![app("a", json!({}))]).to_string().into_bytes();
    assert_eq!(send("gzip", pack(&report()), &runtime.key).await, 200);
    assert_eq!(runtime.names().await, ["a"]);
    assert_eq!(send("identity", report(), &runtime.key).await, 200);
    // Six gigabytes in six megabytes; and what is no gzip, or packed otherwise.
    let bomb = pack(&vec![b' '; 16 << 20]).repeat(400);
    assert!(bomb.len() < 8 << 20, "{}", bomb.len());
    assert_eq!(send("gzip", bomb.clone(), &runtime.key).await, 413);
    assert_eq!(send("gzip", report(), &runtime.key).await, 400);
    assert_eq!(send("gzip, gzip", pack(&pack(&report())), &runtime.key).await, 415);
    assert_eq!(send("br", report(), &runtime.key).await, 415);
    // Nobody's body is unpacked, and what is said is counted as it is unpacked.
    assert_eq!(send("gzip", bomb, "nobody").await, 401);
    runtime.platform.hold_the_clock();
    let mut flood = changes(Vec::new());
    flood["entities"] =
        json!([{"kind": "argoproj.io/Rollout", "namespace": "a", "name": "a", "body": "x".repeat(3 << 20)}]);
    let mut calls = 0;
    loop {
        flood["sequence"] = json!(sequence());
        match send("gzip", pack(flood.to_string().as_bytes()), &runtime.key).await {
            200 => calls += 1,
            429 => break,
            other => panic!("{other}"),
        }
        assert!(calls < 40, "a flood is a flood, however small it is packed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_kind_goes_through_the_same_envelope_to_administrators() {
    let runtime = Reporting::start().await;
    let set = |name: &str, health: &str| {
        json!({"kind": "argoproj.io/ApplicationSet", "namespace": "argocd", "name": name, "uid": "u", "resourceVersion": "7",
            "state": {"health": health, "message": "no such repository"}, "body": {"conditions": [], "applications": []}})
    };
    let mut body = everything(vec![app("shop", json!({}))]);
    for name in ["a", "b", "c"] {
        body["entities"].as_array_mut().unwrap().push(set(name, "Degraded"));
    }
    runtime.taken(body).await;
    let platform = &runtime.platform;
    let path = "/api/gitops/entities?kind=argoproj.io%2FApplicationSet&limit=2";
    let first = platform.get(path).await;
    let one = &first["entities"][0];
    assert_eq!((&one["runtime"], &one["name"]), (&json!("local"), &json!("a")));
    assert_eq!((&one["state"]["health"], &one["resourceVersion"]), (&json!("Degraded"), &json!("7")));
    let next = first["next"].as_str().unwrap().replace('/', "%2F");
    let rest = platform.get(&format!("{path}&after={next}")).await;
    assert_eq!((&rest["entities"][0]["name"], rest.get("next")), (&json!("c"), None));
    let apps = platform.get("/api/gitops/entities?kind=argoproj.io%2FApplication").await;
    assert_eq!(apps["entities"].as_array().unwrap().len(), 1, "{apps}");
    assert_eq!(platform.get("/api/runtimes").await[0]["applications"], 1, "sets are no Applications");
    // Who may see it: Administrators of the account, with a key that may read GitOps.
    let (_, stranger) = platform.account("elsewhere").await;
    assert_eq!(platform.call("GET", path, &stranger, None).await.1["entities"], json!([]));
    let (_, member) = platform.member("ada@example.com", "User").await;
    assert_eq!(platform.call("GET", path, &member, None).await.0, 403);
    assert_eq!(platform.call("GET", path, "", None).await.0, 401);
    Knock::new(platform, "GET", path).needs_scope("gitops:read").await;
    for wrong in ["&limit=0", "&limit=501", "&what=ever"] {
        assert_eq!(platform.call("GET", &format!("{path}{wrong}"), &platform.admin_key, None).await.0, 400);
    }
    // One that is gone is gone.
    let mut body = changes(Vec::new());
    body["removed"] = json!([{"kind": "argoproj.io/ApplicationSet", "namespace": "argocd", "name": "a"}]);
    runtime.taken(body).await;
    assert_eq!(platform.get(path).await["entities"][0]["name"], "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_runtime_speaks_of_itself_alone_and_within_limits() {
    let runtime = Reporting::start().await;
    let other = runtime.platform.agent(Subject::Runtime, "other").await;
    let mut theirs = everything(vec![app("theirs", json!({}))]);
    theirs["runtime"] = json!("other");
    assert_eq!(runtime.platform.call("POST", "/2.0/api/events", &other, Some(theirs.clone())).await.0, 200);
    // In another's name, and without a runtime's key.
    assert_eq!(runtime.send(theirs.clone()).await.0, 403);
    let admin = runtime.platform.admin_key.clone();
    assert_eq!(runtime.platform.call("POST", "/2.0/api/events", &admin, Some(theirs)).await.0, 403);
    // Whatever the body says, the envelope names it; nobody else's is touched, not even by a complete report.
    let mut lies = application(app("mine", json!({"runtime": "other", "summary": "lies"})));
    lies["body"]["name"] = json!("theirs");
    let mut body = everything(Vec::new());
    body["entities"] = json!([lies]);
    runtime.taken(body).await;
    assert_eq!(runtime.names().await, ["mine", "theirs"]);
    assert_eq!(runtime.platform.get("/api/applications/other/argocd/theirs").await["summary"], "all is well");
    let facts = runtime.facts();
    assert!(facts.iter().all(|fact| fact["event"]["runtime"] != "other"), "{facts:?}");

    for (what, wrong) in [
        ("no number", json!({"sequence": 0})),
        ("a number that nothing can follow", json!({"sequence": i64::MAX})),
        ("a page that nobody can wait for", json!({"complete": {"page": 4_000_000, "last": false}})),
        (
            "a removal without a name",
            json!({"removed": [{"kind": "argoproj.io/Application", "namespace": "", "name": ""}]}),
        ),
        (
            "too many names",
            json!({"removed": vec![json!({"kind": "Pod", "namespace": "a", "name": "b"}); 10_001]}),
        ),
    ] {
        let mut body = changes(Vec::new());
        for (key, value) in wrong.as_object().unwrap() {
            body[key] = value.clone();
        }
        let (status, answer) = runtime.send(body).await;
        assert_eq!(status, 400, "{what}: {answer}");
    }
    // One that cannot be kept holds up none of the others, and what was known of it stays.
    let mut body = everything(vec![app("good", json!({}))]);
    let huge =
        json!({"kind": "argoproj.io/Rollout", "namespace": "a", "name": "huge", "body": "x".repeat(5 << 20)});
    let unreadable = json!({"kind": "argoproj.io/Application", "namespace": "argocd", "name": "mine", "body": {"name": 7}});
    let nameless = json!({"kind": "argoproj.io/Application", "namespace": "a/b", "name": "c", "body": {}});
    for wrong in [huge, unreadable, nameless] {
        body["entities"].as_array_mut().unwrap().push(wrong);
    }
    let answer = runtime.taken(body).await;
    assert_eq!(answer["refused"].as_array().unwrap().len(), 3, "{answer}");
    assert_eq!(runtime.names().await, ["good", "mine", "theirs"]);
    // More than a body may weigh.
    let mut body = changes(Vec::new());
    body["version"] = json!("x".repeat(9 << 20));
    assert_eq!(runtime.send(body).await.0, 413);
}

fn operation(phase: &str, began: &str, finished: Option<&str>) -> Value {
    json!({"phase": phase, "message": "", "startedAt": began, "finishedAt": finished, "revision": "sha1", "initiatedBy": "ada"})
}

fn deployment(id: i64, began: &str, at: &str) -> Value {
    json!({"id": id, "revision": {"sha": format!("sha{id}")}, "startedAt": began, "deployedAt": at, "initiatedBy": "ada"})
}

fn minutes_ago(minutes: i64) -> String {
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Each change is one fact, whoever repeats it; and what happened while the runtime was away is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn syncs_deployments_and_health_are_facts_exactly_once() {
    let runtime = Reporting::start().await;
    // One moment for all: a sync is known by when it began.
    let times: Vec<String> = (0..60).map(minutes_ago).collect();
    let ago = |minutes: usize| times[minutes].clone();
    runtime.taken(everything(vec![app("shop", json!({}))])).await;
    assert!(runtime.facts().is_empty());
    let running = app("shop", json!({"operation": operation("Running", &ago(50), None)}));
    runtime.taken(changes(vec![running.clone()])).await;
    runtime.taken(changes(vec![running.clone()])).await;
    assert_eq!(kinds(&runtime.facts()), ["syncStarted"]);
    let done = app(
        "shop",
        json!({"operation": operation("Succeeded", &ago(50), Some(&ago(49))), "healthStatus": "Degraded",
        "healthChangedAt": ago(45), "history": [deployment(0, &ago(50), &ago(49))]}),
    );
    let body = changes(vec![done.clone()]);
    runtime.taken(body.clone()).await;
    // The same body again, and the same state in a complete report.
    runtime.taken(body).await;
    runtime.taken(everything(vec![done.clone()])).await;
    let facts = runtime.facts();
    assert_eq!(kinds(&facts), ["syncStarted", "syncFinished", "deployed", "healthChanged"]);
    let (finished, deployed, health) = (&facts[1], &facts[2], &facts[3]);
    assert_eq!(
        (&finished["phase"], &finished["event"]["revisions"]),
        (&json!("Succeeded"), &json!(["sha1"]))
    );
    assert_eq!((&deployed["id"], &deployed["event"]["revisions"]), (&json!(0), &json!(["sha0"])));
    assert_eq!((&health["before"], &health["health"]), (&json!("Healthy"), &json!("Degraded")));
    let event = &deployed["event"];
    assert_eq!((&event["namespace"], &event["name"]), (&json!("argocd"), &json!("shop")));
    assert!(event["atMs"].as_i64() < event["heardAtMs"].as_i64(), "{event}");
    // Away meanwhile: two deployments and the last operation are what it knows of.
    let later = app(
        "shop",
        json!({"operation": operation("Failed", &ago(5), Some(&ago(4))), "healthStatus": "Degraded",
        "history": [deployment(2, &ago(20), &ago(19)), deployment(1, &ago(30), &ago(29)), deployment(0, &ago(50), &ago(49))]}),
    );
    runtime.taken(everything(vec![later.clone()])).await;
    runtime.taken(everything(vec![later.clone()])).await;
    let facts = runtime.facts();
    assert_eq!(kinds(&facts[4..]), ["deployed", "deployed", "syncStarted", "syncFinished"]);
    // Taken away and back again, it is still the same Application; another of its name is not.
    runtime.taken(everything(Vec::new())).await;
    runtime.taken(everything(vec![later.clone()])).await;
    assert_eq!(runtime.facts().len(), 8);
    let mut another = later;
    another["uid"] = json!("another");
    runtime.taken(everything(vec![another])).await;
    assert_eq!(
        kinds(&runtime.facts()[8..]),
        ["deployed", "deployed", "deployed", "syncStarted", "syncFinished"]
    );
}

/// A custom resource knows the images of its last sync alone: the control plane remembers those before, for API, GraphQL and facts.
#[tokio::test(flavor = "multi_thread")]
async fn releases_say_who_why_and_which_images_took_the_place_of_which() {
    let runtime = Reporting::start().await;
    let now = jiff::Timestamp::now();
    let ago =
        |minutes| (now - jiff::SignedDuration::from_mins(minutes)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let release = |id: i64, minutes: i64, why: &str, images: &[&str]| {
        json!({"id": id, "revision": {"sha": format!("sha{id}")}, "startedAt": ago(minutes), "deployedAt": ago(minutes - 1),
            "initiatedBy": "ada", "why": why, "images": images, "imageChanges": [{"image": "forged", "before": ["1"], "after": ["2"]}]})
    };
    let first = release(0, 50, "first", &["reg:5000/web:1", "db:9"]);
    runtime.taken(everything(vec![app("shop", json!({"history": [first]}))])).await;
    // Its history reaches back no further than one deployment, and says the images of the newest alone.
    let mut second = release(1, 30, "commit", &["reg:5000/web:2", "db:9"]);
    second["revision"]["author"] = json!("Ada");
    let named = app("shop", json!({"history": [second.clone(), release(0, 50, "first", &[])]}));
    runtime.taken(changes(vec![named])).await;
    second["images"] = json!([]);
    second["revision"] = json!({"sha": "sha1"});
    let healing = json!({"phase": "Succeeded", "message": "", "startedAt": ago(9), "finishedAt": ago(8),
        "revision": "sha1", "initiatedBy": "automated sync", "automated": true, "why": "drift"});
    let later = app("shop", json!({"history": [second, release(0, 50, "", &[])], "operation": healing}));
    for _ in 0..2 {
        runtime.taken(everything(vec![later.clone()])).await;
    }
    let shown = runtime.platform.get("/api/applications/local/argocd/shop").await;
    let (newest, oldest) = (&shown["history"][0], &shown["history"][1]);
    assert_eq!(
        newest["imageChanges"],
        json!([{"image": "reg:5000/web", "before": ["1"], "after": ["2"]}]),
        "{shown}"
    );
    assert_eq!((&newest["why"], &newest["revision"]["author"]), (&json!("commit"), &json!("Ada")));
    assert_eq!((&oldest["why"], &oldest["images"]), (&json!("first"), &json!(["reg:5000/web:1", "db:9"])));
    assert_eq!(
        (&shown["operation"]["why"], &shown["operation"]["automated"]),
        (&json!("drift"), &json!(true))
    );
    let query = "{ gitopsReleases(runtime: \"local\", namespace: \"argocd\", name: \"shop\") { edges { node {
        historyId why automated initiatedBy imageChanges { image before after } } } } }";
    let (_, answer) = runtime
        .platform
        .call("POST", "/2.0/api/graphql", &runtime.platform.admin_key, Some(json!({"query": query})))
        .await;
    assert_eq!(
        answer["data"]["gitopsReleases"]["edges"][0]["node"],
        json!({"historyId": 1, "why": "commit", "automated": false, "initiatedBy": "ada",
            "imageChanges": [{"image": "reg:5000/web", "before": ["1"], "after": ["2"]}]}),
        "{answer}"
    );
    let facts = runtime.facts();
    let told = |at: usize| (facts[at]["kind"].as_str().unwrap(), facts[at]["event"]["why"].as_str().unwrap());
    assert_eq!(
        [told(0), told(1), told(2), told(3)],
        [("deployed", "first"), ("deployed", "commit"), ("syncStarted", "drift"), ("syncFinished", "drift")]
    );
    // Another object of the name: nothing of the one before is its own.
    let mut other = app("shop", json!({"history": [release(0, 50, "", &[])]}));
    other["uid"] = json!("another");
    runtime.taken(changes(vec![other])).await;
    let shown = runtime.platform.get("/api/applications/local/argocd/shop").await;
    assert_eq!((&shown["history"][0]["images"], &shown["history"][0]["why"]), (&Value::Null, &Value::Null));
}

/// A push behind many facts that are about something else is heard at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_heard_behind_many_other_facts() {
    let runtime = Reporting::start().await;
    let platform = &runtime.platform;
    let (_, start) = platform.call("GET", "/api/agent/runtime/events", &runtime.key, None).await;
    let ago = minutes_ago;
    let apps = (0..300).map(|n| app(&format!("a{n}"), json!({"history": [deployment(0, &ago(9), &ago(8))]})));
    runtime.taken(everything(apps.collect())).await;
    assert_eq!(runtime.facts().len(), 300);
    platform.post("/api/repos", json!({"name": "demo/deploy"})).await;
    let remote = platform.clone_url("demo/deploy", &platform.admin_key);
    let work = crate::support::working_copy(platform.folder.path(), &remote);
    assert!(crate::support::git(&work, &["push", "origin", "main"]).0);
    let path = format!("/api/agent/runtime/events?after={}&waitMs=0", start["next"]);
    let (_, heard) = platform.call("GET", &path, &runtime.key, None).await;
    assert_eq!(heard["events"].as_array().unwrap().len(), 1, "{heard}");
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_runtime_fares_is_kept_per_process_and_judged() {
    let runtime = Reporting::start().await;
    runtime.platform.hold_the_clock();
    let said = |replica: &str, engine: &str, cluster: &str| {
        let mut body = changes(Vec::new());
        body["replica"] = replica.into();
        body["health"] = json!({"namespace": "argocd",
            "installedBy": "helm", "chart": "slipway-runtime-1.2.3",
            "components": [{"name": "applications", "state": engine, "message": "canary-component"}, {"name": "rollouts", "state": "off"}]});
        let there = json!({"name": "prod", "server": "https://canary-server", "state": cluster, "message": "canary-cluster", "applications": 2});
        body["entities"] = json!([{"kind": "slipway.io/Cluster", "namespace": "argocd", "name": "prod", "uid": "", "body": there}]);
        body
    };
    let (_, member) = crate::knock::member_in(&runtime.platform, "ada@example.com", "devs").await;
    let (_, elsewhere) = runtime.platform.account("elsewhere").await;
    runtime.taken(said("a", "healthy", "Successful")).await;
    let shown = runtime.platform.get("/api/runtimes/local").await;
    // It has reported, and no tunnel is open.
    assert_eq!((&shown["health"], &shown["namespace"]), (&json!("degraded"), &json!("argocd")), "{shown}");
    assert!(shown["healthReasons"][0].as_str().unwrap().contains("no tunnel"), "{shown}");
    let change = json!({"ingressUrl": "https://runtime.example.com"});
    runtime.platform.call("PATCH", "/api/runtimes/local", &runtime.platform.admin_key, Some(change)).await;
    let shown = runtime.platform.get("/api/runtimes/local").await;
    assert_eq!(shown["health"], "healthy");
    for (field, value) in [
        ("installedBy", json!("helm")),
        ("chart", json!("slipway-runtime-1.2.3")),
        ("modules", json!(["GitOps"])),
    ] {
        assert_eq!(shown[field], value, "{field} of {shown}");
    }
    runtime.taken(said("b", "degraded", "Failed")).await;
    let shown = runtime.platform.get("/api/runtimes/local").await;
    assert_eq!(shown["health"], "degraded");
    let reasons = shown["healthReasons"].to_string();
    assert!(reasons.contains("canary-component") && reasons.contains("canary-cluster"), "{reasons}");
    assert_eq!(shown["components"].as_array().map(Vec::len), Some(4), "{shown}");
    let cluster = &shown["clusters"][0];
    assert_eq!((&cluster["applications"], &cluster["state"]), (&json!(2), &json!("Failed")), "{shown}");
    assert_eq!(shown["connectivity"].as_array().map(Vec::len), Some(3), "{shown}");
    // A member sees that something is wrong; another account sees nothing of it.
    for path in ["/api/runtimes/local", "/api/runtimes"] {
        let (status, theirs) = runtime.platform.call("GET", path, &member, None).await;
        assert_eq!(status, 200);
        assert!(
            theirs.to_string().contains("degraded") && !theirs.to_string().contains("canary"),
            "{theirs}"
        );
    }
    assert_eq!(runtime.platform.call("GET", "/api/runtimes/local", &elsewhere, None).await.0, 404);
    // One of two is missing after a minute, and both are away a moment later than that.
    runtime.platform.pass(61_000);
    runtime.taken(said("a", "healthy", "Successful")).await;
    let shown = runtime.platform.get("/api/runtimes/local").await;
    assert!(shown["healthReasons"].to_string().contains("process b was last heard of"), "{shown}");
    runtime.platform.pass(46_000);
    let shown = runtime.platform.get("/api/runtimes/local").await;
    assert_eq!((&shown["health"], &shown["state"]), (&json!("unreachable"), &json!("offline")), "{shown}");
    // What is said of a runtime is said by its own key.
    let mut forged = said("x", "healthy", "Successful");
    forged["runtime"] = "other".into();
    assert_eq!(runtime.send(forged).await.0, 403);
}

/// A report whose sender's key was looked at, because its head has come: `100 Continue` says so. The rest of it has not.
struct UnderWay {
    wire: tokio::net::TcpStream,
    body: String,
}

impl UnderWay {
    async fn begin(runtime: &Reporting) -> Self {
        let body = changes(vec![app("late", json!({}))]).to_string();
        let address = runtime.platform.url.trim_start_matches("http://").to_owned();
        let mut wire = tokio::net::TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "POST /2.0/api/events HTTP/1.1\r\nhost: {address}\r\nauthorization: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n",
            runtime.key,
            body.len()
        );
        wire.write_all(head.as_bytes()).await.unwrap();
        let mut go_on = [0; 25];
        wire.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        Self { wire, body }
    }

    async fn end(mut self) -> String {
        self.wire.write_all(self.body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        self.wire.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_was_under_way_while_its_runtime_was_renamed_brings_no_old_name_back() {
    let runtime = Reporting::start().await;
    runtime.taken(everything(vec![app("a", json!({}))])).await;
    let report = UnderWay::begin(&runtime).await;
    let platform = &runtime.platform;
    let rename = Some(json!({"name": "east"}));
    let (status, said) = platform.call("PATCH", "/api/runtimes/local", &platform.admin_key, rename).await;
    assert_eq!(status, 200, "{said}");
    let answer = report.end().await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let all = runtime.platform.get("/api/runtimes").await;
    let names: Vec<_> = all.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["east"], "{all}");
}

/// Whoever holds a stolen token may have begun many.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_was_under_way_while_its_token_was_replaced_is_not_believed() {
    let runtime = Reporting::start().await;
    runtime.taken(everything(vec![app("a", json!({}))])).await;
    let report = UnderWay::begin(&runtime).await;
    let platform = &runtime.platform;
    let (status, said) = platform.call("POST", "/api/runtimes/local/token", &platform.admin_key, None).await;
    assert_eq!(status, 200, "{said}");
    let answer = report.end().await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(runtime.names().await, ["a"]);
}
