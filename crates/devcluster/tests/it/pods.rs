//! Pods as containers: life cycle, environment, volumes, probes, logs.

use serde_json::{Value, json};

use crate::client::{Test, image, pod};

async fn log(t: &Test, name: &str, query: &str) -> String {
    let (code, _, bytes) = t.send("GET", &t.core(&format!("pods/{name}/log?{query}")), "", None).await;
    assert_eq!(code, 200, "{}", String::from_utf8_lossy(&bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn until_log(t: &Test, name: &str, text: &str) {
    t.eventually(&format!("{name} writing {text}"), || async { log(t, name, "").await.contains(text) }).await;
}

async fn finish(t: &Test, body: Value) -> Value {
    let name = body["metadata"]["name"].as_str().expect("a name").to_owned();
    t.create(&t.core("pods"), body).await;
    t.until(&t.core(&format!("pods/{name}")), "the pod finishing", |p| {
        matches!(p["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
    })
    .await
}

fn state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

#[tokio::test]
async fn a_pod_succeeds_and_its_log_stays() {
    let t = Test::pods().await;
    let done = finish(&t, pod("p", "echo one; echo two; echo three")).await;
    assert_eq!(done["status"]["phase"], "Succeeded");
    assert_eq!(
        (state(&done)["terminated"]["exitCode"].as_i64(), state(&done)["terminated"]["reason"].as_str()),
        (Some(0), Some("Completed"))
    );
    assert_eq!(log(&t, "p", "").await, "one\ntwo\nthree\n");
    assert_eq!(log(&t, "p", "tailLines=1").await, "three\n");
    assert_eq!(log(&t, "p", "limitBytes=5").await, "one\nt");
    let stamped = log(&t, "p", "timestamps=true&tailLines=1").await;
    assert!(stamped.ends_with(" three\n") && stamped.starts_with("20"), "{stamped}");
    assert_eq!(log(&t, "p", "sinceTime=2099-01-01T00:00:00Z").await, "");
}

#[tokio::test]
async fn a_pod_fails_with_its_exit_code_and_message() {
    let t = Test::pods().await;
    let done = finish(&t, pod("p", "echo -n because > /dev/termination-log; exit 7")).await;
    assert_eq!(done["status"]["phase"], "Failed");
    let ended = &state(&done)["terminated"];
    assert_eq!(
        (ended["exitCode"].as_i64(), ended["reason"].as_str(), ended["message"].as_str()),
        (Some(7), Some("Error"), Some("because"))
    );
}

#[tokio::test]
async fn the_log_can_be_the_message() {
    let t = Test::pods().await;
    let mut body = pod("p", "echo last words; exit 1");
    body["spec"]["containers"][0]["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    let done = finish(&t, body).await;
    assert_eq!(state(&done)["terminated"]["message"].as_str().map(str::trim), Some("last words"));
}

#[tokio::test]
async fn environment_comes_from_everywhere() {
    let t = Test::pods().await;
    t.config_map("c", json!({"K": "from-map", "other": "x"})).await;
    t.create(
        &t.core("secrets"),
        json!({"metadata": {"name": "s"}, "stringData": {"P": "from secret\nin two lines"}}),
    )
    .await;
    let mut body = pod("p", "echo \"$K|$PRE_P|$ONE|$NAME|$SUM|$LIMIT|$LABEL\"");
    body["metadata"]["labels"]["mark"] = json!("here");
    body["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "64Mi"}});
    body["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "c"}}, {"prefix": "PRE_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "none", "optional": true}}]);
    body["spec"]["containers"][0]["env"] = json!([
        {"name": "ONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "P"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SUM", "value": "$(NAME)-$(K)-$$(K)"},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['mark']"}}},
    ]);
    finish(&t, body).await;
    assert_eq!(
        log(&t, "p", "").await,
        "from-map|from secret\nin two lines|from secret\nin two lines|p|p-from-map-$(K)|64|here\n"
    );
}

#[tokio::test]
async fn a_missing_config_map_holds_the_container_and_says_so() {
    let t = Test::pods().await;
    let mut body = pod("p", "echo $K");
    body["spec"]["containers"][0]["env"] =
        json!([{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "K"}}}]);
    t.create(&t.core("pods"), body).await;
    let waiting = t
        .until(&t.core("pods/p"), "the error", |p| {
            state(p)["waiting"]["reason"] == "CreateContainerConfigError"
        })
        .await;
    assert_eq!(state(&waiting)["waiting"]["message"], "configmap \"late\" not found");
    t.config_map("late", json!({"K": "now"})).await;
    t.until(&t.core("pods/p"), "the pod running after all", |p| p["status"]["phase"] == "Succeeded").await;
    assert_eq!(log(&t, "p", "").await, "now\n");
}

#[tokio::test]
async fn volumes_hold_files() {
    let t = Test::pods().await;
    t.config_map("c", json!({"a.txt": "A", "b.txt": "B"})).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "s"}, "stringData": {"key": "S"}})).await;
    let mut body = pod(
        "p",
        "cat /c/a.txt /c/b.txt /items/deep/x /s/key /all/token-free /all/labels /one; ls -l /s/..data/key | cut -c1-10; test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo token",
    );
    body["spec"]["volumes"] = json!([
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "items", "configMap": {"name": "c", "items": [{"key": "a.txt", "path": "deep/x"}]}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 256}},
        {"name": "all", "projected": {"sources": [{"secret": {"name": "s", "items": [{"key": "key", "path": "token-free"}]}},
            {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}},
    ]);
    body["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "c", "mountPath": "/c"}, {"name": "items", "mountPath": "/items"}, {"name": "s", "mountPath": "/s"},
        {"name": "all", "mountPath": "/all"}, {"name": "c", "mountPath": "/one", "subPath": "b.txt"}]);
    let done = finish(&t, body).await;
    assert_eq!(done["status"]["phase"], "Succeeded", "{done}");
    assert_eq!(log(&t, "p", "").await, "ABASSapp=\"p\"B-r--------\ntoken\n");
}

