//! APISIX: the weights of a route's backends; a route by header is an ApisixRoute of its own.

use serde_json::{Value, json};
use slipway_crd::rollout::{Apisix, HeaderMatch, Rollout, SetHeaderRoute};

use super::seen::{change, is_owned, set_number};
use super::{Reference, Seen, Wanted, Write};
use crate::names::MANAGED_BY;

const ROUTE: (&str, &str) = ("apisix.apache.org", "ApisixRoute");

pub(super) struct Router<'a>(pub(super) &'a Apisix);

impl Router<'_> {
    fn reference(&self, rollout: &Rollout) -> Reference {
        let name = self.0.route.as_ref().map(|route| route.name.as_str()).unwrap_or_default();
        Reference::new(ROUTE, &rollout.metadata.namespace, name)
    }

    /// The rules that are ours; without a list the one that is named like the route.
    fn rules(&self) -> Vec<&str> {
        match &self.0.route {
            Some(route) if route.rules.is_empty() => vec![route.name.as_str()],
            Some(route) => route.rules.iter().map(String::as_str).collect(),
            None => Vec::new(),
        }
    }

    /// Each of our rules, changed.
    fn each(
        &self,
        route: &mut Value,
        mut then: impl FnMut(&mut Value) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some(rules) = route["spec"]["http"].as_array_mut() else {
            return Err("the ApisixRoute has no spec.http".into());
        };
        for name in self.rules() {
            let rule = rules.iter_mut().find(|rule| rule["name"] == name);
            then(rule.ok_or_else(|| format!("the ApisixRoute has no rule {name}"))?)?;
        }
        Ok(())
    }

    fn header_route(
        &self,
        wanted: &Wanted<'_>,
        base: &Value,
        asked: &SetHeaderRoute,
    ) -> Result<Value, String> {
        let (stable, canary) = wanted.services(false);
        let mut route = json!({"apiVersion": base["apiVersion"], "kind": "ApisixRoute", "spec": base["spec"],
            "metadata": {"name": asked.name, "namespace": wanted.rollout.metadata.namespace, "ownerReferences": [wanted.owner()],
                "annotations": {MANAGED_BY: wanted.rollout.metadata.name}}});
        self.each(&mut route, |rule| {
            backend(rule, canary, 100)?;
            if let Some(backends) = rule["backends"].as_array_mut() {
                backends.retain(|backend| backend["serviceName"] != stable);
            }
            // Before the route that everybody takes.
            rule["priority"] = (rule["priority"].as_i64().unwrap_or(0) + 1).into();
            rule["match"]["exprs"] = asked.r#match.iter().flat_map(conditions).collect();
            Ok(())
        })?;
        Ok(route)
    }
}

fn backend(rule: &mut Value, name: &str, weight: i64) -> Result<(), String> {
    let backends = rule["backends"].as_array_mut().into_iter().flatten();
    let found = backends.into_iter().find(|backend| backend["serviceName"] == name);
    let found = found.ok_or_else(|| format!("the ApisixRoute has no backend {name}"))?;
    set_number(&mut found["weight"], weight);
    Ok(())
}

fn conditions(header: &HeaderMatch) -> Vec<Value> {
    let Some(value) = &header.header_value else { return Vec::new() };
    let subject = json!({"scope": "Header", "name": header.header_name});
    let prefix = if value.prefix.is_empty() { String::new() } else { format!("^{}.*", value.prefix) };
    let all = [("Equal", &value.exact), ("RegexMatch", &value.regex), ("RegexMatch", &prefix)];
    let all = all.into_iter().filter(|(_, value)| !value.is_empty());
    all.map(|(op, value)| json!({"subject": subject, "op": op, "value": value})).collect()
}

impl super::Router for Router<'_> {
    fn field(&self) -> &'static str {
        "apisix"
    }

    fn objects(&self, rollout: &Rollout, _: &Seen) -> Vec<Reference> {
        let routing = rollout.canary().and_then(|canary| canary.traffic_routing.as_ref());
        let managed = routing.map(|routing| routing.managed_routes.as_slice()).unwrap_or_default();
        let managed =
            managed.iter().map(|route| Reference::new(ROUTE, &rollout.metadata.namespace, &route.name));
        std::iter::once(self.reference(rollout)).chain(managed).collect()
    }

    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let metadata = &wanted.rollout.metadata;
        let at = self.reference(wanted.rollout);
        let before = seen.get(&at)?;
        let mut after = before.clone();
        let (stable, canary) = wanted.services(false);
        self.each(&mut after, |rule| {
            backend(rule, canary, wanted.weight)?;
            backend(rule, stable, wanted.stable_weight())
        })?;
        let mut writes = change(&at, before, after, &metadata.name);
        for name in wanted.managed() {
            let at = Reference::new(ROUTE, &metadata.namespace, name);
            let asked = wanted.headers.iter().find(|route| route.name == name);
            match (asked, seen.find(&at)) {
                (None, None) => {}
                (_, Some(there)) if !is_owned(there, &metadata.uid) => {
                    return Err(format!("ApisixRoute \"{name}\" is there and not this Rollout's"));
                }
                (None, Some(_)) => writes.push(Write::Delete(at)),
                (Some(asked), there) => {
                    let made = self.header_route(wanted, before, asked)?;
                    match there {
                        None => writes.push(Write::Create(at, made)),
                        Some(there) => {
                            let mut after = there.clone();
                            after["spec"] = made["spec"].clone();
                            writes.extend(change(&at, there, after, &metadata.name));
                        }
                    }
                }
            }
        }
        Ok(writes)
    }
}
