//! Starting sandboxes and containers: from a pod's words to the engine's arguments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::config;
use super::engine::{Engine, LABEL_CLUSTER, LABEL_CONTAINER, LABEL_NAMESPACE, LABEL_POD, words};
use crate::api::Cluster;
use crate::value::Json as _;
use slipway_container::Kind;

/// The name under which an attempt of a container is found again. `POD` is the sandbox.
pub(super) fn container_name(engine: &Engine, uid: &str, container: &str, attempt: i64) -> String {
    format!("slipway_{}_{uid}_{container}_{attempt}", engine.cluster())
}

pub(super) fn log_file(folder: &Path, container: &str, attempt: i64) -> PathBuf {
    folder.join(container).join(format!("{attempt}.log"))
}

pub(super) fn message_file(folder: &Path, container: &str, attempt: i64) -> PathBuf {
    folder.join(container).join(format!("{attempt}.message"))
}

fn labels(engine: &Engine, pod: &Value, container: &str) -> Vec<String> {
    let labels = [
        (LABEL_CLUSTER, engine.cluster()),
        (LABEL_NAMESPACE, pod.namespace()),
        (LABEL_POD, pod.uid()),
        (LABEL_CONTAINER, container),
    ];
    labels.iter().flat_map(|(key, value)| ["--label".to_owned(), format!("{key}={value}")]).collect()
}

/// What a pod is called inside.
pub(super) fn host_name(pod: &Value) -> String {
    let name = if pod.str_at("spec.hostname").is_empty() { pod.name() } else { pod.str_at("spec.hostname") };
    name.chars().take(63).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

/// Starts the sandbox, which holds the pod's network.
pub(super) async fn start_sandbox(cluster: &Cluster, engine: &Engine, pod: &Value) -> Result<(), String> {
    let name = container_name(engine, pod.uid(), "POD", 0);
    let mut args = words(&["run", "-d", "--name", &name, "--ipc", "shareable"]);
    args.extend(labels(engine, pod, "POD"));
    args.extend(engine.limits.iter().cloned());
    if pod.bool_at("spec.hostNetwork") {
        args.extend(words(&["--network", "host"]));
    } else {
        args.extend(["--hostname".to_owned(), host_name(pod)]);
        args.extend(dns(cluster, engine, pod));
        for alias in pod.list_at("spec.hostAliases") {
            for host in alias.list_at("hostnames").iter().filter_map(Value::as_str) {
                args.extend(["--add-host".to_owned(), format!("{host}:{}", alias.str_at("ip"))]);
            }
        }
        args.extend(host_ports(pod));
    }
    for sysctl in pod.list_at("spec.securityContext.sysctls") {
        args.extend(["--sysctl".to_owned(), format!("{}={}", sysctl.str_at("name"), sysctl.str_at("value"))]);
    }
    if pod.bool_at("spec.hostPID") {
        args.extend(words(&["--pid", "host"]));
    }
    if engine.kind == Kind::Podman {
        args.extend(words(&["--log-driver", "none", "--cgroups", "enabled"]));
    }
    args.push(super::pause::IMAGE.to_owned());
    let done = engine.call(&args).await?;
    if done.code == 0 {
        return Ok(());
    }
    engine.remove(&[name]).await;
    Err(format!("Failed to create pod sandbox: {}", done.stderr))
}

fn dns(cluster: &Cluster, engine: &Engine, pod: &Value) -> Vec<String> {
    let mut args = Vec::new();
    let mut push = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
    let policy = pod.str_at("spec.dnsPolicy");
    if engine.rootful && matches!(policy, "ClusterFirst" | "ClusterFirstWithHostNet" | "") {
        let [a, b] = cluster.service_net;
        push("--dns", format!("{a}.{b}.0.10"));
        for domain in [
            format!("{}.svc.cluster.local", pod.namespace()),
            "svc.cluster.local".into(),
            "cluster.local".into(),
        ] {
            push("--dns-search", domain);
        }
        push("--dns-option", "ndots:5".to_owned());
    }
    for server in pod.list_at("spec.dnsConfig.nameservers").iter().filter_map(Value::as_str) {
        push("--dns", server.to_owned());
    }
    for domain in pod.list_at("spec.dnsConfig.searches").iter().filter_map(Value::as_str) {
        push("--dns-search", domain.to_owned());
    }
    for option in pod.list_at("spec.dnsConfig.options") {
        let value = option.str_at("value");
        push(
            "--dns-option",
            if value.is_empty() {
                option.str_at("name").to_owned()
            } else {
                format!("{}:{value}", option.str_at("name"))
            },
        );
    }
    args
}

fn host_ports(pod: &Value) -> Vec<String> {
    let containers = pod.list_at("spec.containers").iter().chain(pod.list_at("spec.initContainers"));
    containers
        .flat_map(|c| c.list_at("ports"))
        .filter_map(|port| {
            let host = port.int_at("hostPort").filter(|n| *n > 0)?;
            let address = Some(port.str_at("hostIP"))
                .filter(|ip| !ip.is_empty())
                .map(|ip| format!("{ip}:"))
                .unwrap_or_default();
            let inside = port.int_at("containerPort")?;
            Some([
                "-p".to_owned(),
                format!("{address}{host}:{inside}/{}", port.str_at("protocol").to_lowercase()),
            ])
        })
        .flatten()
        .collect()
}

/// Why a container did not start.
pub(super) enum StartError {
    /// The pod refers to something that is not there: `CreateContainerConfigError`.
    Config(String),
    /// The engine refused or the program could not be run.
    Engine(String),
}

pub(super) struct Start<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) engine: &'a Engine,
    pub(super) pod: &'a Value,
    pub(super) container: &'a Value,
    pub(super) attempt: i64,
    pub(super) folder: &'a Path,
    pub(super) volumes: &'a BTreeMap<String, PathBuf>,
}

