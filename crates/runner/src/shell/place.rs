//! From the task of a step to that of a shell in the same place.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_cluster::{ClusterError, PodKind, Pods};

use crate::layout::{AttemptDir, Lasting, VOLUME, create_private_dir, write_json};
use crate::shim::tidy;
use crate::task::{Limits, PodWork, Program, Run, Sandbox, Task};

/// A shell that is ready to be started, and how it is taken away.
pub(crate) struct Prepared {
    pub(crate) task: Task,
    /// Of its own, below the attempt's.
    pub(crate) dir: AttemptDir,
}

impl Prepared {
    /// Beside the attempt, whose files stay as they are; `dir` is [`folder`] of the same order.
    pub(crate) fn new(at: &AttemptDir, dir: AttemptDir, task: Task, order: &str) -> std::io::Result<Self> {
        let task = of_order(task, order);
        create_private_dir(&dir.0)?;
        let bin = dir.bin();
        let _ = std::fs::remove_file(&bin);
        if !bin.exists() {
            // The script of the step, so that a person can run it by hand.
            std::os::unix::fs::symlink(at.bin(), &bin)?;
        }
        write_json(&dir.task(), &task, Lasting::Process)?;
        Ok(Self { task, dir })
    }

    /// What a runner that was killed has left behind.
    pub(super) async fn remove_old(&self) {
        self.clear().await;
    }

    pub(super) async fn remove(&self) {
        self.clear().await;
        // It has the step's variables in it.
        crate::layout::discard(&self.dir.0);
    }

    async fn clear(&self) {
        let done = match &self.task.run {
            Run::Container { engine, name, .. } => {
                let (engine, names) = (engine.clone(), [name.clone()]);
                tokio::task::spawn_blocking(move || tidy::named(&engine, &names))
                    .await
                    .unwrap_or_else(|error| Err(error.to_string()))
            }
            Run::Pod(work) => self.delete(work).await.map_err(|error| error.to_string()),
            _ => Ok(()),
        };
        // A shell is no part of a step's result; the sweep finds what is left by its label.
        if let Err(why) = done {
            tracing::warn!(%why, "Cannot remove a debug shell yet; the next sweep retries.");
        }
    }

    async fn delete(&self, work: &PodWork) -> Result<(), ClusterError> {
        let pods = Pods::connect(&work.cluster).await?;
        pods.delete(PodKind::Pod, &work.name, Some(0)).await?;
        pods.delete(PodKind::Secret, &work.name, None).await.map(drop)
    }
}

/// A shell where this task runs; nothing where it has no place that a shell could be in.
pub(crate) fn shell_of(task: &Task, seconds: u64) -> Option<Task> {
    let run = match &task.run {
        Run::Sandboxed { sandbox, program, .. } => {
            let program = Program { argv: words(&["sh", "-i"]), interactive: true, ..program.clone() };
            Run::Sandboxed {
                sandbox: sandbox.clone(),
                program: with_terminal(program),
                limits: Limits::default(),
            }
        }
        // Where the volume is of the user that it runs as; elsewhere a container looks into it.
        Run::Builtin { sandbox: Some(sandbox), owner, .. } if sandbox.user == *owner => {
            return Some(sandboxed(task, sandbox));
        }
        Run::Container { name, shell, .. } if !shell.is_empty() => {
            let mut run = task.run.clone();
            if let Run::Container { name: shells, .. } = &mut run {
                *shells = shell_name(name);
            }
            run
        }
        Run::Pod(work) => Run::Pod(Box::new(pod(work, seconds))),
        _ => return None,
    };
    Some(Task { run, timeout_ms: None, intro: Vec::new(), ..task.clone() })
}

/// In the sandbox of work of ours that has no program.
fn sandboxed(task: &Task, sandbox: &Sandbox) -> Task {
    let program = Program {
        argv: words(&["sh", "-i"]),
        environment: BTreeMap::from([
            ("PATH".to_owned(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
            ("HOME".to_owned(), "/tmp/home".to_owned()),
        ]),
        working_directory: PathBuf::from(VOLUME),
        interactive: true,
    };
    let run = Run::Sandboxed {
        sandbox: sandbox.clone(),
        program: with_terminal(program),
        limits: Limits::default(),
    };
    Task { run, timeout_ms: None, intro: Vec::new(), ..task.clone() }
}

fn with_terminal(mut program: Program) -> Program {
    program.environment.entry("TERM".to_owned()).or_insert_with(|| "xterm-256color".to_owned());
    program.environment.entry("PS1".to_owned()).or_insert_with(|| "$PWD $ ".to_owned());
    program
}

/// Where a shell has its files: its own, because the one before it may still be taken away.
pub(crate) fn folder(at: &AttemptDir, order: &str) -> AttemptDir {
    AttemptDir(at.0.join(format!("shell-{}", short(order))))
}

fn short(order: &str) -> String {
    hex::encode(&Sha256::digest(order)[..4])
}

/// The same for names: two shells in one paused step are two containers, and the end of one is not the other's.
fn of_order(mut task: Task, order: &str) -> Task {
    let named = |name: &str| format!("{name}-{}", short(order));
    match &mut task.run {
        Run::Container { name, shell, .. } => {
            let (old, new) = (format!("--name={name}"), named(name));
            shell.iter_mut().filter(|word| **word == old).for_each(|word| *word = format!("--name={new}"));
            *name = new;
        }
        Run::Pod(work) => {
            let (old, new) = (work.name.clone(), named(&work.name));
            rename(&mut work.pod, &old, &new);
            work.secret.iter_mut().for_each(|secret| rename(secret, &old, &new));
            work.name = new;
        }
        _ => {}
    }
    task
}

pub(crate) fn shell_name(name: &str) -> String {
    format!("{name}-sh")
}

/// The step's own container waits for people; services, and whatever else is beside it, are not started for them.
fn pod(work: &PodWork, seconds: u64) -> PodWork {
    let name = shell_name(&work.name);
    let renamed = |object: &Value| {
        let mut object = object.clone();
        rename(&mut object, &work.name, &name);
        object
    };
    let mut pod = renamed(&work.pod);
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("initContainers");
        spec.insert("activeDeadlineSeconds".to_owned(), json!(seconds));
        if let Some(Value::Array(containers)) = spec.get_mut("containers") {
            containers.truncate(1);
            for container in containers.iter_mut().filter_map(Value::as_object_mut) {
                container.remove("args");
                container.insert("command".to_owned(), json!(["sh", "-c", format!("sleep {seconds}")]));
            }
        }
    }
    let secret = work.secret.as_ref().map(renamed);
    PodWork { name, pod, secret, also: Vec::new(), services: None, ..work.clone() }
}

fn rename(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, from, to)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, from, to)),
        _ => {}
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}
