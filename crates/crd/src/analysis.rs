//! `AnalysisTemplate`, `ClusterAnalysisTemplate`, `AnalysisRun` and `Experiment`: what is measured, and what was found.

use crate::meta::{ObjectMeta, Time};
use crate::rollout::{
    AnalysisTemplateRef, DryRun, ExperimentService, LabelSelector, MeasurementRetention, PodMetadata,
};
use crate::wire::wire_struct;
use serde_json::Value;
use std::collections::BTreeMap;

wire_struct! {
    /// `argoproj.io/v1alpha1` AnalysisTemplate, and ClusterAnalysisTemplate, which is alike.
    AnalysisTemplate {
        keep { api_version: String, kind: String, metadata: ObjectMeta, spec: AnalysisTemplateSpec, }
    }
}

wire_struct! {
    /// `spec` of a template.
    AnalysisTemplateSpec {
        omit {
            metrics: Vec<Metric>,
            args: Vec<Argument>,
            dry_run: Vec<DryRun>,
            measurement_retention: Vec<MeasurementRetention>,
            /// Templates whose metrics and arguments come along.
            templates: Vec<AnalysisTemplateRef>,
        }
    }
}

wire_struct! {
    /// `argoproj.io/v1alpha1` AnalysisRun.
    AnalysisRun {
        keep { api_version: String, kind: String, metadata: ObjectMeta, spec: AnalysisRunSpec, }
        omit { status: AnalysisRunStatus, }
    }
}

wire_struct! {
    /// `spec` of a run.
    AnalysisRunSpec {
        omit {
            metrics: Vec<Metric>,
            args: Vec<Argument>,
            dry_run: Vec<DryRun>,
            measurement_retention: Vec<MeasurementRetention>,
            /// Ends it; what has not failed has succeeded.
            terminate: bool,
            ttl_strategy: Option<TtlStrategy>,
        }
    }
}

wire_struct! {
    /// When a run that has ended is deleted.
    TtlStrategy {
        omit {
            seconds_after_completion: Option<i64>,
            seconds_after_failure: Option<i64>,
            seconds_after_success: Option<i64>,
        }
    }
}

wire_struct! {
    /// An argument with its value, where it has one.
    Argument { keep { name: String, } omit { value: Option<String>, value_from: Option<ValueSource>, } }
}

wire_struct! {
    /// Where a value comes from.
    ValueSource { omit { secret_key_ref: Option<SecretKeyRef>, field_ref: Option<crate::rollout::FieldRef>, } }
}

wire_struct! {
    /// A key of a Secret.
    SecretKeyRef { keep { name: String, key: String, } }
}

wire_struct! {
    /// What is measured, how often, and what the answer means.
    Metric {
        keep { name: String, provider: BTreeMap<String, Value>, }
        omit {
            interval: String,
            initial_delay: String,
            /// Numbers may be texts, so that arguments can stand in them.
            count: Option<Value> => int_or_string(),
            success_condition: String,
            failure_condition: String,
            failure_limit: Option<Value> => int_or_string(),
            inconclusive_limit: Option<Value> => int_or_string(),
            consecutive_error_limit: Option<Value> => int_or_string(),
            consecutive_success_limit: Option<Value> => int_or_string(),
        }
    }
}

wire_struct! {
    /// `status` of a run.
    AnalysisRunStatus {
        omit {
            phase: String,
            message: String,
            metric_results: Vec<MetricResult>,
            started_at: Option<Time>,
            completed_at: Option<Time>,
            run_summary: Option<RunSummary>,
            dry_run_summary: Option<RunSummary>,
        }
    }
}

wire_struct! {
    /// What was found of one metric.
    MetricResult {
        keep { name: String, phase: String, }
        omit {
            measurements: Vec<Measurement>,
            message: String,
            count: i64,
            successful: i64,
            failed: i64,
            inconclusive: i64,
            error: i64,
            consecutive_error: i64,
            consecutive_success: i64,
            dry_run: bool,
            metadata: BTreeMap<String, String>,
        }
    }
}

wire_struct! {
    /// One measurement.
    Measurement {
        keep { phase: String, }
        omit {
            message: String,
            started_at: Option<Time>,
            finished_at: Option<Time>,
            value: String,
            metadata: BTreeMap<String, String>,
            /// It is asked about again then.
            resume_at: Option<Time>,
        }
    }
}

wire_struct! {
    /// How many metrics ended how.
    RunSummary { omit { count: i64, successful: i64, failed: i64, inconclusive: i64, error: i64, } }
}

wire_struct! {
    /// `argoproj.io/v1alpha1` Experiment.
    Experiment {
        keep { api_version: String, kind: String, metadata: ObjectMeta, spec: ExperimentSpec, }
        omit { status: Value, }
    }
}

wire_struct! {
    /// `spec` of an experiment.
    ExperimentSpec {
        omit {
            templates: Vec<ExperimentTemplate>,
            duration: String,
            progress_deadline_seconds: Option<i64>,
            terminate: bool,
            analyses: Vec<ExperimentAnalysis>,
            scale_down_delay_seconds: Option<i64>,
            dry_run: Vec<DryRun>,
            measurement_retention: Vec<MeasurementRetention>,
            analysis_run_metadata: Option<PodMetadata>,
        }
    }
}

wire_struct! {
    /// A version that runs for a while.
    ExperimentTemplate {
        keep { name: String, }
        omit {
            replicas: Option<i64>,
            min_ready_seconds: i64,
            selector: Option<LabelSelector>,
            template: Option<Value>,
            service: Option<ExperimentService>,
        }
    }
}

wire_struct! {
    /// What is asked of the versions.
    ExperimentAnalysis {
        keep { name: String, template_name: String, }
        omit { cluster_scope: bool, args: Vec<Argument>, required_for_completion: bool, }
    }
}
