//! Room `container`: Podman and Docker by their command line. Which of them there is, which flags it needs on this
//! machine, and how a short command of it is run.
//!
//! In: nothing but the machine. Out: a program with flags that have started a container here, or a sentence that says
//! why there is none. The room knows neither steps nor pods; those who run them ([`command`]) add their own arguments,
//! and a supervisor of theirs owns the process.

mod environment;
mod probe;
mod run;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use environment::{environment, network_environment};
pub use probe::{Flags, probe_podman};
pub use run::{command, image_reference, run, ulimits};

/// A command line that both understand, but for a few flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Podman,
    Docker,
}

impl Kind {
    /// In the order in which they are looked for: Podman needs no daemon.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    pub fn name(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// The version of what starts containers, if it answers: Podman itself, Docker's daemon.
    pub fn version(self) -> Result<String, String> {
        let format = match self {
            Self::Docker => "{{.Server.Version}}",
            Self::Podman => "{{.Client.Version}}",
        };
        let text = run(&[self.name(), "version", "--format", format], Duration::from_secs(10))?;
        Ok(text.trim().to_owned())
    }
}

/// A program of our PATH, or of the folders where administrators' programs are.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
