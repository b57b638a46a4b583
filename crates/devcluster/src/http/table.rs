//! Tables, which `kubectl get` prints: columns per kind, as data where possible.

use serde_json::{Value, json};

use crate::kinds::Resource;
use crate::value::{Json as _, parse_time, seconds_since};

/// Columns of built-in kinds: name, and how the cell is made. A trailing `+` on the name means only with `-o wide`.
/// A cell is a path (`#` for numbers, `~` where nothing shows as `<none>`), or `@function`.
type Columns = &'static [(&'static str, &'static str)];

fn columns(kind: &str) -> Columns {
    match kind {
        "Pod" => &[
            ("Name", "metadata.name"),
            ("Ready", "@pod-ready"),
            ("Status", "@pod-status"),
            ("Restarts", "@pod-restarts"),
            ("Age", "@age"),
            ("IP+", "~status.podIP"),
            ("Node+", "~spec.nodeName"),
            ("Nominated Node+", "~status.nominatedNodeName"),
            ("Readiness Gates+", "@none"),
        ],
        "Deployment" => &[
            ("Name", "metadata.name"),
            ("Ready", "@ready-of-replicas"),
            ("Up-to-date", "#status.updatedReplicas"),
            ("Available", "#status.availableReplicas"),
            ("Age", "@age"),
            ("Containers+", "@containers"),
            ("Images+", "@images"),
            ("Selector+", "@selector"),
        ],
        "ReplicaSet" | "ReplicationController" => &[
            ("Name", "metadata.name"),
            ("Desired", "#spec.replicas"),
            ("Current", "#status.replicas"),
            ("Ready", "#status.readyReplicas"),
            ("Age", "@age"),
            ("Containers+", "@containers"),
            ("Images+", "@images"),
            ("Selector+", "@selector"),
        ],
        "StatefulSet" => &[
            ("Name", "metadata.name"),
            ("Ready", "@ready-of-replicas"),
            ("Age", "@age"),
            ("Containers+", "@containers"),
            ("Images+", "@images"),
        ],
        "DaemonSet" => &[
            ("Name", "metadata.name"),
            ("Desired", "#status.desiredNumberScheduled"),
            ("Current", "#status.currentNumberScheduled"),
            ("Ready", "#status.numberReady"),
            ("Up-to-date", "#status.updatedNumberScheduled"),
            ("Available", "#status.numberAvailable"),
            ("Node Selector", "@node-selector"),
            ("Age", "@age"),
            ("Containers+", "@containers"),
            ("Images+", "@images"),
            ("Selector+", "@selector"),
        ],
        "Job" => &[
            ("Name", "metadata.name"),
            ("Status", "@job-status"),
            ("Completions", "@completions"),
            ("Duration", "@job-duration"),
            ("Age", "@age"),
            ("Containers+", "@containers"),
            ("Images+", "@images"),
            ("Selector+", "@selector"),
        ],
        "CronJob" => &[
            ("Name", "metadata.name"),
            ("Schedule", "spec.schedule"),
            ("Timezone", "@timezone"),
            ("Suspend", "@suspend"),
            ("Active", "@active"),
            ("Last Schedule", "@last-schedule"),
            ("Age", "@age"),
        ],
        "Service" => &[
            ("Name", "metadata.name"),
            ("Type", "spec.type"),
            ("Cluster-IP", "@cluster-ip"),
            ("External-IP", "@external-ip"),
            ("Port(s)", "@ports"),
            ("Age", "@age"),
            ("Selector+", "@plain-selector"),
        ],
        "Namespace" => &[("Name", "metadata.name"), ("Status", "status.phase"), ("Age", "@age")],
        "Node" => &[
            ("Name", "metadata.name"),
            ("Status", "@node-status"),
            ("Roles", "@roles"),
            ("Age", "@age"),
            ("Version", "status.nodeInfo.kubeletVersion"),
            ("Internal-IP+", "@node-ip"),
            ("External-IP+", "@none"),
            ("OS-Image+", "status.nodeInfo.osImage"),
            ("Kernel-Version+", "status.nodeInfo.kernelVersion"),
            ("Container-Runtime+", "status.nodeInfo.containerRuntimeVersion"),
        ],
        "ConfigMap" => &[("Name", "metadata.name"), ("Data", "@data"), ("Age", "@age")],
        "Secret" => &[("Name", "metadata.name"), ("Type", "type"), ("Data", "@data"), ("Age", "@age")],
        "ServiceAccount" => &[("Name", "metadata.name"), ("Secrets", "@secrets"), ("Age", "@age")],
        "Event" => &[
            ("Last Seen", "@last-seen"),
            ("Type", "type"),
            ("Reason", "reason"),
            ("Object", "@event-object"),
            ("Subobject+", "involvedObject.fieldPath"),
            ("Source+", "source.component"),
            ("Message", "@event-message"),
            ("First Seen+", "@first-seen"),
            ("Count+", "#count"),
            ("Name+", "metadata.name"),
        ],
        "Endpoints" => &[("Name", "metadata.name"), ("Endpoints", "@endpoints"), ("Age", "@age")],
        "EndpointSlice" => &[
            ("Name", "metadata.name"),
            ("AddressType", "addressType"),
            ("Ports", "@slice-ports"),
            ("Endpoints", "@slice-endpoints"),
            ("Age", "@age"),
        ],
        "PersistentVolumeClaim" => &[
            ("Name", "metadata.name"),
            ("Status", "status.phase"),
            ("Volume", "spec.volumeName"),
            ("Capacity", "status.capacity.storage"),
            ("Access Modes", "@access-modes"),
            ("StorageClass", "spec.storageClassName"),
            ("VolumeAttributesClass", "@unset"),
            ("Age", "@age"),
            ("VolumeMode+", "spec.volumeMode"),
        ],
        "PersistentVolume" => &[
            ("Name", "metadata.name"),
            ("Capacity", "spec.capacity.storage"),
            ("Access Modes", "@access-modes"),
            ("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
            ("Status", "status.phase"),
            ("Claim", "@claim"),
            ("StorageClass", "spec.storageClassName"),
            ("Reason", "status.reason"),
            ("Age", "@age"),
        ],
        "StorageClass" => &[
            ("Name", "@class-name"),
            ("Provisioner", "provisioner"),
            ("ReclaimPolicy", "reclaimPolicy"),
            ("VolumeBindingMode", "volumeBindingMode"),
            ("AllowVolumeExpansion", "@expansion"),
            ("Age", "@age"),
        ],
        "Ingress" => &[
            ("Name", "metadata.name"),
            ("Class", "@ingress-class"),
            ("Hosts", "@hosts"),
            ("Address", "@lb-address"),
            ("Ports", "@ingress-ports"),
            ("Age", "@age"),
        ],
        "CustomResourceDefinition" => {
            &[("Name", "metadata.name"), ("Created At", "metadata.creationTimestamp")]
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            &[("Name", "metadata.name"), ("Role", "@role"), ("Age", "@age")]
        }
        "Role" | "ClusterRole" => &[("Name", "metadata.name"), ("Created At", "metadata.creationTimestamp")],
        "Lease" => &[("Name", "metadata.name"), ("Holder", "spec.holderIdentity"), ("Age", "@age")],
        "HorizontalPodAutoscaler" => &[
            ("Name", "metadata.name"),
            ("Reference", "@reference"),
            ("Targets", "@none"),
            ("MinPods", "#spec.minReplicas"),
            ("MaxPods", "#spec.maxReplicas"),
            ("Replicas", "#status.currentReplicas"),
            ("Age", "@age"),
        ],
        "PodDisruptionBudget" => &[
            ("Name", "metadata.name"),
            ("Min Available", "@min-available"),
            ("Max Unavailable", "@max-unavailable"),
            ("Allowed Disruptions", "#status.disruptionsAllowed"),
            ("Age", "@age"),
        ],
        "NetworkPolicy" => &[("Name", "metadata.name"), ("Pod-Selector", "@pod-selector"), ("Age", "@age")],
        "ControllerRevision" => &[
            ("Name", "metadata.name"),
            ("Controller", "@controller"),
            ("Revision", "#revision"),
            ("Age", "@age"),
        ],
        "PriorityClass" => &[("Name", "metadata.name"), ("Value", "#value"), ("Age", "@age")],
        "IngressClass" => &[("Name", "metadata.name"), ("Controller", "spec.controller"), ("Age", "@age")],
        _ => &[("Name", "metadata.name"), ("Created At", "metadata.creationTimestamp")],
    }
}

/// A `meta.k8s.io/v1` Table. `include` is Object, None or (the default) Metadata.
pub(super) fn table(
    resource: &Resource,
    objects: &[Value],
    meta: Value,
    include: &str,
    headers: bool,
) -> Value {
    let definitions = if headers { definitions(resource) } else { Vec::new() };
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": cells(resource, object)});
            match include {
                "None" => {}
                "Object" => row["object"] = object.clone(),
                _ => row["object"] = super::listing::metadata_only(object),
            }
            row
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": definitions, "rows": rows})
}

fn definitions(resource: &Resource) -> Vec<Value> {
    let definition = |name: &str, ty: &str, format: &str, priority: i64, description: &str| json!({"name": name, "type": ty, "format": format, "description": description, "priority": priority});
    if resource.is_custom() {
        let mut list = vec![definition("Name", "string", "name", 0, "")];
        for column in &resource.columns {
            list.push(definition(
                &column.name,
                &column.ty,
                &column.format,
                column.priority,
                &column.description,
            ));
        }
        if resource.columns.is_empty() {
            list.push(definition("Age", "date", "", 0, ""));
        }
        return list;
    }
    columns(&resource.kind)
        .iter()
        .map(|(name, cell)| {
            let format = if *name == "Name" { "name" } else { "" };
            let ty = if cell.starts_with('#') { "integer" } else { "string" };
            definition(name.trim_end_matches('+'), ty, format, i64::from(name.ends_with('+')), "")
        })
        .collect()
}

fn cells(resource: &Resource, object: &Value) -> Vec<Value> {
    if resource.is_custom() {
        let mut row = vec![json!(object.name())];
        for column in &resource.columns {
            row.push(custom_cell(object, &column.path, &column.ty));
        }
        if resource.columns.is_empty() {
            row.push(json!(age(object.str_at("metadata.creationTimestamp"))));
        }
        return row;
    }
    columns(&resource.kind)
        .iter()
        .map(|(_, cell)| match cell.split_at(1) {
            ("@", function) => json!(computed(function, object)),
            ("#", path) => json!(object.int_at(path).unwrap_or(0)),
            ("~", path) => json!(or_none(object.str_at(path).to_owned())),
            _ => json!(object.str_at(cell)),
        })
        .collect()
}

/// The JSONPath of `additionalPrinterColumns`: dotted names, quoted names, indexes and `?(@.x=="y")` filters.
fn custom_cell(object: &Value, path: &str, ty: &str) -> Value {
    let found = slipway_dialect::jsonpath::find(object, path);
    let Some(value) = found.first() else { return Value::Null };
    match (ty, value) {
        ("date", Value::String(text)) => json!(age(text)),
        ("string", value) if found.len() == 1 => match value {
            Value::String(_) => (*value).clone(),
            other => json!(other.to_string()),
        },
        ("string", _) => json!(found.iter().map(|v| text_of(v)).collect::<Vec<_>>().join(",")),
        (_, value) => (*value).clone(),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string())
}

fn age(time: &str) -> String {
    if parse_time(time).is_none() { "<unknown>".to_owned() } else { duration(seconds_since(time)) }
}

/// `5s`, `3m20s`, `4h5m`, `2d3h`, `45d`, `2y30d`: as kubectl shows ages.
fn duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |a: i64, au: &str, b: i64, bu: &str| {
        if b == 0 { format!("{a}{au}") } else { format!("{a}{au}{b}{bu}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10800 => format!("{minutes}m"),
        10800..28800 => pair(hours, "h", minutes % 60, "m"),
        28800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

fn join(object: &Value, list: &str, field: &str) -> String {
    object
        .list_at(list)
        .iter()
        .map(|item| text_of(item.at(field).unwrap_or(&Value::Null)))
        .collect::<Vec<_>>()
        .join(",")
}

fn pairs(value: Option<&Value>) -> String {
    let map = value.and_then(Value::as_object).into_iter().flatten();
    or_none(map.map(|(k, v)| format!("{k}={}", text_of(v))).collect::<Vec<_>>().join(","))
}

fn computed(function: &str, object: &Value) -> String {
    match function {
        "age" => age(object.str_at("metadata.creationTimestamp")),
        "none" => "<none>".to_owned(),
        "unset" => "<unset>".to_owned(),
        "pod-ready" => {
            let sidecars = object
                .list_at("spec.initContainers")
                .iter()
                .filter(|c| c.str_at("restartPolicy") == "Always");
            let total = object.list_at("spec.containers").len() + sidecars.count();
            let statuses = object.list_at("status.containerStatuses").iter();
            let ready = statuses.filter(|s| s.bool_at("ready")).count()
                + object
                    .list_at("status.initContainerStatuses")
                    .iter()
                    .filter(|s| s.bool_at("ready") && s.at("state.running").is_some())
                    .count();
            format!("{ready}/{total}")
        }
        "pod-status" => pod_status(object),
        "pod-restarts" => pod_restarts(object),
        "ready-of-replicas" => {
            format!(
                "{}/{}",
                object.int_at("status.readyReplicas").unwrap_or(0),
                object.int_at("spec.replicas").unwrap_or(1)
            )
        }
        "containers" => join(object, "spec.template.spec.containers", "name"),
        "images" => join(object, "spec.template.spec.containers", "image"),
        "selector" => match object.at("spec.selector.matchLabels") {
            Some(labels) => pairs(Some(labels)),
            None => pairs(object.at("spec.selector")),
        },
        "plain-selector" => pairs(object.at("spec.selector")),
        "pod-selector" => pairs(object.at("spec.podSelector.matchLabels")),
        "node-selector" => pairs(object.at("spec.template.spec.nodeSelector")),
        "job-status" => job_status(object),
        "completions" => {
            let done = object.int_at("status.succeeded").unwrap_or(0);
            match object.int_at("spec.completions") {
                Some(wanted) => format!("{done}/{wanted}"),
                None => match object.int_at("spec.parallelism").unwrap_or(1) {
                    1 => format!("{done}/1"),
                    many => format!("{done}/1 of {many}"),
                },
            }
        }
        "job-duration" => job_duration(object),
        "timezone" => or_none(object.str_at("spec.timeZone").to_owned()),
        "suspend" => if object.bool_at("spec.suspend") { "True" } else { "False" }.to_owned(),
        "active" => object.list_at("status.active").len().to_string(),
        "last-schedule" => match object.str_at("status.lastScheduleTime") {
            "" => "<none>".to_owned(),
            time => age(time),
        },
        "cluster-ip" => or_none(object.str_at("spec.clusterIP").to_owned()),
        "external-ip" => external_ip(object),
        "ports" => service_ports(object),
        "node-status" => node_status(object),
        "roles" => or_none(
            object
                .map_at("metadata.labels")
                .into_iter()
                .flatten()
                .filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/"))
                .collect::<Vec<_>>()
                .join(","),
        ),
        "node-ip" => or_none(
            object
                .list_at("status.addresses")
                .iter()
                .find(|a| a.str_at("type") == "InternalIP")
                .map(|a| a.str_at("address").to_owned())
                .unwrap_or_default(),
        ),
        "data" => ["data", "binaryData"]
            .iter()
            .filter_map(|f| object.map_at(f))
            .map(|m| m.len())
            .sum::<usize>()
            .to_string(),
        "secrets" => object.list_at("secrets").len().to_string(),
        "last-seen" => age(first_of(
            object,
            &[
                "series.lastObservedTime",
                "lastTimestamp",
                "deprecatedLastTimestamp",
                "eventTime",
                "metadata.creationTimestamp",
            ],
        )),
        "first-seen" => age(first_of(
            object,
            &["firstTimestamp", "deprecatedFirstTimestamp", "eventTime", "metadata.creationTimestamp"],
        )),
        "event-object" => {
            let on =
                object.at("involvedObject").or_else(|| object.at("regarding")).cloned().unwrap_or_default();
            format!("{}/{}", on.str_at("kind").to_lowercase(), on.str_at("name"))
        }
        "event-message" => first_of(object, &["message", "note"]).trim().to_owned(),
        "endpoints" => endpoints(object),
        "slice-ports" => match object.list_at("ports") {
            [] => "<unset>".to_owned(),
            ports => ports
                .iter()
                .map(|p| p.int_at("port").map(|n| n.to_string()).unwrap_or("*".into()))
                .collect::<Vec<_>>()
                .join(","),
        },
        "slice-endpoints" => {
            let addresses: Vec<&str> = object
                .list_at("endpoints")
                .iter()
                .flat_map(|e| e.list_at("addresses"))
                .filter_map(Value::as_str)
                .collect();
            if addresses.is_empty() { "<unset>".to_owned() } else { short_list(&addresses, 3) }
        }
        "access-modes" => access_modes(object),
        "claim" => match object.str_at("spec.claimRef.name") {
            "" => String::new(),
            name => format!("{}/{name}", object.str_at("spec.claimRef.namespace")),
        },
        "class-name" => {
            let default = object.map_at("metadata.annotations").is_some_and(|a| {
                a.get("storageclass.kubernetes.io/is-default-class") == Some(&json!("true"))
            });
            if default { format!("{} (default)", object.name()) } else { object.name().to_owned() }
        }
        "expansion" => object.bool_at("allowVolumeExpansion").to_string(),
        "ingress-class" => or_none(object.str_at("spec.ingressClassName").to_owned()),
        "hosts" => {
            let hosts: Vec<&str> = object
                .list_at("spec.rules")
                .iter()
                .map(|r| r.str_at("host"))
                .filter(|h| !h.is_empty())
                .collect();
            if hosts.is_empty() { "*".to_owned() } else { short_list(&hosts, 3) }
        }
        "lb-address" => join(object, "status.loadBalancer.ingress", "ip"),
        "ingress-ports" => if object.list_at("spec.tls").is_empty() { "80" } else { "80, 443" }.to_owned(),
        "role" => format!("{}/{}", object.str_at("roleRef.kind"), object.str_at("roleRef.name")),
        "reference" => format!(
            "{}/{}",
            object.str_at("spec.scaleTargetRef.kind"),
            object.str_at("spec.scaleTargetRef.name")
        ),
        "min-available" => object.at("spec.minAvailable").map(text_of).unwrap_or("N/A".into()),
        "max-unavailable" => object.at("spec.maxUnavailable").map(text_of).unwrap_or("N/A".into()),
        "controller" => crate::api::controller_of(object)
            .map(|o| format!("{}/{}", o.str_at("kind").to_lowercase(), o.str_at("name")))
            .unwrap_or("<none>".into()),
        other => unreachable!("no cell function {other}"),
    }
}

fn first_of<'a>(object: &'a Value, paths: &[&str]) -> &'a str {
    paths.iter().map(|path| object.str_at(path)).find(|text| !text.is_empty()).unwrap_or("")
}

fn short_list(items: &[&str], most: usize) -> String {
    if items.len() <= most {
        return items.join(",");
    }
    format!("{} + {} more...", items[..most].join(","), items.len() - most)
}

/// The word that tells most about a pod, by the rules of `kubectl get pods`.
pub(crate) fn pod_status(pod: &Value) -> String {
    let mut reason = match pod.str_at("status.reason") {
        "" => pod.str_at("status.phase").to_owned(),
        own => own.to_owned(),
    };
    if pod.list_at("spec.schedulingGates").iter().any(|g| !g.str_at("name").is_empty())
        && pod.str_at("spec.nodeName").is_empty()
    {
        reason = "SchedulingGated".to_owned();
    }
    let mut initializing = false;
    let total = pod.list_at("spec.initContainers").len();
    for (index, status) in pod.list_at("status.initContainerStatuses").iter().enumerate() {
        let sidecar = pod
            .list_at("spec.initContainers")
            .iter()
            .any(|c| c.str_at("name") == status.str_at("name") && c.str_at("restartPolicy") == "Always");
        let done = status.at("state.terminated").is_some_and(|t| t.int_at("exitCode") == Some(0));
        if done || (sidecar && status.bool_at("started")) {
            continue;
        }
        initializing = true;
        reason = if let Some(terminated) = status.at("state.terminated") {
            format!("Init:{}", exit_reason(terminated))
        } else {
            match status.str_at("state.waiting.reason") {
                "" | "PodInitializing" => format!("Init:{index}/{total}"),
                waiting => format!("Init:{waiting}"),
            }
        };
        break;
    }
    if !initializing {
        let mut running = false;
        for status in pod.list_at("status.containerStatuses").iter().rev() {
            if !status.str_at("state.waiting.reason").is_empty() {
                reason = status.str_at("state.waiting.reason").to_owned();
            } else if let Some(terminated) = status.at("state.terminated") {
                reason = exit_reason(terminated);
            } else if status.bool_at("ready") && status.at("state.running").is_some() {
                running = true;
            }
        }
        if reason == "Completed" && running {
            let ready = pod
                .list_at("status.conditions")
                .iter()
                .any(|c| c.str_at("type") == "Ready" && c.str_at("status") == "True");
            reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if pod.at("metadata.deletionTimestamp").is_some() {
        reason = "Terminating".to_owned();
    }
    reason
}

fn exit_reason(terminated: &Value) -> String {
    match terminated.str_at("reason") {
        "" => match terminated.int_at("signal").filter(|s| *s != 0) {
            Some(signal) => format!("Signal:{signal}"),
            None => format!("ExitCode:{}", terminated.int_at("exitCode").unwrap_or(0)),
        },
        reason => reason.to_owned(),
    }
}

fn pod_restarts(pod: &Value) -> String {
    let statuses = pod.list_at("status.containerStatuses").iter();
    let (mut count, mut last) = (0, "");
    for status in statuses {
        count += status.int_at("restartCount").unwrap_or(0);
        last = last.max(status.str_at("lastState.terminated.finishedAt"));
    }
    if count == 0 || last.is_empty() { count.to_string() } else { format!("{count} ({} ago)", age(last)) }
}

fn job_status(job: &Value) -> String {
    let has = |ty: &str| {
        job.list_at("status.conditions")
            .iter()
            .any(|c| c.str_at("type") == ty && c.str_at("status") == "True")
    };
    let word = if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if job.at("metadata.deletionTimestamp").is_some() {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    word.to_owned()
}

fn job_duration(job: &Value) -> String {
    let Some(start) = parse_time(job.str_at("status.startTime")) else { return String::new() };
    let end = parse_time(job.str_at("status.completionTime")).unwrap_or_else(jiff::Timestamp::now);
    duration(end.as_second() - start.as_second())
}

fn external_ip(service: &Value) -> String {
    match service.str_at("spec.type") {
        "ExternalName" => service.str_at("spec.externalName").to_owned(),
        "LoadBalancer" => match join(service, "status.loadBalancer.ingress", "ip") {
            text if text.is_empty() => "<pending>".to_owned(),
            text => text,
        },
        _ => or_none(
            service
                .list_at("spec.externalIPs")
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(","),
        ),
    }
}

fn service_ports(service: &Value) -> String {
    let ports = service.list_at("spec.ports").iter().map(|p| {
        let (port, protocol) = (p.int_at("port").unwrap_or(0), p.str_at("protocol"));
        match p.int_at("nodePort").filter(|n| *n > 0) {
            Some(node) => format!("{port}:{node}/{protocol}"),
            None => format!("{port}/{protocol}"),
        }
    });
    or_none(ports.collect::<Vec<_>>().join(","))
}

fn node_status(node: &Value) -> String {
    let ready = node.list_at("status.conditions").iter().find(|c| c.str_at("type") == "Ready");
    let mut text = match ready.map(|c| c.str_at("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.bool_at("spec.unschedulable") {
        text.push_str(",SchedulingDisabled");
    }
    text
}

fn endpoints(object: &Value) -> String {
    let mut list = Vec::new();
    for subset in object.list_at("subsets") {
        for address in subset.list_at("addresses") {
            if subset.list_at("ports").is_empty() {
                list.push(address.str_at("ip").to_owned());
            }
            for port in subset.list_at("ports") {
                list.push(format!("{}:{}", address.str_at("ip"), port.int_at("port").unwrap_or(0)));
            }
        }
    }
    or_none(short_list(&list.iter().map(String::as_str).collect::<Vec<_>>(), 3))
}

fn access_modes(object: &Value) -> String {
    let modes = match object.list_at("status.accessModes") {
        [] => object.list_at("spec.accessModes"),
        modes => modes,
    };
    let short = |mode: &str| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "?",
    };
    modes.iter().filter_map(Value::as_str).map(short).collect::<Vec<_>>().join(",")
}
