//! Options → values of the chart. All that is wrong with them is said at once.

use anyhow::Context as _;
use serde_json::{Value, json};

use super::state::Site;
use super::{AccessMode, InstallArguments, ValueArguments};
use crate::runtime::chart;

/// Of a new installation, without what the token adds.
pub(super) fn of_install(arguments: &InstallArguments, site: &Site, server: &str) -> anyhow::Result<Value> {
    let mut wrong = Vec::new();
    let mode = match arguments.access_mode {
        AccessMode::Tunnel => "tunnel",
        AccessMode::Ingress => "ingress",
        AccessMode::Gateway => "gateway",
        AccessMode::Url => "url",
    };
    let ca = match &arguments.ca {
        Some(path) => match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                wrong.push(format!("cannot read --ca {} ({error})", path.display()));
                String::new()
            }
        },
        None => String::new(),
    };
    let is_tunnel = arguments.access_mode == AccessMode::Tunnel;
    for (given, name, needs) in [
        (arguments.ingress_host.is_some(), "--ingress-host", !is_tunnel),
        (arguments.ingress_class.is_some(), "--ingress-class", arguments.access_mode == AccessMode::Ingress),
        (arguments.gateway_name.is_some(), "--gateway-name", arguments.access_mode == AccessMode::Gateway),
        (
            arguments.gateway_namespace.is_some(),
            "--gateway-namespace",
            arguments.access_mode == AccessMode::Gateway,
        ),
        (!arguments.ips_allow_list.is_empty(), "--ips-allow-list", is_tunnel),
    ] {
        if given && !needs {
            wrong.push(format!("{name} has no effect with --access-mode {mode}"));
        }
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut values = json!({
        "server": {"url": server, "plainHttp": arguments.plain_http, "ca": ca},
        "token": {"existingSecret": site.token_secret().name},
        "access": {
            "mode": mode,
            "url": text(&arguments.ingress_host).trim_end_matches('/'),
            "externalHost": text(&arguments.external_host),
            "ingress": {"className": text(&arguments.ingress_class)},
            "gateway": {"name": text(&arguments.gateway_name), "namespace": text(&arguments.gateway_namespace)},
        },
    });
    add(&mut values, &arguments.values, &mut wrong);
    finished(values, wrong)
}

/// Those of a revision, with what is to be changed.
pub(super) fn changed(before: &Value, arguments: &ValueArguments) -> anyhow::Result<Value> {
    let (mut values, mut wrong) = (before.clone(), Vec::new());
    add(&mut values, arguments, &mut wrong);
    finished(values, wrong)
}

fn finished(values: Value, wrong: Vec<String>) -> anyhow::Result<Value> {
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(values)
}

fn add(values: &mut Value, arguments: &ValueArguments, wrong: &mut Vec<String>) {
    let before = values.clone();
    for path in &arguments.values {
        match of_file(path) {
            Ok(given) => chart::merge(values, &given),
            Err(error) => wrong.push(format!("{error:#}")),
        }
    }
    for text in &arguments.sets {
        match set(text) {
            Ok(given) => chart::merge(values, &given),
            Err(error) => wrong.push(format!("{error:#}")),
        }
    }
    if let Some(repository) = &arguments.image {
        chart::merge(values, &json!({"image": {"repository": repository}}));
    }
    if let Some(version) = &arguments.version {
        chart::merge(values, &json!({"image": {"tag": version, "digest": ""}}));
    }
    if let Some(replicas) = arguments.replicas {
        chart::merge(values, &json!({"replicas": replicas}));
    }
    // A value of its own would stand in the record of the installation, where everybody reads it who may read ConfigMaps.
    if before["token"] != values["token"] {
        wrong.push(
            "`token` is not to be given: the installation makes one and keeps it in a Secret".to_owned(),
        );
    }
    for name in unknown(values) {
        wrong.push(format!("`{name}` is no value of the chart slipway-runtime"));
    }
}

fn of_file(path: &std::path::Path) -> anyhow::Result<Value> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read --values {}", path.display()))?;
    let documents = slipway_yaml::load_all_json(&text);
    let documents =
        documents.map_err(|errors| anyhow::anyhow!("--values {} is no YAML: {errors:?}", path.display()))?;
    let value = documents.into_iter().next().map_or(json!({}), |(value, _)| value);
    anyhow::ensure!(value.is_object(), "--values {} is not a set of names and values", path.display());
    Ok(value)
}

/// `a.b=c`, as Helm reads it: true, false, null and numbers are what they look like.
fn set(text: &str) -> anyhow::Result<Value> {
    let (path, value) = text.split_once('=').with_context(|| format!("`--set {text}` is not NAME=VALUE"))?;
    anyhow::ensure!(
        !path.contains(['[', '\\', '{']) && !value.starts_with('{'),
        "`--set {text}`: lists and escaped names are for a --values file"
    );
    let value = match value {
        "true" | "false" => json!(value == "true"),
        "null" => Value::Null,
        number if number.parse::<i64>().is_ok() && !number.starts_with('0') || number == "0" => {
            json!(number.parse::<i64>()?)
        }
        text => json!(text),
    };
    let mut whole = value;
    for name in path.rsplit('.') {
        anyhow::ensure!(!name.is_empty(), "`--set {text}` has an empty name");
        whole = json!({name: whole});
    }
    Ok(whole)
}

/// Names that the chart does not have: a typing error would otherwise have no effect, in silence.
fn unknown(values: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(chart::SCHEMA).unwrap_or_default();
    let mut found = Vec::new();
    compare(&schema, values, "", &mut found);
    found
}

fn compare(schema: &Value, values: &Value, at: &str, found: &mut Vec<String>) {
    let (Some(known), Some(given)) = (schema["properties"].as_object(), values.as_object()) else { return };
    for (name, value) in given {
        let place = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        match known.get(name) {
            Some(of) => compare(of, value, &place, found),
            None if schema["additionalProperties"] == false => found.push(place),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_as_helm_reads_them_and_what_is_no_value_is_refused() {
        assert_eq!(set("a.b=true").unwrap(), json!({"a": {"b": true}}));
        assert_eq!(set("a=3").unwrap(), json!({"a": 3}));
        assert_eq!(set("a=007").unwrap(), json!({"a": "007"}));
        assert_eq!(set("a=x=y").unwrap(), json!({"a": "x=y"}));
        for wrong in ["a", "a[0]=1", "a..b=1", "a={1,2}"] {
            assert!(set(wrong).is_err(), "{wrong}");
        }
        let arguments = ValueArguments {
            sets: vec!["repicas=3".into(), "access.mod=x".into()],
            ..ValueArguments::default()
        };
        let error = changed(&json!({}), &arguments).unwrap_err().to_string();
        assert!(
            error.contains("`repicas` is no value") && error.contains("`access.mod` is no value"),
            "{error}"
        );
        for token in ["token.value=canary", "token.existingSecret=other", "token=null"] {
            let arguments = ValueArguments { sets: vec![token.into()], ..ValueArguments::default() };
            let before = json!({"token": {"existingSecret": "kept"}});
            let error = changed(&before, &arguments).unwrap_err().to_string();
            assert!(error.contains("`token` is not to be given") && !error.contains("canary"), "{error}");
        }
        let labels = ValueArguments { sets: vec!["podLabels.team=a".into()], ..ValueArguments::default() };
        assert_eq!(changed(&json!({}), &labels).unwrap()["podLabels"]["team"], "a");
    }
}
