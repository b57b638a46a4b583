//! What a container is started with: environment, command line, user, limits.
//!
//! Comes in: the pod, its container and the objects it refers to. Goes out: arguments for the engine, or a sentence
//! about what is missing.

use std::collections::HashMap;

use serde_json::Value;
use slipway_dialect::quantity;

use crate::api::Cluster;
use crate::bootstrap::NODE;
use crate::value::{Json as _, base64_decode};

/// The environment in order; later names win, and `$(NAME)` refers to earlier ones.
pub(super) fn environment(
    cluster: &Cluster,
    pod: &Value,
    container: &Value,
) -> Result<Vec<(String, String)>, String> {
    let mut env: Vec<(String, String)> = Vec::new();
    let set = |env: &mut Vec<(String, String)>, name: &str, value: String| match env
        .iter_mut()
        .find(|(n, _)| n == name)
    {
        Some(entry) => entry.1 = value,
        None => env.push((name.to_owned(), value)),
    };
    for (name, value) in service_links(cluster, pod) {
        set(&mut env, &name, value);
    }
    for source in container.list_at("envFrom") {
        let prefix = source.str_at("prefix");
        for (name, value) in whole_map(cluster, pod.namespace(), source)? {
            set(&mut env, &format!("{prefix}{name}"), value);
        }
    }
    for variable in container.list_at("env") {
        let name = variable.str_at("name");
        let value = match variable.get("valueFrom") {
            None => Some(expand(variable.str_at("value"), &env)),
            Some(from) => value_from(cluster, pod, container, from)?,
        };
        if let Some(value) = value {
            set(&mut env, name, value);
        }
    }
    Ok(env)
}

