//! A version of an Experiment: its ReplicaSet and its Service, how many pods it has, and how it fares.

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::analysis::ExperimentTemplate;

use super::{PROGRESSING, Play, TemplateStatus, written};
use crate::analysis::{ERROR, FAILED, RUNNING, SUCCESSFUL, is_completed};
use crate::identity;
use crate::names::{self, reason};
use crate::plan::Action;

const SCALE_DOWN_DELAY: i64 = 30;

impl Play<'_> {
    pub(super) fn template(&mut self, template: &ExperimentTemplate) {
        let mut status = self.prev.template(&template.name).cloned().unwrap_or_default();
        status.name.clone_from(&template.name);
        let before = status.clone();
        let replicas = template.replicas.unwrap_or(1);
        let over = self.ends || is_completed(&status.status);
        let wanted = if over { 0 } else { replicas };
        let set = self.set_of(&template.name).cloned();
        match &set {
            None if over => {}
            None => self.make_set(template, &mut status),
            Some(set) => {
                self.service(template, set, wanted, &mut status);
                self.size(set, wanted, &mut status);
            }
        }
        let number = |field: &str| set.as_ref().and_then(|set| set["status"][field].as_i64()).unwrap_or(0);
        status.replicas = number("replicas");
        status.updated_replicas = status.replicas;
        status.ready_replicas = number("readyReplicas");
        status.available_replicas = number("availableReplicas");
        let counts = |one: &TemplateStatus| (one.replicas, one.ready_replicas, one.available_replicas);
        if counts(&status) != counts(&before) {
            status.last_transition_time = Some(written(self.now));
        }
        if !is_completed(&status.status) {
            self.assess(template, wanted, &mut status);
        }
        self.tell_of_template(&before, &status);
        let known = self.plan.status.template_statuses.iter_mut().find(|one| one.name == template.name);
        match known {
            Some(known) => *known = status,
            None => self.plan.status.template_statuses.push(status),
        }
    }

    fn set_of(&self, template: &str) -> Option<&Value> {
        let name = self.experiment().metadata.name.as_str();
        self.observed.replica_sets.iter().find(|set| {
            let annotations = &set["metadata"]["annotations"];
            annotations[names::EXPERIMENT_NAME] == name && annotations[names::EXPERIMENT_TEMPLATE] == template
        })
    }

    fn service_of(&self, template: &str) -> Option<&Value> {
        let all = self.observed.services.iter();
        all.into_iter()
            .find(|service| service["metadata"]["annotations"][names::EXPERIMENT_TEMPLATE] == template)
    }

    fn make_set(&mut self, template: &ExperimentTemplate, status: &mut TemplateStatus) {
        let metadata = self.experiment().metadata.clone();
        let name = format!("{}-{}", metadata.name, template.name);
        if self.observed.taken_sets.contains(&name) {
            status.status = ERROR.into();
            let of = &template.name;
            status.message = format!(
                "Failed to create ReplicaSet {name} for template '{of}': it already exists and is not owned by this experiment"
            );
            return;
        }
        let mut pod = template.template.clone().unwrap_or_else(|| json!({}));
        if let Some(labels) = pod["metadata"]["labels"].as_object_mut() {
            labels.remove(names::HASH);
        }
        let hash = identity::template_hash(&pod, status.collision_count);
        pod["metadata"]["labels"][names::HASH] = hash.as_str().into();
        let mut selector = serde_json::to_value(&template.selector).unwrap_or_default();
        selector["matchLabels"][names::HASH] = hash.as_str().into();
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": metadata.namespace, "labels": pod["metadata"]["labels"], "ownerReferences": [self.owner()],
                "annotations": {names::EXPERIMENT_NAME: metadata.name, names::EXPERIMENT_TEMPLATE: template.name}},
            "spec": {"replicas": 0, "minReadySeconds": template.min_ready_seconds, "selector": selector, "template": pod}});
        self.plan.actions.push(Action::Create(set));
        status.last_transition_time = Some(written(self.now));
        self.tell(reason::NEW_SET, false, format!("Created ReplicaSet {name}"));
    }

    fn service(
        &mut self,
        template: &ExperimentTemplate,
        set: &Value,
        wanted: i64,
        status: &mut TemplateStatus,
    ) {
        let available = set["status"]["availableReplicas"].as_i64().unwrap_or(0);
        let there = self.service_of(&template.name).cloned();
        let goes = template.service.is_none() || (wanted == 0 && available == 0);
        if goes {
            if let Some(there) = there {
                let name = there["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if self.observed.routed.contains(&name) {
                    // Requests first.
                    return;
                }
                let uid = there["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                self.plan.actions.push(Action::Delete { target: self.target("v1", "Service", &name), uid });
            }
            (status.service_name, status.pod_template_hash) = (String::new(), String::new());
            return;
        }
        if wanted == 0 {
            return;
        }
        let hash = set["metadata"]["labels"][names::HASH].as_str().unwrap_or_default().to_owned();
        let given = template.service.as_ref().map(|service| service.name.clone()).unwrap_or_default();
        let own = set["metadata"]["name"].as_str().unwrap_or_default();
        let name = if given.is_empty() { own.to_owned() } else { given };
        if there.is_none() {
            let ports = ports(set);
            if ports.is_empty() {
                return;
            }
            if self.observed.taken.contains(&name) {
                status.status = ERROR.into();
                let of = &template.name;
                status.message = format!(
                    "Failed to create Service {name} for template '{of}': service {name} already exists and is not owned by experiment template {of}"
                );
                return;
            }
            let metadata = &self.experiment().metadata;
            let service = json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": name, "namespace": metadata.namespace, "ownerReferences": [self.owner()],
                    "annotations": {names::EXPERIMENT_NAME: metadata.name, names::EXPERIMENT_TEMPLATE: template.name}},
                "spec": {"selector": set["metadata"]["labels"], "ports": ports}});
            self.plan.actions.push(Action::Create(service));
        }
        (status.service_name, status.pod_template_hash) = (name, hash);
    }

    fn size(&mut self, set: &Value, wanted: i64, status: &mut TemplateStatus) {
        let size = set["spec"]["replicas"].as_i64().unwrap_or(0);
        let name = set["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let target = self.target("apps/v1", "ReplicaSet", &name);
        let noted = set["metadata"]["annotations"][names::SCALE_DOWN_DEADLINE].as_str();
        if wanted > 0 && noted.is_some() {
            // Somebody tries it again: when it ends, its pods stay as long as the first time.
            let patch = json!({"metadata": {"annotations": {names::SCALE_DOWN_DEADLINE: null}}});
            self.plan.actions.push(Action::patch(target.clone(), patch));
        }
        if size == wanted {
            return;
        }
        if wanted == 0 {
            let routed =
                !status.service_name.is_empty() && self.observed.routed.contains(&status.service_name);
            if routed {
                return;
            }
            let deadline: Option<Timestamp> = noted.and_then(|text| text.parse().ok());
            let delay = self.experiment().spec.scale_down_delay_seconds.unwrap_or(SCALE_DOWN_DELAY);
            match deadline {
                None if delay > 0 => {
                    let at = self.after(delay);
                    let patch =
                        json!({"metadata": {"annotations": {names::SCALE_DOWN_DEADLINE: written(at)}}});
                    self.plan.actions.push(Action::patch(target, patch));
                    return self.look_at(at);
                }
                Some(at) if at > self.now => return self.look_at(at),
                _ => {}
            }
        }
        self.plan.actions.push(Action::patch(target, json!({"spec": {"replicas": wanted}})));
        status.last_transition_time = Some(written(self.now));
        let way = if size < wanted { "up" } else { "down" };
        self.tell(reason::SCALING, false, format!("Scaled {way} ReplicaSet {name} from {size} to {wanted}"));
    }

    fn assess(&mut self, template: &ExperimentTemplate, wanted: i64, status: &mut TemplateStatus) {
        if status.available_replicas == wanted && !(wanted > 0 && status.replicas == 0) {
            status.status = if self.is_over() || self.ends { SUCCESSFUL } else { RUNNING }.into();
            return;
        }
        let since = status.last_transition_time.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
        let seconds = self.deadline_seconds();
        let deadline = since.unwrap_or(self.now).checked_add(jiff::SignedDuration::from_secs(seconds));
        let deadline = deadline.unwrap_or(Timestamp::MAX);
        if self.now > deadline {
            status.status = FAILED.into();
            status.message =
                format!("Template '{}' exceeded its progressDeadlineSeconds ({seconds})", template.name);
        } else if self.ends {
            status.status = SUCCESSFUL.into();
        } else {
            status.status = PROGRESSING.into();
            self.look_at(deadline.checked_add(jiff::SignedDuration::from_secs(1)).unwrap_or(deadline));
        }
    }

    fn tell_of_template(&mut self, before: &TemplateStatus, now: &TemplateStatus) {
        if before.status == now.status {
            return;
        }
        let reason = match now.status.as_str() {
            PROGRESSING => "TemplateProgressing",
            RUNNING => "TemplateRunning",
            SUCCESSFUL => "TemplateSuccessful",
            FAILED => "TemplateFailed",
            _ => "TemplateError",
        };
        let mut message =
            format!("Template '{}' transitioned from {} -> {}", now.name, before.status, now.status);
        if !now.message.is_empty() {
            message += &format!(": {}", now.message);
        }
        self.tell(reason, matches!(now.status.as_str(), FAILED | ERROR), message);
    }
}

/// Of all containers.
fn ports(set: &Value) -> Vec<Value> {
    let containers = set["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    ports
        .map(|port| {
            let mut made = json!({"port": port["containerPort"], "targetPort": port["containerPort"]});
            for (from, to) in [("protocol", "protocol"), ("name", "name")] {
                if let Some(text) = port[from].as_str().filter(|text| !text.is_empty()) {
                    made[to] = text.into();
                }
            }
            made
        })
        .collect()
}