#[tokio::test]
async fn a_changed_config_map_reaches_the_running_pod() {
    let t = Test::pods().await;
    t.config_map("c", json!({"v": "old"})).await;
    let mut body = pod("p", "cat /c/v; echo; until grep -q new /c/v; do sleep 0.1; done; cat /c/v");
    body["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "c"}}]);
    body["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "c", "mountPath": "/c"}]);
    t.create(&t.core("pods"), body).await;
    t.until(&t.core("pods/p"), "the pod running", |p| p["status"]["phase"] == "Running").await;
    // Running is not having read: the change comes after the first look.
    until_log(&t, "p", "old").await;
    t.patch(&t.core("configmaps/c"), crate::client::MERGE, json!({"data": {"v": "new"}})).await;
    t.until(&t.core("pods/p"), "the pod seeing the change", |p| p["status"]["phase"] == "Succeeded").await;
    assert_eq!(log(&t, "p", "").await, "old\nnew");
}

#[tokio::test]
async fn init_containers_run_one_after_the_other() {
    let t = Test::pods().await;
    let step = |name: &str, script: &str| json!({"name": name, "image": image(), "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c", script], "volumeMounts": [{"name": "x", "mountPath": "/x"}]});
    let mut body = pod("p", "cat /x/log");
    body["spec"]["initContainers"] =
        json!([step("one", "sleep 0.5; echo one >> /x/log"), step("two", "echo two >> /x/log")]);
    body["spec"]["volumes"] = json!([{"name": "x", "emptyDir": {}}]);
    body["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "x", "mountPath": "/x"}]);
    let done = finish(&t, body).await;
    assert_eq!(log(&t, "p", "").await, "one\ntwo\n");
    assert!(
        done["status"]["initContainerStatuses"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|s| s["state"]["terminated"]["exitCode"] == 0)
    );
}

#[tokio::test]
async fn a_failed_init_container_fails_the_pod() {
    let t = Test::pods().await;
    let mut body = pod("p", "echo never");
    body["spec"]["initContainers"] = json!([{"name": "bad", "image": image(), "imagePullPolicy": "IfNotPresent", "command": ["/bin/sh", "-c", "exit 4"]}]);
    let done = finish(&t, body).await;
    assert_eq!(done["status"]["phase"], "Failed");
    assert_eq!(done["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 4);
    assert_eq!(state(&done)["waiting"]["reason"], "PodInitializing");
}

#[tokio::test]
async fn a_sidecar_runs_beside_and_ends_with_the_pod() {
    let t = Test::pods().await;
    let mut body = pod("p", "sleep 1; echo done");
    body["spec"]["initContainers"] = json!([{"name": "side", "image": image(), "imagePullPolicy": "IfNotPresent", "restartPolicy": "Always", "command": ["/bin/sh", "-c", "echo up; while :; do sleep 0.2; done"]}]);
    let done = finish(&t, body).await;
    assert_eq!(done["status"]["phase"], "Succeeded");
    assert_eq!(log(&t, "p", "container=side").await, "up\n");
}

#[tokio::test]
async fn a_crashing_container_is_restarted_with_a_back_off() {
    let t = Test::pods().await;
    let mut body = pod("p", "echo try; exit 1");
    body["spec"]["restartPolicy"] = json!("Always");
    t.create(&t.core("pods"), body).await;
    let object = t
        .until(&t.core("pods/p"), "the back-off", |p| {
            state(p)["waiting"]["reason"] == "CrashLoopBackOff"
                && p["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(1)
        })
        .await;
    assert_eq!(object["status"]["phase"], "Running");
    assert_eq!(object["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
    // A kubelet may just be taking away the container that its last report calls the previous one, and says so with 200.
    t.eventually("the log of the one before", || async { log(&t, "p", "previous=true").await == "try\n" })
        .await;
    let events = t.core("events?fieldSelector=involvedObject.name%3Dp,reason%3DBackOff");
    t.until(&events, "the event", |list| !list["items"].as_array().expect("events").is_empty()).await;
}

#[tokio::test]
async fn a_missing_image_is_told_as_kubernetes_tells_it() {
    let t = Test::pods().await;
    let mut body = pod("p", "true");
    body["spec"]["containers"][0]["image"] = json!("localhost/no-such-image:1");
    t.create(&t.core("pods"), body).await;
    let object = t
        .until(&t.core("pods/p"), "the pull failing", |p| state(p)["waiting"]["reason"] == "ImagePullBackOff")
        .await;
    assert_eq!(object["status"]["phase"], "Pending");
    let mut body = pod("q", "true");
    body["spec"]["containers"][0]["image"] = json!("localhost/no-such-image:1");
    body["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
    t.create(&t.core("pods"), body).await;
    t.until(&t.core("pods/q"), "the refusal", |p| state(p)["waiting"]["reason"] == "ErrImageNeverPull").await;
}

#[tokio::test]
async fn readiness_follows_the_probe() {
    let t = Test::pods().await;
    t.config_map("c", json!({"v": "up"})).await;
    let mut body = pod("p", "trap 'exit 0' TERM; while :; do sleep 0.2; done");
    body["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["grep", "-q", "up", "/c/v"]}, "periodSeconds": 1, "failureThreshold": 1});
    body["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "c"}}]);
    body["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "c", "mountPath": "/c"}]);
    t.create(&t.core("pods"), body).await;
    let ready = |p: &Value, wanted: &str| {
        p["status"]["conditions"]
            .as_array()
            .is_some_and(|c| c.iter().any(|c| c["type"] == "Ready" && c["status"] == wanted))
    };
    t.until(&t.core("pods/p"), "readiness", |p| ready(p, "True")).await;
    t.patch(&t.core("configmaps/c"), crate::client::MERGE, json!({"data": {"v": "down"}})).await;
    let object = t.until(&t.core("pods/p"), "the loss of readiness", |p| ready(p, "False")).await;
    assert_eq!(object["status"]["phase"], "Running");
}

#[tokio::test]
async fn a_failed_liveness_probe_restarts_the_container() {
    let t = Test::pods().await;
    let mut body = pod("p", "trap 'exit 0' TERM; while :; do sleep 0.2; done");
    body["spec"]["restartPolicy"] = json!("Always");
    body["spec"]["containers"][0]["livenessProbe"] =
        json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2});
    t.create(&t.core("pods"), body).await;
    t.until(&t.core("pods/p"), "a restart", |p| {
        p["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(1)
    })
    .await;
    let (_, events) = t.get(&t.core("events?fieldSelector=involvedObject.name%3Dp,reason%3DUnhealthy")).await;
    assert!(!events["items"].as_array().expect("events").is_empty());
}

#[tokio::test]
async fn deletion_gives_the_grace_period() {
    let t = Test::pods().await;
    let mut body = pod("p", "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done");
    body["spec"]["terminationGracePeriodSeconds"] = json!(20);
    t.create(&t.core("pods"), body).await;
    t.until(&t.core("pods/p"), "the pod running", |p| p["status"]["phase"] == "Running").await;
    let (code, object) = t.delete(&t.core("pods/p")).await;
    assert_eq!((code, object["metadata"]["deletionGracePeriodSeconds"].as_i64()), (200, Some(20)));
    assert_eq!(t.get(&t.core("pods/p")).await.0, 200, "it is still there while it stops");
    t.until_gone(&t.core("pods/p")).await;
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_says_why() {
    let t = Test::pods().await;
    let mut body = pod("p", "true");
    body["spec"]["nodeSelector"] = json!({"no-such": "label"});
    t.create(&t.core("pods"), body).await;
    let object = t
        .until(&t.core("pods/p"), "the scheduler's word", |p| {
            p["status"]["conditions"]
                .as_array()
                .is_some_and(|c| c.iter().any(|c| c["type"] == "PodScheduled" && c["status"] == "False"))
        })
        .await;
    let condition = object["status"]["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .find(|c| c["type"] == "PodScheduled")
        .cloned()
        .expect("a condition");
    assert_eq!(condition["reason"], "Unschedulable");
    assert!(
        condition["message"]
            .as_str()
            .is_some_and(|m| m.contains("0/1 nodes are available") || m.contains("nodes are available")),
        "{condition}"
    );
}

#[tokio::test]
async fn a_pod_without_a_node_has_no_log_yet() {
    let t = Test::pods().await;
    let mut body = pod("p", "true");
    body["spec"]["nodeSelector"] = json!({"no-such": "label"});
    t.create(&t.core("pods"), body).await;
    let (code, _, bytes) = t.send("GET", &t.core("pods/p/log"), "", None).await;
    assert_eq!((code, bytes.len()), (204, 0));
    let (code, _, _) = t.send("GET", &t.core("pods/p/log?container=none"), "", None).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn logs_of_a_container_that_has_not_started_are_refused() {
    let t = Test::pods().await;
    let mut body = pod("p", "true");
    body["spec"]["containers"][0]["env"] =
        json!([{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "K"}}}]);
    t.create(&t.core("pods"), body).await;
    t.until(&t.core("pods/p"), "the error", |p| {
        state(p)["waiting"]["reason"] == "CreateContainerConfigError"
    })
    .await;
    let (code, status) = t.get(&t.core("pods/p/log")).await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "container \"main\" in pod \"p\" is waiting to start: CreateContainerConfigError"
    );
    let (code, status) = t.get(&t.core("pods/p/log?previous=true")).await;
    assert_eq!(code, 400);
    assert_eq!(status["message"], "previous terminated container \"main\" in pod \"p\" not found");
}

#[tokio::test]
async fn following_a_log_ends_with_the_container() {
    let t = Test::pods().await;
    t.create(&t.core("pods"), pod("p", "for i in 1 2 3; do echo $i; sleep 0.3; done")).await;
    t.until(&t.core("pods/p"), "the pod running", |p| p["status"]["phase"] != "Pending").await;
    assert_eq!(log(&t, "p", "follow=true").await, "1\n2\n3\n");
}

#[tokio::test]
async fn a_user_and_a_read_only_root_are_kept() {
    let t = Test::pods().await;
    let mut body = pod("p", "id -u; touch /x 2>/dev/null || echo read-only");
    body["spec"]["containers"][0]["securityContext"] = json!({"runAsUser": 1234, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    finish(&t, body).await;
    assert_eq!(log(&t, "p", "").await, "1234\nread-only\n");
}

#[tokio::test]
async fn an_active_deadline_ends_a_pod() {
    let t = Test::pods().await;
    let mut body = pod("p", "trap 'exit 0' TERM; while :; do sleep 0.2; done");
    body["spec"]["activeDeadlineSeconds"] = json!(2);
    let done = finish(&t, body).await;
    assert_eq!(
        (done["status"]["phase"].as_str(), done["status"]["reason"].as_str()),
        (Some("Failed"), Some("DeadlineExceeded"))
    );
}
