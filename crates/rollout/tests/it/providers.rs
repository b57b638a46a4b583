//! What providers are asked, and what their answers are worth. Whatever is missing is never a number.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crd::analysis::Metric;
use slipway_rollout::analysis::judge;
use slipway_rollout::provider::{
    self, Answer, KayentaProgress, Question, cloud_watch_input, credentials, kayenta_progress,
};

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().expect("a time")
}

fn secret(fields: &[(&str, &str)]) -> BTreeMap<String, String> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn ask(name: &str, config: Value, fields: &[(&str, &str)]) -> Result<Question, String> {
    provider::question(name, &config, &secret(fields), now())
}

fn said(name: &str, config: Value, body: &str) -> Result<Answer, String> {
    provider::answer(name, &config, body.as_bytes(), now())
}

fn value(name: &str, config: Value, body: &str) -> Value {
    said(name, config, body).expect("an answer").value
}

fn body(question: &Question) -> Value {
    serde_json::from_slice(question.body.as_deref().unwrap_or_default()).expect("JSON")
}

fn header<'q>(question: &'q Question, name: &str) -> &'q str {
    question
        .headers
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
        .unwrap_or_default()
}

#[test]
fn prometheus_is_asked_for_a_moment_or_a_range() {
    let question =
        ask("prometheus", json!({"address": "http://p:9090/", "query": "up == 1"}), &[]).expect("a question");
    assert_eq!((question.method, question.url.as_str()), ("POST", "http://p:9090/api/v1/query"));
    assert_eq!(question.body.as_deref(), Some(b"query=up%20%3D%3D%201".as_slice()));
    let range = json!({"start": "now() - duration(\"5m\")", "end": "now()", "step": "1m"});
    let question = ask("prometheus", json!({"address": "http://p", "query": "up", "rangeQuery": range}), &[])
        .expect("a question");
    assert_eq!(question.url, "http://p/api/v1/query_range");
    assert_eq!(
        question.body.as_deref(),
        Some(b"query=up&start=1767225900&end=1767226200&step=60".as_slice())
    );
    let wrong = json!({"address": "http://p", "query": "up", "rangeQuery": {"start": "yesterday", "end": "now()", "step": "1m"}});
    assert!(ask("prometheus", wrong, &[]).is_err_and(|why| why.contains("rangeQuery.start")));

    let basic = json!({"address": "http://p", "query": "up", "authentication": {"basicAuth": {"username": "a", "password": "b"}, "oauth2": {}, "sigv4": {}}});
    assert_eq!(header(&ask("prometheus", basic, &[]).expect("a question"), "authorization"), "Basic YTpi");
    let oauth2 = json!({"tokenUrl": "http://t", "clientId": "c", "clientSecret": "s", "scopes": ["x"]});
    let question = ask(
        "prometheus",
        json!({"address": "http://p", "query": "up", "authentication": {"oauth2": oauth2}}),
        &[],
    )
    .expect("a question");
    assert_eq!(question.oauth2.map(|way| way.token_url), Some("http://t".into()));
    let sigv4 =
        json!({"address": "http://p", "query": "up", "authentication": {"sigv4": {"region": "eu-west-1"}}});
    assert!(
        ask("prometheus", sigv4, &[]).is_err_and(|why| why.contains("sigv4 is not supported")),
        "refused by its name"
    );

    let answer =
        |data: Value| value("prometheus", json!({}), &json!({"status": "success", "data": data}).to_string());
    assert_eq!(
        answer(
            json!({"resultType": "vector", "result": [{"value": [1, "0.5"]}, {"value": [1, "NaN"]}, {"value": [1, "3"]}]})
        ),
        json!([0.5, "NaN", 3])
    );
    assert_eq!(answer(json!({"resultType": "vector", "result": []})), json!([]));
    assert_eq!(answer(json!({"resultType": "scalar", "result": [1, "+Inf"]})), json!("+Inf"));
    assert_eq!(
        answer(
            json!({"resultType": "matrix", "result": [{"values": [[1, "1"], [2, "2"]]}, {"values": [[1, "3"]]}]})
        ),
        json!([1, 2, 3])
    );
}

