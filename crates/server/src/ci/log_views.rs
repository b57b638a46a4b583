//! Who looked at which log: recorded once in a while, not for every line.

use slipway_model::BuildId;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Seen;
use std::sync::Mutex;

/// Somebody who follows a log, or reads it again and again, is one record in this time.
pub(crate) const VIEW_MS: i64 = 10 * 60 * 1000;

pub(crate) const VIEWS_MAX: usize = 10_000;

/// Who was recorded lately as having looked at which log.
#[derive(Default)]
pub(crate) struct Views(Mutex<HashMap<(String, BuildId), i64>>);

impl Views {
    pub(crate) fn is_new(&self, who: String, build: BuildId, now_ms: i64) -> bool {
        let mut views = self.0.lock().expect("not poisoned");
        if views.len() >= VIEWS_MAX {
            views.retain(|_, at_ms| now_ms - *at_ms < VIEW_MS);
        }
        if views.len() >= VIEWS_MAX {
            // Recorded twice rather than not at all.
            views.clear();
        }
        match views.entry((who, build)) {
            Seen::Occupied(known) if now_ms - known.get() < VIEW_MS => false,
            Seen::Occupied(mut known) => {
                known.insert(now_ms);
                true
            }
            Seen::Vacant(place) => {
                place.insert(now_ms);
                true
            }
        }
    }
}
