//! Labels, annotations and reasons that users, their tools and older controllers know. They are a contract.

/// On ReplicaSets, their pods and in the selectors of Services: which version.
pub const HASH: &str = "rollouts-pod-template-hash";
/// On a Rollout and its ReplicaSets: the number of the version.
pub const REVISION: &str = "rollout.argoproj.io/revision";
/// On a ReplicaSet: the numbers it had before somebody went back to it.
pub const REVISION_HISTORY: &str = "rollout.argoproj.io/revision-history";
/// On a ReplicaSet: the replicas of the Rollout when it was sized last.
pub const DESIRED_REPLICAS: &str = "rollout.argoproj.io/desired-replicas";
/// On a Rollout: the generation of the workload it refers to.
pub const WORKLOAD_GENERATION: &str = "rollout.argoproj.io/workload-generation";
/// On a ReplicaSet: labels and annotations that its pods have while it has its role.
pub const EPHEMERAL_METADATA: &str = "rollout.argoproj.io/ephemeral-metadata";
/// On a ReplicaSet: when it is scaled down.
pub const SCALE_DOWN_DEADLINE: &str = "scale-down-deadline";
/// On Services and routes: whose they are.
pub const MANAGED_BY: &str = "argo-rollouts.argoproj.io/managed-by-rollouts";
/// Which of several controllers looks after an object.
pub const INSTANCE_ID: &str = "argo-rollouts.argoproj.io/controller-instance-id";
/// On a ReplicaSet of an experiment.
pub const EXPERIMENT_NAME: &str = "experiment.argoproj.io/name";
/// And which of its versions it is.
pub const EXPERIMENT_TEMPLATE: &str = "experiment.argoproj.io/template-name";
/// On an AnalysisRun: what it is for.
pub const RUN_TYPE: &str = "rollout-type";
/// On an AnalysisRun of a step: which step.
pub const STEP_INDEX: &str = "step-index";

/// Annotations of a Rollout that its ReplicaSets do not get.
pub const NOT_COPIED: [&str; 5] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    "notified.notifications.argoproj.io",
];

/// Types of conditions.
pub mod condition {
    pub const PROGRESSING: &str = "Progressing";
    pub const AVAILABLE: &str = "Available";
    pub const HEALTHY: &str = "Healthy";
    pub const COMPLETED: &str = "Completed";
    pub const PAUSED: &str = "Paused";
    pub const INVALID_SPEC: &str = "InvalidSpec";
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
}

/// Reasons of conditions and events.
pub mod reason {
    pub const ABORTED: &str = "RolloutAborted";
    pub const AVAILABLE: &str = "AvailableReason";
    pub const COMPLETED: &str = "RolloutCompleted";
    pub const FIRST_SEEN: &str = "RolloutAddedToInformer";
    pub const FOUND: &str = "FoundNewReplicaSet";
    pub const HEALTHY: &str = "RolloutHealthy";
    pub const INVALID_SPEC: &str = "InvalidSpec";
    pub const NEW_SET: &str = "NewReplicaSetCreated";
    pub const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
    pub const NOT_AVAILABLE: &str = "ReplicaSetNotAvailable";
    pub const NOT_COMPLETED: &str = "RolloutNotCompleted";
    pub const PAUSED: &str = "RolloutPaused";
    pub const RESUMED: &str = "RolloutResumed";
    pub const RETRY: &str = "RolloutRetry";
    pub const SCALING: &str = "ScalingReplicaSet";
    pub const SKIP_STEPS: &str = "SkipSteps";
    pub const STEP_COMPLETED: &str = "RolloutStepCompleted";
    pub const SWITCH_SERVICE: &str = "SwitchService";
    pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub const TRAFFIC_ERROR: &str = "TrafficRoutingError";
    pub const UPDATED: &str = "RolloutUpdated";
    pub const SET_UPDATED: &str = "ReplicaSetUpdated";
    pub const WEIGHT: &str = "TrafficWeightUpdated";
}

/// Why an update waits.
pub mod pause {
    pub const CANARY_STEP: &str = "CanaryPauseStep";
    pub const BLUE_GREEN: &str = "BlueGreenPause";
    pub const INCONCLUSIVE_RUN: &str = "InconclusiveAnalysisRun";
    pub const INCONCLUSIVE_EXPERIMENT: &str = "InconclusiveExperiment";
}
