//! Attacks by agents that have a key, by the numbers of the threat list: builds of others, builds that are over, and
//! pipelines that start each other without end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_model::AccountId;
use slipway_store::identity::Subject;

use crate::pipeline_attacks::{put, report, run, sync};
use crate::support::Platform;

/// A pipeline that starts when another has ended.
async fn follower(platform: &Platform, name: &str, after: &[&str]) {
    let triggers: Value =
        after.iter().map(|other| json!({"name": other.replace('/', "-"), "pipeline": other})).collect();
    let body = json!({"metadata": {"name": name}, "spec": {
        "steps": {"s": {"image": "x", "commands": ["true"]}}, "pipelineTriggers": triggers}});
    platform.post("/api/pipelines", body).await;
}

/// Takes the next build and ends it well; gives back the name of its pipeline.
async fn next(platform: &Platform, key: &str) -> String {
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        let taken = sync(platform, key, "r1", 1, json!([])).await["taken"][0].clone();
        if let Some(id) = taken["id"].as_str() {
            assert_eq!(put(platform, key, id, report("success", 1, json!([]))).await.0, 200);
            return taken["pipelineName"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < end, "no build came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn k56_pipelines_do_not_start_each_other_without_end() {
    let platform = Platform::start().await;
    let key = platform.agent(Subject::Runner, "r1").await;
    // A circle of two, one that starts itself, and a line of eight.
    follower(&platform, "k/a", &["k/b", "k/a"]).await;
    follower(&platform, "k/b", &["k/a"]).await;
    follower(&platform, "k/p0", &[]).await;
    for at in 1..8 {
        follower(&platform, &format!("k/p{at}"), &[&format!("k/p{}", at - 1)]).await;
    }
    follower(&platform, "k/marker", &[]).await;
    follower(&platform, "k/after-marker", &["k/marker"]).await;
    for (first, expected) in [("k/a", &["k/b"][..]), ("k/p0", &["k/p1", "k/p2", "k/p3", "k/p4", "k/p5"][..])]
    {
        run(&platform, first).await;
        assert_eq!(next(&platform, &key).await, first);
        for name in expected {
            assert_eq!(next(&platform, &key).await, *name);
        }
        // Ends are heard in order: when this one has had its effect, the one before has had none.
        run(&platform, "k/marker").await;
        assert_eq!(next(&platform, &key).await, "k/marker");
        assert_eq!(next(&platform, &key).await, "k/after-marker");
    }
    // Where somebody looks who wonders why the next one did not start: on the last build of each chain.
    let all = platform.get("/api/workflow?limit=50").await;
    let mut said = Vec::new();
    for doc in all["workflows"]["docs"].as_array().unwrap() {
        let build = platform.get(&format!("/api/builds/{}", doc["id"].as_str().unwrap())).await;
        said.extend(build["annotations"]["not_started"].as_array().cloned().unwrap_or_default());
    }
    let said: Vec<_> = said.iter().map(|text| text.as_str().unwrap()).collect();
    assert!(
        said.iter().any(|text| text.contains("`k/p6`") && text.contains("reached its maximum length")),
        "{said:?}"
    );
    assert!(said.iter().any(|text| text.contains("`k/a`") && text.contains("already")), "{said:?}");
}

#[tokio::test]
async fn k61_what_was_captured_says_nothing_new_about_a_build_that_is_over() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let id = run(&platform, "demo/build").await;
    let key = platform.agent(Subject::Runner, "r1").await;
    sync(&platform, &key, "r1", 1, json!([])).await;
    let logs = format!("/api/agent/runner/builds/{id}/logs");
    let line = |offset: u64, text: &str| json!({"epoch": 1, "pieces": [{"step": "s", "offset": offset, "text": text}]});
    assert_eq!(platform.call("POST", &logs, &key, Some(line(0, "said\n"))).await.0, 200);
    assert_eq!(put(&platform, &key, &id, report("success", 5, json!([]))).await.0, 200);
    // Heard before: the same answer, so that a runner that did not hear it the first time is at peace.
    assert_eq!(platform.call("POST", &logs, &key, Some(line(0, "said\n"))).await.0, 200);
    // New words about what is over are not taken, nor another end.
    assert_eq!(platform.call("POST", &logs, &key, Some(line(5, "forged\n"))).await.0, 409);
    assert_eq!(put(&platform, &key, &id, report("error", 6, json!([]))).await.0, 200);
    assert_eq!(platform.get(&format!("/api/builds/{id}")).await["status"], "success");
    let shown = platform.get(&format!("/api/builds/{id}/logs")).await.to_string();
    assert!(shown.contains("said") && !shown.contains("forged"), "{shown}");
    let lost = sync(&platform, &key, "r1", 0, json!([{"id": id, "epoch": 1}])).await["lost"].clone();
    assert_eq!(lost, json!([id]));
}

#[tokio::test]
async fn k62_k63_an_agent_speaks_about_builds_that_it_was_given_and_about_no_others() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let (waiting, taken) = (run(&platform, "demo/build").await, run(&platform, "demo/build").await);
    let (account, _) = platform.account("other").await;
    let account: AccountId = account.parse().unwrap();
    let stranger = platform.server.agent_key(account, Subject::Runner, "r1").await.unwrap().expose().clone();
    let mine = platform.agent(Subject::Runner, "r1").await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let (waiting, taken) = {
        let got =
            sync(&platform, &mine, "r1", 1, json!([])).await["taken"][0]["id"].as_str().unwrap().to_owned();
        if got == taken { (waiting, taken) } else { (taken, waiting) }
    };
    let calls = |id: &str| {
        [
            ("PUT", format!("/api/agent/runner/builds/{id}/state"), report("success", 9, json!([]))),
            (
                "POST",
                format!("/api/agent/runner/builds/{id}/logs"),
                json!({"epoch": 1, "pieces": [{"step": "s", "offset": 0, "text": "x"}]}),
            ),
            (
                "POST",
                format!("/api/agent/runner/builds/{id}/step-types"),
                json!({"epoch": 1, "names": ["a"]}),
            ),
        ]
    };
    for (id, key, expected) in [
        // Of another account it does not exist, with the right name and the right epoch too.
        (&taken, &stranger, 404),
        // Never given to anybody: there is nothing to say about it, in any epoch.
        (&waiting, &mine, 409),
        // A key of another kind of agent.
        (&taken, &runtime, 403),
    ] {
        for (method, path, body) in calls(id) {
            let mut bodies = vec![body.clone()];
            if expected == 409 {
                bodies.push({
                    let mut first = body;
                    first["epoch"] = json!(0);
                    first
                });
            }
            for body in bodies {
                let (status, said) = platform.call(method, &path, key, Some(body)).await;
                assert_eq!(status, expected, "{method} {path}: {said}");
            }
        }
    }
    assert_eq!(platform.get(&format!("/api/builds/{waiting}")).await["status"], "pending");
    assert_eq!(platform.get(&format!("/api/builds/{taken}")).await["status"], "elected");
    // What it may see of others through the platform's own pages: nothing, an agent is no person.
    for path in [format!("/api/builds/{taken}"), format!("/api/builds/{taken}/logs"), "/api/contexts".into()]
    {
        for key in [&stranger, &mine] {
            assert_eq!(platform.call("GET", &path, key, None).await.0, 403, "{path}");
        }
    }
}
