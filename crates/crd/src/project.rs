//! `AppProject`: what applications may do, when and as whom.

use crate::meta::ObjectMeta;
use crate::wire::wire_struct;
use std::collections::BTreeMap;

wire_struct! {
    /// `argoproj.io/v1alpha1` AppProject.
    AppProject {
        keep { api_version: String, kind: String, metadata: ObjectMeta, spec: AppProjectSpec, }
        omit { status: AppProjectStatus, }
    }
}

wire_struct! {
    /// `spec`.
    AppProjectSpec {
        omit {
            description: String => text_of_at_most(255),
            source_repos: Vec<String>,
            destinations: Vec<ProjectDestination>,
            /// None or empty: no cluster-scoped kind is allowed.
            cluster_resource_whitelist: Vec<ClusterResourceRule>,
            cluster_resource_blacklist: Vec<ClusterResourceRule>,
            /// None: every namespaced kind is allowed. Empty: none is.
            namespace_resource_whitelist: Option<Vec<GroupKindRule>>,
            namespace_resource_blacklist: Vec<GroupKindRule>,
            source_namespaces: Vec<String>,
            permit_only_project_scoped_clusters: bool,
            roles: Vec<ProjectRole>,
            sync_windows: Vec<SyncWindow>,
            orphaned_resources: Option<OrphanedResources>,
            signature_keys: Vec<SignatureKey>,
            source_integrity: Option<serde_json::Value> => open(),
            destination_service_accounts: Vec<DestinationServiceAccount>,
        }
    }
}

wire_struct! {
    /// Where applications may deploy to; globs, `!` denies.
    ProjectDestination { omit { server: String, name: String, namespace: String, } }
}

wire_struct! {
    /// A group and kind, globs.
    GroupKindRule { keep { group: String, kind: String, } }
}

wire_struct! {
    /// A cluster-scoped group and kind, and a name if given; globs.
    ClusterResourceRule { keep { group: String, kind: String, } omit { name: String, } }
}

wire_struct! {
    /// A role of the project.
    ProjectRole {
        keep { name: String, }
        omit { description: String, policies: Vec<String>, groups: Vec<String>, jwt_tokens: Vec<JwtToken>, }
    }
}

wire_struct! {
    /// A token that was issued (never the token itself).
    JwtToken { keep { iat: i64, } omit { exp: i64, id: String, } }
}

wire_struct! {
    /// When syncs are allowed or denied.
    SyncWindow {
        omit {
            /// `allow` or `deny`.
            kind: String,
            schedule: String,
            duration: String,
            applications: Vec<String>,
            namespaces: Vec<String>,
            clusters: Vec<String>,
            manual_sync: bool,
            time_zone: String,
            /// Applications, namespaces and clusters must all match.
            and_operator as "andOperator": bool,
            description: String => text_of_at_most(255),
            sync_overrun: bool,
        }
    }
}

wire_struct! {
    /// Watching for objects that nobody manages.
    OrphanedResources { omit { warn: Option<bool>, ignore: Vec<OrphanedResourceKey>, } }
}

wire_struct! {
    /// Objects that may be orphans; globs.
    OrphanedResourceKey { omit { group: String, kind: String, name: String, } }
}

wire_struct! {
    /// A key that commits must be signed with.
    SignatureKey { keep { key_id as "keyID": String, } }
}

wire_struct! {
    /// The service account that a sync runs as.
    DestinationServiceAccount {
        keep { server: String, default_service_account: String, }
        omit { namespace: String, }
    }
}

wire_struct! {
    /// `status`.
    AppProjectStatus { omit { jwt_tokens_by_role: BTreeMap<String, serde_json::Value>, } }
}
