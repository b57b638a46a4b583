//! Job: pods until enough of them have succeeded, or too many have failed.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Again, MANAGER, is_true, pods, record};
use crate::api::{Caller, Cluster, DeleteOptions};
use crate::error::ApiResult;
use crate::value::{Json as _, now, parse_time, seconds_since};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const COMPONENT: &str = "job-controller";

pub(super) async fn reconcile(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(job) = cluster.get("batch/jobs", namespace, name) else { return Ok(None) };
    if is_true(&job, "Complete") || is_true(&job, "Failed") {
        return expire(cluster, &job).await;
    }
    if pods::is_deleting(&job) {
        return Ok(None);
    }
    let all = cluster.controlled_by("pods", namespace, job.uid());
    let indexed = job.str_at("spec.completionMode") == "Indexed";
    let active: Vec<&Value> = all.iter().filter(|p| pods::is_active(p)).collect();
    let phase = |wanted: &str| all.iter().filter(|p| p.str_at("status.phase") == wanted).count() as i64;
    // Finished pods may have been removed since, so the counters never go back.
    let succeeded = if indexed {
        done_indexes(&all).len() as i64
    } else {
        phase("Succeeded").max(job.int_at("status.succeeded").unwrap_or(0))
    };
    let failed = phase("Failed").max(job.int_at("status.failed").unwrap_or(0));
    let verdict = judge(&job, succeeded, failed, &active);
    let mut again = None;
    let mut status = job.get("status").cloned().unwrap_or(json!({}));
    match &verdict {
        Verdict::Complete | Verdict::Failed(..) => {
            for pod in &active {
                pods::delete(cluster, &job, pod).await?;
            }
        }
        Verdict::Suspended => {
            for pod in &active {
                pods::delete(cluster, &job, pod).await?;
            }
            status.remove_at("startTime");
        }
        Verdict::Running => {
            again = run_more(cluster, &job, &all, succeeded, failed).await?;
            status.default_at("startTime", json!(now()));
        }
    }
    let pods_now = cluster.controlled_by("pods", namespace, job.uid());
    let active = pods_now.iter().filter(|p| pods::is_active(p)).count();
    let ready = pods_now.iter().filter(|p| pods::is_active(p) && pods::is_ready(p)).count();
    let terminating = pods_now.iter().filter(|p| pods::is_deleting(p) && !pods::is_finished(p)).count();
    for (field, count) in [("active", active as i64), ("succeeded", succeeded), ("failed", failed)] {
        match count {
            0 => drop(status.remove_at(field)),
            count => status.set_at(field, json!(count)),
        }
    }
    status.set_at("ready", json!(ready));
    status.set_at("terminating", json!(terminating));
    status.set_at("uncountedTerminatedPods", json!({}));
    if indexed {
        status.set_at("completedIndexes", json!(ranges(&done_indexes(&all))));
    }
    conclude(cluster, &job, &verdict, &mut status).await;
    pods::write_status(cluster, "batch/jobs", &job, status).await?;
    if again.is_none() && matches!(verdict, Verdict::Running) {
        again = job.int_at("spec.activeDeadlineSeconds").map(|limit| {
            let spent = seconds_since(job.str_at("status.startTime"));
            Duration::from_secs(
                (limit - if job.at("status.startTime").is_some() { spent } else { 0 }).clamp(1, 3600) as u64,
            )
        });
    }
    Ok(again)
}

enum Verdict {
    Running,
    Suspended,
    Complete,
    Failed(&'static str, String),
}

fn judge(job: &Value, succeeded: i64, failed: i64, active: &[&Value]) -> Verdict {
    let completions = job.int_at("spec.completions");
    let done = match completions {
        Some(wanted) => succeeded >= wanted,
        // A work queue is done when one pod has succeeded and none is left.
        None => succeeded > 0 && active.is_empty(),
    };
    if done {
        return Verdict::Complete;
    }
    let restarts: i64 = active
        .iter()
        .flat_map(|p| p.list_at("status.containerStatuses"))
        .filter_map(|s| s.int_at("restartCount"))
        .sum();
    let on_failure = job.str_at("spec.template.spec.restartPolicy") == "OnFailure";
    let limit = job.int_at("spec.backoffLimit").unwrap_or(6);
    if failed > limit || (on_failure && restarts > limit) {
        return Verdict::Failed(
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit".to_owned(),
        );
    }
    if let Some(limit) = job.int_at("spec.activeDeadlineSeconds")
        && job.at("status.startTime").is_some()
        && seconds_since(job.str_at("status.startTime")) >= limit
    {
        return Verdict::Failed(
            "DeadlineExceeded",
            "Job was active longer than specified deadline".to_owned(),
        );
    }
    if job.bool_at("spec.suspend") { Verdict::Suspended } else { Verdict::Running }
}

async fn run_more(
    cluster: &Cluster,
    job: &Value,
    all: &[Value],
    succeeded: i64,
    failed: i64,
) -> ApiResult<Again> {
    let parallelism = job.int_at("spec.parallelism").unwrap_or(1);
    let active: Vec<&Value> = all.iter().filter(|p| pods::is_active(p)).collect();
    let left = match job.int_at("spec.completions") {
        Some(completions) => completions - succeeded,
        None if succeeded > 0 => active.len() as i64,
        None => parallelism,
    };
    let wanted = parallelism.min(left).max(0);
    let have = active.len() as i64;
    if have > wanted {
        for pod in active.iter().take((have - wanted) as usize) {
            pods::delete(cluster, job, pod).await?;
        }
        return Ok(None);
    }
    // Pods that are on their way out still count: a job never has more than it asked for.
    let leaving = all.iter().filter(|p| pods::is_deleting(p) && !pods::is_finished(p)).count() as i64;
    let missing = wanted - have - leaving;
    if missing <= 0 {
        return Ok(None);
    }
    if let Some(delay) = backoff(all, failed) {
        return Ok(Some(delay));
    }
    let mut free = free_indexes(job, all);
    for _ in 0..missing {
        let mut pod = pods::from_template(job, &job["spec"]["template"], &format!("{}-", job.name()));
        if job.str_at("spec.completionMode") == "Indexed" {
            let Some(index) = free.next() else { break };
            place_index(&mut pod, job, index);
        }
        pods::create(cluster, job, pod).await?;
    }
    Ok(None)
}

/// 10 s, 20 s, 40 s … up to 6 minutes after the last failure.
fn backoff(all: &[Value], failed: i64) -> Option<Duration> {
    if failed == 0 {
        return None;
    }
    let last = all
        .iter()
        .filter(|p| p.str_at("status.phase") == "Failed")
        .filter_map(|p| {
            p.list_at("status.containerStatuses")
                .iter()
                .filter_map(|s| parse_time(s.str_at("state.terminated.finishedAt")))
                .max()
        })
        .max()?;
    let delay = (10 << (failed - 1).min(6)).min(360);
    let left = delay - (jiff::Timestamp::now().as_second() - last.as_second());
    (left > 0).then(|| Duration::from_secs(left as u64))
}

fn index_of(pod: &Value) -> Option<i64> {
    pod.map_at("metadata.annotations")?.get(INDEX)?.as_str()?.parse().ok()
}

fn done_indexes(all: &[Value]) -> Vec<i64> {
    let mut done: Vec<i64> =
        all.iter().filter(|p| p.str_at("status.phase") == "Succeeded").filter_map(index_of).collect();
    done.sort_unstable();
    done.dedup();
    done
}

fn free_indexes<'a>(job: &Value, all: &'a [Value]) -> impl Iterator<Item = i64> + 'a {
    let taken: Vec<i64> = all
        .iter()
        .filter(|p| p.str_at("status.phase") != "Failed" && !pods::is_deleting(p))
        .filter_map(index_of)
        .collect();
    (0..job.int_at("spec.completions").unwrap_or(0)).filter(move |index| !taken.contains(index))
}

