//! What a plan is made from, out of the copy of the cluster.

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_cluster::ObjectKey;
use slipway_crd::analysis::AnalysisTemplate;
use slipway_crd::names::GROUP;
use slipway_crd::rollout::Rollout;
use slipway_reconcile::{Key, Stop};
use slipway_rollout::names::HASH;
use slipway_rollout::plan::{Observed, is_analysed, services_of};

use super::Rollouts;

impl Rollouts {
    pub(super) async fn gather(&self, key: &Key, rollout: Rollout) -> Result<Observed, Stop> {
        let mut named: Vec<ObjectKey> = services_of(&rollout)
            .into_iter()
            .map(|name| ObjectKey::new("", "Service", &key.namespace, name))
            .collect();
        let services: BTreeMap<String, Value> = named
            .iter()
            .filter_map(|service| Some((service.name.clone(), self.cluster.live(service)?.object()?)))
            .collect();
        let workload = rollout.spec.workload_ref.as_ref().map(|reference| {
            let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            ObjectKey::new(group, &reference.kind, &key.namespace, &reference.name)
        });
        named.extend(workload.clone());
        self.named.set(key, named);
        let workload = match workload {
            Some(workload) => self.cluster.read(&workload).await?,
            None => None,
        };
        let root = self.cluster.live(&key.object());
        let (mut replica_sets, mut pods, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for live in self.cluster.descendants(root.as_slice()) {
            match (live.key.group.as_str(), live.key.kind.as_str()) {
                ("apps", "ReplicaSet") => replica_sets.extend(live.object()),
                ("", "Pod") => pods.extend(live.object()),
                (GROUP, "AnalysisRun") => {
                    runs.extend(live.object().and_then(|run| serde_json::from_value(run).ok()));
                }
                _ => {}
            }
        }
        let templates = if is_analysed(&rollout) { self.templates(&key.namespace) } else { Vec::new() };
        Ok(Observed { rollout, replica_sets, pods, services, workload, runs, templates, refused: Vec::new() })
    }

    /// The analysis templates that a Rollout of the namespace may name.
    fn templates(&self, namespace: &str) -> Vec<AnalysisTemplate> {
        let of = |kind: &str| self.cluster.live_of_kind(GROUP, kind);
        let all = of("AnalysisTemplate").into_iter().filter(|live| live.key.namespace == namespace);
        let all = all.chain(of("ClusterAnalysisTemplate"));
        all.filter_map(|live| serde_json::from_value(live.object()?).ok()).collect()
    }

    /// Everything that could be a version of the Rollout, as the API server has it now.
    pub(super) async fn ask_for_replica_sets(&self, key: &Key, observed: &mut Observed) -> Result<(), Stop> {
        let kind = ObjectKey::new("apps", "ReplicaSet", &key.namespace, "");
        for mut set in self.cluster.list_labelled(&kind, HASH).await? {
            let known =
                observed.replica_sets.iter().any(|known| known["metadata"]["uid"] == set["metadata"]["uid"]);
            if !known {
                // Items of a list do not say what they are.
                set["apiVersion"] = "apps/v1".into();
                set["kind"] = "ReplicaSet".into();
                observed.replica_sets.push(set);
            }
        }
        Ok(())
    }
}
