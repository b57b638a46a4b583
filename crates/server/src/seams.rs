//! Time and randomness come in through here, so that a test can hold them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use slipway_model::Id;

type Clock = dyn Fn() -> i64 + Send + Sync;
type Fill = dyn Fn(&mut [u8]) + Send + Sync;

#[derive(Clone)]
pub struct Seams {
    now_ms: Arc<Clock>,
    fill: Arc<Fill>,
}

impl Seams {
    pub fn system() -> Self {
        Self {
            now_ms: Arc::new(|| {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }),
            fill: Arc::new(|bytes| getrandom::fill(bytes).expect("the system gives random bytes")),
        }
    }

    /// The system's randomness with a clock of one's own.
    pub fn with_clock(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self { now_ms: Arc::new(now_ms), ..Self::system() }
    }

    pub fn now_ms(&self) -> i64 {
        (self.now_ms)()
    }

    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.fill)(&mut bytes);
        bytes
    }

    pub fn new_id<T>(&self) -> Id<T> {
        Id::from_parts(u64::try_from(self.now_ms()).unwrap_or(0), self.random())
    }
}

/// RFC 3339 in UTC with milliseconds, as clients read it.
pub(crate) fn rfc3339(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}
