//! Rules reach as far as rights do: attributes at every door, own texts, pushes, tags, explanations.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::keys::{Row, app, every_action, of_applications, proxied, report};
use crate::knock::{Knock, member_in, without_rules};
use crate::support::{Platform, commit, git, working_copy};

/// Every attribute that a rule may name, allowed and denied, by the list, the page, GraphQL, and every operation.
#[tokio::test(flavor = "multi_thread")]
async fn every_attribute_of_an_application_decides_at_every_door() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let (_, key) = member_in(&platform, "ada@example.com", "devs").await;
    let filled = json!({"destination": "prod", "destinationName": "east", "destinationServer": "https://east:6443",
        "gitSources": ["team-a", "https://git.example/a.git"], "labels": {"tier": "web"}});
    // As an older runtime reported it: none of what rules look at.
    report(&platform, &runtime, vec![app("dev", filled), app("old", json!({"destination": "east"}))]).await;
    let door = |attributes: Value| {
        let (platform, key) = (&platform, key.clone());
        async move {
            let rule = json!({"entityType": "gitopsApplications", "teams": ["devs"], "actions": every_action(),
                "entityAttributes": attributes});
            let rule = platform.post("/api/abac", rule).await[0]["id"].as_str().unwrap().to_owned();
            let (_, list) = platform.call("GET", "/api/applications", &key, None).await;
            let names = list["applications"].as_array().unwrap().iter();
            let listed: Vec<_> = names.map(|app| app["namespace"].as_str().unwrap().to_owned()).collect();
            let query = json!({"query": "{ applications { edges { node { metadata { namespace } } } } }"});
            let (_, asked) = platform.call("POST", "/2.0/api/graphql", &key, Some(query)).await;
            for namespace in ["dev", "old"] {
                let seen = listed.iter().any(|name| name == namespace);
                let there = asked["data"]["applications"].to_string().contains(namespace);
                assert_eq!(there, seen, "GraphQL {namespace}");
                let path = format!("/api/applications/local/{namespace}/app");
                assert_eq!(
                    platform.call("GET", &path, &key, None).await.0,
                    if seen { 200 } else { 404 },
                    "{namespace}"
                );
                for Row { word: operation, .. } in of_applications() {
                    let (status, answer) = proxied(platform, operation, namespace).by(&key).await;
                    assert_eq!(status, if seen { 200 } else { 404 }, "{operation} {namespace}: {answer}");
                }
            }
            platform.call("DELETE", &format!("/api/abac/{rule}"), &platform.admin_key, None).await;
            listed
        }
    };
    let one = |name: &str, value: &str| json!([{"name": name, "value": value}]);
    let label = |key: &str, value: &str| json!([{"name": "LABEL", "key": key, "value": value}]);
    for (attributes, expected) in [
        (one("CLUSTER", "east"), &["dev"][..]),
        (one("CLUSTER", "https://east:6443"), &["dev"]),
        // The namespace that it deploys to is not its cluster.
        (one("CLUSTER", "prod"), &[]),
        (one("CLUSTER", "west"), &[]),
        (one("NAMESPACE", "dev"), &["dev"]),
        (one("NAMESPACE", "other"), &[]),
        (one("RUNTIME", "local"), &["dev", "old"]),
        (one("RUNTIME", "other"), &[]),
        (one("GIT_SOURCE", "team-a"), &["dev"]),
        (one("GIT_SOURCE", "https://git.example/*"), &["dev"]),
        (one("GIT_SOURCE", "team-b"), &[]),
        (label("tier", "web"), &["dev"]),
        (label("tier", "db"), &[]),
        (label("other", "*"), &[]),
    ] {
        assert_eq!(door(attributes.clone()).await, expected, "{attributes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_would_guard_nothing_are_refused_and_old_ones_are_marked() {
    // It reaches past the platform into the file of SQLite, for a rule that nobody can make any more.
    let platform = Platform::start().await;
    for (kind, action, attribute) in [
        ("cluster", "read", None),
        ("workflows", "VIEW", None),
        ("environments", "PROMOTE_TO", None),
        ("runtime-environment", "read", None),
        ("gitopsApplications", "ROLLOUT_UNDO", None),
        ("pipeline", "set-runtime-environment", None),
        ("gitopsApplications", "SYNC", Some("PRODUCT_NAME")),
        ("gitRepository", "push", Some("CLUSTER")),
    ] {
        let attributes: Vec<_> =
            attribute.into_iter().map(|name| json!({"name": name, "value": "x"})).collect();
        let rule = json!({"entityType": kind, "teams": ["users"], "actions": [action], "tags": ["*"],
            "entityAttributes": attributes});
        let (status, answer) = platform.call("POST", "/api/abac", &platform.admin_key, Some(rule)).await;
        assert_eq!(status, 400, "{kind} {action}: {answer}");
    }
    let kinds = platform.get("/api/abac/kinds").await;
    let names: Vec<_> =
        kinds.as_array().unwrap().iter().map(|kind| kind["entityType"].as_str().unwrap()).collect();
    let guarded =
        ["pipeline", "project", "git-context", "shared-configuration", "gitopsApplications", "gitRepository"];
    assert_eq!(names, guarded);
    // One that an older version took stays, and says what it does not do.
    let rule = json!({"entityType": "pipeline", "teams": ["users"], "actions": ["read"], "tags": ["x"]});
    let id = platform.post("/api/abac", rule).await[0]["id"].as_str().unwrap().to_owned();
    platform.sql(&format!("UPDATE rules SET kind = 'cluster' WHERE id = '{id}'"));
    let kept = platform.get(&format!("/api/abac/{id}")).await;
    assert!(kept["note"].as_str().unwrap().contains("no access rules apply to"), "{kept}");
    assert!(platform.get("/api/abac?entityType=pipeline").await[0]["note"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_the_right_to_run_is_not_the_right_to_say_what_runs() {
    let platform = Platform::start().await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    let work = working_copy(platform.folder.path(), &platform.clone_url("demo/app", &platform.admin_key));
    assert!(git(&work, &["push", "origin", "main", "main:wip"]).0);
    let (_, head) = git(&work, &["rev-parse", "HEAD"]);
    let template = json!({"location": "git", "repo": "demo/app", "path": "codefresh.yml"});
    let trigger = json!({"name": "push", "type": "git", "repo": "demo/app", "events": ["push.heads"], "branchRegex": "/^main$/"});
    let pipeline = |name: &str, template: Value| {
        let trigger = trigger.clone();
        json!({"metadata": {"name": name, "labels": {"tags": ["prod"]}}, "spec": {"specTemplate": template, "triggers": [trigger]}})
    };
    platform.post("/api/pipelines", pipeline("demo/prod", template.clone())).await;
    let mut pinned = template;
    pinned["revision"] = json!("main");
    platform.post("/api/pipelines", pipeline("demo/pinned", pinned)).await;
    without_rules(&platform).await;
    let (_, key) = member_in(&platform, "ada@example.com", "devs").await;
    let rule =
        json!({"entityType": "pipeline", "teams": ["devs"], "actions": ["read", "run"], "tags": ["prod"]});
    platform.post("/api/abac", rule).await;
    let run = |name: &str, body: Value| {
        Knock::new(&platform, "POST", &format!("/api/pipelines/run/demo%2F{name}")).body(body)
    };
    for (name, body, expected) in [
        ("prod", json!({}), 200),
        ("prod", json!({"branch": "main"}), 200),
        ("prod", json!({"userYamlDescriptor": " \n"}), 200),
        (
            "prod",
            json!({"userYamlDescriptor": "version: '1.0'\nsteps: {a: {image: x, commands: [env]}}"}),
            403,
        ),
        (
            "pinned",
            json!({"userYamlDescriptor": "version: '1.0'\nsteps: {a: {image: x, commands: [env]}}"}),
            403,
        ),
        ("prod", json!({"branch": "wip"}), 403),
        ("prod", json!({"sha": head.trim()}), 403),
        ("prod", json!({"branch": "main", "sha": head.trim()}), 403),
        ("pinned", json!({"branch": "wip"}), 200),
        ("prod", json!({"options": {"debug": true}}), 403),
        ("prod", json!({"contexts": ["nowhere"]}), 404),
    ] {
        let (status, answer) = run(name, body.clone()).by(&key).await;
        assert_eq!(status, expected, "{name} {body}: {answer}");
        if body["userYamlDescriptor"] != json!(" \n") && expected == 403 && body["options"].is_null() {
            assert!(answer["message"].as_str().unwrap().contains("requires the right to update"), "{answer}");
        }
    }
    let own = json!({"userYamlDescriptor": "version: '1.0'\nsteps: {a: {image: x, commands: [env]}}"});
    let (status, _) =
        Knock::new(&platform, "POST", "/api/pipelines/debug/demo%2Fprod").body(own.clone()).by(&key).await;
    assert_eq!(status, 403, "nor by debugging it");
    assert_eq!(Knock::new(&platform, "POST", "/api/pipelines/run").body(own.clone()).by(&key).await.0, 403);
    let update = json!({"entityType": "pipeline", "actions": ["update"], "tags": ["prod"]});
    run("prod", own.clone()).needs_right(&key, "devs", update).await;
    // Started again it runs what it ran: the same text, and no other.
    let build = run("prod", own).by(&platform.admin_key).await.1.as_str().unwrap().to_owned();
    platform.call("DELETE", &format!("/api/progress/{build}"), &platform.admin_key, None).await;
    let again = Knock::new(&platform, "POST", &format!("/api/builds/{build}/restart"))
        .body(json!({"userYamlDescriptor": "version: '1.0'\nsteps: {evil: {image: x, commands: [env]}}"}));
    let (status, again) = again.by(&key).await;
    assert_eq!(status, 200, "{again}");
    let runner = platform.agent(Subject::Runner, "r1").await;
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 9, "running": [], "waitMs": 0});
    let (_, taken) = platform.call("POST", "/api/agent/runner/sync", &runner, Some(body)).await;
    assert!(!taken.to_string().contains("evil"), "{taken}");
}

/// Who pushed what, through the real `git`.
#[tokio::test(flavor = "multi_thread")]
async fn h7_pushing_is_a_right_of_its_own_by_repository_and_branch() {
    let platform = Platform::start().await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    platform.pipeline("demo/build", "demo/app").await;
    let (_, key) = member_in(&platform, "ada@example.com", "devs").await;
    let admin = platform.clone_url("demo/app", &platform.admin_key);
    let work = working_copy(platform.folder.path(), &admin);
    assert!(git(&work, &["push", "origin", "main"]).0, "an administrator pushes");
    let remote = platform.clone_url("demo/app", &key);
    let push = |what: &[&str]| git(&work, &[&["push", &remote], what].concat());
    let at = |reference: &str| git(&work, &["ls-remote", &admin, reference]).1;
    let before = at("refs/heads/main");
    commit(&work, "a member's");

    // Members read, and push nothing.
    let (good, output) = git(platform.folder.path(), &["clone", "-q", &remote, "copy"]);
    assert!(good, "{output}");
    let (good, output) = push(&["main"]);
    assert!(!good && output.contains("may not push gitRepository `demo/app`"), "{output}");
    assert_eq!(at("refs/heads/main"), before);

    // A rule by repository and branch.
    let rule = json!({"entityType": "gitRepository", "teams": ["devs"], "actions": ["push"], "entityAttributes": [
        {"name": "REPOSITORY", "value": "demo/*"}, {"name": "BRANCH", "value": "wip/*"}]});
    platform.post("/api/abac", rule).await;
    for (what, expected) in [
        (&["main:refs/heads/wip/one"][..], true),
        (&["main"], false),
        (&["--force", "main"], false),
        (&["main:refs/tags/wip/one"], false),
        (&["main:refs/heads/wipe"], false),
        (&["main:refs/notes/wip/one"], false),
        // One that is allowed does not carry another with it.
        (&["main:refs/heads/wip/two", "main:refs/heads/main"], false),
        (&["--atomic", "main:refs/heads/wip/two", "main:refs/heads/main"], false),
        (&["--delete", "main"], false),
        (&["--delete", "wip/one"], true),
    ] {
        let (good, output) = push(what);
        assert_eq!(good, expected, "{what:?}: {output}");
    }
    assert_eq!(at("refs/heads/main"), before);
    assert_eq!(at("refs/heads/wip/two"), "", "all or nothing");
    let (_, output) = push(&["main"]);
    assert!(output.contains("remote rejected") && output.contains("may not push"), "{output}");

    // Tags and whole repositories are rules of their own.
    let rule = json!({"entityType": "gitRepository", "teams": ["devs"], "actions": ["push"], "entityAttributes": [
        {"name": "REPOSITORY", "value": "demo/app"}, {"name": "TAG", "value": "v*"}]});
    platform.post("/api/abac", rule).await;
    assert!(push(&["main:refs/tags/v1"]).0 && !push(&["main:refs/tags/x1"]).0);
    let rule = json!({"entityType": "gitRepository", "teams": ["devs"], "actions": ["push"],
        "entityAttributes": [{"name": "REPOSITORY", "value": "demo/app"}]});
    platform.post("/api/abac", rule).await;
    assert!(push(&["main"]).0);
    // What was refused started nothing, what was pushed did.
    let record =
        |outcome: &str| format!("/api/audit?limit=100&action=push&entity=repository&outcome={outcome}");
    let allowed = platform.get(&record("allowed")).await;
    let told = allowed["docs"].to_string();
    assert!(told.contains("refs/heads/wip/one") && told.contains("refs/tags/v1"), "{told}");
    let newest = &allowed["docs"][0];
    assert_eq!((&newest["userName"], &newest["entityName"]), (&json!("ada@example.com"), &json!("demo/app")));
    assert_eq!(newest["detail"]["before"]["refs/heads/main"], before.split_whitespace().next().unwrap());
    let refused = platform.get(&record("denied")).await["docs"].to_string();
    assert!(refused.contains("refs/tags/wip/one") && refused.contains("refs/notes/wip/one"), "{refused}");

    // Reading can be restricted as other things are: then it is not there.
    let rule = json!({"entityType": "gitRepository", "teams": ["admins"], "actions": ["read"]});
    platform.post("/api/abac", rule).await;
    let (good, output) = git(platform.folder.path(), &["clone", "-q", &remote, "copy2"]);
    assert!(!good && output.contains("not found"), "{output}");
    assert!(!push(&["main:refs/heads/wip/three"]).0, "who may not read may not push");
    assert_eq!(platform.call("GET", "/api/repos", &key, None).await.1, json!([]));
    assert_eq!(platform.call("POST", "/api/repos", &key, Some(json!({"name": "a/b"}))).await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_a_build_pushes_where_a_rule_names_its_pipeline() {
    let platform = Platform::start().await;
    for name in ["demo/app", "demo/deploy", "demo/other"] {
        platform.post("/api/repos", json!({"name": name})).await;
    }
    platform.pipeline("demo/build", "demo/app").await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    let admin = platform.clone_url("demo/app", &platform.admin_key);
    let work = working_copy(platform.folder.path(), &admin);
    assert!(git(&work, &["push", "origin", "main"]).0);
    platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await;
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    let (_, taken) = platform.call("POST", "/api/agent/runner/sync", &runner, Some(body)).await;
    let key = taken["taken"][0]["git"]["password"].as_str().unwrap().to_owned();
    let push = |repo: &str| git(&work, &["push", &platform.clone_url(repo, &key), "main"]);
    assert!(git(platform.folder.path(), &["clone", "-q", &platform.clone_url("demo/other", &key), "o"]).0);
    for repo in ["demo/app", "demo/deploy", "demo/other"] {
        let (good, output) = push(repo);
        assert!(!good && output.contains("slipway repos allow"), "{repo}: {output}");
    }
    let rule = json!({"entityType": "gitRepository", "actions": ["push"], "entityAttributes": [
        {"name": "REPOSITORY", "value": "demo/deploy"}, {"name": "PIPELINE", "value": "demo/build"}]});
    platform.post("/api/abac", rule).await;
    let (good, output) = push("demo/deploy");
    assert!(good, "{output}");
    assert!(!push("demo/app").0 && !push("demo/other").0);
    let told = platform.get("/api/audit?action=push&outcome=allowed&limit=1").await;
    assert_eq!(told["docs"][0]["entityName"], "demo/deploy");
    assert!(told["docs"][0]["userName"].as_str().unwrap().starts_with("build "), "{told}");

    // Nobody gets there by taking the pipeline's name.
    let (_, member) = platform.member("ada@example.com", "User").await;
    let steps = json!({"a": {"image": "x", "commands": ["true"]}});
    let mine = json!({"metadata": {"name": "demo/mine"}, "spec": {"steps": steps}});
    assert_eq!(platform.call("POST", "/api/pipelines", &member, Some(mine.clone())).await.0, 200);
    platform.call("DELETE", "/api/pipelines/demo%2Fbuild", &platform.admin_key, None).await;
    assert!(!push("demo/deploy").0, "with its pipeline the right goes");
    let mut taken = mine.clone();
    taken["metadata"]["name"] = json!("demo/build");
    let (status, answer) = platform.call("POST", "/api/pipelines", &member, Some(taken.clone())).await;
    assert_eq!(status, 403, "{answer}");
    let path = "/api/pipelines/demo%2Fmine?disableRevisionCheck=true";
    assert_eq!(platform.call("PUT", path, &member, Some(taken)).await.0, 403);
    let other = json!({"metadata": {"name": "other/build"}, "spec": {"steps": steps}});
    assert_eq!(platform.call("POST", "/api/pipelines", &member, Some(other)).await.0, 200);
    platform.call("DELETE", "/api/pipelines/demo%2Fmine", &platform.admin_key, None).await;
    platform.call("DELETE", "/api/projects/demo", &platform.admin_key, None).await;
    let rename = json!({"projectName": "demo"});
    assert_eq!(platform.call("PATCH", "/api/projects/other", &member, Some(rename)).await.0, 403);
}

/// A data folder of a version that asked nobody: what builds did there they may go on doing, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn h7_what_builds_of_an_older_version_pushed_is_taken_over_once() {
    let platform = Platform::start().await;
    for name in ["demo/app", "demo/deploy", "demo/other"] {
        platform.post("/api/repos", json!({"name": name})).await;
    }
    platform.pipeline("demo/build", "demo/app").await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    let work = working_copy(platform.folder.path(), &platform.clone_url("demo/app", &platform.admin_key));
    assert!(git(&work, &["push", "origin", "main"]).0);
    platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await;
    let body =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 1, "running": [], "waitMs": 0});
    let (_, taken) = platform.call("POST", "/api/agent/runner/sync", &runner, Some(body)).await;
    let key = taken["taken"][0]["git"]["password"].as_str().unwrap().to_owned();
    let rule = json!({"entityType": "gitRepository", "actions": ["push"],
        "entityAttributes": [{"name": "PIPELINE", "value": "*"}]});
    let rule = platform.post("/api/abac", rule).await[0]["id"].as_str().unwrap().to_owned();
    assert!(git(&work, &["push", &platform.clone_url("demo/deploy", &key), "main"]).0);
    platform.call("DELETE", &format!("/api/abac/{rule}"), &platform.admin_key, None).await;
    let rules = || platform.get("/api/abac?entityType=gitRepository");
    let start = || platform.server.first_start("nobody@example.com");
    // Started before, so nothing is taken over again.
    start().await.unwrap();
    assert_eq!(rules().await, json!([]));
    platform.sql("DELETE FROM cursors WHERE consumer = 'push-rights'");
    start().await.unwrap();
    let made = rules().await;
    let attributes =
        json!([{"name": "REPOSITORY", "value": "demo/deploy"}, {"name": "PIPELINE", "value": "demo/build"}]);
    assert_eq!((made.as_array().unwrap().len(), &made[0]["entityAttributes"]), (1, &attributes), "{made}");
    let told = platform.get("/api/audit?action=create&entity=rule&limit=1").await;
    assert!(told["docs"][0]["detail"]["reason"].as_str().unwrap().contains("pushed there before"), "{told}");
    commit(&work, "second");
    assert!(git(&work, &["push", &platform.clone_url("demo/deploy", &key), "main"]).0);
    assert!(!git(&work, &["push", &platform.clone_url("demo/other", &key), "main"]).0);
}

/// Bodies that a client could make up to be judged as one push and taken as another.
#[tokio::test(flavor = "multi_thread")]
async fn h7_a_push_is_judged_by_what_git_would_read() {
    let platform = Platform::start().await;
    platform.post("/api/repos", json!({"name": "demo/app"})).await;
    let (_, key) = member_in(&platform, "ada@example.com", "devs").await;
    let rule = json!({"entityType": "gitRepository", "teams": ["devs"], "actions": ["push"], "entityAttributes": [
        {"name": "REPOSITORY", "value": "demo/app"}, {"name": "BRANCH", "value": "wip"}]});
    platform.post("/api/abac", rule).await;
    let post = |body: Vec<u8>, encoding: Option<&'static str>| {
        let mut request = platform
            .http()
            .post(format!("{}/git/demo/app.git/git-receive-pack", platform.url))
            .header("authorization", &key)
            .header("content-type", "application/x-git-receive-pack-request")
            .body(body);
        if let Some(encoding) = encoding {
            request = request.header("content-encoding", encoding);
        }
        async move { request.send().await.unwrap() }
    };
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let (zero, some) = ("0".repeat(40), "1".repeat(40));
    let main = line(&format!("{zero} {some} refs/heads/main\0 report-status\n"));
    let wip = line(&format!("{zero} {some} refs/heads/wip\0 report-status\n"));
    let plain = line(&format!("{zero} {some} refs/heads/main\n"));
    for (body, encoding, status) in [
        (format!("{main}0000").into_bytes(), None, 200),
        (format!("{wip}{plain}0000").into_bytes(), None, 200),
        (format!("{main}0000").into_bytes(), Some("gzip"), 400),
        (format!("{}{main}0000", line("push-cert\0 report-status\n")).into_bytes(), None, 400),
        (format!("0001{main}0000").into_bytes(), None, 400),
        (wip.clone().into_bytes(), None, 400),
        (b"zzzz".to_vec(), None, 400),
        (Vec::new(), None, 400),
    ] {
        let text = String::from_utf8_lossy(&body).into_owned();
        let answer = post(body, encoding).await;
        let (got, said) = (answer.status().as_u16(), answer.text().await.unwrap());
        assert_eq!(got, status, "{text:?}: {said}");
        assert!(status != 200 || said.contains("ng refs/heads/main"), "{text:?}: {said}");
    }
    assert_eq!(post(b"0000".to_vec(), None).await.status(), 200, "a question whether one may talk at all");
    let told = platform.get("/api/audit?action=push&outcome=denied&limit=10").await;
    assert_eq!(told["total"], 2, "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_nobody_climbs_by_changing_what_rules_look_at() {
    let platform = Platform::start().await;
    without_rules(&platform).await;
    let (_, key) = member_in(&platform, "ada@example.com", "devs").await;
    let rule = |kind: &str, actions: Value, tags: Value, related: Value| json!({"entityType": kind, "teams": ["devs"], "actions": actions, "tags": tags, "relatedResource": related});
    let all = json!(["read", "update", "run"]);
    platform.post("/api/abac", rule("pipeline", all.clone(), json!(["dev"]), json!("project"))).await;
    platform
        .post("/api/abac", rule("pipeline", json!(["read", "update"]), json!(["mine", "other"]), json!(null)))
        .await;
    platform.post("/api/abac", rule("pipeline", json!(["delete"]), json!(["other"]), json!(null))).await;
    platform.post("/api/abac", rule("project", json!(["read", "update"]), json!(["*"]), json!(null))).await;
    platform
        .post(
            "/api/abac",
            rule("shared-configuration", json!(["read", "update"]), json!(["mine", "theirs"]), json!(null)),
        )
        .await;
    let steps = json!({"a": {"image": "x", "commands": ["true"]}});
    for (name, tags) in [("secret/p", json!([])), ("open/p", json!([])), ("mine/p", json!(["mine"]))] {
        let body = json!({"metadata": {"name": name, "labels": {"tags": tags}}, "spec": {"steps": steps}});
        platform.post("/api/pipelines", body).await;
    }
    let project = |name: &str| format!("/api/projects/{name}");
    let admin = |method: &'static str, path: String, body: Value| {
        let platform = &platform;
        async move { platform.call(method, &path, &platform.admin_key, Some(body)).await.0 }
    };
    assert_eq!(admin("PATCH", project("open"), json!({"tags": ["dev"]})).await, 200);
    let see = |name: &str| {
        platform.call("GET", Box::leak(format!("/api/pipelines/{name}").into_boxed_str()), &key, None)
    };
    assert_eq!(see("secret%2Fp").await.0, 404);
    // The project's tags open its pipelines: who may edit the project may not use that.
    let (status, answer) =
        platform.call("PATCH", &project("secret"), &key, Some(json!({"tags": ["dev"]}))).await;
    assert_eq!(status, 403, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("access rules depend on the tag `dev`"), "{answer}");
    assert_eq!(see("secret%2Fp").await.0, 404);
    assert_eq!(
        platform.call("PATCH", &project("open"), &key, Some(json!({"tags": []}))).await.0,
        403,
        "nor take away"
    );
    // What no rule looks at is anybody's who may edit it.
    assert_eq!(
        platform.call("PATCH", &project("secret"), &key, Some(json!({"tags": ["nice"]}))).await.0,
        200
    );
    // A pipeline's own tags, and moving it into another project.
    let (_, whole) = see("mine%2Fp").await;
    let put = |change: fn(&mut Value)| {
        let mut body = whole.clone();
        change(&mut body);
        platform.call("PUT", "/api/pipelines/mine%2Fp?disableRevisionCheck=true", &key, Some(body))
    };
    for change in [
        (|body: &mut Value| body["metadata"]["labels"]["tags"] = json!(["mine", "other"])) as fn(&mut Value),
        |body| body["metadata"]["labels"]["tags"] = json!(["other"]),
        |body| body["metadata"]["name"] = json!("open/q"),
    ] {
        let (status, answer) = put(change).await;
        assert_eq!(status, 403, "{answer}");
    }
    let (status, answer) = put(|body| body["metadata"]["labels"]["tags"] = json!(["mine", "free"])).await;
    assert_eq!(status, 200, "{answer}");
    // Shared configuration the same.
    let context = |tags: Value, kind: &str| json!({"metadata": {"name": "c", "labels": {"tags": tags}}, "spec": {"type": kind, "data": {"A": "b"}}});
    platform.post("/api/contexts", context(json!(["mine"]), "config")).await;
    for (body, expected) in [
        (context(json!(["mine", "x"]), "config"), 200),
        (context(json!(["mine", "theirs"]), "config"), 403),
        (context(json!(["theirs"]), "config"), 403),
        (context(json!(["mine", "x"]), "git.github"), 403),
    ] {
        let (status, answer) = platform.call("PUT", "/api/contexts/c", &key, Some(body.clone())).await;
        assert_eq!(status, expected, "{body}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn l5_an_explanation_tells_nobody_what_is_there() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    report(&platform, &runtime, vec![app("prod", json!({}))]).await;
    platform.post("/api/repos", json!({"name": "demo/hidden"})).await;
    let steps = json!({"a": {"image": "x", "commands": ["true"]}});
    let body = json!({"metadata": {"name": "demo/hidden", "labels": {"tags": ["top-secret"]}}, "spec": {"steps": steps}});
    platform.post("/api/pipelines", body).await;
    let context = json!({"metadata": {"name": "hidden", "labels": {"tags": ["top-secret"]}}, "spec": {"type": "config", "data": {}}});
    platform.post("/api/contexts", context).await;
    without_rules(&platform).await;
    for (kind, action) in [("gitopsApplications", "VIEW"), ("gitRepository", "read")] {
        let rule = json!({"entityType": kind, "teams": ["admins"], "actions": [action]});
        platform.post("/api/abac", rule).await;
    }
    let (_, key) = platform.member("ada@example.com", "User").await;
    for (there, absent) in [
        ("pipeline/demo/hidden", "pipeline/demo/absent"),
        ("project/demo", "project/absent"),
        ("shared-configuration/hidden", "shared-configuration/absent"),
        ("git-context/hidden", "git-context/absent"),
        ("gitopsApplications/local/prod/app", "gitopsApplications/local/prod/absent"),
        ("gitRepository/demo/hidden", "gitRepository/demo/absent"),
    ] {
        for action in ["read", "run", "fly", "update", "SYNC", "push"] {
            let ask = |entity: &str| {
                let path = format!("/api/access/explain?action={action}&entity={entity}");
                Knock::new(&platform, "GET", Box::leak(path.into_boxed_str()))
            };
            let ((status, hidden), (none, nothing)) = (ask(there).by(&key).await, ask(absent).by(&key).await);
            assert_eq!((status, none), (404, 404), "{there} {action}: {hidden} {nothing}");
            let plain = |value: &Value| {
                let text = value["message"].as_str().unwrap();
                text.replace(there.split_once('/').unwrap().1, "X")
                    .replace(absent.split_once('/').unwrap().1, "X")
            };
            assert_eq!(plain(&hidden), plain(&nothing), "{there} {action}");
            assert!(!hidden.to_string().contains("top-secret"), "{hidden}");
        }
    }
    // Who may see it is told, and so is an Administrator about others.
    let path = "/api/access/explain?user=ada@example.com&action=run&entity=pipeline/demo/hidden";
    assert!(platform.get(path).await["reason"].as_str().unwrap().contains("top-secret"));
}
