//! `Workflow`, `WorkflowTemplate`, `ClusterWorkflowTemplate` and `CronWorkflow`: what is to run, as users of Argo Workflows write it.
//!
//! What belongs to Kubernetes (volumes, containers, affinity) stays as it is written: it is handed on, not looked into. Fields that
//! version 4 of Argo Workflows dropped and older manifests have are here too.

mod artifact;
mod status;
mod template;

pub use artifact::*;
pub use status::*;
pub use template::*;

use crate::meta::{ObjectMeta, Time};
use crate::wire::wire_struct;
use serde_json::Value;
use std::collections::BTreeMap;

wire_struct! {
    /// `argoproj.io/v1alpha1` Workflow; WorkflowTemplate and ClusterWorkflowTemplate are alike.
    Workflow {
        keep { api_version: String, kind: String, metadata: ObjectMeta, spec: WorkflowSpec, }
        omit { status: WorkflowStatus, }
    }
}

wire_struct! {
    /// `argoproj.io/v1alpha1` CronWorkflow.
    CronWorkflow {
        keep { api_version: String, kind: String, metadata: ObjectMeta, spec: CronWorkflowSpec, }
        omit { status: CronWorkflowStatus, }
    }
}

wire_struct! {
    /// What became of a CronWorkflow.
    CronWorkflowStatus {
        omit {
            /// References to the workflows that have not ended.
            active: Vec<Value>,
            last_scheduled_time: Option<Time>,
            conditions: Vec<WorkflowCondition>,
            succeeded: i64,
            failed: i64,
            /// Active or Stopped.
            phase: String,
        }
    }
}

wire_struct! {
    /// `spec` of a CronWorkflow.
    CronWorkflowSpec {
        omit {
            workflow_spec: WorkflowSpec,
            workflow_metadata: Option<PodMetadata>,
            /// Until version 4.
            schedule: String,
            schedules: Vec<String>,
            timezone: String,
            /// Allow, Forbid or Replace.
            concurrency_policy: String,
            starting_deadline_seconds: Option<i64>,
            suspend: bool,
            successful_jobs_history_limit: Option<i64>,
            failed_jobs_history_limit: Option<i64>,
            stop_strategy: Option<StopStrategy>,
            /// Whether it runs when its time has come.
            when: String,
        }
    }
}

wire_struct! {
    /// When a CronWorkflow ends for good. Older manifests say `condition`.
    StopStrategy { omit { expression: String, condition: String, } }
}

wire_struct! {
    /// `spec` of a Workflow.
    WorkflowSpec {
        omit {
            entrypoint: String,
            templates: Vec<Template>,
            /// Merged into each template; its schema is that of `templates`, which need not be told twice.
            template_defaults: Option<Template> => open(),
            arguments: Arguments,
            workflow_template_ref: Option<WorkflowTemplateRef>,
            on_exit: String,
            hooks: BTreeMap<String, LifecycleHook>,
            suspend: Option<bool>,
            /// Stop or Terminate.
            shutdown: String,
            parallelism: Option<i64>,
            active_deadline_seconds: Option<i64>,
            priority: Option<i64>,
            retry_strategy: Option<RetryStrategy>,
            synchronization: Option<Synchronization>,
            service_account_name: String,
            automount_service_account_token: Option<bool>,
            executor: Option<ExecutorConfig>,
            volumes: Vec<Value>,
            volume_claim_templates: Vec<Value>,
            volume_claim_gc as "volumeClaimGC": Option<Gc>,
            node_selector: BTreeMap<String, String>,
            affinity: Option<Value>,
            tolerations: Vec<Value>,
            image_pull_secrets: Vec<Value>,
            host_network: Option<bool>,
            dns_policy: String,
            dns_config: Option<Value>,
            scheduler_name: String,
            pod_priority_class_name: String,
            /// Until version 3.
            pod_priority: Option<i64>,
            host_aliases: Vec<Value>,
            security_context: Option<Value>,
            pod_spec_patch: String,
            pod_metadata: Option<PodMetadata>,
            pod_resources: Option<Value>,
            resource_claims: Vec<Value>,
            pod_disruption_budget: Option<Value>,
            ttl_strategy: Option<crate::analysis::TtlStrategy>,
            pod_gc as "podGC": Option<PodGc>,
            artifact_gc as "artifactGC": Option<WorkflowArtifactGc>,
            artifact_repository_ref: Option<ArtifactRepositoryRef>,
            archive_logs: Option<bool>,
            workflow_metadata: Option<WorkflowMetadata>,
            metrics: Option<Metrics>,
            executor_plugins: Vec<Value>,
        }
    }
}

