//! What each router writes, from what there is.

use serde_json::{Value, json};
use slipway_rollout::orders::Order;

use crate::sim::Sim;

/// A Rollout of two steps that stands at the first, with half of the requests at the new version.
fn at_half(routing: Value, more: Value, routes: Vec<Value>) -> Sim {
    let mut canary = json!({"canaryService": "canary", "stableService": "stable", "steps": [{"setWeight": 50}, {"pause": {}}], "trafficRouting": routing});
    crate::sim::merge(&mut canary, &more);
    let sim = Sim::new(2, json!({"canary": canary})).with_service("stable").with_service("canary");
    let mut sim = routes.into_iter().fold(sim, Sim::with_route);
    sim.settle();
    assert_eq!(sim.phase(), ("Healthy", ""), "{}", sim.waiting);
    sim.set_image("b");
    sim.settle();
    assert_eq!(sim.phase().0, "Paused", "{}", sim.waiting);
    sim
}

pub(crate) fn object(api_version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "shop", "namespace": "shop"}, "spec": spec})
}

fn ingress() -> Value {
    let path = |path: &str, service: &str| json!({"path": path, "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}}});
    let mut ingress = object(
        "networking.k8s.io/v1",
        "Ingress",
        json!({"ingressClassName": "nginx", "tls": [{"hosts": ["shop.example.org"]}],
            "rules": [{"host": "shop.example.org", "http": {"paths": [path("/", "stable"), path("/other", "other")]}}, {"host": "else", "http": {"paths": [path("/", "other")]}}]}),
    );
    ingress["metadata"]["annotations"] = json!({"kubernetes.io/ingress.class": "nginx", "unrelated": "x"});
    ingress
}

#[test]
fn nginx_gets_a_second_ingress_with_the_rules_of_the_stable_service() {
    let routing = json!({"nginx": {"stableIngress": "shop", "additionalIngressAnnotations": {"canary-by-header": "x-canary"}}});
    let mut sim = at_half(routing, json!({}), vec![ingress()]);
    let made = sim.route("Ingress", "web-shop-canary").clone();
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(annotations["nginx.ingress.kubernetes.io/canary"], "true");
    assert_eq!(annotations["nginx.ingress.kubernetes.io/canary-weight"], "50");
    assert_eq!(annotations["nginx.ingress.kubernetes.io/canary-by-header"], "x-canary");
    assert_eq!(annotations["kubernetes.io/ingress.class"], "nginx");
    assert!(annotations["unrelated"].is_null());
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "rollout-uid");
    assert_eq!(made["spec"]["ingressClassName"], "nginx");
    assert_eq!(made["spec"]["rules"].as_array().map(Vec::len), Some(1));
    let paths = &made["spec"]["rules"][0]["http"]["paths"];
    assert_eq!(
        (&paths[0]["backend"]["service"]["name"], &paths[1]["backend"]["service"]["name"]),
        (&json!("canary"), &json!("other"))
    );
    assert_eq!(sim.route("Ingress", "shop"), &ingress(), "the stable one is not touched");
    sim.order(&Order::Abort);
    sim.settle();
    let made = sim.route("Ingress", "web-shop-canary");
    assert_eq!(made["metadata"]["annotations"]["nginx.ingress.kubernetes.io/canary-weight"], "0");
}

#[test]
fn nginx_counts_in_parts_of_what_is_asked_for() {
    let routing = json!({"nginx": {"stableIngress": "shop", "annotationPrefix": "example.org"}, "maxTrafficWeight": 1000});
    let sim = at_half(routing, json!({"steps": [{"setWeight": 500}, {"pause": {}}]}), vec![ingress()]);
    let annotations = &sim.route("Ingress", "web-shop-canary")["metadata"]["annotations"];
    assert_eq!(
        (&annotations["example.org/canary-weight"], &annotations["example.org/canary-weight-total"]),
        (&json!("500"), &json!("1000"))
    );
    assert_eq!(sim.size("b"), 1);
}

#[test]
fn an_ingress_of_somebody_else_is_not_taken() {
    let mut other = ingress();
    other["metadata"]["name"] = "web-shop-canary".into();
    let strategy = json!({"canary": {"canaryService": "canary", "stableService": "stable", "trafficRouting": {"nginx": {"stableIngress": "shop"}}}});
    let sim = Sim::new(1, strategy).with_service("stable").with_service("canary");
    let mut sim = sim.with_route(ingress()).with_route(other);
    sim.settle();
    assert!(
        sim.phase().1.contains("Ingress \"web-shop-canary\" is there and not this Rollout's"),
        "{}",
        sim.phase().1
    );
}

#[test]
fn the_load_balancer_of_aws_reads_annotations() {
    let mut of_aws = ingress();
    of_aws["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"] =
        json!({"name": "stable", "port": {"name": "use-annotation"}});
    let steps = json!({"steps": [{"setWeight": 50}, {"setHeaderRoute": {"name": "testers", "match": [{"headerName": "x", "headerValue": {"exact": "1"}}, {"headerName": "x", "headerValue": {"exact": "2"}}]}}, {"pause": {}}]});
    let routing = json!({"alb": {"ingress": "shop", "servicePort": 443, "stickinessConfig": {"enabled": true, "durationSeconds": 60}}, "managedRoutes": [{"name": "testers"}]});
    let mut sim = at_half(routing, steps, vec![of_aws]);
    let made = sim.route("Ingress", "shop").clone();
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(
        annotations["alb.ingress.kubernetes.io/actions.stable"],
        r#"{"Type":"forward","ForwardConfig":{"TargetGroups":[{"ServiceName":"canary","ServicePort":"443","Weight":50},{"ServiceName":"stable","ServicePort":"443","Weight":50}],"TargetGroupStickinessConfig":{"Enabled":true,"DurationSeconds":60}}}"#
    );
    assert_eq!(
        annotations["alb.ingress.kubernetes.io/conditions.testers"],
        r#"[{"field":"http-header","httpHeaderConfig":{"httpHeaderName":"x","values":["1","2"]}}]"#
    );
    assert!(
        annotations["alb.ingress.kubernetes.io/actions.testers"]
            .as_str()
            .is_some_and(|text| text.contains(r#""Weight":100"#))
    );
    let noted = annotations["rollouts.argoproj.io/managed-alb-annotations"].as_str().unwrap_or_default();
    assert!(noted.contains("conditions.testers"), "{noted}");
    let first = &made["spec"]["rules"][0]["http"]["paths"][0];
    assert_eq!(first["backend"]["service"], json!({"name": "testers", "port": {"name": "use-annotation"}}));
    sim.order(&Order::Abort);
    sim.settle();
    let made = sim.route("Ingress", "shop");
    assert!(made["metadata"]["annotations"]["alb.ingress.kubernetes.io/conditions.testers"].is_null());
    assert_eq!(made["spec"]["rules"][0]["http"]["paths"].as_array().map(Vec::len), Some(2));
    assert_eq!(made["metadata"]["annotations"]["unrelated"], "x");
}

#[test]
fn a_traffic_split_is_made_and_changed() {
    let mut sim = at_half(json!({"smi": {}}), json!({}), vec![]);
    let split = sim.route("TrafficSplit", "web").clone();
    assert_eq!(split["apiVersion"], "split.smi-spec.io/v1alpha1");
    assert_eq!(
        split["spec"],
        json!({"service": "stable", "backends": [{"service": "canary", "weight": "50"}, {"service": "stable", "weight": "50"}]})
    );
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!(sim.route("TrafficSplit", "web")["spec"]["backends"][0]["weight"], "0");
    let mut sim = Sim::new(
        1,
        json!({"canary": {"canaryService": "canary", "stableService": "stable", "trafficRouting": {"smi": {"rootService": "root"}}}}),
    );
    sim.routes
        .served
        .insert(("split.smi-spec.io".into(), "TrafficSplit".into()), "split.smi-spec.io/v1alpha2".into());
    let mut sim = sim.with_service("stable").with_service("canary");
    sim.settle();
    let split = sim.route("TrafficSplit", "web");
    assert_eq!(
        (&split["spec"]["service"], &split["spec"]["backends"][1]["weight"]),
        (&json!("root"), &json!(100))
    );
}

#[test]
fn traefik_and_apisix_have_weights_in_a_list() {
    let spec = json!({"weighted": {"services": [{"name": "stable", "port": 80, "weight": 100}, {"name": "canary", "port": 80}]}});
    let routing = json!({"traefik": {"weightedTraefikServiceName": "shop"}});
    let sim = at_half(routing, json!({}), vec![object("traefik.io/v1alpha1", "TraefikService", spec)]);
    let services = &sim.route("TraefikService", "shop")["spec"]["weighted"]["services"];
    assert_eq!(
        services,
        &json!([{"name": "stable", "port": 80, "weight": 50}, {"name": "canary", "port": 80, "weight": 50}])
    );

    let backends = json!([{"serviceName": "stable", "servicePort": 80}, {"serviceName": "canary", "servicePort": 80, "weight": 0}]);
    let spec = json!({"http": [{"name": "main", "backends": backends, "match": {"paths": ["/*"]}}, {"name": "other", "backends": []}]});
    let routing = json!({"apisix": {"route": {"name": "shop", "rules": ["main"]}}, "managedRoutes": [{"name": "testers"}]});
    let steps = json!({"steps": [{"setWeight": 50}, {"setHeaderRoute": {"name": "testers", "match": [{"headerName": "x", "headerValue": {"prefix": "a"}}]}}, {"pause": {}}]});
    let mut sim = at_half(routing, steps, vec![object("apisix.apache.org/v2", "ApisixRoute", spec)]);
    let weights = |sim: &Sim| {
        let backends = sim.route("ApisixRoute", "shop")["spec"]["http"][0]["backends"].clone();
        (backends[0]["weight"].clone(), backends[1]["weight"].clone())
    };
    assert_eq!(weights(&sim), (json!(50), json!(50)));
    let own = sim.route("ApisixRoute", "testers")["spec"]["http"][0].clone();
    assert_eq!(own["priority"], 1);
    assert_eq!(own["backends"], json!([{"serviceName": "canary", "servicePort": 80, "weight": 100}]));
    assert_eq!(
        own["match"]["exprs"],
        json!([{"subject": {"scope": "Header", "name": "x"}, "op": "RegexMatch", "value": "^a.*"}])
    );
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!(weights(&sim), (json!(100), json!(0)));
    assert!(!sim.routes.objects.keys().any(|at| at.name == "testers"));
}

#[test]
fn a_mapping_is_cloned_and_the_clone_leaves_a_moment_after_its_share() {
    let spec = json!({"prefix": "/", "service": "stable.shop:80"});
    let mut sim = at_half(
        json!({"ambassador": {"mappings": ["shop"]}}),
        json!({}),
        vec![object("getambassador.io/v2", "Mapping", spec)],
    );
    let clone = sim.route("Mapping", "shop-canary").clone();
    assert_eq!(clone["spec"], json!({"prefix": "/", "service": "canary.shop:80", "weight": 50}));
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!(sim.route("Mapping", "shop-canary")["spec"]["weight"], 0, "proxies hear of it first");
    sim.pass(6);
    sim.settle();
    assert!(!sim.routes.objects.keys().any(|at| at.name == "shop-canary"));
}

#[test]
fn app_mesh_has_nodes_and_a_router_that_the_service_names() {
    let node = |name: &str| {
        let mut node = object(
            "appmesh.k8s.aws/v1beta2",
            "VirtualNode",
            json!({"podSelector": {"matchLabels": {"app": "web"}}}),
        );
        node["metadata"]["name"] = name.into();
        node
    };
    let target = |name: &str, weight: i64| json!({"virtualNodeRef": {"name": name}, "weight": weight});
    let service = object(
        "appmesh.k8s.aws/v1beta2",
        "VirtualService",
        json!({"provider": {"virtualRouter": {"virtualRouterRef": {"name": "shop"}}}}),
    );
    let router = object(
        "appmesh.k8s.aws/v1beta2",
        "VirtualRouter",
        json!({"routes": [{"name": "main", "httpRoute": {"action": {"weightedTargets": [target("canary-node", 0), target("stable-node", 100)]}}}]}),
    );
    let routing = json!({"appMesh": {"virtualService": {"name": "shop"}, "virtualNodeGroup": {"canaryVirtualNodeRef": {"name": "canary-node"}, "stableVirtualNodeRef": {"name": "stable-node"}}}});
    let mut sim =
        at_half(routing, json!({}), vec![node("canary-node"), node("stable-node"), service, router]);
    let selected = |sim: &Sim, name: &str| {
        sim.route("VirtualNode", name)["spec"]["podSelector"]["matchLabels"]["rollouts-pod-template-hash"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        (selected(&sim, "stable-node"), selected(&sim, "canary-node")),
        (sim.hash("a"), sim.hash("b"))
    );
    let targets = |sim: &Sim| {
        sim.route("VirtualRouter", "shop")["spec"]["routes"][0]["httpRoute"]["action"]["weightedTargets"]
            .clone()
    };
    assert_eq!(targets(&sim), json!([target("canary-node", 50), target("stable-node", 50)]));
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!(
        (selected(&sim, "stable-node"), selected(&sim, "canary-node")),
        (sim.hash("b"), "canary-hash".to_owned())
    );
    assert_eq!(targets(&sim), json!([target("canary-node", 0), target("stable-node", 100)]));
}

fn virtual_service(hosts: [&str; 2]) -> Value {
    let destination = |host: &str, weight: i64| json!({"destination": {"host": host, "port": {"number": 8080}}, "weight": weight});
    object(
        "networking.istio.io/v1",
        "VirtualService",
        json!({"hosts": ["shop.example.org"], "http": [{"name": "main", "retries": {"attempts": 2}, "route": [destination(hosts[0], 100), destination(hosts[1], 0)]},
            {"name": "other", "route": [destination("other", 100)]}]}),
    )
}

#[test]
fn istio_divides_the_routes_that_are_named_and_adds_those_that_are_ours() {
    let steps = json!({"steps": [{"setWeight": 50},
        {"setMirrorRoute": {"name": "copies", "percentage": 20, "match": [{"method": {"exact": "GET"}, "path": {"prefix": "/a"}, "headers": {"x": {"regex": ".+"}}}]}},
        {"setHeaderRoute": {"name": "testers", "match": [{"headerName": "x", "headerValue": {"exact": "1"}}]}}, {"pause": {}}]});
    let routing = json!({"istio": {"virtualService": {"name": "shop", "routes": ["main"]}}, "managedRoutes": [{"name": "testers"}, {"name": "copies"}]});
    let service = virtual_service(["stable.shop.svc.cluster.local", "canary"]);
    let mut sim = at_half(routing, steps, vec![service.clone()]);
    let http = sim.route("VirtualService", "shop")["spec"]["http"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = http.iter().filter_map(|route| route["name"].as_str()).collect();
    assert_eq!(
        names,
        ["testers", "copies", "main", "other"],
        "in the order of managedRoutes, before the others"
    );
    assert_eq!(http[0]["match"], json!([{"headers": {"x": {"exact": "1"}}}]));
    assert_eq!(
        http[0]["route"],
        json!([{"destination": {"host": "canary", "port": {"number": 8080}}, "weight": 100}])
    );
    assert_eq!(
        http[1]["match"],
        json!([{"method": {"exact": "GET"}, "uri": {"prefix": "/a"}, "headers": {"x": {"regex": ".+"}}}])
    );
    assert_eq!(
        (&http[1]["mirror"]["host"], &http[1]["mirrorPercentage"]["value"]),
        (&json!("canary"), &json!(20))
    );
    assert_eq!(http[1]["route"], http[2]["route"], "who is mirrored is divided all the same");
    assert_eq!((&http[2]["route"][0]["weight"], &http[2]["route"][1]["weight"]), (&json!(50), &json!(50)));
    assert_eq!(http[3], service["spec"]["http"][1]);
    sim.order(&Order::Abort);
    sim.settle();
    assert_eq!(sim.route("VirtualService", "shop")["spec"], service["spec"]);
}

#[test]
fn istio_says_which_routes_it_cannot_tell_apart() {
    let invalid = |routing: Value, service: Value| {
        let strategy = json!({"canary": {"canaryService": "canary", "stableService": "stable", "trafficRouting": routing}});
        let mut sim = Sim::new(1, strategy).with_service("stable").with_service("canary").with_route(service);
        sim.settle();
        sim.phase().1.to_owned()
    };
    let service = virtual_service(["stable", "canary"]);
    let said = invalid(json!({"istio": {"virtualService": {"name": "shop"}}}), service.clone());
    assert!(said.contains("it has several http routes: name those that are divided"), "{said}");
    let said = invalid(
        json!({"istio": {"virtualService": {"name": "shop", "routes": ["nothing"]}}}),
        service.clone(),
    );
    assert!(said.contains("it has no http route nothing"), "{said}");
    let said = invalid(json!({"istio": {"virtualService": {"name": "shop", "routes": ["other"]}}}), service);
    assert!(said.contains("a route has no destination canary"), "{said}");
}

#[test]
fn routes_of_another_namespace_are_divided_only_where_they_name_ours() {
    let foreign = |mut object: Value| {
        object["metadata"]["namespace"] = "edge".into();
        object
    };
    let play = |routing: Value, route: Value| {
        let strategy = json!({"canary": {"canaryService": "canary", "stableService": "stable", "trafficRouting": routing}});
        let sim = Sim::new(1, strategy).with_service("stable").with_service("canary");
        let mut sim = sim.with_route(foreign(route));
        sim.settle();
        sim.phase().0.to_owned()
    };
    let istio = json!({"istio": {"virtualService": {"name": "shop.edge", "routes": ["main"]}}});
    assert_eq!(
        play(istio.clone(), virtual_service(["stable", "canary"])),
        "Degraded",
        "those are the Services of edge"
    );
    assert_eq!(play(istio, virtual_service(["stable.shop", "canary.shop.svc.cluster.local"])), "Healthy");
    let backend = |name: &str, namespace: Value| json!({"name": name, "namespace": namespace, "port": 80});
    let route = |namespace: Value| {
        object(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            json!({"rules": [{"backendRefs": [backend("stable", namespace.clone()), backend("canary", namespace)]}]}),
        )
    };
    let gateway =
        json!({"plugins": {"argoproj-labs/gatewayAPI": {"httpRoute": "shop", "namespace": "edge"}}});
    assert_eq!(play(gateway.clone(), route(Value::Null)), "Degraded");
    assert_eq!(play(gateway, route(json!("shop"))), "Healthy");
}

#[test]
fn gateway_api_divides_every_rule_and_copies_requests() {
    let backends = json!([{"name": "stable", "port": 80}, {"name": "canary", "port": 80, "weight": 0}]);
    let route = object(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        json!({"rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/a"}}], "backendRefs": backends},
            {"backendRefs": backends}, {"backendRefs": [{"name": "other", "port": 80}]}]}),
    );
    let grpc =
        object("gateway.networking.k8s.io/v1", "GRPCRoute", json!({"rules": [{"backendRefs": backends}]}));
    let steps = json!({"steps": [{"setWeight": 50}, {"setMirrorRoute": {"name": "copies", "percentage": 10, "match": [{"path": {"prefix": "/b"}}]}}, {"pause": {}}]});
    let routing = json!({"plugins": {"argoproj-labs/gatewayAPI": {"httpRoute": "shop", "grpcRoutes": [{"name": "shop"}]}}, "managedRoutes": [{"name": "copies"}]});
    let mut sim = at_half(routing, steps, vec![route, grpc]);
    let rules = sim.route("HTTPRoute", "shop")["spec"]["rules"].as_array().cloned().unwrap_or_default();
    assert_eq!(rules.len(), 5);
    for rule in &rules[..2] {
        assert_eq!(
            (&rule["backendRefs"][0]["weight"], &rule["backendRefs"][1]["weight"]),
            (&json!(50), &json!(50))
        );
    }
    assert_eq!((&rules[3]["name"], &rules[4]["name"]), (&json!("copies"), &json!("copies-1")));
    assert_eq!(
        rules[4]["filters"],
        json!([{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "canary", "port": 80}, "percent": 10}}])
    );
    assert_eq!(sim.route("GRPCRoute", "shop")["spec"]["rules"][0]["backendRefs"][1]["weight"], 50);
    let label = |sim: &Sim| {
        sim.route("HTTPRoute", "shop")["metadata"]["labels"]["rollouts.argoproj.io/gatewayapi-canary"].clone()
    };
    assert_eq!(label(&sim), "in-progress");
    sim.order(&Order::Promote);
    sim.settle();
    assert_eq!((sim.phase().0, label(&sim)), ("Healthy", Value::Null));
    assert_eq!(sim.route("HTTPRoute", "shop")["spec"]["rules"].as_array().map(Vec::len), Some(3));
}
