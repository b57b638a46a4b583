//! `Application`: what is wanted (`spec`) and what is asked for now (`operation`). What was found is in `status`.

use std::borrow::Cow;

use crate::meta::ObjectMeta;
use crate::source::{ApplicationSource, SourceHydrator};
use crate::status::ApplicationStatus;
use crate::wire::wire_struct;
use std::collections::BTreeMap;

wire_struct! {
    /// `argoproj.io/v1alpha1` Application.
    Application {
        keep { api_version: String, kind: String, metadata: ObjectMeta, spec: ApplicationSpec, }
        omit { operation: Option<Operation>, status: ApplicationStatus, }
    }
}

wire_struct! {
    /// `spec`.
    ApplicationSpec {
        keep { destination: Destination, project: String, }
        omit {
            source: Option<ApplicationSource>,
            sources: Vec<ApplicationSource>,
            source_hydrator: Option<SourceHydrator>,
            sync_policy: Option<SyncPolicy>,
            ignore_differences: Vec<IgnoreDifference>,
            info: Vec<Info>,
            revision_history_limit: Option<i64>,
        }
    }
}

wire_struct! {
    /// Where it goes: exactly one of `server` and `name`.
    Destination { omit { server: String, name: String, namespace: String, } }
}

wire_struct! {
    /// Free-form information.
    Info { keep { name: String, value: String, } }
}

wire_struct! {
    /// `spec.syncPolicy`.
    SyncPolicy {
        omit {
            automated: Option<Automated>,
            sync_options: Vec<String>,
            retry: Option<RetryStrategy>,
            managed_namespace_metadata: Option<NamespaceMetadata>,
        }
    }
}

wire_struct! {
    /// Automation. Present means on, unless `enabled` is false.
    Automated {
        omit {
            prune: Option<bool>,
            self_heal: Option<bool>,
            allow_empty: Option<bool>,
            enabled: Option<bool>,
        }
    }
}

wire_struct! {
    /// What happens after a failed attempt.
    RetryStrategy {
        omit {
            /// Below zero: without end. Zero: none.
            limit: i64,
            backoff: Option<Backoff>,
            /// Resolve the revision again for each attempt.
            refresh: bool,
        }
    }
}

wire_struct! {
    /// The wait between attempts; numbers without a unit are seconds.
    Backoff { omit { duration: String, factor: Option<i64>, max_duration: String, } }
}

wire_struct! {
    /// Metadata of the namespace that CreateNamespace makes.
    NamespaceMetadata { omit { labels: BTreeMap<String, String>, annotations: BTreeMap<String, String>, } }
}

wire_struct! {
    /// Differences that do not count.
    IgnoreDifference {
        keep { kind: String, }
        omit {
            group: String,
            name: String,
            namespace: String,
            json_pointers: Vec<String>,
            jq_path_expressions: Vec<String>,
            managed_fields_managers: Vec<String>,
        }
    }
}

wire_struct! {
    /// A request. A client writes it; the controller takes it and nulls it when it ends.
    Operation {
        omit {
            sync: Option<SyncOperation>,
            initiated_by: InitiatedBy,
            info: Vec<Info>,
            retry: RetryStrategy,
        }
    }
}

wire_struct! {
    /// Who asked.
    InitiatedBy { omit { username: String, automated: bool, } }
}

wire_struct! {
    /// A sync.
    SyncOperation {
        omit {
            revision: String,
            revisions: Vec<String>,
            prune: bool,
            dry_run: bool,
            sync_strategy: Option<SyncStrategy>,
            resources: Vec<SyncResource>,
            source: Option<ApplicationSource>,
            sources: Vec<ApplicationSource>,
            manifests: Vec<String>,
            sync_options: Vec<String>,
            auto_heal_attempts_count: i64,
        }
    }
}

wire_struct! {
    /// `hook` (the default) runs hooks, `apply` does not.
    SyncStrategy { omit { apply: Option<StrategyForce>, hook: Option<StrategyForce>, } }
}

wire_struct! {
    /// Delete and make again what cannot be changed in place.
    StrategyForce { omit { force: bool, } }
}

wire_struct! {
    /// One resource of a selective sync.
    SyncResource {
        keep { kind: String, name: String, }
        omit { group: String, namespace: String, exclude: bool, }
    }
}

impl ApplicationSpec {
    /// The sources that count: what a hydrator writes, else `sources` if there are any, else `source`.
    pub fn effective_sources(&self) -> Cow<'_, [ApplicationSource]> {
        if let Some(hydrator) = &self.source_hydrator {
            return Cow::Owned(vec![hydrator.sync_source()]);
        }
        Cow::Borrowed(if self.sources.is_empty() { self.source.as_slice() } else { &self.sources })
    }

    /// True when there may be several sources, which the status then lists.
    pub fn has_several_sources(&self) -> bool {
        self.source_hydrator.is_none() && !self.sources.is_empty()
    }

    /// The project; an empty name means `default`.
    pub fn project_name(&self) -> &str {
        if self.project.is_empty() { "default" } else { &self.project }
    }

    /// The automation, if it is on.
    pub fn automation(&self) -> Option<&Automated> {
        self.sync_policy.as_ref()?.automated.as_ref().filter(|a| a.enabled != Some(false))
    }

    /// The sync options of the application.
    pub fn sync_options(&self) -> &[String] {
        self.sync_policy.as_ref().map(|p| p.sync_options.as_slice()).unwrap_or_default()
    }
}

impl Application {
    /// `name` in the control plane's namespace, else `<namespace>_<name>`: the name used for tracking.
    pub fn instance_name(&self, control_plane_namespace: &str) -> String {
        let meta = &self.metadata;
        if meta.namespace.is_empty() || meta.namespace == control_plane_namespace {
            meta.name.clone()
        } else {
            format!("{}_{}", meta.namespace, meta.name)
        }
    }
}
