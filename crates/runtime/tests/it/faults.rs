//! Bad days on the real Kubernetes: an engine that is killed before each of its writes, repositories that disappear,
//! manifests of megabytes, definitions that come and go.
//!
//! Applications have the name of their target namespace: engines of several tests look at one cluster, and objects
//! say by that name whose they are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use slipway_testkit::Kube;

use crate::site::{Process, Site, automated};

fn map(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\ndata: {{a: \"1\"}}\n"
    )
}

/// Hooks before and after, something to make and something to prune: every kind of write that a sync has.
fn rehearsal() -> Site<'static> {
    let site = Site::quiet(&[
        ("app/pre.yaml", map("pre", "argocd.argoproj.io/hook: PreSync")),
        ("app/a.yaml", map("a", "")),
        ("app/b.yaml", map("b", "")),
        (
            "app/post.yaml",
            map(
                "post",
                "argocd.argoproj.io/hook: PostSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded",
            ),
        ),
    ]);
    let name = site.target.name();
    let tracking = format!("{name}:/ConfigMap:{name}/old");
    site.target.apply(&map("old", &format!("\"argocd.argoproj.io/tracking-id\": \"{tracking}\"")));
    site.create(&site.application(site.target.name(), "app", automated()));
    site
}

/// What the sync left behind, without what differs between any two runs.
fn outcome(site: &Site<'_>) -> Value {
    let maps: Value =
        serde_json::from_str(&site.target.kubectl(&["get", "configmaps", "-o", "json"])).expect("JSON");
    let mut objects = BTreeMap::new();
    for map in maps["items"].as_array().into_iter().flatten() {
        let mut metadata = map["metadata"].clone();
        // A hook carries the time of its operation, and what was applied repeats it.
        if let Some(annotations) = metadata["annotations"].as_object_mut() {
            annotations.retain(|name, _| name.starts_with("argocd.argoproj.io/"));
        }
        let name = metadata["name"].as_str().unwrap_or_default();
        if name != "kube-root-ca.crt" {
            let parts =
                json!([map["data"], metadata["annotations"], metadata["labels"], metadata["finalizers"]]);
            objects.insert(name.to_owned(), parts);
        }
    }
    let app = site.app(site.target.name());
    let state = &app["status"]["operationState"];
    let mut results: Vec<String> = Vec::new();
    for result in state["syncResult"]["resources"].as_array().into_iter().flatten() {
        // Killed between a deletion and the note of it, nobody is left who could say who deleted the object.
        if result["status"] != "Pruned" {
            results.push(format!("{} {} {}", result["name"], result["status"], result["hookPhase"]));
        }
    }
    results.sort();
    let whole = json!({"objects": objects, "results": results, "phase": state["phase"], "message": state["message"],
        "sync": app["status"]["sync"]["status"], "history": app["status"]["history"].as_array().map(Vec::len),
        "operation": app["operation"]});
    serde_json::from_str(&whole.to_string().replace(site.target.name(), "TARGET")).expect("JSON")
}

fn until_done(site: &Site<'_>) {
    site.until("the sync", || {
        let app = site.app(site.target.name());
        let status = &app["status"];
        status["operationState"]["phase"] == "Succeeded" && status["sync"]["status"] == "Synced"
    });
}

