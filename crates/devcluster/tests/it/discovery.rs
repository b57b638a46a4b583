//! What the cluster says about itself.

use serde_json::{Value, json};

use crate::client::Test;

#[tokio::test]
async fn the_version_is_told() {
    let t = Test::api().await;
    let (code, version) = t.get("/version").await;
    assert_eq!((code, version["major"].as_str()), (200, Some("1")));
}

#[tokio::test]
async fn core_resources_have_short_names_and_verbs() {
    let t = Test::api().await;
    let (_, list) = t.get("/api/v1").await;
    let resources = list["resources"].as_array().expect("a list");
    let pods = resources.iter().find(|r| r["name"] == "pods").expect("pods");
    assert_eq!(pods["shortNames"], json!(["po"]));
    assert_eq!(pods["namespaced"], true);
    for verb in ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"] {
        assert!(pods["verbs"].as_array().expect("verbs").contains(&json!(verb)), "{verb}");
    }
    for name in [
        "pods/log",
        "pods/exec",
        "pods/status",
        "pods/eviction",
        "serviceaccounts/token",
        "namespaces/finalize",
    ] {
        assert!(resources.iter().any(|r| r["name"] == name), "{name}");
    }
}

#[tokio::test]
async fn groups_name_their_preferred_version() {
    let t = Test::api().await;
    let (_, list) = t.get("/apis").await;
    let group = |name: &str| {
        list["groups"]
            .as_array()
            .expect("groups")
            .iter()
            .find(|g| g["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(group("apps")["preferredVersion"]["groupVersion"], "apps/v1");
    assert_eq!(group("autoscaling")["preferredVersion"]["version"], "v2");
    for name in [
        "batch",
        "networking.k8s.io",
        "rbac.authorization.k8s.io",
        "policy",
        "storage.k8s.io",
        "coordination.k8s.io",
        "apiextensions.k8s.io",
        "events.k8s.io",
        "discovery.k8s.io",
    ] {
        assert_eq!(group(name)["name"], name);
    }
}

#[tokio::test]
async fn scale_is_listed_with_its_own_kind() {
    let t = Test::api().await;
    let (_, list) = t.get("/apis/apps/v1").await;
    let scale = list["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|r| r["name"] == "deployments/scale")
        .cloned()
        .expect("scale");
    assert_eq!(
        (scale["group"].as_str(), scale["version"].as_str(), scale["kind"].as_str()),
        (Some("autoscaling"), Some("v1"), Some("Scale"))
    );
}

#[tokio::test]
async fn aggregated_discovery_has_everything_at_once() {
    let t = Test::api().await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (code, headers, list) = t.get_as("/apis", accept).await;
    assert_eq!((code, list["kind"].as_str()), (200, Some("APIGroupDiscoveryList")));
    assert!(headers["content-type"].to_str().expect("text").contains("as=APIGroupDiscoveryList"));
    let apps = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .find(|i| i["metadata"]["name"] == "apps")
        .cloned()
        .expect("apps");
    let resources = apps["versions"][0]["resources"].as_array().expect("resources").clone();
    let deployments = resources.iter().find(|r| r["resource"] == "deployments").expect("deployments");
    assert_eq!(deployments["scope"], "Namespaced");
    assert_eq!(deployments["responseKind"]["kind"], "Deployment");
}

#[tokio::test]
async fn an_unknown_group_is_not_found() {
    let t = Test::api().await;
    assert_eq!(t.get("/apis/nothing.example.com/v1").await.0, 404);
    assert_eq!(t.get("/apis/nothing.example.com").await.0, 404);
}

#[tokio::test]
async fn open_api_v3_has_a_document_per_version() {
    let t = Test::api().await;
    let (_, index) = t.get("/openapi/v3").await;
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL").to_owned();
    let (code, document) = t.get(&url).await;
    assert_eq!(code, 200);
    let schema = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    let gvk = schema["x-kubernetes-group-version-kind"].as_array().expect("a list").clone();
    assert!(gvk.contains(&json!({"group": "apps", "version": "v1", "kind": "Deployment"})));
    let containers =
        &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
}

#[tokio::test]
async fn open_api_v2_has_definitions() {
    let t = Test::api().await;
    let (code, document) = t.get("/openapi/v2").await;
    assert_eq!(code, 200);
    assert_eq!(
        document["definitions"]["io.k8s.api.core.v1.Container"]["properties"]["image"]["type"],
        "string"
    );
}

#[tokio::test]
async fn custom_resources_appear_in_discovery_and_open_api() {
    let t = Test::api().await;
    let kind = crate::crd::widgets(&t, json!({})).await;
    t.eventually("discovery of the new kind", || async {
        let (_, list) = t.get(&format!("/apis/{}", kind.version())).await;
        list["resources"].as_array().is_some_and(|r| r.iter().any(|r| r["name"] == kind.plural.as_str()))
    })
    .await;
    let path = format!("apis/{}", kind.version());
    t.eventually("the OpenAPI document of the new kind", || async {
        let (_, index) = t.get("/openapi/v3").await;
        let Some(url) = index["paths"][path.as_str()]["serverRelativeURL"].as_str().map(str::to_owned) else {
            return false;
        };
        let (code, document) = t.get(&url).await;
        let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
        code == 200
            && schemas
                .values()
                .any(|s: &Value| s["properties"]["spec"]["properties"]["size"]["type"] == "integer")
    })
    .await;
}

#[tokio::test]
async fn reviews_answer_who_and_what() {
    let t = Test::api().await;
    let (code, review) = t
        .post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
        )
        .await;
    assert_eq!(code, 201);
    assert!(
        review["status"]["userInfo"]["groups"].as_array().expect("groups").contains(&json!("system:masters")),
        "{review}"
    );
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let (code, review) = t.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body).await;
    assert_eq!((code, &review["status"]["allowed"]), (201, &json!(true)));
}

#[tokio::test]
async fn tokens_of_service_accounts_are_known() {
    let t = Test::api().await;
    let (code, request) = t.post(&t.core("serviceaccounts/default/token"), json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})).await;
    assert_eq!(code, 201, "{request}");
    let token = request["status"]["token"].as_str().expect("a token");
    assert_eq!(token.split('.').count(), 3);
    let (_, review) = t.post("/apis/authentication.k8s.io/v1/tokenreviews", json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}})).await;
    assert_eq!(review["status"]["authenticated"], true, "{review}");
    assert_eq!(review["status"]["user"]["username"], format!("system:serviceaccount:{}:default", t.ns));
    let (_, review) = t.post("/apis/authentication.k8s.io/v1/tokenreviews", json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": format!("{token}x")}})).await;
    assert_ne!(review["status"]["authenticated"], true);
}
