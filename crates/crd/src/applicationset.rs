//! `ApplicationSet`: a template and what it is filled with.
//!
//! Generators are kept as they are written: they nest in each other, and only the planner that runs one needs to
//! understand it.

use crate::meta::{ObjectMeta, Time};
use crate::status::ResourceStatus;
use crate::wire::wire_struct;
use crate::words::SetConditionType;
use serde_json::Value;
use std::collections::BTreeMap;

wire_struct! {
    /// `argoproj.io/v1alpha1` ApplicationSet.
    ApplicationSet {
        keep { api_version: String, kind: String, metadata: ObjectMeta, spec: ApplicationSetSpec, }
        omit { status: ApplicationSetStatus, }
    }
}

wire_struct! {
    /// `spec`.
    ApplicationSetSpec {
        keep { generators: Vec<Value> => list(open()), template: ApplicationTemplate, }
        omit {
            go_template: bool,
            go_template_options: Vec<String>,
            template_patch: Option<String>,
            sync_policy: Option<ApplicationSetSyncPolicy>,
            strategy: Option<Value> => open_with(&[
                ("type", String::schema()),
                ("rollingSync", open()),
                ("deletionOrder", String::schema()),
            ]),
            preserved_fields: Option<PreservedFields>,
            ignore_application_differences: Vec<IgnoreApplicationDifference>,
            apply_nested_selectors: bool,
        }
    }
}

wire_struct! {
    /// The Application to be filled; any string may hold placeholders, so `spec` is not typed.
    ApplicationTemplate { keep { metadata: TemplateMeta, spec: Value => open(), } }
}

wire_struct! {
    /// Metadata of the Application to be.
    TemplateMeta {
        omit {
            name: String,
            namespace: String,
            labels: BTreeMap<String, String>,
            annotations: BTreeMap<String, String>,
            finalizers: Vec<String>,
        }
    }
}

wire_struct! {
    /// What the controller may do to the Applications.
    ApplicationSetSyncPolicy {
        omit {
            preserve_resources_on_deletion: bool,
            applications_sync: Option<String> => one_of(&["create-only", "create-update", "create-delete", "sync"]),
        }
    }
}

wire_struct! {
    /// Metadata that is left as others set it.
    PreservedFields { omit { annotations: Vec<String>, labels: Vec<String>, } }
}

wire_struct! {
    /// Differences of the Applications that are left alone.
    IgnoreApplicationDifference {
        omit { name: String, json_pointers: Vec<String>, jq_path_expressions: Vec<String>, }
    }
}

wire_struct! {
    /// `status`.
    ApplicationSetStatus {
        omit {
            conditions: Vec<ApplicationSetCondition>,
            application_status: Vec<ApplicationSetApplicationStatus>,
            resources: Vec<ResourceStatus>,
            resources_count: i64,
            health: Option<Value> => crate::HealthStatus::schema(),
        }
    }
}

wire_struct! {
    /// A condition of an ApplicationSet.
    ApplicationSetCondition {
        keep { kind as "type": SetConditionType, status: String, message: String, reason: String, }
        omit { last_transition_time: Option<Time>, }
    }
}

wire_struct! {
    /// Where one Application is in a rolling sync.
    ApplicationSetApplicationStatus {
        write { application: String, status: String, message: String, step: String, }
        omit { target_revisions: Vec<String>, last_transition_time: Option<Time>, }
    }
}
