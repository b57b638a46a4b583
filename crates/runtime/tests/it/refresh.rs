//! When Applications are compared again, and how thoroughly: `timeout.reconciliation`, `refresh: hard`, custom health.

use std::time::Duration;

use serde_json::json;

use crate::world::{World, automated, config_map};

/// Settings in argocd-cm.
async fn settings(world: &World, data: serde_json::Value) {
    world.make("v1", "ConfigMap", "argocd", "argocd-cm", json!({"data": data})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_interval_of_argocd_cm_decides_when_git_is_asked() {
    let world = World::new().await;
    let first = world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    settings(&world, json!({"timeout.reconciliation": "1s"})).await;
    world.application("shop", automated()).await;
    let mut config = world.config();
    // Without the setting nobody would ask for an hour.
    config.resync = Duration::from_secs(3600);
    world.start_with(config);
    world.until_synced("shop", &first).await;
    let second = world.commit(&[("app/a.yaml", &config_map("a", "2"))]);
    world.until_synced("shop", &second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_refresh_renders_again_what_a_normal_one_takes_from_the_cache() {
    let world = World::new().await;
    let chart = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {random: {{ randAlphaNum 24 | quote }}}\n";
    let revision = world.commit(&[
        ("app/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
        ("app/templates/c.yaml", chart),
    ]);
    world.make("v1", "Namespace", "", "shop", json!({})).await;
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.tools = vec![slipway_testkit::tool("helm").parent().expect("a folder").to_owned()];
    world.start_with(config);
    world.until("shop", "compared", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    world.patch_app("shop", json!({"operation": {"sync": {}}})).await;
    world.until_synced("shop", &revision).await;
    let refresh = async |how: &str| {
        let annotation = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": how}}});
        world.patch_app("shop", annotation).await;
        world
            .until("shop", "refreshed", |app| {
                app["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null()
            })
            .await
    };
    let app = refresh("normal").await;
    assert_eq!(app["status"]["sync"]["status"], "Synced", "the same commit is rendered once");
    let app = refresh("hard").await;
    assert_eq!(app["status"]["sync"]["status"], "OutOfSync", "rendered again, it drew another number");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_health_script_of_argocd_cm_is_run_and_one_that_never_ends_is_ended() {
    let world = World::new().await;
    let second = "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\nstringData: {key: x}\n";
    let revision = world.commit(&[("app/a.yaml", &config_map("a", "1")), ("app/b.yaml", second)]);
    settings(
        &world,
        json!({
            "resource.customizations.health.ConfigMap":
                "hs = {}\nhs.status = 'Degraded'\nhs.message = 'key is ' .. obj.data.key\nreturn hs",
            "resource.customizations.health.Secret": "while true do end",
        }),
    )
    .await;
    world.application("shop", automated()).await;
    world.start();
    let app = world
        .until("shop", "judged", |app| {
            app["status"]["sync"]["revision"] == revision.as_str()
                && app["status"]["resources"].as_array().is_some_and(|all| {
                    all.len() == 2 && all.iter().all(|resource| resource["health"]["message"].is_string())
                })
        })
        .await;
    let of = |kind: &str| {
        let all = app["status"]["resources"].as_array().expect("resources");
        all.iter().find(|resource| resource["kind"] == kind).expect("it is there")["health"].clone()
    };
    assert_eq!(of("ConfigMap"), json!({"status": "Degraded", "message": "key is 1"}));
    assert_eq!(of("Secret")["status"], "Unknown");
    assert!(of("Secret")["message"].as_str().is_some_and(|m| m.contains("instructions")), "{}", of("Secret"));
}
