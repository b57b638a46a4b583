//! `Rollout`: what is wanted (`spec`) and how far it is (`status`), as users of Argo Rollouts know it.

mod canary;
mod status;
mod traffic;

use crate::meta::{ObjectMeta, Time};
use crate::wire::wire_struct;
use serde_json::Value;

pub use canary::*;
pub use status::*;
pub use traffic::*;

wire_struct! {
    /// `argoproj.io/v1alpha1` Rollout.
    Rollout {
        keep { api_version: String, kind: String, metadata: ObjectMeta, spec: RolloutSpec, }
        omit { status: RolloutStatus, }
    }
}

wire_struct! {
    /// `spec`.
    RolloutSpec {
        omit {
            /// One, when nothing is said.
            replicas: Option<i64>,
            selector: Option<LabelSelector>,
            /// Instead of `workloadRef`.
            template: Option<Value>,
            workload_ref: Option<WorkloadRef>,
            min_ready_seconds: i64,
            strategy: RolloutStrategy,
            revision_history_limit: Option<i64>,
            paused: bool,
            progress_deadline_seconds: Option<i64>,
            /// A deadline that passed aborts the update.
            progress_deadline_abort: bool,
            /// Pods older than this are replaced.
            restart_at: Option<Time>,
            analysis: Option<AnalysisHistory>,
            rollback_window: Option<RollbackWindow>,
        }
    }
}

wire_struct! {
    /// A label selector as Kubernetes has it.
    LabelSelector {
        omit { match_labels: std::collections::BTreeMap<String, String>, match_expressions: Vec<SelectorRequirement>, }
    }
}

wire_struct! {
    /// One expression of a label selector.
    SelectorRequirement { keep { key: String, operator: String, } omit { values: Vec<String>, } }
}

wire_struct! {
    /// A Deployment, ReplicaSet or PodTemplate whose template is used.
    WorkloadRef {
        omit {
            api_version: String,
            kind: String,
            name: String,
            /// `never`, `onsuccess` or `progressively`.
            scale_down: String,
        }
    }
}

wire_struct! {
    /// How many analysis runs are kept.
    AnalysisHistory {
        omit { successful_run_history_limit: Option<i64>, unsuccessful_run_history_limit: Option<i64>, }
    }
}

wire_struct! {
    /// Going back to one of so many revisions skips steps and analysis.
    RollbackWindow { omit { revisions: i64, } }
}

wire_struct! {
    /// Exactly one of the two.
    RolloutStrategy { omit { blue_green: Option<BlueGreen>, canary: Option<Canary>, } }
}

wire_struct! {
    /// `spec.strategy.blueGreen`.
    BlueGreen {
        keep { active_service: String, }
        omit {
            preview_service: String,
            preview_replica_count: Option<i64>,
            /// True, when nothing is said.
            auto_promotion_enabled: Option<bool>,
            auto_promotion_seconds: i64,
            max_unavailable: Option<Value> => int_or_string(),
            scale_down_delay_seconds: Option<i64>,
            scale_down_delay_revision_limit: Option<i64>,
            /// Zero: the preview is not scaled down when the update is aborted.
            abort_scale_down_delay_seconds: Option<i64>,
            pre_promotion_analysis: Option<RolloutAnalysis>,
            post_promotion_analysis: Option<RolloutAnalysis>,
            anti_affinity: Option<AntiAffinity>,
            preview_metadata: Option<PodMetadata>,
            active_metadata: Option<PodMetadata>,
        }
    }
}

wire_struct! {
    /// Keeps pods of the new and of the old version on different nodes: exactly one of the two.
    AntiAffinity {
        omit {
            preferred_during_scheduling_ignored_during_execution: Option<PreferredAntiAffinity>,
            required_during_scheduling_ignored_during_execution: Option<crate::Other> => open(),
        }
    }
}

wire_struct! {
    /// How much it is preferred, 1 to 100.
    PreferredAntiAffinity { omit { weight: i64, } }
}

wire_struct! {
    /// Labels and annotations of pods while they have a role.
    PodMetadata {
        omit {
            labels: std::collections::BTreeMap<String, String>,
            annotations: std::collections::BTreeMap<String, String>,
        }
    }
}

wire_struct! {
    /// An analysis of a rollout: which templates, with which arguments.
    RolloutAnalysis {
        omit {
            templates: Vec<AnalysisTemplateRef>,
            args: Vec<RunArgument>,
            dry_run: Vec<DryRun>,
            measurement_retention: Vec<MeasurementRetention>,
            analysis_run_metadata: Option<PodMetadata>,
            /// Of a background analysis: the step at which it begins.
            starting_step: Option<i64>,
        }
    }
}

wire_struct! {
    /// A template by its name.
    AnalysisTemplateRef { omit { template_name: String, cluster_scope: bool, } }
}

wire_struct! {
    /// An argument that the rollout gives to an analysis.
    RunArgument { keep { name: String, } omit { value: Option<String>, value_from: Option<ArgumentSource>, } }
}

wire_struct! {
    /// Where an argument's value comes from.
    ArgumentSource {
        omit {
            /// `Stable` or `Latest`.
            pod_template_hash_value: Option<String>,
            field_ref: Option<FieldRef>,
        }
    }
}

wire_struct! {
    /// A field of the Rollout.
    FieldRef { keep { field_path: String, } }
}

wire_struct! {
    /// A metric that is measured and never decides.
    DryRun { keep { metric_name: String, } }
}

wire_struct! {
    /// How many measurements of a metric are kept.
    MeasurementRetention { keep { metric_name: String, limit: i64, } }
}

impl Rollout {
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    /// What it is asked for: `None` where neither strategy is given, or both.
    pub fn canary(&self) -> Option<&Canary> {
        self.spec.strategy.canary.as_ref()
    }

    pub fn blue_green(&self) -> Option<&BlueGreen> {
        self.spec.strategy.blue_green.as_ref()
    }
}
