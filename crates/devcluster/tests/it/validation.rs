//! What is refused, and in which words.

use serde_json::{Value, json};

use crate::client::{MERGE, Test, deployment, fields, pod};

async fn refused(t: &Test, path: &str, body: Value) -> Vec<String> {
    let (code, status) = t.post(path, body).await;
    assert_eq!((code, status["reason"].as_str()), (422, Some("Invalid")), "{status}");
    fields(&status)
}

#[tokio::test]
async fn a_name_is_required_and_must_be_a_name() {
    let t = Test::api().await;
    assert_eq!(refused(&t, &t.core("configmaps"), json!({"metadata": {}})).await, ["metadata.name"]);
    assert_eq!(
        refused(&t, &t.core("configmaps"), json!({"metadata": {"name": "Not Good"}})).await,
        ["metadata.name"]
    );
    assert_eq!(
        refused(&t, "/api/v1/namespaces", json!({"metadata": {"name": "with.dot"}})).await,
        ["metadata.name"]
    );
}

#[tokio::test]
async fn labels_must_be_labels() {
    let t = Test::api().await;
    let long = "x".repeat(64);
    assert_eq!(
        refused(&t, &t.core("configmaps"), json!({"metadata": {"name": "a", "labels": {"k": long}}})).await,
        ["metadata.labels"]
    );
    assert_eq!(
        refused(&t, &t.core("configmaps"), json!({"metadata": {"name": "a", "labels": {"k": "a b"}}})).await,
        ["metadata.labels"]
    );
}

#[tokio::test]
async fn a_wrong_type_is_a_bad_request() {
    let t = Test::api().await;
    let mut body = deployment("d", 1, "true");
    body["spec"]["replicas"] = json!("three");
    assert_eq!(t.post(&t.group("apps/v1", "deployments"), body).await.0, 400);
    assert_eq!(
        t.post(&t.core("configmaps"), json!({"metadata": {"name": "a"}, "data": {"k": 5}})).await.0,
        400
    );
}

#[tokio::test]
async fn unknown_fields_are_dropped_warned_about_or_refused() {
    let t = Test::api().await;
    let body = |name: &str| json!({"metadata": {"name": name}, "data": {}, "bogus": 1}).to_string();
    let (code, headers, bytes) =
        t.send("POST", &t.core("configmaps?fieldValidation=Warn"), "application/json", Some(body("a"))).await;
    assert_eq!(code, 201);
    assert!(headers["warning"].to_str().expect("text").contains("unknown field"), "{headers:?}");
    let object: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(object.get("bogus"), None);
    let (code, headers, _) = t
        .send("POST", &t.core("configmaps?fieldValidation=Ignore"), "application/json", Some(body("b")))
        .await;
    assert_eq!((code, headers.get("warning")), (201, None));
    let (code, _, bytes) = t
        .send("POST", &t.core("configmaps?fieldValidation=Strict"), "application/json", Some(body("c")))
        .await;
    assert_eq!(code, 400);
    assert!(String::from_utf8_lossy(&bytes).contains("unknown field \\\"bogus\\\""));
}

#[tokio::test]
async fn a_deployment_needs_selector_and_matching_labels() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    let mut body = deployment("d", 1, "true");
    body["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    assert_eq!(refused(&t, &path, body).await, ["spec.template.metadata.labels"]);
    let mut body = deployment("d", 1, "true");
    body["spec"].as_object_mut().expect("a map").remove("selector");
    assert!(refused(&t, &path, body).await.contains(&"spec.selector".to_owned()));
}

