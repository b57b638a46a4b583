//! What the Applications' engine asks of the hydrator: whether an Application has to be hydrated before it is compared, and
//! to do so.

use std::sync::Arc;
use std::time::Instant;

use slipway_cluster::Live;
use slipway_reconcile::{Key, Task, Wake};

use super::{Hydrating, Hydrator};
use crate::context::Context;
use crate::settings::CurrentSettings;

pub(crate) struct Hydrations {
    pub(super) state: Hydrating,
    task: Arc<Task>,
    settings: Arc<CurrentSettings>,
}

impl Hydrations {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            state: Hydrating::default(),
            task: context.tasks.of::<Hydrator>(),
            settings: context.settings.clone(),
        }
    }

    /// True when the branch may be behind: what would be compared now is about to be replaced. Changes of what runs are
    /// no reason; the Application itself, the settings and news of a repository are. `written`: the object is as we
    /// left it.
    pub(crate) fn is_owed_by(&self, key: &Key, wake: Wake, live: &Live, written: bool) -> bool {
        self.state.is_owed(key, |known| {
            wake.since.is_some_and(|since| since > known.at)
                || !(written || live.resource_version == known.version)
                || known.generation != self.settings.generation()
        })
    }

    /// Wakes the hydrator; it wakes the Application when it is done.
    pub(crate) fn hydrate_first(&self, key: &Key, wake: Wake) {
        self.state.wait(key);
        self.task.wake(key.clone(), wake);
    }

    /// The Application is not compared before it is hydrated.
    pub(crate) fn awaits(&self, key: &Key) -> bool {
        self.state.awaits(key)
    }

    /// When something was pushed that no comparison has seen.
    pub(crate) fn pushed(&self, key: &Key) -> Option<Instant> {
        self.state.pushed(key)
    }

    /// A comparison fetched what was pushed at this moment.
    pub(crate) fn compared(&self, key: &Key, pushed: Option<Instant>) {
        self.state.compared(key, pushed);
    }
}
