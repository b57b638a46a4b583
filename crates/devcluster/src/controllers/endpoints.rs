//! Endpoints and EndpointSlices: which pods stand behind a service.

use serde_json::{Map, Value, json};

use super::{Again, MANAGER, owner_reference, pods};
use crate::api::{Caller, Cluster, DeleteOptions, match_labels};
use crate::bootstrap::NODE;
use crate::error::ApiResult;
use crate::value::Json as _;

const SLICES: &str = "discovery.k8s.io/endpointslices";

pub(super) fn of_pod(cluster: &Cluster, pod: &Value) -> Vec<(String, String)> {
    pods::selecting(cluster, "services", pod)
}

pub(super) async fn reconcile(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(service) = cluster.get("services", namespace, name) else {
        remove(cluster, "endpoints", namespace, name).await?;
        return Ok(None);
    };
    load_balancer(cluster, &service).await?;
    let Some(selector) = service.at("spec.selector").filter(|s| s.as_object().is_some_and(|m| !m.is_empty())) else {
        return Ok(None);
    };
    let mut members: Vec<Value> = cluster
        .list("pods", Some(namespace))
        .into_iter()
        .filter(|pod| match_labels(selector, pod.map_at("metadata.labels")))
        .filter(|pod| !pod.str_at("status.podIP").is_empty() && !pods::is_finished(pod))
        .collect();
    members.sort_by_key(|pod| pod.str_at("status.podIP").to_owned());
    write_endpoints(cluster, &service, &members).await?;
    write_slice(cluster, &service, &members).await?;
    Ok(None)
}

/// On one machine the ClusterIP is as external as it gets.
async fn load_balancer(cluster: &Cluster, service: &Value) -> ApiResult<()> {
    let wanted = match service.str_at("spec.type") {
        "LoadBalancer" => json!({"ingress": [{"ip": service["spec"]["clusterIP"], "ipMode": "VIP"}]}),
        _ => json!({}),
    };
    if service.at("status.loadBalancer") == Some(&wanted) {
        return Ok(());
    }
    cluster
        .modify("services", service.namespace(), service.name(), "status", MANAGER, |live| live.set_at("status.loadBalancer", wanted))
        .await?;
    Ok(())
}

/// The number of a service port's target in one pod.
pub(crate) fn target_port(port: &Value, pod: &Value) -> Option<i64> {
    match port.get("targetPort") {
        Some(Value::Number(number)) => number.as_i64(),
        Some(Value::String(name)) => pod
            .list_at("spec.containers")
            .iter()
            .chain(pod.list_at("spec.initContainers"))
            .flat_map(|c| c.list_at("ports"))
            .find(|p| p.str_at("name") == name && p.str_at("protocol") == port.str_at("protocol"))
            .and_then(|p| p.int_at("containerPort")),
        _ => port.int_at("port"),
    }
}

fn ports_of(service: &Value, pod: &Value) -> Vec<Value> {
    service
        .list_at("spec.ports")
        .iter()
        .filter_map(|port| {
            let number = target_port(port, pod)?;
            let mut out = json!({"name": port.str_at("name"), "port": number, "protocol": port.str_at("protocol")});
            if let Some(protocol) = port.get("appProtocol") {
                out["appProtocol"] = protocol.clone();
            }
            Some(out)
        })
        .collect()
}

fn counts_as_ready(service: &Value, pod: &Value) -> bool {
    service.bool_at("spec.publishNotReadyAddresses") || (pods::is_ready(pod) && !pods::is_deleting(pod))
}

