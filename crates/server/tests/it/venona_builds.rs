//! Builds of a runtime environment that an agent of the published runner serves: its tasks, and the runner in its pod.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::support::Platform;

const MINUTE_MS: i64 = 60_000;

struct Agent {
    name: String,
    token: String,
}

impl Agent {
    async fn made(platform: &Platform, name: &str, runtime: &str) -> Self {
        let made = platform.post("/api/agents", json!({"name": name, "runtimes": [runtime]})).await;
        Self { name: name.to_owned(), token: made["token"].as_str().unwrap().to_owned() }
    }

    /// As the published agent asks every three seconds.
    async fn tasks(&self, platform: &Platform) -> Vec<Value> {
        let path = format!("/api/agent/{}/tasks?waitForStatusReport=true", self.name);
        let (status, tasks) = platform.call("GET", &path, &self.token, None).await;
        assert_eq!(status, 200, "{tasks}");
        tasks.as_array().unwrap().clone()
    }

    async fn says(
        &self,
        platform: &Platform,
        task: &Value,
        status: &str,
        retriable: bool,
        reason: &str,
    ) -> u16 {
        let path = format!("/api/agent/{}/tasks/{}/statuses", self.name, task["_id"].as_str().unwrap());
        let revision = task["metadata"]["currentStatusRevision"].as_i64().unwrap() + 1;
        let body = json!({"status": status, "occurredAt": "2026-01-01T00:00:00Z", "statusRevision": revision,
            "isRetriable": retriable, "reason": reason});
        platform.call("POST", &path, &self.token, Some(body)).await.0
    }

    async fn done(&self, platform: &Platform, tasks: &[Value]) {
        for task in tasks {
            assert_eq!(self.says(platform, task, "Success", false, "").await, 200);
        }
    }
}

fn kinds(tasks: &[Value]) -> Vec<String> {
    tasks.iter().map(|task| task["type"].as_str().unwrap().to_owned()).collect()
}

/// What a task is about: the name in its object, or the one to delete.
fn names(tasks: &[Value]) -> Vec<String> {
    let name = |task: &Value| {
        let spec = &task["spec"];
        spec["metadata"]["name"].as_str().or(spec["name"].as_str()).unwrap().to_owned()
    };
    tasks.iter().map(name).collect()
}

