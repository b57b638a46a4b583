//! `podSpecPatch`: a strategic merge of a pod's spec. Lists of things with names are merged by them, as Kubernetes does it.

use serde_json::{Map, Value};

/// By which field the items of a list are told apart; any other list is replaced.
const KEYS: &[(&str, &str)] = &[
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("imagePullSecrets", "name"),
    ("resourceClaims", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("ports", "containerPort"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
];

pub(super) fn merge(target: &mut Value, patch: &Value) -> Result<(), String> {
    let Value::Object(patch) = patch else { return Err("podSpecPatch is no object".into()) };
    merge_objects(target, patch)
}

fn merge_objects(target: &mut Value, patch: &Map<String, Value>) -> Result<(), String> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = patch
                .iter()
                .filter(|(name, _)| *name != "$patch")
                .map(|(n, v)| (n.clone(), v.clone()))
                .collect();
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (name, value) in patch {
        if name == "$patch" {
            continue;
        }
        if name.starts_with('$') {
            return Err(format!("podSpecPatch: `{name}` is not supported yet"));
        }
        match value {
            Value::Null => {
                if let Some(fields) = target.as_object_mut() {
                    fields.remove(name);
                }
            }
            Value::Object(fields) => merge_objects(&mut target[name.as_str()], fields)?,
            Value::Array(items) => match KEYS.iter().find(|(list, _)| list == name) {
                Some((_, key)) => merge_lists(&mut target[name.as_str()], items, key)?,
                None => target[name.as_str()] = value.clone(),
            },
            other => target[name.as_str()] = other.clone(),
        }
    }
    Ok(())
}

fn merge_lists(target: &mut Value, patch: &[Value], key: &str) -> Result<(), String> {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(list) = target else { return Ok(()) };
    for item in patch {
        let name = item.get(key).filter(|name| !name.is_null());
        let name = name.ok_or_else(|| format!("podSpecPatch: an item of a list has no `{key}`"))?;
        let known = list.iter().position(|one| one[key] == *name);
        match (known, item["$patch"] == "delete", item) {
            (Some(at), true, _) => drop(list.remove(at)),
            (Some(at), false, Value::Object(fields)) => merge_objects(&mut list[at], fields)?,
            (None, false, item) => list.push(item.clone()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_merged_by_what_tells_their_items_apart() {
        let mut spec = json!({"containers": [{"name": "main", "image": "x", "env": [{"name": "A", "value": "1"}]}],
            "tolerations": [{"key": "a"}], "nodeSelector": {"a": "b"}});
        let patch = json!({"containers": [{"name": "main", "resources": {"limits": {"memory": "1Gi"}}, "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
            {"name": "side", "image": "y"}], "tolerations": [{"key": "b"}], "nodeSelector": {"a": null, "c": "d"}});
        merge(&mut spec, &patch).expect("merged");
        assert_eq!(
            spec,
            json!({"containers": [{"name": "main", "image": "x", "resources": {"limits": {"memory": "1Gi"}},
                "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]}, {"name": "side", "image": "y"}],
                "tolerations": [{"key": "b"}], "nodeSelector": {"c": "d"}})
        );
        merge(&mut spec, &json!({"containers": [{"name": "side", "$patch": "delete"}], "nodeSelector": {"$patch": "replace", "x": "y"}}))
            .expect("merged");
        assert_eq!(spec["containers"].as_array().map(Vec::len), Some(1));
        assert_eq!(spec["nodeSelector"], json!({"x": "y"}));
        for wrong in
            [json!([]), json!({"containers": [{"image": "x"}]}), json!({"$setElementOrder/containers": []})]
        {
            assert!(merge(&mut spec, &wrong).is_err(), "{wrong}");
        }
    }
}