fn target(pod: &Value) -> Value {
    json!({"kind": "Pod", "name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()})
}

async fn write_endpoints(cluster: &Cluster, service: &Value, members: &[Value]) -> ApiResult<()> {
    let mut subsets: Vec<(Vec<Value>, Vec<Value>, Vec<Value>)> = Vec::new();
    for pod in members.iter().filter(|pod| !pods::is_deleting(pod)) {
        let mut ports = ports_of(service, pod);
        for port in &mut ports {
            if port.str_at("name").is_empty() {
                port.remove_at("name");
            }
        }
        let mut address = json!({"ip": pod["status"]["podIP"], "nodeName": NODE, "targetRef": target(pod)});
        if !pod.str_at("spec.hostname").is_empty() && pod.str_at("spec.subdomain") == service.name() {
            address["hostname"] = pod["spec"]["hostname"].clone();
        }
        let at = subsets.iter().position(|(p, _, _)| *p == ports).unwrap_or_else(|| {
            subsets.push((ports, Vec::new(), Vec::new()));
            subsets.len() - 1
        });
        if counts_as_ready(service, pod) { subsets[at].1.push(address) } else { subsets[at].2.push(address) }
    }
    let subsets: Vec<Value> = subsets
        .into_iter()
        .map(|(ports, ready, not_ready)| {
            let mut subset = Map::new();
            for (name, list) in [("addresses", ready), ("notReadyAddresses", not_ready), ("ports", ports)] {
                if !list.is_empty() {
                    subset.insert(name.to_owned(), Value::Array(list));
                }
            }
            Value::Object(subset)
        })
        .collect();
    let mut object = json!({"metadata": {"name": service.name(), "labels": labels(service, "endpoints.kubernetes.io/managed-by", "endpoint-controller")}});
    if !subsets.is_empty() {
        object["subsets"] = Value::Array(subsets);
    }
    put(cluster, "endpoints", service.namespace(), object, &["subsets"]).await
}

fn labels(service: &Value, key: &str, manager: &str) -> Value {
    let mut labels = service.at("metadata.labels").cloned().unwrap_or(json!({}));
    labels[key] = json!(manager);
    if service.str_at("spec.clusterIP") == "None" {
        labels["service.kubernetes.io/headless"] = json!("");
    }
    labels
}

async fn write_slice(cluster: &Cluster, service: &Value, members: &[Value]) -> ApiResult<()> {
    let endpoints: Vec<Value> = members
        .iter()
        .map(|pod| {
            let ready = pods::is_ready(pod);
            let mut endpoint = json!({
                "addresses": [pod["status"]["podIP"]], "nodeName": NODE, "targetRef": target(pod),
                "conditions": {"ready": counts_as_ready(service, pod), "serving": ready, "terminating": pods::is_deleting(pod)},
            });
            if !pod.str_at("spec.hostname").is_empty() && pod.str_at("spec.subdomain") == service.name() {
                endpoint["hostname"] = pod["spec"]["hostname"].clone();
            }
            endpoint
        })
        .collect();
    let ports = members.first().map(|pod| ports_of(service, pod)).unwrap_or_default();
    let mut labels = labels(service, "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");
    labels["kubernetes.io/service-name"] = json!(service.name());
    let object = json!({
        "metadata": {"name": format!("{}-slice", service.name()), "labels": labels, "ownerReferences": [owner_reference(service)]},
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
    });
    put(cluster, SLICES, service.namespace(), object, &["endpoints", "ports"]).await
}

/// Creates the object, or brings these fields and its labels up to date.
async fn put(cluster: &Cluster, storage: &str, namespace: &str, object: Value, fields: &[&str]) -> ApiResult<()> {
    let name = object.name().to_owned();
    if cluster.store.get(storage, namespace, &name).is_some() {
        cluster
            .modify(storage, namespace, &name, "", MANAGER, |live| {
                live.set_at("metadata.labels", object["metadata"]["labels"].clone());
                for field in fields {
                    match object.get(*field) {
                        Some(value) => live.set_at(field, value.clone()),
                        None => drop(live.remove_at(field)),
                    }
                }
            })
            .await?;
        return Ok(());
    }
    let mut caller = Caller::internal(MANAGER);
    match cluster.create(&cluster.resource(storage), namespace, object, &mut caller).await {
        Err(error) if error.code != 403 => Err(error),
        _ => Ok(()),
    }
}

async fn remove(cluster: &Cluster, storage: &str, namespace: &str, name: &str) -> ApiResult<()> {
    let ours = cluster.get(storage, namespace, name).is_some_and(|object| {
        object.map_at("metadata.labels").is_some_and(|l| l.contains_key("endpoints.kubernetes.io/managed-by"))
    });
    if !ours {
        return Ok(());
    }
    let mut caller = Caller::internal(MANAGER);
    match cluster.delete(&cluster.resource(storage), namespace, name, &DeleteOptions::default(), &mut caller).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
