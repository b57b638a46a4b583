//! CustomResourceDefinitions of the Argo CD kinds, as objects ready to be applied.
//!
//! The schemas name what we know and let the rest pass (`x-kubernetes-preserve-unknown-fields`), as our types do:
//! a manifest written for a newer Argo must not lose fields here. That also keeps them small; upstream's
//! ApplicationSet definition alone has 1.4 MB because it repeats the template inside every generator.

use crate::names::GROUP;
use serde_json::{Map, Value, json};

/// Definitions of Application, ApplicationSet and AppProject.
pub fn manifests() -> Vec<Value> {
    vec![
        definition(Names {
            kind: "Application",
            plural: "applications",
            short: &["app", "apps"],
            // No status subresource: argocd clients write `operation` and `status.operationState` in one update.
            subresources: json!({}),
            columns: json!([
                column("Sync Status", ".status.sync.status", None),
                column("Health Status", ".status.health.status", None),
                column("Revision", ".status.sync.revision", Some(10)),
                column("Project", ".spec.project", Some(10)),
            ]),
            schema: root(
                &["metadata", "spec"],
                &[("spec", application_spec()), ("operation", operation()), ("status", application_status())],
            ),
        }),
        definition(Names {
            kind: "ApplicationSet",
            plural: "applicationsets",
            short: &["appset", "appsets"],
            subresources: json!({"status": {}}),
            columns: json!([]),
            schema: root(
                &["metadata", "spec"],
                &[("spec", application_set_spec()), ("status", application_set_status())],
            ),
        }),
        definition(Names {
            kind: "AppProject",
            plural: "appprojects",
            short: &["appproj", "appprojs"],
            subresources: json!({}),
            columns: json!([]),
            schema: root(
                &["metadata", "spec"],
                &[("spec", project_spec()), ("status", open(&[("jwtTokensByRole", any_map())]))],
            ),
        }),
    ]
}

struct Names<'a> {
    kind: &'a str,
    plural: &'a str,
    short: &'a [&'a str],
    subresources: Value,
    columns: Value,
    schema: Value,
}

fn definition(names: Names<'_>) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{GROUP}", names.plural),
            "labels": {"app.kubernetes.io/name": format!("{}.{GROUP}", names.plural), "app.kubernetes.io/part-of": "argocd"},
        },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": names.kind,
                "listKind": format!("{}List", names.kind),
                "plural": names.plural,
                "singular": names.kind.to_lowercase(),
                "shortNames": names.short,
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": names.columns,
                "schema": {"openAPIV3Schema": names.schema},
                "subresources": names.subresources,
            }],
        },
    })
}

fn column(name: &str, path: &str, priority: Option<i32>) -> Value {
    let mut column = json!({"name": name, "type": "string", "jsonPath": path});
    if let Some(priority) = priority {
        column["priority"] = json!(priority);
    }
    column
}

fn string() -> Value {
    json!({"type": "string"})
}

