//! AWS' load balancer: an annotation of the Ingress holds the shares as JSON; a route by header is a path with two annotations of its own.

use serde_json::{Map, Value, json};
use slipway_crd::rollout::{Alb, Rollout, SetHeaderRoute};

use super::nginx::{INGRESS, listed};
use super::seen::{change, items, text};
use super::{Reference, Seen, Wanted, Write};

const PREFIX: &str = "alb.ingress.kubernetes.io";
/// Which annotations are whose: `{"rollout": ["…/actions.web"]}`.
const MANAGED: &str = "rollouts.argoproj.io/managed-alb-annotations";
/// A week, as AWS has it.
const STICKY_MAX: i64 = 604_800;

pub(super) struct Router<'a>(pub(super) &'a Alb);

impl super::Router for Router<'_> {
    fn field(&self) -> &'static str {
        "alb"
    }

    fn objects(&self, rollout: &Rollout, _: &Seen) -> Vec<Reference> {
        let ingresses = listed(&self.0.ingress, &self.0.ingresses).into_iter();
        ingresses.map(|name| Reference::new(INGRESS, &rollout.metadata.namespace, name)).collect()
    }

    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let metadata = &wanted.rollout.metadata;
        let mut writes = Vec::new();
        for name in listed(&self.0.ingress, &self.0.ingresses) {
            let at = Reference::new(INGRESS, &metadata.namespace, name);
            let before = seen.get(&at)?;
            let root = self.root(wanted);
            if !paths(before).any(|path| path["backend"]["service"]["name"] == root) {
                return Err(format!("Ingress \"{name}\" has no rule with the service {root}"));
            }
            let mut after = before.clone();
            self.annotate(wanted, &mut after)?;
            self.paths(wanted, &mut after);
            writes.extend(change(&at, before, after, &metadata.name));
        }
        Ok(writes)
    }
}

fn paths(ingress: &Value) -> impl Iterator<Item = &Value> {
    items(&ingress["spec"]["rules"]).iter().flat_map(|rule| items(&rule["http"]["paths"]))
}

impl Router<'_> {
    fn root<'w>(&'w self, wanted: &'w Wanted<'_>) -> &'w str {
        let root = self.0.root_service.as_str();
        if !root.is_empty() {
            return root;
        }
        wanted.rollout.canary().map(|canary| canary.stable_service.as_str()).unwrap_or_default()
    }

    fn key(&self, of: &str, name: &str) -> String {
        let prefix = if self.0.annotation_prefix.is_empty() { PREFIX } else { &self.0.annotation_prefix };
        format!("{prefix}/{of}.{name}")
    }

    /// `actions.<name>`: who gets how much. The order of the fields is the one that is read elsewhere.
    fn action(&self, shares: &[(&str, i64)]) -> Result<String, String> {
        let port = self.0.service_port.to_string();
        let text = |value: &str| Value::from(value).to_string();
        let groups = shares.iter().map(|(service, weight)| {
            format!(
                "{{\"ServiceName\":{},\"ServicePort\":{},\"Weight\":{weight}}}",
                text(service),
                text(&port)
            )
        });
        let groups = groups.collect::<Vec<_>>().join(",");
        let sticky = match self.0.stickiness_config.as_ref().filter(|sticky| sticky.enabled) {
            None => String::new(),
            Some(sticky) if (1..=STICKY_MAX).contains(&sticky.duration_seconds) => {
                let seconds = sticky.duration_seconds;
                format!(",\"TargetGroupStickinessConfig\":{{\"Enabled\":true,\"DurationSeconds\":{seconds}}}")
            }
            Some(_) => {
                return Err(format!("stickinessConfig.durationSeconds must be from 1 to {STICKY_MAX}"));
            }
        };
        Ok(format!("{{\"Type\":\"forward\",\"ForwardConfig\":{{\"TargetGroups\":[{groups}]{sticky}}}}}"))
    }

    fn annotate(&self, wanted: &Wanted<'_>, ingress: &mut Value) -> Result<(), String> {
        let (stable, canary) = wanted.services(true);
        let mut shares = vec![(canary, wanted.weight)];
        shares.extend(wanted.additional.iter().map(|one| (one.service_name.as_str(), one.weight)));
        shares.push((stable, wanted.stable_weight()));
        let main = self.key("actions", self.root(wanted));
        let mut set = vec![(main, self.action(&shares)?)];
        let mut gone = Vec::new();
        for name in wanted.managed() {
            let keys = (self.key("actions", name), self.key("conditions", name));
            match wanted.headers.iter().find(|route| route.name == name) {
                Some(route) => {
                    set.push((keys.0, self.action(&[(canary, 100)])?));
                    set.push((keys.1, conditions(route)));
                }
                None => gone.extend([keys.0, keys.1]),
            }
        }
        let annotations = &mut ingress["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        let noted = text(&annotations[MANAGED]);
        let mut managed: Map<String, Value> = if noted.is_empty() {
            Map::new()
        } else {
            serde_json::from_str(noted).map_err(|_| format!("the annotation {MANAGED} is not readable"))?
        };
        let keys: Vec<Value> = set.iter().map(|(key, _)| key.as_str().into()).collect();
        managed.insert(wanted.rollout.metadata.name.clone(), keys.into());
        annotations[MANAGED] = Value::from(managed).to_string().into();
        for (key, value) in set {
            annotations[key.as_str()] = value.into();
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.retain(|key, _| !gone.contains(key));
        }
        Ok(())
    }

    /// A path for each route by header, before the paths of everybody.
    fn paths(&self, wanted: &Wanted<'_>, ingress: &mut Value) {
        let managed = wanted.managed();
        let asked: Vec<&str> = managed
            .iter()
            .copied()
            .filter(|name| wanted.headers.iter().any(|route| route.name == *name))
            .collect();
        for rule in ingress["spec"]["rules"].as_array_mut().into_iter().flatten() {
            let Some(paths) = rule["http"]["paths"].as_array_mut() else { continue };
            paths.retain(|path| !managed.contains(&text(&path["backend"]["service"]["name"])));
            let own = asked.iter().map(|name| {
                json!({"path": "/*", "pathType": "ImplementationSpecific",
                    "backend": {"service": {"name": name, "port": {"name": "use-annotation"}}}})
            });
            paths.splice(0..0, own);
        }
    }
}

/// Values of one header stand together: each of them is enough.
fn conditions(route: &SetHeaderRoute) -> String {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in &route.r#match {
        let value = one.header_value.as_ref().map(|value| value.exact.as_str()).unwrap_or_default();
        match all.iter_mut().find(|(name, _)| *name == one.header_name) {
            Some((_, values)) => values.push(value),
            None => all.push((&one.header_name, vec![value])),
        }
    }
    let all = all.into_iter().map(|(name, values)| {
        let (name, values) = (Value::from(name), json!(values));
        format!("{{\"field\":\"http-header\",\"httpHeaderConfig\":{{\"httpHeaderName\":{name},\"values\":{values}}}}}")
    });
    format!("[{}]", all.collect::<Vec<_>>().join(","))
}
