//! Discovery: which groups, versions and resources there are.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::reply::{json_reply, typed_reply};
use super::{Ask, Body};
use crate::api::Cluster;
use crate::error::{ApiError, ApiResult};
use crate::kinds::{Kinds, Resource};

pub(super) fn paths(cluster: &Cluster) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in cluster.kinds().groups().iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json!({"paths": paths})
}

fn aggregated(ask: &Ask) -> Option<&'static str> {
    let accept: String = ask.header("accept").chars().filter(|c| !c.is_whitespace()).collect();
    accept.split(',').find_map(|part| {
        (part.contains("as=APIGroupDiscoveryList") && part.contains("g=apidiscovery.k8s.io"))
            .then(|| if part.contains("v=v2beta1") { "v2beta1" } else { "v2" })
    })
}

fn aggregated_reply(ask: &Ask, version: &str, core: bool) -> Response<Body> {
    let kinds = ask.cluster.kinds();
    let items: Vec<Value> = kinds
        .groups()
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = kinds.of_version(group, version).map(|r| aggregated_resource(r)).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            let name = if group.is_empty() { json!({"creationTimestamp": null}) } else { json!({"name": group, "creationTimestamp": null}) };
            json!({"metadata": name, "versions": versions})
        })
        .collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {}, "items": items});
    let content_type = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    typed_reply(StatusCode::OK, &content_type, list.to_string())
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind = |r: &Resource| json!({"group": r.group, "version": r.version, "kind": r.kind});
    let mut out = json!({
        "resource": resource.plural, "responseKind": kind(resource), "singularResource": resource.singular,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" }, "verbs": resource.verbs(),
    });
    if !resource.short.is_empty() {
        out["shortNames"] = json!(resource.short);
    }
    if !resource.categories.is_empty() {
        out["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|(name, group, version, kind, verbs)| {
            json!({"subresource": name, "responseKind": {"group": group, "version": version, "kind": kind}, "verbs": verbs})
        })
        .collect();
    if !subresources.is_empty() {
        out["subresources"] = Value::Array(subresources);
    }
    out
}

type Sub = (&'static str, String, String, String, Vec<&'static str>);

fn subresources(resource: &Resource) -> Vec<Sub> {
    let own = |name: &'static str, verbs: &[&'static str]| {
        (name, resource.group.clone(), resource.version.clone(), resource.kind.clone(), verbs.to_vec())
    };
    let mut subs = Vec::new();
    for name in &resource.subresources {
        let other = |group: &str, kind: &str, verbs: &[&'static str]| {
            (*name, group.to_owned(), "v1".to_owned(), kind.to_owned(), verbs.to_vec())
        };
        subs.push(match *name {
            "attach" => other("", "PodAttachOptions", &["create", "get"]),
            "exec" => other("", "PodExecOptions", &["create", "get"]),
            "portforward" => other("", "PodPortForwardOptions", &["create", "get"]),
            "proxy" => other("", "PodProxyOptions", &["get"]),
            "binding" => other("", "Binding", &["create"]),
            "eviction" => other("policy", "Eviction", &["create"]),
            "token" => other("authentication.k8s.io", "TokenRequest", &["create"]),
            "log" => own(*name, &["get"]),
            "finalize" => own(*name, &["update"]),
            _ => own(*name, &["get", "patch", "update"]),
        });
    }
    if resource.scale.is_some() {
        subs.push(("scale", "autoscaling".to_owned(), "v1".to_owned(), "Scale".to_owned(), vec!["get", "patch", "update"]));
    }
    if resource.status {
        subs.push(own("status", &["get", "patch", "update"]));
    }
    subs
}

pub(super) fn core_versions(ask: &Ask) -> Response<Body> {
    match aggregated(ask) {
        Some(version) => aggregated_reply(ask, version, true),
        None => json_reply(
            StatusCode::OK,
            &json!({"kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ask.header("host")}]}),
        ),
    }
}

fn group_value(group: &str, versions: &[String]) -> Value {
    let entries: Vec<Value> =
        versions.iter().map(|v| json!({"groupVersion": format!("{group}/{v}"), "version": v})).collect();
    json!({"name": group, "versions": entries, "preferredVersion": entries.first()})
}

pub(super) fn groups(ask: &Ask) -> Response<Body> {
    if let Some(version) = aggregated(ask) {
        return aggregated_reply(ask, version, false);
    }
    let groups: Vec<Value> = ask
        .cluster
        .kinds()
        .groups()
        .iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| group_value(group, versions))
        .collect();
    json_reply(StatusCode::OK, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

pub(super) fn group(ask: &Ask, name: &str) -> ApiResult<Response<Body>> {
    let groups = ask.cluster.kinds().groups();
    let (_, versions) = groups.iter().find(|(group, _)| group == name).ok_or_else(ApiError::no_such_path)?;
    let mut value = group_value(name, versions);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    Ok(json_reply(StatusCode::OK, &value))
}

pub(super) fn resources(ask: &Ask, group: &str, version: &str) -> ApiResult<Response<Body>> {
    let kinds: std::sync::Arc<Kinds> = ask.cluster.kinds();
    let mut list = Vec::new();
    for resource in kinds.of_version(group, version) {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs(),
        });
        if !resource.short.is_empty() {
            entry["shortNames"] = json!(resource.short);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        list.push(entry);
        for (name, group, version, kind, verbs) in subresources(resource) {
            let mut entry = json!({"name": format!("{}/{name}", resource.plural), "singularName": "",
                "namespaced": resource.namespaced, "kind": kind, "verbs": verbs});
            if (group.as_str(), version.as_str()) != (resource.group.as_str(), resource.version.as_str()) {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            list.push(entry);
        }
    }
    if list.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let value = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": list});
    Ok(json_reply(StatusCode::OK, &value))
}
