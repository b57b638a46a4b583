//! What a plan is made from, out of the copy of the cluster.

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_cluster::ObjectKey;
use slipway_crd::names::GROUP;
use slipway_crd::rollout::Rollout;
use slipway_reconcile::{Key, Stop};
use slipway_rollout::names::{HASH, MANAGED_BY};
use slipway_rollout::plan::{Observed, is_analysed, services_of};
use slipway_rollout::routing::{self, Seen};

use super::Rollouts;
use crate::engines::analysis::templates;

/// An object of a router may name one that names no more.
const NAMED_BY_NAMED: usize = 2;

impl Rollouts {
    pub(super) async fn gather(&self, key: &Key, rollout: Rollout) -> Result<Observed, Stop> {
        let mut named: Vec<ObjectKey> = services_of(&rollout)
            .into_iter()
            .map(|name| ObjectKey::new("", "Service", &key.namespace, name))
            .collect();
        let is_there = |rollout: &str| {
            self.cluster.live(&ObjectKey::new(GROUP, "Rollout", &key.namespace, rollout)).is_some()
        };
        let services: BTreeMap<String, Value> = named
            .iter()
            .filter_map(|service| {
                let object = self.cluster.live(service)?.object()?;
                Some((service.name.clone(), released(object, is_there)))
            })
            .collect();
        let workload = rollout.spec.workload_ref.as_ref().map(|reference| {
            let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            ObjectKey::new(group, &reference.kind, &key.namespace, &reference.name)
        });
        named.extend(workload.clone());
        let routes = self.routes(&rollout, &mut named);
        self.named.set(key, named);
        let workload = match workload {
            Some(workload) => self.cluster.read(&workload).await?,
            None => None,
        };
        let root = self.cluster.live(&key.object());
        let (mut replica_sets, mut pods) = (Vec::new(), Vec::new());
        let (mut runs, mut experiments) = (Vec::new(), Vec::new());
        let uid = rollout.metadata.uid.clone();
        // Those of its experiments are theirs.
        let own = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.into_iter().any(|owner| owner["controller"] == true && owner["uid"] == uid.as_str())
        };
        for live in self.cluster.descendants(root.as_slice()) {
            match (live.key.group.as_str(), live.key.kind.as_str()) {
                ("apps", "ReplicaSet") => replica_sets.extend(live.object()),
                ("", "Pod") => pods.extend(live.object()),
                (GROUP, "AnalysisRun") => {
                    let run = live.object().filter(own);
                    runs.extend(run.and_then(|run| serde_json::from_value(run).ok()));
                }
                (GROUP, "Experiment") => {
                    experiments.extend(live.object().and_then(|one| serde_json::from_value(one).ok()));
                }
                _ => {}
            }
        }
        let templates =
            if is_analysed(&rollout) { templates(&self.cluster, &key.namespace) } else { Vec::new() };
        Ok(Observed {
            rollout,
            replica_sets,
            pods,
            services,
            routes,
            workload,
            runs,
            experiments,
            templates,
            refused: Vec::new(),
        })
    }

    /// The objects of its routers; one may name another.
    fn routes(&self, rollout: &Rollout, named: &mut Vec<ObjectKey>) -> Seen {
        let mut seen = Seen::default();
        let discovery = self.cluster.discovery();
        for _ in 0..NAMED_BY_NAMED {
            for at in routing::objects(rollout, &seen) {
                let object = ObjectKey::new(&at.group, &at.kind, &at.namespace, &at.name);
                if let Some(resource) = discovery.preferred(&at.group, &at.kind) {
                    seen.served.insert((at.group.clone(), at.kind.clone()), resource.api_version());
                }
                if let Some(live) = self.cluster.live(&object).and_then(|live| live.object()) {
                    seen.objects.insert(at, live);
                }
                if !named.contains(&object) {
                    named.push(object);
                }
            }
        }
        seen
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

/// A Service of a Rollout that is gone is nobody's: whoever names it next, after a rename for instance, may have it.
fn released(mut service: Value, is_there: impl Fn(&str) -> bool) -> Value {
    if let Some(annotations) = service["metadata"]["annotations"].as_object_mut()
        && annotations.get(MANAGED_BY).and_then(Value::as_str).is_some_and(|name| !is_there(name))
    {
        annotations.remove(MANAGED_BY);
    }
    service
}
