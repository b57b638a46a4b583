//! CronJob: starts jobs when their time has come, and keeps a short history.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use slipway_dialect::cron::{Dialect, Schedule};

use super::{Again, MANAGER, is_true, owner_reference, pods, record};
use crate::api::{Caller, Cluster, DeleteOptions};
use crate::error::{ApiError, ApiResult};
use crate::value::{Json as _, parse_time, time_text};

const COMPONENT: &str = "cronjob-controller";

pub(super) async fn reconcile(cluster: &Cluster, namespace: &str, name: &str) -> ApiResult<Again> {
    let Some(cron) = cluster.get("batch/cronjobs", namespace, name) else { return Ok(None) };
    if pods::is_deleting(&cron) {
        return Ok(None);
    }
    let jobs = cluster.controlled_by("batch/jobs", namespace, cron.uid());
    trim(cluster, &cron, &jobs).await?;
    let mut status = cron.get("status").cloned().unwrap_or(json!({}));
    if let Some(latest) =
        jobs.iter().filter(|j| is_true(j, "Complete")).map(|j| j.str_at("status.completionTime")).max()
        && latest > status.str_at("lastSuccessfulTime")
    {
        status.set_at("lastSuccessfulTime", json!(latest));
    }
    let again = start_due(cluster, &cron, &jobs, &mut status).await?;
    let active: Vec<Value> = cluster
        .controlled_by("batch/jobs", namespace, cron.uid())
        .iter()
        .filter(|job| !is_done(job))
        .map(|job| json!({"apiVersion": "batch/v1", "kind": "Job", "name": job.name(), "namespace": namespace, "uid": job.uid(),
            "resourceVersion": job["metadata"]["resourceVersion"]}))
        .collect();
    let known: Vec<&str> = cron.list_at("status.active").iter().map(|a| a.str_at("uid")).collect();
    if active.is_empty() {
        status.remove_at("active");
    } else if active.iter().map(|a| a.str_at("uid")).collect::<Vec<_>>() != known {
        status.set_at("active", Value::Array(active));
    }
    pods::write_status(cluster, "batch/cronjobs", &cron, status).await?;
    Ok(again)
}

fn is_done(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

/// Starts the latest missed run, if any, and says when the next one is due.
async fn start_due(cluster: &Cluster, cron: &Value, jobs: &[Value], status: &mut Value) -> ApiResult<Again> {
    if cron.bool_at("spec.suspend") {
        return Ok(None);
    }
    let Ok(schedule) = Schedule::parse(cron.str_at("spec.schedule"), Dialect::Standard) else {
        return Ok(None);
    };
    let zone = match cron.str_at("spec.timeZone") {
        "" => TimeZone::UTC,
        name => TimeZone::get(name).unwrap_or(TimeZone::UTC),
    };
    let now = Timestamp::now();
    let created = parse_time(cron.str_at("metadata.creationTimestamp")).unwrap_or(now);
    let last = parse_time(status.str_at("lastScheduleTime")).unwrap_or(created);
    let earliest = match cron.int_at("spec.startingDeadlineSeconds") {
        Some(limit) => last.max(now - jiff::SignedDuration::from_secs(limit)),
        None => last,
    };
    let (mut due, mut upcoming) = (None, None);
    let mut time = earliest;
    for _ in 0..200_000 {
        let Some(next) = schedule.next(time, &zone) else { break };
        if next > now {
            upcoming = Some(next);
            break;
        }
        due = Some(next);
        time = next;
    }
    if let Some(due) = due {
        let active: Vec<&Value> = jobs.iter().filter(|job| !is_done(job)).collect();
        match cron.str_at("spec.concurrencyPolicy") {
            "Forbid" if !active.is_empty() => {
                let text =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                record(cluster, cron, "Normal", "JobAlreadyActive", text, COMPONENT).await;
            }
            policy => {
                if policy == "Replace" {
                    for job in active {
                        remove(cluster, cron, job).await?;
                    }
                }
                start(cluster, cron, due).await?;
                status.set_at("lastScheduleTime", json!(time_text(due)));
            }
        }
    }
    Ok(upcoming
        .map(|at| Duration::from_millis((at.as_millisecond() - now.as_millisecond()).max(0) as u64 + 50)))
}

async fn start(cluster: &Cluster, cron: &Value, due: Timestamp) -> ApiResult<()> {
    let template = &cron["spec"]["jobTemplate"];
    let name = format!("{}-{}", cron.name(), due.as_second() / 60);
    let mut job = json!({"metadata": {"name": name, "ownerReferences": [owner_reference(cron)]}, "spec": template["spec"]});
    for field in ["labels", "annotations"] {
        if let Some(value) = template["metadata"].get(field) {
            job["metadata"][field] = value.clone();
        }
    }
    job.default_at("metadata.annotations", json!({}));
    job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] = json!(time_text(due));
    let mut caller = Caller::internal(MANAGER);
    match cluster.create(&cluster.resource("batch/jobs"), cron.namespace(), job, &mut caller).await {
        Ok(_) => {
            record(cluster, cron, "Normal", "SuccessfulCreate", &format!("Created job {name}"), COMPONENT)
                .await;
            Ok(())
        }
        // The run was started before a crash, and its status was not written.
        Err(ApiError { reason: "AlreadyExists", .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn remove(cluster: &Cluster, cron: &Value, job: &Value) -> ApiResult<()> {
    let options = DeleteOptions { propagation: Some("Background".to_owned()), ..DeleteOptions::default() };
    let mut caller = Caller::internal(MANAGER);
    match cluster
        .delete(&cluster.resource("batch/jobs"), job.namespace(), job.name(), &options, &mut caller)
        .await
    {
        Ok(_) => {
            record(
                cluster,
                cron,
                "Normal",
                "SuccessfulDelete",
                &format!("Deleted job {}", job.name()),
                COMPONENT,
            )
            .await;
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

async fn trim(cluster: &Cluster, cron: &Value, jobs: &[Value]) -> ApiResult<()> {
    for (ty, field) in [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")] {
        let limit = cron["spec"].int_at(field).unwrap_or(3).max(0) as usize;
        let mut done: Vec<&Value> = jobs.iter().filter(|j| is_true(j, ty) && !pods::is_deleting(j)).collect();
        done.sort_by_key(|j| j.str_at("status.startTime").to_owned());
        let surplus = done.len().saturating_sub(limit);
        for job in done.into_iter().take(surplus) {
            remove(cluster, cron, job).await?;
        }
    }
    Ok(())
}
