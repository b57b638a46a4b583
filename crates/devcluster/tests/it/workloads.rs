//! Controllers, with real pods.

use serde_json::{Value, json};

use crate::client::{MERGE, STRATEGIC, Test, deployment, template};

const SLEEP: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";

async fn pods_of(t: &Test, app: &str) -> Vec<Value> {
    let (_, list) = t.get(&t.core(&format!("pods?labelSelector=app%3D{app}"))).await;
    list["items"].as_array().cloned().unwrap_or_default()
}

fn condition<'a>(object: &'a Value, ty: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == ty)
}

fn rolled_out(object: &Value, replicas: i64) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
        && object["status"]["updatedReplicas"] == replicas
        && object["status"]["availableReplicas"] == replicas
        && object["status"]["replicas"] == replicas
}

#[tokio::test]
async fn a_deployment_becomes_available() {
    let t = Test::pods().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 2, SLEEP)).await;
    let object = t.until(&format!("{path}/d"), "the rollout", |d| rolled_out(d, 2)).await;
    assert_eq!(condition(&object, "Available").expect("a condition")["reason"], "MinimumReplicasAvailable");
    let object = t
        .until(&format!("{path}/d"), "progress being done", |d| {
            condition(d, "Progressing").is_some_and(|c| c["reason"] == "NewReplicaSetAvailable")
        })
        .await;
    assert_eq!(object["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(object["status"].get("unavailableReplicas"), None);
    let (_, sets) = t.get(&t.group("apps/v1", "replicasets?labelSelector=app%3Dd")).await;
    let set = &sets["items"][0];
    assert_eq!(set["metadata"]["ownerReferences"][0]["kind"], "Deployment");
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().expect("a hash");
    assert_eq!(set["metadata"]["name"], format!("d-{hash}"));
    assert!(pods_of(&t, "d").await.iter().all(|p| p["metadata"]["labels"]["pod-template-hash"] == hash));
}

#[tokio::test]
async fn a_rolling_update_replaces_pods_and_can_be_undone() {
    let t = Test::pods().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 2, SLEEP)).await;
    let one = format!("{path}/d");
    t.until(&one, "the first rollout", |d| rolled_out(d, 2)).await;
    let first = t.get(&one).await.1["spec"]["template"].clone();
    let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "V", "value": "2"}]}]}}}});
    t.patch(&one, STRATEGIC, change).await;
    let object =
        t.until(&one, "the second rollout", |d| d["metadata"]["generation"] == 2 && rolled_out(d, 2)).await;
    assert_eq!(object["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    let (_, sets) = t.get(&t.group("apps/v1", "replicasets?labelSelector=app%3Dd")).await;
    assert_eq!(sets["items"].as_array().map(Vec::len), Some(2));
    // What `kubectl rollout undo` does: the old template again.
    t.patch(&one, crate::client::JSON, json!([{"op": "replace", "path": "/spec/template", "value": first}]))
        .await;
    let object =
        t.until(&one, "the rollback", |d| d["metadata"]["generation"] == 3 && rolled_out(d, 2)).await;
    let object = if object["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3" {
        object
    } else {
        t.until(&one, "the third revision", |d| {
            d["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        })
        .await
    };
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0].get("env"), None);
    let (_, sets) = t.get(&t.group("apps/v1", "replicasets?labelSelector=app%3Dd")).await;
    assert_eq!(sets["items"].as_array().map(Vec::len), Some(2), "the old set is used again");
}

#[tokio::test]
async fn scaling_up_and_down_follows() {
    let t = Test::pods().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 1, SLEEP)).await;
    let one = format!("{path}/d");
    t.until(&one, "one pod", |d| rolled_out(d, 1)).await;
    t.patch(&format!("{one}/scale"), MERGE, json!({"spec": {"replicas": 3}})).await;
    t.until(&one, "three pods", |d| rolled_out(d, 3)).await;
    t.patch(&format!("{one}/scale"), MERGE, json!({"spec": {"replicas": 0}})).await;
    t.eventually("no pods", || async { pods_of(&t, "d").await.is_empty() }).await;
}

#[tokio::test]
async fn recreate_stops_the_old_before_it_starts_the_new() {
    let t = Test::pods().await;
    let path = t.group("apps/v1", "deployments");
    let mut body = deployment("d", 1, SLEEP);
    body["spec"]["strategy"] = json!({"type": "Recreate"});
    t.create(&path, body).await;
    let one = format!("{path}/d");
    t.until(&one, "the first rollout", |d| rolled_out(d, 1)).await;
    let mut watch = t.watch(&t.core("pods?labelSelector=app%3Dd")).await;
    let first = watch.next().await.expect("the pod")["object"]["metadata"]["name"].clone();
    t.patch(&one, MERGE, json!({"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}})).await;
    loop {
        let event = watch.next().await.expect("an event");
        match event["type"].as_str() {
            Some("DELETED") => {
                assert_eq!(event["object"]["metadata"]["name"], first);
                break;
            }
            Some("ADDED") => panic!("the new pod came before the old one was gone"),
            _ => {}
        }
    }
    t.until(&one, "the second rollout", |d| d["metadata"]["generation"] == 2 && rolled_out(d, 1)).await;
}

#[tokio::test]
async fn a_deployment_that_cannot_progress_says_so() {
    let t = Test::pods().await;
    let path = t.group("apps/v1", "deployments");
    // Never ready, not even for a moment: a container that only crashes may be seen up, and the rollout done.
    let mut body = deployment("d", 1, SLEEP);
    body["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["false"]}, "periodSeconds": 1});
    body["spec"]["progressDeadlineSeconds"] = json!(5);
    t.create(&path, body).await;
    let object = t
        .until(&format!("{path}/d"), "the deadline", |d| {
            condition(d, "Progressing").is_some_and(|c| c["reason"] == "ProgressDeadlineExceeded")
        })
        .await;
    assert_eq!(condition(&object, "Progressing").expect("a condition")["status"], "False");
    assert_eq!(condition(&object, "Available").expect("a condition")["status"], "False");
}

#[tokio::test]
async fn a_paused_deployment_does_not_roll() {
    let t = Test::pods().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 1, SLEEP)).await;
    let one = format!("{path}/d");
    t.until(&one, "the first rollout", |d| rolled_out(d, 1)).await;
    let name = pods_of(&t, "d").await[0]["metadata"]["name"].clone();
    t.patch(
        &one,
        MERGE,
        json!({"spec": {"paused": true, "template": {"metadata": {"annotations": {"v": "2"}}}}}),
    )
    .await;
    t.until(&one, "the pause being seen", |d| {
        condition(d, "Progressing").is_some_and(|c| c["reason"] == "DeploymentPaused")
    })
    .await;
    assert_eq!(pods_of(&t, "d").await[0]["metadata"]["name"], name);
    t.patch(&one, MERGE, json!({"spec": {"paused": false}})).await;
    t.until(&one, "the rollout going on", |d| {
        d["status"]["updatedReplicas"] == 1
            && d["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    })
    .await;
}

#[tokio::test]
async fn deleting_a_deployment_deletes_everything_below() {
    let t = Test::pods().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 1, SLEEP)).await;
    t.until(&format!("{path}/d"), "the rollout", |d| rolled_out(d, 1)).await;
    t.delete(&format!("{path}/d")).await;
    t.eventually("no pods", || async { pods_of(&t, "d").await.is_empty() }).await;
    let (_, sets) = t.get(&t.group("apps/v1", "replicasets")).await;
    assert_eq!(sets["items"], json!([]));
}

#[tokio::test]
async fn a_replica_set_adopts_and_replaces() {
    let t = Test::pods().await;
    let mut loose = template("r", SLEEP);
    loose["metadata"]["name"] = json!("loose");
    t.create(&t.core("pods"), loose).await;
    let body = json!({"metadata": {"name": "r"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "r"}}, "template": template("r", SLEEP)}});
    let path = t.group("apps/v1", "replicasets");
    t.create(&path, body).await;
    t.until(&format!("{path}/r"), "two ready pods", |r| r["status"]["readyReplicas"] == 2).await;
    let adopted = t.get(&t.core("pods/loose")).await.1;
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["name"], "r");
    t.delete(&t.core("pods/loose")).await;
    t.until_gone(&t.core("pods/loose")).await;
    t.until(&format!("{path}/r"), "a replacement", |r| r["status"]["readyReplicas"] == 2).await;
}

#[tokio::test]
async fn a_stateful_set_keeps_names_and_volumes() {
    let t = Test::pods().await;
    let mut pod =
        template("db", "echo $HOSTNAME >> /data/log; trap 'exit 0' TERM; while :; do sleep 0.2; done");
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let body = json!({"metadata": {"name": "db"}, "spec": {"serviceName": "db", "replicas": 2, "selector": {"matchLabels": {"app": "db"}}, "template": pod,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}]}});
    let path = t.group("apps/v1", "statefulsets");
    t.create(&path, body).await;
    let object = t
        .until(&format!("{path}/db"), "two ready pods", |s| {
            s["status"]["readyReplicas"] == 2
                && s["status"]["currentRevision"] == s["status"]["updateRevision"]
        })
        .await;
    assert_eq!(object["status"]["availableReplicas"], 2);
    let first = t.get(&t.core("pods/db-0")).await.1;
    assert_eq!(first["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], "db-0");
    assert_eq!(first["spec"]["hostname"], "db-0");
    assert_eq!(t.get(&t.core("persistentvolumeclaims/data-db-1")).await.1["status"]["phase"], "Bound");
    let uid = first["metadata"]["uid"].clone();
    t.delete(&t.core("pods/db-0")).await;
    let again = t
        .until(&t.core("pods/db-0"), "the pod coming back", |p| {
            p["metadata"]["uid"] != uid && p["status"]["phase"] == "Running"
        })
        .await;
    assert_eq!(again["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-0");
}

#[tokio::test]
async fn a_daemon_set_runs_one_pod_per_node() {
    let t = Test::pods().await;
    let path = t.group("apps/v1", "daemonsets");
    t.create(&path, json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"app": "s"}}, "template": template("s", SLEEP)}})).await;
    let object = t
        .until(&format!("{path}/s"), "the pod", |s| {
            s["status"]["numberReady"]
                .as_i64()
                .is_some_and(|n| n > 0 && s["status"]["desiredNumberScheduled"] == n)
        })
        .await;
    assert_eq!(object["status"]["numberAvailable"], object["status"]["desiredNumberScheduled"]);
    let before = pods_of(&t, "s").await[0]["metadata"]["name"].clone();
    t.patch(
        &format!("{path}/s"),
        MERGE,
        json!({"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}),
    )
    .await;
    t.eventually("the pod being replaced", || async {
        let pods = pods_of(&t, "s").await;
        pods.len() == 1 && pods[0]["metadata"]["name"] != before && pods[0]["status"]["phase"] == "Running"
    })
    .await;
}

#[tokio::test]
async fn a_job_runs_to_completion() {
    let t = Test::pods().await;
    let mut pod = template("j", "exit 0");
    pod["spec"]["restartPolicy"] = json!("Never");
    let path = t.group("batch/v1", "jobs");
    t.create(
        &path,
        json!({"metadata": {"name": "j"}, "spec": {"completions": 3, "parallelism": 2, "template": pod}}),
    )
    .await;
    let object = t
        .until(&format!("{path}/j"), "completion", |j| {
            condition(j, "Complete").is_some_and(|c| c["status"] == "True")
        })
        .await;
    assert_eq!(object["status"]["succeeded"], 3);
    assert!(object["status"]["completionTime"].is_string());
    assert_eq!(object["status"].get("active"), None);
}

#[tokio::test]
async fn a_job_gives_up_after_its_backoff_limit() {
    let t = Test::pods().await;
    let mut pod = template("j", "exit 3");
    pod["spec"]["restartPolicy"] = json!("Never");
    let path = t.group("batch/v1", "jobs");
    t.create(&path, json!({"metadata": {"name": "j"}, "spec": {"backoffLimit": 0, "template": pod}})).await;
    let object = t.until(&format!("{path}/j"), "failure", |j| condition(j, "Failed").is_some()).await;
    assert_eq!(condition(&object, "Failed").expect("a condition")["reason"], "BackoffLimitExceeded");
    assert_eq!(object["status"]["failed"], 1);
}

#[tokio::test]
async fn an_indexed_job_gives_each_pod_its_index() {
    let t = Test::pods().await;
    let mut pod = template("j", "echo index $JOB_COMPLETION_INDEX");
    pod["spec"]["restartPolicy"] = json!("Never");
    let path = t.group("batch/v1", "jobs");
    t.create(&path, json!({"metadata": {"name": "j"}, "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": pod}})).await;
    let object = t.until(&format!("{path}/j"), "completion", |j| condition(j, "Complete").is_some()).await;
    // A range begins with three.
    assert_eq!(object["status"]["completedIndexes"], "0,1");
    let mut seen: Vec<String> = Vec::new();
    for pod in pods_of(&t, "j").await {
        let name = pod["metadata"]["name"].as_str().expect("a name").to_owned();
        let (_, _, bytes) = t.send("GET", &t.core(&format!("pods/{name}/log")), "", None).await;
        seen.push(String::from_utf8_lossy(&bytes).trim().to_owned());
    }
    seen.sort();
    assert_eq!(seen, ["index 0", "index 1"]);
}