#[tokio::test]
async fn a_selector_cannot_change() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    t.create(&path, deployment("d", 0, "true")).await;
    let patch = json!({"spec": {"selector": {"matchLabels": {"x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}}}}});
    let (code, status) = t.patch(&format!("{path}/d"), MERGE, patch).await;
    assert_eq!(code, 422, "{status}");
    assert!(fields(&status).contains(&"spec.selector".to_owned()));
}

#[tokio::test]
async fn containers_need_names_images_and_known_volumes() {
    let t = Test::api().await;
    let mut body = pod("p", "true");
    body["spec"]["containers"] = json!([]);
    assert!(refused(&t, &t.core("pods"), body).await.contains(&"spec.containers".to_owned()));
    let mut body = pod("p", "true");
    body["spec"]["containers"][0]["image"] = json!("");
    assert_eq!(refused(&t, &t.core("pods"), body).await, ["spec.containers[0].image"]);
    let mut body = pod("p", "true");
    body["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "none", "mountPath": "/x"}]);
    assert_eq!(refused(&t, &t.core("pods"), body).await, ["spec.containers[0].volumeMounts[0].name"]);
}

#[tokio::test]
async fn a_job_may_not_always_restart() {
    let t = Test::api().await;
    let mut template = crate::client::template("j", "true");
    template["spec"]["restartPolicy"] = json!("Always");
    let found = refused(
        &t,
        &t.group("batch/v1", "jobs"),
        json!({"metadata": {"name": "j"}, "spec": {"template": template}}),
    )
    .await;
    assert_eq!(found, ["spec.template.spec.restartPolicy"]);
}

#[tokio::test]
async fn a_schedule_must_be_one() {
    let t = Test::api().await;
    let mut template = crate::client::template("j", "true");
    template["spec"]["restartPolicy"] = json!("Never");
    let body = json!({"metadata": {"name": "c"}, "spec": {"schedule": "every now and then", "jobTemplate": {"spec": {"template": template}}}});
    assert_eq!(refused(&t, &t.group("batch/v1", "cronjobs"), body).await, ["spec.schedule"]);
}

#[tokio::test]
async fn service_ports_are_checked() {
    let t = Test::api().await;
    let body = |ports: Value| json!({"metadata": {"name": "s"}, "spec": {"ports": ports}});
    // The target is the port unless it is given, and is as wrong.
    assert_eq!(
        refused(&t, &t.core("services"), body(json!([{"port": 0}]))).await,
        ["spec.ports[0].port", "spec.ports[0].targetPort"]
    );
    let found = refused(&t, &t.core("services"), body(json!([{"port": 1}, {"port": 2}]))).await;
    assert_eq!(found, ["spec.ports[0].name", "spec.ports[1].name"]);
    assert!(
        refused(
            &t,
            &t.core("services"),
            json!({"metadata": {"name": "s"}, "spec": {"type": "Magic", "ports": [{"port": 1}]}})
        )
        .await
        .contains(&"spec.type".to_owned())
    );
}

#[tokio::test]
async fn a_pods_spec_is_fixed_but_for_its_images() {
    let t = Test::api().await;
    let mut body = pod("p", "true");
    body["spec"]["nodeSelector"] = json!({"no-such": "node"});
    t.create(&t.core("pods"), body).await;
    let (code, _) = t
        .patch(
            &t.core("pods/p"),
            crate::client::STRATEGIC,
            json!({"spec": {"containers": [{"name": "main", "image": "other:1"}]}}),
        )
        .await;
    assert_eq!(code, 200);
    let (code, status) =
        t.patch(&t.core("pods/p"), MERGE, json!({"spec": {"restartPolicy": "Always"}})).await;
    assert_eq!(code, 422, "{status}");
}

#[tokio::test]
async fn secrets_need_base64_and_keep_their_type() {
    let t = Test::api().await;
    let (code, _) =
        t.post(&t.core("secrets"), json!({"metadata": {"name": "s"}, "data": {"k": "not base64!"}})).await;
    assert!(code == 400 || code == 422, "{code}");
    t.create(&t.core("secrets"), json!({"metadata": {"name": "s"}})).await;
    assert_eq!(t.patch(&t.core("secrets/s"), MERGE, json!({"type": "example.com/other"})).await.0, 422);
}

#[tokio::test]
async fn defaults_are_filled_in() {
    let t = Test::api().await;
    let mut body = deployment("d", 0, "true");
    body["spec"].as_object_mut().expect("a map").remove("replicas");
    body["spec"]["paused"] = json!(true);
    let object = t.create(&t.group("apps/v1", "deployments"), body).await;
    let spec = &object["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["progressDeadlineSeconds"], 600);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    let pod = &spec["template"]["spec"];
    assert_eq!(
        (pod["dnsPolicy"].as_str(), pod["restartPolicy"].as_str(), pod["schedulerName"].as_str()),
        (Some("ClusterFirst"), Some("Always"), Some("default-scheduler"))
    );
    let container = &pod["containers"][0];
    assert_eq!(container["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(container["terminationMessagePolicy"], "File");
    assert_eq!(container["resources"], json!({}));
}

#[tokio::test]
async fn limits_become_requests_and_decide_the_class() {
    let t = Test::api().await;
    let mut body = pod("p", "true");
    body["spec"]["nodeSelector"] = json!({"no-such": "node"});
    body["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "100m", "memory": "64Mi"}});
    let object = t.create(&t.core("pods"), body).await;
    assert_eq!(
        object["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "100m", "memory": "64Mi"})
    );
    assert_eq!(object["status"]["qosClass"], "Guaranteed");
}

#[tokio::test]
async fn a_pod_gets_its_account_and_token() {
    let t = Test::api().await;
    let mut body = pod("p", "true");
    body["spec"]["nodeSelector"] = json!({"no-such": "node"});
    let object = t.create(&t.core("pods"), body).await;
    assert_eq!(object["spec"]["serviceAccountName"], "default");
    let mount = &object["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    let mut body = pod("q", "true");
    body["spec"]["automountServiceAccountToken"] = json!(false);
    body["spec"]["nodeSelector"] = json!({"no-such": "node"});
    let object = t.create(&t.core("pods"), body).await;
    assert_eq!(object["spec"]["containers"][0].get("volumeMounts"), None);
    let mut body = pod("r", "true");
    body["spec"]["serviceAccountName"] = json!("nobody");
    assert_eq!(t.post(&t.core("pods"), body).await.0, 403);
}

#[tokio::test]
async fn image_pull_policy_follows_the_tag() {
    let t = Test::api().await;
    for (image, policy) in [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("x:1.2", "IfNotPresent"),
        ("reg:5000/x", "Always"),
        ("reg:5000/x:2", "IfNotPresent"),
    ] {
        let body = json!({"metadata": {"generateName": "p-"}, "spec": {"nodeSelector": {"no-such": "node"}, "containers": [{"name": "c", "image": image}]}});
        let object = t.create(&t.core("pods"), body).await;
        assert_eq!(object["spec"]["containers"][0]["imagePullPolicy"], policy, "{image}");
    }
}

/// REVIEW M9: a service would otherwise listen on any address of the machine, in the place of whoever belongs there.
#[tokio::test]
async fn a_service_has_an_address_of_the_cluster_and_a_port_of_its_range() {
    let t = Test::api().await;
    let wide = json!([{"port": 80}]);
    for address in ["0.0.0.0", "127.0.0.1", "192.0.2.1", "169.254.169.254", "255.255.255.255"] {
        let body = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": address, "ports": wide}});
        let (code, status) = t.post(&t.core("services"), body).await;
        assert_eq!(code, 422, "{address}: {status}");
        assert!(fields(&status).iter().all(|field| field.starts_with("spec.clusterIP")), "{status}");
    }
    for port in [22, 8080, 29_999, 32_768] {
        let body = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}});
        assert_eq!(refused(&t, &t.core("services"), body).await, ["spec.ports[0].nodePort"], "{port}");
    }
    let first =
        t.create(&t.core("services"), json!({"metadata": {"name": "one"}, "spec": {"ports": wide}})).await;
    let taken = json!({"metadata": {"name": "two"}, "spec": {"clusterIP": first["spec"]["clusterIP"], "ports": wide}});
    assert_eq!(t.post(&t.core("services"), taken).await.0, 422, "another's address is not given twice");
    let headless = json!({"metadata": {"name": "three"}, "spec": {"clusterIP": "None", "ports": wide}});
    assert_eq!(t.create(&t.core("services"), headless).await["spec"]["clusterIP"], "None");
}

/// REVIEW L7: who has deleted an account has ended its tokens.
#[tokio::test]
async fn a_token_ends_with_its_account() {
    let t = Test::api().await;
    let account = json!({"metadata": {"name": "robot"}});
    t.create(&t.core("serviceaccounts"), account.clone()).await;
    let wish = json!({"spec": {"expirationSeconds": 315_360_000}});
    let asked = t.post(&t.core("serviceaccounts/robot/token"), wish).await.1;
    let token = asked["status"]["token"].as_str().expect("a token").to_owned();
    let good = async || {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        t.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await.1["status"]["authenticated"]
            == true
    };
    assert!(good().await);
    t.delete(&t.core("serviceaccounts/robot")).await;
    // Another account of the same name is another account. The real server remembers an answer for ten seconds.
    t.create(&t.core("serviceaccounts"), account).await;
    t.eventually("the token is over", async || !good().await).await;
}