fn integer() -> Value {
    json!({"type": "integer", "format": "int64"})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn anything() -> Value {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn strings() -> Value {
    list(string())
}

fn string_map() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

fn any_map() -> Value {
    json!({"type": "object", "additionalProperties": anything()})
}

fn properties(fields: &[(&str, Value)]) -> Value {
    Value::Object(
        fields.iter().map(|(name, schema)| (name.to_string(), schema.clone())).collect::<Map<_, _>>(),
    )
}

/// An object whose named fields are typed and whose other fields pass.
fn open(fields: &[(&str, Value)]) -> Value {
    json!({"type": "object", "properties": properties(fields), "x-kubernetes-preserve-unknown-fields": true})
}

fn require(mut schema: Value, required: &[&str]) -> Value {
    schema["required"] = json!(required);
    schema
}

fn root(required: &[&str], fields: &[(&str, Value)]) -> Value {
    let mut all = vec![("apiVersion", string()), ("kind", string()), ("metadata", json!({"type": "object"}))];
    all.extend(fields.iter().cloned());
    json!({"type": "object", "required": required, "properties": properties(&all)})
}

fn name_value() -> Value {
    require(open(&[("name", string()), ("value", string())]), &["name", "value"])
}

fn helm() -> Value {
    open(&[
        ("valueFiles", strings()),
        ("parameters", list(open(&[("name", string()), ("value", string()), ("forceString", boolean())]))),
        ("fileParameters", list(open(&[("name", string()), ("path", string())]))),
        ("releaseName", string()),
        ("values", string()),
        ("valuesObject", json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        ("version", string()),
        ("passCredentials", boolean()),
        ("ignoreMissingValueFiles", boolean()),
        ("skipCrds", boolean()),
        ("skipTests", boolean()),
        ("skipSchemaValidation", boolean()),
        ("namespace", string()),
        ("kubeVersion", string()),
        ("apiVersions", strings()),
    ])
}

fn kustomize() -> Value {
    let target = open(&[
        ("group", string()),
        ("version", string()),
        ("kind", string()),
        ("name", string()),
        ("namespace", string()),
        ("labelSelector", string()),
        ("annotationSelector", string()),
    ]);
    open(&[
        ("namePrefix", string()),
        ("nameSuffix", string()),
        ("images", strings()),
        ("commonLabels", string_map()),
        ("forceCommonLabels", boolean()),
        ("labelWithoutSelector", boolean()),
        ("labelIncludeTemplates", boolean()),
        ("commonAnnotations", string_map()),
        ("forceCommonAnnotations", boolean()),
        ("commonAnnotationsEnvsubst", boolean()),
        ("namespace", string()),
        (
            "replicas",
            list(require(
                open(&[("name", string()), ("count", json!({"x-kubernetes-int-or-string": true}))]),
                &["name", "count"],
            )),
        ),
        (
            "patches",
            list(open(&[
                ("path", string()),
                ("patch", string()),
                ("target", target),
                ("options", json!({"type": "object", "additionalProperties": {"type": "boolean"}})),
            ])),
        ),
        ("components", strings()),
        ("ignoreMissingComponents", boolean()),
        ("version", string()),
        ("kubeVersion", string()),
        ("apiVersions", strings()),
    ])
}

fn directory() -> Value {
    let var =
        require(open(&[("name", string()), ("value", string()), ("code", boolean())]), &["name", "value"]);
    open(&[
        ("recurse", boolean()),
        ("include", string()),
        ("exclude", string()),
        ("disableExtensionFilter", boolean()),
        ("jsonnet", open(&[("extVars", list(var.clone())), ("tlas", list(var)), ("libs", strings())])),
    ])
}

fn plugin() -> Value {
    open(&[
        ("name", string()),
        ("env", list(name_value())),
        (
            "parameters",
            list(open(&[
                ("name", string()),
                ("string", string()),
                ("map", string_map()),
                ("array", strings()),
            ])),
        ),
    ])
}

fn source() -> Value {
    require(
        open(&[
            ("repoURL", string()),
            ("path", string()),
            ("targetRevision", string()),
            ("chart", string()),
            ("ref", string()),
            ("name", string()),
            ("tagPrefix", string()),
            ("helm", helm()),
            ("kustomize", kustomize()),
            ("directory", directory()),
            ("plugin", plugin()),
        ]),
        &["repoURL"],
    )
}

fn source_hydrator() -> Value {
    require(
        open(&[
            (
                "drySource",
                require(
                    open(&[
                        ("repoURL", string()),
                        ("targetRevision", string()),
                        ("path", string()),
                        ("helm", helm()),
                        ("kustomize", kustomize()),
                        ("directory", directory()),
                        ("plugin", plugin()),
                    ]),
                    &["path", "repoURL", "targetRevision"],
                ),
            ),
            (
                "syncSource",
                require(
                    open(&[("targetBranch", string()), ("path", string()), ("repoURL", string())]),
                    &["path", "targetBranch"],
                ),
            ),
            ("hydrateTo", require(open(&[("targetBranch", string())]), &["targetBranch"])),
        ]),
        &["drySource", "syncSource"],
    )
}

fn retry() -> Value {
    open(&[
        ("limit", integer()),
        ("backoff", open(&[("duration", string()), ("factor", integer()), ("maxDuration", string())])),
        ("refresh", boolean()),
    ])
}

fn namespace_metadata() -> Value {
    open(&[("labels", string_map()), ("annotations", string_map())])
}

fn ignore_differences() -> Value {
    list(require(
        open(&[
            ("group", string()),
            ("kind", string()),
            ("name", string()),
            ("namespace", string()),
            ("jsonPointers", strings()),
            ("jqPathExpressions", strings()),
            ("managedFieldsManagers", strings()),
        ]),
        &["kind"],
    ))
}

fn destination() -> Value {
    open(&[("server", string()), ("name", string()), ("namespace", string())])
}

fn application_spec() -> Value {
    let automated = open(&[
        ("enabled", boolean()),
        ("prune", boolean()),
        ("selfHeal", boolean()),
        ("allowEmpty", boolean()),
    ]);
    require(
        open(&[
            ("project", string()),
            ("destination", destination()),
            ("source", source()),
            ("sources", list(source())),
            ("sourceHydrator", source_hydrator()),
            (
                "syncPolicy",
                open(&[
                    ("automated", automated),
                    ("syncOptions", strings()),
                    ("retry", retry()),
                    ("managedNamespaceMetadata", namespace_metadata()),
                ]),
            ),
            ("ignoreDifferences", ignore_differences()),
            ("info", list(name_value())),
            ("revisionHistoryLimit", integer()),
        ]),
        &["destination", "project"],
    )
}

fn initiated_by() -> Value {
    open(&[("username", string()), ("automated", boolean())])
}

fn operation() -> Value {
    let force = || open(&[("force", boolean())]);
    let sync = open(&[
        ("revision", string()),
        ("revisions", strings()),
        ("prune", boolean()),
        ("dryRun", boolean()),
        ("syncStrategy", open(&[("apply", force()), ("hook", force())])),
        (
            "resources",
            list(require(
                open(&[
                    ("group", string()),
                    ("kind", string()),
                    ("name", string()),
                    ("namespace", string()),
                    ("exclude", boolean()),
                ]),
                &["kind", "name"],
            )),
        ),
        ("source", source()),
        ("sources", list(source())),
        ("manifests", strings()),
        ("syncOptions", strings()),
        ("autoHealAttemptsCount", integer()),
    ]);
    open(&[("sync", sync), ("initiatedBy", initiated_by()), ("info", list(name_value())), ("retry", retry())])
}

fn health() -> Value {
    open(&[("status", string()), ("message", string()), ("lastTransitionTime", string())])
}

fn resource_status() -> Value {
    open(&[
        ("group", string()),
        ("version", string()),
        ("kind", string()),
        ("namespace", string()),
        ("name", string()),
        ("status", string()),
        ("health", health()),
        ("hook", boolean()),
        ("requiresPruning", boolean()),
        ("syncWave", integer()),
        ("requiresDeletionConfirmation", boolean()),
    ])
}

fn operation_state() -> Value {
    let resource = open(&[
        ("group", string()),
        ("version", string()),
        ("kind", string()),
        ("namespace", string()),
        ("name", string()),
        ("status", string()),
        ("message", string()),
        ("hookType", string()),
        ("hookPhase", string()),
        ("syncPhase", string()),
        ("images", strings()),
        ("uid", string()),
        ("wave", integer()),
    ]);
    let result = open(&[
        ("revision", string()),
        ("revisions", strings()),
        ("source", open(&[])),
        ("sources", list(source())),
        ("managedNamespaceMetadata", namespace_metadata()),
        ("resources", list(resource)),
    ]);
    require(
        open(&[
            ("operation", operation()),
            ("phase", string()),
            ("message", string()),
            ("syncResult", result),
            ("startedAt", string()),
            ("finishedAt", string()),
            ("retryCount", integer()),
        ]),
        &["operation", "phase", "startedAt"],
    )
}

fn application_status() -> Value {
    let compared_to = open(&[
        ("source", open(&[])),
        ("sources", list(source())),
        ("destination", destination()),
        ("ignoreDifferences", ignore_differences()),
    ]);
    let history = open(&[
        ("id", integer()),
        ("revision", string()),
        ("revisions", strings()),
        ("deployStartedAt", string()),
        ("deployedAt", string()),
        ("source", open(&[])),
        ("sources", list(source())),
        ("initiatedBy", initiated_by()),
    ]);
    let hydration = || {
        open(&[
            ("startedAt", string()),
            ("finishedAt", string()),
            ("phase", string()),
            ("message", string()),
            ("drySHA", string()),
            ("hydratedSHA", string()),
            ("sourceHydrator", open(&[])),
        ])
    };
    open(&[
        ("resources", list(resource_status())),
        (
            "sync",
            require(
                open(&[
                    ("status", string()),
                    ("comparedTo", compared_to),
                    ("revision", string()),
                    ("revisions", strings()),
                ]),
                &["status"],
            ),
        ),
        ("health", health()),
        ("history", list(history)),
        (
            "conditions",
            list(require(
                open(&[("type", string()), ("message", string()), ("lastTransitionTime", string())]),
                &["message", "type"],
            )),
        ),
        ("reconciledAt", string()),
        ("operationState", operation_state()),
        ("observedAt", string()),
        ("sourceType", string()),
        ("sourceTypes", strings()),
        ("summary", open(&[("externalURLs", strings()), ("images", strings()), ("isAppOfApps", boolean())])),
        ("resourceHealthSource", string()),
        ("controllerNamespace", string()),
        (
            "sourceHydrator",
            open(&[
                ("lastSuccessfulOperation", hydration()),
                ("currentOperation", hydration()),
                ("lastComparedDryRevision", string()),
            ]),
        ),
    ])
}

fn application_set_spec() -> Value {
    let template = require(
        open(&[
            (
                "metadata",
                open(&[
                    ("name", string()),
                    ("namespace", string()),
                    ("labels", string_map()),
                    ("annotations", string_map()),
                    ("finalizers", strings()),
                ]),
            ),
            ("spec", open(&[])),
        ]),
        &["metadata", "spec"],
    );
    require(
        open(&[
            ("goTemplate", boolean()),
            ("goTemplateOptions", strings()),
            ("generators", list(open(&[]))),
            ("template", template),
            ("templatePatch", string()),
            (
                "syncPolicy",
                open(&[
                    ("preserveResourcesOnDeletion", boolean()),
                    (
                        "applicationsSync",
                        json!({"type": "string", "enum": ["create-only", "create-update", "create-delete", "sync"]}),
                    ),
                ]),
            ),
            (
                "strategy",
                open(&[("type", string()), ("rollingSync", open(&[])), ("deletionOrder", string())]),
            ),
            ("preservedFields", open(&[("annotations", strings()), ("labels", strings())])),
            (
                "ignoreApplicationDifferences",
                list(open(&[
                    ("name", string()),
                    ("jsonPointers", strings()),
                    ("jqPathExpressions", strings()),
                ])),
            ),
            ("applyNestedSelectors", boolean()),
        ]),
        &["generators", "template"],
    )
}

fn application_set_status() -> Value {
    open(&[
        (
            "conditions",
            list(require(
                open(&[
                    ("type", string()),
                    ("status", string()),
                    ("reason", string()),
                    ("message", string()),
                    ("lastTransitionTime", string()),
                ]),
                &["message", "reason", "status", "type"],
            )),
        ),
        (
            "applicationStatus",
            list(open(&[
                ("application", string()),
                ("status", string()),
                ("message", string()),
                ("step", string()),
                ("targetRevisions", strings()),
                ("lastTransitionTime", string()),
            ])),
        ),
        ("resources", list(resource_status())),
        ("resourcesCount", integer()),
        ("health", health()),
    ])
}

fn project_spec() -> Value {
    let group_kind = || require(open(&[("group", string()), ("kind", string())]), &["group", "kind"]);
    let cluster_rule =
        || require(open(&[("group", string()), ("kind", string()), ("name", string())]), &["group", "kind"]);
    let window = open(&[
        ("kind", string()),
        ("schedule", string()),
        ("duration", string()),
        ("applications", strings()),
        ("namespaces", strings()),
        ("clusters", strings()),
        ("manualSync", boolean()),
        ("timeZone", string()),
        ("andOperator", boolean()),
        ("description", json!({"type": "string", "maxLength": 255})),
        ("syncOverrun", boolean()),
    ]);
    let token = require(open(&[("iat", integer()), ("exp", integer()), ("id", string())]), &["iat"]);
    open(&[
        ("description", json!({"type": "string", "maxLength": 255})),
        ("sourceRepos", strings()),
        ("destinations", list(open(&[("server", string()), ("name", string()), ("namespace", string())]))),
        ("clusterResourceWhitelist", list(cluster_rule())),
        ("clusterResourceBlacklist", list(cluster_rule())),
        ("namespaceResourceWhitelist", list(group_kind())),
        ("namespaceResourceBlacklist", list(group_kind())),
        ("sourceNamespaces", strings()),
        ("permitOnlyProjectScopedClusters", boolean()),
        (
            "roles",
            list(require(
                open(&[
                    ("name", string()),
                    ("description", string()),
                    ("policies", strings()),
                    ("groups", strings()),
                    ("jwtTokens", list(token)),
                ]),
                &["name"],
            )),
        ),
        ("syncWindows", list(window)),
        (
            "orphanedResources",
            open(&[
                ("warn", boolean()),
                ("ignore", list(open(&[("group", string()), ("kind", string()), ("name", string())]))),
            ]),
        ),
        ("signatureKeys", list(require(open(&[("keyID", string())]), &["keyID"]))),
        ("sourceIntegrity", open(&[])),
        (
            "destinationServiceAccounts",
            list(require(
                open(&[("server", string()), ("namespace", string()), ("defaultServiceAccount", string())]),
                &["defaultServiceAccount", "server"],
            )),
        ),
    ])
}
