//! The routes of a VirtualService: which of them are divided, their shares, and the routes that are ours alone.

use serde_json::{Value, json};
use slipway_crd::rollout::{IstioTcpRoute, IstioTlsRoute, IstioVirtualService, StringMatch};

use super::Wanted;
use super::istio::Destinations;
use super::seen::{as_they_are, items, set_number, text};

/// Kind and index of the routes that are divided: those that are named, or the only one.
pub(super) fn chosen(
    spec: &Value,
    service: &IstioVirtualService,
    managed: &[&str],
) -> Result<Vec<(&'static str, usize)>, String> {
    let mut all = Vec::new();
    let http: Vec<(usize, &str)> =
        items(&spec["http"]).iter().enumerate().map(|(index, route)| (index, text(&route["name"]))).collect();
    if service.routes.is_empty() {
        let own: Vec<usize> =
            http.iter().filter(|(_, name)| !managed.contains(name)).map(|(index, _)| *index).collect();
        if own.len() > 1 {
            return Err("it has several http routes: name those that are divided in `routes`".into());
        }
        all.extend(own.into_iter().map(|index| ("http", index)));
    }
    for asked in &service.routes {
        let found = http.iter().find(|(_, name)| name == asked);
        let (index, _) = found.ok_or_else(|| format!("it has no http route {asked}"))?;
        all.push(("http", *index));
    }
    all.extend(by_port(&spec["tls"], "tls", &service.tls_routes, is_tls)?);
    all.extend(by_port(&spec["tcp"], "tcp", &service.tcp_routes, |asked: &IstioTcpRoute, route| {
        port_of(route) == Some(asked.port)
    })?);
    Ok(all)
}

fn by_port<A>(
    routes: &Value,
    kind: &'static str,
    asked: &[A],
    fits: impl Fn(&A, &Value) -> bool,
) -> Result<Vec<(&'static str, usize)>, String> {
    let routes = items(routes);
    if asked.is_empty() {
        return match routes.len() {
            0 => Ok(Vec::new()),
            1 => Ok(vec![(kind, 0)]),
            _ => Err(format!("it has several {kind} routes: name those that are divided in `{kind}Routes`")),
        };
    }
    let mut all = Vec::new();
    for one in asked {
        let found: Vec<usize> =
            routes.iter().enumerate().filter(|(_, route)| fits(one, route)).map(|(index, _)| index).collect();
        if found.is_empty() {
            return Err(format!("it has no {kind} route that fits `{kind}Routes`"));
        }
        all.extend(found.into_iter().map(|index| (kind, index)));
    }
    Ok(all)
}

/// The one port that all matches of a route have; 0 when none is given.
fn port_of(route: &Value) -> Option<i64> {
    let mut ports: Vec<i64> =
        items(&route["match"]).iter().map(|one| one["port"].as_i64().unwrap_or(0)).collect();
    ports.dedup();
    match ports.as_slice() {
        [] => Some(0),
        [port] => Some(*port),
        _ => None,
    }
}

fn is_tls(asked: &IstioTlsRoute, route: &Value) -> bool {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names.dedup();
        names
    };
    let names = items(&route["match"]).iter().flat_map(|one| items(&one["sniHosts"]));
    let names = names.map(|name| text(name).to_owned()).collect();
    port_of(route) == Some(asked.port) && sorted(names) == sorted(asked.sni_hosts.clone())
}

/// `web` of `web.shop.svc.cluster.local`.
fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

#[derive(PartialEq, Clone, Copy)]
enum Role {
    Canary,
    Stable,
    Experiment(usize),
    /// A subset that somebody else divides.
    Kept,
    Stranger,
    /// Of a namespace that is not the Rollout's: left alone.
    Foreign,
}

fn role(destination: &Value, wanted: &Wanted<'_>, known: &Destinations<'_>) -> Role {
    let (host, subset) = (text(&destination["host"]), text(&destination["subset"]));
    if known.within.is_some_and(|within| host.split('.').nth(1) != Some(within)) {
        return Role::Foreign;
    }
    let host = short(host);
    let is = |service: &str, name: Option<&str>| {
        (!service.is_empty() && host == service) || (!subset.is_empty() && Some(subset) == name)
    };
    let names = known.rule.map(|rule| (rule.canary_subset_name.as_str(), rule.stable_subset_name.as_str()));
    let kept = known.rule.is_some_and(|rule| rule.additional_subset_names.iter().any(|name| name == subset));
    // Where versions are subsets, they may share a host that is also the name of a Service.
    if let Some((canary, stable)) = names.filter(|_| !subset.is_empty()) {
        if subset == canary {
            return Role::Canary;
        }
        if subset == stable {
            return Role::Stable;
        }
    }
    if kept {
        Role::Kept
    } else if is(known.canary, names.map(|names| names.0)) {
        Role::Canary
    } else if is(known.stable, names.map(|names| names.1)) {
        Role::Stable
    } else if let Some(at) = wanted.additional.iter().position(|one| one.service_name == host) {
        Role::Experiment(at)
    } else {
        Role::Stranger
    }
}

