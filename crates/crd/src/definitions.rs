//! CustomResourceDefinitions of the kinds of Argo CD, Argo Rollouts and Argo Workflows, as objects ready to be applied.
//!
//! The schemas are those of the types ([`crate::schema`]); here is what a definition says besides. Letting unknown fields pass
//! keeps them small: upstream's ApplicationSet definition alone has 1.4 MB because it repeats the template inside every
//! generator.

use serde_json::{Value, json};

use crate::analysis::{AnalysisRun, AnalysisTemplate, Experiment};
use crate::names::GROUP;
use crate::rollout::Rollout;
use crate::schema::root;
use crate::workflow::{CronWorkflow, Workflow};
use crate::{AppProject, Application, ApplicationSet};

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
            schema: root::<Application>(),
        }),
        definition(Names {
            kind: "ApplicationSet",
            plural: "applicationsets",
            short: &["appset", "appsets"],
            subresources: json!({"status": {}}),
            columns: json!([]),
            schema: root::<ApplicationSet>(),
        }),
        definition(Names {
            kind: "AppProject",
            plural: "appprojects",
            short: &["appproj", "appprojs"],
            subresources: json!({}),
            columns: json!([]),
            schema: root::<AppProject>(),
        }),
    ]
}

/// Definitions of Rollout, AnalysisTemplate, ClusterAnalysisTemplate, AnalysisRun and Experiment.
pub fn rollout_manifests() -> Vec<Value> {
    let number = |name: &str, path: &str| json!({"name": name, "type": "integer", "jsonPath": path});
    let age = || json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    let plain = |kind, plural, short, schema| Names {
        kind,
        plural,
        short,
        subresources: json!({}),
        columns: json!([age()]),
        schema,
    };
    let status = json!([column("Status", ".status.phase", None), age()]);
    let mut all = vec![
        definition(Names {
            kind: "Rollout",
            plural: "rollouts",
            short: &["ro"],
            subresources: json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.HPAReplicas", "labelSelectorPath": ".status.selector"}}),
            columns: json!([
                number("Desired", ".spec.replicas"),
                number("Current", ".status.replicas"),
                number("Up-to-date", ".status.updatedReplicas"),
                number("Available", ".status.availableReplicas"),
                age(),
            ]),
            schema: root::<Rollout>(),
        }),
        definition(plain("AnalysisTemplate", "analysistemplates", &["at"], root::<AnalysisTemplate>())),
        definition(plain(
            "ClusterAnalysisTemplate",
            "clusteranalysistemplates",
            &["cat"],
            root::<AnalysisTemplate>(),
        )),
        // No status subresource: their status is written with the object.
        definition(Names {
            columns: status.clone(),
            ..plain("AnalysisRun", "analysisruns", &["ar"], root::<AnalysisRun>())
        }),
        definition(Names {
            columns: status,
            ..plain("Experiment", "experiments", &["exp"], root::<Experiment>())
        }),
    ];
    for one in &mut all {
        one["metadata"]["labels"]["app.kubernetes.io/part-of"] = "argo-rollouts".into();
        if one["spec"]["names"]["kind"] == "ClusterAnalysisTemplate" {
            one["spec"]["scope"] = "Cluster".into();
        }
    }
    all
}

/// Definitions of Workflow, WorkflowTemplate, ClusterWorkflowTemplate and CronWorkflow.
pub fn workflow_manifests() -> Vec<Value> {
    let age = |path: &str| json!({"name": "Age", "type": "date", "jsonPath": path});
    let plain = |kind, plural, short| Names {
        kind,
        plural,
        short,
        // No status subresource: clients that resume or retry write the whole object.
        subresources: json!({}),
        columns: json!([age(".metadata.creationTimestamp")]),
        schema: root::<Workflow>(),
    };
    let mut all = vec![
        definition(Names {
            columns: json!([
                column("Status", ".status.phase", None),
                age(".status.startedAt"),
                column("Message", ".status.message", None),
            ]),
            ..plain("Workflow", "workflows", &["wf"])
        }),
        definition(plain("WorkflowTemplate", "workflowtemplates", &["wftmpl"])),
        definition(plain("ClusterWorkflowTemplate", "clusterworkflowtemplates", &["clusterwftmpl", "cwft"])),
        definition(Names {
            columns: json!([
                column("Schedules", ".spec.schedules", None),
                column("Suspended", ".spec.suspend", None),
                column("Last", ".status.lastScheduledTime", None),
                age(".metadata.creationTimestamp"),
            ]),
            schema: root::<CronWorkflow>(),
            ..plain("CronWorkflow", "cronworkflows", &["cwf", "cronwf"])
        }),
    ];
    for one in &mut all {
        one["metadata"]["labels"]["app.kubernetes.io/part-of"] = "argo-workflows".into();
        if one["spec"]["names"]["kind"] == "ClusterWorkflowTemplate" {
            one["spec"]["scope"] = "Cluster".into();
        }
    }
    all
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
