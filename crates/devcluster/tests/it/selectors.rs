//! Lists: label and field selectors, pages, forms.

use serde_json::{Value, json};

use crate::client::Test;

async fn three(t: &Test) {
    for (name, labels) in [
        ("a", json!({"tier": "front", "env": "prod"})),
        ("b", json!({"tier": "back", "env": "prod"})),
        ("c", json!({"tier": "back"})),
    ] {
        t.create(&t.core("secrets"), json!({"metadata": {"name": name, "labels": labels}})).await;
    }
}

async fn names(t: &Test, query: &str) -> Vec<String> {
    let (code, list) = t.get(&t.core(&format!("secrets?{query}"))).await;
    assert_eq!(code, 200, "{list}");
    list["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|i| i["metadata"]["name"].as_str())
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn label_selectors_choose() {
    let t = Test::api().await;
    three(&t).await;
    for (selector, expected) in [
        ("tier%3Dback", vec!["b", "c"]),
        ("tier%3D%3Dfront", vec!["a"]),
        ("tier!%3Dback", vec!["a"]),
        ("tier%20in%20(front,back)", vec!["a", "b", "c"]),
        ("tier%20notin%20(front)", vec!["b", "c"]),
        ("env", vec!["a", "b"]),
        ("!env", vec!["c"]),
        ("tier%3Dback,env%3Dprod", vec!["b"]),
        ("none%3Dx", vec![]),
    ] {
        assert_eq!(names(&t, &format!("labelSelector={selector}")).await, expected, "{selector}");
    }
}

#[tokio::test]
async fn a_malformed_label_selector_is_refused() {
    let t = Test::api().await;
    assert_eq!(t.get(&t.core("secrets?labelSelector=a%20like%20b")).await.0, 400);
}

#[tokio::test]
async fn field_selectors_choose() {
    let t = Test::api().await;
    three(&t).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "d"}, "type": "example.com/special"})).await;
    assert_eq!(names(&t, "fieldSelector=metadata.name%3Db").await, ["b"]);
    assert_eq!(names(&t, "fieldSelector=metadata.name!%3Db").await, ["a", "c", "d"]);
    assert_eq!(names(&t, "fieldSelector=type%3Dexample.com/special").await, ["d"]);
    assert_eq!(names(&t, &format!("fieldSelector=metadata.namespace%3D{}", t.ns)).await.len(), 4);
}

#[tokio::test]
async fn an_unsupported_field_selector_is_refused() {
    let t = Test::api().await;
    for (path, message) in [
        (
            t.core("configmaps"),
            "\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            t.group("apps/v1", "replicasets"),
            "\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (t.core("pods"), "field label not supported: data.x"),
        (t.group("batch/v1", "jobs"), "field label \"data.x\" not supported for Job"),
    ] {
        let (code, status) = t.get(&format!("{path}?fieldSelector=data.x%3Dy")).await;
        assert_eq!((code, status["message"].as_str()), (400, Some(message)), "{path}");
    }
}

#[tokio::test]
async fn pods_are_chosen_by_phase() {
    let t = Test::api().await;
    let mut body = crate::client::pod("p", "true");
    body["spec"]["nodeSelector"] = json!({"no-such": "node"});
    t.create(&t.core("pods"), body).await;
    let (_, list) = t.get(&t.core("pods?fieldSelector=status.phase%3DPending")).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let (_, list) = t.get(&t.core("pods?fieldSelector=status.phase%3DRunning")).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(0));
}

#[tokio::test]
async fn lists_are_sorted_and_carry_a_version() {
    let t = Test::api().await;
    for name in ["c", "a", "b"] {
        t.create(&t.core("secrets"), json!({"metadata": {"name": name}})).await;
    }
    assert_eq!(names(&t, "").await, ["a", "b", "c"]);
    let (_, list) = t.get(&t.core("secrets")).await;
    assert_eq!((list["kind"].as_str(), list["apiVersion"].as_str()), (Some("SecretList"), Some("v1")));
    assert!(list["metadata"]["resourceVersion"].as_str().is_some_and(|v| v.parse::<u64>().is_ok()));
}

#[tokio::test]
async fn an_empty_list_is_a_list() {
    let t = Test::api().await;
    let (code, list) = t.get(&t.core("secrets")).await;
    assert_eq!((code, &list["items"]), (200, &json!([])));
}

#[tokio::test]
async fn lists_come_in_pages() {
    let t = Test::api().await;
    for n in 0..7 {
        t.create(&t.core("secrets"), json!({"metadata": {"name": format!("s{n}")}})).await;
    }
    let (mut seen, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let (code, list) = t.get(&t.core(&format!("secrets?limit=3&continue={token}"))).await;
        assert_eq!(code, 200, "{list}");
        seen.extend(list["items"].as_array().expect("items").iter().map(|i| i["metadata"]["name"].clone()));
        pages += 1;
        if pages == 1 {
            assert_eq!(list["metadata"]["remainingItemCount"], 4);
        }
        match list["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => break,
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(seen, (0..7).map(|n| json!(format!("s{n}"))).collect::<Vec<Value>>());
}

#[tokio::test]
async fn a_broken_continue_token_is_refused() {
    let t = Test::api().await;
    let (code, _) = t.get(&t.core("secrets?limit=1&continue=!!!")).await;
    assert!(code == 400 || code == 410, "{code}");
}

#[tokio::test]
async fn lists_span_all_namespaces() {
    let t = Test::api().await;
    let label = format!("span-{}", t.ns);
    t.create(&t.core("secrets"), json!({"metadata": {"name": "x", "labels": {"mark": label}}})).await;
    let other = Test::api().await;
    other.create(&other.core("secrets"), json!({"metadata": {"name": "x", "labels": {"mark": label}}})).await;
    let (_, list) = t.get(&format!("/api/v1/secrets?labelSelector=mark%3D{label}")).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_version_from_the_future_is_refused() {
    let t = Test::api().await;
    let (code, _) =
        t.get(&t.core("secrets?resourceVersion=99999999999&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(code, 504);
}

#[tokio::test]
async fn tables_have_the_columns_that_people_know() {
    let t = Test::api().await;
    t.config_map("a", json!({"k": "v", "l": "w"})).await;
    let (_, _, table) = t
        .get_as(&t.core("configmaps/a"), "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
        .await;
    assert_eq!(table["kind"], "Table");
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn metadata_can_be_had_alone() {
    let t = Test::api().await;
    t.config_map("a", json!({"k": "v"})).await;
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
    let (_, _, list) = t.get_as(&t.core("configmaps?labelSelector=!none"), accept).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(
        list["items"]
            .as_array()
            .expect("items")
            .iter()
            .all(|i| i.get("data").is_none() && i["metadata"]["name"].is_string())
    );
}
