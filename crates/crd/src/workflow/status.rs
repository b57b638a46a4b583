//! `status` of a Workflow: what became of each node, as `argo` and the pages read it. The schema says little of what is a copy of
//! something else: the engine alone writes it.

use super::{Inputs, Outputs, Template, TemplateRef, WorkflowSpec};
use crate::meta::Time;
use crate::wire::wire_struct;
use serde_json::Value;
use std::collections::BTreeMap;

wire_struct! {
    /// What became of a workflow.
    WorkflowStatus {
        omit {
            /// Empty, Pending, Running, Succeeded, Failed or Error.
            phase: String,
            started_at: Option<Time>,
            finished_at: Option<Time>,
            estimated_duration: Option<i64>,
            /// Ended of all: `3/7`.
            progress: String,
            message: String,
            /// The nodes, when they are too many for plain text.
            compressed_nodes: String,
            offload_node_status_version: String,
            nodes: BTreeMap<String, NodeStatus>,
            /// Templates of other objects, as they were when they were used first.
            stored_templates: BTreeMap<String, Template> => map_of(open()),
            stored_workflow_template_spec: Option<WorkflowSpec> => open(),
            persistent_volume_claims: Vec<Value>,
            outputs: Option<Outputs>,
            conditions: Vec<WorkflowCondition>,
            resources_duration: BTreeMap<String, i64>,
            synchronization: Option<Value>,
            artifact_repository_ref: Option<Value>,
            artifact_gc_status as "artifactGCStatus": Option<Value>,
            task_results_completion_status: BTreeMap<String, bool>,
        }
    }
}

wire_struct! {
    /// Something that is true of a workflow.
    WorkflowCondition { omit { r#type as "type": String, status: String, message: String, } }
}

wire_struct! {
    /// What became of one node.
    NodeStatus {
        keep { id: String, name: String, display_name: String, r#type as "type": String, }
        omit {
            template_name: String,
            template_ref: Option<TemplateRef>,
            template_scope: String,
            /// Pending, Running, Succeeded, Skipped, Failed, Error or Omitted.
            phase: String,
            boundary_id as "boundaryID": String,
            message: String,
            started_at: Option<Time>,
            finished_at: Option<Time>,
            estimated_duration: Option<i64>,
            progress: String,
            resources_duration: BTreeMap<String, i64>,
            pod_ip as "podIP": String,
            daemoned: Option<bool>,
            node_flag: Option<NodeFlag>,
            inputs: Option<Inputs> => open(),
            outputs: Option<Outputs> => open(),
            children: Vec<String>,
            outbound_nodes: Vec<String>,
            host_node_name: String,
            memoization_status: Option<Value>,
            synchronization_status: Option<Value>,
            task_result_synced: Option<bool>,
            failed_pod_restarts: Option<i64>,
            restarting_pod_uid as "restartingPodUID": String,
        }
    }
}

wire_struct! {
    /// Why a node is there.
    NodeFlag { omit { hooked: bool, retried: bool, } }
}

wire_struct! {
    /// `argoproj.io/v1alpha1` WorkflowTaskResult: what the program in a pod says of its node.
    TaskResult {
        omit { phase: String, message: String, outputs: Option<Outputs>, progress: String, }
    }
}