#[test]
fn datadog_is_asked_with_the_keys_of_its_secret() {
    let keys = [("api-key", "a\n"), ("app-key", "b"), ("address", "https://dd.example.org")];
    let question =
        ask("datadog", json!({"query": "avg:x{*}", "interval": "10m"}), &keys).expect("a question");
    assert_eq!(
        question.url,
        "https://dd.example.org/api/v1/query?from=1767225600&query=avg%3Ax%7B%2A%7D&to=1767226200"
    );
    assert_eq!((header(&question, "DD-API-KEY"), header(&question, "DD-APPLICATION-KEY")), ("a", "b"));
    let question = ask(
        "datadog",
        json!({"apiVersion": "v2", "queries": {"a": "x", "b": "y"}, "formula": "a/b", "aggregator": "avg"}),
        &keys,
    )
    .expect("a question");
    assert_eq!(question.url, "https://dd.example.org/api/v2/query/scalar");
    let attributes = &body(&question)["data"]["attributes"];
    assert_eq!(
        (&attributes["from"], &attributes["formulas"][0]["formula"]),
        (&json!(1_767_225_900_000_i64), &json!("a/b"))
    );
    assert_eq!(
        attributes["queries"][1],
        json!({"aggregator": "avg", "data_source": "metrics", "name": "b", "query": "y"})
    );
    assert!(
        ask("datadog", json!({"apiVersion": "v2", "queries": {"a": "x", "b": "y"}}), &keys).is_err(),
        "several need a formula"
    );
    assert!(ask("datadog", json!({"query": "x"}), &[]).is_err_and(|why| why.contains("api-key")));
    let at = |config: Value| credentials("datadog", &config).expect("a Secret");
    assert_eq!((at(json!({})).name.as_str(), at(json!({})).namespaced), ("datadog", false));
    assert!(at(json!({"secretRef": {"name": "mine", "namespaced": true}})).namespaced);

    assert_eq!(
        value("datadog", json!({}), r#"{"series": [{"pointlist": [[1, 2.0], [2, 0.5]]}]}"#),
        json!(0.5)
    );
    assert_eq!(value("datadog", json!({}), r#"{"series": []}"#), Value::Null);
    let v2 = json!({"apiVersion": "v2"});
    let columns = |columns: Value| json!({"data": {"attributes": {"columns": columns}}}).to_string();
    assert_eq!(
        value("datadog", v2.clone(), &columns(json!([{"type": "number", "values": [0.25]}]))),
        json!(0.25)
    );
    assert_eq!(
        value("datadog", v2.clone(), &columns(json!([{"type": "number", "values": [null]}]))),
        Value::Null
    );
    let grouped = said(
        "datadog",
        v2,
        &columns(
            json!([{"type": "group", "values": [["a"], ["b"]]}, {"type": "number", "values": [1, null]}]),
        ),
    )
    .expect("an answer");
    assert_eq!(
        (grouped.value, grouped.metadata["groups"].as_str()),
        (json!([1]), r#"[{"name":"a","value":1.0}]"#)
    );
}

#[test]
fn the_others_are_asked_in_their_own_way() {
    let question = ask(
        "newRelic",
        json!({"query": "SELECT 1"}),
        &[("personal-api-key", "k"), ("account-id", "7"), ("region", "EU")],
    )
    .expect("a question");
    assert_eq!(
        (question.url.as_str(), header(&question, "Api-Key")),
        ("https://api.eu.newrelic.com/graphql", "k")
    );
    assert_eq!(body(&question)["variables"], json!({"accountId": 7, "query": "SELECT 1", "timeout": 5}));
    let results =
        |results: Value| json!({"data": {"actor": {"account": {"nrql": {"results": results}}}}}).to_string();
    assert_eq!(value("newRelic", json!({}), &results(json!([{"count": 3}]))), json!({"count": 3}));
    assert_eq!(
        value("newRelic", json!({}), &results(json!([{"a": 1}, {"a": 2}]))),
        json!([{"a": 1}, {"a": 2}])
    );

    let token = [("wf.example.org", "t")];
    let question =
        ask("wavefront", json!({"address": "wf.example.org", "query": "ts(x)"}), &token).expect("a question");
    assert!(
        question.url.starts_with("https://wf.example.org/api/v2/chart/api?q=ts%28x%29&s=1767226200000"),
        "{}",
        question.url
    );
    assert!(
        ask("wavefront", json!({"address": "evil.example.org", "query": "x"}), &token).is_err(),
        "a token is for its address"
    );
    let answer =
        said("wavefront", json!({}), r#"{"timeseries": [{"data": [[1767226100, 1], [1767226190, 2.5]]}]}"#)
            .expect("an answer");
    assert_eq!(
        (answer.value, answer.shown.as_deref(), answer.metadata["drift"].as_str()),
        (json!(2.5), Some("2.50"), "-10")
    );

    let question = ask("graphite", json!({"address": "http://g/", "query": "target=a. b &from=-5min"}), &[])
        .expect("a question");
    assert_eq!(question.url, "http://g/render?target=a.b&from=-5min&format=json");
    assert_eq!(
        value("graphite", json!({}), r#"[{"datapoints": [[1.5, 1], [null, 2], ["2", 3]]}]"#),
        json!([1.5, 2])
    );

    let fields = [("authToken", "t"), ("address", "http://i"), ("org", "o p")];
    let question = ask("influxdb", json!({"query": "from(x)"}), &fields).expect("a question");
    assert_eq!(
        (question.url.as_str(), header(&question, "authorization")),
        ("http://i/api/v2/query?org=o%20p", "Token t")
    );
    let csv = "#datatype,string,long,double\r\n#group,false,false,false\r\n#default,_result,,\r\n,result,table,_value\r\n,,0,1.5\r\n,,0,2\r\n\r\n#datatype,string,long,string\r\n,result,table,_value\r\n,,1,\"a,\"\"b\"\"\"\r\n";
    assert_eq!(value("influxdb", json!({}), csv), json!([1.5, 2, "a,\"b\""]));
    assert_eq!(
        said("influxdb", json!({}), ",error,reference\r\n,bad query,897\r\n"),
        Err("InfluxDB says: bad query".into())
    );

    let question =
        ask("skywalking", json!({"address": "http://s", "query": "query {}", "interval": "3m"}), &[])
            .expect("a question");
    assert_eq!(
        body(&question)["variables"]["duration"],
        json!({"start": "2026-01-01 0007", "end": "2026-01-01 0010", "step": "MINUTE"})
    );
    assert_eq!(value("skywalking", json!({}), r#"{"data": {"a": [1]}}"#), json!({"a": [1]}));

    let stat = json!({"id": "rate", "metricStat": {"metric": {"namespace": "n", "metricName": "m", "dimensions": [{"name": "d", "value": "v"}]}, "period": "60", "stat": "Sum"}});
    let input = cloud_watch_input(&json!({"interval": "10m", "metricDataQueries": [stat, {"id": "e", "expression": "rate / 2", "returnData": true}]}), now()).expect("an input");
    assert_eq!((&input["StartTime"], &input["EndTime"]), (&json!(1_767_225_600), &json!(1_767_226_200)));
    assert_eq!(
        input["MetricDataQueries"][0]["MetricStat"]["Metric"]["Dimensions"],
        json!([{"Name": "d", "Value": "v"}])
    );
    assert_eq!(input["MetricDataQueries"][0]["MetricStat"]["Period"], 60);
    let answer = said(
        "cloudWatch",
        json!({}),
        r#"{"MetricDataResults": [{"Id": "rate", "StatusCode": "Complete", "Values": [0.1, 2]}]}"#,
    )
    .expect("an answer");
    assert_eq!(
        (answer.value[0]["Values"][0].clone(), answer.shown.as_deref()),
        (json!(0.1), Some("[[0.1 2]]"))
    );
}

#[test]
fn kayenta_is_started_and_asked_until_it_has_judged() {
    let scope = |name: &str| json!({"scope": name, "region": "eu", "step": 60});
    let config = json!({"address": "http://k", "application": "shop", "canaryConfigName": "main", "storageAccountName": "s", "threshold": {"pass": 90, "marginal": 70},
        "scopes": [{"name": "default", "controlScope": scope("a"), "experimentScope": scope("b")}]});
    let step = |metadata: &BTreeMap<String, String>, answers: &[&str]| {
        let answers: Vec<Vec<u8>> = answers.iter().map(|text| text.as_bytes().to_vec()).collect();
        kayenta_progress(&config, "5m", None, metadata, &answers, now())
    };
    let none = BTreeMap::new();
    let Ok(KayentaProgress::Ask(first)) = step(&none, &[]) else { panic!("it is asked") };
    assert_eq!(first.url, "http://k/canaryConfig?application=shop&configurationAccountName=s");
    let configs = r#"[{"id": "x", "name": "other"}, {"id": "y", "name": "main"}]"#;
    let Ok(KayentaProgress::Ask(second)) = step(&none, &[configs]) else { panic!("it is asked") };
    assert!(second.url.starts_with("http://k/canary/y?application=shop"), "{}", second.url);
    assert_eq!(body(&second)["scopes"]["default"]["controlScope"]["start"], "2026-01-01T00:05:00Z");
    let Ok(KayentaProgress::Later { metadata, .. }) =
        step(&none, &[configs, r#"{"canaryExecutionId": "e"}"#])
    else {
        panic!("it runs")
    };
    assert!(matches!(step(&metadata, &[r#"{"complete": false}"#]), Ok(KayentaProgress::Later { .. })));
    for (score, phase) in [(95.0, "Successful"), (75.5, "Inconclusive"), (10.0, "Failed")] {
        let body =
            json!({"complete": true, "result": {"judgeResult": {"score": {"score": score}}}}).to_string();
        assert!(
            matches!(step(&metadata, &[&body]), Ok(KayentaProgress::Done { phase: known, .. }) if known == phase),
            "{score}"
        );
    }
    for wrong in [r#"{"complete": true}"#, "{}", "<html>"] {
        assert!(step(&metadata, &[wrong]).is_err(), "{wrong}");
    }
    assert!(step(&none, &["[]"]).is_err_and(|why| why.contains("not found")));
}

/// Reliability R3: what is missing, late, broken or no number is never a success, whoever was asked.
#[test]
fn no_provider_makes_a_success_of_nothing() {
    let metric: Metric = serde_json::from_value(
        json!({"name": "rate", "provider": {}, "successCondition": "result[0] >= 0.9"}),
    )
    .expect("a metric");
    let scalar: Metric =
        serde_json::from_value(json!({"name": "rate", "provider": {}, "successCondition": "result >= 0.9"}))
            .expect("a metric");
    let bodies = [
        "",
        "{}",
        "[]",
        "null",
        "<html>busy</html>",
        "\"\"",
        "0",
        r#"{"status":"success"}"#,
        r#"{"data":null}"#,
        r#"{"errors":[{"message":"no"}]}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"NaN"]}]}}"#,
        r#"{"series":[{"pointlist":[]}]}"#,
        r#"{"series":[{"pointlist":[[1,null]]}]}"#,
        r#"{"timeseries":[]}"#,
        r#"{"timeseries":[{"data":[]}]}"#,
        r#"[{"datapoints":[]}]"#,
        r#"[{"datapoints":[[null,1]]}]"#,
        r#"{"MetricDataResults":[]}"#,
        r#"{"MetricDataResults":[{"Id":"a","Values":[]}]}"#,
        "#datatype,string,long,double\r\n,result,table,_value\r\n",
    ];
    for name in
        ["prometheus", "datadog", "newRelic", "wavefront", "graphite", "influxdb", "skywalking", "cloudWatch"]
    {
        for config in [json!({}), json!({"apiVersion": "v2"})] {
            for body in bodies {
                let Ok(answer) = said(name, config.clone(), body) else { continue };
                for metric in [&metric, &scalar] {
                    let (phase, _) = judge(metric, &answer.value, now());
                    assert_ne!(phase, "Successful", "{name} made a success of {body}");
                }
            }
        }
    }
}

#[test]
fn a_part_of_the_data_decides_nothing_and_times_have_an_end() {
    let body = |code: &str| {
        format!("{{\"MetricDataResults\":[{{\"Id\":\"a\",\"StatusCode\":\"{code}\",\"Values\":[1]}}]}}")
    };
    assert!(said("cloudWatch", json!({}), &body("Complete")).is_ok());
    for code in ["PartialData", "InternalError", "Forbidden"] {
        assert_eq!(
            said("cloudWatch", json!({}), &body(code)),
            Err(format!("CloudWatch answered {code} for a"))
        );
    }
    let keys = [("api-key", "a"), ("app-key", "b")];
    for interval in [json!(i64::MIN), json!(i64::MAX), json!(-1), json!("-5m"), json!("9000000h")] {
        for version in ["v1", "v2"] {
            let config = json!({"query": "x", "apiVersion": version, "interval": interval});
            let refused = ask("datadog", config, &keys).expect_err("it is no duration");
            assert!(refused.ends_with("is no duration of at most ten years"), "{refused}");
        }
    }
}
