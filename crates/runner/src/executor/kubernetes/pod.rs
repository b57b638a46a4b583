//! The objects of one attempt: a pod and the secret with its environment. Pure: values in, JSON out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use slipway_pipeline::StepSpec;
use slipway_pipeline::resources::Amounts;

use super::super::{Place, registries};
use super::{KubernetesConfig, Storage};
use crate::shim::CONTAINER;

/// By these the pods of a runner, of a build, of a step and of an attempt are found.
pub(super) const RUNNER: &str = "slipway.io/runner";
pub(super) const BUILD: &str = "slipway.io/build";
const STEP: &str = "slipway.io/step";
const ATTEMPT: &str = "slipway.io/attempt";
const STORAGE: &str = "storage";
const VOLUME: &str = "volume";
const GRACE_SECONDS: u64 = 5;
/// The supervisor enforces timeouts; this is for a pod whose supervisor never comes back.
const DEADLINE_SLACK_SECONDS: u64 = 300;

/// Which volume of the pod a mount is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// The runner's storage; the way through it is nobody else's to change.
    Runner,
    /// The build's volume alone: a link of a step leads nowhere else.
    Build,
}

#[derive(Debug, Clone)]
pub(super) struct Mount {
    pub(super) of: Of,
    pub(super) sub_path: String,
    pub(super) at: String,
    pub(super) read_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideKind {
    /// Runs as long as the pod does.
    Service,
    /// Ends before the step begins.
    Before,
    /// Runs beside the step, and has to succeed as the step has.
    Candidate,
}

/// A container beside the step.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) name: String,
    pub(super) kind: SideKind,
    pub(super) image: String,
    pub(super) command: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) working_directory: Option<String>,
    pub(super) mounts: Vec<Mount>,
}

#[derive(Debug, Clone)]
pub(super) struct PodShape {
    pub(super) image: String,
    pub(super) config: KubernetesConfig,
    pub(super) data: PathBuf,
    pub(super) owner: String,
    /// The image's own entry point when empty.
    pub(super) command: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) working_directory: Option<String>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) mounts: Vec<Mount>,
    /// An image builder makes user namespaces, which the usual filter of system calls forbids.
    pub(super) builds_images: bool,
    pub(super) sides: Vec<Side>,
    /// It is no step's alone.
    pub(super) lasts: bool,
}

impl PodShape {
    pub(super) fn default_for(config: &KubernetesConfig) -> Self {
        Self {
            image: String::new(),
            config: config.clone(),
            data: PathBuf::new(),
            owner: String::new(),
            command: Vec::new(),
            arguments: Vec::new(),
            working_directory: None,
            variables: BTreeMap::new(),
            mounts: Vec::new(),
            builds_images: false,
            sides: Vec::new(),
            lasts: false,
        }
    }

    /// Takes the variables that Kubernetes can carry; the names of the others come back.
    pub(super) fn environment(&mut self, all: &BTreeMap<String, String>) -> Vec<String> {
        let carries = |name: &str, value: &str| {
            !name.is_empty()
                && name.len() <= 253
                && !name.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
                && !value.contains('\0')
        };
        let mut left_out = Vec::new();
        for (name, value) in all {
            if carries(name, value) {
                self.variables.insert(name.clone(), value.clone());
            } else {
                left_out.push(name.clone());
            }
        }
        left_out
    }

    /// Containers that have to succeed beside the step's own.
    pub(super) fn candidates(&self) -> Vec<String> {
        let candidate = |side: &&Side| side.kind == SideKind::Candidate;
        self.sides.iter().filter(candidate).map(|side| side.name.clone()).collect()
    }

    /// A DNS label that is this attempt's and nobody else's.
    pub(super) fn name(&self, step: &StepSpec, place: &Place<'_>) -> String {
        let whole = format!("{}\n{}\n{}\n{}", self.owner, place.build, step.id, place.attempt);
        let hash = hex::encode(&Sha256::digest(whole)[..6]);
        let readable: String = format!("{}-{}", place.build, step.id)
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(38)
            .collect();
        format!("slipway-{}-{hash}", readable.trim_matches('-'))
    }

