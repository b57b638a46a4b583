//! `spec.strategy.canary`: services, routers and steps.

use serde_json::Value;
use slipway_crd::rollout::{
    Canary, CanaryStep, ExperimentStep, PauseStep, Rollout, RunArgument, SetHeaderRoute, SetMirrorRoute,
    StringMatch, TrafficRouting,
};

use super::{Wrongs, rollout};
use crate::replicas::{MAX_WEIGHT, amount_is_zero, is_amount};

pub(super) fn check(canary: &Canary, rollout: &Rollout, wrongs: &mut Wrongs<'_>) {
    surge(canary, wrongs);
    services(canary, wrongs);
    rollout::anti_affinity(canary.anti_affinity.as_ref(), wrongs);
    rollout::scale_down_limit(canary.scale_down_delay_revision_limit, &rollout.spec, wrongs);
    match &canary.traffic_routing {
        None => {
            if canary.scale_down_delay_seconds.is_some() {
                wrongs.add("scaleDownDelaySeconds", "works only with `trafficRouting`");
            }
            if canary.dynamic_stable_scale {
                wrongs.add("dynamicStableScale", "works only with `trafficRouting`");
            }
        }
        Some(routing) => {
            if canary.scale_down_delay_seconds.is_some() && canary.dynamic_stable_scale {
                wrongs.add("dynamicStableScale", "cannot be used together with `scaleDownDelaySeconds`");
            }
            check_routing(routing, &mut wrongs.below("trafficRouting"));
        }
    }
    if let Some(threshold) = &canary.replica_progress_threshold {
        let most = match threshold.r#type.as_str() {
            "Percent" => 100,
            "Pods" => i64::MAX,
            other => {
                wrongs.add("replicaProgressThreshold.type", format!("`{other}` is not one of Percent, Pods"));
                i64::MAX
            }
        };
        if !(0..=most).contains(&threshold.value) {
            wrongs.add(
                "replicaProgressThreshold.value",
                format!("{} is not between 0 and {most}", threshold.value),
            );
        }
    }
    let context = Context { canary };
    for (at, step) in canary.steps.iter().enumerate() {
        context.step(step, &mut wrongs.below(&format!("steps.{at}")));
    }
    if let Some(analysis) = &canary.analysis {
        context.arguments(analysis.args.iter(), &mut wrongs.below("analysis"));
        let steps = i64::try_from(canary.steps.len()).unwrap_or(i64::MAX);
        if let Some(first) = analysis.starting_step.filter(|first| !(0..=steps).contains(first)) {
            wrongs.add("analysis.startingStep", format!("there is no step {first}: there are {steps}"));
        }
    }
}

