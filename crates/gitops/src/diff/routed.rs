//! What a Rollout divides is not drift: two engines that write the same weights would undo each other's work for ever.
//!
//! In: a manifest, the live object, and the Rollouts of the same application. Out: the manifest with what the Rollout routes as it is live.
//! Only shares of destinations that Git names, routes that the Rollout in Git calls its own (`managedRoutes`) and destinations of its
//! experiments are taken: whoever can write the live object cannot hide a route of his own behind an annotation.

use crate::object;
use serde_json::Value;

/// On a live object: the Rollout that divides it.
const MANAGED_BY: &str = "argo-rollouts.argoproj.io/managed-by-rollouts";
const HASH: &str = "rollouts-pod-template-hash";

/// The Rollouts of this application that may divide the object, and the routes that they call their own.
struct Owner<'a> {
    names: Vec<&'a str>,
    routes: Vec<&'a str>,
}

/// The manifest as it is to be compared and applied.
pub(crate) fn as_live(target: &mut Value, live: &Value, rollouts: &[Value]) {
    if object::annotation(live, MANAGED_BY).is_none() {
        return;
    }
    // Several Rollouts may have routes in one object, and it names the first of them only.
    let routing = |rollout: &'_ Value| !rollout["spec"]["strategy"]["canary"]["trafficRouting"].is_null();
    let own = || rollouts.iter().filter(|rollout| routing(rollout));
    let routes = own().flat_map(|rollout| {
        list(&rollout["spec"]["strategy"]["canary"]["trafficRouting"]["managedRoutes"]).iter()
    });
    let routes = routes.filter_map(|route| route["name"].as_str()).collect();
    let owner = Owner { names: own().map(object::name).collect(), routes };
    let kind = object::kind(target).to_owned();
    match (object::group(target), kind.as_str()) {
        ("networking.istio.io", "VirtualService") => {
            for field in ["http", "tls", "tcp"] {
                owner.routes(target, live, &["spec", field], &["route"], |one| one["destination"].clone());
            }
        }
        ("networking.istio.io", "DestinationRule") => owner.subsets(target, live),
        ("gateway.networking.k8s.io", "HTTPRoute" | "GRPCRoute" | "TCPRoute" | "TLSRoute") => {
            owner.routes(target, live, &["spec", "rules"], &["backendRefs"], |one| {
                serde_json::json!([one["name"], one["namespace"]])
            });
        }
        ("traefik.io", "TraefikService") => {
            shares(
                &mut target["spec"]["weighted"]["services"],
                &live["spec"]["weighted"]["services"],
                |one| one["name"].clone(),
            );
        }
        ("apisix.apache.org", "ApisixRoute") => {
            owner.routes(target, live, &["spec", "http"], &["backends"], |one| one["serviceName"].clone());
        }
        ("appmesh.k8s.aws", "VirtualRouter") => {
            for field in ["httpRoute", "tcpRoute", "http2Route", "grpcRoute"] {
                let inner = [field, "action", "weightedTargets"];
                owner.routes(target, live, &["spec", "routes"], &inner, |one| one["virtualNodeRef"].clone());
            }
        }
        ("networking.k8s.io", "Ingress") => owner.ingress(target, live),
        _ => {}
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    path.iter().fold(value, |value, field| &value[*field])
}

fn at_mut<'v>(value: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, field| value.get_mut(*field))
}

/// Shares of destinations that both sides have.
fn shares(target: &mut Value, live: &Value, identity: impl Fn(&Value) -> Value) {
    for one in target.as_array_mut().into_iter().flatten() {
        let known = list(live).iter().find(|other| identity(other) == identity(one));
        match known.map(|known| &known["weight"]) {
            Some(Value::Null) | None => {}
            Some(weight) => one["weight"] = weight.clone(),
        }
    }
}

