//! Projects, pipelines with their revisions, the queue, approvals, restarts, triggers by clock and by other pipelines.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::support::Platform;

struct Runner<'p> {
    platform: &'p Platform,
    key: String,
}

impl<'p> Runner<'p> {
    async fn new(platform: &'p Platform) -> Self {
        Self { platform, key: platform.agent(Subject::Runner, "r1").await }
    }

    /// Holds `running` and takes up to `free` more.
    async fn sync(&self, free: u32, running: &[Value]) -> Value {
        let body = json!({"runner": "r1", "version": "1", "executor": "host", "free": free, "running": running, "waitMs": 0});
        let (status, answer) =
            self.platform.call("POST", "/api/agent/runner/sync", &self.key, Some(body)).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    async fn report(&self, taken: &Value, revision: i64, status: &str, steps: Value) {
        let path = format!("/api/agent/runner/builds/{}/state", text(&taken["id"]));
        let body = json!({"epoch": taken["epoch"], "revision": revision, "status": status, "startedMs": 1, "steps": steps});
        let (code, answer) = self.platform.call("PUT", &path, &self.key, Some(body)).await;
        assert_eq!(code, 200, "{answer}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn held(taken: &Value) -> Value {
    json!({"id": taken["id"], "epoch": taken["epoch"]})
}

fn ids(answer: &Value) -> Vec<String> {
    answer["taken"].as_array().unwrap().iter().map(|build| text(&build["id"])).collect()
}

fn step(name: &str, status: &str) -> Value {
    json!({"name": name, "title": name, "type": "freestyle", "status": status})
}

async fn pipeline(platform: &Platform, name: &str, spec: Value) -> Value {
    let mut whole = json!({"steps": {"hello": {"image": "busybox", "commands": ["echo"]}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    platform.post("/api/pipelines", json!({"metadata": {"name": name}, "spec": whole})).await
}

async fn run(platform: &Platform, name: &str, body: Value) -> String {
    text(&platform.post(&format!("/api/pipelines/run/{}", name.replace('/', "%2F")), body).await)
}

#[tokio::test]
async fn projects_group_pipelines_give_them_variables_and_are_renamed_with_them() {
    let platform = Platform::start().await;
    let made = platform
        .post(
            "/api/projects",
            json!({"projectName": "shop", "tags": ["web"], "variables": [
                {"key": "REGION", "value": "eu"}, {"key": "TOKEN", "value": "canary-project", "encrypted": true},
            ]}),
        )
        .await;
    assert!(!made.to_string().contains("canary"), "{made}");
    pipeline(&platform, "shop/build", json!({})).await;
    let shop = platform.get("/api/projects/name/shop").await;
    assert_eq!((&shop["pipelinesNumber"], &shop["tags"]), (&json!(1), &json!(["web"])));
    let listed = platform.get(&format!("/api/pipelines?projectId={}", text(&shop["id"]))).await;
    assert_eq!(listed["count"], 1);
    assert_eq!(listed["docs"][0]["metadata"]["projectId"], shop["id"]);
    assert_eq!(platform.get("/api/pipelines?projectId=acacacacacacacacacacacac").await["count"], 0);

    // The build has them, the secret opened, below the pipeline's own.
    let build = run(&platform, "shop/build", json!({})).await;
    let runner = Runner::new(&platform).await;
    let taken = runner.sync(1, &[]).await["taken"][0].clone();
    assert_eq!(taken["id"], json!(build));
    let layer = &taken["variables"][0];
    assert_eq!(
        (&layer["name"], &layer["variables"][1]["value"]),
        (&json!("project"), &json!("canary-project"))
    );

    let path = format!("/api/projects/{}", text(&shop["id"]));
    let (status, changed) =
        platform.call("PATCH", &path, &platform.admin_key, Some(json!({"projectName": "store"}))).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(platform.get("/api/pipelines/store%2Fbuild").await["metadata"]["project"], "store");
    let (status, refused) = platform.call("DELETE", &path, &platform.admin_key, None).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(
        platform.call("DELETE", "/api/pipelines/store%2Fbuild", &platform.admin_key, None).await.0,
        200
    );
    assert_eq!(platform.call("DELETE", &path, &platform.admin_key, None).await.0, 200);
}

#[tokio::test]
async fn rules_by_a_projects_tags_open_its_pipelines_and_no_others() {
    let platform = Platform::start().await;
    let (_, member) = platform.member("member@example.com", "User").await;
    platform.post("/api/projects", json!({"projectName": "open", "tags": ["public"]})).await;
    pipeline(&platform, "open/a", json!({})).await;
    pipeline(&platform, "closed/b", json!({})).await;
    for rule in platform.get("/api/abac").await.as_array().unwrap() {
        let path = format!("/api/abac/{}", text(&rule["id"]));
        assert_eq!(platform.call("DELETE", &path, &platform.admin_key, None).await.0, 200);
    }
    let rule = json!({"entityType": "pipeline", "team": "users", "action": "read", "relatedResource": "project", "tags": ["public"]});
    platform.post("/api/abac", rule).await;
    let (_, seen) = platform.call("GET", "/api/pipelines", &member, None).await;
    assert_eq!(seen["count"], 1, "{seen}");
    assert_eq!(platform.call("GET", "/api/pipelines/open%2Fa", &member, None).await.0, 200);
    assert_eq!(platform.call("GET", "/api/pipelines/closed%2Fb", &member, None).await.0, 404);
    assert_eq!(platform.call("POST", "/api/pipelines/run/open%2Fa", &member, Some(json!({}))).await.0, 403);
}

#[tokio::test]
async fn a_pipeline_comes_back_as_it_went_in_and_its_states_are_kept() {
    let platform = Platform::start().await;
    // What nobody here knows, and an order of steps that no map would keep.
    let body = r#"{"version":"1.0","kind":"pipeline","metadata":{"name":"demo/round","labels":{"tags":["a"]},"isPublic":false},
        "spec":{"priority":5,"concurrency":2,"packId":"large","lowMemoryWarningThreshold":"90","unknownToUs":{"z":[1,{"b":null}]},
        "variables":[{"key":"N","value":3},{"key":"S","value":"canary-round","encrypted":true}],
        "steps":{"zeta":{"image":"x"},"alpha":{"image":"y","commands":["a"]}},"stages":["one"]}}"#;
    let (status, made) = platform
        .call("POST", "/api/pipelines", &platform.admin_key, Some(serde_json::from_str(body).unwrap()))
        .await;
    assert_eq!(status, 200, "{made}");
    let exported = platform.get("/api/pipelines/demo%2Fround").await;
    assert_eq!(exported["spec"]["unknownToUs"], json!({"z": [1, {"b": null}]}));
    assert_eq!(exported["spec"]["variables"][0]["value"], "3");
    assert!(!exported.to_string().contains("canary"));

    // Sent back as it is: nothing but the revision changes, the secret stays.
    let (status, again) = platform
        .call("PUT", "/api/pipelines/demo%2Fround", &platform.admin_key, Some(exported.clone()))
        .await;
    assert_eq!((status, &again["metadata"]["revision"]), (200, &json!(1)), "{again}");
    let diff = platform.get("/api/pipelines/demo%2Fround/diff?from=0").await;
    assert_eq!(diff["before"], diff["after"]);
    let opened = platform.get("/api/pipelines/demo%2Fround?decryptVariables=true").await;
    assert_eq!(opened["spec"]["variables"][1]["value"], "canary-round");

    // An older revision does not overwrite a newer one.
    let (status, stale) =
        platform.call("PUT", "/api/pipelines/demo%2Fround", &platform.admin_key, Some(exported)).await;
    assert_eq!(status, 409, "{stale}");
    let mut changed = again.clone();
    changed["spec"]["priority"] = json!(7);
    assert_eq!(
        platform.call("PUT", "/api/pipelines/demo%2Fround", &platform.admin_key, Some(changed)).await.0,
        200
    );
    let diff = platform.get("/api/pipelines/demo%2Fround/diff?from=1&to=2").await;
    assert!(
        text(&diff["before"]).contains("priority: 5") && text(&diff["after"]).contains("priority: 7"),
        "{diff}"
    );
    let back = platform.post("/api/pipelines/demo%2Fround/revisions/0/restore", json!({})).await;
    assert_eq!((&back["spec"]["priority"], &back["metadata"]["revision"]), (&json!(5), &json!(3)));
    assert_eq!(platform.get("/api/pipelines/demo%2Fround/revisions").await.as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn text_becomes_steps_in_their_order_and_what_is_wrong_is_said_at_once() {
    let platform = Platform::start().await;
    let yaml = "version: '1.0'\nstages: [a]\nsteps:\n  second:\n    image: x\n  first:\n    image: y\n";
    let body = json!({"metadata": {"name": "demo/text", "originalYamlString": yaml}, "spec": {}});
    platform.post("/api/pipelines", body).await;
    let build = run(&platform, "demo/text", json!({})).await;
    let runner = Runner::new(&platform).await;
    let taken = runner.sync(1, &[]).await["taken"][0].clone();
    assert_eq!(taken["id"], json!(build));
    assert_eq!(
        taken["source"]["yaml"],
        r#"{"version":"1.0","steps":{"second":{"image":"x"},"first":{"image":"y"}},"stages":["a"]}"#
    );

    let wrong = json!({"metadata": {"name": "demo/wrong"}, "spec": {
        "priority": 500, "variables": [{"key": "CF_BUILD_ID", "value": "x"}],
        "cronTriggers": [{"name": "c", "expression": "* * * * * *", "timeZone": "Mars/Base"}],
        "triggers": [{"name": "t", "repo": "nowhere", "branchRegex": "/(/"}, {"name": "t", "repo": "a/b", "context": "none"}],
    }});
    let (status, said) = platform.call("POST", "/api/pipelines", &platform.admin_key, Some(wrong)).await;
    let said = text(&said["message"]);
    assert_eq!(status, 400, "{said}");
    for part in [
        "priority",
        "CF_BUILD_ID",
        "seconds",
        "Mars/Base",
        "branchRegex",
        "twice",
        "owner/name",
        "Git integration `none`",
    ] {
        assert!(said.contains(part), "`{part}` in {said}");
    }
}

#[tokio::test]
async fn the_queue_goes_by_priority_and_keeps_to_every_limit() {
    let platform = Platform::start().await;
    let runner = Runner::new(&platform).await;
    pipeline(&platform, "q/low", json!({"priority": -5})).await;
    pipeline(&platform, "q/high", json!({"priority": 50, "concurrency": 1})).await;
    pipeline(&platform, "q/frozen", json!({"priority": 100, "concurrency": 0})).await;
    let low = run(&platform, "q/low", json!({})).await;
    let frozen = run(&platform, "q/frozen", json!({})).await;
    let (high, high_too) =
        (run(&platform, "q/high", json!({})).await, run(&platform, "q/high", json!({})).await);
    let first = runner.sync(10, &[]).await;
    assert_eq!(ids(&first), [high.clone(), low.clone()]);
    let waits = platform.get(&format!("/api/builds/{high_too}")).await;
    assert_eq!(waits["message"], "waiting: 1 build runs already of this pipeline, which is its concurrency");
    assert!(
        text(&platform.get(&format!("/api/builds/{frozen}")).await["message"])
            .contains("the pipeline is paused")
    );
    runner.report(&first["taken"][0], 1, "success", json!([])).await;
    let second = runner.sync(10, &[held(&first["taken"][1])]).await;
    assert_eq!(ids(&second), [high_too]);
}

#[tokio::test]
async fn branches_and_triggers_have_limits_of_their_own_and_a_new_build_may_end_an_old_one() {
    let platform = Platform::start().await;
    let runner = Runner::new(&platform).await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    let trigger = json!({"name": "t", "repo": "demo/app", "events": ["push"]});
    pipeline(&platform, "l/branch", json!({"branchConcurrency": 1, "triggers": [trigger]})).await;
    let sha = "1".repeat(40);
    let on = |branch: &str| json!({"branch": branch, "sha": sha});
    let a = run(&platform, "l/branch", on("a")).await;
    let _a_too = run(&platform, "l/branch", on("a")).await;
    let b = run(&platform, "l/branch", on("b")).await;
    assert_eq!(ids(&runner.sync(10, &[]).await), [a.clone(), b.clone()]);

    let policy = json!([{"type": "branch", "event": "onCreate"}]);
    pipeline(&platform, "l/ends", json!({"terminationPolicy": policy, "triggers": [trigger]})).await;
    let old = run(&platform, "l/ends", on("a")).await;
    let other = run(&platform, "l/ends", on("b")).await;
    let new = run(&platform, "l/ends", on("a")).await;
    let old = platform.get(&format!("/api/builds/{old}")).await;
    assert_eq!(old["status"], "terminated");
    assert!(text(&old["message"]).contains(&new), "{old}");
    assert_eq!(platform.get(&format!("/api/builds/{other}")).await["status"], "pending");
}

#[tokio::test]
async fn an_answer_to_an_approval_says_who_and_why_reaches_the_runner_and_counts_once() {
    let platform = Platform::start().await;
    let runner = Runner::new(&platform).await;
    let (_, member) = platform.member("ada@example.com", "User").await;
    pipeline(&platform, "a/ask", json!({})).await;
    let build = run(&platform, "a/ask", json!({})).await;
    let taken = runner.sync(1, &[]).await["taken"][0].clone();
    let path = format!("/api/builds/{build}/approvals");
    let early = platform.call("POST", &path, &member, Some(json!({"answer": "approve"}))).await;
    assert_eq!(early.0, 409, "nothing asks yet: {}", early.1);
    runner.report(&taken, 1, "pending-approval", json!([step("ask", "pending-approval")])).await;
    assert_eq!(platform.get(&format!("/api/builds/{build}")).await["can"]["approve"], true);
    let body = json!({"answer": "approve", "reason": "looked at it"});
    let (status, answer) = platform.call("POST", &path, &member, Some(body)).await;
    assert_eq!(
        (status, &answer["by"], &answer["reason"]),
        (200, &json!("ada@example.com"), &json!("looked at it")),
        "{answer}"
    );
    // The first one counts; the same again is the same, the other way is refused.
    assert_eq!(
        platform
            .call("GET", &format!("/api/workflow/{build}/pending-approval/approve"), &member, None)
            .await
            .0,
        200
    );
    assert_eq!(
        platform
            .call("GET", &format!("/api/workflow/{build}/pending-approval/deny"), &platform.admin_key, None)
            .await
            .0,
        409
    );

    // It comes until the runner has it, also to a runner that takes the build over.
    let heard = runner.sync(0, &[held(&taken)]).await;
    let decision = &heard["decisions"][0];
    assert_eq!(
        (&decision["step"], &decision["approved"], &decision["by"]),
        (&json!("ask"), &json!(true), &json!("ada@example.com"))
    );
    let mut knows = held(&taken);
    knows["decided"] = json!(["ask"]);
    assert!(runner.sync(0, &[knows]).await.get("decisions").is_none());
    let over = runner.sync(1, &[]).await["taken"][0].clone();
    assert_eq!((&over["id"], &over["decisions"][0]["reason"]), (&json!(build), &json!("looked at it")));
    let trail = platform.get("/api/audit?action=approve").await.to_string();
    assert!(trail.contains("looked at it") && trail.contains("ada@example.com"), "{trail}");
}

#[tokio::test]
async fn a_build_is_restarted_from_where_it_failed_when_its_pipeline_permits() {
    let platform = Platform::start().await;
    let runner = Runner::new(&platform).await;
    pipeline(&platform, "r/some", json!({})).await;
    pipeline(&platform, "r/never", json!({"permitRestartFromFailedSteps": false})).await;
    let build = run(&platform, "r/some", json!({"variables": [{"key": "A", "value": "b"}]})).await;
    let taken = runner.sync(1, &[]).await["taken"][0].clone();
    let path = format!("/api/builds/{build}/restart");
    let failed = json!({"fromFailed": true});
    assert_eq!(
        platform.call("POST", &path, &platform.admin_key, Some(failed.clone())).await.0,
        409,
        "it runs"
    );
    runner.report(&taken, 1, "error", json!([step("one", "success"), step("two", "error")])).await;
    let again = text(&platform.post(&path, failed.clone()).await);
    let next = runner.sync(1, &[]).await["taken"][0].clone();
    assert_eq!((&next["id"], &next["restart"]["build"]), (&json!(again), &json!(build)));
    assert_eq!(next["restart"]["steps"][0]["status"], "success");
    let of_run =
        next["variables"].as_array().unwrap().iter().find(|layer| layer["name"] == "build-run").unwrap();
    assert_eq!(of_run["variables"][0]["value"], "b", "the same inputs");
    runner.report(&next, 1, "success", json!([])).await;
    assert_eq!(platform.get(&format!("/api/builds/{again}")).await["restartOf"], json!(build));
    let (status, _) =
        platform.call("POST", &path, &platform.admin_key, Some(json!({"fromStep": "three"}))).await;
    assert_eq!(status, 404);

    let never = run(&platform, "r/never", json!({})).await;
    let taken = runner.sync(1, &[]).await["taken"][0].clone();
    runner.report(&taken, 1, "error", json!([step("one", "error")])).await;
    let (status, _) = platform
        .call("POST", &format!("/api/builds/{never}/restart"), &platform.admin_key, Some(failed))
        .await;
    assert_eq!(status, 403);
}

async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let end = std::time::Instant::now() + slipway_testkit::PATIENCE;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(std::time::Instant::now() < end, "{what}: not within 20 s");
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
}

async fn builds_of(platform: &Platform, pipeline: &str) -> Vec<Value> {
    let all = platform.get("/api/workflow?limit=500").await;
    let docs = all["workflows"]["docs"].as_array().unwrap().clone();
    docs.into_iter().filter(|build| build["pipelineName"] == pipeline).collect()
}

#[tokio::test]
async fn the_clock_starts_one_build_for_each_tick_and_one_for_all_that_were_missed() {
    let platform = Platform::start().await;
    let cron = json!([{"name": "hourly", "type": "cron", "expression": "0 * * * *", "message": "on the hour", "variables": [{"key": "WHEN", "value": "hour"}]}]);
    pipeline(&platform, "c/hourly", json!({"cronTriggers": cron})).await;
    platform.pass(61 * 60 * 1000);
    until("the first tick", async || (builds_of(&platform, "c/hourly").await.len() == 1).then_some(())).await;
    // The platform was away for five hours.
    platform.pass(5 * 60 * 60 * 1000);
    until("the latest missed tick", async || {
        (builds_of(&platform, "c/hourly").await.len() == 2).then_some(())
    })
    .await;
    let runner = Runner::new(&platform).await;
    let taken = runner.sync(5, &[]).await;
    assert_eq!(ids(&taken).len(), 2, "no third one");
    let of_trigger = taken["taken"][0]["variables"]
        .as_array()
        .unwrap()
        .iter()
        .find(|layer| layer["name"] == "trigger")
        .unwrap();
    assert_eq!(of_trigger["variables"][0]["value"], "hour");
}

/// As the published CLI and the Terraform provider make them: an event of the clock, and pipelines that wait for it.
#[tokio::test]
async fn a_schedule_that_is_an_event_ticks_for_those_who_wait_from_when_they_were_connected() {
    let platform = Platform::start().await;
    pipeline(&platform, "c/waits", json!({})).await;
    let event = |expression: &str, message: &str| json!({"type": "cron", "kind": "codefresh", "secret": "!generate", "values": {"expression": expression, "message": message}});
    for (expression, message) in
        [("* * * * * *", "often"), ("0 * * * *", "a: b"), ("", "x"), ("0 * * * *", "")]
    {
        let body = Some(event(expression, message));
        let (status, why) = platform.call("POST", "/api/hermes/events/", &platform.admin_key, body).await;
        assert_eq!(status, 400, "{expression} {message}: {why}");
    }
    let uri = text(&platform.post("/api/hermes/events/", event("0 */20 * * * *", "every twenty")).await);
    assert!(uri.starts_with("cron:codefresh:0 */20 * * * *:every twenty:"), "{uri}");
    assert_eq!(
        text(&platform.post("/api/hermes/events", event("0 */20 * * * *", "every twenty")).await),
        uri
    );
    // Made long before anybody waits: what passed meanwhile is nobody's.
    platform.pass(5 * 60 * 60 * 1000);
    let twice = |text: &str| {
        let once = text
            .replace('%', "%25")
            .replace(' ', "%20")
            .replace('/', "%2F")
            .replace(':', "%3A")
            .replace('*', "%2A");
        once.replace('%', "%25")
    };
    let path = format!("/api/hermes/triggers/{}/c%2Fwaits", twice(&uri));
    let (status, why) = platform.call("POST", &path, &platform.admin_key, None).await;
    assert_eq!(status, 200, "{why}");
    let waits = platform.get(&format!("/api/hermes/triggers/event/{}", twice(&uri))).await;
    assert_eq!(waits[0]["event"], json!(uri));
    platform.pass(21 * 60 * 1000);
    until("the first tick", async || (builds_of(&platform, "c/waits").await.len() == 1).then_some(())).await;
    let (status, _) = platform.call("DELETE", &path, &platform.admin_key, None).await;
    assert_eq!(status, 200);
    assert_eq!(platform.get("/api/hermes/events").await, json!([]), "nobody waits for it");
    platform.pass(60 * 60 * 1000);
    // A tick of another schedule: by then one of the disconnected would have been followed up too.
    let cron = json!([{"name": "hourly", "type": "cron", "expression": "0 * * * *", "message": "m"}]);
    pipeline(&platform, "c/other", json!({"cronTriggers": cron})).await;
    platform.pass(61 * 60 * 1000);
    until("another tick", async || (builds_of(&platform, "c/other").await.len() == 1).then_some(())).await;
    assert_eq!(builds_of(&platform, "c/waits").await.len(), 1);
}

#[tokio::test]
async fn pipelines_start_each_other_but_not_in_circles() {
    let platform = Platform::start().await;
    let after = |name: &str| json!([{"name": "after", "pipeline": name}]);
    pipeline(&platform, "p/a", json!({"pipelineTriggers": after("p/b")})).await;
    pipeline(&platform, "p/b", json!({"pipelineTriggers": after("p/a")})).await;
    let runner = Runner::new(&platform).await;
    let first = run(&platform, "p/a", json!({})).await;
    let taken = runner.sync(1, &[]).await["taken"][0].clone();
    runner.report(&taken, 1, "success", json!([])).await;
    let next = until("the one that waits", async || builds_of(&platform, "p/b").await.pop()).await;
    let next = platform.get(&format!("/api/builds/{}", text(&next["id"]))).await;
    assert_eq!(next["annotations"]["cf_predecessor"], json!(first));
    let taken = runner.sync(1, &[]).await["taken"][0].clone();
    runner.report(&taken, 1, "success", json!([])).await;
    // Whatever the end of p/b starts comes before what its own successor of another kind starts.
    pipeline(&platform, "p/c", json!({"pipelineTriggers": after("p/d")})).await;
    pipeline(&platform, "p/d", json!({})).await;
    run(&platform, "p/d", json!({})).await;
    let taken = runner.sync(1, &[]).await["taken"][0].clone();
    runner.report(&taken, 1, "success", json!([])).await;
    until("facts were followed up", async || (builds_of(&platform, "p/c").await.len() == 1).then_some(()))
        .await;
    assert_eq!(builds_of(&platform, "p/a").await.len(), 1, "the circle is cut");
}

#[tokio::test]
async fn a_badge_shows_only_to_those_who_may_see_it() {
    let platform = Platform::start().await;
    pipeline(&platform, "b/one", json!({})).await;
    let picture = async |query: &str| {
        let (status, svg) = platform.call("GET", &format!("/api/badges/build?{query}"), "", None).await;
        assert_eq!(status, 200);
        text(&svg)
    };
    run(&platform, "b/one", json!({})).await;
    assert!(picture("pipelineName=b/one").await.contains("unknown"));
    assert_eq!(picture("pipelineName=b/one").await, picture("pipelineName=b/none").await);
    let mut whole = platform.get("/api/pipelines/b%2Fone").await;
    whole["metadata"]["isPublic"] = json!(true);
    assert_eq!(platform.call("PUT", "/api/pipelines/b%2Fone", &platform.admin_key, Some(whole)).await.0, 200);
    assert!(picture("pipelineName=b/one").await.contains("running"));
}

/// K61, K65: an address that needs no key is good for its build, its account and a few minutes.
#[tokio::test]
async fn a_signed_log_address_opens_one_log_for_a_while() {
    let platform = Platform::start().await;
    let runner = Runner::new(&platform).await;
    pipeline(&platform, "s/one", json!({})).await;
    let (one, two) = (run(&platform, "s/one", json!({})).await, run(&platform, "s/one", json!({})).await);
    let running = platform.get(&format!("/api/progress/{one}")).await;
    assert_eq!(running["location"], json!({"type": "composition"}));
    let taken = runner.sync(2, &[]).await;
    for build in taken["taken"].as_array().unwrap() {
        runner.report(build, 1, "success", json!([])).await;
    }
    let url = text(&platform.get(&format!("/api/progress/{one}")).await["location"]["url"]);
    let path = url.strip_prefix(&platform.url).unwrap();
    assert_eq!(platform.call("GET", path, "", None).await.0, 200);
    for bad in [
        path.replace(&one, &two),
        path.replace("until=", "until=9"),
        path.replace("signature=", "signature=0"),
        path.replace(&format!("account={}", platform.account), "account=acacacacacacacacacacacac"),
        path.split('?').next().unwrap().to_owned(),
    ] {
        assert_eq!(platform.call("GET", &bad, "", None).await.0, 404, "{bad}");
    }
    platform.pass(11 * 60 * 1000);
    assert_eq!(platform.call("GET", path, "", None).await.0, 404, "its time is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_without_a_pipeline_is_run_by_whoever_may_make_one() {
    let platform = Platform::start().await;
    let text = "version: '1.0'\nsteps:\n  a: {image: alpine, commands: [echo hi]}\n";
    let run = |key: String, body: Value| async {
        let key = key;
        platform.call("POST", "/api/pipelines/run", &key, Some(body)).await
    };
    let (_, member) = platform.member("ada@example.com", "User").await;
    // An account starts with rules that let everybody make pipelines.
    for rule in platform.get("/api/abac").await.as_array().unwrap() {
        let path = format!("/api/abac/{}", rule["id"].as_str().unwrap());
        assert_eq!(platform.call("DELETE", &path, &platform.admin_key, None).await.0, 200);
    }
    assert_eq!(run(member.clone(), json!({"userYamlDescriptor": text})).await.0, 403);
    assert_eq!(run(platform.admin_key.clone(), json!({"userYamlDescriptor": "  "})).await.0, 400);
    for _ in 0..2 {
        let (status, id) = run(platform.admin_key.clone(), json!({"userYamlDescriptor": text})).await;
        assert_eq!(status, 200, "{id}");
        let build = platform.get(&format!("/api/builds/{}", id.as_str().unwrap())).await;
        assert_eq!(build["pipelineName"], "default/yaml", "{build}");
    }
    assert_eq!(run(member, json!({"userYamlDescriptor": text})).await.0, 403, "also when it is there");
    assert_eq!(platform.get("/api/version").await["current_version"], env!("CARGO_PKG_VERSION"));
}