fn place_index(pod: &mut Value, job: &Value, index: i64) {
    pod.default_at("metadata.annotations", json!({}));
    pod.default_at("metadata.labels", json!({}));
    pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
    pod["metadata"]["labels"][INDEX] = json!(index.to_string());
    pod.set_at("metadata.generateName", json!(format!("{}-{index}-", job.name())));
    pod.set_at("spec.hostname", json!(format!("{}-{index}", job.name())));
    for list in ["initContainers", "containers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut env = container.list_at("env").to_vec();
            let path = format!("metadata.annotations['{INDEX}']");
            env.push(json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}));
            container.set_at("env", Value::Array(env));
        }
    }
}

/// `0-3,5,7,8`: two neighbours are no range yet.
fn ranges(indexes: &[i64]) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match parts.last_mut() {
            Some((_, end)) if *end + 1 == *index => *end = *index,
            _ => parts.push((*index, *index)),
        }
    }
    parts
        .iter()
        .map(|(a, b)| match b - a {
            0 => a.to_string(),
            1 => format!("{a},{b}"),
            _ => format!("{a}-{b}"),
        })
        .collect::<Vec<_>>()
        .join(",")
}

async fn conclude(cluster: &Cluster, job: &Value, verdict: &Verdict, status: &mut Value) {
    let mut conditions = status.list_at("conditions").to_vec();
    let mut add = |ty: &str, state: &str, reason: &str, message: &str| {
        let mut fresh = json!({"type": ty, "status": state, "lastProbeTime": now()});
        if !reason.is_empty() {
            fresh["reason"] = json!(reason);
            fresh["message"] = json!(message);
        }
        super::set_condition(&mut conditions, fresh);
    };
    match verdict {
        Verdict::Complete => {
            add(
                "SuccessCriteriaMet",
                "True",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            );
            add("Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods");
            status.set_at("completionTime", json!(now()));
            record(cluster, job, "Normal", "Completed", "Job completed", COMPONENT).await;
        }
        Verdict::Failed(reason, message) => {
            add("FailureTarget", "True", reason, message);
            add("Failed", "True", reason, message);
            record(cluster, job, "Warning", reason, message, COMPONENT).await;
        }
        Verdict::Suspended if !is_true(job, "Suspended") => {
            add("Suspended", "True", "JobSuspended", "Job suspended")
        }
        Verdict::Running if is_true(job, "Suspended") => {
            add("Suspended", "False", "JobResumed", "Job resumed")
        }
        _ => return,
    }
    status.set_at("conditions", Value::Array(conditions));
}

/// `ttlSecondsAfterFinished`
async fn expire(cluster: &Cluster, job: &Value) -> ApiResult<Again> {
    let Some(ttl) = job.int_at("spec.ttlSecondsAfterFinished") else { return Ok(None) };
    if pods::is_deleting(job) {
        return Ok(None);
    }
    let finished = ["Complete", "Failed"]
        .iter()
        .find_map(|ty| super::condition(job, ty))
        .map(|c| c.str_at("lastTransitionTime").to_owned());
    let left = ttl - seconds_since(&finished.unwrap_or_default());
    if left > 0 {
        return Ok(Some(Duration::from_secs(left as u64)));
    }
    let options = DeleteOptions {
        propagation: Some("Foreground".to_owned()),
        uid: Some(job.uid().to_owned()),
        ..DeleteOptions::default()
    };
    let mut caller = Caller::internal(MANAGER);
    match cluster
        .delete(&cluster.resource("batch/jobs"), job.namespace(), job.name(), &options, &mut caller)
        .await
    {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(None),
    }
}