fn surge(canary: &Canary, wrongs: &mut Wrongs<'_>) {
    let mut zero = 0;
    for (name, value) in [("maxSurge", &canary.max_surge), ("maxUnavailable", &canary.max_unavailable)] {
        match value {
            Some(value) if !is_amount(value) => {
                wrongs.add(name, format!("`{}` is neither a number nor a percentage", plain(value)));
            }
            Some(value) if amount_is_zero(value) => zero += 1,
            _ => {}
        }
    }
    if zero == 2 {
        wrongs.add("maxSurge", "maxSurge and maxUnavailable cannot both be zero: no pod could be replaced");
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn services(canary: &Canary, wrongs: &mut Wrongs<'_>) {
    if !canary.canary_service.is_empty() && canary.canary_service == canary.stable_service {
        wrongs.add("stableService", "is the same as `canaryService`: two Services are needed");
    }
    let routing = canary.traffic_routing.as_ref();
    if let Some(pair) = &canary.ping_pong {
        for (name, value) in [("pingService", &pair.ping_service), ("pongService", &pair.pong_service)] {
            if value.is_empty() {
                wrongs.add(&format!("pingPong.{name}"), "is missing: ping-pong needs both Services");
            }
        }
        if !pair.ping_service.is_empty() && pair.ping_service == pair.pong_service {
            wrongs.add("pingPong.pongService", "is the same as `pingService`: two Services are needed");
        }
        if let Some(routing) = routing {
            if routing.alb.is_none() && routing.istio.is_none() && routing.plugins.is_empty() {
                wrongs.add("pingPong", "works with ALB, Istio and routers of plugins only");
            }
            if routing.alb.as_ref().is_some_and(|alb| alb.root_service.is_empty()) {
                wrongs.add("trafficRouting.alb", "`rootService` is missing: ping-pong with ALB needs it");
            }
        }
    }
    if routing.is_some_and(|routing| needs_services(canary, routing)) {
        for (name, value) in
            [("stableService", &canary.stable_service), ("canaryService", &canary.canary_service)]
        {
            if value.is_empty() {
                wrongs.add(name, "is missing: this traffic routing needs a Service for each version");
            }
        }
    }
}

fn needs_services(canary: &Canary, routing: &TrafficRouting) -> bool {
    let alone = canary.ping_pong.is_none();
    routing.alb.is_some() && alone
        || routing.istio.as_ref().is_some_and(|istio| istio.destination_rule.is_none()) && alone
        || routing.smi.is_some()
        || routing.apisix.is_some()
        || routing.ambassador.is_some()
        || routing.nginx.is_some()
        || routing.app_mesh.is_some()
        || routing.traefik.is_some()
}

fn check_routing(routing: &TrafficRouting, wrongs: &mut Wrongs<'_>) {
    if let Some(most) = routing.max_traffic_weight {
        if routing.nginx.is_none() && routing.plugins.is_empty() {
            wrongs.add("maxTrafficWeight", "can be changed with NGINX and routers of plugins only");
        }
        if most < 1 {
            wrongs.add("maxTrafficWeight", format!("{most} is below one"));
        }
    }
    let mut exactly_one = |place: &str, one: (&str, bool), several: (&str, bool)| match (one.1, several.1) {
        (true, true) => wrongs.add(place, format!("only one of `{}` and `{}` can be used", one.0, several.0)),
        (false, false) => wrongs.add(place, format!("`{}` or `{}` is missing", one.0, several.0)),
        _ => {}
    };
    if let Some(istio) = &routing.istio {
        exactly_one(
            "istio",
            ("virtualService", istio.virtual_service.is_some()),
            ("virtualServices", !istio.virtual_services.is_empty()),
        );
    }
    if let Some(nginx) = &routing.nginx {
        exactly_one(
            "nginx",
            ("stableIngress", !nginx.stable_ingress.is_empty()),
            ("stableIngresses", !nginx.stable_ingresses.is_empty()),
        );
    }
    if let Some(alb) = &routing.alb {
        exactly_one("alb", ("ingress", !alb.ingress.is_empty()), ("ingresses", !alb.ingresses.is_empty()));
    }
}

struct Context<'a> {
    canary: &'a Canary,
}

impl Context<'_> {
    fn routing(&self) -> Option<&TrafficRouting> {
        self.canary.traffic_routing.as_ref()
    }

    fn max_weight(&self) -> i64 {
        self.routing().and_then(|routing| routing.max_traffic_weight).unwrap_or(MAX_WEIGHT)
    }

    fn step(&self, step: &CanaryStep, wrongs: &mut Wrongs<'_>) {
        let kinds = [
            ("setWeight", step.set_weight.is_some()),
            ("pause", step.pause.is_some()),
            ("setCanaryScale", step.set_canary_scale.is_some()),
            ("setHeaderRoute", step.set_header_route.is_some()),
            ("setMirrorRoute", step.set_mirror_route.is_some()),
            ("analysis", step.analysis.is_some()),
            ("experiment", step.experiment.is_some()),
            ("plugin", step.plugin.is_some()),
        ];
        let given: Vec<&str> =
            kinds.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
        if given.len() != 1 {
            let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
            let found = if given.is_empty() { "none".to_owned() } else { given.join(" and ") };
            wrongs.add("", format!("a step is exactly one of {}; here is {found}", names.join(", ")));
        }
        if let Some(weight) = step.set_weight.filter(|weight| !(0..=self.max_weight()).contains(weight)) {
            wrongs.add("setWeight", format!("{weight} is not between 0 and {}", self.max_weight()));
        }
        if let Some(pause) = &step.pause {
            duration(pause, &mut wrongs.below("pause"));
        }
        if let Some(scale) = &step.set_canary_scale {
            if self.routing().is_none() {
                wrongs.add("setCanaryScale", "works only with `trafficRouting`");
            }
            let given = [scale.weight.is_some(), scale.replicas.is_some(), scale.match_traffic_weight];
            if given.iter().filter(|is_there| **is_there).count() > 1 {
                wrongs.add(
                    "setCanaryScale",
                    "only one of `weight`, `replicas` and `matchTrafficWeight` can be used",
                );
            }
        }
        if let Some(route) = &step.set_header_route {
            self.header_route(route, &mut wrongs.below("setHeaderRoute"));
        }
        if let Some(route) = &step.set_mirror_route {
            self.mirror_route(route, &mut wrongs.below("setMirrorRoute"));
        }
        if let Some(analysis) = &step.analysis {
            self.arguments(analysis.args.iter(), &mut wrongs.below("analysis"));
        }
        if let Some(experiment) = &step.experiment {
            self.experiment(experiment, &mut wrongs.below("experiment"));
        }
    }

    fn header_route(&self, route: &SetHeaderRoute, wrongs: &mut Wrongs<'_>) {
        let able = |routing: &&TrafficRouting| {
            routing.istio.is_some()
                || routing.alb.is_some()
                || routing.apisix.is_some()
                || !routing.plugins.is_empty()
        };
        let Some(routing) = self.routing().filter(able) else {
            wrongs.add("", "works only with traffic routing by Istio, ALB, APISIX or a plugin");
            return;
        };
        self.managed(&route.name, wrongs);
        for (at, header) in route.r#match.iter().enumerate() {
            let place = format!("match.{at}.headerValue");
            match &header.header_value {
                Some(value) if routing.alb.is_some() => {
                    if value.exact.is_empty() || !value.prefix.is_empty() || !value.regex.is_empty() {
                        wrongs.add(&place, "ALB knows `exact` values only");
                    }
                }
                value => one_match(value.as_ref(), &place, wrongs),
            }
        }
    }

    fn mirror_route(&self, route: &SetMirrorRoute, wrongs: &mut Wrongs<'_>) {
        let able = |routing: &&TrafficRouting| routing.istio.is_some() || !routing.plugins.is_empty();
        if self.routing().filter(able).is_none() {
            wrongs.add("", "works only with traffic routing by Istio or a plugin");
        } else {
            self.managed(&route.name, wrongs);
        }
        if let Some(share) = route.percentage.filter(|share| !(0..=100).contains(share)) {
            wrongs.add("percentage", format!("{share} is not between 0 and 100"));
        }
        for (at, wanted) in route.r#match.iter().enumerate() {
            for (name, value) in [("method", &wanted.method), ("path", &wanted.path)] {
                if value.is_some() {
                    one_match(value.as_ref(), &format!("match.{at}.{name}"), wrongs);
                }
            }
            for (name, value) in &wanted.headers {
                one_match(Some(value), &format!("match.{at}.headers.{name}"), wrongs);
            }
        }
    }

    /// Routes that steps write are named beforehand, so that they can be removed again.
    fn managed(&self, name: &str, wrongs: &mut Wrongs<'_>) {
        let known = self.routing().map(|routing| routing.managed_routes.as_slice()).unwrap_or_default();
        if !known.iter().any(|route| route.name == name) {
            wrongs.add("name", format!("`{name}` is not in `trafficRouting.managedRoutes`"));
        }
    }

    fn experiment(&self, experiment: &ExperimentStep, wrongs: &mut Wrongs<'_>) {
        for (at, template) in experiment.templates.iter().enumerate() {
            if !["stable", "canary"].contains(&template.spec_ref.as_str()) {
                wrongs.add(
                    &format!("templates.{at}.specRef"),
                    format!("`{}` is not one of stable, canary", template.spec_ref),
                );
            }
            if template.weight.is_none() {
                continue;
            }
            let able = |routing: &TrafficRouting| {
                routing.alb.is_some()
                    || routing.smi.is_some()
                    || routing.istio.is_some()
                    || !routing.plugins.is_empty()
            };
            if !self.routing().is_some_and(able) {
                wrongs.add(
                    &format!("templates.{at}.weight"),
                    "works only with traffic routing by SMI, ALB, Istio or a plugin",
                );
            }
        }
        if !experiment.duration.is_empty() {
            go_duration(&experiment.duration, "duration", wrongs);
        }
        let arguments = experiment.analyses.iter().flat_map(|analysis| analysis.args.iter());
        self.arguments(arguments, wrongs);
    }

    /// An argument that comes from a field of `metadata` names one that there can be.
    fn arguments<'a>(&self, arguments: impl Iterator<Item = &'a RunArgument>, wrongs: &mut Wrongs<'_>) {
        for argument in arguments {
            let Some(source) = &argument.value_from else { continue };
            if let Some(which) = &source.pod_template_hash_value
                && !["Stable", "Latest"].contains(&which.as_str())
            {
                wrongs.add("args", format!("{}: `{which}` is not one of Stable, Latest", argument.name));
            }
            let Some(field) = &source.field_ref else { continue };
            let path = field.field_path.as_str();
            if path.starts_with("metadata") && !is_metadata_field(path) {
                wrongs.add(
                    "args",
                    format!("{}: `{path}` is not a field of `metadata` that can be read", argument.name),
                );
            }
        }
    }
}

