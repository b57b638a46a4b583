//! Streams that are read, so that none of them stands still when windows become smaller.
//!
//! In: streams as they begin and end to be read, and the moment when a smaller window is in effect. Out: what each may be sent again is
//! said anew. h2 looks at that when something is read, and no more: whoever had read everything when its window fell below nothing
//! would be sent nothing, and so read nothing, for ever. Does not know windows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use h2::{FlowControl, RecvStream};

#[derive(Default)]
struct Streams {
    next: u64,
    open: HashMap<u64, FlowControl>,
}

/// One connection's.
#[derive(Clone, Default)]
pub(crate) struct Reading(Arc<Mutex<Streams>>);

impl Reading {
    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().expect("not poisoned")
    }

    pub(crate) fn begin(&self, stream: &mut RecvStream) -> Read {
        let mut streams = self.streams();
        let id = streams.next;
        streams.next += 1;
        streams.open.insert(id, stream.flow_control().clone());
        Read { reading: self.clone(), id }
    }

    /// Both ends have another window.
    pub(crate) fn windows_changed(&self) {
        for flow in self.streams().open.values_mut() {
            // Nothing is given back by it; what was given back before is counted against the window of now.
            let _ = flow.release_capacity(0);
        }
    }
}

/// Until it is dropped, which has to be before the stream itself: a stream ends with its last handle.
pub(crate) struct Read {
    reading: Reading,
    id: u64,
}

impl Drop for Read {
    fn drop(&mut self) {
        // Not under the lock: the handle takes the connection's.
        let _flow = self.reading.streams().open.remove(&self.id);
    }
}
