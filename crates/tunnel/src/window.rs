//! How much a stream may hold that nobody has read yet: much while few are open, little while many are.
//!
//! In: streams that open and end, and which of them carry much. Out: whether one more may open now, and which window both ends
//! should have. Does not know frames: [`crate::client`] tells both ends, and says when they have heard.
//!
//! A window that was given cannot be taken back from a stream whose other end has filled it and whose reader has stopped. So a
//! larger window counts from the moment it is asked for, a smaller one from the moment both ends have it, and until then no
//! more streams open than the larger one was made for. Whatever anybody does, the sum stays below [`BUDGET`].

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// What one tunnel may hold at each end; also the window of its connection, so that no stream ever waits for another one.
pub(crate) const BUDGET: u32 = 64 << 20;

#[derive(Debug, PartialEq, Eq)]
struct Level {
    /// At most so many are open while each may hold `window`.
    streams: usize,
    window: u32,
}

/// The first is where every tunnel begins and rests: a thousand callers at once change nothing there.
const LEVELS: [Level; 3] = [
    Level { streams: 1_024, window: 32 << 10 },
    Level { streams: 64, window: 256 << 10 },
    Level { streams: 8, window: 2 << 20 },
];
pub(crate) const STREAMS: u32 = LEVELS[0].streams as u32;
pub(crate) const SMALLEST: u32 = LEVELS[0].window;
pub(crate) const LARGEST: u32 = LEVELS[LEVELS.len() - 1].window;
/// A stream that has carried this much will carry more.
const LONG: usize = 96 << 10;

struct State {
    open: usize,
    /// How many wait for room.
    waiting: usize,
    /// No stream may hold more than this one says.
    level: usize,
    /// Where it should be.
    target: usize,
    /// Since the last beat a stream carried much.
    busy: bool,
    closed: bool,
}

impl State {
    /// The largest windows of which so many fit.
    fn fits(open: usize) -> usize {
        LEVELS.iter().rposition(|level| open <= level.streams).unwrap_or_default()
    }

    fn enter(&mut self) -> bool {
        if self.open < LEVELS[self.level].streams {
            self.open += 1;
            return true;
        }
        self.target = self.target.min(Self::fits(self.open + self.waiting));
        false
    }

    /// Half of the room is left for others, so that the next caller does not undo it.
    fn grow(&mut self) {
        self.busy = true;
        let fits = Self::fits(self.open * 2);
        if fits > self.level && self.waiting == 0 {
            self.target = fits;
        }
    }
}

/// One tunnel's, shared by its connection and its streams.
pub(crate) struct Windows {
    state: Mutex<State>,
    /// Both ends should have another window.
    pub(crate) wanted: Notify,
    room: Notify,
}

