//! Keys of the agents that run in this process, kept in a file that only its owner reads.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use slipway_model::{AccountId, Secret};
use slipway_server::Server;
use slipway_store::identity::Subject;

pub(crate) const RUNNER: &str = "local";
pub(crate) const RUNTIME: &str = "local";

pub(crate) struct Keys {
    pub(crate) runner: Secret<String>,
    pub(crate) runtime: Secret<String>,
    /// With it the GitOps engine fetches from the built-in Git host.
    pub(crate) git: Secret<String>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    runner: String,
    runtime: String,
}

pub(crate) async fn keys(server: &Server, account: AccountId, data: &Path) -> anyhow::Result<Keys> {
    let path = data.join("agents.json");
    let kept = match std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok()) {
        Some(kept) => kept,
        None => {
            let kept = Kept {
                runner: server.agent_key(account, Subject::Runner, RUNNER).await?.expose().clone(),
                runtime: server.agent_key(account, Subject::Runtime, RUNTIME).await?.expose().clone(),
            };
            let temporary = path.with_extension("new");
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(&serde_json::to_vec(&kept)?)?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)?;
            kept
        }
    };
    Ok(Keys { runner: kept.runner.into(), runtime: kept.runtime.clone().into(), git: kept.runtime.into() })
}