wire_struct! {
    /// The template that a workflow is made of.
    WorkflowTemplateRef { omit { name: String, cluster_scope: bool, } }
}

wire_struct! {
    /// What is passed on.
    Arguments { omit { parameters: Vec<Parameter>, artifacts: Vec<Artifact>, } }
}

wire_struct! {
    /// A named value.
    Parameter {
        omit {
            name: String,
            default: Option<Value>,
            /// Numbers and truth values are taken as text.
            value: Option<Value>,
            value_from: Option<ValueFrom>,
            global_name: String,
            /// The values that are allowed.
            r#enum as "enum": Option<Vec<Value>>,
            description: String,
        }
    }
}

wire_struct! {
    /// Where a value comes from.
    ValueFrom {
        omit {
            path: String,
            json_path: String,
            jq_filter: String,
            event: String,
            parameter: String,
            supplied: Option<Value>,
            config_map_key_ref: Option<Value>,
            default: Option<Value>,
            expression: String,
        }
    }
}

wire_struct! {
    /// What is kept of the pods that have ended.
    PodGc { omit { strategy: String, label_selector: Option<Value>, delete_delay_duration: String, } }
}

wire_struct! {
    /// When what a workflow made is deleted.
    Gc { omit { strategy: String, } }
}

wire_struct! {
    /// When artifacts are deleted, and by whom.
    WorkflowArtifactGc {
        omit {
            strategy: String,
            pod_metadata: Option<PodMetadata>,
            service_account_name: String,
            force_finalizer_removal: bool,
            pod_spec_patch: String,
        }
    }
}

wire_struct! {
    /// Which repository of artifacts is the default one.
    ArtifactRepositoryRef { omit { config_map: String, key: String, } }
}

wire_struct! {
    /// Labels and annotations for pods.
    PodMetadata { omit { labels: BTreeMap<String, String>, annotations: BTreeMap<String, String>, name: String, generate_name: String, namespace: String, finalizers: Vec<String>, } }
}

wire_struct! {
    /// Labels and annotations for the workflow itself.
    WorkflowMetadata {
        omit {
            labels: BTreeMap<String, String>,
            annotations: BTreeMap<String, String>,
            labels_from: BTreeMap<String, LabelFrom>,
        }
    }
}

wire_struct! {
    /// A label that is computed.
    LabelFrom { omit { expression: String, } }
}

wire_struct! {
    /// What the helper container runs as.
    ExecutorConfig { omit { service_account_name: String, } }
}

wire_struct! {
    /// What is counted.
    Metrics { omit { prometheus: Vec<PrometheusMetric>, } }
}

wire_struct! {
    /// One measurement for Prometheus.
    PrometheusMetric {
        omit {
            name: String,
            help: String,
            labels: Vec<MetricLabel>,
            when: String,
            gauge: Option<Gauge>,
            counter: Option<Counter>,
            histogram: Option<Histogram>,
        }
    }
}

wire_struct! {
    /// A label of a measurement.
    MetricLabel { omit { key: String, value: String, } }
}

wire_struct! {
    /// A value that goes up and down.
    Gauge { omit { value: String, realtime: Option<bool>, operation: String, } }
}

wire_struct! {
    /// A value that grows.
    Counter { omit { value: String, } }
}

wire_struct! {
    /// Values in ranges.
    Histogram { omit { value: String, buckets: Vec<Value>, } }
}
