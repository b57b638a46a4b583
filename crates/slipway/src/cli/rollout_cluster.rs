//! `slipway rollout get|list|status|plan|promote|…`: Rollouts in a cluster, by its API alone.
//!
//! What orders write is decided in the room `rollout`; here they are sent, and answers are printed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{ObjectKey, WriteOptions};
use slipway_crd::analysis::{AnalysisRun, Experiment};
use slipway_crd::names::GROUP;
use slipway_crd::rollout::Rollout;
use slipway_rollout::orders::{Order, Patch, writes};
use slipway_rollout::phase;
use slipway_rollout::plan::{Action, Observed, Plan, is_analysed, plan, services_of};
use slipway_rollout::player::player;
use slipway_rollout::routing::{self, Seen};

use super::kube_session::{ClusterArguments, Many, One, Session};
use super::output::{self, OutputArguments};

/// A year: more than that does not fit into a clock everywhere.
const MAX_WAIT_SECONDS: u64 = 365 * 24 * 3600;

#[derive(clap::Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    one: One,
    /// Wait until it is Healthy or Degraded, so many seconds at most: exit 1 when it is not Healthy then
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

#[derive(clap::Args)]
pub(crate) struct PromoteArguments {
    #[command(flatten)]
    one: One,
    /// Skip all steps, pauses and analyses that are left
    #[arg(long)]
    full: bool,
}

#[derive(clap::Args)]
pub(crate) struct UndoArguments {
    #[command(flatten)]
    one: One,
    /// The revision to go back to; the one before when left out
    #[arg(long)]
    to_revision: Option<i64>,
}

#[derive(clap::Args)]
pub(crate) struct SetImageArguments {
    /// The Rollout
    name: String,
    /// CONTAINER=IMAGE, or *=IMAGE for all of them
    #[arg(required = true, value_parser = image)]
    images: Vec<(String, String)>,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    output: OutputArguments,
}

fn image(text: &str) -> Result<(String, String), String> {
    let (container, image) = text.split_once('=').ok_or("write CONTAINER=IMAGE")?;
    if container.is_empty() || image.is_empty() {
        return Err("write CONTAINER=IMAGE".into());
    }
    Ok((container.to_owned(), image.to_owned()))
}

impl Session {
    async fn rollout(&self, name: &str) -> anyhow::Result<Rollout> {
        let key = ObjectKey::new(GROUP, "Rollout", &self.namespace, name);
        let object = self.cluster.read(&key).await?;
        let object =
            object.with_context(|| format!("there is no Rollout {name} in namespace {}", self.namespace))?;
        Ok(serde_json::from_value(object)?)
    }

    async fn workload(&self, rollout: &Rollout) -> anyhow::Result<Option<Value>> {
        let Some(reference) = &rollout.spec.workload_ref else { return Ok(None) };
        let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Ok(self
            .cluster
            .read(&ObjectKey::new(group, &reference.kind, &self.namespace, &reference.name))
            .await?)
    }

    async fn observe(&self, name: &str) -> anyhow::Result<Observed> {
        let rollout = self.rollout(name).await?;
        let mut services = std::collections::BTreeMap::new();
        for service in services_of(&rollout) {
            let found = self.cluster.read(&ObjectKey::new("", "Service", &self.namespace, service)).await?;
            services.extend(found.map(|found| (service.to_owned(), found)));
        }
        let workload = self.workload(&rollout).await?;
        let replica_sets = self.list("apps", "ReplicaSet", &self.namespace).await?;
        let pods = self.list("", "Pod", &self.namespace).await?;
        let mut templates = Vec::new();
        let (mut runs, mut experiments) = (Vec::new(), Vec::new());
        if is_analysed(&rollout) {
            templates = self.list_as("AnalysisTemplate", &self.namespace).await?;
            templates.extend(self.list_as("ClusterAnalysisTemplate", "").await?);
            let all: Vec<AnalysisRun> = self.list_as("AnalysisRun", &self.namespace).await?;
            let uid = &rollout.metadata.uid;
            runs = all
                .into_iter()
                .filter(|run| run.metadata.owner_references.iter().any(|owner| owner.uid == *uid))
                .collect();
            let all: Vec<Experiment> = self.list_as("Experiment", &self.namespace).await?;
            experiments = all
                .into_iter()
                .filter(|one| one.metadata.owner_references.iter().any(|owner| owner.uid == *uid))
                .collect();
        }
        let routes = self.routes(&rollout).await?;
        Ok(Observed {
            rollout,
            replica_sets,
            pods,
            services,
            routes,
            workload,
            runs,
            experiments,
            templates,
            refused: Vec::new(),
        })
    }

