//! `Application.status`: what was found and what was done.

use crate::application::{Destination, IgnoreDifference, InitiatedBy, NamespaceMetadata, Operation};
use crate::meta::Time;
use crate::source::{ApplicationSource, SourceHydrator};
use crate::wire::wire_struct;
use crate::words::{ConditionType, HydratePhase, OperationPhase, ResultCode};
use slipway_model::{HealthCode, SyncCode, Word};

wire_struct! {
    /// `status`.
    ApplicationStatus {
        omit {
            resources: Vec<ResourceStatus>,
            sync: SyncStatus,
            health: HealthStatus,
            history: Vec<RevisionHistory>,
            conditions: Vec<Condition>,
            reconciled_at: Option<Time>,
            operation_state: Option<OperationState>,
            observed_at: Option<Time>,
            source_type: String,
            source_types: Vec<String>,
            summary: Summary,
            /// `appTree` when the health of `resources` is not kept here.
            resource_health_source: String,
            controller_namespace: String,
            source_hydrator: Option<SourceHydratorStatus>,
        }
    }
}

wire_struct! {
    /// `status.sync`.
    SyncStatus {
        keep { status: Word<SyncCode>, }
        omit { compared_to: ComparedTo, revision: String, revisions: Vec<String>, }
    }
}

wire_struct! {
    /// What the live state was compared to.
    ComparedTo {
        omit {
            source: Option<ApplicationSource> => open(),
            sources: Vec<ApplicationSource>,
            destination: Destination,
            ignore_differences: Vec<IgnoreDifference>,
        }
    }
}

wire_struct! {
    /// Health of an application or a resource.
    HealthStatus { omit { status: Word<HealthCode>, message: String, last_transition_time: Option<Time>, } }
}

wire_struct! {
    /// One managed resource.
    ResourceStatus {
        omit {
            group: String,
            version: String,
            kind: String,
            namespace: String,
            name: String,
            status: Word<SyncCode>,
            health: Option<HealthStatus>,
            hook: bool,
            requires_pruning: bool,
            sync_wave: i64,
            requires_deletion_confirmation: bool,
        }
    }
}

wire_struct! {
    /// One successful deployment.
    RevisionHistory {
        write { id: i64, deployed_at: Time, }
        omit {
            revision: String,
            revisions: Vec<String>,
            deploy_started_at: Option<Time>,
            source: Option<ApplicationSource> => open(),
            sources: Vec<ApplicationSource>,
            initiated_by: InitiatedBy,
        }
    }
}

wire_struct! {
    /// A condition; the type's suffix (`Error`, `Warning`) says how bad it is.
    Condition {
        keep { kind as "type": ConditionType, message: String, }
        omit { last_transition_time: Option<Time>, }
    }
}

wire_struct! {
    /// A running or the last operation.
    OperationState {
        keep { operation: Operation, phase: OperationPhase, started_at: Time, }
        omit {
            message: String,
            sync_result: Option<SyncResult>,
            finished_at: Option<Time>,
            retry_count: i64,
        }
    }
}

wire_struct! {
    /// What a sync did.
    SyncResult {
        write { revision: String, }
        omit {
            revisions: Vec<String>,
            source: ApplicationSource => open(),
            sources: Vec<ApplicationSource>,
            managed_namespace_metadata: Option<NamespaceMetadata>,
            resources: Vec<ResourceResult>,
        }
    }
}

wire_struct! {
    /// What a sync did to one object.
    ResourceResult {
        write { group: String, version: String, kind: String, namespace: String, name: String, }
        omit {
            status: ResultCode,
            message: String,
            hook_type: String,
            hook_phase: OperationPhase,
            sync_phase: String,
            images: Vec<String>,
            /// Ours: the UID of the object that this operation made or touched.
            uid: String,
            /// Ours: the wave that a pruned object had; it cannot be asked any more.
            wave: Option<i64>,
        }
    }
}

wire_struct! {
    /// What the application shows to the world.
    Summary {
        omit { external_urls as "externalURLs": Vec<String>, images: Vec<String>, is_app_of_apps: bool, }
    }
}

wire_struct! {
    /// Hydration.
    SourceHydratorStatus {
        omit {
            last_successful_operation: Option<HydrateOperation>,
            current_operation: Option<HydrateOperation>,
            last_compared_dry_revision: String,
        }
    }
}

wire_struct! {
    /// One hydration.
    HydrateOperation {
        omit {
            started_at: Option<Time>,
            finished_at: Option<Time>,
            phase: HydratePhase,
            message: String,
            dry_sha as "drySHA": String,
            hydrated_sha as "hydratedSHA": String,
            source_hydrator: SourceHydrator => open(),
        }
    }
}