#[tokio::test]
async fn a_suspended_job_waits() {
    let t = Test::pods().await;
    let mut pod = template("j", "exit 0");
    pod["spec"]["restartPolicy"] = json!("Never");
    let path = t.group("batch/v1", "jobs");
    t.create(&path, json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": pod}})).await;
    t.until(&format!("{path}/j"), "the suspension", |j| {
        condition(j, "Suspended").is_some_and(|c| c["status"] == "True")
    })
    .await;
    assert!(pods_of(&t, "j").await.is_empty());
    t.patch(&format!("{path}/j"), MERGE, json!({"spec": {"suspend": false}})).await;
    t.until(&format!("{path}/j"), "completion", |j| condition(j, "Complete").is_some()).await;
}

#[tokio::test]
async fn deleting_a_job_keeps_its_pods_unless_told_otherwise() {
    let t = Test::pods().await;
    let mut pod = template("j", "exit 0");
    pod["spec"]["restartPolicy"] = json!("Never");
    let path = t.group("batch/v1", "jobs");
    for (name, policy) in [("keep", None), ("drop", Some("Background"))] {
        let mut body = json!({"metadata": {"name": name}, "spec": {"template": pod.clone()}});
        body["spec"]["template"]["metadata"]["labels"]["app"] = json!(name);
        t.create(&path, body).await;
        t.until(&format!("{path}/{name}"), "completion", |j| condition(j, "Complete").is_some()).await;
        t.delete_with(&format!("{path}/{name}"), json!({"propagationPolicy": policy})).await;
        t.until_gone(&format!("{path}/{name}")).await;
    }
    t.eventually("the pods of the second job going", || async { pods_of(&t, "drop").await.is_empty() }).await;
    assert_eq!(pods_of(&t, "keep").await.len(), 1);
}

#[tokio::test]
async fn a_finished_job_goes_after_its_time() {
    let t = Test::pods().await;
    let mut pod = template("j", "exit 0");
    pod["spec"]["restartPolicy"] = json!("Never");
    let path = t.group("batch/v1", "jobs");
    t.create(
        &path,
        json!({"metadata": {"name": "j"}, "spec": {"ttlSecondsAfterFinished": 1, "template": pod}}),
    )
    .await;
    t.until_gone(&format!("{path}/j")).await;
}

#[tokio::test]
async fn a_service_finds_its_ready_pods() {
    let t = Test::pods().await;
    let mut pod =
        template("web", "mkdir -p /www; echo hello > /www/index.html; exec httpd -f -p 8080 -h /www");
    pod["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 8080}]);
    pod["spec"]["containers"][0]["readinessProbe"] =
        json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1});
    t.create(&t.group("apps/v1", "deployments"), json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pod}})).await;
    t.create(&t.core("services"), json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}})).await;
    t.eventually("two endpoints", || async {
        let (_, slices) = t
            .get(&t.group(
                "discovery.k8s.io/v1",
                "endpointslices?labelSelector=kubernetes.io/service-name%3Dweb",
            ))
            .await;
        let ready = slices["items"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|s| s["endpoints"].as_array().cloned().unwrap_or_default())
            .filter(|e| e["conditions"]["ready"] == true)
            .count();
        ready == 2
    })
    .await;
    // Another controller writes these, in its own time.
    let endpoints = t
        .until(&t.core("endpoints/web"), "two addresses", |object| {
            object["subsets"][0]["addresses"].as_array().map(Vec::len) == Some(2)
        })
        .await;
    assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], 8080);
}

#[tokio::test]
async fn a_claim_is_bound_to_a_volume_and_released() {
    let t = Test::pods().await;
    let body = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    t.create(&t.core("persistentvolumeclaims"), body).await;
    let claim = t
        .until(&t.core("persistentvolumeclaims/c"), "the claim being bound", |c| {
            c["status"]["phase"] == "Bound"
        })
        .await;
    let volume =
        format!("/api/v1/persistentvolumes/{}", claim["spec"]["volumeName"].as_str().expect("a volume"));
    assert_eq!(t.get(&volume).await.1["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    t.delete(&t.core("persistentvolumeclaims/c")).await;
    t.until_gone(&volume).await;
}
