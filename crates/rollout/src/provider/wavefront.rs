//! Wavefront: of each series the point that is closest to now.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use slipway_dialect::percent::encode;

use super::{Answer, Question, json as read, number, text};

const TIMEOUT: u64 = 30;

pub(super) fn question(
    config: &Value,
    secret: &BTreeMap<String, String>,
    now: Timestamp,
) -> Result<Question, String> {
    let address = text(&config["address"]);
    // A token belongs to its address: nobody else is shown it.
    let token = secret.get(address).filter(|_| !address.is_empty());
    let token = token.ok_or_else(|| format!("the Secret of wavefront has no token for {address:?}"))?;
    let at = now.as_second() * 1_000;
    let query = encode(text(&config["query"]));
    let host = if address.contains("://") { address.to_owned() } else { format!("https://{address}") };
    Ok(Question {
        method: "GET",
        url: format!(
            "{}/api/v2/chart/api?q={query}&s={at}&e={at}&p=1&g=s&sorted=false&strict=false",
            host.trim_end_matches('/')
        ),
        headers: vec![("authorization".into(), format!("Bearer {}", token.trim()))],
        timeout_seconds: TIMEOUT,
        ..Question::default()
    })
}

pub(super) fn answer(body: &[u8], now: Timestamp) -> Result<Answer, String> {
    let answer = read(body, "Wavefront")?;
    let mut metadata = BTreeMap::new();
    if let Some(warnings) = answer["warnings"].as_str().filter(|text| !text.is_empty()) {
        metadata.insert("warnings".to_owned(), warnings.to_owned());
    }
    if let Some(why) = answer["errorMessage"].as_str().filter(|text| !text.is_empty()) {
        return Err(format!("Wavefront says: {why}"));
    }
    let (mut values, mut times, mut drifts) = (Vec::new(), Vec::new(), Vec::new());
    for series in answer["timeseries"].as_array().into_iter().flatten() {
        let points = series["data"].as_array().into_iter().flatten();
        let points = points.filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()?)));
        let away = |at: f64| at - now.as_second() as f64;
        let closest = points.min_by(|a, b| away(a.0).abs().total_cmp(&away(b.0).abs()));
        let (at, value) = closest.ok_or("a series of Wavefront has no data")?;
        values.push(value);
        times.push(format!("{}", at as i64));
        drifts.push(format!("{}", away(at) as i64));
    }
    let two = |value: &f64| format!("{value:.2}");
    let (value, shown) = match values.as_slice() {
        [] => return Err("No TimeSeries found in response from Wavefront".into()),
        [one] => (number(*one), two(one)),
        several => {
            let shown = several.iter().map(two).collect::<Vec<_>>().join(",");
            (several.iter().copied().map(number).collect(), format!("[{shown}]"))
        }
    };
    let joined =
        |all: Vec<String>| if all.len() == 1 { all.concat() } else { format!("[{}]", all.join(",")) };
    metadata.insert("timestamps".into(), joined(times));
    metadata.insert("drift".into(), joined(drifts));
    Ok(Answer { value, shown: Some(shown), metadata })
}