impl Windows {
    pub(crate) fn new() -> Arc<Self> {
        let state = State { open: 0, waiting: 0, level: 0, target: 0, busy: false, closed: false };
        Arc::new(Self { state: Mutex::new(state), wanted: Notify::new(), room: Notify::new() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// Room for one more stream; none when the connection ended first.
    pub(crate) async fn enter(self: &Arc<Self>) -> Option<Open> {
        let room = {
            let mut state = self.state();
            if state.closed {
                return None;
            }
            if state.enter() {
                return Some(Open::new(self));
            }
            Waiting::new(self, &mut state)
        };
        self.wanted.notify_one();
        loop {
            let woken = self.room.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            {
                let mut state = self.state();
                if state.closed {
                    return None;
                }
                if state.enter() {
                    drop(state);
                    drop(room);
                    return Some(Open::new(self));
                }
            }
            woken.await;
        }
    }

    /// The window that both ends should be told, if it is another one. A larger one is in effect from now on.
    pub(crate) fn next(&self) -> Option<Change> {
        let mut state = self.state();
        if state.target > state.level {
            // Others may have come since there was room for it.
            let fits = State::fits(state.open + state.waiting);
            state.target = state.target.min(fits.max(state.level));
        }
        let to = state.target;
        if to == state.level {
            return None;
        }
        let change = Change { to, window: LEVELS[to].window };
        state.level = state.level.max(to);
        Some(change)
    }

    /// Both ends have it.
    pub(crate) fn done(&self, change: &Change) {
        self.state().level = change.to;
        self.room.notify_waiters();
        self.wanted.notify_one();
    }

    /// Now and then: what nobody needs any more is given back.
    pub(crate) fn beat(&self) {
        let mut state = self.state();
        if !std::mem::take(&mut state.busy) && state.target > 0 {
            state.target = 0;
            self.wanted.notify_one();
        }
    }

    /// Whoever waits need not any more.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.room.notify_waiters();
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    to: usize,
    pub(crate) window: u32,
}

/// Counted among those who wait, also when nobody waits for the answer any more.
struct Waiting(Arc<Windows>);

impl Waiting {
    fn new(windows: &Arc<Windows>, state: &mut State) -> Self {
        state.waiting += 1;
        state.target = state.target.min(State::fits(state.open + state.waiting));
        Self(windows.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// A stream that is open, or what is left of it.
pub(crate) struct Open {
    moved: Moved,
}

impl Open {
    fn new(windows: &Arc<Windows>) -> Self {
        Self { moved: Moved { windows: windows.clone(), bytes: 0 } }
    }

    /// It carried so many bytes more.
    pub(crate) fn carried(&mut self, bytes: usize) {
        self.moved.carried(bytes);
    }

    /// For its other direction, which carries by itself and does not count as one that is open.
    pub(crate) fn other_way(&self) -> Moved {
        Moved { windows: self.moved.windows.clone(), bytes: 0 }
    }
}

/// How much one direction of a stream carried.
pub(crate) struct Moved {
    windows: Arc<Windows>,
    bytes: usize,
}

impl Moved {
    pub(crate) fn carried(&mut self, bytes: usize) {
        let before = self.bytes / LONG;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes / LONG != before {
            let mut state = self.windows.state();
            let target = state.target;
            state.grow();
            if state.target != target {
                self.windows.wanted.notify_one();
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let windows = &self.moved.windows;
        let mut state = windows.state();
        state.open -= 1;
        if state.waiting > 0 {
            windows.room.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn enter(windows: &Arc<Windows>) -> Option<Open> {
        match poll(std::pin::pin!(windows.enter())) {
            Poll::Ready(open) => open,
            Poll::Pending => None,
        }
    }

    /// Whoever filled its window keeps what it holds while the windows of those after it shrink.
    #[test]
    fn t5_whoever_stops_reading_and_when_the_sum_stays_within_the_budget() {
        let mut sum = 0;
        let mut before = 0;
        for level in LEVELS.iter().rev() {
            sum += (level.streams - before) as u64 * u64::from(level.window);
            before = level.streams;
        }
        assert!(sum <= u64::from(BUDGET), "{sum}");
    }

    #[test]
    fn a_stream_that_carries_much_gets_the_largest_window_when_it_is_alone() {
        let windows = Windows::new();
        let mut one = enter(&windows).unwrap();
        one.carried(LONG - 1);
        assert_eq!(windows.next(), None);
        one.carried(1);
        let change = windows.next().unwrap();
        assert_eq!(change.window, LARGEST);
        windows.done(&change);
        assert_eq!(windows.next(), None);
        // What is not used is given back, after it was not used for a while.
        windows.beat();
        assert_eq!(windows.next(), None);
        windows.beat();
        assert_eq!(windows.next().map(|change| change.window), Some(SMALLEST));
    }

    /// Between the wish and the moment when somebody acts on it, which may be rounds later.
    #[test]
    fn t5_a_burst_right_after_a_larger_window_was_wished_for_keeps_the_small_one() {
        let windows = Windows::new();
        let mut long = enter(&windows).unwrap();
        long.carried(LONG);
        let burst: Vec<_> = (0..500).map(|_| enter(&windows).unwrap()).collect();
        assert_eq!(windows.next(), None, "500 streams of {LARGEST} bytes are more than the budget");
        drop(burst);
        long.carried(LONG);
        assert_eq!(windows.next().map(|change| change.window), Some(LARGEST), "now there is room");
    }

    #[test]
    fn more_streams_wait_until_both_ends_have_the_smaller_window() {
        let windows = Windows::new();
        let mut long = enter(&windows).unwrap();
        long.carried(LONG);
        let change = windows.next().unwrap();
        // It counts from the moment it was asked for.
        let few: Vec<_> = (1..LEVELS[2].streams).map(|_| enter(&windows).unwrap()).collect();
        let mut late = Box::pin(windows.enter());
        assert!(poll(late.as_mut()).is_pending());
        windows.done(&change);
        assert!(poll(late.as_mut()).is_pending());
        let smaller = windows.next().unwrap();
        assert_eq!(smaller.window, LEVELS[1].window);
        assert!(poll(late.as_mut()).is_pending(), "not before both ends have it");
        windows.done(&smaller);
        let Poll::Ready(Some(_late)) = poll(late.as_mut()) else { panic!("there is room") };
        drop(few);
    }

    #[test]
    fn a_burst_goes_down_in_one_step_and_is_let_in_at_once() {
        let windows = Windows::new();
        let mut long = enter(&windows).unwrap();
        long.carried(LONG);
        windows.done(&windows.next().unwrap());
        let room = LEVELS[2].streams - 1;
        let _few: Vec<_> = (0..room).map(|_| enter(&windows).unwrap()).collect();
        let mut burst: Vec<_> = (0..500).map(|_| Box::pin(windows.enter())).collect();
        assert!(burst.iter_mut().all(|one| poll(one.as_mut()).is_pending()));
        let smaller = windows.next().unwrap();
        assert_eq!(smaller.window, SMALLEST);
        windows.done(&smaller);
        let ends: Vec<_> = burst.iter_mut().map(|one| poll(one.as_mut())).collect();
        assert!(ends.iter().all(|end| matches!(end, Poll::Ready(Some(_)))));
    }

    #[test]
    fn the_end_of_the_connection_is_the_end_of_waiting() {
        let windows = Windows::new();
        let all: Vec<_> = (0..STREAMS).map(|_| enter(&windows).unwrap()).collect();
        let mut late = Box::pin(windows.enter());
        assert!(poll(late.as_mut()).is_pending());
        // One that leaves makes room for one.
        let mut all = all.into_iter();
        drop(all.next());
        let Poll::Ready(Some(_in)) = poll(late.as_mut()) else { panic!("there is room") };
        let mut later = Box::pin(windows.enter());
        assert!(poll(later.as_mut()).is_pending());
        windows.close();
        assert!(matches!(poll(later.as_mut()), Poll::Ready(None)));
        assert!(enter(&windows).is_none());
    }
}