impl Start<'_> {
    /// Starts the container and gives its id.
    pub(super) async fn run(&self) -> Result<String, StartError> {
        let Start { cluster, engine, pod, container, attempt, folder, .. } = self;
        let short = container.str_at("name");
        let name = container_name(engine, pod.uid(), short, *attempt);
        let sandbox = container_name(engine, pod.uid(), "POD", 0);
        let env = config::environment(cluster, pod, container).map_err(StartError::Config)?;
        let mut args = words(&["run", "-d", "--name", &name, "--network"]);
        args.push(format!("container:{sandbox}"));
        args.extend(["--ipc".to_owned(), format!("container:{sandbox}")]);
        if engine.kind == Kind::Podman {
            if !pod.bool_at("spec.hostNetwork") {
                args.extend(["--uts".to_owned(), format!("container:{sandbox}")]);
            }
            args.push("--http-proxy=false".to_owned());
            let log = log_file(folder, short, *attempt);
            make_parent(&log).map_err(StartError::Engine)?;
            args.extend([
                "--log-driver".to_owned(),
                "k8s-file".to_owned(),
                "--log-opt".to_owned(),
                format!("path={}", log.display()),
            ]);
        }
        if pod.bool_at("spec.shareProcessNamespace") {
            args.extend(["--pid".to_owned(), format!("container:{sandbox}")]);
        } else if pod.bool_at("spec.hostPID") {
            args.extend(words(&["--pid", "host"]));
        }
        args.extend(labels(engine, pod, short));
        args.extend(engine.limits.iter().cloned());
        args.extend(config::security(pod, container).map_err(StartError::Config)?);
        args.extend(config::resources(container));
        args.extend(self.mounts(&env)?);
        for (field, flag) in [("stdin", "-i"), ("tty", "-t")] {
            if container.bool_at(field) {
                args.push(flag.to_owned());
            }
        }
        if !container.str_at("workingDir").is_empty() {
            args.extend(["-w".to_owned(), container.str_at("workingDir").to_owned()]);
        }
        let texts = |field: &str| -> Vec<String> {
            container
                .list_at(field)
                .iter()
                .filter_map(Value::as_str)
                .map(|t| config::expand(t, &env))
                .collect()
        };
        let (mut command, arguments) = (texts("command"), texts("args"));
        if !command.is_empty() {
            args.extend(["--entrypoint".to_owned(), command.remove(0)]);
        }
        let (env_args, carried) = config::env_arguments(env);
        args.extend(env_args);
        args.push("--pull=never".to_owned());
        args.push(slipway_container::image_reference(container.str_at("image")));
        args.extend(command);
        args.extend(arguments);
        let done = engine.call_with(&args, &carried, None).await.map_err(StartError::Engine)?;
        if done.code == 0 {
            return Ok(done.stdout.lines().last().unwrap_or_default().trim().to_owned());
        }
        engine.remove(&[name]).await;
        Err(StartError::Engine(done.stderr.trim_start_matches("Error: ").to_owned()))
    }

    fn mounts(&self, env: &[(String, String)]) -> Result<Vec<String>, StartError> {
        let mut args = Vec::new();
        let mut push = |source: &Path, target: &str, read_only: bool| {
            let ro = if read_only { ",ro" } else { "" };
            args.extend([
                "--mount".to_owned(),
                format!("type=bind,src={},dst={target}{ro}", source.display()),
            ]);
        };
        for mount in self.container.list_at("volumeMounts") {
            let volume = mount.str_at("name");
            let Some(base) = self.volumes.get(volume) else {
                return Err(StartError::Config(format!("volume \"{volume}\" not found")));
            };
            let sub = match mount.str_at("subPathExpr") {
                "" => mount.str_at("subPath").to_owned(),
                expression => config::expand(expression, env),
            };
            if sub.split('/').any(|part| part == "..") {
                return Err(StartError::Config(format!("subPath \"{sub}\" must not contain '..'")));
            }
            let source = if sub.is_empty() { base.clone() } else { sub_path(base, &sub)? };
            push(&source, mount.str_at("mountPath"), mount.bool_at("readOnly"));
        }
        let message = message_file(self.folder, self.container.str_at("name"), self.attempt);
        make_parent(&message).map_err(StartError::Engine)?;
        std::fs::write(&message, "").map_err(|e| StartError::Engine(e.to_string()))?;
        let _ = std::fs::set_permissions(&message, std::os::unix::fs::PermissionsExt::from_mode(0o666));
        push(&message, self.container.str_at("terminationMessagePath"), false);
        Ok(args)
    }
}

/// A file or folder inside a volume; links of a ConfigMap volume are followed, a missing folder is made.
fn sub_path(base: &Path, sub: &str) -> Result<PathBuf, StartError> {
    let path = base.join(sub);
    if !path.exists() {
        super::volumes::open_folders(&path)
            .map_err(|e| StartError::Config(format!("subPath \"{sub}\" cannot be made: {e}")))?;
    }
    let real = std::fs::canonicalize(&path).map_err(|e| StartError::Config(e.to_string()))?;
    let root = std::fs::canonicalize(base).map_err(|e| StartError::Config(e.to_string()))?;
    if real.starts_with(&root) {
        Ok(real)
    } else {
        Err(StartError::Config(format!("subPath \"{sub}\" leads out of its volume")))
    }
}

fn make_parent(path: &Path) -> Result<(), String> {
    match path.parent() {
        Some(parent) => {
            std::fs::create_dir_all(parent).map_err(|e| format!("{} cannot be made: {e}", parent.display()))
        }
        None => Ok(()),
    }
}
