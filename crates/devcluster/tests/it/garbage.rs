//! Owners and dependents, propagation policies, namespaces.

use serde_json::{Value, json};

use crate::client::{MERGE, Test};

fn owned(name: &str, owners: &[&Value], block: bool) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|o| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": o["metadata"]["name"], "uid": o["metadata"]["uid"], "blockOwnerDeletion": block}))
        .collect();
    json!({"metadata": {"name": name, "ownerReferences": references}})
}

#[tokio::test]
async fn background_deletion_takes_dependents_after_the_owner() {
    let t = Test::api().await;
    let owner = t.config_map("owner", json!({})).await;
    let child = t.create(&t.core("configmaps"), owned("child", &[&owner], false)).await;
    t.create(&t.core("configmaps"), owned("grandchild", &[&child], false)).await;
    assert_eq!(
        t.delete_with(&t.core("configmaps/owner"), json!({"propagationPolicy": "Background"})).await.0,
        200
    );
    t.until_gone(&t.core("configmaps/child")).await;
    t.until_gone(&t.core("configmaps/grandchild")).await;
}

#[tokio::test]
async fn foreground_deletion_keeps_the_owner_until_blocking_dependents_are_gone() {
    let t = Test::api().await;
    let owner = t.config_map("owner", json!({})).await;
    let mut child = owned("child", &[&owner], true);
    child["metadata"]["finalizers"] = json!(["example.com/wait"]);
    t.create(&t.core("configmaps"), child).await;
    t.delete_with(&t.core("configmaps/owner"), json!({"propagationPolicy": "Foreground"})).await;
    t.until(&t.core("configmaps/child"), "the dependent being deleted", |c| {
        c["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    let (code, owner) = t.get(&t.core("configmaps/owner")).await;
    assert_eq!(code, 200);
    assert_eq!(owner["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    t.patch(&t.core("configmaps/child"), MERGE, json!({"metadata": {"finalizers": null}})).await;
    t.until_gone(&t.core("configmaps/owner")).await;
}

#[tokio::test]
async fn orphaning_lets_dependents_live() {
    let t = Test::api().await;
    let owner = t.config_map("owner", json!({})).await;
    t.create(&t.core("configmaps"), owned("child", &[&owner], false)).await;
    t.delete_with(&t.core("configmaps/owner"), json!({"propagationPolicy": "Orphan"})).await;
    t.until_gone(&t.core("configmaps/owner")).await;
    let child = t
        .until(&t.core("configmaps/child"), "the owner being dropped", |c| {
            c["metadata"].get("ownerReferences").is_none()
        })
        .await;
    assert!(child["metadata"].get("deletionTimestamp").is_none());
}

#[tokio::test]
async fn a_dependent_lives_as_long_as_one_owner_does() {
    let t = Test::api().await;
    let (one, two) = (t.config_map("one", json!({})).await, t.config_map("two", json!({})).await);
    t.create(&t.core("configmaps"), owned("child", &[&one, &two], false)).await;
    t.delete(&t.core("configmaps/one")).await;
    t.until(&t.core("configmaps/child"), "the gone owner being dropped", |c| {
        c["metadata"]["ownerReferences"].as_array().map(Vec::len) == Some(1)
    })
    .await;
    t.delete(&t.core("configmaps/two")).await;
    t.until_gone(&t.core("configmaps/child")).await;
}

#[tokio::test]
async fn an_object_whose_owner_never_was_is_collected() {
    let t = Test::api().await;
    let ghost = json!({"metadata": {"name": "ghost", "uid": "11111111-2222-3333-4444-555555555555"}});
    t.create(&t.core("configmaps"), owned("child", &[&ghost], false)).await;
    t.until_gone(&t.core("configmaps/child")).await;
}

#[tokio::test]
async fn an_unknown_propagation_policy_is_refused() {
    let t = Test::api().await;
    t.config_map("a", json!({})).await;
    let (code, _) = t.delete_with(&t.core("configmaps/a"), json!({"propagationPolicy": "Sideways"})).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn deleting_a_namespace_empties_it() {
    let t = Test::api().await;
    t.config_map("a", json!({})).await;
    t.create(&t.core("secrets"), json!({"metadata": {"name": "s"}})).await;
    let path = format!("/api/v1/namespaces/{}", t.ns);
    let (code, namespace) = t.delete(&path).await;
    assert_eq!((code, namespace["status"]["phase"].as_str()), (200, Some("Terminating")));
    t.until_gone(&path).await;
    assert_eq!(t.get(&t.core("configmaps/a")).await.0, 404);
}

#[tokio::test]
async fn a_namespace_waits_for_finalizers_and_takes_nothing_new() {
    let t = Test::api().await;
    t.create(&t.core("configmaps"), json!({"metadata": {"name": "a", "finalizers": ["example.com/wait"]}}))
        .await;
    let path = format!("/api/v1/namespaces/{}", t.ns);
    t.delete(&path).await;
    let (code, status) = t.post(&t.core("secrets"), json!({"metadata": {"name": "late"}})).await;
    assert_eq!((code, status["reason"].as_str()), (403, Some("Forbidden")));
    t.until(&path, "the namespace saying what it waits for", |ns| {
        ns["status"]["conditions"]
            .as_array()
            .is_some_and(|c| c.iter().any(|c| c["type"] == "NamespaceFinalizersRemaining"))
    })
    .await;
    t.patch(&t.core("configmaps/a"), MERGE, json!({"metadata": {"finalizers": null}})).await;
    t.until_gone(&path).await;
}

#[tokio::test]
async fn namespaces_have_their_label_and_first_objects() {
    let t = Test::api().await;
    let (_, namespace) = t.get(&format!("/api/v1/namespaces/{}", t.ns)).await;
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], t.ns.as_str());
    assert_eq!(namespace["status"]["phase"], "Active");
    let config =
        t.until(&t.core("configmaps/kube-root-ca.crt"), "the CA", |c| c["data"]["ca.crt"].is_string()).await;
    assert!(config["data"]["ca.crt"].as_str().expect("text").contains("BEGIN CERTIFICATE"));
    t.delete(&t.core("serviceaccounts/default")).await;
    t.until(&t.core("serviceaccounts/default"), "the account coming back", |_| true).await;
}
