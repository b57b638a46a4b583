//! The pod and the claim in which a build of a published agent's runtime runs. Pure: settings in, objects out.
//!
//! The agent is a thin client of its cluster: it makes the objects that it is sent, as they are. The pod is our own
//! runner, which registers for one build, runs its steps as pods beside it, and ends with it. Names say which build and
//! which attempt it is, so that making one twice is making it once.

use serde_json::{Map, Value, json};
use slipway_model::BuildId;

/// What the published chart makes for pods that run builds.
const SERVICE_ACCOUNT: &str = "codefresh-engine";
/// As large as the published chart's.
const STORAGE: &str = "16Gi";
const DATA: &str = "/data";
/// What the runner needs to end its steps and say so.
const GRACE_SECONDS: u32 = 180;

/// Where and how the pods of a runtime environment run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
    pub(crate) namespace: String,
    service_account: String,
    storage_class: Option<String>,
    storage: String,
    node_selector: Value,
    tolerations: Value,
    annotations: Value,
    image_pull_secrets: Vec<String>,
}

impl Workload {
    /// From what the installer described; what it left out is as the published chart has it. A name that is
    /// `CONTEXT/NAMESPACE` says the namespace too. A sentence when none is known.
    pub(crate) fn read(runtime: &str, described: Option<&Value>) -> Result<Self, String> {
        let none = Value::Null;
        let spec = described.unwrap_or(&none);
        let scheduler = &spec["runtimeScheduler"];
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let namespace = text(&scheduler["cluster"]["namespace"])
            .or_else(|| runtime.rsplit_once('/').map(|(_, namespace)| namespace.to_owned()))
            .filter(|namespace| crate::http::input::plain_name("a namespace", namespace).is_ok())
            .ok_or_else(|| {
                format!(
                    "runtime environment `{runtime}` has no namespace: name it CONTEXT/NAMESPACE, or set \
                     runtimeScheduler.cluster.namespace"
                )
            })?;
        let claim = claim_of(&spec["dockerDaemonScheduler"]["pvcs"]);
        let pull_secrets = scheduler["imagePullSecrets"].as_array().into_iter().flatten();
        Ok(Self {
            namespace,
            service_account: text(&scheduler["cluster"]["serviceAccount"])
                .unwrap_or_else(|| SERVICE_ACCOUNT.to_owned()),
            storage_class: text(&claim["storageClassName"]),
            storage: text(&claim["volumeSize"]).unwrap_or_else(|| STORAGE.to_owned()),
            node_selector: scheduler["cluster"]["nodeSelector"].clone(),
            tolerations: scheduler["tolerations"].clone(),
            annotations: scheduler["annotations"].clone(),
            image_pull_secrets: pull_secrets
                .filter_map(|secret| text(secret).or_else(|| text(&secret["name"])))
                .collect(),
        })
    }
}

/// A list of claims, or a map of them by name: the Docker daemon's, which is the only one that there is.
fn claim_of(claims: &Value) -> Value {
    match claims {
        Value::Array(list) => list.first().cloned().unwrap_or_default(),
        Value::Object(map) => map.get("dind").or_else(|| map.values().next()).cloned().unwrap_or_default(),
        _ => Value::Null,
    }
}

pub(crate) fn claim_name(build: BuildId) -> String {
    format!("slipway-{build}")
}

pub(crate) fn pod_name(build: BuildId, attempt: i64) -> String {
    format!("slipway-{build}-{attempt}")
}

/// Not the label by which a runner finds pods of its steps: it would take itself for one.
fn labels(build: BuildId) -> Value {
    json!({
        "app.kubernetes.io/name": "slipway",
        "app.kubernetes.io/component": "build-runner",
        "app.kubernetes.io/instance": build.to_string(),
    })
}

/// Kept from one attempt to the next: the runner finds there how far the one before it came.
pub(crate) fn claim(workload: &Workload, build: BuildId) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": workload.storage}},
    });
    if let Some(class) = &workload.storage_class {
        spec["storageClassName"] = json!(class);
    }
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim_name(build), "namespace": workload.namespace, "labels": labels(build)},
        "spec": spec,
    })
}

/// What a pod has to know that its runtime environment does not say.
pub(crate) struct Errand<'a> {
    pub(crate) build: BuildId,
    pub(crate) attempt: i64,
    pub(crate) image: &'a str,
    pub(crate) server: &'a str,
    /// Good for one registration, for this build, for a short time.
    pub(crate) token: &'a str,
}