impl Owner<'_> {
    /// An experiment of a Rollout: its Services begin with the Rollout's name.
    fn is_experiment(&self, name: &str) -> bool {
        self.names.iter().any(|of| name.strip_prefix(of).is_some_and(|rest| rest.starts_with('-')))
    }

    fn is_own(&self, name: &str) -> bool {
        self.routes.iter().any(|route| {
            let rest = name.strip_prefix(route);
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.strip_prefix('-').is_some_and(|rest| rest.parse::<u32>().is_ok())
            })
        })
    }

    /// Routes in a list, each with destinations in a list: by their names, those without one in their order.
    fn routes(
        &self,
        target: &mut Value,
        live: &Value,
        path: &[&str],
        inner: &[&str],
        identity: impl Fn(&Value) -> Value + Copy,
    ) {
        let live_routes = list(at(live, path));
        let name = |route: &Value| route["name"].as_str().unwrap_or_default().to_owned();
        let others: Vec<&Value> = live_routes.iter().filter(|route| !self.is_own(&name(route))).collect();
        let Some(Value::Array(routes)) = at_mut(target, path) else { return };
        for (index, route) in routes.iter_mut().enumerate() {
            let named = name(route);
            let known = if named.is_empty() {
                others.get(index).copied().filter(|other| name(other).is_empty())
            } else {
                others.iter().copied().find(|other| name(other) == named)
            };
            let Some(known) = known.map(|known| at(known, inner)) else { continue };
            let Some(destinations) = at_mut(route, inner) else { continue };
            shares(destinations, known, identity);
            let Some(destinations) = destinations.as_array_mut() else { continue };
            let extra = list(known).iter().filter(|one| {
                let to =
                    one["name"].as_str().or_else(|| one["destination"]["host"].as_str()).unwrap_or_default();
                self.is_experiment(to)
            });
            let extra: Vec<Value> = extra
                .filter(|one| !destinations.iter().any(|own| identity(own) == identity(one)))
                .cloned()
                .collect();
            destinations.extend(extra);
        }
        let mut before = Vec::new();
        let mut after = Vec::new();
        for route in live_routes {
            if !self.is_own(&name(route)) || routes.iter().any(|one| name(one) == name(route)) {
                continue;
            }
            // Where it stands among the others is for the Rollout to say.
            let first = live_routes.iter().position(|one| !self.is_own(&name(one))).unwrap_or(0);
            let here = live_routes.iter().position(|one| one == route).unwrap_or(0);
            if here < first { before.push(route.clone()) } else { after.push(route.clone()) }
        }
        routes.splice(0..0, before);
        routes.extend(after);
    }

    fn subsets(&self, target: &mut Value, live: &Value) {
        let live_subsets = list(&live["spec"]["subsets"]);
        let Some(Value::Array(subsets)) = at_mut(target, &["spec", "subsets"]) else { return };
        for subset in subsets.iter_mut() {
            let known = live_subsets.iter().find(|one| one["name"] == subset["name"]);
            if let Some(hash) = known.and_then(|known| known["labels"][HASH].as_str()) {
                subset["labels"][HASH] = hash.into();
            }
        }
        let extra =
            live_subsets.iter().filter(|one| self.is_experiment(one["name"].as_str().unwrap_or_default()));
        let extra: Vec<Value> =
            extra.filter(|one| !subsets.iter().any(|own| own["name"] == one["name"])).cloned().collect();
        subsets.extend(extra);
    }

    /// Annotations that hold shares as JSON, and the paths of routes by header.
    fn ingress(&self, target: &mut Value, live: &Value) {
        let annotations = live["metadata"]["annotations"].as_object();
        if let Some(Value::Object(own)) = at_mut(target, &["metadata", "annotations"]) {
            for (name, value) in own.iter_mut() {
                let divided = name.contains("/actions.");
                if let Some(known) = annotations.and_then(|all| all.get(name)).filter(|_| divided) {
                    *value = known.clone();
                }
            }
        }
        let Some(Value::Array(rules)) = at_mut(target, &["spec", "rules"]) else { return };
        for (rule, known) in rules.iter_mut().zip(list(&live["spec"]["rules"])) {
            let own = list(&known["http"]["paths"])
                .iter()
                .filter(|path| self.is_own(path["backend"]["service"]["name"].as_str().unwrap_or_default()));
            let own: Vec<Value> = own.cloned().collect();
            if let Some(Value::Array(paths)) = at_mut(rule, &["http", "paths"]) {
                let missing: Vec<Value> = own.into_iter().filter(|path| !paths.contains(path)).collect();
                paths.splice(0..0, missing);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rollouts() -> Vec<Value> {
        vec![json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web"},
            "spec": {"strategy": {"canary": {"trafficRouting": {"managedRoutes": [{"name": "testers"}]}}}}})]
    }

    fn service(routes: Value, by: Option<&str>) -> Value {
        let mut service = json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "shop"}, "spec": {"hosts": ["a"], "http": routes}});
        if let Some(by) = by {
            service["metadata"]["annotations"] = json!({MANAGED_BY: by});
        }
        service
    }

    fn to(host: &str, weight: i64) -> Value {
        json!({"destination": {"host": host}, "weight": weight})
    }

    #[test]
    fn shares_and_routes_of_a_rollout_are_as_they_are_live() {
        let git = service(json!([{"route": [to("stable", 100), to("canary", 0)]}]), None);
        let live = service(
            json!([{"name": "testers", "route": [to("canary", 100)]}, {"route": [to("stable", 70), to("canary", 20), to("web-1-baseline", 10)]}]),
            Some("web"),
        );
        let mut target = git.clone();
        as_live(&mut target, &live, &rollouts());
        assert_eq!(target["spec"], live["spec"]);
        // Of a Rollout of another application the shares alone.
        let mut target = git.clone();
        as_live(&mut target, &live, &[]);
        assert_eq!(target["spec"]["http"].as_array().map(Vec::len), Some(1));
        assert_eq!(git["spec"]["http"][0]["route"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn routes_of_all_rollouts_that_share_an_object_are_left_to_them() {
        let mut rollouts = rollouts();
        let mut other = rollouts[0].clone();
        other["metadata"]["name"] = "api".into();
        other["spec"]["strategy"]["canary"]["trafficRouting"]["managedRoutes"][0]["name"] = "probes".into();
        rollouts.push(other);
        let git = service(json!([{"route": [to("stable", 100), to("canary", 0)]}]), None);
        let live = service(
            json!([{"name": "testers", "route": []}, {"name": "probes", "route": []}, {"route": [to("stable", 70), to("canary", 20), to("api-1-baseline", 10)]}]),
            Some("web"),
        );
        let mut target = git.clone();
        as_live(&mut target, &live, &rollouts);
        assert_eq!(target["spec"], live["spec"], "it names one of them only");
    }

    #[test]
    fn what_git_changes_and_what_strangers_add_is_drift() {
        let git = service(json!([{"timeout": "5s", "route": [to("stable", 100), to("canary", 0)]}]), None);
        let live = service(
            json!([{"name": "mine", "route": [to("evil", 100)]}, {"timeout": "9s", "route": [to("stable", 50), to("canary", 50)]}]),
            Some("web"),
        );
        let mut target = git.clone();
        as_live(&mut target, &live, &rollouts());
        assert_eq!(
            target["spec"]["http"].as_array().map(Vec::len),
            Some(1),
            "nobody called that route his own in Git"
        );
        assert_eq!(target["spec"]["http"][0]["timeout"], "5s");
        let mut target = git.clone();
        as_live(
            &mut target,
            &service(json!([{"route": [to("stable", 1), to("canary", 99)]}]), None),
            &rollouts(),
        );
        assert_eq!(target, git, "no Rollout divides it");
    }

    #[test]
    fn gateways_subsets_and_annotations_are_known() {
        let rule = |weights: [i64; 2]| json!({"backendRefs": [{"name": "stable", "weight": weights[0]}, {"name": "canary", "weight": weights[1]}]});
        let route = |rules: Value, by: Value| json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "shop", "annotations": by}, "spec": {"rules": rules}});
        let mut target = route(json!([rule([100, 0])]), json!({}));
        let live = route(
            json!([rule([20, 80]), {"name": "testers", "backendRefs": []}, {"name": "testers-1", "backendRefs": []}]),
            json!({MANAGED_BY: "web"}),
        );
        as_live(&mut target, &live, &rollouts());
        assert_eq!(target["spec"], live["spec"]);

        let subset = |hash: Option<&str>| json!([{"name": "stable", "labels": {"app": "web", HASH: hash}}]);
        let rule = |subsets: Value, by: Value| json!({"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "metadata": {"annotations": by}, "spec": {"subsets": subsets}});
        let mut target = rule(json!([{"name": "stable", "labels": {"app": "web"}}]), json!({}));
        as_live(&mut target, &rule(subset(Some("abc")), json!({MANAGED_BY: "web"})), &[]);
        assert_eq!(target["spec"]["subsets"], subset(Some("abc")));

        let ingress = |action: &str, by: Value| {
            let mut ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"annotations": by}, "spec": {"rules": []}});
            ingress["metadata"]["annotations"]["alb.ingress.kubernetes.io/actions.web"] = action.into();
            ingress
        };
        let mut target = ingress("{}", json!({}));
        as_live(&mut target, &ingress("{\"Type\":\"forward\"}", json!({MANAGED_BY: "web"})), &[]);
        assert_eq!(
            target["metadata"]["annotations"]["alb.ingress.kubernetes.io/actions.web"],
            "{\"Type\":\"forward\"}"
        );
    }
}
