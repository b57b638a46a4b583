//! The one thread that starts caged programs.
//!
//! A program asks to be ended with the *thread* that started it, so that thread has to live as long as this process.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel, sync_channel};

type Work = Box<dyn FnOnce() + Send>;

fn queue() -> &'static Sender<Work> {
    static QUEUE: OnceLock<Sender<Work>> = OnceLock::new();
    QUEUE.get_or_init(|| {
        let (send, receive) = channel::<Work>();
        let body = move || {
            for work in receive {
                work();
            }
        };
        std::thread::Builder::new().name("cage".into()).spawn(body).expect("a thread can be started");
        send
    })
}

/// Runs `work` on that thread and waits for it.
pub(crate) fn run<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let ended = || io::Error::other("the thread that starts programs has ended");
    let (answer, wait) = sync_channel(1);
    let job: Work = Box::new(move || {
        let _ = answer.send(work());
    });
    queue().send(job).map_err(|_| ended())?;
    wait.recv().map_err(|_| ended())?
}
