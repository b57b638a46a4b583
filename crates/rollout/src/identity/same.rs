//! Whether a template that lives in a cluster is the one that is wanted, apart from what the API server filled in and what was injected.
//!
//! Used where the hash does not tell: a ReplicaSet that another version of a controller made is adopted, not replaced.

use serde_json::{Map, Value};

use super::quantity;

/// What an API server fills in, wherever it stands in a template.
fn is_default(name: &str, value: &Value, beside: &Map<String, Value>) -> bool {
    match (name, value) {
        (_, Value::Null) => true,
        (_, Value::Object(fields)) if fields.is_empty() => true,
        (_, Value::Array(items)) if items.is_empty() => true,
        ("imagePullPolicy", Value::String(policy)) => {
            let image = beside.get("image").and_then(Value::as_str).unwrap_or_default();
            let tag = image
                .rsplit('/')
                .next()
                .and_then(|last| last.split_once(':'))
                .map_or("latest", |(_, tag)| tag);
            let latest = tag == "latest" && !image.contains('@');
            policy == if latest { "Always" } else { "IfNotPresent" }
        }
        ("serviceAccount", value) => beside.get("serviceAccountName").is_none_or(|name| name == value),
        ("hostPort", value) => beside.get("containerPort") == Some(value),
        // Limits are requests where nothing else is said.
        ("requests", value) => beside.get("limits") == Some(value),
        _ => DEFAULTS.iter().any(|(known, default)| *known == name && default.is(value)),
    }
}

enum Default {
    Text(&'static str),
    Number(i64),
    Is(bool),
}

impl Default {
    fn is(&self, value: &Value) -> bool {
        match self {
            Self::Text(text) => value.as_str() == Some(text),
            Self::Number(number) => value.as_i64() == Some(*number),
            Self::Is(is) => value.as_bool() == Some(*is),
        }
    }
}

const DEFAULTS: &[(&str, Default)] = &[
    ("restartPolicy", Default::Text("Always")),
    ("dnsPolicy", Default::Text("ClusterFirst")),
    ("schedulerName", Default::Text("default-scheduler")),
    ("terminationGracePeriodSeconds", Default::Number(30)),
    ("terminationMessagePath", Default::Text("/dev/termination-log")),
    ("terminationMessagePolicy", Default::Text("File")),
    ("protocol", Default::Text("TCP")),
    ("scheme", Default::Text("HTTP")),
    ("path", Default::Text("/")),
    ("service", Default::Text("")),
    ("timeoutSeconds", Default::Number(1)),
    ("periodSeconds", Default::Number(10)),
    ("successThreshold", Default::Number(1)),
    ("failureThreshold", Default::Number(3)),
    ("apiVersion", Default::Text("v1")),
    ("defaultMode", Default::Number(420)),
    ("expirationSeconds", Default::Number(3600)),
    ("type", Default::Text("")),
    ("fsType", Default::Text("ext4")),
    ("divisor", Default::Text("0")),
    ("enableServiceLinks", Default::Is(true)),
    ("nodeTaintsPolicy", Default::Text("Honor")),
    ("nodeAffinityPolicy", Default::Text("Honor")),
    ("pullPolicy", Default::Text("IfNotPresent")),
    ("hostNetwork", Default::Is(false)),
    ("hostPID", Default::Is(false)),
    ("hostIPC", Default::Is(false)),
    ("readOnly", Default::Is(false)),
    ("stdin", Default::Is(false)),
    ("stdinOnce", Default::Is(false)),
    ("tty", Default::Is(false)),
    ("value", Default::Text("")),
    ("initialDelaySeconds", Default::Number(0)),
];

/// `live` is what is there, `wanted` what somebody wrote. Labels that only a controller knows have been taken off both before.
pub fn is_same(live: &Value, wanted: &Value) -> bool {
    same("", live, wanted)
}

fn same(name: &str, live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(there), Value::Object(asked)) => {
            // Amounts are compared by what they are worth; names of labels and the like have no defaults.
            let open = matches!(name, "labels" | "annotations" | "nodeSelector" | "matchLabels");
            let left_over = |(name, value): (&String, &Value), beside: &Map<String, Value>| {
                !open && is_default(name, value, beside)
            };
            asked.iter().all(|(name, value)| match there.get(name) {
                Some(live) => same(name, live, value),
                None => left_over((name, value), asked),
            }) && there
                .iter()
                .all(|(name, value)| asked.contains_key(name) || left_over((name, value), there))
        }
        (Value::Array(there), Value::Array(asked)) => {
            there.len() == asked.len()
                && there.iter().zip(asked).all(|(live, wanted)| same(name, live, wanted))
        }
        (Value::Null, other) | (other, Value::Null) => is_default(name, other, &Map::new()),
        (live, wanted) if live == wanted => true,
        (Value::String(_) | Value::Number(_), Value::String(_) | Value::Number(_)) => {
            matches!(name, "cpu" | "memory" | "storage" | "ephemeral-storage" | "sizeLimit" | "divisor")
                && quantity::as_go_writes(live) == quantity::as_go_writes(wanted)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_server_fills_in_makes_no_other_template() {
        let wanted = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx:1.19-alpine",
            "resources": {"requests": {"cpu": "1000m"}}, "ports": [{"containerPort": 80}]}]}});
        let mut live = json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": {
            "containers": [{"name": "web", "image": "nginx:1.19-alpine", "imagePullPolicy": "IfNotPresent", "resources": {"requests": {"cpu": "1"}},
                "ports": [{"containerPort": 80, "protocol": "TCP"}], "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler"}});
        assert!(is_same(&live, &wanted));
        live["spec"]["terminationGracePeriodSeconds"] = 31.into();
        assert!(!is_same(&live, &wanted), "somebody wrote another one");
        live["spec"]["terminationGracePeriodSeconds"] = 30.into();
        live["metadata"]["labels"]["type"] = "".into();
        assert!(!is_same(&live, &wanted), "a label has no default");
    }
}
