use super::*;
use crate::cluster::Settings;
use serde_json::json;

fn rules(value: Value) -> IgnoreRules {
    let list: Vec<slipway_crd::IgnoreDifference> = serde_json::from_value(value).expect("readable");
    IgnoreRules::new(&list, &Settings::default())
}

/// A live object as the API server keeps it after `applied` was applied, changed by `defaults`.
fn live_after(applied: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut live = applied.clone();
    live["metadata"]["annotations"][names::LAST_APPLIED] = json!(applied.to_string());
    live["metadata"]["uid"] = json!("u");
    live["metadata"]["resourceVersion"] = json!("7");
    live["metadata"]["managedFields"] = json!([]);
    change(&mut live);
    live
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "n", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{
                "name": "app", "image": "app:1",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}},
            }]}},
        },
    })
}

fn fill_in_defaults(live: &mut Value) {
    live["spec"]["progressDeadlineSeconds"] = json!(600);
    live["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}});
    let pod = &mut live["spec"]["template"]["spec"];
    pod["restartPolicy"] = json!("Always");
    let container = &mut pod["containers"][0];
    container["imagePullPolicy"] = json!("IfNotPresent");
    container["ports"][0]["protocol"] = json!("TCP");
    container["resources"]["limits"] = json!({"cpu": "1", "memory": "1Gi"});
    live["status"] = json!({"replicas": 2});
}

#[track_caller]
fn paths(target: &Value, live: &Value, rules: &IgnoreRules, mode: DiffMode) -> Vec<String> {
    let diff = diff(Some(target), Some(live), rules, mode);
    assert_eq!(diff.modified, !diff.changes.is_empty());
    diff.changes.into_iter().map(|change| change.path).collect()
}

#[track_caller]
fn same(target: &Value, live: &Value) {
    assert_eq!(paths(target, live, &IgnoreRules::default(), DiffMode::ThreeWay), Vec::<String>::new());
}

#[track_caller]
fn differs(target: &Value, live: &Value, expected: &[&str]) {
    assert_eq!(paths(target, live, &IgnoreRules::default(), DiffMode::ThreeWay), expected);
}

#[test]
fn what_the_server_fills_in_is_no_difference() {
    same(&deployment(), &live_after(&deployment(), fill_in_defaults));
}

#[test]
fn a_changed_field_is_one() {
    let mut target = deployment();
    target["spec"]["template"]["spec"]["containers"][0]["image"] = json!("app:2");
    let live = live_after(&deployment(), fill_in_defaults);
    differs(&target, &live, &["/spec/template/spec/containers/0/image"]);
}

#[test]
fn what_was_taken_out_of_the_manifest_is_one_and_what_others_added_is_not() {
    let mut target = deployment();
    target["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    target["metadata"]["labels"] = json!({});
    let live = live_after(&deployment(), |live| {
        fill_in_defaults(live);
        live["metadata"]["labels"]["other"] = json!("theirs");
        live["spec"]["template"]["spec"]["containers"]
            .as_array_mut()
            .expect("a list")
            .push(json!({"name": "injected"}));
    });
    let diff = diff(Some(&target), Some(&live), &IgnoreRules::default(), DiffMode::ThreeWay);
    assert_eq!(diff.predicted["metadata"]["labels"], json!({"other": "theirs"}));
    assert_eq!(
        diff.predicted["spec"]["template"]["spec"]["containers"][0]["env"],
        json!([{"name": "A", "value": "1"}])
    );
    assert_eq!(diff.predicted["spec"]["template"]["spec"]["containers"][1]["name"], "injected");
    assert!(diff.modified);
}

#[test]
fn without_a_memory_nothing_is_taken_out() {
    let mut target = deployment();
    target["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    let mut live = deployment();
    fill_in_defaults(&mut live);
    same(&target, &live);
}

#[test]
fn a_switch_of_strategy_drops_the_other_members() {
    let mut target = deployment();
    target["spec"]["strategy"] = json!({"type": "Recreate"});
    let live = live_after(&deployment(), fill_in_defaults);
    let diff = diff(Some(&target), Some(&live), &IgnoreRules::default(), DiffMode::ThreeWay);
    assert_eq!(diff.predicted["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn a_missing_object_differs_and_an_extra_one_does_not() {
    let all = diff(Some(&deployment()), None, &IgnoreRules::default(), DiffMode::ThreeWay);
    assert!(all.modified && all.live.is_null());
    let extra = diff(None, Some(&deployment()), &IgnoreRules::default(), DiffMode::ThreeWay);
    assert!(!extra.modified && extra.predicted.is_null());
}

#[test]
fn lists_of_custom_resources_are_compared_whole() {
    let target = json!({"apiVersion": "example.com/v1", "kind": "W", "metadata": {"name": "w"}, "spec": {"list": [{"name": "a"}], "map": {"x": 1}}});
    same(&target, &live_after(&target, |live| live["spec"]["map"]["defaulted"] = json!(true)));
    let live = live_after(&target, |live| live["spec"]["list"][0]["added"] = json!(1));
    differs(&target, &live, &["/spec/list/0/added"]);
}

#[test]
fn lists_that_are_replaced_whole_may_hold_defaults_but_nothing_else() {
    let target = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"},
        "spec": {"ingress": [{"ports": [{"port": 80}]}]}});
    same(
        &target,
        &live_after(&target, |live| live["spec"]["ingress"][0]["ports"][0]["protocol"] = json!("TCP")),
    );
    let live = live_after(&target, |live| live["spec"]["ingress"][0]["from"] = json!([{"podSelector": {}}]));
    differs(&target, &live, &["/spec/ingress/0/from"]);
}

#[test]
fn notations_and_empty_values_are_no_difference() {
    let mut target = deployment();
    target["metadata"]["creationTimestamp"] = Value::Null;
    target["spec"]["template"]["spec"]["volumes"] = json!([]);
    target["spec"]["template"]["spec"]["nodeSelector"] = Value::Null;
    target["status"] = json!({});
    same(&target, &live_after(&deployment(), fill_in_defaults));
    let role = |rules: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules});
    same(&role(json!([])), &role(Value::Null));
}

#[test]
fn aggregated_rules_are_ignored_where_that_is_asked() {
    let role = |rules: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
            "aggregationRule": {"clusterRoleSelectors": []}, "rules": rules})
    };
    let (target, live) = (role(json!([{"verbs": ["get"]}])), role(json!([{"verbs": ["get", "list"]}])));
    differs(&target, &live, &["/rules/0/verbs"]);
    let settings = Settings { ignore_aggregated_roles: true, ..Settings::default() };
    assert!(
        !diff(Some(&target), Some(&live), &IgnoreRules::new(&[], &settings), DiffMode::ThreeWay).modified
    );
}