/// `$(NAME)` becomes the value, `$$(NAME)` stays as `$(NAME)`, unknown names stay as they are.
pub(super) fn expand(text: &str, env: &[(String, String)]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("$$") {
            out.push('$');
            rest = &rest[2..];
        } else if let Some(end) = rest.strip_prefix("$(").and_then(|r| r.find(')')) {
            let name = &rest[2..2 + end];
            match env.iter().find(|(n, _)| n == name) {
                Some((_, value)) => out.push_str(value),
                None => out.push_str(&rest[..end + 3]),
            }
            rest = &rest[end + 3..];
        } else {
            out.push('$');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

fn service_links(cluster: &Cluster, pod: &Value) -> Vec<(String, String)> {
    let mut env = Vec::new();
    let all = pod.at("spec.enableServiceLinks").and_then(Value::as_bool).unwrap_or(true);
    let own = if all { cluster.list("services", Some(pod.namespace())) } else { Vec::new() };
    let api = cluster
        .get("services", "default", "kubernetes")
        .into_iter()
        .filter(|_| pod.namespace() != "default" || !all);
    for service in own.into_iter().chain(api) {
        let address = service.str_at("spec.clusterIP");
        if address.is_empty() || address == "None" {
            continue;
        }
        let name = service.name().to_uppercase().replace('-', "_");
        let ports = service.list_at("spec.ports");
        let Some(first) = ports.first() else { continue };
        env.push((format!("{name}_SERVICE_HOST"), address.to_owned()));
        env.push((format!("{name}_SERVICE_PORT"), first.int_at("port").unwrap_or(0).to_string()));
        for port in ports {
            let number = port.int_at("port").unwrap_or(0);
            let protocol = port.str_at("protocol");
            if !port.str_at("name").is_empty() {
                let word = port.str_at("name").to_uppercase().replace('-', "_");
                env.push((format!("{name}_SERVICE_PORT_{word}"), number.to_string()));
            }
            let base = format!("{name}_PORT_{number}_{protocol}");
            let url = format!("{}://{address}:{number}", protocol.to_lowercase());
            if port == first {
                env.push((format!("{name}_PORT"), url.clone()));
            }
            env.push((base.clone(), url));
            env.push((format!("{base}_PROTO"), protocol.to_lowercase()));
            env.push((format!("{base}_PORT"), number.to_string()));
            env.push((format!("{base}_ADDR"), address.to_owned()));
        }
    }
    env
}

fn whole_map(cluster: &Cluster, namespace: &str, source: &Value) -> Result<Vec<(String, String)>, String> {
    if let Some(reference) = source.get("configMapRef") {
        let Some(object) = cluster.get("configmaps", namespace, reference.str_at("name")) else {
            return missing(reference, "configmap", reference.str_at("name"));
        };
        let data = object.map_at("data").into_iter().flatten();
        return Ok(data.map(|(k, v)| (k.clone(), v.as_str().unwrap_or("").to_owned())).collect());
    }
    if let Some(reference) = source.get("secretRef") {
        let Some(object) = cluster.get("secrets", namespace, reference.str_at("name")) else {
            return missing(reference, "secret", reference.str_at("name"));
        };
        let data = object.map_at("data").into_iter().flatten();
        return Ok(data.map(|(k, v)| (k.clone(), decode_text(v))).collect());
    }
    Ok(Vec::new())
}

fn missing<T: Default>(reference: &Value, what: &str, name: &str) -> Result<T, String> {
    if reference.bool_at("optional") { Ok(T::default()) } else { Err(format!("{what} \"{name}\" not found")) }
}

fn decode_text(value: &Value) -> String {
    String::from_utf8_lossy(&base64_decode(value.as_str().unwrap_or("")).unwrap_or_default()).into_owned()
}

fn value_from(
    cluster: &Cluster,
    pod: &Value,
    container: &Value,
    from: &Value,
) -> Result<Option<String>, String> {
    let namespace = pod.namespace();
    if let Some(reference) = from.get("configMapKeyRef") {
        let (name, key) = (reference.str_at("name"), reference.str_at("key"));
        let Some(object) = cluster.get("configmaps", namespace, name) else {
            return missing(reference, "configmap", name);
        };
        return match object["data"].get(key).and_then(Value::as_str) {
            Some(value) => Ok(Some(value.to_owned())),
            None if reference.bool_at("optional") => Ok(None),
            None => Err(format!("couldn't find key {key} in ConfigMap {namespace}/{name}")),
        };
    }
    if let Some(reference) = from.get("secretKeyRef") {
        let (name, key) = (reference.str_at("name"), reference.str_at("key"));
        let Some(object) = cluster.get("secrets", namespace, name) else {
            return missing(reference, "secret", name);
        };
        return match object["data"].get(key) {
            Some(value) => Ok(Some(decode_text(value))),
            None if reference.bool_at("optional") => Ok(None),
            None => Err(format!("couldn't find key {key} in Secret {namespace}/{name}")),
        };
    }
    if let Some(reference) = from.get("fieldRef") {
        return Ok(Some(field(pod, reference.str_at("fieldPath"))));
    }
    if let Some(reference) = from.get("resourceFieldRef") {
        return Ok(Some(resource_field(pod, container, reference)));
    }
    Ok(None)
}

/// The downward API's fields.
pub(super) fn field(pod: &Value, path: &str) -> String {
    for list in ["labels", "annotations"] {
        if let Some(rest) = path.strip_prefix(&format!("metadata.{list}")) {
            let map = pod.map_at(&format!("metadata.{list}"));
            if let Some(key) = rest.strip_prefix("['").and_then(|r| r.strip_suffix("']")) {
                return map.and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or("").to_owned();
            }
            let lines = map.into_iter().flatten().map(|(k, v)| format!("{k}={:?}", v.as_str().unwrap_or("")));
            return lines.collect::<Vec<_>>().join("\n");
        }
    }
    match path {
        "spec.nodeName" => NODE.to_owned(),
        "status.hostIP" | "status.hostIPs" => "127.0.0.1".to_owned(),
        "status.podIPs" => pod.str_at("status.podIP").to_owned(),
        other => pod.str_at(other).to_owned(),
    }
}

pub(super) fn resource_field(pod: &Value, container: &Value, reference: &Value) -> String {
    let name = reference.str_at("containerName");
    let target = pod
        .list_at("spec.containers")
        .iter()
        .find(|c| !name.is_empty() && c.str_at("name") == name)
        .unwrap_or(container);
    let resource = reference.str_at("resource");
    let divisor =
        reference.get("divisor").and_then(quantity::amount).filter(|divisor| *divisor != 0.0).unwrap_or(1.0);
    let amount =
        target.at(&format!("resources.{resource}")).and_then(quantity::amount).unwrap_or_else(|| {
            if resource.ends_with("cpu") {
                std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64)
            } else {
                0.0
            }
        });
    format!("{}", (amount / divisor).ceil())
}

/// Names that the engine's own command line reads from its environment; their values go through arguments instead.
fn is_sensitive_to_engine(name: &str) -> bool {
    matches!(
        name,
        "PATH"
            | "HOME"
            | "TMPDIR"
            | "USER"
            | "LANG"
            | "SHELL"
            | "TERM"
            | "GODEBUG"
            | "GOMAXPROCS"
            | "NOTIFY_SOCKET"
            | "LISTEN_FDS"
            | "LISTEN_PID"
    ) || [
        "XDG_",
        "CONTAINER",
        "DOCKER",
        "PODMAN",
        "LD_",
        "STORAGE_",
        "BUILDAH",
        "REGISTRY_",
        "_CONTAINERS",
        "DBUS_",
    ]
    .iter()
    .any(|p| name.starts_with(p))
        || name.to_lowercase().ends_with("_proxy")
}

/// Arguments for the environment. Values travel in the command's own environment, where other users cannot read them.
pub(super) fn env_arguments(env: Vec<(String, String)>) -> (Vec<String>, HashMap<String, String>) {
    let mut args = Vec::new();
    let mut carried = HashMap::new();
    for (name, value) in env {
        args.push("-e".to_owned());
        if is_sensitive_to_engine(&name) || value.contains('\0') {
            args.push(format!("{name}={value}"));
        } else {
            args.push(name.clone());
            carried.insert(name, value);
        }
    }
    (args, carried)
}

/// User, capabilities and the like. A refused combination is an error.
pub(super) fn security(pod: &Value, container: &Value) -> Result<Vec<String>, String> {
    let own = |field: &str| {
        container
            .at(&format!("securityContext.{field}"))
            .or_else(|| pod.at(&format!("spec.securityContext.{field}")))
    };
    let mut args: Vec<String> = Vec::new();
    let mut push = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
    let user = own("runAsUser").and_then(Value::as_i64);
    let group = own("runAsGroup").and_then(Value::as_i64);
    match (user, group) {
        (Some(user), Some(group)) => push("--user", format!("{user}:{group}")),
        (Some(user), None) => push("--user", user.to_string()),
        (None, Some(group)) => push("--user", format!("0:{group}")),
        (None, None) => {}
    }
    if own("runAsNonRoot").and_then(Value::as_bool) == Some(true) && user == Some(0) {
        return Err("container's runAsUser breaks non-root policy".to_owned());
    }
    for group in pod
        .list_at("spec.securityContext.supplementalGroups")
        .iter()
        .chain(pod.at("spec.securityContext.fsGroup"))
    {
        push("--group-add", group.to_string());
    }
    for capability in container.list_at("securityContext.capabilities.add").iter().filter_map(Value::as_str) {
        push("--cap-add", capability.to_owned());
    }
    for capability in container.list_at("securityContext.capabilities.drop").iter().filter_map(Value::as_str)
    {
        push("--cap-drop", capability.to_owned());
    }
    if container.bool_at("securityContext.readOnlyRootFilesystem") {
        args.push("--read-only".to_owned());
    }
    if container.bool_at("securityContext.privileged") {
        args.push("--privileged".to_owned());
    }
    if container.at("securityContext.allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        args.extend(["--security-opt".to_owned(), "no-new-privileges".to_owned()]);
    }
    Ok(args)
}

pub(super) fn resources(container: &Value) -> Vec<String> {
    let mut args = Vec::new();
    let amount = |path: &str| container.at(path).and_then(quantity::amount);
    if let Some(cpus) = amount("resources.limits.cpu") {
        args.extend(["--cpus".to_owned(), format!("{cpus:.3}")]);
    }
    if let Some(bytes) = amount("resources.limits.memory") {
        // Engines refuse less than 6 MiB.
        args.extend(["--memory".to_owned(), format!("{}", (bytes as i64).max(6 << 20))]);
    }
    if let Some(cpus) = amount("resources.requests.cpu") {
        args.extend(["--cpu-shares".to_owned(), ((cpus * 1024.0) as i64).max(2).to_string()]);
    }
    args
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn references_are_expanded_and_escapes_kept() {
        let env = [("A".to_owned(), "1".to_owned()), ("B_C".to_owned(), "two".to_owned())];
        for (text, expected) in [
            ("x$(A)y", "x1y"),
            ("$(A)-$(B_C)", "1-two"),
            ("$$(A)", "$(A)"),
            ("$(MISSING)", "$(MISSING)"),
            ("cost $5 $A $(", "cost $5 $A $("),
        ] {
            assert_eq!(expand(text, &env), expected);
        }
    }
}
