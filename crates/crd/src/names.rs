//! The names of the metadata protocol: annotations, labels, finalizers, field managers. They are a contract.

/// API group of all Argo kinds.
pub const GROUP: &str = "argoproj.io";
/// Group and version of the kinds in this crate.
pub const API_VERSION: &str = "argoproj.io/v1alpha1";

/// `normal` or `hard`, on the Application; removed once the hydrator has looked.
pub const HYDRATE: &str = "argocd.argoproj.io/hydrate";
/// `normal` or `hard`, on the Application; removed once the refresh is done.
pub const REFRESH: &str = "argocd.argoproj.io/refresh";
/// `;`-separated paths whose change makes a render necessary.
pub const MANIFEST_GENERATE_PATHS: &str = "argocd.argoproj.io/manifest-generate-paths";
/// `"true"` on the Application: leave it alone.
pub const SKIP_RECONCILE: &str = "argocd.argoproj.io/skip-reconcile";
/// Options of the comparison, on the Application or a resource.
pub const COMPARE_OPTIONS: &str = "argocd.argoproj.io/compare-options";
/// Options of the sync, on a resource.
pub const SYNC_OPTIONS: &str = "argocd.argoproj.io/sync-options";
/// Which application an object belongs to.
pub const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
/// Which installation the tracking id is of.
pub const INSTALLATION_ID: &str = "argocd.argoproj.io/installation-id";
/// The wave of an object inside its phase.
pub const SYNC_WAVE: &str = "argocd.argoproj.io/sync-wave";
/// Makes an object a hook.
pub const HOOK: &str = "argocd.argoproj.io/hook";
/// When a hook is deleted.
pub const HOOK_DELETE_POLICY: &str = "argocd.argoproj.io/hook-delete-policy";
/// On the Application: since when deletions that ask for confirmation are approved.
pub const DELETION_APPROVED: &str = "argocd.argoproj.io/deletion-approved";
/// `"true"` on a resource: its health does not count for the application.
pub const IGNORE_HEALTHCHECK: &str = "argocd.argoproj.io/ignore-healthcheck";
/// `"true"` on a Pod: judge it as if it were restarted always.
pub const IGNORE_RESTART_POLICY: &str = "argocd.argoproj.io/ignore-restart-policy";
/// `"true"` on a resource: changes of ignored fields do not cause a refresh.
pub const IGNORE_RESOURCE_UPDATES: &str = "argocd.argoproj.io/ignore-resource-updates";
/// Field manager whose client-side fields are taken over at the first server-side apply.
pub const CLIENT_SIDE_APPLY_MIGRATION_MANAGER: &str =
    "argocd.argoproj.io/client-side-apply-migration-manager";
/// On an ApplicationSet: generate again.
pub const APPLICATION_SET_REFRESH: &str = "argocd.argoproj.io/application-set-refresh";

/// Helm's hook annotation.
pub const HELM_HOOK: &str = "helm.sh/hook";
/// Helm's order of hooks.
pub const HELM_HOOK_WEIGHT: &str = "helm.sh/hook-weight";
/// Helm's hook deletion.
pub const HELM_HOOK_DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
/// `keep`: never prune, never delete.
pub const HELM_RESOURCE_POLICY: &str = "helm.sh/resource-policy";

/// Deleting the Application deletes what it deployed.
pub const RESOURCES_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
/// PreDelete hooks run before the Application goes.
pub const PRE_DELETE_FINALIZER: &str = "pre-delete-finalizer.argocd.argoproj.io";
/// PostDelete hooks run before the Application goes.
pub const POST_DELETE_FINALIZER: &str = "post-delete-finalizer.argocd.argoproj.io";
/// Keeps a hook until its end was written down.
pub const HOOK_FINALIZER: &str = "argocd.argoproj.io/hook-finalizer";

/// Field manager of server-side apply.
pub const FIELD_MANAGER: &str = "argocd-controller";
/// The label of label tracking.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// What `kubectl apply` remembers.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Ours, `"true"` on an Application: `lookup` of its charts is answered from the destination.
pub const HELM_LOOKUP: &str = "slipway.io/helm-lookup";
/// Ours, on a hook: the operation (and attempt) that made it, so that a re-plan knows its own hook again.
pub const HOOK_OPERATION: &str = "slipway.io/hook-operation";
