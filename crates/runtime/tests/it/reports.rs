//! What the control plane hears where our own engine does not look after an object: what its custom resource says.

use serde_json::json;
use slipway_api::report::APPLICATION_SET;
use slipway_cluster::{ObjectKey, Propagation};

use crate::control_plane::ControlPlane;
use crate::world::{World, automated, config_map};

/// Somebody else's controller wrote this.
fn status() -> serde_json::Value {
    json!({"status": {
        "sync": {"status": "OutOfSync", "revision": "0123456789abcdef"},
        "health": {"status": "Degraded", "message": "Caused by Deployment/web", "lastTransitionTime": "2026-01-02T03:04:05Z"},
        "resources": [{"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web",
            "status": "OutOfSync", "health": {"status": "Degraded", "message": "no image"}}],
        "history": [{"id": 4, "revision": "0123456789abcdef", "deployedAt": "2026-01-02T03:00:00Z", "deployStartedAt": "2026-01-02T02:59:00Z"}],
        "operationState": {"operation": {}, "phase": "Succeeded", "startedAt": "2026-01-02T02:59:00Z", "finishedAt": "2026-01-02T03:00:00Z",
            "syncResult": {"revision": "0123456789abcdef", "resources": [{"group": "apps", "version": "v1", "kind": "Deployment",
                "namespace": "shop", "name": "web", "images": ["web:1"]}]}},
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_whose_engine_is_switched_off_is_reported_from_its_resource() {
    let world = World::new().await;
    world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    world.application("shop", automated()).await;
    world.patch_app("shop", status()).await;
    let (plane, client) = ControlPlane::start().await;
    let mut config = world.config();
    config.server = Some(client);
    config.engines_off = vec!["applications".into()];
    world.start_with(config);
    let app = plane.until("shop", |app| app.health_status == "Degraded").await;
    assert_eq!((app.sync_status.as_str(), app.destination.as_str()), ("OutOfSync", "shop"));
    assert_eq!(app.health_changed_at.as_deref(), Some("2026-01-02T03:04:05Z"));
    let degraded = Some(slipway_model::HealthCode::Degraded.into());
    assert_eq!((app.resources.len(), &app.resources[0].health), (1, &degraded));
    assert_eq!(app.operation.map(|operation| operation.phase).as_deref(), Some("Succeeded"));
    assert_eq!((app.history[0].id, app.history[0].images.clone()), (4, vec!["web:1".to_owned()]));
    assert!(world.get("ConfigMap", "a").await.is_none(), "nobody syncs it here");
    world.patch_app("shop", json!({"status": {"health": {"status": "Healthy"}}})).await;
    plane.until("shop", |app| app.health_status == "Healthy").await;
    assert!(plane.reports().iter().any(|(complete, _)| *complete), "{:?}", plane.reports());
    let key = ObjectKey::new("argoproj.io", "Application", "argocd", "shop");
    world.client.delete(&key, None, Propagation::Background, false).await.expect("deleted");
    while plane.knows("shop") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_to_be_left_alone_and_sets_are_reported_too() {
    let world = World::new().await;
    world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    let (plane, client) = ControlPlane::start().await;
    let mut config = world.config();
    config.server = Some(client);
    world.start_with(config);
    let spec = json!({"generators": [{"list": {"elements": [{"name": "one"}]}}], "goTemplate": true,
        "template": {"metadata": {"name": "{{ .name }}", "annotations": {"argocd.argoproj.io/skip-reconcile": "true"}},
            "spec": {"project": "default", "source": {"repoURL": world.url(), "path": "app", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"}}}});
    world.make("argoproj.io/v1alpha1", "ApplicationSet", "argocd", "shops", json!({"spec": spec})).await;
    let set = plane.until_entity(APPLICATION_SET, "shops", |set| set.state.health == "Healthy").await;
    assert!(!set.uid.is_empty() && !set.resource_version.is_empty(), "{set:?}");
    assert!(set.body["conditions"].as_array().is_some_and(|all| !all.is_empty()), "{set:?}");
    let paused = plane.until("one", |app| app.summary.contains("paused")).await;
    assert_eq!((paused.project.as_str(), paused.sync_status.as_str()), ("default", ""));
    let key = ObjectKey::new("argoproj.io", "ApplicationSet", "argocd", "shops");
    world.client.delete(&key, None, Propagation::Background, false).await.expect("deleted");
    while plane.entity(APPLICATION_SET, "shops").is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
