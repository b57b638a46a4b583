//! The chart of a runtime, which this program has inside: values → objects, as `helm template` would print them.
//!
//! It is rendered here, so that nobody needs Helm to install a runtime, and the same chart is what Helm users install. The hook
//! of `helm test` is left out: `slipway runtime doctor` asks the same.

use anyhow::Context as _;
use serde_json::{Value, json};
use slipway_template::{Data, Environment, Functions, Limits, Template};

macro_rules! chart {
    ($path:literal) => {
        include_str!(concat!("../../../../deploy/charts/slipway-runtime/", $path))
    };
}

const HELPERS: &str = chart!("templates/_helpers.tpl");
/// In the order in which they are applied: what the Deployment needs comes before it.
const TEMPLATES: [(&str, &str); 6] = [
    ("settings.yaml", chart!("templates/settings.yaml")),
    ("rbac.yaml", chart!("templates/rbac.yaml")),
    ("service.yaml", chart!("templates/service.yaml")),
    ("policies.yaml", chart!("templates/policies.yaml")),
    ("route.yaml", chart!("templates/route.yaml")),
    ("deployment.yaml", chart!("templates/deployment.yaml")),
];
const VALUES: &str = chart!("values.yaml");
const CHART: &str = chart!("Chart.yaml");
/// Which values there are.
pub(super) const SCHEMA: &str = chart!("values.schema.json");

/// The version of the chart that is inside, and of the program that it installs.
pub(super) fn version() -> anyhow::Result<String> {
    Ok(one(CHART)?["appVersion"].as_str().unwrap_or_default().to_owned())
}

/// The objects of a release, from the values that differ from the chart's own.
pub(super) fn objects(name: &str, namespace: &str, values: &Value) -> anyhow::Result<Vec<Value>> {
    let mut all = one(VALUES)?;
    merge(&mut all, values);
    let chart = one(CHART)?;
    let data = Data::from(json!({
        "Values": all,
        "Release": {"Name": name, "Namespace": namespace, "Service": "slipway"},
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
    }));
    let mut objects = Vec::new();
    for (file, text) in TEMPLATES {
        let whole = format!("{HELPERS}{text}");
        let template = Template::parse(file, &whole, &[] as &[&str], Functions::chart())?;
        let mut environment = Environment {
            // No template of the chart asks for either.
            now: jiff::Timestamp::UNIX_EPOCH,
            random: &mut || 0,
            limits: Limits::default(),
        };
        let rendered = template
            .render(&data, &mut environment)
            .map_err(|error| anyhow::anyhow!(said(&error.to_string())))?;
        let documents = slipway_yaml::load_all_json(&rendered).map_err(|errors| {
            anyhow::anyhow!("{file} of the chart is no YAML with these values: {errors:?}")
        })?;
        objects.extend(documents.into_iter().map(|(object, _)| object).filter(|object| !object.is_null()));
    }
    Ok(objects)
}

/// Of a chart that refuses its values: what is wrong with them, without where the template says so.
fn said(error: &str) -> String {
    match error.split_once("error calling fail: ") {
        Some((_, sentences)) => format!("the values are not complete:{}", sentences.trim_end()),
        None => error.to_owned(),
    }
}

fn one(text: &str) -> anyhow::Result<Value> {
    let documents = slipway_yaml::load_all_json(text).map_err(|errors| anyhow::anyhow!("{errors:?}"))?;
    documents.into_iter().next().map(|(value, _)| value).context("a file of the chart is empty")
}

/// Values that somebody gives win over the chart's own, name by name; lists are replaced.
pub(super) fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(values: &Value) -> Vec<String> {
        let objects = objects("west", "argocd", values).unwrap();
        objects.iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn values_become_the_objects_that_the_chart_says() {
        let plain =
            json!({"server": {"url": "https://slipway.example.com"}, "token": {"existingSecret": "token"}});
        assert_eq!(
            kinds(&plain),
            ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Service", "NetworkPolicy", "Deployment"]
        );
        let objects = objects("west", "argocd", &plain).unwrap();
        let deployment = &objects[5];
        assert_eq!(deployment["metadata"]["name"], "slipway-runtime-west");
        assert_eq!(deployment["spec"]["replicas"], 1);
        assert_eq!(deployment["metadata"]["labels"]["app.kubernetes.io/managed-by"], "slipway");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let arguments: Vec<&str> =
            container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(arguments.contains(&"--server=https://slipway.example.com"), "{arguments:?}");
        assert_eq!(container["image"], format!("ghcr.io/slipway/slipway:{}", version().unwrap()));
        let mut more = plain;
        merge(
            &mut more,
            &json!({"replicas": 3, "clusterWide": false, "server": {"ca": "-----BEGIN CERTIFICATE-----"},
            "access": {"mode": "ingress", "url": "https://runtime.example.com"}}),
        );
        let kinds = kinds(&more);
        for kind in ["ConfigMap", "Role", "RoleBinding", "PodDisruptionBudget", "Ingress"] {
            assert!(kinds.iter().any(|known| known == kind), "{kind} in {kinds:?}");
        }
    }

    #[test]
    fn everything_that_is_wrong_with_values_is_said_at_once() {
        let error =
            objects("west", "argocd", &json!({"access": {"mode": "ingress"}})).unwrap_err().to_string();
        for words in
            ["server.url is needed", "token.existingSecret or token.value is needed", "access.url is needed"]
        {
            assert!(error.contains(words), "{error}");
        }
    }
}
