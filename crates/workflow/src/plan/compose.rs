//! The pod of a node.
//!
//! Nothing is added where nothing has to be captured ([`super::capture`]): no init container, no helper beside the main one. The text of a script is an
//! annotation that the kubelet shows as a file. Sidecars are those of Kubernetes: they end when the main container has.

use serde_json::{Map, Value, json};
use slipway_crd::workflow::Template;

use super::execute::Call;
use super::{Refusal, Run};
use crate::scope::{Scope, text_of};

const WORKFLOW: &str = "workflows.argoproj.io/workflow";
const COMPLETED: &str = "workflows.argoproj.io/completed";
pub(super) const NODE_NAME: &str = "workflows.argoproj.io/node-name";
const NODE_ID: &str = "workflows.argoproj.io/node-id";
const DAEMON: &str = "workflows.argoproj.io/daemon";
const SCRIPT: &str = "workflows.slipway.dev/script";
const SCRIPT_FOLDER: &str = "/argo/staging";
/// All annotations of an object together; the rest is for others.
const SCRIPT_MAX: usize = 200 << 10;

impl Run<'_> {
    pub(super) fn compose(
        &self,
        pod: &str,
        call: &Call,
        template: &Template,
        scope: &Scope,
    ) -> Result<Value, String> {
        let mut annotations = json!({"kubectl.kubernetes.io/default-container": "main"});
        let mut labels = json!({});
        let common = self.spec.pod_metadata.clone().unwrap_or_default();
        // The template has its values already: what they hold is not read again.
        let own = template.metadata.clone().unwrap_or_default();
        for (into, common, own) in [
            (&mut labels, &common.labels, &own.labels),
            (&mut annotations, &common.annotations, &own.annotations),
        ] {
            for (name, value) in common {
                into[scope.fill_text(name, self.now)?] = scope.fill_text(value, self.now)?.into();
            }
            for (name, value) in own {
                into[name] = value.as_str().into();
            }
        }
        // By these we know it again, whatever the workflow says.
        annotations[NODE_NAME] = call.name.as_str().into();
        annotations[NODE_ID] = crate::identity::node_id(&self.name, &call.name).into();
        labels[WORKFLOW] = self.name.as_str().into();
        labels[COMPLETED] = "false".into();
        if template.daemon == Some(true) {
            annotations[DAEMON] = "true".into();
        }
        let mut spec = self.pod_spec(template, scope)?;
        let mut main = self.main(template)?;
        if let Some(source) = template.script.as_ref().and_then(|script| script["source"].as_str()) {
            if source.len() > SCRIPT_MAX {
                return Err(format!("the script has {} bytes, and may have {SCRIPT_MAX}", source.len()));
            }
            annotations[SCRIPT] = source.into();
            show_script(&mut spec, &mut main);
        }
        self.capture(call, template, &mut spec, &mut main)?;
        spec["containers"] = json!([main]);
        for patch in [&self.spec.pod_spec_patch, &template.pod_spec_patch] {
            if !patch.trim().is_empty() {
                let patch = super::manifest::filled(patch, scope, self.now)
                    .map_err(|why| format!("podSpecPatch: {why}"))?;
                super::patch::merge(&mut spec, &patch)?;
            }
        }
        // A pod that starts again by itself is no attempt of ours.
        spec["restartPolicy"] = "Never".into();
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod,
                "namespace": self.observed.workflow.metadata.namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": self.owner(),
            },
            "spec": spec,
        }))
    }

    fn main(&self, template: &Template) -> Result<Value, String> {
        let Some(container) = template.container.as_ref().or(template.script.as_ref()) else {
            return Err(format!("template `{}` has nothing that a pod could run", template.name));
        };
        let mut main = container.clone();
        main["name"] = "main".into();
        if let Some(fields) = main.as_object_mut() {
            fields.remove("source");
        }
        Ok(main)
    }

    /// The template's own words go before those of the workflow.
    fn pod_spec(&self, template: &Template, scope: &Scope) -> Result<Value, String> {
        let mut spec = Map::new();
        let whole = serde_json::to_value(&self.spec).map_err(|error| error.to_string())?;
        let own = serde_json::to_value(template).map_err(|error| error.to_string())?;
        for (pod, of_workflow, of_template) in FIELDS {
            let of = |from: &Value, name: &str| Some(&from[name]).filter(|value| !value.is_null()).cloned();
            let value = of(&own, of_template)
                .map(Ok)
                .or_else(|| of(&whole, of_workflow).map(|value| scope.fill(&value, self.now)));
            if let Some(value) = value.transpose()? {
                spec.insert((*pod).to_owned(), value);
            }
        }
        spec.insert("restartPolicy".into(), "Never".into());
        if let Some(seconds) = &template.active_deadline_seconds {
            let text = text_of(seconds);
            let seconds: i64 = text.parse().map_err(|_| format!("activeDeadlineSeconds is `{text}`"))?;
            spec.insert("activeDeadlineSeconds".into(), seconds.into());
        }
        let mut volumes =
            self.spec.volumes.iter().map(|one| scope.fill(one, self.now)).collect::<Result<Vec<_>, _>>()?;
        volumes.extend(self.claims().map(|name| {
            json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{}-{name}", self.name)}})
        }));
        volumes.extend(template.volumes.iter().cloned());
        if !volumes.is_empty() {
            spec.insert("volumes".into(), json!(volumes));
        }
        let mut first = template.init_containers.clone();
        first.extend(template.sidecars.iter().cloned().map(|mut sidecar| {
            sidecar["restartPolicy"] = "Always".into();
            sidecar
        }));
        for container in &mut first {
            let mirrors = container["mirrorVolumeMounts"] == true;
            if let Some(fields) = container.as_object_mut() {
                fields.remove("mirrorVolumeMounts");
            }
            if mirrors {
                let main = template.container.as_ref().or(template.script.as_ref());
                let mounts = main.map(|main| main["volumeMounts"].clone()).unwrap_or_default();
                container["volumeMounts"] = mounts;
            }
        }
        if !first.is_empty() {
            spec.insert("initContainers".into(), json!(first));
        }
        Ok(Value::Object(spec))
    }

    fn owner(&self) -> Value {
        json!([{
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "name": self.name,
            "uid": self.observed.workflow.metadata.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }])
    }

    /// A claim for each template of one, before anything mounts it. Gives why one is not taken.
    pub(super) fn make_claims(&mut self) -> Option<Refusal> {
        for template in self.spec.volume_claim_templates.clone() {
            let Some(volume) = template["metadata"]["name"].as_str() else { continue };
            let name = format!("{}-{volume}", self.name);
            if let Some(refused) = self.observed.refused.get(&name) {
                return Some(refused.clone());
            }
            let mut claim = template.clone();
            claim["apiVersion"] = "v1".into();
            claim["kind"] = "PersistentVolumeClaim".into();
            claim["metadata"]["name"] = name.as_str().into();
            claim["metadata"]["namespace"] = self.observed.workflow.metadata.namespace.as_str().into();
            claim["metadata"]["labels"][WORKFLOW] = self.name.as_str().into();
            claim["metadata"]["ownerReferences"] = self.owner();
            let known = json!({"name": volume, "persistentVolumeClaim": {"claimName": name}});
            if !self.status.persistent_volume_claims.contains(&known) {
                self.status.persistent_volume_claims.push(known);
            }
            self.actions.push(super::Action::CreateClaim(Box::new(claim)));
        }
        None
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = &str> {
        self.spec.volume_claim_templates.iter().filter_map(|claim| claim["metadata"]["name"].as_str())
    }
}

