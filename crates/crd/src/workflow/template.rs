//! One template: what a node of a workflow does.

use super::{Arguments, Artifact, ExecutorConfig, Metrics, Parameter, PodMetadata};
use crate::wire::wire_struct;
use serde_json::Value;
use std::collections::BTreeMap;

wire_struct! {
    /// A template.
    Template {
        omit {
            name: String,
            inputs: Inputs,
            outputs: Outputs,
            metadata: Option<PodMetadata>,
            annotations: BTreeMap<String, String>,
            container: Option<Value>,
            script: Option<Value>,
            container_set: Option<ContainerSet>,
            resource: Option<ResourceTemplate>,
            suspend: Option<SuspendTemplate>,
            steps: Option<Vec<Vec<Step>>>,
            dag: Option<Dag>,
            http: Option<Http>,
            data: Option<Data>,
            plugin: Option<Value>,
            daemon: Option<bool>,
            node_selector: BTreeMap<String, String>,
            affinity: Option<Value>,
            tolerations: Vec<Value>,
            volumes: Vec<Value>,
            init_containers: Vec<Value>,
            sidecars: Vec<Value>,
            archive_location: Option<Artifact>,
            active_deadline_seconds: Option<Value> => int_or_string(),
            timeout: String,
            pending_timeout: String,
            retry_strategy: Option<RetryStrategy>,
            parallelism: Option<i64>,
            fail_fast: Option<bool>,
            scheduler_name: String,
            priority_class_name: String,
            priority: Option<i64>,
            service_account_name: String,
            automount_service_account_token: Option<bool>,
            executor: Option<ExecutorConfig>,
            host_aliases: Vec<Value>,
            security_context: Option<Value>,
            pod_spec_patch: String,
            pod_resources: Option<Value>,
            resource_claims: Vec<Value>,
            metrics: Option<Metrics>,
            synchronization: Option<Synchronization>,
            memoize: Option<Memoize>,
        }
    }
}

wire_struct! {
    /// What a template is given.
    Inputs { omit { parameters: Vec<Parameter>, artifacts: Vec<Artifact>, } }
}

wire_struct! {
    /// What it leaves.
    Outputs {
        omit { parameters: Vec<Parameter>, artifacts: Vec<Artifact>, result: Option<String>, exit_code: Option<String>, }
    }
}

wire_struct! {
    /// A step, or a task of a graph: which template, with what, and when.
    Step {
        omit {
            name: String,
            template: String,
            template_ref: Option<TemplateRef>,
            /// A template that is written where it is used; a value, because a template may hold steps again.
            inline: Option<Value>,
            arguments: Arguments,
            with_items: Option<Vec<Value>>,
            with_param: String,
            with_sequence: Option<Sequence>,
            when: String,
            continue_on: Option<ContinueOn>,
            /// Deprecated: `hooks.exit`.
            on_exit: String,
            hooks: BTreeMap<String, LifecycleHook>,
            /// Tasks alone.
            dependencies: Vec<String>,
            depends: String,
        }
    }
}

wire_struct! {
    /// A template of another object.
    TemplateRef { omit { name: String, template: String, cluster_scope: bool, runtime_resolution: bool, } }
}

wire_struct! {
    /// Numbers in a row.
    Sequence {
        omit {
            count: Option<Value> => int_or_string(),
            start: Option<Value> => int_or_string(),
            end: Option<Value> => int_or_string(),
            format: String,
        }
    }
}

wire_struct! {
    /// What does not stop those that follow.
    ContinueOn { omit { error: bool, failed: bool, } }
}

wire_struct! {
    /// What runs beside a node when something is true of it.
    LifecycleHook {
        omit { template: String, template_ref: Option<TemplateRef>, arguments: Arguments, expression: String, }
    }
}

wire_struct! {
    /// Tasks that depend on each other.
    Dag { omit { target: String, tasks: Vec<Step>, fail_fast: Option<bool>, } }
}

wire_struct! {
    /// Several containers of one pod, some after others.
    ContainerSet {
        omit { containers: Vec<Value>, volume_mounts: Vec<Value>, retry_strategy: Option<ContainerSetRetry>, }
    }
}

wire_struct! {
    /// How often a container of a set is tried again.
    ContainerSetRetry { omit { duration: String, retries: Option<Value> => int_or_string(), } }
}

wire_struct! {
    /// Something that is done to an object of the cluster.
    ResourceTemplate {
        omit {
            action: String,
            merge_strategy: String,
            manifest: String,
            manifest_from: Option<ManifestFrom>,
            set_owner_reference: bool,
            success_condition: String,
            failure_condition: String,
            flags: Vec<String>,
        }
    }
}

wire_struct! {
    /// A manifest that another node left.
    ManifestFrom { omit { artifact: Option<Artifact>, } }
}

wire_struct! {
    /// Waits for a while, or for somebody.
    SuspendTemplate { omit { duration: Option<Value> => int_or_string(), } }
}

wire_struct! {
    /// A call.
    Http {
        omit {
            method: String,
            url: String,
            headers: Vec<Value>,
            timeout_seconds: Option<i64>,
            body: String,
            body_from: Option<Value>,
            success_condition: String,
            insecure_skip_verify: bool,
        }
    }
}

wire_struct! {
    /// What is in a store of artifacts, changed by expressions.
    Data { omit { source: Option<DataSource>, transformation: Vec<Transformation>, } }
}

wire_struct! {
    /// Where the list comes from.
    DataSource { omit { artifact_paths: Option<Artifact>, } }
}

wire_struct! {
    /// One change of a list.
    Transformation { omit { expression: String, } }
}

wire_struct! {
    /// What is tried again, and how often.
    RetryStrategy {
        omit {
            limit: Option<Value> => int_or_string(),
            retry_policy: String,
            backoff: Option<Backoff>,
            affinity: Option<Value>,
            expression: String,
        }
    }
}

wire_struct! {
    /// How long to wait before.
    Backoff {
        omit {
            duration: Option<Value> => int_or_string(),
            factor: Option<Value> => int_or_string(),
            cap: String,
            max_duration: String,
        }
    }
}

wire_struct! {
    /// What may not run beside what.
    Synchronization {
        omit {
            semaphores: Vec<SemaphoreRef>,
            mutexes: Vec<Mutex>,
            /// Until version 4.
            semaphore: Option<SemaphoreRef>,
            mutex: Option<Mutex>,
        }
    }
}

wire_struct! {
    /// A number of places.
    SemaphoreRef {
        omit { config_map_key_ref: Option<Value>, database: Option<Value>, namespace: String, selectors: Vec<Value>, }
    }
}

wire_struct! {
    /// One place.
    Mutex { omit { name: String, namespace: String, database: bool, selectors: Vec<Value>, } }
}

wire_struct! {
    /// What was found before is taken again.
    Memoize { omit { key: String, max_age: String, cache: Option<Cache>, } }
}

wire_struct! {
    /// Where results are kept.
    Cache { omit { config_map: Option<Value>, } }
}
