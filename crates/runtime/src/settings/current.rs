//! Settings and credentials as they were read last.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use slipway_cluster::{Cluster, Tracking};
use slipway_gitops::{Settings, TrackingMethod, project, tracking};
use slipway_net::Rules;

use super::{RepositoryAccess, read_settings};

/// What every engine goes by. A value that was taken stays as it is; whoever wants the newest asks again.
pub(crate) struct CurrentSettings {
    /// Where Applications, settings and credentials live.
    namespace: String,
    settings: RwLock<Arc<Settings>>,
    access: RwLock<Arc<RepositoryAccess>>,
    /// How often they were read.
    generation: AtomicUsize,
}

impl CurrentSettings {
    pub(crate) fn new(namespace: &str) -> Self {
        let settings = Settings { control_plane_namespace: namespace.to_owned(), ..Settings::default() };
        Self {
            namespace: namespace.to_owned(),
            settings: RwLock::new(Arc::new(settings)),
            access: RwLock::default(),
            generation: AtomicUsize::new(0),
        }
    }

    pub(crate) fn reload(&self, cluster: &Cluster, egress: &Rules) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        let settings = read_settings(cluster, &self.namespace);
        *self.settings.write().expect("no panic while locked") = Arc::new(settings);
        let access = RepositoryAccess::read(cluster, &self.namespace, egress);
        *self.access.write().expect("no panic while locked") = Arc::new(access);
    }

    /// The namespace of the control plane.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn get(&self) -> Arc<Settings> {
        self.settings.read().expect("no panic while locked").clone()
    }

    pub(crate) fn access(&self) -> Arc<RepositoryAccess> {
        self.access.read().expect("no panic while locked").clone()
    }

    /// Changes with the settings and the credentials.
    pub(crate) fn generation(&self) -> usize {
        self.generation.load(Ordering::Relaxed)
    }

    /// The label by which objects say whose they are, if it is not by annotation.
    pub(crate) fn tracking_label(&self) -> Option<String> {
        let settings = self.get();
        (settings.tracking == TrackingMethod::Label).then(|| settings.instance_label.clone())
    }

    /// By which name live objects are tracked.
    pub(crate) fn tracking(&self) -> Tracking {
        tracking_by(self.tracking_label())
    }

    /// Whether Applications of this namespace are ours to look after at all.
    pub(crate) fn governs(&self, namespace: &str) -> bool {
        self.is_among(namespace, &self.get().application_namespaces)
    }

    /// Whether ApplicationSets of this namespace are ours to follow.
    pub(crate) fn governs_sets(&self, namespace: &str) -> bool {
        self.is_among(namespace, &self.get().application_set_namespaces)
    }

    fn is_among(&self, namespace: &str, patterns: &[String]) -> bool {
        namespace == self.namespace
            || patterns.iter().any(|pattern| project::matches_namespace(pattern, namespace))
    }
}

/// Live objects are tracked by the name of the Application that they say they belong to: by this label, or by annotation.
pub(crate) fn tracking_by(label: Option<String>) -> Tracking {
    match label {
        Some(label) => Tracking::new(format!("label {label}"), move |object, _| {
            tracking::labelled_by(object, &label).map(str::to_owned)
        }),
        None => Tracking::new("annotation", |object, _| tracking::annotated_by(object).map(str::to_owned)),
    }
}
