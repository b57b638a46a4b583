//! CloudWatch: `GetMetricData` over the last minutes.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Answer, json as read, seconds, text};

/// The action, as its protocol names it.
pub const TARGET: &str = "GraniteServiceVersion20100801.GetMetricData";
const INTERVAL: i64 = 300;

/// The input of the action.
pub fn input(config: &Value, now: Timestamp) -> Result<Value, String> {
    let interval = seconds(&config["interval"], INTERVAL)?;
    let queries = config["metricDataQueries"].as_array().filter(|all| !all.is_empty());
    let queries = queries.ok_or("cloudWatch needs metricDataQueries")?;
    let queries: Vec<Value> = queries.iter().map(query).collect();
    Ok(
        json!({"StartTime": now.as_second() - interval, "EndTime": now.as_second(), "MetricDataQueries": queries}),
    )
}

fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| text(value).parse().ok())
}

fn query(given: &Value) -> Value {
    let mut all = Map::new();
    let mut take = |from: &Value, to: &str| {
        if !from.is_null() {
            all.insert(to.to_owned(), from.clone());
        }
    };
    take(&given["id"], "Id");
    take(&given["expression"], "Expression");
    take(&given["label"], "Label");
    take(&given["returnData"], "ReturnData");
    if let Some(period) = whole(&given["period"]) {
        take(&period.into(), "Period");
    }
    let stat = &given["metricStat"];
    if stat.is_object() {
        let metric = &stat["metric"];
        let dimensions = metric["dimensions"].as_array().into_iter().flatten();
        let dimensions: Vec<Value> =
            dimensions.map(|one| json!({"Name": text(&one["name"]), "Value": text(&one["value"])})).collect();
        let mut made = json!({"Metric": {"MetricName": metric["metricName"]}, "Period": whole(&stat["period"]), "Stat": stat["stat"]});
        if !metric["namespace"].is_null() {
            made["Metric"]["Namespace"] = metric["namespace"].clone();
        }
        if !dimensions.is_empty() {
            made["Metric"]["Dimensions"] = dimensions.into();
        }
        if !text(&stat["unit"]).is_empty() {
            made["Unit"] = stat["unit"].clone();
        }
        take(&made, "MetricStat");
    }
    all.into()
}

pub(super) fn answer(body: &[u8]) -> Result<Answer, String> {
    let answer = read(body, "CloudWatch")?;
    let results = answer["MetricDataResults"].as_array().cloned().unwrap_or_default();
    let shown = results.iter().map(|result| {
        let values = result["Values"].as_array().into_iter().flatten().map(Value::to_string);
        format!("[{}]", values.collect::<Vec<_>>().join(" "))
    });
    let shown = format!("[{}]", shown.collect::<Vec<_>>().join(" "));
    // Data that is only a part of what was asked for decides nothing.
    if let Some(partial) =
        results.iter().find(|result| !matches!(text(&result["StatusCode"]), "" | "Complete"))
    {
        return Err(format!(
            "CloudWatch answered {} for {}",
            text(&partial["StatusCode"]),
            text(&partial["Id"])
        ));
    }
    let mut metadata = std::collections::BTreeMap::new();
    if let Some(messages) = answer["Messages"].as_array().filter(|all| !all.is_empty()) {
        metadata.insert("messages".to_owned(), Value::from(messages.clone()).to_string());
    }
    Ok(Answer { value: results.into(), shown: Some(shown), metadata })
}
