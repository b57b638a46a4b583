//! Create, read, update, delete.

use serde_json::json;

use crate::client::{Test, deployment};

#[tokio::test]
async fn create_fills_in_the_metadata_of_the_server() {
    let t = Test::api().await;
    let object = t.config_map("a", json!({"k": "v"})).await;
    let meta = &object["metadata"];
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        assert!(meta[field].as_str().is_some_and(|v| !v.is_empty()), "{field}");
    }
    assert_eq!(meta["namespace"], t.ns.as_str());
    assert_eq!(object["kind"], "ConfigMap");
    assert_eq!(object["apiVersion"], "v1");
}

#[tokio::test]
async fn generate_name_appends_five_characters() {
    let t = Test::api().await;
    let object = t.create(&t.core("configmaps"), json!({"metadata": {"generateName": "pre-"}})).await;
    let name = object["metadata"]["name"].as_str().expect("a name");
    assert!(name.starts_with("pre-") && name.len() == 9, "{name}");
}

#[tokio::test]
async fn creating_twice_is_a_conflict() {
    let t = Test::api().await;
    t.config_map("a", json!({})).await;
    let (code, status) = t.post(&t.core("configmaps"), json!({"metadata": {"name": "a"}})).await;
    assert_eq!((code, status["reason"].as_str()), (409, Some("AlreadyExists")));
    assert_eq!(status["message"], "configmaps \"a\" already exists");
}

#[tokio::test]
async fn a_new_object_may_not_bring_a_resource_version() {
    let t = Test::api().await;
    let (code, status) =
        t.post(&t.core("configmaps"), json!({"metadata": {"name": "a", "resourceVersion": "5"}})).await;
    // Not 400: the mistake comes to light where the API server expects none.
    assert_eq!((code, status["reason"].as_str()), (500, None), "{status}");
    assert_eq!(status["message"], "resourceVersion should not be set on objects to be created");
}

#[tokio::test]
async fn a_missing_object_is_not_found() {
    let t = Test::api().await;
    let (code, status) = t.get(&t.core("configmaps/none")).await;
    assert_eq!((code, status["reason"].as_str()), (404, Some("NotFound")));
    assert_eq!(status["details"]["kind"], "configmaps");
    let (code, status) = t.get(&t.group("apps/v1", "deployments/none")).await;
    assert_eq!((code, status["message"].as_str()), (404, Some("deployments.apps \"none\" not found")));
}

#[tokio::test]
async fn an_unknown_resource_is_not_found() {
    let t = Test::api().await;
    assert_eq!(t.get(&t.core("gadgets")).await.0, 404);
    assert_eq!(t.get("/apis/nothing.example.com/v1/gadgets").await.0, 404);
}

