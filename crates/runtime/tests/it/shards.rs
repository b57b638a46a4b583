//! Engines that share the Applications of a namespace on the real Kubernetes: each has its part, the dead are
//! replaced, and the writes of no Application are ever those of two.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::Value;

use crate::site::{Process, Site, automated};

const APPS: usize = 12;
const LEASE: (&str, &str) = ("SLIPWAY_LEASE_SECONDS", "6");

fn map(number: usize, value: usize) -> (String, String) {
    let text =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\ndata: {{a: \"{value}\"}}\n");
    (format!("apps/{number}/m.yaml"), text)
}

/// Commits a new value for every Application, asks for it, and waits until all are there.
fn deploy(site: &Site<'_>, value: usize) {
    let files: Vec<(String, String)> = (0..APPS).map(|number| map(number, value)).collect();
    let files: Vec<(&str, String)> = files.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
    let revision = site.commit(&files);
    site.control.kubectl(&["annotate", "app", "--all", "--overwrite", "argocd.argoproj.io/refresh=normal"]);
    site.until(&format!("value {value} everywhere"), || {
        let text = site.control.kubectl(&["get", "applications.argoproj.io", "-o", "json"]);
        let apps: Value = serde_json::from_str(&text).expect("JSON");
        apps["items"].as_array().is_some_and(|apps| {
            apps.iter().all(|app| {
                let state = &app["status"]["operationState"];
                state["phase"] == "Succeeded" && state["syncResult"]["revision"] == revision.as_str()
            })
        })
    });
    for number in 0..APPS {
        let found = site.target.kubectl(&["get", "cm", &format!("m{number}"), "-o", "jsonpath={.data.a}"]);
        assert_eq!(found, value.to_string(), "m{number}");
    }
}

/// How many shards each engine holds, as the table says.
fn shares(site: &Site<'_>) -> Vec<usize> {
    if !site.control.succeeds(&["get", "configmap", "slipway-gitops-shards"]) {
        return Vec::new();
    }
    let text = site.control.kubectl(&["get", "configmap", "slipway-gitops-shards", "-o", "json"]);
    let table: Value = serde_json::from_str(&text).expect("JSON");
    let lines = table["data"].as_object().cloned().unwrap_or_default();
    lines.values().map(|line| line.as_str().unwrap_or_default().split(' ').count()).collect()
}

/// The writes to each Application, in the order of time, as the engines' logs tell: who wrote.
fn writers(engines: &[(&str, &str)]) -> BTreeMap<String, Vec<(String, String)>> {
    let mut all: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (engine, log) in engines {
        for line in log.lines().filter(|line| line.contains("A write goes out.")) {
            let time = line.split_whitespace().next().unwrap_or_default();
            let Some(name) = line.split("argoproj.io/Application ").nth(1) else { continue };
            let name = name.split(['"', ' ']).next().unwrap_or_default();
            all.entry(name.to_owned()).or_default().push((time.to_owned(), (*engine).to_owned()));
        }
    }
    all.values_mut().for_each(|writes| writes.sort());
    all
}

#[test]
fn engines_share_the_work_take_over_from_the_dead_and_never_write_for_the_same_application_at_once() {
    let site = Site::quiet(&[("README", "shared".into())]);
    let one = Process::start(&site, "one", &[LEASE]);
    let two = Process::start(&site, "two", &[LEASE]);
    site.until("a fair share for two", || shares(&site) == [32, 32]);
    for number in 0..APPS {
        let name = format!("{}-{number}", site.target.name());
        site.create(&site.application(&name, &format!("apps/{number}"), automated()));
    }
    deploy(&site, 1);
    let synced = |process: &Process| -> BTreeSet<String> {
        let log = process.log();
        let lines = log.lines().filter(|line| line.contains("A sync ended."));
        lines
            .filter_map(|line| line.split("application=").nth(1)?.split(' ').next().map(str::to_owned))
            .collect()
    };
    let (of_one, of_two) = (synced(&one), synced(&two));
    assert!(!of_one.is_empty() && !of_two.is_empty(), "{of_one:?} {of_two:?}");
    assert!(of_one.is_disjoint(&of_two), "{of_one:?} {of_two:?}");
    assert_eq!(of_one.len() + of_two.len(), APPS, "{of_one:?} {of_two:?}");

    // Killed: the other one takes everything when the lease has run out.
    let log_of_one = one.log();
    let killed = Instant::now();
    drop(one);
    deploy(&site, 2);
    println!(
        "the work of a killed engine was done {:?} after its end, with a lease of 6 s",
        killed.elapsed()
    );
    assert_eq!(synced(&two).len(), APPS);

    // A new one gets its part from the one that has too much, in the middle of work.
    let three = Process::start(&site, "three", &[LEASE]);
    deploy(&site, 3);
    site.until("a fair share for the new one", || shares(&site) == [32, 32]);
    deploy(&site, 4);
    assert!(!synced(&three).is_empty(), "the new engine has work");

    // Stopped in order: nothing is waited for.
    two.interrupt();
    site.until("all for the last", || shares(&site) == [64]);
    deploy(&site, 5);

    // The last one leaves neither table nor lease.
    three.interrupt();
    let left = || site.control.kubectl(&["get", "configmaps,leases", "-o", "name"]);
    site.until("nothing is left of sharing", || !left().contains("slipway-gitops"));

    let (log_of_two, log_of_three) = (two.log(), three.log());
    let logs = [("one", log_of_one.as_str()), ("two", &log_of_two), ("three", &log_of_three)];
    let writers = writers(&logs);
    assert_eq!(writers.len(), APPS, "the logs tell of every Application: {:?}", writers.keys());
    for (application, writes) in writers {
        let mut turns: Vec<&str> = writes.iter().map(|(_, engine)| engine.as_str()).collect();
        turns.dedup();
        let all: BTreeSet<&str> = turns.iter().copied().collect();
        assert_eq!(all.len(), turns.len(), "two engines wrote for {application} by turns: {turns:?}");
    }
}
