//! The safety net: every Application is reconciled now and then although nothing was heard, spread over the time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use slipway_gitops::Settings;
use slipway_gitops::refresh;
use slipway_reconcile::{Key, Wake};

use crate::context::Context;
use crate::engines::Applications;

/// How long at most until due Applications are searched for again.
const TICK_MAX: Duration = Duration::from_secs(15);

/// Runs for ever.
pub(crate) async fn resync(context: Context) {
    let applications = context.tasks.of::<Applications>();
    let mut due = Due::default();
    let mut hard = Due::default();
    loop {
        let settings = context.settings.get();
        let every = reconciles_every(&settings, context.config.resync);
        // A twelfth of the interval, so that Applications that share a repository share the question. A change of
        // the interval is noticed within seconds.
        let tick = every.map_or(TICK_MAX, |every| (every / 12).clamp(Duration::from_millis(20), TICK_MAX));
        tokio::time::sleep(tick).await;
        context.renderer.git().trim(Duration::from_secs(60)).await;
        let now = Instant::now();
        let keys = context.inventory.applications();
        let soft = every.unwrap_or_default();
        let jitter = settings.reconciliation_jitter;
        for key in due.take(&keys, soft, jitter, now) {
            applications.wake(key, Wake { since: now.checked_sub(tick), ..Wake::STATE });
        }
        let forced = settings.hard_reconciliation.try_into().unwrap_or_default();
        for key in hard.take(&keys, forced, jitter, now) {
            applications.wake(key, Wake { hard: true, ..Wake::latest(now) });
        }
    }
}

/// `timeout.reconciliation`, or what the process was started with; `None`: never.
fn reconciles_every(settings: &Settings, otherwise: Duration) -> Option<Duration> {
    let otherwise = otherwise.try_into().unwrap_or(jiff::SignedDuration::MAX);
    let settings = Settings { reconciliation_jitter: jiff::SignedDuration::ZERO, ..settings.clone() };
    refresh::interval(&settings, otherwise, "").and_then(|every| every.try_into().ok())
}

/// When each Application is compared again without anything having happened.
#[derive(Default)]
struct Due(HashMap<Key, (Duration, Instant)>);

impl Due {
    /// Those whose time has come. The first time is spread over the interval; an interval of zero is never over.
    fn take(
        &mut self,
        keys: &[Key],
        every: Duration,
        jitter: jiff::SignedDuration,
        now: Instant,
    ) -> Vec<Key> {
        let before = std::mem::take(&mut self.0);
        if every.is_zero() {
            return Vec::new();
        }
        let mut due = Vec::new();
        for key in keys {
            let share = |most: jiff::SignedDuration| {
                Duration::try_from(refresh::jitter(&key.to_string(), most)).unwrap_or_default()
            };
            let next = match before.get(key) {
                Some((of, at)) if *of == every && *at > now => *at,
                Some((of, _)) if *of == every => {
                    due.push(key.clone());
                    now + every + share(jitter)
                }
                _ => now + share(every.try_into().unwrap_or(jiff::SignedDuration::MAX)),
            };
            self.0.insert(key.clone(), (every, next));
        }
        due
    }
}
