//! Everything that is wrong is found at once, where it stands.

use slipway_rollout::lint::check;

const GOOD: &str = "\
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: shop}
spec:
  replicas: 5
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: shop, image: shop:1}]
  strategy:
    canary:
      canaryService: shop-canary
      stableService: shop
      trafficRouting:
        nginx: {stableIngress: shop}
      steps:
      - setWeight: 20
      - pause: {duration: 1h}
";

fn messages(text: &str) -> Vec<String> {
    check(text).findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_good_rollout_beside_its_service_and_ingress_has_no_findings() {
    let beside = "\
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop, rollouts-pod-template-hash: abc}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec: {rules: [{http: {paths: [{path: /, backend: {service: {name: shop, port: {number: 80}}}}]}}]}
";
    let report = check(&format!("{GOOD}{beside}"));
    assert_eq!(report.findings, []);
    assert_eq!(report.checked, 1);
    let other =
        beside.replace("app: shop,", "app: other,").replace("name: shop, port", "name: elsewhere, port");
    assert_eq!(
        messages(&format!("{GOOD}{other}")),
        [
            "14:7: error: Rollout/shop: spec.strategy.canary.stableService: Service `shop` selects pods by label `app`, which those of the Rollout do not have with this value",
            "16:17: warning: Rollout/shop: spec.strategy.canary.trafficRouting.nginx.stableIngress: Ingress `shop` has no rule with the Service `shop` behind it",
        ]
    );
}

#[test]
fn all_findings_come_at_once_with_line_and_column() {
    let bad = "\
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: shop}
spec:
  replicas: -1
  minReadySeconds: 700
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: other}}
    spec:
      restartPolicy: Never
      containers: [{name: shop}]
  strategy:
    canary:
      maxSurge: 0
      maxUnavailable: 0%
      dynamicStableScale: true
      steps:
      - setWeight: 120
      - {}
      - setWeight: 10
        pause: {}
      - pause: {duration: soon}
      - setCanaryScale: {replicas: 1}
      - setHeaderRoute: {name: route}
      - setWeigth: 10
";
    assert_eq!(
        messages(bad),
        [
            "5:3: error: Rollout/shop: spec.replicas: -1 is below zero",
            "4:1: error: Rollout/shop: spec.progressDeadlineSeconds: 600 must be greater than minReadySeconds (700)",
        ]
        .iter()
        .rev()
        .map(ToString::to_string)
        .chain([
            "9:16: error: Rollout/shop: spec.template.metadata.labels: the selector does not match the labels of the template".to_owned(),
            "11:7: error: Rollout/shop: spec.template.spec.restartPolicy: `Never`: pods that stay have `Always`".to_owned(),
            "12:20: error: Rollout/shop: spec.template.spec.containers[0]: `image` is missing".to_owned(),
            "15:7: error: Rollout/shop: spec.strategy.canary.maxSurge: maxSurge and maxUnavailable cannot both be zero: no pod could be replaced".to_owned(),
            "17:7: error: Rollout/shop: spec.strategy.canary.dynamicStableScale: works only with `trafficRouting`".to_owned(),
            "19:9: error: Rollout/shop: spec.strategy.canary.steps[0].setWeight: 120 is not between 0 and 100".to_owned(),
            "20:9: error: Rollout/shop: spec.strategy.canary.steps[1]: a step is exactly one of setWeight, pause, setCanaryScale, setHeaderRoute, setMirrorRoute, analysis, experiment, plugin; here is none".to_owned(),
            "21:9: error: Rollout/shop: spec.strategy.canary.steps[2]: a step is exactly one of setWeight, pause, setCanaryScale, setHeaderRoute, setMirrorRoute, analysis, experiment, plugin; here is setWeight and pause".to_owned(),
            "23:17: error: Rollout/shop: spec.strategy.canary.steps[3].pause.duration: `soon` is not a duration like 30s, 5m or 1h".to_owned(),
            "24:9: error: Rollout/shop: spec.strategy.canary.steps[4].setCanaryScale: works only with `trafficRouting`".to_owned(),
            "25:9: error: Rollout/shop: spec.strategy.canary.steps[5].setHeaderRoute: works only with traffic routing by Istio, ALB, APISIX or a plugin".to_owned(),
            "26:9: error: Rollout/shop: spec.strategy.canary.steps[6].setWeigth: unknown field `setWeigth`".to_owned(),
            "26:9: error: Rollout/shop: spec.strategy.canary.steps[6]: a step is exactly one of setWeight, pause, setCanaryScale, setHeaderRoute, setMirrorRoute, analysis, experiment, plugin; here is none".to_owned(),
        ])
        .collect::<Vec<_>>()
    );
}

#[test]
fn what_two_strategies_ask_for_and_what_cannot_be_read() {
    let both =
        GOOD.replace("  strategy:\n", "  strategy:\n    blueGreen: {activeService: a, previewService: a}\n");
    assert_eq!(
        messages(&both),
        ["11:3: error: Rollout/shop: spec.strategy: only one of `canary` and `blueGreen` can be used"]
    );
    let [blue_green] = &messages(&GOOD.replace(
        &GOOD[GOOD.find("    canary:").unwrap()..],
        "    blueGreen: {activeService: a, previewService: a}\n",
    ))[..] else {
        panic!("one finding")
    };
    assert!(blue_green.contains("previewService: is the same as `activeService`"), "{blue_green}");
    let [unreadable] = &messages("kind: [")[..] else { panic!("one finding") };
    assert!(unreadable.starts_with("1:8: "), "{unreadable}");
    // Not ours, not judged.
    assert_eq!(check("apiVersion: apps/v1\nkind: Deployment\nmetadata: {}\n").checked, 0);
}

#[test]
fn metrics_need_one_provider_and_limits_that_can_be_reached() {
    let template = "\
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: errors}
spec:
  args:
  - {name: a}
  - {name: a}
  metrics:
  - name: one
    count: 5
    failureLimit: 6
    provider: {prometheus: {query: up}, web: {url: http://a}}
  - name: two
    interval: often
    provider: {promethius: {query: up}}
  - name: two
    provider: {}
  dryRun: [{metricName: three}]
";
    assert_eq!(
        messages(template),
        [
            "7:6: error: AnalysisTemplate/errors: spec.args[1].name: `a` is there twice",
            "9:5: error: AnalysisTemplate/errors: spec.metrics[0].interval: is missing: a metric that is measured more than once needs one",
            "10:5: error: AnalysisTemplate/errors: spec.metrics[0].count: 5 is less than failureLimit and consecutiveSuccessLimit together (6)",
            "12:5: error: AnalysisTemplate/errors: spec.metrics[0].provider: only one provider can be used for a metric",
            "14:5: error: AnalysisTemplate/errors: spec.metrics[1].interval: `often` is not a duration like 30s, 5m or 1h",
            "15:16: error: AnalysisTemplate/errors: spec.metrics[1].provider.promethius: unknown provider: one of prometheus, web, job, datadog, newRelic, wavefront, cloudWatch, graphite, influxdb, skywalking, kayenta, plugin",
            "16:5: error: AnalysisTemplate/errors: spec.metrics[2].name: `two` is there twice",
            "17:5: error: AnalysisTemplate/errors: spec.metrics[2].provider: no provider is given: it says who is asked",
            "18:13: error: AnalysisTemplate/errors: spec.dryRun[0].metricName: there is no metric `three`",
        ]
    );
}
