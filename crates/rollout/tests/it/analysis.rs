//! Analysis: what is measured when, and what becomes of a run.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::analysis::{AnalysisRun, Measurement, Metric};
use slipway_rollout::analysis::{assess, due, judge, resolved, shown};

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn run(metrics: Value, more: Value) -> AnalysisRun {
    let mut spec = json!({"metrics": metrics});
    for (name, value) in more.as_object().expect("fields") {
        spec[name] = value.clone();
    }
    serde_json::from_value(json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisRun", "metadata": {"name": "r"}, "spec": spec})).expect("a run")
}

/// Takes what is due, with these answers one after the other, until nothing is due within a day.
fn play(mut run: AnalysisRun, mut answers: Vec<Value>) -> (AnalysisRun, usize) {
    let (mut now, mut asked) = (start(), 0);
    answers.reverse();
    for _ in 0..200 {
        let metrics = run.spec.metrics.clone();
        let taken: Vec<(usize, Measurement)> = due(&run, &metrics, now)
            .into_iter()
            .map(|task| {
                asked += 1;
                let answer = answers.pop().unwrap_or(Value::Null);
                let (phase, message) = judge(&metrics[task.at], &answer, now);
                let started_at = Some(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
                (
                    task.at,
                    Measurement {
                        phase: phase.into(),
                        message,
                        value: shown(&answer),
                        started_at,
                        ..Measurement::default()
                    },
                )
            })
            .collect();
        let assessed = assess(&run, &metrics, taken, now);
        run.status = assessed.status;
        match assessed.requeue_at {
            Some(at) if at < start() + SignedDuration::from_hours(24) => now = at.max(now),
            _ => return (run, asked),
        }
        if !run.status.phase.is_empty() && run.status.completed_at.is_some() {
            return (run, asked);
        }
    }
    (run, asked)
}

fn rate(more: Value) -> Value {
    let mut metric = json!({"name": "rate", "successCondition": "result[0] >= 0.95", "provider": {"prometheus": {"query": "x"}}});
    for (name, value) in more.as_object().expect("fields") {
        metric[name] = value.clone();
    }
    json!([metric])
}

#[test]
fn limits_decide_and_the_message_says_which() {
    let (good, bad) = (json!([0.97]), json!([0.5]));
    for (more, answers, phase, message) in [
        (json!({}), vec![good.clone()], "Successful", ""),
        (
            json!({}),
            vec![bad.clone()],
            "Failed",
            "Metric \"rate\" assessed Failed due to failed (1) > failureLimit (0)",
        ),
        (
            json!({"interval": "10s", "count": 3, "failureLimit": 1}),
            vec![good.clone(), bad.clone(), good.clone()],
            "Successful",
            "",
        ),
        (
            json!({"interval": "10s", "count": 5, "failureLimit": "1"}),
            vec![bad.clone(), good.clone(), bad.clone()],
            "Failed",
            "Metric \"rate\" assessed Failed due to failed (2) > failureLimit (1)",
        ),
        (
            json!({"interval": "10s", "count": 3, "failureLimit": -1}),
            vec![bad.clone(), bad.clone(), bad.clone()],
            "Successful",
            "",
        ),
        (
            json!({"interval": "10s", "count": 4, "consecutiveSuccessLimit": 2}),
            vec![good.clone(), good.clone()],
            "Successful",
            "",
        ),
        (
            json!({"interval": "10s", "count": 3, "failureLimit": 5, "consecutiveSuccessLimit": 2}),
            vec![good.clone(), bad.clone(), good.clone()],
            "Inconclusive",
            "",
        ),
        (
            json!({"failureCondition": "result[0] < 0.5"}),
            vec![json!([0.7])],
            "Inconclusive",
            "Metric \"rate\" assessed Inconclusive due to inconclusive (1) > inconclusiveLimit (0)",
        ),
    ] {
        let (run, _) = play(run(rate(more.clone()), json!({})), answers);
        assert_eq!((run.status.phase.as_str(), run.status.message.as_str()), (phase, message), "{more}");
    }
}

#[test]
fn what_is_missing_or_no_number_is_never_a_success() {
    for answer in [json!([]), json!(null), json!(["NaN"]), json!("abc"), json!({}), json!([null])] {
        for condition in [
            json!({}),
            json!({"successCondition": "", "failureCondition": "result[0] < 0.5"}),
            json!({"successCondition": ""}),
            json!({"failureCondition": "result[0] < 0.5"}),
        ] {
            let metrics = rate(condition.clone());
            let bare = metrics[0]["successCondition"] == "" && metrics[0]["failureCondition"].is_null();
            // Without a condition any answer is a good one; only none is not.
            if bare
                && !matches!(&answer, Value::Null)
                && !answer
                    .as_array()
                    .is_some_and(|items| items.iter().all(|item| item.is_null() || item == "NaN"))
            {
                continue;
            }
            let (run, _) = play(run(metrics, json!({})), vec![answer.clone(); 20]);
            assert_ne!(run.status.phase, "Successful", "{answer} with {condition}");
            assert!(run.status.completed_at.is_some(), "{answer} with {condition} ends");
        }
    }
}

/// Conditions that hold for nothing, although nobody asked for it.
#[test]
fn a_condition_that_holds_for_nothing_is_no_success() {
    let series = |values: Value| json!([{"Id": "a", "Values": values}]);
    for (condition, answer, good) in [
        ("all(result, {# < 0.01})", json!([]), json!([0.001])),
        ("none(result, {# > 5})", json!([]), json!([1])),
        ("result[0] != 5", json!(["NaN"]), json!([1])),
        ("all(result[0].Values, {# <= 0.01})", series(json!([])), series(json!([0.001]))),
    ] {
        let metric: Metric =
            serde_json::from_value(json!({"name": "rate", "provider": {}, "successCondition": condition}))
                .expect("a metric");
        assert_eq!(judge(&metric, &answer, start()).0, "Error", "{condition} with {answer}");
        assert_eq!(judge(&metric, &good, start()).0, "Successful", "{condition} with {good}");
    }
    for condition in ["len(result) == 0 || result[0] < 1", "isNil(result) || all(result, {# < 1})"] {
        let metric: Metric =
            serde_json::from_value(json!({"name": "rate", "provider": {}, "successCondition": condition}))
                .expect("a metric");
        assert_eq!(judge(&metric, &json!([]), start()).0, "Successful", "{condition} asks for it");
    }
}

/// A Job of one metric is under way when another one fails: it is ended before the run is.
#[test]
fn a_run_that_fails_ends_what_is_under_way_first() {
    let metrics = json!([{"name": "rate", "provider": {"web": {}}}, {"name": "load", "provider": {"job": {}}},
        {"name": "soak", "interval": "1h", "provider": {"web": {}}}]);
    let mut run = run(metrics, json!({}));
    let metrics = run.spec.metrics.clone();
    let measured = |phase: &str| Measurement { phase: phase.into(), ..Measurement::default() };
    let assessed = assess(
        &run,
        &metrics,
        vec![(0, measured("Failed")), (1, measured("Running")), (2, measured("Successful"))],
        start(),
    );
    assert_eq!((assessed.status.phase.as_str(), assessed.requeue_at), ("Running", Some(start())));
    run.status = assessed.status;
    let tasks = due(&run, &metrics, start());
    assert_eq!(tasks.iter().map(|task| (task.at, task.terminate)).collect::<Vec<_>>(), [(1, true)]);
    let assessed = assess(&run, &metrics, vec![(1, measured("Successful"))], start());
    assert_eq!(assessed.status.phase, "Failed");
    assert!(
        assessed.status.message.starts_with("Metric \"rate\" assessed Failed"),
        "{}",
        assessed.status.message
    );
    let phases: Vec<&str> = assessed.status.metric_results.iter().map(|one| one.phase.as_str()).collect();
    assert_eq!(phases, ["Failed", "Successful", "Successful"], "nothing is left running");
}

#[test]
fn metrics_that_would_wait_for_ever_are_named() {
    let problems = |metrics: Value| {
        let metrics: Vec<Metric> = serde_json::from_value(metrics).expect("metrics");
        slipway_rollout::lint::problems_of_metrics(&metrics).join("; ")
    };
    assert_eq!(problems(rate(json!({"interval": "5m", "count": "3"}))), "");
    for (metrics, why) in [
        (json!([]), "metrics: at least one metric is needed"),
        (rate(json!({"interval": "often"})), "metrics.0.interval: `often` is not a duration"),
        (rate(json!({"count": "many"})), "metrics.0.count: `many` is not a whole number"),
        (
            json!([{"name": "a", "provider": {"web": {}}}, {"name": "a", "provider": {"web": {}}}]),
            "metrics.1.name: `a` is there twice",
        ),
    ] {
        let problems = problems(metrics);
        assert!(problems.starts_with(why), "{problems}");
    }
}

#[test]
fn errors_are_tried_again_soon_and_five_in_a_row_are_too_many() {
    let (ended, asked) = play(run(rate(json!({})), json!({})), vec![json!([]); 9]);
    assert_eq!((ended.status.phase.as_str(), asked), ("Error", 5));
    assert!(
        ended.status.message.starts_with(
            "Metric \"rate\" assessed Error due to consecutiveErrors (5) > consecutiveErrorLimit (4)"
        ),
        "{}",
        ended.status.message
    );
    assert_eq!(ended.status.completed_at.as_deref(), Some("2026-01-01T00:00:40Z"));
    let (mended, _) = play(run(rate(json!({})), json!({})), vec![json!([]), json!([]), json!([1])]);
    assert_eq!(mended.status.phase, "Successful");
    assert_eq!((mended.status.metric_results[0].error, mended.status.metric_results[0].count), (2, 1));
}

#[test]
fn a_dry_metric_is_measured_and_decides_nothing() {
    let dry = json!({"dryRun": [{"metricName": "rate"}]});
    let (run, _) = play(run(rate(json!({})), dry), vec![json!([0.1])]);
    assert_eq!(run.status.phase, "Successful");
    assert_eq!(run.status.metric_results[0].phase, "Failed");
    assert_eq!(run.status.dry_run_summary.map(|summary| (summary.count, summary.failed)), Some((1, 1)));
}

#[test]
fn names_of_dry_metrics_may_be_patterns() {
    for (name, phase) in [
        ("ra.*", "Successful"),
        ("^rate$", "Successful"),
        ("*", "Successful"),
        ("at", "Failed"),
        ("ro.*", "Failed"),
        ("(", "Failed"),
    ] {
        let dry = json!({"dryRun": [{"metricName": name}]});
        let (run, _) = play(run(rate(json!({})), dry), vec![json!([0.1])]);
        assert_eq!(run.status.phase, phase, "{name}");
    }
    let kept = json!({"measurementRetention": [{"metricName": "r.te", "limit": 3}]});
    let (run, _) = play(run(rate(json!({"interval": "1h"})), kept), vec![json!([1]); 100]);
    assert_eq!(run.status.metric_results[0].measurements.len(), 3);
}

#[test]
fn a_run_without_a_count_goes_on_until_it_is_ended_and_keeps_ten_measurements() {
    let metrics = rate(json!({"interval": "1h"}));
    let (mut forever, asked) = play(run(metrics, json!({})), vec![json!([1]); 100]);
    assert_eq!(forever.status.phase, "Running");
    assert!(asked >= 20, "{asked}");
    assert_eq!(forever.status.metric_results[0].measurements.len(), 10);
    assert_eq!(forever.status.metric_results[0].count, i64::try_from(asked).expect("few"));
    forever.spec.terminate = true;
    let ended = assess(&forever, &forever.spec.metrics, Vec::new(), start());
    assert_eq!(
        (ended.status.phase.as_str(), ended.status.message.as_str()),
        ("Successful", "Run Terminated")
    );
}

#[test]
fn the_first_measurement_waits_for_its_delay() {
    let run = run(rate(json!({"initialDelay": "30s"})), json!({}));
    let first = assess(&run, &run.spec.metrics, Vec::new(), start());
    assert_eq!(
        (first.status.phase.as_str(), first.requeue_at),
        ("Running", Some(start() + SignedDuration::from_secs(30)))
    );
    assert!(due(&run, &run.spec.metrics, start()).is_empty());
}

#[test]
fn arguments_are_put_in_and_a_missing_one_is_named() {
    let metric: Metric = serde_json::from_value(json!({"name": "m", "count": "{{args.count}}",
        "provider": {"web": {"url": "https://{{ args.host }}/{{other}}"}}}))
    .expect("a metric");
    let arguments = [("count".to_owned(), "3".to_owned()), ("host".to_owned(), "a\"b".to_owned())].into();
    let put = resolved(&metric, &arguments).expect("resolved");
    assert_eq!(put.count, Some(json!("3")));
    assert_eq!(put.provider["web"]["url"], "https://a\"b/{{other}}");
    let missing =
        resolved(&metric, &[("count".to_owned(), "3".to_owned())].into()).expect_err("one is missing");
    assert!(missing.contains("args.host"), "{missing}");
}

#[test]
fn a_run_that_is_over_lives_as_long_as_it_was_told() {
    let (ended, _) =
        play(run(rate(json!({})), json!({"ttlStrategy": {"secondsAfterSuccess": 60}})), vec![json!([1])]);
    let later = |seconds: i64| {
        assess(&ended, &ended.spec.metrics, Vec::new(), start() + SignedDuration::from_secs(seconds))
    };
    assert!(!later(30).delete);
    assert_eq!(later(30).requeue_at, Some(start() + SignedDuration::from_secs(60)));
    assert!(later(61).delete);
}
