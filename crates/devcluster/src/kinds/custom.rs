//! Custom resource definitions: what they serve, and what is wrong with them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Column, Resource, Scale, Shape};
use crate::schema::{Node, ShapeError, Type, from_openapi, structural_errors};
use crate::value::{Json as _, now};

/// The served versions of a CRD.
pub(crate) fn custom_resources(crd: &Value) -> Vec<Resource> {
    let established = crd
        .list_at("status.conditions")
        .iter()
        .any(|c| c.str_at("type") == "Established" && c.str_at("status") == "True");
    if !established {
        return Vec::new();
    }
    let versions = crd.list_at("spec.versions");
    let stored = versions.iter().find(|v| v.bool_at("storage")).map(|v| v.str_at("name")).unwrap_or_default();
    let group = crd.str_at("spec.group");
    let names = crd.at("spec.names").cloned().unwrap_or_default();
    let texts =
        |path: &str| names.list_at(path).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    versions
        .iter()
        .filter(|version| version.bool_at("served"))
        .map(|version| Resource {
            group: group.to_owned(),
            version: version.str_at("name").to_owned(),
            kind: names.str_at("kind").to_owned(),
            list_kind: names.str_at("listKind").to_owned(),
            plural: names.str_at("plural").to_owned(),
            singular: names.str_at("singular").to_owned(),
            short: texts("shortNames"),
            categories: texts("categories"),
            namespaced: crd.str_at("spec.scope") == "Namespaced",
            storage: Arc::from(format!("{group}/{}", names.str_at("plural"))),
            stored_as: format!("{group}/{stored}"),
            shape: shape(version, crd.bool_at("spec.preserveUnknownFields")),
            status: version.at("subresources.status").is_some(),
            scale: version.at("subresources.scale").map(|scale| Scale {
                replicas: scale.str_at("specReplicasPath").trim_start_matches('.').to_owned(),
                status_replicas: scale.str_at("statusReplicasPath").trim_start_matches('.').to_owned(),
                selector: scale.str_at("labelSelectorPath").trim_start_matches('.').to_owned(),
            }),
            columns: version.list_at("additionalPrinterColumns").iter().map(column).collect(),
            selectable: version
                .list_at("selectableFields")
                .iter()
                .map(|f| f.str_at("jsonPath").trim_start_matches('.').to_owned())
                .collect(),
            subresources: Vec::new(),
            virtual_only: false,
            deprecation: version.bool_at("deprecated").then(|| deprecation(group, version, &names)),
        })
        .collect()
}

fn deprecation(group: &str, version: &Value, names: &Value) -> String {
    match version.str_at("deprecationWarning") {
        "" => format!("{group}/{} {} is deprecated", version.str_at("name"), names.str_at("kind")),
        own => own.to_owned(),
    }
}

fn shape(version: &Value, preserve: bool) -> Shape {
    let schema = version.at("schema.openAPIV3Schema").cloned().unwrap_or(json!({}));
    let mut node: Node = from_openapi(&schema);
    node.ty = Type::Object;
    node.preserve |= preserve || schema.as_object().is_none_or(|map| map.is_empty());
    Shape::Custom(Arc::new(node), Arc::from(schema.to_string()))
}

fn column(column: &Value) -> Column {
    Column {
        name: column.str_at("name").to_owned(),
        ty: column.str_at("type").to_owned(),
        format: column.str_at("format").to_owned(),
        description: column.str_at("description").to_owned(),
        priority: column.int_at("priority").unwrap_or(0),
        path: column.str_at("jsonPath").to_owned(),
    }
}

/// What keeps a CRD from being accepted.
pub(crate) fn crd_findings(crd: &Value) -> Vec<ShapeError> {
    let mut findings = Vec::new();
    let (plural, group) = (crd.str_at("spec.names.plural"), crd.str_at("spec.group"));
    let wanted = format!("{plural}.{group}");
    if crd.name() != wanted {
        let name = json!(crd.name());
        findings.push(ShapeError::invalid(
            "metadata.name",
            &name,
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    let scope = crd.str_at("spec.scope");
    if !matches!(scope, "Cluster" | "Namespaced") {
        let allowed = ["Cluster".to_owned(), "Namespaced".to_owned()];
        findings.push(ShapeError::unsupported("spec.scope", &json!(scope), &allowed));
    }
    let versions = crd.list_at("spec.versions");
    if versions.is_empty() {
        findings.push(ShapeError::required("spec.versions", "must have at least one version"));
    } else if versions.iter().filter(|v| v.bool_at("storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        findings.push(ShapeError::invalid("spec.versions", &crd["spec"]["versions"], detail));
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        let Some(schema) = version.at("schema.openAPIV3Schema") else {
            findings.push(ShapeError::required(&path, "schemas are required"));
            continue;
        };
        let mut errors = Vec::new();
        structural_errors(schema, &path, &mut errors);
        findings.extend(errors.into_iter().map(|(path, message)| ShapeError {
            path,
            reason: if message.starts_with("Required") {
                "FieldValueRequired"
            } else {
                "FieldValueForbidden"
            },
            message,
        }));
        if schema.str_at("type") != "object" && schema.as_object().is_some_and(|m| !m.is_empty()) {
            findings.push(ShapeError::invalid(
                &format!("{path}.type"),
                &schema["type"],
                "must be object at the root",
            ));
        }
    }
    findings
}

/// The status of a CRD that has just been accepted.
pub(crate) fn established_status(crd: &Value) -> Value {
    let time = now();
    let stored = crd
        .list_at("spec.versions")
        .iter()
        .find(|v| v.bool_at("storage"))
        .map(|v| v.str_at("name").to_owned());
    let mut stored_versions: Vec<Value> = crd.list_at("status.storedVersions").to_vec();
    if let Some(stored) = stored.map(Value::from)
        && !stored_versions.contains(&stored)
    {
        stored_versions.push(stored);
    }
    let old = crd.list_at("status.conditions");
    let condition = |ty: &str, reason: &str, message: &str| {
        let since =
            old.iter().find(|c| c.str_at("type") == ty).map(|c| c.str_at("lastTransitionTime").to_owned());
        json!({"type": ty, "status": "True", "reason": reason, "message": message,
               "lastTransitionTime": since.unwrap_or_else(|| time.clone())})
    };
    json!({
        "acceptedNames": crd.at("spec.names").cloned().unwrap_or_default(),
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "storedVersions": stored_versions,
    })
}
