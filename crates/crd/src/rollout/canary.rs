//! `spec.strategy.canary` and its steps.

use super::{AntiAffinity, DryRun, PodMetadata, RolloutAnalysis, RunArgument, TrafficRouting};
use crate::wire::wire_struct;
use serde_json::Value;

wire_struct! {
    /// `spec.strategy.canary`.
    Canary {
        omit {
            canary_service: String,
            stable_service: String,
            steps: Vec<CanaryStep>,
            traffic_routing: Option<TrafficRouting>,
            /// A quarter, when nothing is said; "25" is read as a percentage, too.
            max_surge: Option<Value> => int_or_string(),
            max_unavailable: Option<Value> => int_or_string(),
            /// In the background of all steps.
            analysis: Option<RolloutAnalysis>,
            anti_affinity: Option<AntiAffinity>,
            canary_metadata: Option<PodMetadata>,
            stable_metadata: Option<PodMetadata>,
            scale_down_delay_seconds: Option<i64>,
            scale_down_delay_revision_limit: Option<i64>,
            abort_scale_down_delay_seconds: Option<i64>,
            dynamic_stable_scale: bool,
            ping_pong: Option<PingPong>,
            min_pods_per_replica_set: Option<i64>,
            replica_progress_threshold: Option<ProgressThreshold>,
        }
    }
}

wire_struct! {
    /// Two services that take turns at being the stable one.
    PingPong { keep { ping_service: String, pong_service: String, } }
}

wire_struct! {
    /// How many of the wanted pods are enough to go on.
    ProgressThreshold {
        omit {
            /// `Percent` or `Pods`.
            r#type as "type": String,
            value: i64,
        }
    }
}

wire_struct! {
    /// One step: exactly one of these.
    CanaryStep {
        omit {
            set_weight: Option<i64>,
            pause: Option<PauseStep>,
            set_canary_scale: Option<SetCanaryScale>,
            set_header_route: Option<SetHeaderRoute>,
            set_mirror_route: Option<SetMirrorRoute>,
            analysis: Option<RolloutAnalysis>,
            experiment: Option<ExperimentStep>,
            plugin: Option<PluginStep>,
        }
    }
}

wire_struct! {
    /// Waits; without a duration until somebody goes on.
    PauseStep {
        omit {
            /// Seconds as a number, or a duration like `10m`.
            duration: Option<Value> => int_or_string(),
        }
    }
}

wire_struct! {
    /// How many pods the canary has, apart from its weight.
    SetCanaryScale {
        omit { weight: Option<i64>, replicas: Option<i64>, match_traffic_weight: bool, }
    }
}

wire_struct! {
    /// Requests with these headers go to the canary; without a match the route is removed.
    SetHeaderRoute { omit { name: String, r#match as "match": Vec<HeaderMatch>, } }
}

wire_struct! {
    /// A header and what its value is.
    HeaderMatch { keep { header_name: String, } omit { header_value: Option<StringMatch>, } }
}

wire_struct! {
    /// Exactly one of the three.
    StringMatch { omit { exact: String, prefix: String, regex: String, } }
}

wire_struct! {
    /// Requests are also sent to the canary, whose answers nobody sees; without a match the route is removed.
    SetMirrorRoute {
        omit { name: String, r#match as "match": Vec<RouteMatch>, percentage: Option<i64>, }
    }
}

wire_struct! {
    /// Which requests.
    RouteMatch {
        omit {
            method: Option<StringMatch>,
            path: Option<StringMatch>,
            headers: std::collections::BTreeMap<String, StringMatch>,
        }
    }
}

wire_struct! {
    /// A step that a plugin does.
    PluginStep { keep { name: String, } omit { config: Option<Value>, } }
}

wire_struct! {
    /// Several versions side by side for a while.
    ExperimentStep {
        keep { templates: Vec<ExperimentTemplateRef>, }
        omit {
            duration: String,
            analyses: Vec<ExperimentAnalysisRef>,
            dry_run: Vec<DryRun>,
            analysis_run_metadata: Option<PodMetadata>,
            scale_down_delay_seconds: Option<i64>,
        }
    }
}

wire_struct! {
    /// A version that an experiment runs.
    ExperimentTemplateRef {
        keep {
            name: String,
            /// `stable` or `canary`.
            spec_ref: String,
        }
        omit {
            replicas: Option<i64>,
            weight: Option<i64>,
            metadata: Option<PodMetadata>,
            selector: Option<super::LabelSelector>,
            service: Option<ExperimentService>,
        }
    }
}

wire_struct! {
    /// The Service of a template.
    ExperimentService { omit { name: String, } }
}

wire_struct! {
    /// An analysis of an experiment.
    ExperimentAnalysisRef {
        keep { name: String, template_name: String, }
        omit { cluster_scope: bool, args: Vec<RunArgument>, required_for_completion: bool, }
    }
}