pub(crate) fn pod(workload: &Workload, errand: &Errand<'_>) -> Value {
    let mut metadata = json!({
        "name": pod_name(errand.build, errand.attempt), "namespace": workload.namespace, "labels": labels(errand.build),
    });
    let mut spec = json!({
        // A runner that falls over goes on with what is on its claim; one that has done its work ends for good.
        "restartPolicy": "OnFailure",
        "serviceAccountName": workload.service_account,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [container(workload, errand)],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name(errand.build)}}],
    });
    let secrets: Vec<Value> = workload.image_pull_secrets.iter().map(|name| json!({"name": name})).collect();
    let optional = [("nodeSelector", &workload.node_selector), ("tolerations", &workload.tolerations)];
    let object = spec.as_object_mut().expect("an object");
    object.extend(optional.into_iter().filter(|(_, value)| is_something(value)).map(pair));
    if !secrets.is_empty() {
        object.insert("imagePullSecrets".into(), secrets.into());
    }
    if is_something(&workload.annotations) {
        metadata["annotations"] = workload.annotations.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn pair((name, value): (&str, &Value)) -> (String, Value) {
    (name.to_owned(), value.clone())
}

fn is_something(value: &Value) -> bool {
    value.as_object().is_some_and(|map: &Map<_, _>| !map.is_empty())
        || value.as_array().is_some_and(|list| !list.is_empty())
}

/// As `slipway runner install` has it, for one build.
fn container(workload: &Workload, errand: &Errand<'_>) -> Value {
    let mut arguments = vec![
        "runner".to_owned(),
        format!("--build={}", errand.build),
        format!("--server={}", errand.server),
        format!("--data={DATA}"),
        "--executor=kubernetes".to_owned(),
        format!("--namespace={}", workload.namespace),
        format!("--claim={}", claim_name(errand.build)),
    ];
    // Whoever runs the server without TLS has decided that already, and the agent's own key travels so too.
    arguments.extend(errand.server.starts_with("http://").then(|| "--plain-http".to_owned()));
    arguments.extend(workload.image_pull_secrets.iter().map(|name| format!("--image-pull-secret={name}")));
    json!({
        "name": "runner",
        "image": errand.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["slipway"],
        "args": arguments,
        "env": [
            // The storage can be mounted on one node at a time: steps go where the runner is.
            {"name": "SLIPWAY_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "SLIPWAY_RUNNER_TOKEN", "value": errand.token},
        ],
        "volumeMounts": [{"name": "data", "mountPath": DATA}],
        "securityContext": {
            "privileged": false,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build() -> BuildId {
        "acacacacacacacacacacacac".parse().unwrap()
    }

    #[test]
    fn a_runtime_that_nobody_described_is_as_the_published_chart_has_it() {
        let workload = Workload::read("ctx/ns", None).unwrap();
        let claim = claim(&workload, build());
        assert_eq!(claim["metadata"]["namespace"], "ns");
        assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "16Gi");
        assert!(claim["spec"].get("storageClassName").is_none(), "the cluster's own");
        let errand = Errand { build: build(), attempt: 2, image: "i", server: "https://s", token: "secret" };
        let pod = pod(&workload, &errand);
        assert_eq!(pod["spec"]["serviceAccountName"], "codefresh-engine");
        assert_eq!(pod["metadata"]["name"], "slipway-acacacacacacacacacacacac-2");
        let arguments = pod["spec"]["containers"][0]["args"].to_string();
        assert!(arguments.contains("--build=acacacacacacacacacacacac"), "{arguments}");
        assert!(!arguments.contains("secret") && !arguments.contains("--plain-http"), "{arguments}");
        assert!(pod["spec"].get("nodeSelector").is_none() && pod["metadata"].get("annotations").is_none());
        for nameless in ["ns", "ctx/", "ctx/Not A Name"] {
            assert!(Workload::read(nameless, None).unwrap_err().contains(nameless), "{nameless}");
        }
    }

    #[test]
    fn what_the_installer_described_counts() {
        let described = json!({
            "runtimeScheduler": {
                "cluster": {"namespace": "cf", "serviceAccount": "mine", "nodeSelector": {"pool": "builds"}},
                "tolerations": [{"operator": "Exists"}], "annotations": {"a": "b"}, "imagePullSecrets": ["pull"],
            },
            "dockerDaemonScheduler": {"pvcs": {"dind": {"volumeSize": "30Gi", "storageClassName": "fast"}}},
        });
        let workload = Workload::read("ctx/ns", Some(&described)).unwrap();
        assert_eq!(claim(&workload, build())["spec"]["storageClassName"], "fast");
        let errand = Errand { build: build(), attempt: 1, image: "i", server: "http://s", token: "t" };
        let pod = pod(&workload, &errand);
        let spec = &pod["spec"];
        assert_eq!(
            (&pod["metadata"]["namespace"], &spec["serviceAccountName"], &spec["nodeSelector"]["pool"]),
            (&json!("cf"), &json!("mine"), &json!("builds"))
        );
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
        assert_eq!(pod["metadata"]["annotations"]["a"], "b");
        assert!(spec["containers"][0]["args"].to_string().contains("--plain-http"));
        let list = json!({"dockerDaemonScheduler": {"pvcs": [{"name": "dind", "volumeSize": "5Gi"}]}});
        let workload = Workload::read("ctx/ns", Some(&list)).unwrap();
        assert_eq!(claim(&workload, build())["spec"]["resources"]["requests"]["storage"], "5Gi");
    }
}