/// As the downward API names them.
fn is_metadata_field(path: &str) -> bool {
    let plain =
        ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    let keyed = |name: &str| {
        path.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix("['"))
            .and_then(|rest| rest.strip_suffix("']"))
            .is_some_and(|key| !key.is_empty())
    };
    plain.contains(&path) || keyed("metadata.annotations") || keyed("metadata.labels")
}

fn one_match(value: Option<&StringMatch>, place: &str, wrongs: &mut Wrongs<'_>) {
    let given = value.map_or(0, |value| {
        [&value.exact, &value.prefix, &value.regex].iter().filter(|text| !text.is_empty()).count()
    });
    if given != 1 {
        wrongs.add(place, "needs exactly one of `exact`, `prefix` and `regex`");
    }
}

fn duration(pause: &PauseStep, wrongs: &mut Wrongs<'_>) {
    match &pause.duration {
        Some(Value::Number(seconds)) if seconds.as_i64().is_some_and(|seconds| seconds < 0) => {
            wrongs.add("duration", format!("{seconds} is below zero"));
        }
        Some(Value::String(text)) => go_duration(text, "duration", wrongs),
        _ => {}
    }
}

/// `30`, `10s`, `5m`.
pub(super) fn go_duration(text: &str, place: &str, wrongs: &mut Wrongs<'_>) {
    if text.parse::<u64>().is_ok() {
        return;
    }
    match slipway_dialect::duration::nanos(text) {
        Ok(nanos) if nanos < 0 => wrongs.add(place, format!("`{text}` is below zero")),
        Ok(_) => {}
        Err(_) => wrongs.add(place, format!("`{text}` is not a duration like 30s, 5m or 1h")),
    }
}