/// Sets the shares of one route.
pub(super) fn divide(route: &mut Value, wanted: &Wanted<'_>, known: &Destinations<'_>) -> Result<(), String> {
    let Some(destinations) = route["route"].as_array_mut() else {
        return Err("a route has no destinations".into());
    };
    let roles: Vec<Role> = destinations.iter().map(|one| role(&one["destination"], wanted, known)).collect();
    for (needed, name) in [
        (Role::Canary, known.rule.map_or(known.canary, |rule| &rule.canary_subset_name)),
        (Role::Stable, known.rule.map_or(known.stable, |rule| &rule.stable_subset_name)),
    ] {
        if !roles.contains(&needed) {
            return Err(format!("a route has no destination {name}"));
        }
    }
    let kept: i64 = destinations
        .iter()
        .zip(&roles)
        .filter(|(_, role)| **role == Role::Kept)
        .map(|(one, _)| one["weight"].as_i64().unwrap_or(0))
        .sum();
    for (one, role) in destinations.iter_mut().zip(&roles) {
        match role {
            Role::Canary => set_number(&mut one["weight"], wanted.weight),
            Role::Stable => set_number(&mut one["weight"], (wanted.stable_weight() - kept).max(0)),
            Role::Experiment(at) => set_number(&mut one["weight"], wanted.additional[*at].weight),
            Role::Kept | Role::Stranger | Role::Foreign => {}
        }
    }
    let mut at = 0;
    destinations.retain(|_| {
        at += 1;
        roles[at - 1] != Role::Stranger
    });
    let mut missing: Vec<_> = wanted
        .additional
        .iter()
        .enumerate()
        .filter(|(at, _)| !roles.contains(&Role::Experiment(*at)))
        .map(|(_, one)| one)
        .collect();
    missing.sort_by(|a, b| a.service_name.cmp(&b.service_name));
    let new =
        missing.iter().map(|one| json!({"destination": {"host": one.service_name}, "weight": one.weight}));
    destinations.extend(new);
    Ok(())
}

/// The routes that are ours: those that are wanted stand first, in the order of `managedRoutes`; the others of these names go.
pub(super) fn set_managed(
    object: &mut Value,
    service: &IstioVirtualService,
    wanted: &Wanted<'_>,
    known: &Destinations<'_>,
    host: &str,
) -> Result<(), String> {
    let managed = wanted.managed();
    if managed.is_empty() {
        return Ok(());
    }
    let divided = chosen(&object["spec"], service, &managed)?;
    let divided = divided.iter().find(|(kind, _)| *kind == "http").map(|(_, index)| *index);
    let Some(routes) = object["spec"]["http"].as_array_mut() else {
        return if wanted.headers.is_empty() && wanted.mirrors.is_empty() {
            Ok(())
        } else {
            Err("it has no http routes".into())
        };
    };
    let shares = divided.map(|index| routes[index]["route"].clone()).unwrap_or_default();
    let port = shares[0]["destination"]["port"]["number"].as_i64().filter(|port| *port > 0);
    let mut canary = json!({"host": host});
    if let Some(port) = port {
        canary["port"] = json!({"number": port});
    }
    if let Some(rule) = known.rule {
        canary["subset"] = rule.canary_subset_name.as_str().into();
    }
    let mut own = Vec::new();
    for name in &managed {
        if let Some(route) = wanted.headers.iter().find(|route| route.name == *name) {
            let matches: Vec<Value> = route
                .r#match
                .iter()
                .map(|one| json!({"headers": {one.header_name.as_str(): one.header_value.as_ref().map(condition).unwrap_or_else(|| json!({}))}}))
                .collect();
            own.push(
                json!({"name": name, "match": matches, "route": [{"destination": canary, "weight": 100}]}),
            );
        }
        if let Some(route) = wanted.mirrors.iter().find(|route| route.name == *name) {
            let matches: Vec<Value> = route.r#match.iter().map(mirrored).collect();
            own.push(json!({"name": name, "match": matches, "route": shares, "mirror": canary,
                "mirrorPercentage": {"value": route.percentage.unwrap_or(100)}}));
        }
    }
    let own = as_they_are(own, routes);
    routes.retain(|route| !managed.contains(&text(&route["name"])));
    routes.splice(0..0, own);
    Ok(())
}

fn condition(value: &StringMatch) -> Value {
    let all = [("exact", &value.exact), ("prefix", &value.prefix), ("regex", &value.regex)];
    let all = all.into_iter().filter(|(_, text)| !text.is_empty());
    all.map(|(name, text)| (name.to_owned(), Value::from(text.as_str())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn mirrored(one: &slipway_crd::rollout::RouteMatch) -> Value {
    let mut all = serde_json::Map::new();
    if let Some(method) = &one.method {
        all.insert("method".into(), condition(method));
    }
    if let Some(path) = &one.path {
        all.insert("uri".into(), condition(path));
    }
    if !one.headers.is_empty() {
        let headers = one.headers.iter().map(|(name, value)| (name.clone(), condition(value)));
        all.insert("headers".into(), headers.collect::<serde_json::Map<_, _>>().into());
    }
    all.into()
}
