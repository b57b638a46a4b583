//! What users wrote must survive: round trips, nulls, empty values, and the definitions' shape.

mod fields;
mod size;

use serde_json::{Value, json};
use slipway_crd::{AppProject, Application, ApplicationSet, manifests};

#[track_caller]
fn survives<T: serde::de::DeserializeOwned + serde::Serialize>(text: Value) {
    let typed: T = serde_json::from_value(text.clone()).expect("readable");
    assert_eq!(serde_json::to_value(&typed).expect("writable"), text);
}

#[test]
fn application_keeps_known_and_unknown_fields() {
    survives::<Application>(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "shop", "namespace": "argocd", "managedFields": [{"manager": "kubectl"}]},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
            "sources": [
                {"repoURL": "https://git.example/x", "ref": "values", "futureField": {"a": [1, 2]}},
                {"repoURL": "https://charts.example", "chart": "web", "targetRevision": "1.2.x",
                 "helm": {"valuesObject": {"replicas": 3}, "parameters": [{"name": "a", "value": "b", "forceString": true}]}},
                {"repoURL": "https://git.example/y", "path": "p", "plugin": {"parameters": [
                    {"name": "empty-map", "map": {}}, {"name": "empty-array", "array": []}, {"name": "s", "string": ""}]}},
                {"repoURL": "https://git.example/z", "path": "k", "kustomize": {"replicas": [{"name": "w", "count": "3"}, {"name": "v", "count": 2}]}},
            ],
            "syncPolicy": {"automated": {}, "syncOptions": ["CreateNamespace=true"], "retry": {"limit": -1, "refresh": true}},
            "revisionHistoryLimit": 0,
        },
        "operation": {"initiatedBy": {"username": "me"}, "sync": {"revision": "abc", "syncStrategy": {"hook": {}}}},
        "status": {
            "sync": {"status": "OutOfSync", "comparedTo": {"destination": {"name": "in-cluster"}}},
            "health": {"status": "Healthy"},
            "operationState": {"operation": {}, "phase": "Running", "startedAt": "2026-01-01T00:00:00Z", "retryCount": 2},
        },
    }));
}

#[test]
fn automation_is_on_when_empty_and_off_when_disabled() {
    let with = |automated: Value| -> bool {
        let app: Application =
            serde_json::from_value(json!({"spec": {"syncPolicy": {"automated": automated}}}))
                .expect("readable");
        app.spec.automation().is_some()
    };
    assert!(with(json!({})));
    assert!(with(json!({"enabled": true})));
    assert!(!with(json!({"enabled": false, "prune": true})));
    assert!(!with(Value::Null));
}

#[test]
fn nulls_read_as_empty() {
    let app: Application = serde_json::from_value(json!({
        "metadata": {"name": "a", "creationTimestamp": null, "labels": null},
        "spec": {"sources": null, "source": null, "project": null},
        "status": {"conditions": null, "health": null},
    }))
    .expect("readable");
    assert!(app.status.conditions.is_empty());
    assert_eq!(app.spec.project_name(), "default");
}

#[test]
fn sources_win_over_source() {
    let app: Application = serde_json::from_value(json!({"spec": {
        "source": {"repoURL": "one"}, "sources": [{"repoURL": "two"}, {"repoURL": "three"}]}}))
    .expect("readable");
    let sources = app.spec.effective_sources();
    let urls: Vec<_> = sources.iter().map(|s| s.repo_url.as_str()).collect();
    assert_eq!(urls, ["two", "three"]);
}

#[test]
fn project_and_set_survive() {
    survives::<AppProject>(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "p"},
        "spec": {
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "!kube-system"}],
            "namespaceResourceWhitelist": [],
            "syncWindows": [{"kind": "deny", "schedule": "0 22 * * *", "duration": "1h", "applications": ["*"], "andOperator": true}],
            "signatureKeys": [{"keyID": "AB"}], "roles": [{"name": "ci", "jwtTokens": [{"iat": 1, "id": "x"}]}],
        },
    }));
    survives::<ApplicationSet>(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "s"},
        "spec": {"goTemplate": true, "generators": [{"list": {"elements": [{"a": "b"}]}}],
            "template": {"metadata": {"name": "{{.a}}"}, "spec": {"project": "{{.p}}"}}},
    }));
}

/// Every object node of a structural schema has a type or passes unknown fields, as the API server demands.
fn check_structural(at: &str, schema: &Value) {
    assert!(
        schema.get("type").is_some()
            || schema.get("x-kubernetes-preserve-unknown-fields").is_some()
            || schema.get("x-kubernetes-int-or-string").is_some(),
        "{at} has no type"
    );
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check_structural(&format!("{at}.{name}"), child);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(key) {
            check_structural(&format!("{at}.{key}"), child);
        }
    }
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        assert!(schema["properties"].get(name.as_str().expect("a name")).is_some(), "{at} requires {name}");
    }
}

#[test]
fn definitions_are_structural_and_named_as_users_know_them() {
    let all = manifests();
    let names: Vec<_> = all.iter().map(|m| m["metadata"]["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["applications.argoproj.io", "applicationsets.argoproj.io", "appprojects.argoproj.io"]);
    for one in &all {
        let version = &one["spec"]["versions"][0];
        check_structural(&one["metadata"]["name"].to_string(), &version["schema"]["openAPIV3Schema"]);
    }
    let columns = &all[0]["spec"]["versions"][0]["additionalPrinterColumns"];
    assert_eq!(columns[0]["name"], "Sync Status");
    assert_eq!(columns[2]["priority"], 10);
    for one in &all {
        // The last-applied annotation of a client-side apply may hold 256 KiB; upstream's definitions do not fit.
        let bytes = one.to_string().len();
        assert!(bytes < 200_000, "{} has {bytes} bytes", one["metadata"]["name"]);
    }
}
