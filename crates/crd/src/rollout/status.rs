//! `status`: how far a rollout is. The words are those that `kubectl argo rollouts` and Argo CD's health read.

use crate::meta::Time;
use crate::wire::wire_struct;
use serde_json::Value;

wire_struct! {
    /// `status`.
    RolloutStatus {
        omit {
            abort: bool,
            aborted_at: Option<Time>,
            promote_full: bool,
            pause_conditions: Vec<PauseCondition>,
            /// We paused it, not a person.
            controller_pause: bool,
            current_pod_hash: String,
            current_step_hash: String,
            current_step_index: Option<i64>,
            stable_rs as "stableRS": String,
            replicas: i64,
            updated_replicas: i64,
            ready_replicas: i64,
            available_replicas: i64,
            hpa_replicas as "HPAReplicas": i64,
            selector: String,
            collision_count: Option<i64>,
            /// A generation as text.
            observed_generation: String,
            workload_observed_generation: String,
            conditions: Vec<RolloutCondition>,
            canary: CanaryStatus,
            blue_green: BlueGreenStatus,
            restarted_at: Option<Time>,
            phase: String,
            message: String,
            alb: Option<Value>,
            albs: Vec<Value>,
            duration: Option<RolloutDuration>,
        }
    }
}

wire_struct! {
    /// How long an update takes.
    RolloutDuration {
        omit {
            rollout_started_at: Option<Time>,
            /// Since when it waits for a person.
            manual_pause_started_at: Option<Time>,
            total_manual_pause_duration_seconds: Option<i64>,
            finished_at: Option<Time>,
            /// `Promoted`, `FastPromoted`, `Aborted`, `Superseded`, `RolledBack`, `FastRolledBack`.
            completion_status: String,
        }
    }
}

wire_struct! {
    /// Why it waits, and since when.
    PauseCondition { keep { reason: String, start_time: Time, } }
}

wire_struct! {
    /// One condition.
    RolloutCondition {
        keep {
            r#type as "type": String,
            status: String,
            last_update_time: Time,
            last_transition_time: Time,
            reason: String,
            message: String,
        }
    }
}

wire_struct! {
    /// `status.canary`.
    CanaryStatus {
        omit {
            current_step_analysis_run_status: Option<RunStatusRef>,
            current_background_analysis_run_status: Option<RunStatusRef>,
            current_experiment: String,
            weights: Option<TrafficWeights>,
            /// `ping` or `pong`.
            stable_ping_pong: String,
            step_plugin_statuses: Vec<Value>,
        }
    }
}

wire_struct! {
    /// `status.blueGreen`.
    BlueGreenStatus {
        omit {
            preview_selector: String,
            active_selector: String,
            scale_up_preview_check_point: bool,
            pre_promotion_analysis_run_status: Option<RunStatusRef>,
            post_promotion_analysis_run_status: Option<RunStatusRef>,
        }
    }
}

wire_struct! {
    /// An analysis run and how it fares.
    RunStatusRef { keep { name: String, status: String, } omit { message: String, } }
}

wire_struct! {
    /// What the routers were told.
    TrafficWeights {
        keep { canary: WeightDestination, stable: WeightDestination, }
        omit { additional: Vec<WeightDestination>, verified: Option<bool>, }
    }
}

wire_struct! {
    /// A share of the requests and whom they go to.
    WeightDestination {
        keep { weight: i64, }
        omit { service_name: String, pod_template_hash: String, }
    }
}
