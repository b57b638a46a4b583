use super::*;
use serde_json::json;

fn verdict(rules: &str, object: Value) -> String {
    let mut set = RuleSet::default();
    parse::parse_into(&mut set, &format!("group g\nkind K\n{rules}")).expect("readable rules");
    let rules = set.find("g", "K").expect("rules");
    eval::run(rules, &object).map_or("none".into(), |h| format!("{}: {}", h.status.as_str(), h.message))
}

#[test]
fn all_files_are_read() {
    let set = built_in();
    assert!(set.exact.len() > 150, "{}", set.exact.len());
    assert!(set.find("cert-manager.io", "Certificate").is_some());
    assert!(set.find("storage.cnrm.cloud.google.com", "StorageBucket").is_some());
    assert!(set.find("example.com", "Widget").is_none());
}

/// Every kind ends with a verdict that always holds, or says on purpose that it does not know.
#[test]
fn an_object_without_status_is_never_taken_for_degraded_by_accident() {
    let set = built_in();
    for ((group, kind), rules) in &set.exact {
        let object =
            json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "x"}, "spec": {}});
        let health = eval::run(rules, &object);
        let status = health.map(|h| h.status);
        assert_ne!(
            status,
            Some(HealthCode::Degraded).filter(|_| kind != "AdvancedCronJob"),
            "{group}/{kind}"
        );
    }
}

#[test]
fn conditions_are_found_by_type_status_and_reason() {
    let object = || {
        json!({"status": {"conditions": [
        {"type": "Ready", "status": "False", "reason": "Denied", "message": "no"}, {"type": "Synced", "status": true}]}})
    };
    assert_eq!(verdict("Degraded if @Ready=False", object()), "Degraded: no");
    assert_eq!(verdict("Degraded if @Ready=True\nHealthy if @Synced=True", object()), "Healthy: ");
    assert_eq!(verdict("Degraded if @Ready=False:Other|Denied", object()), "Degraded: no");
    assert_eq!(verdict("Degraded if @Ready=False:Other", object()), "none");
    assert_eq!(verdict("Degraded if @Ready!=True", object()), "Degraded: no");
    assert_eq!(verdict("Degraded if @Missing!=True", object()), "none");
    assert_eq!(verdict("Degraded if not @Missing=True \"gone\"", object()), "Degraded: gone");
}

#[test]
fn values_are_compared_as_what_they_are() {
    let object = || {
        json!({"metadata": {"labels": {"a/b": "x"}}, "spec": {"replicas": 3, "off": false, "list": [1, 2]},
        "status": {"replicas": "3", "phase": "In Progress", "at": "2026-01-02"}})
    };
    for (expression, holds) in [
        ("spec.replicas = 3", true),
        ("spec.replicas = $status.replicas", true),
        ("spec.replicas < 10", true),
        ("spec.missing < 10", false),
        ("spec.missing?0 < 10", true),
        ("spec.missing = 0", false),
        ("spec.missing != 0", true),
        ("spec.missing = $spec.gone", true),
        ("status.phase = Done | \"In Progress\"", true),
        ("status.phase ~ \"In *\"", true),
        ("status.at < 2026-01-03", true),
        ("#spec.list = 2", true),
        ("#spec.none = 0", true),
        ("#spec.list >= #spec.none", true),
        ("spec.off", false),
        ("spec.off = false", true),
        ("not spec.off and spec.list", true),
        ("empty spec.none or spec.replicas = 9", true),
        ("metadata.labels[\"a/b\"] = x", true),
        ("(spec.off or spec.replicas = 3) and spec.replicas > 3 minus 1", true),
        ("any spec.list [^spec.replicas = 3]", true),
    ] {
        let expected = if holds { "Healthy: yes" } else { "none" };
        assert_eq!(verdict(&format!("Healthy if {expression} \"yes\""), object()), expected, "{expression}");
    }
}

#[test]
fn elements_are_tried_in_turn() {
    let object = || json!({"status": {"nodes": {"a": {"state": "up"}, "b": {"state": "down", "message": "b is down"}}}});
    let rules = "each status.nodes\nDegraded if state = down\nend\nHealthy";
    assert_eq!(verdict(rules, object()), "Degraded: b is down");
    assert_eq!(verdict("Degraded if any status.nodes [state = down]", object()), "Degraded: b is down");
    assert_eq!(verdict("Healthy if all status.nodes [state = up]", object()), "none");
    assert_eq!(
        verdict("Healthy if count status.nodes [state = up] = 1 \"{status.nodes.a.state}\"", object()),
        "Healthy: up"
    );
}

#[test]
fn an_old_status_is_not_healthy() {
    let object = |generation: i64| {
        json!({"metadata": {"generation": generation}, "status": {"observedGeneration": 2,
        "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    assert_eq!(verdict("Healthy if @Ready=True", object(2)), "Healthy: ");
    assert_eq!(
        verdict("Healthy if @Ready=True", object(3)),
        "Progressing: waiting for the newest spec to be observed"
    );
    let own = json!({"metadata": {"generation": 3}, "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}});
    assert_eq!(
        verdict("Healthy if @Ready=True", own),
        "Progressing: waiting for the newest spec to be observed"
    );
}

#[test]
fn nonsense_is_refused_with_its_line() {
    let mut set = RuleSet::default();
    for (text, problem) in [
        ("group g\nkind K\nFine if x", "line 3: `Fine` is no health status"),
        ("group g\nHealthy", "line 2: a verdict before any `kind`"),
        ("group g\nkind K\neach a\nHealthy", "line 4: an `each` has no `end`"),
        ("group g\nkind K\nend", "line 3: `end` without `each`"),
        ("group g\nkind K\nHealthy if (a", "line 3: expected `)`, found None"),
        ("group g\nkind K\nHealthy if a = ", "line 3: expected a value, found None"),
        ("group g\nkind K\nHealthy \"a\" b", "line 3: unexpected Word(\"b\") after the message"),
    ] {
        assert_eq!(parse::parse_into(&mut set, text).expect_err(text).to_string(), problem);
    }
}
