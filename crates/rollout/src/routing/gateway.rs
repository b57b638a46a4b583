//! Gateway API: the weights of `backendRefs`. It is asked for as users of the plugin for Argo Rollouts do, under the plugin's name and with
//! its settings; nothing is downloaded for it.

use serde::Deserialize;
use serde_json::{Value, json};
use slipway_crd::rollout::{Rollout, SetHeaderRoute, SetMirrorRoute, StringMatch};

use super::seen::{as_they_are, change, items, set_number, text};
use super::{Reference, Seen, Wanted, Write};

/// The key in `trafficRouting.plugins`.
pub const PLUGIN: &str = "argoproj-labs/gatewayAPI";
const GROUP: &str = "gateway.networking.k8s.io";
const LABEL: &str = "rollouts.argoproj.io/gatewayapi-canary";
const IN_PROGRESS: &str = "in-progress";

/// The settings that the plugin has.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Config {
    http_route: String,
    grpc_route: String,
    tcp_route: String,
    tls_route: String,
    http_routes: Vec<Named>,
    grpc_routes: Vec<Named>,
    tcp_routes: Vec<Named>,
    tls_routes: Vec<Named>,
    namespace: String,
    /// Where the plugin kept notes of its own; nothing has to be kept here.
    #[serde(rename = "configMap")]
    _config_map: String,
    disable_in_progress_label: bool,
    in_progress_label_key: String,
    in_progress_label_value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Named {
    name: String,
    use_header_routes: bool,
}

pub(super) struct Router(Result<Config, String>);

/// A route, and whether steps may add rules to it.
struct Route {
    at: Reference,
    rules: bool,
}

impl Router {
    pub(super) fn new(config: &Value) -> Self {
        Self(serde_json::from_value(config.clone()).map_err(|error| error.to_string()))
    }

    fn routes(&self, rollout: &Rollout) -> Vec<Route> {
        let Ok(config) = &self.0 else { return Vec::new() };
        let namespace =
            if config.namespace.is_empty() { &rollout.metadata.namespace } else { &config.namespace };
        let kinds = [
            ("HTTPRoute", &config.http_route, &config.http_routes),
            ("GRPCRoute", &config.grpc_route, &config.grpc_routes),
            ("TCPRoute", &config.tcp_route, &config.tcp_routes),
            ("TLSRoute", &config.tls_route, &config.tls_routes),
        ];
        let mut all = Vec::new();
        for (kind, one, several) in kinds {
            let of = |name: &str| Reference::new((GROUP, kind), namespace, name);
            let by_header = matches!(kind, "HTTPRoute" | "GRPCRoute");
            all.extend(
                several
                    .iter()
                    .map(|named| Route { at: of(&named.name), rules: named.use_header_routes && by_header }),
            );
            if !one.is_empty() {
                all.push(Route { at: of(one), rules: by_header });
            }
        }
        all
    }
}

impl super::Router for Router {
    fn field(&self) -> &'static str {
        "plugins.argoproj-labs/gatewayAPI"
    }

    fn objects(&self, rollout: &Rollout, _: &Seen) -> Vec<Reference> {
        self.routes(rollout).into_iter().map(|route| route.at).collect()
    }

    fn weigh(&self, wanted: &Wanted<'_>, seen: &Seen) -> Result<Vec<Write>, String> {
        let config = self.0.as_ref().map_err(Clone::clone)?;
        let routes = self.routes(wanted.rollout);
        if routes.is_empty() {
            return Err("it names no route".into());
        }
        let more = !wanted.headers.is_empty() || !wanted.mirrors.is_empty();
        if more && !routes.iter().any(|route| route.rules) {
            return Err("no route has useHeaderRoutes, and steps set routes".into());
        }
        let mut writes = Vec::new();
        for route in routes {
            let before = seen.get(&route.at)?;
            let mut after = before.clone();
            let name = |why: String| format!("{} \"{}\": {why}", route.at.kind, route.at.name);
            let ours = Ours::of(wanted, &route.at.namespace);
            set_weights(&mut after, wanted, &ours).map_err(name)?;
            if route.rules {
                set_rules(&mut after, wanted, &ours, &route.at.kind).map_err(name)?;
            }
            config.label(&mut after, wanted);
            writes.extend(change(&route.at, before, after, &wanted.rollout.metadata.name));
        }
        Ok(writes)
    }

    /// A gateway notes on the route which generation of it it has taken. One that notes none does not tell.
    fn verified(&self, wanted: &Wanted<'_>, seen: &Seen) -> Option<bool> {
        let mut verified = None;
        for route in self.routes(wanted.rollout) {
            let object = seen.find(&route.at)?;
            let generation = object["metadata"]["generation"].as_i64()?;
            for parent in items(&object["status"]["parents"]) {
                let accepted = items(&parent["conditions"]).iter().find(|one| one["type"] == "Accepted");
                let Some(noted) = accepted.and_then(|one| one["observedGeneration"].as_i64()) else {
                    continue;
                };
                let taken = noted >= generation && accepted.is_some_and(|one| one["status"] == "True");
                verified = Some(verified.unwrap_or(true) && taken);
            }
        }
        verified
    }
}

