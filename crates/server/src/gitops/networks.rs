//! From which networks callers may use a runtime's tunnel.
//!
//! In: a tunnel's name. Out: what the database says of it, asked once and again after a commit that may have changed it: requests through
//! tunnels are many, and changes of a list few. Does not know who calls, nor whether the tunnel is open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use slipway_model::ChangeKind;
use slipway_net::Rules;
use slipway_store::{Committed, Scope, StoreError, runtimes};
use slipway_tunnel::TunnelName;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use crate::ctx::Server;

/// What other processes commit is heard; in case that it is not, a list is not believed for longer.
const BELIEVED_FOR: Duration = Duration::from_secs(10);

/// None: from everywhere.
type Allowed = Option<Arc<Rules>>;

#[derive(Default)]
pub(crate) struct Networks(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    known: HashMap<TunnelName, (Allowed, Instant)>,
    /// Since before anything was read.
    commits: Option<Receiver<Committed>>,
    /// Counts what was forgotten: what was read before that may be from before it too.
    forgotten: u64,
}

impl Networks {
    pub(crate) async fn of(&self, server: &Server, name: &TunnelName) -> Result<Allowed, StoreError> {
        let forgotten = {
            let mut remembered = self.0.lock().expect("not poisoned");
            remembered.hear(server);
            match remembered.known.get(name) {
                Some((allowed, since)) if since.elapsed() < BELIEVED_FOR => return Ok(allowed.clone()),
                _ => remembered.forgotten,
            }
        };
        let (account, runtime) = (name.account(), name.runtime().to_owned());
        let found =
            server.store().read(move |tx| runtimes::allowed(tx, Scope::of(account), &runtime)).await?;
        // Nothing is registered, and nobody has a tunnel of that name: there is nothing to remember.
        let Some(networks) = found else { return Ok(None) };
        // A list that cannot be read holds nobody.
        let allowed = (!networks.is_empty()).then(|| Arc::new(Rules::parse(&networks).unwrap_or_default()));
        let mut remembered = self.0.lock().expect("not poisoned");
        remembered.hear(server);
        if remembered.forgotten == forgotten {
            remembered.known.insert(name.clone(), (allowed.clone(), Instant::now()));
        }
        Ok(allowed)
    }

    /// After a change that was made here, whose caller relies on it from the answer on.
    pub(crate) fn forget(&self) {
        self.0.lock().expect("not poisoned").forget();
    }
}

impl Remembered {
    fn forget(&mut self) {
        self.known.clear();
        self.forgotten += 1;
    }

    /// What was committed since somebody last asked.
    fn hear(&mut self, server: &Server) {
        let Some(commits) = &mut self.commits else {
            self.commits = Some(server.store().subscribe());
            return;
        };
        let mut changed = false;
        loop {
            match commits.try_recv() {
                Ok(commit) => changed |= may_change(&commit),
                Err(TryRecvError::Lagged(_)) => changed = true,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Closed) => {
                    changed = true;
                    break;
                }
            }
        }
        if changed {
            self.forget();
        }
    }
}

fn may_change(commit: &Committed) -> bool {
    commit.missed || commit.changes.iter().any(|change| change.kind == ChangeKind::Runtime)
}