#[tokio::test]
async fn the_namespace_must_exist_and_match() {
    let t = Test::api().await;
    let (code, status) =
        t.post("/api/v1/namespaces/nowhere-at-all/configmaps", json!({"metadata": {"name": "a"}})).await;
    assert_eq!((code, status["message"].as_str()), (404, Some("namespaces \"nowhere-at-all\" not found")));
    let (code, _) =
        t.post(&t.core("configmaps"), json!({"metadata": {"name": "a", "namespace": "other"}})).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn kind_and_version_must_be_those_of_the_path() {
    let t = Test::api().await;
    let (code, _) = t
        .post(&t.core("configmaps"), json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}))
        .await;
    assert_eq!(code, 400);
    let (code, _) = t
        .post(
            &t.core("configmaps"),
            json!({"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn update_replaces_and_moves_the_resource_version() {
    let t = Test::api().await;
    let mut object = t.config_map("a", json!({"k": "v", "gone": "x"})).await;
    let before = object["metadata"]["resourceVersion"].clone();
    object["data"] = json!({"k": "w"});
    let (code, after) = t.put(&t.core("configmaps/a"), object).await;
    assert_eq!(code, 200);
    assert_eq!(after["data"], json!({"k": "w"}));
    assert_ne!(after["metadata"]["resourceVersion"], before);
}

#[tokio::test]
async fn update_with_an_old_resource_version_is_a_conflict() {
    let t = Test::api().await;
    let old = t.config_map("a", json!({"k": "1"})).await;
    let mut next = old.clone();
    next["data"]["k"] = json!("2");
    assert_eq!(t.put(&t.core("configmaps/a"), next).await.0, 200);
    let (code, status) = t.put(&t.core("configmaps/a"), old).await;
    assert_eq!((code, status["reason"].as_str()), (409, Some("Conflict")));
}

#[tokio::test]
async fn update_without_a_resource_version_overwrites() {
    let t = Test::api().await;
    t.config_map("a", json!({"k": "1"})).await;
    let (code, object) =
        t.put(&t.core("configmaps/a"), json!({"metadata": {"name": "a"}, "data": {"k": "2"}})).await;
    assert_eq!((code, object["data"]["k"].as_str()), (200, Some("2")));
}

#[tokio::test]
async fn an_update_that_changes_nothing_keeps_the_resource_version() {
    let t = Test::api().await;
    let object = t.config_map("a", json!({"k": "v"})).await;
    let (code, after) = t.put(&t.core("configmaps/a"), object.clone()).await;
    assert_eq!(code, 200);
    assert_eq!(after["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn update_of_a_missing_object_is_not_found() {
    let t = Test::api().await;
    assert_eq!(t.put(&t.core("configmaps/a"), json!({"metadata": {"name": "a"}})).await.0, 404);
}

#[tokio::test]
async fn the_name_in_the_body_must_be_that_of_the_path() {
    let t = Test::api().await;
    t.config_map("a", json!({})).await;
    assert_eq!(t.put(&t.core("configmaps/a"), json!({"metadata": {"name": "b"}})).await.0, 400);
}

#[tokio::test]
async fn clients_cannot_change_what_belongs_to_the_server() {
    let t = Test::api().await;
    let object = t.config_map("a", json!({})).await;
    let mut changed = object.clone();
    changed["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    let (code, after) = t.put(&t.core("configmaps/a"), changed).await;
    assert_eq!(code, 200);
    assert_eq!(after["metadata"]["creationTimestamp"], object["metadata"]["creationTimestamp"]);
    let mut other = object.clone();
    other["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    assert_eq!(t.put(&t.core("configmaps/a"), other).await.0, 409);
}

#[tokio::test]
async fn delete_answers_with_a_status_and_the_object_is_gone() {
    let t = Test::api().await;
    let object = t.config_map("a", json!({})).await;
    let (code, status) = t.delete(&t.core("configmaps/a")).await;
    assert_eq!((code, status["status"].as_str()), (200, Some("Success")));
    assert_eq!(status["details"]["uid"], object["metadata"]["uid"]);
    assert_eq!(t.get(&t.core("configmaps/a")).await.0, 404);
    assert_eq!(t.delete(&t.core("configmaps/a")).await.0, 404);
}

#[tokio::test]
async fn delete_preconditions_are_checked() {
    let t = Test::api().await;
    let object = t.config_map("a", json!({})).await;
    let (code, _) = t.delete_with(&t.core("configmaps/a"), json!({"preconditions": {"uid": "other"}})).await;
    assert_eq!(code, 409);
    let (code, _) =
        t.delete_with(&t.core("configmaps/a"), json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!(code, 409);
    let right = json!({"preconditions": {"uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"]}});
    assert_eq!(t.delete_with(&t.core("configmaps/a"), right).await.0, 200);
}

#[tokio::test]
async fn delete_collection_takes_what_the_selector_names() {
    let t = Test::api().await;
    for (name, tier) in [("a", "x"), ("b", "x"), ("c", "y")] {
        t.create(&t.core("configmaps"), json!({"metadata": {"name": name, "labels": {"tier": tier}}})).await;
    }
    assert_eq!(t.delete(&t.core("configmaps?labelSelector=tier%3Dx")).await.0, 200);
    assert_eq!(t.get(&t.core("configmaps/a")).await.0, 404);
    assert_eq!(t.get(&t.core("configmaps/b")).await.0, 404);
    assert_eq!(t.get(&t.core("configmaps/c")).await.0, 200);
}

#[tokio::test]
async fn dry_run_changes_nothing() {
    let t = Test::api().await;
    let (code, object) = t
        .post(&t.core("configmaps?dryRun=All"), json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))
        .await;
    assert_eq!((code, object["data"]["k"].as_str()), (201, Some("v")));
    assert_eq!(t.get(&t.core("configmaps/a")).await.0, 404);
    let kept = t.config_map("b", json!({"k": "v"})).await;
    let (code, object) = t
        .put(&t.core("configmaps/b?dryRun=All"), json!({"metadata": {"name": "b"}, "data": {"k": "w"}}))
        .await;
    assert_eq!((code, object["data"]["k"].as_str()), (200, Some("w")));
    assert_eq!(t.delete(&t.core("configmaps/b?dryRun=All")).await.0, 200);
    let (_, now) = t.get(&t.core("configmaps/b")).await;
    assert_eq!(now["data"], kept["data"]);
    assert_eq!(now["metadata"]["resourceVersion"], kept["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_wrong_dry_run_word_is_refused() {
    let t = Test::api().await;
    let (code, _) = t.post(&t.core("configmaps?dryRun=Maybe"), json!({"metadata": {"name": "a"}})).await;
    assert!(code == 400 || code == 422, "{code}");
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec_only() {
    let t = Test::api().await;
    let path = t.group("apps/v1", "deployments");
    let object = t.create(&path, deployment("d", 0, "true")).await;
    assert_eq!(object["metadata"]["generation"], 1);
    let one = format!("{path}/d");
    let (_, labeled) = t.patch(&one, crate::client::MERGE, json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(labeled["metadata"]["generation"], 1);
    let (_, changed) = t.patch(&one, crate::client::MERGE, json!({"spec": {"minReadySeconds": 3}})).await;
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test]
async fn string_data_of_a_secret_becomes_data() {
    let t = Test::api().await;
    let secret =
        t.create(&t.core("secrets"), json!({"metadata": {"name": "s"}, "stringData": {"p": "hello"}})).await;
    assert_eq!(secret["data"]["p"], "aGVsbG8=");
    assert_eq!(secret["type"], "Opaque");
    assert_eq!(secret.get("stringData"), None);
}

#[tokio::test]
async fn services_get_an_address_that_stays() {
    let t = Test::api().await;
    let service = t
        .create(
            &t.core("services"),
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
        )
        .await;
    let address = service["spec"]["clusterIP"].as_str().expect("an address").to_owned();
    assert!(address.parse::<std::net::Ipv4Addr>().is_ok(), "{address}");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 80);
    assert_eq!(service["spec"]["type"], "ClusterIP");
    let (code, after) = t.put(&t.core("services/s"), json!({"metadata": {"name": "s", "resourceVersion": service["metadata"]["resourceVersion"]}, "spec": {"ports": [{"port": 81}]}})).await;
    assert_eq!((code, after["spec"]["clusterIP"].as_str()), (200, Some(address.as_str())));
}

#[tokio::test]
async fn node_ports_are_given_out_once() {
    let t = Test::api().await;
    let mut seen = Vec::new();
    for name in ["a", "b", "c"] {
        let service = t
            .create(
                &t.core("services"),
                json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
            )
            .await;
        let port = service["spec"]["ports"][0]["nodePort"].as_i64().expect("a port");
        assert!((30000..32768).contains(&port) && !seen.contains(&port), "{port} {seen:?}");
        seen.push(port);
    }
}

#[tokio::test]
async fn headless_services_stay_without_an_address() {
    let t = Test::api().await;
    let service = t
        .create(
            &t.core("services"),
            json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
        )
        .await;
    assert_eq!(service["spec"]["clusterIP"], "None");
}

#[tokio::test]
async fn yaml_bodies_are_read() {
    let t = Test::api().await;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: plain\ndata:\n  k: v\n";
    let (code, _, _) = t.send("POST", &t.core("configmaps"), "application/yaml", Some(text.to_owned())).await;
    assert_eq!(code, 201);
    assert_eq!(t.get(&t.core("configmaps/plain")).await.1["data"]["k"], "v");
}

#[tokio::test]
async fn a_body_that_is_no_json_is_a_bad_request() {
    let t = Test::api().await;
    let (code, _, _) = t.send("POST", &t.core("configmaps"), "application/json", Some("{".to_owned())).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn events_are_the_same_in_both_groups() {
    let t = Test::api().await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": t.ns}, "reason": "Tested",
        "message": "hello", "type": "Normal", "source": {"component": "behaviour"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1});
    // The clock of the event decides how long it lives; take one of now.
    let mut event = event;
    let now = t.config_map("clock", json!({})).await["metadata"]["creationTimestamp"].clone();
    event["firstTimestamp"] = now.clone();
    event["lastTimestamp"] = now;
    t.create(&t.core("events"), event).await;
    let (code, same) = t.get(&t.group("events.k8s.io/v1", "events/e")).await;
    assert_eq!((code, same["note"].as_str()), (200, Some("hello")));
    assert_eq!(same["regarding"]["name"], "p");
    assert_eq!(same["apiVersion"], "events.k8s.io/v1");
}

#[tokio::test]
async fn leases_keep_micro_times() {
    let t = Test::api().await;
    let spec = json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.123456Z"});
    let lease = t
        .create(
            &t.group("coordination.k8s.io/v1", "leases"),
            json!({"metadata": {"name": "l"}, "spec": spec}),
        )
        .await;
    assert_eq!(lease["spec"]["renewTime"], "2026-01-02T03:04:05.123456Z");
}

#[tokio::test]
async fn an_immutable_config_map_keeps_its_data() {
    let t = Test::api().await;
    t.create(
        &t.core("configmaps"),
        json!({"metadata": {"name": "i"}, "immutable": true, "data": {"k": "v"}}),
    )
    .await;
    let (code, _) = t.patch(&t.core("configmaps/i"), crate::client::MERGE, json!({"data": {"k": "w"}})).await;
    assert_eq!(code, 422);
    let (code, _) = t
        .patch(&t.core("configmaps/i"), crate::client::MERGE, json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    assert_eq!(code, 200);
}
