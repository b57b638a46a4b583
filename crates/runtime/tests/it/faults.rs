//! Bad days on the real Kubernetes: repositories that disappear, restarts of the API and of etcd, watches that expire.
//!
//! Applications have the name of their target namespace: engines of several tests look at one cluster, and objects
//! say by that name whose they are.

use slipway_testkit::Kube;

use crate::site::{Process, Site, automated};

fn map(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\ndata: {{a: \"1\"}}\n"
    )
}

#[test]
fn a_repository_that_disappears_under_a_sync_does_not_hold_it_up() {
    let wave = |name: &str, wave: i32| map(name, &format!("argocd.argoproj.io/sync-wave: \"{wave}\""));
    let site = Site::quiet(&[
        ("app/a.yaml", wave("a", 0)),
        ("app/b.yaml", wave("b", 1)),
        ("app/c.yaml", wave("c", 2)),
    ]);
    // The definitions come with the engine.
    let process = Process::start(&site, "engine", &[]);
    site.create(&site.application(site.target.name(), "app", automated()));
    site.until("the first wave", || site.target.succeeds(&["get", "configmap", "a"]));
    std::fs::rename(site.repo(), site.folder.path().join("hidden")).expect("moved");
    site.until("the second wave", || site.target.succeeds(&["get", "configmap", "b"]));
    // The next engine has nothing but the mirror.
    drop(process);
    let _process = Process::start(&site, "engine", &[]);
    site.until("the last wave", || site.target.succeeds(&["get", "configmap", "c"]));
    site.until("the end of the sync", || {
        site.app(site.target.name())["status"]["operationState"]["phase"] == "Succeeded"
    });
    assert_eq!(site.app(site.target.name())["status"]["history"].as_array().map(Vec::len), Some(1));
}

#[test]
fn restarts_of_the_api_and_of_etcd_and_expired_watches_under_a_sync_are_survived() {
    let kube = Kube::own_with_fake_nodes("engine-faults", 1);
    let files = |value: u32| -> Vec<(String, String)> {
        let one = |number: usize| {
            let wave = number / 6;
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}, annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}}}\ndata: {{a: \"{value}\"}}\n"
            )
        };
        (0..24).map(|number| (format!("app/m{number}.yaml"), one(number))).collect()
    };
    let site = Site::on(&kube, &[("README", "restarts".into())]);
    let deploy = |value: u32| {
        let files = files(value);
        let files: Vec<(&str, String)> =
            files.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
        let revision = site.commit(&files);
        site.control.kubectl(&[
            "annotate",
            "app",
            site.target.name(),
            "--overwrite",
            "argocd.argoproj.io/refresh=normal",
        ]);
        site.until("the first wave", || {
            site.target.succeeds(&["get", "cm", "m0"])
                && site.target.kubectl(&["get", "cm", "m0", "-o", "jsonpath={.data.a}"]) == value.to_string()
        });
        revision
    };
    let ended = |revision: &str, value: u32| {
        site.until("the sync", || {
            // The API may still be away.
            site.control.succeeds(&["get", "app", site.target.name()]) && {
                let app = site.app(site.target.name());
                let state = &app["status"]["operationState"];
                state["phase"] == "Succeeded" && state["syncResult"]["revision"] == revision
            }
        });
        let all = site.target.kubectl(&["get", "cm", "-o", "jsonpath={.items[*].data.a}"]);
        assert_eq!(all.split(' ').filter(|found| *found == value.to_string()).count(), 24, "{all}");
    };
    let process = Process::start(&site, "engine", &[("RUST_LOG", "info,slipway_cluster::watch=debug")]);
    site.create(&site.application(site.target.name(), "app", automated()));
    let revision = deploy(1);
    kube.restart_apiserver();
    ended(&revision, 1);

    let revision = deploy(2);
    let stopped = kube.stop_etcd();
    drop(stopped);
    ended(&revision, 2);

    // The engine is deaf while things change and the API forgets its past.
    process.pause();
    site.target.kubectl(&["delete", "cm", "m3", "m17"]);
    kube.restart_apiserver();
    process.resume();
    site.until("the repair", || {
        site.target.succeeds(&["get", "cm", "m3"]) && site.target.succeeds(&["get", "cm", "m17"])
    });
    assert!(process.log().contains("A watch expired"), "no watch expired:\n{}", process.log());
    let history = site.app(site.target.name())["status"]["history"].as_array().map(Vec::len);
    assert!(history >= Some(2), "{history:?}");
}
