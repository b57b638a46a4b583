//! What is installed where: names that follow from the runtime's own, and the revisions of an installation, in a ConfigMap beside it.
//!
//! A revision holds the values and the objects that were applied, never the token. It is written down before anything is
//! applied, so that whoever is interrupted goes on with the same one.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_cluster::{Cluster, ObjectKey, WriteOptions};

/// As many can be gone back to.
const KEPT: usize = 10;

/// A runtime in a namespace of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) name: String,
    pub(super) namespace: String,
}

impl Site {
    /// What everything that this installation makes is marked with.
    pub(super) fn mark(&self) -> String {
        let digest = Sha256::digest(format!("{}/{}", self.namespace, self.name).as_bytes());
        let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("install-{digest}")
    }

    /// As the chart calls its objects.
    pub(super) fn workload(&self) -> String {
        format!("slipway-runtime-{}", self.name)
    }

    pub(super) fn token_secret(&self) -> ObjectKey {
        ObjectKey::new("", "Secret", &self.namespace, &format!("{}-token", self.workload()))
    }

    pub(super) fn deployment(&self) -> ObjectKey {
        ObjectKey::new("apps", "Deployment", &self.namespace, &self.workload())
    }

    pub(super) fn record(&self) -> ObjectKey {
        ObjectKey::new("", "ConfigMap", &self.namespace, &format!("slipway-install-{}", self.name))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Revision {
    pub(super) number: u32,
    /// `pending`, `deployed`, `superseded`, or `failed`: another was deployed before this one came online.
    pub(super) state: String,
    pub(super) at: String,
    /// Of the program.
    pub(super) version: String,
    /// Why it is there: `install`, `upgrade`, `rollback to 1`.
    pub(super) cause: String,
    pub(super) values: Value,
    pub(super) objects: Vec<Value>,
}

impl Revision {
    pub(super) fn was_deployed(&self) -> bool {
        matches!(self.state.as_str(), "deployed" | "superseded")
    }
}

/// All revisions, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Record {
    pub(super) platform: String,
    pub(super) revisions: Vec<Revision>,
}

impl Record {
    pub(super) async fn read(cluster: &Cluster, site: &Site) -> anyhow::Result<Option<Self>> {
        let Some(object) = cluster.read(&site.record()).await? else { return Ok(None) };
        let text = object["data"]["record"].as_str().unwrap_or_default();
        let read = serde_json::from_str(text);
        read.map(Some).with_context(|| format!("{} is not readable: somebody changed it", site.record()))
    }

    pub(super) async fn write(&self, cluster: &Cluster, site: &Site) -> anyhow::Result<()> {
        let key = site.record();
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "data": {"record": serde_json::to_string(self)?}});
        crate::kube::marks::marked(&mut object, &site.mark());
        cluster.apply(&object, WriteOptions::default()).await?;
        Ok(())
    }

    /// The one that is there, or on its way.
    pub(super) fn last(&self) -> Option<&Revision> {
        self.revisions.last()
    }

    pub(super) fn of(&self, number: u32) -> Option<&Revision> {
        self.revisions.iter().find(|revision| revision.number == number)
    }

    /// Adds a revision, unless the last one is the same and was not finished: then that one goes on. Its number.
    pub(super) fn begin(&mut self, mut new: Revision) -> u32 {
        if let Some(last) = self.revisions.last_mut()
            && last.values == new.values
            && last.objects == new.objects
        {
            if last.state != "deployed" {
                "pending".clone_into(&mut last.state);
            }
            return last.number;
        }
        new.number = self.last().map_or(1, |last| last.number + 1);
        "pending".clone_into(&mut new.state);
        let number = new.number;
        self.revisions.push(new);
        let more = self.revisions.len().saturating_sub(KEPT);
        self.revisions.drain(..more);
        number
    }

    pub(super) fn deployed(&mut self, number: u32) {
        for revision in &mut self.revisions {
            let state = match revision.number == number {
                true => "deployed",
                false if revision.was_deployed() => "superseded",
                false => "failed",
            };
            state.clone_into(&mut revision.state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(replicas: u32) -> Revision {
        Revision { values: json!({"replicas": replicas}), ..Revision::default() }
    }

    #[test]
    fn what_was_interrupted_goes_on_as_the_same_revision_and_ten_are_kept() {
        let mut record = Record::default();
        assert_eq!((record.begin(revision(1)), record.begin(revision(1))), (1, 1), "interrupted");
        record.deployed(1);
        assert_eq!(record.begin(revision(1)), 1, "nothing changed");
        assert_eq!(record.last().unwrap().state, "deployed");
        assert_eq!(record.begin(revision(2)), 2);
        record.deployed(2);
        assert_eq!(
            (record.of(1).unwrap().state.as_str(), record.of(2).unwrap().state.as_str()),
            ("superseded", "deployed")
        );
        for replicas in 3..20 {
            record.begin(revision(replicas));
        }
        assert_eq!((record.revisions.len(), record.last().unwrap().number), (KEPT, 19));
        assert!(record.of(2).is_none());
    }

    #[test]
    fn a_mark_is_of_one_runtime_in_one_namespace() {
        let mark =
            |name: &str, namespace: &str| Site { name: name.into(), namespace: namespace.into() }.mark();
        assert_ne!(mark("a", "x"), mark("a", "y"));
        assert_ne!(mark("a", "x"), mark("b", "x"));
        assert!(mark("a", "x").len() <= 63);
    }
}