#[test]
fn pointers_expressions_and_managers_are_ignored() {
    let mut target = deployment();
    target["spec"]["replicas"] = json!(5);
    target["spec"]["template"]["spec"]["containers"][0]["image"] = json!("app:9");
    let mut live = live_after(&deployment(), fill_in_defaults);
    live["metadata"]["managedFields"] = json!([{"manager": "hpa", "operation": "Update", "fieldsV1": {
        "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {"f:image": {}}}}}}}}]);
    let with = |rule: Value| {
        let mut rule = rule;
        rule["kind"] = json!("Deploy*");
        rule["group"] = json!("*");
        paths(&target, &live, &rules(json!([rule])), DiffMode::ThreeWay)
    };
    let image = "/spec/template/spec/containers/0/image";
    assert_eq!(with(json!({"jsonPointers": ["/spec/replicas", "/spec/not/there", "nonsense"]})), [image]);
    assert_eq!(
        with(
            json!({"jqPathExpressions": [".spec.template.spec.containers[] | select(.name == \"app\") | .image"]})
        ),
        ["/spec/replicas"]
    );
    assert_eq!(with(json!({"managedFieldsManagers": ["hpa"]})), Vec::<String>::new());
    assert_eq!(with(json!({"managedFieldsManagers": ["other"]})).len(), 2);
    assert_eq!(with(json!({"jsonPointers": ["/spec"], "name": "another"})).len(), 2);
    assert_eq!(rules(json!([{"kind": "*", "jqPathExpressions": ["env"]}])).problems().len(), 1);
}

#[test]
fn ownership_says_what_a_server_side_apply_takes_out() {
    let target =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}});
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2", "c": "3"}, "metadata": {"name": "c",
        "managedFields": [{"manager": "argocd-controller", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}}]}});
    assert_eq!(paths(&target, &live, &IgnoreRules::default(), DiffMode::ServerSide), ["/data/b"]);
    let restored = with_ignored_from_live(
        &target,
        &live,
        &rules(json!([{"kind": "ConfigMap", "jsonPointers": ["/data/c"]}])),
    );
    assert_eq!(restored["data"], json!({"a": "1", "c": "3"}));
}

#[test]
fn the_text_shows_what_changes_and_no_secret() {
    let mut target = deployment();
    target["spec"]["replicas"] = json!(3);
    let live = live_after(&deployment(), fill_in_defaults);
    let text =
        diff(Some(&target), Some(&live), &IgnoreRules::default(), DiffMode::ThreeWay).unified_text("web");
    assert!(text.contains("-  replicas: 2\n+  replicas: 3\n"), "{text}");
    assert!(text.starts_with("--- live/web\n+++ desired/web\n"), "{text}");
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": value}});
    let text = diff(
        Some(&secret("bmV3")),
        Some(&live_after(&secret("b2xk"), |_| {})),
        &IgnoreRules::default(),
        DiffMode::ThreeWay,
    )
    .unified_text("s");
    assert!(text.contains('+') && !text.contains("bmV3") && !text.contains("b2xk"), "{text}");
    let shown = masked(&live_after(&secret("b2xk"), |_| {}), &[]);
    assert!(!shown.to_string().contains("b2xk"), "{shown}");
}

#[test]
fn a_broken_secret_is_masked_whole() {
    let broken = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": "plain-canary", "stringData": ["list-canary"]});
    let shown = diff(Some(&broken), None, &IgnoreRules::default(), DiffMode::ThreeWay);
    assert!(!format!("{shown:?}").contains("canary"), "{shown:?}");
}
