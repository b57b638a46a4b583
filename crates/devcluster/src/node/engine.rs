//! The container engine's command line. Podman and Docker share what is used of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipway_container::{self as container, Kind, image_reference as named};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::EngineChoice;
use crate::value::Json as _;

pub(super) const LABEL_CLUSTER: &str = "io.slipway.cluster";
pub(super) const LABEL_NAMESPACE: &str = "io.slipway.namespace";
pub(super) const LABEL_POD: &str = "io.slipway.pod";
pub(super) const LABEL_CONTAINER: &str = "io.slipway.container";

pub(crate) struct Engine {
    pub(super) kind: Kind,
    program: PathBuf,
    version: String,
    /// Arguments before the verb, such as the runtime.
    global: Vec<String>,
    /// `--ulimit` arguments, below what this process may have.
    pub(super) limits: Vec<String>,
    pub(super) cluster_id: std::sync::OnceLock<String>,
    /// Networking to pods works only for root.
    pub(super) rootful: bool,
    /// Starting many containers at once is slower than a few after each other.
    gate: tokio::sync::Semaphore,
}

/// Looks for an engine that answers. The error says what to install.
pub(crate) fn find_engine(choice: Option<EngineChoice>) -> Result<Engine, String> {
    let candidates = match choice {
        Some(EngineChoice::Podman) => vec![Kind::Podman],
        Some(EngineChoice::Docker) => vec![Kind::Docker],
        Some(EngineChoice::Off) => {
            return Err("no container engine: it was switched off for this cluster".to_owned());
        }
        None => Kind::ALL.to_vec(),
    };
    let mut reasons = Vec::new();
    for kind in candidates {
        let Some(program) = container::find(kind.name()) else { continue };
        match probe(kind, program) {
            Ok(engine) => return Ok(engine),
            Err(reason) => {
                reasons.push(format!("{} is installed but does not answer ({reason})", kind.name()));
            }
        }
    }
    let install = "no container engine: install podman (apt-get install podman) and start the cluster again";
    if reasons.is_empty() {
        Err(install.to_owned())
    } else {
        Err(format!("{install}; {}", reasons.join("; ")))
    }
}

fn probe(kind: Kind, program: PathBuf) -> Result<Engine, String> {
    let version = kind.version()?;
    let mut global = Vec::new();
    // crun refuses cgroup v1; runc takes both.
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if kind == Kind::Podman && !unified && container::find("runc").is_some() {
        global.extend(["--runtime".to_owned(), "runc".to_owned()]);
    }
    Ok(Engine {
        kind,
        program,
        version,
        global,
        limits: if kind == Kind::Podman { limits() } else { Vec::new() },
        cluster_id: std::sync::OnceLock::new(),
        rootful: kind == Kind::Docker || rustix::process::geteuid().is_root(),
        gate: tokio::sync::Semaphore::new(4),
    })
}

/// The engine lowers its own hard limits before it starts anything: to a million files and the kernel's pid_max.
fn limits() -> Vec<String> {
    const MOST: u64 = 1_048_576;
    let pids = std::fs::read_to_string("/proc/sys/kernel/pid_max")
        .ok()
        .and_then(|t| t.trim().parse().ok())
        .unwrap_or(MOST);
    container::ulimits(MOST, MOST.min(pids))
}

/// What a finished command left.
pub(super) struct Done {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Engine {
    pub(crate) fn describe(&self) -> String {
        format!("{} {}", self.kind.name(), self.version)
    }

    pub(crate) fn set_cluster(&self, id: &str) {
        let _ = self.cluster_id.set(id.to_owned());
    }

    pub(super) fn cluster(&self) -> &str {
        self.cluster_id.get().map(String::as_str).unwrap_or("")
    }

    pub(crate) fn command(&self, args: &[String]) -> Command {
        let mut command = Command::from(container::command(&self.program));
        command.args(&self.global).args(args).kill_on_drop(false);
        command
    }

    /// A command that must not outlive this process, however it ends: `setpriv` asks the kernel for that.
    fn bound_command(&self, args: &[String]) -> Command {
        match container::find("setpriv") {
            Some(helper) => {
                let mut command = Command::from(container::command(helper));
                command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program).args(&self.global).args(args);
                command
            }
            None => self.command(args),
        }
    }

