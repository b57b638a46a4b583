//! ApplicationSets: from generators to Applications, and from Applications to a plan.

mod generators;
mod planning;
mod rollout;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::ApplicationSet;
use slipway_gitops::appset::{
    Answer, Answers, Change, ClusterEntry, Generation, Need, PlanInput, SetPlan, generate, plan,
};

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn now() -> Timestamp {
    at("2026-11-16T00:00:00Z")
}

/// An ApplicationSet out of the fields of its spec.
fn set(spec: Value) -> ApplicationSet {
    let template = json!({
        "metadata": {"name": "{{name}}"},
        "spec": {"project": "default", "source": {"repoURL": "https://git.example/x", "path": "{{name}}"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "x"}},
    });
    let mut whole = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "set", "namespace": "argocd", "uid": "u1"},
        "spec": {"template": template, "generators": []}});
    for (key, value) in spec.as_object().expect("fields") {
        whole["spec"][key] = value.clone();
    }
    serde_json::from_value(whole).expect("an ApplicationSet")
}

/// With Go templates and a template that prints what is asked for as the name.
fn printing(expression: &str, generators: Value) -> ApplicationSet {
    set(json!({"goTemplate": true, "generators": generators, "template": {
        "metadata": {"name": expression},
        "spec": {"destination": {"name": "in-cluster"}}}}))
}

fn cluster(name: &str, server: &str, labels: &[(&str, &str)]) -> ClusterEntry {
    ClusterEntry {
        name: name.into(),
        server: server.into(),
        labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        ..ClusterEntry::default()
    }
}

/// A repository as a value: path → content.
type Tree = BTreeMap<&'static str, &'static str>;

/// Answers every question out of a repository; other questions by `other`.
fn settle(
    set: &ApplicationSet,
    clusters: Vec<ClusterEntry>,
    tree: &Tree,
    other: &dyn Fn(&Need) -> Result<Answer, String>,
) -> Generation {
    let mut answers = Answers::new(clusters);
    for _ in 0..5 {
        let generation = generate(set, &answers, now());
        if generation.needs.is_empty() {
            return generation;
        }
        for need in &generation.needs {
            let answer = match need {
                Need::GitTree { .. } if !tree.is_empty() => Ok(Answer::Tree {
                    commit: "c0ffee".into(),
                    paths: tree.keys().map(|path| (*path).to_owned()).collect(),
                }),
                Need::GitFiles { paths, commit, .. } => {
                    assert_eq!(commit, "c0ffee", "files are read of the tree's commit");
                    Ok(Answer::Files(
                        paths.iter().map(|path| (path.clone(), tree[path.as_str()].to_owned())).collect(),
                    ))
                }
                need => other(need),
            };
            answers.put(need, answer);
        }
    }
    panic!("the generators never stop asking");
}

fn nobody(need: &Need) -> Result<Answer, String> {
    Err(format!("nobody answers {need:?}"))
}

fn names(generation: &Generation) -> Vec<String> {
    let generated = generation.outcome.as_ref().unwrap_or_else(|error| panic!("{error:?}"));
    generated
        .applications
        .iter()
        .map(|a| a["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn message(generation: &Generation) -> String {
    match &generation.outcome {
        Err(error) => error.message.clone(),
        Ok(generated) => panic!("it should fail, and gives {:?}", generated.applications),
    }
}

/// A cluster's copy of the Applications, changed by plans as the API would change it.
#[derive(Default)]
struct Live(Vec<Value>);

impl Live {
    fn apply(&mut self, plan: &SetPlan) {
        for change in &plan.changes {
            match change {
                Change::Create { application, .. } => self.0.push(application.clone()),
                Change::Update { name, patch, .. } => merge(self.get(name), patch),
                Change::Delete { name, .. } => self.0.retain(|a| a["metadata"]["name"] != json!(name)),
            }
        }
    }

    fn get(&mut self, name: &str) -> &mut Value {
        self.0.iter_mut().find(|a| a["metadata"]["name"] == json!(name)).expect("it is there")
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().filter_map(|a| a["metadata"]["name"].as_str()).collect();
        names.sort_unstable();
        names
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Some(entries) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in entries {
        if value.is_null() {
            target.as_object_mut().expect("made above").remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// Every plan of every test is looked through.
fn plan_for(set: &ApplicationSet, generation: &Generation, live: &Live, time: Timestamp) -> SetPlan {
    assert!(generation.needs.is_empty(), "nobody plans on half an answer");
    let projects = BTreeSet::from(["default".to_owned()]);
    let result = plan(&PlanInput {
        set,
        outcome: &generation.outcome,
        current: &live.0,
        projects: &projects,
        clusters: &[cluster("staging", "https://staging", &[])],
        policy: None,
        now: time,
    });
    check(set, generation, live, &result);
    result
}

fn check(set: &ApplicationSet, generation: &Generation, live: &Live, plan: &SetPlan) {
    let there = live.names();
    let wanted = generation.outcome.as_ref().map(|_| names(generation)).unwrap_or_default();
    if generation.outcome.is_err() {
        assert!(plan.changes.is_empty(), "a fault touches nothing");
    }
    let mut deleted = BTreeSet::new();
    for change in &plan.changes {
        assert!(!deleted.contains(change.name()), "nothing is done to what was deleted");
        match change {
            Change::Create { name, application, .. } => {
                assert!(!there.contains(&name.as_str()), "{name} is there already");
                assert_eq!(application["metadata"]["namespace"], json!(set.metadata.namespace));
                assert_eq!(application["metadata"]["ownerReferences"][0]["uid"], json!(set.metadata.uid));
            }
            Change::Update { name, .. } => assert!(there.contains(&name.as_str()), "{name} is not there"),
            Change::Delete { name, .. } => {
                assert!(there.contains(&name.as_str()) && !wanted.contains(name), "{name} is wanted");
                deleted.insert(name.clone());
            }
        }
    }
    for condition in &plan.status.conditions {
        assert!(condition.last_transition_time.is_some() && !condition.message.is_empty(), "{condition:?}");
    }
}