/// A field of a pod, of a workflow and of a template.
const FIELDS: &[(&str, &str, &str)] = &[
    ("nodeSelector", "nodeSelector", "nodeSelector"),
    ("affinity", "affinity", "affinity"),
    ("tolerations", "tolerations", "tolerations"),
    ("schedulerName", "schedulerName", "schedulerName"),
    ("priorityClassName", "podPriorityClassName", "priorityClassName"),
    ("priority", "podPriority", "priority"),
    ("serviceAccountName", "serviceAccountName", "serviceAccountName"),
    ("automountServiceAccountToken", "automountServiceAccountToken", "automountServiceAccountToken"),
    ("hostAliases", "hostAliases", "hostAliases"),
    ("securityContext", "securityContext", "securityContext"),
    ("imagePullSecrets", "imagePullSecrets", ""),
    ("hostNetwork", "hostNetwork", ""),
    ("dnsPolicy", "dnsPolicy", ""),
    ("dnsConfig", "dnsConfig", ""),
    ("resourceClaims", "resourceClaims", "resourceClaims"),
    ("resources", "podResources", "podResources"),
];

/// The kubelet writes the annotation into a file, which is the last word of the command.
fn show_script(spec: &mut Value, main: &mut Value) {
    push(
        &mut spec["volumes"],
        json!({
            "name": "script",
            "downwardAPI": {"items": [
                {"path": "script", "mode": 0o755, "fieldRef": {"fieldPath": format!("metadata.annotations['{SCRIPT}']")}},
            ]},
        }),
    );
    push(&mut main["volumeMounts"], json!({"name": "script", "mountPath": SCRIPT_FOLDER, "readOnly": true}));
    push(&mut main["args"], format!("{SCRIPT_FOLDER}/script").into());
}

/// Adds to a list that may not be there yet.
pub(super) fn push(list: &mut Value, item: Value) {
    if let Value::Array(items) = list {
        items.push(item);
    } else {
        *list = json!([item]);
    }
}
