//! Background jobs of the process that answers, over the API: only an administrator of the platform sees them.

use serde_json::Value;

use crate::cli::context;
use crate::cli::output::{OutputArguments, print, when};

pub(crate) async fn run(output: OutputArguments) -> anyhow::Result<()> {
    let health: Value = context::client()?.get("/api/admin/health").await?;
    let rows = health["jobs"].as_array().cloned().unwrap_or_default();
    let heads = ["NAME", "STATE", "LAST RUN", "TOOK", "NEXT RUN", "LEADER", "RESULT"];
    print(output.output, &rows, &heads, row, "No background jobs are registered.")
}

fn row(job: &Value) -> Vec<String> {
    let text = |name: &str| job[name].as_str().unwrap_or("-").to_owned();
    let moment = |name: &str| job[name].as_str().map_or_else(|| "-".to_owned(), when);
    let leader = match (job["lease"].as_str(), job["leader"].as_str(), job["here"].as_bool()) {
        (None, ..) => "each process".to_owned(),
        (Some(_), Some(_), Some(true)) => "this process".to_owned(),
        (Some(_), Some(leader), _) => leader.to_owned(),
        (Some(_), None, _) => "nobody".to_owned(),
    };
    let result = match (job["failures"].as_u64(), job["error"].as_str()) {
        (Some(failures), Some(error)) if failures > 0 => format!("failed {failures} in a row: {error}"),
        _ if job["lastSuccess"].is_string() => "succeeded".to_owned(),
        _ => "-".to_owned(),
    };
    let took = job["tookMs"].as_u64().map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
    vec![text("name"), text("state"), moment("lastRun"), took, moment("nextRun"), leader, result]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::row;

    #[test]
    fn a_row_says_who_leads_and_how_it_went() {
        let mut job = json!({"name": "schedules", "state": "failing", "failures": 4, "error": "away", "tookMs": 12,
            "lease": "schedules", "leader": "1-ab", "here": true});
        assert_eq!(
            row(&job),
            ["schedules", "failing", "-", "12 ms", "-", "this process", "failed 4 in a row: away"]
        );
        job["here"] = false.into();
        assert_eq!(row(&job)[5], "1-ab");
        job["leader"] = json!(null);
        assert_eq!(row(&job)[5], "nobody");
        job["lease"] = json!(null);
        assert_eq!(row(&job)[5], "each process");
    }
}
