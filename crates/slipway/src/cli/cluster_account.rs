//! The account by which a runtime uses a managed cluster: its objects there, made, read and removed.
//!
//! Its name is of one runtime of one platform, so that two that deploy to the same cluster do not take each other's away.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_cluster::{Cluster, ObjectKey, Right};

use super::clusters::{WRITE, everywhere, gone, token_of};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) struct Account {
    name: String,
    namespace: String,
    runtime: String,
}

impl Account {
    pub(super) fn new(platform: &str, runtime: &str, namespace: &str) -> Self {
        let digest = Sha256::digest(format!("{}\n{runtime}", platform.trim_end_matches('/')).as_bytes());
        let digest: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("slipway-manager-{runtime}-{digest}");
        Self { name, namespace: namespace.to_owned(), runtime: runtime.to_owned() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What somebody needs to make it. Kubernetes lets nobody give rights that they do not have.
    pub(super) fn wanted(&self) -> [Right<'_>; 5] {
        let here = |verb, resource| Right { verb, group: "", resource, namespace: &self.namespace };
        [
            here("create", "serviceaccounts"),
            here("create", "secrets"),
            everywhere("create", RBAC, "clusterroles"),
            everywhere("create", RBAC, "clusterrolebindings"),
            everywhere("*", "*", "*"),
        ]
    }

    pub(super) fn objects(&self) -> [Value; 4] {
        let Self { name, namespace, runtime } = self;
        let labels = json!({"app.kubernetes.io/managed-by": "slipway", "slipway.io/runtime": runtime});
        [
            json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": namespace, "labels": labels}}),
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name, "labels": labels},
            "rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["get"]},
            ]}),
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
                "metadata": {"name": name, "labels": labels},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]}),
            json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                "metadata": {"name": name, "namespace": namespace, "labels": labels,
                    "annotations": {"kubernetes.io/service-account.name": name}}}),
        ]
    }

    fn secret(&self) -> ObjectKey {
        ObjectKey::new("", "Secret", &self.namespace, &self.name)
    }

    /// `true`: it was not there before.
    pub(super) async fn apply(&self, cluster: &Cluster) -> anyhow::Result<bool> {
        let was_there = cluster.read(&self.secret()).await?.is_some();
        for object in self.objects() {
            let key = ObjectKey::of(&object);
            cluster.apply(&object, WRITE).await.with_context(|| format!("{key} was not applied"))?;
        }
        Ok(!was_there)
    }

    pub(super) async fn token(&self, cluster: &Cluster, within: Duration) -> anyhow::Result<String> {
        token_of(cluster, &self.secret(), within).await
    }

    /// All of it that is there.
    pub(super) async fn remove(&self, cluster: &Cluster) -> anyhow::Result<usize> {
        let mut count = 0;
        for object in self.objects().iter().rev() {
            count += usize::from(gone(cluster, &ObjectKey::of(object)).await?);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_of_one_runtime_of_one_platform() {
        let name = |platform, runtime| Account::new(platform, runtime, "kube-system").name;
        assert_eq!(name("https://a/", "local"), name("https://a", "local"));
        assert_ne!(name("https://a", "local"), name("https://b", "local"));
        assert_ne!(name("https://a", "local"), name("https://a", "west"));
        assert!(name("https://a", &"r".repeat(38)).len() <= 63);
    }
}
