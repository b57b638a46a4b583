//! A wire between two ends that fails in the ways in which wires do.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Which way bytes vanish; nobody is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Swallows {
    Nothing,
    /// What the one who dialled says.
    There,
    /// What they are told.
    Back,
    Both,
}

pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    cut: Mutex<CancellationToken>,
    abandoned: Mutex<CancellationToken>,
    swallows: watch::Sender<Swallows>,
    /// So many bytes pass, both ways together, before it is cut.
    left: AtomicI64,
}

impl Wire {
    pub(crate) async fn to(target: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let wire = Arc::new(Self {
            address: listener.local_addr().expect("an address"),
            cut: Mutex::default(),
            abandoned: Mutex::default(),
            swallows: watch::Sender::new(Swallows::Nothing),
            left: AtomicI64::new(i64::MAX),
        });
        let ours = wire.clone();
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.expect("a caller");
                let far = TcpStream::connect(target).await.expect("connected");
                for end in [&near, &far] {
                    end.set_nodelay(true).expect("set");
                }
                tokio::spawn(ours.clone().carry(near, far));
            }
        });
        wire
    }

    async fn carry(self: Arc<Self>, mut near: TcpStream, mut far: TcpStream) {
        let cut = self.cut.lock().expect("not poisoned").clone();
        let abandoned = self.abandoned.lock().expect("not poisoned").clone();
        let kept = {
            let ((near_in, near_out), (far_in, far_out)) = (near.split(), far.split());
            tokio::select! {
                _ = futures::future::join(
                    self.pass(near_in, far_out, Swallows::There, &cut),
                    self.pass(far_in, near_out, Swallows::Back, &cut),
                ) => return,
                () = cut.cancelled() => false,
                () = abandoned.cancelled() => true,
            }
        };
        // Reset, not closed.
        near.set_zero_linger().expect("set");
        if kept {
            drop(near);
            // The other end goes on believing in it.
            std::future::pending::<()>().await;
        }
        far.set_zero_linger().expect("set");
    }

    async fn pass(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        way: Swallows,
        cut: &CancellationToken,
    ) {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let swallows = *self.swallows.borrow();
            if swallows == way || swallows == Swallows::Both {
                continue;
            }
            let length = i64::try_from(count).expect("small");
            let left = self.left.fetch_sub(length, Ordering::SeqCst);
            let passing = usize::try_from(left.clamp(0, length)).expect("not negative");
            if to.write_all(&buffer[..passing]).await.is_err() {
                return;
            }
            if left <= length {
                cut.cancel();
                return std::future::pending().await;
            }
        }
        let _ = to.shutdown().await;
    }

    /// Everything that it carries now is reset at both ends; what is dialled afterwards passes.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut *self.cut.lock().expect("not poisoned")).cancel();
    }

    /// The one who dialled is reset, and the other end hears nothing of it.
    pub(crate) fn abandon(&self) {
        std::mem::take(&mut *self.abandoned.lock().expect("not poisoned")).cancel();
    }

    pub(crate) fn swallow(&self, what: Swallows) {
        self.swallows.send_replace(what);
    }

    /// Is whole again, and is cut after so many bytes.
    pub(crate) fn cut_after(&self, bytes: i64) {
        *self.cut.lock().expect("not poisoned") = CancellationToken::new();
        self.left.store(bytes, Ordering::SeqCst);
    }
}