    pub(super) async fn call(&self, args: &[String]) -> Result<Done, String> {
        self.call_with(args, &HashMap::new(), None).await
    }

    /// Runs to the end. `env` becomes the command's environment, besides what an engine needs of ours.
    pub(super) async fn call_with(
        &self,
        args: &[String],
        env: &HashMap<String, String>,
        input: Option<Vec<u8>>,
    ) -> Result<Done, String> {
        let _turn = self.gate.acquire().await.map_err(|e| e.to_string())?;
        let mut command = self.command(args);
        command.envs(env).stdout(Stdio::piped()).stderr(Stdio::piped());
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let fail = |e: std::io::Error| format!("{} cannot be run: {e}", self.program.display());
        let mut child = command.spawn().map_err(fail)?;
        if let (Some(bytes), Some(mut stdin)) = (input, child.stdin.take()) {
            use tokio::io::AsyncWriteExt as _;
            let _ = stdin.write_all(&bytes).await;
        }
        // The engine's helpers (conmon) may keep the pipes open: what counts is that the command itself has ended.
        let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let status = {
            let read = async {
                tokio::join!(read_all(out.as_mut(), &mut stdout), read_all(err.as_mut(), &mut stderr));
            };
            tokio::pin!(read);
            tokio::select! {
                status = child.wait() => {
                    let _ = tokio::time::timeout(Duration::from_millis(500), &mut read).await;
                    status
                }
                () = &mut read => child.wait().await,
            }
        };
        let status = status.map_err(fail)?;
        Ok(Done {
            code: status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).trim().to_owned(),
        })
    }

    /// The image that sandboxes run is made here, because there may be no registry.
    pub(super) async fn prepare(&self) -> Result<(), String> {
        let exists = self.call(&words(&["image", "inspect", super::pause::IMAGE])).await?;
        if exists.code == 0 {
            return Ok(());
        }
        let args = words(&["import", "--change", "CMD [\"/pause\"]", "-", super::pause::IMAGE]);
        let done = self.call_with(&args, &HashMap::new(), Some(super::pause::tree()?)).await?;
        if done.code == 0 {
            Ok(())
        } else {
            Err(format!("the sandbox image cannot be imported: {}", done.stderr))
        }
    }

    /// Names of all containers of this cluster, with the pod each belongs to.
    pub(super) async fn list_own(&self) -> Result<Vec<(String, String)>, String> {
        let filter = format!("label={LABEL_CLUSTER}={}", self.cluster());
        let done = self.call(&words(&["ps", "-a", "--filter", &filter, "--format", "{{.Names}}"])).await?;
        if done.code != 0 {
            return Err(done.stderr);
        }
        // slipway_<cluster>_<pod>_<container>_<attempt>
        let parse = |name: &str| Some((name.to_owned(), name.split('_').nth(2)?.to_owned()));
        Ok(done.stdout.lines().map(str::trim).filter_map(parse).collect())
    }

    /// Names of the containers of one pod.
    pub(super) async fn list_pod(&self, uid: &str) -> Result<Vec<String>, String> {
        let filter = format!("label={LABEL_POD}={uid}");
        let done = self.call(&words(&["ps", "-a", "--filter", &filter, "--format", "{{.Names}}"])).await?;
        if done.code != 0 {
            return Err(done.stderr);
        }
        Ok(done.stdout.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect())
    }

    /// Details of containers; those that do not exist are left out.
    pub(super) async fn inspect(&self, names: &[String]) -> Result<Vec<Value>, String> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let args: Vec<String> =
            words(&["inspect", "--type", "container"]).into_iter().chain(names.iter().cloned()).collect();
        let done = self.call(&args).await?;
        match serde_json::from_str::<Vec<Value>>(&done.stdout) {
            Ok(list) => Ok(list),
            Err(_) if names.len() == 1 => Ok(Vec::new()),
            // One missing name may hide the others: ask one by one.
            Err(_) => {
                let mut found = Vec::new();
                for name in names {
                    let args = words(&["inspect", "--type", "container", name]);
                    let done = self.call(&args).await?;
                    found.extend(serde_json::from_str::<Vec<Value>>(&done.stdout).unwrap_or_default());
                }
                Ok(found)
            }
        }
    }

    /// Removes containers at once, running or not. Sandboxes go last, because the others lean on their network.
    pub(super) async fn remove(&self, names: &[String]) {
        let (sandboxes, containers): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|n| n.contains("_POD_"));
        self.remove_all(&containers).await;
        self.remove_all(&sandboxes).await;
    }

    async fn remove_all(&self, names: &[&String]) {
        if names.is_empty() {
            return;
        }
        let mut args = words(&["rm", "-f", "-v"]);
        if self.kind == Kind::Podman {
            args.extend(words(&["-t", "0", "-i"]));
        }
        args.extend(names.iter().map(|name| (*name).clone()));
        match self.call(&args).await {
            Ok(done) if done.code == 0 => {}
            Ok(done) => tracing::warn!(error = %done.stderr, "Cannot remove containers."),
            Err(error) => tracing::warn!(%error, "Cannot remove containers."),
        }
    }

    /// Id of a local image, if there is one.
    pub(super) async fn image_id(&self, image: &str) -> Option<String> {
        let done = self.call(&words(&["inspect", "--type=image", "-f={{.Id}}", &named(image)])).await.ok()?;
        (done.code == 0).then(|| done.stdout.trim().trim_start_matches("sha256:").to_owned())
    }

    pub(super) async fn pull(&self, image: &str, auth: Option<&Path>, limit: Duration) -> Result<(), String> {
        let mut args = Vec::new();
        if let (Some(auth), Kind::Docker) = (auth, self.kind) {
            args.extend(["--config".to_owned(), auth.display().to_string()]);
        }
        args.extend(words(&["pull", "-q"]));
        if let (Some(auth), Kind::Podman) = (auth, self.kind) {
            args.extend(["--authfile".to_owned(), auth.join("config.json").display().to_string()]);
        }
        args.push(named(image));
        let mut command = self.command(&args);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).output();
        match tokio::time::timeout(limit, child).await {
            Err(_) => Err(format!("pulling {image} took longer than {} s", limit.as_secs())),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(output)) if output.status.success() => Ok(()),
            Ok(Ok(output)) => {
                let text = String::from_utf8_lossy(&output.stderr);
                Err(text
                    .lines()
                    .last()
                    .unwrap_or("the pull failed")
                    .trim()
                    .trim_start_matches("Error: ")
                    .to_owned())
            }
        }
    }
}