    /// The objects of its routers; one may name another.
    async fn routes(&self, rollout: &Rollout) -> anyhow::Result<Seen> {
        let mut seen = Seen::default();
        let discovery = self.cluster.discovery();
        for _ in 0..2 {
            for at in routing::objects(rollout, &seen) {
                // A kind that the cluster does not know has no objects.
                let Some(resource) = discovery.preferred(&at.group, &at.kind) else { continue };
                seen.served.insert((at.group.clone(), at.kind.clone()), resource.api_version());
                let key = ObjectKey::new(&at.group, &at.kind, &at.namespace, &at.name);
                if let Some(found) = self.cluster.read(&key).await? {
                    seen.objects.insert(at, found);
                }
            }
        }
        Ok(seen)
    }

    async fn order(&self, name: &str, order: &Order) -> anyhow::Result<Rollout> {
        let rollout = self.rollout(name).await?;
        let sets = owned(self.list("apps", "ReplicaSet", &self.namespace).await?, &rollout.metadata.uid);
        let workload = self.workload(&rollout).await?;
        let all = writes(order, &rollout, &sets, workload.as_ref(), Timestamp::now())
            .map_err(anyhow::Error::msg)?;
        for write in all {
            let target = write.target.object();
            match (&write.patch, write.subresource) {
                (Patch::Merge(patch), Some(subresource)) => {
                    self.cluster.merge_subresource(&target, subresource, patch).await?
                }
                (Patch::Merge(patch), None) => {
                    self.cluster.merge(&target, patch, WriteOptions::default()).await?
                }
                (Patch::Json(patch), _) => {
                    self.cluster.json_patch(&target, patch, WriteOptions::default()).await?
                }
            };
        }
        self.rollout(name).await
    }
}

fn owned(objects: Vec<Value>, uid: &str) -> Vec<Value> {
    let is = |object: &Value| {
        object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|owner| owner["uid"] == uid)
    };
    objects.into_iter().filter(is).collect()
}

pub(crate) async fn list(arguments: Many) -> anyhow::Result<ExitCode> {
    let session = Session::open(&arguments.cluster).await?;
    let namespace = if arguments.all_namespaces { "" } else { &session.namespace };
    let rollouts = session.list(GROUP, "Rollout", namespace).await?;
    let rows: Vec<Value> = rollouts
        .into_iter()
        .filter_map(|object| serde_json::from_value(object).ok())
        .map(|one| summary(&one))
        .collect();
    let cells =
        ["namespace", "name", "strategy", "phase", "step", "desired", "updated", "available", "message"];
    output::print(
        arguments.output.output,
        &rows,
        &["NAMESPACE", "NAME", "STRATEGY", "PHASE", "STEP", "DESIRED", "UPDATED", "AVAILABLE", "MESSAGE"],
        |row| cells.iter().map(|cell| text(&row[*cell])).collect(),
        "There are no Rollouts.",
    )?;
    Ok(ExitCode::SUCCESS)
}

fn summary(rollout: &Rollout) -> Value {
    let (phase, message) = phase::of(rollout);
    let (strategy, step) = match (rollout.canary(), rollout.blue_green()) {
        (Some(canary), _) => {
            let of = canary.steps.len();
            let at = rollout.status.current_step_index.map_or_else(|| "-".into(), |at| format!("{at}/{of}"));
            ("Canary", if of == 0 { "-".into() } else { at })
        }
        (_, Some(_)) => ("BlueGreen", "-".to_owned()),
        _ => ("-", "-".to_owned()),
    };
    let status = &rollout.status;
    json!({"namespace": rollout.metadata.namespace, "name": rollout.metadata.name, "strategy": strategy, "phase": phase,
        "message": message, "step": step, "desired": rollout.replicas(), "updated": status.updated_replicas,
        "available": status.available_replicas})
}