impl Config {
    /// While the canary has a share the route says so, as the plugin does it. Who has had no share leaves it alone: another Rollout may have
    /// one in the same route, and both would write in turns.
    fn label(&self, route: &mut Value, wanted: &Wanted<'_>) {
        if self.disable_in_progress_label {
            return;
        }
        let or = |given: &str, otherwise: &str| if given.is_empty() { otherwise } else { given }.to_owned();
        let (key, value) =
            (or(&self.in_progress_label_key, LABEL), or(&self.in_progress_label_value, IN_PROGRESS));
        let labels = &mut route["metadata"]["labels"];
        let told = wanted.rollout.status.canary.weights.as_ref().map(|weights| weights.canary.weight);
        if wanted.weight > 0 {
            labels[key] = value.into();
        } else if told == Some(0) {
            // It was taken away when the share was.
        } else if let Some(labels) = labels.as_object_mut() {
            labels.remove(&key);
        }
    }
}

/// By what the backends of both versions are known.
struct Ours<'a> {
    stable: &'a str,
    canary: &'a str,
    /// In a route of another namespace they have to name this one: nobody else's routes are divided by a Rollout that merely has
    /// Services of the same names.
    namespace: &'a str,
    foreign: bool,
}

impl<'a> Ours<'a> {
    fn of(wanted: &'a Wanted<'_>, route: &str) -> Self {
        let (stable, canary) = wanted.services(false);
        let namespace = wanted.rollout.metadata.namespace.as_str();
        Self { stable, canary, namespace, foreign: namespace != route }
    }

    fn is(&self, backend: &Value, name: &str) -> bool {
        let namespace = backend["namespace"].as_str();
        let here = if self.foreign {
            namespace == Some(self.namespace)
        } else {
            namespace.is_none_or(|at| at == self.namespace)
        };
        here && backend["name"] == name
    }

    fn backend<'r>(&self, rule: &'r Value, name: &str) -> Option<&'r Value> {
        items(&rule["backendRefs"]).iter().find(|backend| self.is(backend, name))
    }

    /// Its requests are divided between both versions.
    fn has_both(&self, rule: &Value) -> bool {
        self.backend(rule, self.stable).is_some() && self.backend(rule, self.canary).is_some()
    }
}

/// Ours by its name: `name`, or `name-1` where one name needs several rules.
fn is_managed(rule: &Value, managed: &[&str]) -> bool {
    let name = text(&rule["name"]);
    managed.iter().any(|one| {
        name == *one
            || name
                .strip_prefix(one)
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|number| number.parse::<u32>().is_ok())
    })
}

fn set_weights(route: &mut Value, wanted: &Wanted<'_>, ours: &Ours<'_>) -> Result<(), String> {
    let managed = wanted.managed();
    let told = wanted.rollout.status.canary.weights.as_ref();
    let earlier: Vec<&str> =
        told.into_iter().flat_map(|told| &told.additional).map(|one| one.service_name.as_str()).collect();
    let mut found = false;
    for rule in route["spec"]["rules"].as_array_mut().into_iter().flatten() {
        if is_managed(rule, &managed) || !ours.has_both(rule) {
            continue;
        }
        found = true;
        let model = ours.backend(rule, ours.stable).cloned().unwrap_or_default();
        let Some(backends) = rule["backendRefs"].as_array_mut() else { continue };
        let experiment = |name: &str| wanted.additional.iter().find(|one| one.service_name == name);
        backends.retain(|backend| {
            let name = text(&backend["name"]);
            experiment(name).is_some() || !earlier.contains(&name)
        });
        for backend in backends.iter_mut() {
            let weight = if ours.is(backend, ours.canary) {
                wanted.weight
            } else if ours.is(backend, ours.stable) {
                wanted.stable_weight()
            } else if let Some(one) = experiment(text(&backend["name"])) {
                one.weight
            } else {
                continue;
            };
            set_number(&mut backend["weight"], weight);
        }
        for one in wanted.additional {
            if !backends.iter().any(|backend| backend["name"] == one.service_name.as_str()) {
                let mut backend = model.clone();
                backend["name"] = one.service_name.as_str().into();
                backend["weight"] = one.weight.into();
                backends.push(backend);
            }
        }
    }
    let (stable, canary) = (ours.stable, ours.canary);
    if found { Ok(()) } else { Err(format!("it has no rule with both backendRefs {stable} and {canary}")) }
}

