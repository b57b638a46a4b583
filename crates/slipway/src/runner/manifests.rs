//! What a runner in a cluster consists of. Pure: options in, objects out.

use serde_json::{Value, json};

pub(super) struct Options {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) server: String,
    pub(super) image: String,
    pub(super) token: Option<String>,
    pub(super) capacity: u32,
    pub(super) storage_class: Option<String>,
    pub(super) storage: String,
    pub(super) cpu: Option<String>,
    pub(super) memory: Option<String>,
    pub(super) registry: Option<String>,
    pub(super) insecure_registries: Vec<String>,
    pub(super) builder_image: Option<String>,
    pub(super) image_pull_secrets: Vec<String>,
    pub(super) plain_http: bool,
    /// PEM.
    pub(super) ca: Option<String>,
}

const COMPONENT: &str = "app.kubernetes.io/component";
const DATA: &str = "/data";

/// In the order in which they are made.
pub(super) fn objects(options: &Options) -> Vec<Value> {
    let mut all = vec![namespace(options)];
    all.extend(token(options));
    all.extend(authority(options));
    all.extend([service_account(options), role(options), binding(options), network(options), set(options)]);
    all
}

/// The object's name, and by which label its pods are known.
pub(super) fn workload(name: &str) -> String {
    format!("slipway-runner-{name}")
}

fn meta(options: &Options) -> Value {
    json!({
        "name": workload(&options.name),
        "namespace": options.namespace,
        "labels": labels(options),
    })
}

fn labels(options: &Options) -> Value {
    json!({
        "app.kubernetes.io/name": "slipway",
        COMPONENT: "runner",
        "app.kubernetes.io/instance": options.name,
    })
}

/// Steps are other people's code: the cluster itself keeps them from more than the baseline.
fn namespace(options: &Options) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": options.namespace,
            "labels": {"pod-security.kubernetes.io/enforce": "baseline"},
        },
    })
}

fn token(options: &Options) -> Option<Value> {
    let token = options.token.as_ref()?;
    Some(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": meta(options), "type": "Opaque",
        "stringData": {"token": token},
    }))
}

/// Certificates are no secret, and whoever looks for the reason of a refusal may read them.
fn authority(options: &Options) -> Option<Value> {
    let pem = options.ca.as_ref()?;
    Some(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(options), "data": {"ca.pem": pem}}))
}

fn service_account(options: &Options) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(options)})
}

/// Its own namespace, and there what it makes itself.
fn role(options: &Options) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta(options),
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "delete"]},
            {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
            // Shells of people who debug a build, in pods of their own.
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "list", "delete"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
        ],
    })
}

fn binding(options: &Options) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta(options),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": workload(&options.name)},
        "subjects": [{"kind": "ServiceAccount", "name": workload(&options.name), "namespace": options.namespace}],
    })
}

/// Nobody dials a runner.
fn network(options: &Options) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta(options),
        "spec": {"podSelector": {"matchLabels": labels(options)}, "policyTypes": ["Ingress"], "ingress": []},
    })
}

fn set(options: &Options) -> Value {
    let mut claim = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": options.storage}},
    });
    if let Some(class) = &options.storage_class {
        claim["storageClassName"] = json!(class);
    }
    let name = workload(&options.name);
    let mut volumes = vec![json!({"name": "token", "secret": {"secretName": name, "optional": true}})];
    volumes.extend(options.ca.as_ref().map(|_| json!({"name": "ca", "configMap": {"name": name}})));
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta(options),
        "spec": {
            // One: its storage is its identity. More builds at once is --capacity; more nodes are more runners.
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": labels(options)},
            "template": {
                "metadata": {"labels": labels(options)},
                "spec": {
                    "serviceAccountName": name,
                    "terminationGracePeriodSeconds": 10,
                    "imagePullSecrets": options.image_pull_secrets.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
                    "containers": [container(options)],
                    "volumes": volumes,
                },
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    })
}

fn container(options: &Options) -> Value {
    let claim = format!("data-{}-0", workload(&options.name));
    let mut arguments = vec![
        "runner".to_owned(),
        format!("--server={}", options.server),
        "--token-file=/token/token".to_owned(),
        format!("--data={DATA}"),
        format!("--capacity={}", options.capacity),
        "--executor=kubernetes".to_owned(),
        format!("--namespace={}", options.namespace),
        format!("--claim={claim}"),
    ];
    let mut option = |flag: &str, value: &Option<String>| {
        arguments.extend(value.iter().map(|value| format!("--{flag}={value}")));
    };
    option("cpu", &options.cpu);
    option("memory", &options.memory);
    option("registry", &options.registry);
    option("builder-image", &options.builder_image);
    arguments.extend(options.ca.as_ref().map(|_| "--ca=/ca/ca.pem".to_owned()));
    arguments.extend(options.plain_http.then(|| "--plain-http".to_owned()));
    arguments.extend(options.insecure_registries.iter().map(|host| format!("--insecure-registry={host}")));
    arguments.extend(options.image_pull_secrets.iter().map(|name| format!("--image-pull-secret={name}")));
    let mut mounts = vec![
        json!({"name": "data", "mountPath": DATA}),
        json!({"name": "token", "mountPath": "/token", "readOnly": true}),
    ];
    mounts.extend(options.ca.as_ref().map(|_| json!({"name": "ca", "mountPath": "/ca", "readOnly": true})));
    json!({
        "name": "runner",
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        // Named, so that any image that has the program will do, whatever starts in it by itself.
        "command": ["slipway"],
        "args": arguments,
        // The storage can be mounted on one node at a time: steps go where the runner is.
        "env": [{"name": "SLIPWAY_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": mounts,
        "securityContext": {
            "privileged": false,
            "allowPrivilegeEscalation": false,
            // Steps write as any user, and the runner removes what they wrote.
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
    })
}