#[test]
fn a_sync_killed_before_each_of_its_writes_ends_in_the_same_state() {
    let calm = rehearsal();
    let process = Process::start(&calm, "engine", &[]);
    until_done(&calm);
    let expected = outcome(&calm);
    let writes = process.log().matches("A write goes out.").count();
    drop(process);
    assert!(writes >= 10, "a sync with hooks and pruning has more than {writes} writes");
    assert_eq!(expected["results"].as_array().map(Vec::len), Some(4), "{expected:#}");
    // Some at once: most of the time is spent waiting for the cluster.
    let (next, hit) = (AtomicUsize::new(1), AtomicUsize::new(0));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at > writes {
                return;
            }
            let site = rehearsal();
            let mut process =
                Process::start(&site, "engine", &[("SLIPWAY_DIE_BEFORE_WRITE", &at.to_string())]);
            // The last writes are events, whose number differs: it may be done before it dies.
            site.until("the end of the engine", || {
                process.ended().is_some()
                    || site.app(site.target.name())["status"]["sync"]["status"] == "Synced"
            });
            hit.fetch_add(usize::from(process.log().contains("died before write")), Ordering::Relaxed);
            drop(process);
            let process = Process::start(&site, "engine", &[]);
            until_done(&site);
            assert_eq!(outcome(&site), expected, "killed before write {at}:\n{}", process.log());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(work);
        }
    });
    let hit = hit.into_inner();
    println!("{writes} writes, killed before {hit} of them");
    // Events and notes differ in number from run to run; the objects and what is noted before each are always there.
    assert!(hit >= 10, "only {hit} kills of {writes} happened");
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
fn five_megabytes_of_manifests_are_deployed_and_an_object_too_large_is_named() {
    let value = "x".repeat(52 << 10);
    let many: String = (0..100)
        .map(|number| {
            format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big{number}}}\ndata: {{a: {value}}}\n")
        })
        .collect();
    assert!(many.len() > 5 << 20);
    let huge = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: huge}}\ndata: {{a: {}}}\n",
        "y".repeat(4 << 20)
    );
    let site = Site::new(&[("many/all.yaml", many), ("huge/huge.yaml", huge)]);
    site.create(&site.application("many", "many", automated()));
    site.create(&site.application("huge", "huge", automated()));
    site.wait("many", "{.status.operationState.phase}=Succeeded");
    site.wait("many", "{.status.sync.status}=Synced");
    let found = site.target.kubectl(&["get", "configmaps", "-o", "name"]);
    assert_eq!(found.matches("configmap/big").count(), 100);
    site.until("the refusal", || {
        let state = site.app("huge")["status"]["operationState"].clone();
        state["phase"] == "Failed" || state["message"].as_str().is_some_and(|text| text.contains("Retrying"))
    });
    let app = site.app("huge").to_string();
    assert!(app.contains("too large") || app.contains("Too long"), "{app}");
    assert!(app.len() < 100 << 10, "the Application must not carry what was refused");
    assert!(app.contains("huge"), "{app}");
}

/// A definition in the shared cluster that goes with the test.
struct Definition<'s>(&'s Site<'static>, String);

impl Drop for Definition<'_> {
    fn drop(&mut self) {
        // Whether it was still there does not matter, and a panic here would hide the one before.
        self.0.control.succeeds(&["delete", "crd", &self.1, "--ignore-not-found", "--wait=false"]);
    }
}

#[test]
fn definitions_come_and_go_under_the_engine() {
    let site = Site::quiet(&[("README", "definitions".into())]);
    // The shared cluster has one place for each definition: the namespace's name makes it ours.
    let group = format!("{}.example.org", site.target.name());
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("ships.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "Ship", "plural": "ships", "singular": "ship", "listKind": "ShipList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let ship = json!({"apiVersion": format!("{group}/v1"), "kind": "Ship", "metadata": {"name": "argo"},
        "spec": {"oars": 50}});
    site.commit(&[("app/definition.json", definition.to_string()), ("app/ship.json", ship.to_string())]);
    let mut app = site.application(site.target.name(), "app", automated());
    app["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    let kind = format!("ships.{group}");
    let _definition = Definition(&site, kind.clone());
    site.create(&app);
    let _process = Process::start(&site, "engine", &[]);
    until_done(&site);
    let uid = || {
        let path = "jsonpath={.metadata.uid}";
        site.target.kubectl(&["get", &kind, "argo", "--ignore-not-found", "-o", path])
    };
    let first = uid();
    Kube::shared().kubectl(&["delete", "crd", &kind, "--timeout=60s"]);
    site.until("the definition and its object once more", || {
        site.target.succeeds(&["get", &kind]) && ![String::new(), first.clone()].contains(&uid())
    });
    until_done(&site);
    // Taken out of the repository, the object goes. The definition stays: with it everybody's ships would go.
    std::fs::remove_file(site.repo().join("app/definition.json")).expect("removed");
    std::fs::remove_file(site.repo().join("app/ship.json")).expect("removed");
    let revision = site.commit(&[("app/rest.yaml", map("rest", ""))]);
    site.control.kubectl(&["annotate", "app", site.target.name(), "argocd.argoproj.io/refresh=normal"]);
    site.wait(site.target.name(), &format!("{{.status.operationState.syncResult.revision}}={revision}"));
    until_done(&site);
    assert_eq!(site.target.kubectl(&["get", &kind, "-o", "name"]).trim(), "");
    site.control.kubectl(&["delete", "app", site.target.name(), "--timeout=60s"]);
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