/// Rules by header and mirrors stand before nobody: Gateway API prefers whatever matches more.
fn set_rules(route: &mut Value, wanted: &Wanted<'_>, ours: &Ours<'_>, kind: &str) -> Result<(), String> {
    let managed = wanted.managed();
    if managed.is_empty() {
        return Ok(());
    }
    let Some(rules) = route["spec"]["rules"].as_array_mut() else { return Err("it has no rules".into()) };
    let there = rules.clone();
    rules.retain(|rule| !is_managed(rule, &managed));
    let mut own = Vec::new();
    let divided: Vec<Value> = rules.iter().filter(|rule| ours.has_both(rule)).cloned().collect();
    for base in managed {
        for (index, rule) in divided.iter().enumerate() {
            let name = if index == 0 { base.to_owned() } else { format!("{base}-{index}") };
            if let Some(asked) = wanted.headers.iter().find(|route| route.name == base) {
                own.push(by_header(rule, &name, asked, ours)?);
            }
            if let Some(asked) = wanted.mirrors.iter().find(|route| route.name == base) {
                if kind != "HTTPRoute" {
                    return Err("requests of a GRPCRoute cannot be mirrored".into());
                }
                own.push(mirror(rule, &name, asked, ours)?);
            }
        }
    }
    rules.extend(as_they_are(own, &there));
    Ok(())
}

fn matched(header: &str, value: Option<&StringMatch>) -> Result<Value, String> {
    let value = value.ok_or_else(|| format!("the header {header} has no value to match"))?;
    let (kind, text) = if !value.exact.is_empty() {
        ("Exact", value.exact.clone())
    } else if !value.prefix.is_empty() {
        ("RegularExpression", format!("{}.*", value.prefix))
    } else {
        ("RegularExpression", value.regex.clone())
    };
    Ok(json!({"name": header, "type": kind, "value": text}))
}

/// The matches of a rule with more conditions each.
fn narrowed(rule: &Value, headers: &[Value]) -> Vec<Value> {
    let mut matches = items(&rule["matches"]).to_vec();
    if matches.is_empty() {
        matches.push(json!({}));
    }
    for one in &mut matches {
        let mut all = items(&one["headers"]).to_vec();
        all.extend(headers.iter().cloned());
        if !all.is_empty() {
            one["headers"] = all.into();
        }
    }
    matches
}

fn by_header(rule: &Value, name: &str, asked: &SetHeaderRoute, ours: &Ours<'_>) -> Result<Value, String> {
    let headers: Result<Vec<Value>, String> =
        asked.r#match.iter().map(|one| matched(&one.header_name, one.header_value.as_ref())).collect();
    let mut backend = ours.backend(rule, ours.canary).cloned().unwrap_or_default();
    backend["weight"] = 1.into();
    let mut own = json!({"name": name, "matches": narrowed(rule, &headers?), "backendRefs": [backend]});
    if !items(&rule["filters"]).is_empty() {
        own["filters"] = rule["filters"].clone();
    }
    Ok(own)
}

/// The shares stay as they are; the canary gets a copy besides.
fn mirror(rule: &Value, name: &str, asked: &SetMirrorRoute, ours: &Ours<'_>) -> Result<Value, String> {
    let mut matches = Vec::new();
    for one in &asked.r#match {
        let headers: Result<Vec<Value>, String> =
            one.headers.iter().map(|(name, value)| matched(name, Some(value))).collect();
        for mut each in narrowed(rule, &headers?) {
            if let Some(path) = &one.path {
                let (kind, text) = if !path.exact.is_empty() {
                    ("Exact", &path.exact)
                } else if !path.prefix.is_empty() {
                    ("PathPrefix", &path.prefix)
                } else {
                    ("RegularExpression", &path.regex)
                };
                each["path"] = json!({"type": kind, "value": text});
            }
            if let Some(method) = &one.method {
                if method.exact.is_empty() {
                    return Err("a mirror's method is matched exactly here".into());
                }
                each["method"] = method.exact.as_str().into();
            }
            matches.push(each);
        }
    }
    let mut to = ours.backend(rule, ours.canary).cloned().unwrap_or_default();
    if let Some(to) = to.as_object_mut() {
        to.retain(|field, _| field != "weight" && field != "filters");
    }
    let mut request = json!({"backendRef": to});
    if let Some(percentage) = asked.percentage.filter(|percentage| *percentage < 100) {
        request["percent"] = percentage.into();
    }
    let mut filters = items(&rule["filters"]).to_vec();
    filters.push(json!({"type": "RequestMirror", "requestMirror": request}));
    Ok(json!({"name": name, "matches": matches, "filters": filters, "backendRefs": rule["backendRefs"]}))
}