/// One Rollout with its versions, newest first, its steps, and why it is not moving.
pub(crate) async fn get(one: One) -> anyhow::Result<ExitCode> {
    let session = Session::open(&one.cluster).await?;
    let observed = session.observe(&one.name).await?;
    let now = Timestamp::now();
    let (next, shown) = (plan(&observed, now), player(&observed, now));
    let rows: Vec<Value> = shown
        .versions
        .iter()
        .map(|version| {
            json!({"revision": version.revision, "name": version.name, "roles": version.roles.join(","),
                "images": version.images.join(","), "desired": version.desired, "ready": version.ready,
                "available": version.available})
        })
        .collect();
    let steps: Vec<Value> =
        shown.steps.iter().map(|step| json!({"step": step.words, "state": step.state.word()})).collect();
    let weights = shown.weights.map(|weights| {
        json!({"now": weights.now, "wanted": weights.wanted, "most": weights.most, "routed": weights.routed})
    });
    let whole = json!({"rollout": summary(&observed.rollout), "waiting": next.waiting, "weights": weights, "steps": steps,
        "revisions": rows});
    output::print_one(one.output.output, &whole, &one.name, || {
        let head = &whole["rollout"];
        for (label, name) in [
            ("Name", "name"),
            ("Strategy", "strategy"),
            ("Phase", "phase"),
            ("Message", "message"),
            ("Step", "step"),
        ] {
            say!("{label}: {}", text(&head[name]));
        }
        if !next.waiting.is_empty() {
            say!("Waiting: {}", next.waiting);
        }
        if let Some(weights) = shown.weights {
            say!("Weight: {} of {}, {} wanted", weights.now, weights.most, weights.wanted);
        }
        for (number, step) in shown.steps.iter().enumerate() {
            say!("  {}. {} ({})", number + 1, step.words, step.state.word());
        }
        let cells = ["revision", "name", "roles", "desired", "ready", "available", "images"];
        output::print(
            one.output.output,
            &rows,
            &["REVISION", "REPLICASET", "ROLES", "DESIRED", "READY", "AVAILABLE", "IMAGES"],
            |row| cells.iter().map(|cell| text(&row[*cell])).collect(),
            "It has no version yet.",
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What the engine would do now, and what it waits for.
pub(crate) async fn show_plan(one: One) -> anyhow::Result<ExitCode> {
    let session = Session::open(&one.cluster).await?;
    let observed = session.observe(&one.name).await?;
    let next = plan(&observed, Timestamp::now());
    let rows = steps_of(&next);
    let whole = json!({"rollout": summary(&observed.rollout), "waiting": next.waiting, "next": rows, "again": next.requeue_at});
    output::print_one(one.output.output, &whole, &one.name, || {
        let waiting =
            if next.waiting.is_empty() { "nothing: it is where it should be" } else { &next.waiting };
        say!("Waiting: {waiting}");
        if let Some(at) = next.requeue_at {
            say!("Looks again: {at}");
        }
        output::print(
            one.output.output,
            &rows,
            &["WHAT", "OBJECT", "CHANGE"],
            |row| ["what", "object", "change"].iter().map(|cell| text(&row[*cell])).collect(),
            "There is nothing to write.",
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn steps_of(plan: &Plan) -> Vec<Value> {
    let row = |what: &str, object: String, change: String| json!({"what": what, "object": object, "change": change});
    plan.actions
        .iter()
        .map(|action| match action {
            Action::Create(object) => row(
                "create",
                format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"])),
                String::new(),
            ),
            Action::Patch { target, patch } => {
                row("patch", format!("{}/{}", target.kind, target.name), patch.to_string())
            }
            Action::Delete { target, .. } => {
                row("delete", format!("{}/{}", target.kind, target.name), String::new())
            }
            Action::Evict { target } => {
                row("evict", format!("{}/{}", target.kind, target.name), String::new())
            }
        })
        .collect()
}

pub(crate) async fn status(arguments: StatusArguments) -> anyhow::Result<ExitCode> {
    let session = Session::open(&arguments.one.cluster).await?;
    let until =
        arguments.wait.map(|seconds| Instant::now() + Duration::from_secs(seconds.min(MAX_WAIT_SECONDS)));
    loop {
        let rollout = session.rollout(&arguments.one.name).await?;
        let (phase, _) = phase::of(&rollout);
        let ended = matches!(phase, "Healthy" | "Degraded");
        if ended || until.is_none_or(|until| Instant::now() >= until) {
            say_outcome(&rollout, arguments.one.output)?;
            let bad = phase == "Degraded" || (until.is_some() && phase != "Healthy");
            return Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

pub(crate) async fn give(one: One, order: Order) -> anyhow::Result<ExitCode> {
    let session = Session::open(&one.cluster).await?;
    let rollout = session.order(&one.name, &order).await?;
    say_outcome(&rollout, one.output)
}

pub(crate) async fn promote(arguments: PromoteArguments) -> anyhow::Result<ExitCode> {
    let order = if arguments.full { Order::PromoteFull } else { Order::Promote };
    give(arguments.one, order).await
}

pub(crate) async fn undo(arguments: UndoArguments) -> anyhow::Result<ExitCode> {
    give(arguments.one, Order::Undo(arguments.to_revision)).await
}

pub(crate) async fn set_image(arguments: SetImageArguments) -> anyhow::Result<ExitCode> {
    let session = Session::open(&arguments.cluster).await?;
    let rollout = session.order(&arguments.name, &Order::SetImage(arguments.images)).await?;
    say_outcome(&rollout, arguments.output)
}

fn say_outcome(rollout: &Rollout, output: OutputArguments) -> anyhow::Result<ExitCode> {
    let row = summary(rollout);
    output::print_one(output.output, &row, &rollout.metadata.name, || {
        let (phase, message) = phase::of(rollout);
        let why = if message.is_empty() { String::new() } else { format!(": {message}") };
        say!("Rollout {} is {phase}{why}", rollout.metadata.name);
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
