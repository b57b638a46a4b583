//! Which container engine steps run on, and what is kept of what was found out about it. How engines are looked for and
//! tried is in the room `container`.

use std::path::Path;

use serde::{Deserialize, Serialize};
pub(crate) use slipway_container::run;
use slipway_container::{Kind, probe_podman};

use super::ExecutorChoice;
use crate::layout::{Lasting, create_private_dir, read_if_whole, write_json};

/// What steps run on, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// `podman`, `docker` or `host`.
    pub executor: &'static str,
    /// In one sentence.
    pub why: String,
}

/// An engine that has started a container on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Engine {
    pub(super) name: String,
    pub(super) version: String,
    /// The program and its own flags.
    pub(super) program: Vec<String>,
    pub(super) run_flags: Vec<String>,
    pub(super) build_flags: Vec<String>,
    /// It starts containers with limits of CPU and memory here.
    #[serde(default)]
    pub(super) limits: bool,
    /// It takes the lines of a file of variables as they are, whatever is in them.
    #[serde(default)]
    pub(super) literal: bool,
    /// Tells a machine from another one, or from itself after an upgrade.
    key: String,
}

/// Looks at the machine without changing anything.
pub fn detect() -> Detected {
    let podman = Kind::Podman.version();
    if let Ok(version) = &podman {
        return Detected { executor: "podman", why: format!("podman {version} is installed") };
    }
    match Kind::Docker.version() {
        Ok(version) => {
            Detected { executor: "docker", why: format!("the daemon of docker {version} answers") }
        }
        Err(docker) => Detected {
            executor: "host",
            why: format!(
                "there is no container engine (podman: {}; docker: {docker}): steps run as sandboxed processes and their images are not used",
                podman.unwrap_err()
            ),
        },
    }
}

pub(super) fn choose(choice: &ExecutorChoice, data: &Path) -> anyhow::Result<Option<Engine>> {
    match choice {
        ExecutorChoice::Host | ExecutorChoice::Kubernetes(_) => Ok(None),
        ExecutorChoice::Podman => open(Kind::Podman, data).map(Some).map_err(anyhow::Error::msg),
        ExecutorChoice::Docker => open(Kind::Docker, data).map(Some).map_err(anyhow::Error::msg),
        ExecutorChoice::Auto => {
            for kind in Kind::ALL {
                match open(kind, data) {
                    Ok(engine) => return Ok(Some(engine)),
                    Err(why) => tracing::info!(engine = kind.name(), %why, "Container engine not used."),
                }
            }
            Ok(None)
        }
    }
}

fn open(kind: Kind, data: &Path) -> Result<Engine, String> {
    let (name, version) = (kind.name(), kind.version()?);
    let key = format!(
        "{version} {} limits literal",
        std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim()
    );
    let kept = data.join(format!("{name}.json"));
    if let Ok(Some(engine)) = read_if_whole::<Engine>(&kept)
        && engine.key == key
    {
        return Ok(engine);
    }
    let mut engine = Engine {
        name: name.to_owned(),
        version,
        program: vec![name.to_owned()],
        run_flags: Vec::new(),
        build_flags: Vec::new(),
        limits: true,
        literal: true,
        key,
    };
    if kind == Kind::Podman {
        let dir = data.join("probe-podman");
        create_private_dir(&dir.join("root")).map_err(|error| error.to_string())?;
        let found = probe_podman(&dir);
        let _ = std::fs::remove_dir_all(&dir);
        let found = found?;
        engine.program = found.program;
        engine.run_flags = found.run;
        engine.build_flags = found.build;
        engine.limits = found.limits;
        engine.literal = found.literal;
    }
    create_private_dir(data)
        .and_then(|()| write_json(&kept, &engine, Lasting::Process))
        .map_err(|error| error.to_string())?;
    Ok(engine)
}