async fn read_all(pipe: Option<&mut (impl tokio::io::AsyncRead + Unpin)>, into: &mut Vec<u8>) {
    if let Some(pipe) = pipe {
        let _ = pipe.read_to_end(into).await;
    }
}

pub(super) fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

/// Follows the engine's events and reports the pod of each container that ended; an empty text after an interruption.
pub(super) async fn follow_deaths(
    engine: Arc<Engine>,
    sender: mpsc::Sender<String>,
    shutdown: CancellationToken,
) {
    loop {
        let cluster = format!("label={LABEL_CLUSTER}={}", engine.cluster());
        let format = if engine.kind == Kind::Podman { "json" } else { "{{json .}}" };
        let args = words(&[
            "events",
            "--filter",
            "type=container",
            "--filter",
            "event=die",
            "--filter",
            &cluster,
            "--format",
            format,
        ]);
        let mut command = engine.bound_command(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        if let Ok(mut child) = command.spawn()
            && let Some(pipe) = child.stdout.take()
        {
            let mut lines = BufReader::new(pipe).lines();
            loop {
                let line = tokio::select! {
                    () = shutdown.cancelled() => return,
                    line = lines.next_line() => line,
                };
                let Ok(Some(line)) = line else { break };
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                let uid = ["Attributes", "Actor.Attributes"]
                    .iter()
                    .find_map(|path| event.map_at(path)?.get(LABEL_POD)?.as_str());
                if let Some(uid) = uid
                    && sender.send(uid.to_owned()).await.is_err()
                {
                    return;
                }
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        if sender.send(String::new()).await.is_err() {
            return;
        }
    }
}