    pub(super) fn secret(&self, name: &str, step: &StepSpec, place: &Place<'_>) -> Option<Value> {
        if self.variables.is_empty() {
            return None;
        }
        Some(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self.metadata(name, step, place),
            "type": "Opaque",
            "immutable": true,
            "stringData": self.variables,
        }))
    }

    /// What opens the account's registries for the node. The same for all pods of the build that ask in the same order,
    /// and gone with the build.
    pub(super) fn pull_secret(&self, place: &Place<'_>) -> Option<Value> {
        let auths = registries::auths(&place.registries);
        if auths.is_empty() {
            return None;
        }
        let config = json!({"auths": auths}).to_string();
        let whole = format!("{}\n{}\n{config}", self.owner, place.build);
        let name = format!("slipway-pull-{}", hex::encode(&Sha256::digest(whole)[..10]));
        Some(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": self.config.namespace,
                "labels": {
                    "app.kubernetes.io/managed-by": "slipway",
                    RUNNER: self.owner,
                    BUILD: label_value(place.build),
                },
            },
            "type": "kubernetes.io/dockerconfigjson",
            "immutable": true,
            "stringData": {".dockerconfigjson": config},
        }))
    }

    pub(super) fn pod(&self, name: &str, step: &StepSpec, place: &Place<'_>) -> Value {
        let mut container = json!({
            "name": CONTAINER,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "volumeMounts": mounts(&self.mounts),
            "resources": self.resources(step),
            "securityContext": self.security(),
        });
        if !self.command.is_empty() {
            container["command"] = literal(&self.command);
        }
        if !self.arguments.is_empty() {
            container["args"] = literal(&self.arguments);
        }
        if let Some(directory) = &self.working_directory {
            container["workingDir"] = json!(directory);
        }
        if !self.variables.is_empty() {
            container["envFrom"] = json!([{"secretRef": {"name": name}}]);
        }
        let mut spec = json!({
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "hostname": "slipway",
            "containers": [container],
            "volumes": self.volumes(place),
        });
        let (candidates, first): (Vec<&Side>, Vec<&Side>) =
            self.sides.iter().partition(|side| side.kind == SideKind::Candidate);
        if !first.is_empty() {
            spec["initContainers"] = first.into_iter().map(|side| self.side(side)).collect();
        }
        if let Some(containers) = spec["containers"].as_array_mut() {
            containers.extend(candidates.into_iter().map(|side| self.side(side)));
        }
        if let Some(timeout_ms) = step.timeout_ms.filter(|_| !self.lasts) {
            spec["activeDeadlineSeconds"] = json!(timeout_ms.div_ceil(1000) + DEADLINE_SLACK_SECONDS);
        }
        if let Some(node) = &self.config.node {
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": [node]}]}]}}});
        }
        let pull = self.pull_secret(place).map(|secret| secret["metadata"]["name"].clone());
        let pulls: Vec<Value> = pull
            .into_iter()
            .chain(self.config.image_pull_secrets.iter().map(|name| json!(name)))
            .map(|name| json!({"name": name}))
            .collect();
        if !pulls.is_empty() {
            spec["imagePullSecrets"] = pulls.into();
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": self.metadata(name, step, place), "spec": spec})
    }

    /// A service restarts always, which makes Kubernetes start it first and end it last.
    fn side(&self, side: &Side) -> Value {
        let mut container = json!({
            "name": side.name,
            "image": side.image,
            "imagePullPolicy": "IfNotPresent",
            "env": side.environment.iter().map(|(name, value)| json!({"name": name, "value": value.replace("$(", "$$(")})).collect::<Vec<_>>(),
            "volumeMounts": mounts(&side.mounts),
            "securityContext": self.security(),
        });
        if side.kind == SideKind::Service {
            container["restartPolicy"] = json!("Always");
        }
        if !side.command.is_empty() {
            container["command"] = literal(&side.command);
        }
        if !side.arguments.is_empty() {
            container["args"] = literal(&side.arguments);
        }
        if let Some(directory) = &side.working_directory {
            container["workingDir"] = json!(directory);
        }
        container
    }

    fn metadata(&self, name: &str, step: &StepSpec, place: &Place<'_>) -> Value {
        json!({
            "name": name,
            "namespace": self.config.namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "slipway",
                "app.kubernetes.io/component": "step",
                RUNNER: self.owner,
                BUILD: label_value(place.build),
                STEP: label_value(&step.id),
                ATTEMPT: place.attempt.to_string(),
            },
            "annotations": {STEP: step.id},
        })
    }

    fn volumes(&self, place: &Place<'_>) -> Vec<Value> {
        let mut volumes = vec![self.storage()];
        let all = self.mounts.iter().chain(self.sides.iter().flat_map(|side| &side.mounts));
        if all.into_iter().any(|mount| mount.of == Of::Build) {
            let path = place.dir.volume();
            volumes.push(json!({"name": VOLUME, "hostPath": {"path": path, "type": "Directory"}}));
        }
        volumes
    }

    fn storage(&self) -> Value {
        match &self.config.storage {
            Storage::Claim(claim) => {
                json!({"name": STORAGE, "persistentVolumeClaim": {"claimName": claim}})
            }
            Storage::Host => {
                json!({"name": STORAGE, "hostPath": {"path": self.data, "type": "Directory"}})
            }
        }
    }

    /// What the step or its build says, else what the runner says for every step.
    fn resources(&self, step: &StepSpec) -> Value {
        let own = Amounts { cpu: self.config.cpu.clone(), memory: self.config.memory.clone() };
        let written = |amounts: Amounts| {
            let mut all = Map::new();
            all.extend(amounts.cpu.map(|cpu| ("cpu".to_owned(), json!(cpu))));
            all.extend(amounts.memory.map(|memory| ("memory".to_owned(), json!(memory))));
            all
        };
        let resources = step.resources.clone();
        let mut value = json!({"limits": written(resources.limits.or(own))});
        if !resources.requests.is_empty() {
            value["requests"] = json!(written(resources.requests));
        }
        value
    }

    fn security(&self) -> Value {
        if self.builds_images {
            return json!({
                "privileged": false,
                "capabilities": {"drop": ["ALL"], "add": [
                    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP", "SETGID", "SETUID", "SYS_CHROOT"]},
            });
        }
        json!({
            "privileged": false,
            "allowPrivilegeEscalation": false,
            "seccompProfile": {"type": "RuntimeDefault"},
        })
    }
}

fn mounts(all: &[Mount]) -> Vec<Value> {
    let one = |mount: &Mount| {
        let name = match mount.of {
            Of::Runner => STORAGE,
            Of::Build => VOLUME,
        };
        json!({
            "name": name, "mountPath": mount.at, "subPath": mount.sub_path, "readOnly": mount.read_only,
        })
    };
    all.iter().map(one).collect()
}

/// Kubernetes replaces `$(NAME)` in commands; what users write stays as it is.
fn literal(words: &[String]) -> Value {
    words.iter().map(|word| json!(word.replace("$(", "$$("))).collect()
}

/// Itself where it can be a label's value, else a digest of it.
pub(super) fn label_value(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    if text.len() <= 63 && text.chars().all(plain) && ends(text) {
        return text.to_owned();
    }
    hex::encode(&Sha256::digest(text)[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_what_kubernetes_takes() {
        assert_eq!(label_value("build-1.x_y"), "build-1.x_y");
        for odd in ["a/b", "-a", "", "build.hooks.on_fail.-", &"x".repeat(64)] {
            let value = label_value(odd);
            assert!(value.len() == 32 && value.chars().all(|c| c.is_ascii_hexdigit()), "{odd}: {value}");
        }
    }

    #[test]
    fn words_of_users_are_not_read_by_kubernetes() {
        assert_eq!(literal(&["echo $(HOME) $HOME".to_owned()]), json!(["echo $$(HOME) $HOME"]));
    }

    #[test]
    fn variables_that_a_pod_cannot_have_are_named() {
        let config = KubernetesConfig::new(None, "n", Storage::Host);
        let mut shape = PodShape::default_for(&config);
        let all = BTreeMap::from([
            ("GOOD".to_owned(), "a\nb".to_owned()),
            ("1BAD".to_owned(), String::new()),
            ("BLANK IN".to_owned(), String::new()),
            ("NUL".to_owned(), "\0".to_owned()),
        ]);
        assert_eq!(shape.environment(&all), ["1BAD", "BLANK IN", "NUL"]);
        assert_eq!(shape.variables.len(), 1);
    }
}