async fn order(platform: &Platform, pipeline: &str, spec: Value) -> String {
    let mut whole = json!({"runtimeEnvironment": {"name": "ctx/ns"},
        "steps": {"hello": {"image": "busybox", "commands": ["echo hello"]}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    platform.post("/api/pipelines", json!({"metadata": {"name": pipeline}, "spec": whole})).await;
    run(platform, pipeline).await
}

async fn run(platform: &Platform, pipeline: &str) -> String {
    let path = format!("/api/pipelines/run/{}", pipeline.replace('/', "%2F"));
    platform.post(&path, json!({})).await.as_str().unwrap().to_owned()
}

async fn build(platform: &Platform, id: &str) -> Value {
    platform.get(&format!("/api/builds/{id}")).await
}

/// The runner in the pod of a task.
struct Pod {
    name: String,
    key: String,
}

impl Pod {
    fn token(task: &Value) -> String {
        let environment = task["spec"]["spec"]["containers"][0]["env"].as_array().unwrap();
        let token = environment.iter().find(|one| one["name"] == "SLIPWAY_RUNNER_TOKEN").unwrap();
        token["value"].as_str().unwrap().to_owned()
    }

    async fn register(platform: &Platform, token: &str, secret: &str) -> (u16, Value) {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret.as_bytes());
        let body = json!({"token": token, "secretDigest": hex::encode(digest)});
        platform.call("POST", "/api/agent/runner/register", "", Some(body)).await
    }

    async fn start(platform: &Platform, task: &Value) -> Self {
        let (status, made) = Self::register(platform, &Self::token(task), "s1").await;
        assert_eq!(status, 200, "{made}");
        let name = made["name"].as_str().unwrap().to_owned();
        Self { name, key: format!("{}.s1", made["keyId"].as_str().unwrap()) }
    }

    async fn sync(&self, platform: &Platform, running: Value) -> (u16, Value) {
        let body = json!({"runner": self.name, "version": "1", "executor": "kubernetes", "free": 1,
            "running": running, "waitMs": 0});
        platform.call("POST", "/api/agent/runner/sync", &self.key, Some(body)).await
    }

    async fn ends(&self, platform: &Platform, id: &str, epoch: i64) -> u16 {
        let path = format!("/api/agent/runner/builds/{id}/state");
        let body = json!({"epoch": epoch, "revision": 1, "status": "success", "startedMs": 1, "finishedMs": 2, "steps": []});
        platform.call("PUT", &path, &self.key, Some(body)).await.0
    }
}

async fn runner_gets(platform: &Platform, key: &str, name: &str) -> usize {
    let body =
        json!({"runner": name, "version": "1", "executor": "host", "free": 5, "running": [], "waitMs": 0});
    let (status, answer) = platform.call("POST", "/api/agent/runner/sync", key, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    answer["taken"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_build_of_its_runtime_is_asked_of_an_agent_once_and_of_nobody_else() {
    let platform = Platform::start().await;
    let agent = Agent::made(&platform, "a1", "ctx/ns").await;
    let other = Agent::made(&platform, "a2", "ctx/other").await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    let id = order(&platform, "demo/build", json!({"concurrency": 1})).await;
    let waits = build(&platform, &id).await["message"].as_str().unwrap().to_owned();
    assert!(waits.contains("agent `a1`") && waits.contains("ctx/ns"), "{waits}");
    assert_eq!(runner_gets(&platform, &runner, "r1").await, 0, "it is not for a runner of ours");
    assert_eq!(runner_gets(&platform, &agent.token, "a1").await, 0, "an agent is no runner");
    assert_eq!(other.tasks(&platform).await.len(), 0);

    let tasks = agent.tasks(&platform).await;
    assert_eq!(kinds(&tasks), ["CreatePvc", "CreatePod"]);
    assert_eq!(names(&tasks), [format!("slipway-{id}"), format!("slipway-{id}-1")]);
    for task in &tasks {
        let about = &task["metadata"];
        assert_eq!((&about["workflowId"], &about["reName"]), (&json!(id), &json!("ctx/ns")));
        assert_eq!(
            (&about["currentStatusRevision"], &about["shouldReportStatus"]),
            (&json!(0), &json!(true))
        );
        assert_eq!(task["spec"]["metadata"]["namespace"], "ns");
    }
    assert_eq!(build(&platform, &id).await["status"], "elected");
    // The pipeline runs one at a time, and that one counts.
    run(&platform, "demo/build").await;
    // The answer got lost, or the agent died: it comes again as it was, and there is nothing else.
    assert_eq!(agent.tasks(&platform).await, tasks);
    assert_eq!(other.says(&platform, &tasks[1], "Error", false, "no").await, 404, "it is another's");
    assert_eq!(runner_gets(&platform, &runner, "r1").await, 0);
    let token = Pod::token(&tasks[1]);
    let secret = token.split_once('.').unwrap().1;
    assert!(!platform.holds(secret), "the pod's token was kept");
}

#[tokio::test]
async fn the_runner_in_the_pod_has_its_build_and_no_other_and_what_was_made_for_it_is_deleted() {
    let platform = Platform::start().await;
    let agent = Agent::made(&platform, "a1", "ctx/ns").await;
    let id = order(&platform, "demo/build", json!({})).await;
    let tasks = agent.tasks(&platform).await;
    // Made after the agent asked: it waits for the agent's next question.
    let second = run(&platform, "demo/build").await;
    let pod = Pod::start(&platform, &tasks[1]).await;
    assert_eq!(Pod::register(&platform, &Pod::token(&tasks[1]), "s2").await.0, 409, "a token is good once");
    let (_, answer) = pod.sync(&platform, json!([])).await;
    let taken = answer["taken"].as_array().unwrap();
    assert_eq!((taken.len(), &taken[0]["id"], &taken[0]["epoch"]), (1, &json!(id), &json!(2)));
    agent.done(&platform, &tasks).await;
    let more = agent.tasks(&platform).await;
    assert_eq!(names(&more), [format!("slipway-{second}"), format!("slipway-{second}-1")]);
    // It asks for what is not its own, and asks again as if it had died: nothing, and its own once more.
    let (_, answer) = pod.sync(&platform, json!([{"id": second, "epoch": 1}, {"id": id, "epoch": 2}])).await;
    assert_eq!((&answer["taken"], &answer["lost"]), (&json!([]), &json!([second])));
    assert_eq!(pod.ends(&platform, &second, 1).await, 409, "it has never had that one");
    // A pod that follows on the same claim finds what the first had begun, and goes on with it under a new epoch.
    let (_, answer) = pod.sync(&platform, json!([{"id": id, "epoch": 1}])).await;
    assert_eq!((&answer["taken"][0]["epoch"], &answer["lost"]), (&json!(3), &json!([])));
    assert_eq!(pod.ends(&platform, &id, 3).await, 200);
    assert_eq!(build(&platform, &id).await["status"], "success");
    // It still clears away: nothing is deleted under it.
    assert_eq!(names(&agent.tasks(&platform).await).len(), 2);
    let (_, answer) = pod.sync(&platform, json!([])).await;
    assert_eq!(answer["lost"], json!([id]), "it may go");
    let after: Vec<Value> = agent
        .tasks(&platform)
        .await
        .into_iter()
        .filter(|task| task["metadata"]["workflowId"] == id.as_str())
        .collect();
    assert_eq!(kinds(&after), ["DeletePod", "DeletePvc"]);
    assert_eq!(after[0]["spec"], json!({"name": format!("slipway-{id}-1"), "namespace": "ns"}));
    assert_eq!(pod.sync(&platform, json!([])).await.0, 401, "its key is gone with its build");
    agent.done(&platform, &after[..1]).await;
    assert_eq!(
        agent.says(&platform, &after[1], "Error", true, "persistentvolumeclaims \"x\" not found").await,
        200
    );
    assert_eq!(names(&agent.tasks(&platform).await).len(), 2, "only the other build's are left");
    let shown = platform.get(&format!("/api/builds/{id}/tasks")).await;
    let said: Vec<_> =
        shown.as_array().unwrap().iter().map(|task| (&task["type"], &task["status"])).collect();
    assert_eq!(
        said,
        [
            (&json!("CreatePvc"), &json!("Success")),
            (&json!("CreatePod"), &json!("Success")),
            (&json!("DeletePod"), &json!("Success")),
            (&json!("DeletePvc"), &json!("Error")),
        ]
    );
}

#[tokio::test]
async fn a_pod_that_does_not_come_is_followed_by_another_and_the_third_is_the_last() {
    let platform = Platform::start().await;
    platform.hold_the_clock();
    let agent = Agent::made(&platform, "a1", "ctx/ns").await;
    let id = order(&platform, "demo/build", json!({})).await;
    let first = agent.tasks(&platform).await;
    platform.pass(14 * MINUTE_MS);
    assert_eq!(agent.tasks(&platform).await, first, "it may still be on its way");
    platform.pass(2 * MINUTE_MS);
    let second = agent.tasks(&platform).await;
    assert_eq!(kinds(&second), ["CreatePvc", "CreatePod", "DeletePod"]);
    assert_eq!(names(&second)[1..], [format!("slipway-{id}-2"), format!("slipway-{id}-1")]);
    assert_eq!(
        Pod::register(&platform, &Pod::token(&first[1]), "s1").await.0,
        400,
        "the first one comes too late"
    );
    // What is said about the first pod now says nothing about the second.
    agent.says(&platform, &first[1], "Error", false, "quota").await;
    assert_eq!(build(&platform, &id).await["status"], "elected");
    // The second comes, takes the build, and is lost with its node.
    let pod = Pod::start(&platform, &second[1]).await;
    assert_eq!(pod.sync(&platform, json!([])).await.1["taken"][0]["id"], json!(id));
    agent.done(&platform, &second).await;
    platform.pass(39 * MINUTE_MS);
    assert_eq!(agent.tasks(&platform).await.len(), 0, "a runner that is not heard is waited for");
    platform.pass(2 * MINUTE_MS);
    let third = agent.tasks(&platform).await;
    assert_eq!(names(&third)[1], format!("slipway-{id}-3"));
    assert_eq!(
        pod.sync(&platform, json!([{"id": id, "epoch": 3}])).await.0,
        401,
        "the lost one is nobody now"
    );
    assert_eq!(agent.says(&platform, &third[1], "Error", true, "etcd is away").await, 200);
    assert_eq!(names(&agent.tasks(&platform).await)[1], format!("slipway-{id}-3"), "it is tried again");
    platform.pass(16 * MINUTE_MS);
    let end = agent.tasks(&platform).await;
    let over = build(&platform, &id).await;
    assert_eq!(over["status"], "error", "{over}");
    assert!(over["message"].as_str().unwrap().contains("etcd is away"), "{over}");
    // The next question finds that it is over.
    let end = [end, agent.tasks(&platform).await].into_iter().next_back().unwrap();
    let deleted: Vec<_> =
        names(&end).into_iter().filter(|name| name.ends_with("-1") || name.ends_with("-3")).collect();
    assert_eq!(deleted.len(), 2, "{end:?}");
    assert!(!kinds(&end).iter().any(|kind| kind.starts_with("Create")), "{end:?}");
}

#[tokio::test]
async fn a_pod_that_cannot_be_made_fails_its_build_in_the_words_of_the_agent_and_one_that_is_there_does_not()
{
    let platform = Platform::start().await;
    let agent = Agent::made(&platform, "a1", "ctx/ns").await;
    let id = order(&platform, "demo/build", json!({})).await;
    let tasks = agent.tasks(&platform).await;
    // The agent died after it made both, and made them again.
    for task in &tasks {
        let reason = format!("{} already exists", task["type"]);
        assert_eq!(agent.says(&platform, task, "Error", false, &reason).await, 200);
    }
    assert_eq!(
        (agent.tasks(&platform).await.len(), &build(&platform, &id).await["status"]),
        (0, &json!("elected"))
    );
    let second = run(&platform, "demo/build").await;
    let tasks = agent.tasks(&platform).await;
    let reason = "pods is forbidden: exceeded quota";
    assert_eq!(agent.says(&platform, &tasks[1], "Error", false, reason).await, 200);
    let failed = build(&platform, &second).await;
    assert_eq!(failed["status"], "error");
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("agent `a1`") && message.contains(reason), "{message}");
    assert_eq!(kinds(&agent.tasks(&platform).await), ["DeletePod", "DeletePvc"]);
    assert_eq!(Pod::register(&platform, &Pod::token(&tasks[1]), "s1").await.0, 400);
}

#[tokio::test]
async fn a_build_that_is_terminated_before_its_pod_came_is_over_at_the_agents_next_question() {
    let platform = Platform::start().await;
    let agent = Agent::made(&platform, "a1", "ctx/ns").await;
    let id = order(&platform, "demo/build", json!({})).await;
    let tasks = agent.tasks(&platform).await;
    let path = format!("/api/progress/{id}");
    assert_eq!(platform.call("DELETE", &path, &platform.admin_key, None).await.0, 200);
    assert_eq!(kinds(&agent.tasks(&platform).await), ["DeletePod", "DeletePvc"]);
    let over = build(&platform, &id).await;
    assert_eq!(over["status"], "terminated", "{over}");
    assert_eq!(
        Pod::register(&platform, &Pod::token(&tasks[1]), "s1").await.0,
        400,
        "the pod has nothing to do"
    );
}

#[tokio::test]
async fn an_agent_that_is_removed_leaves_its_builds_to_runners_and_its_pods_nobody() {
    let platform = Platform::start().await;
    let agent = Agent::made(&platform, "a1", "ctx/ns").await;
    let id = order(&platform, "demo/build", json!({})).await;
    let tasks = agent.tasks(&platform).await;
    let pod = Pod::start(&platform, &tasks[1]).await;
    assert_eq!(pod.sync(&platform, json!([])).await.1["taken"][0]["id"], json!(id));
    assert_eq!(platform.call("DELETE", "/api/agent/a1", &platform.admin_key, None).await.0, 200);
    assert_eq!(pod.sync(&platform, json!([])).await.0, 401);
    let runner = platform.agent(Subject::Runner, "r1").await;
    assert_eq!(runner_gets(&platform, &runner, "r1").await, 1);
    let body = json!({"name": format!("x@{id}")});
    let (status, answer) = platform.call("POST", "/api/agents", &platform.admin_key, Some(body)).await;
    assert_eq!(status, 400, "{answer}");
}
