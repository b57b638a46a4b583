//! The platform's half: tunnels that are open here, and requests through them.
//!
//! In: a byte stream whose other end may speak for a name, and requests for names. Out: responses. Names are runtimes' tunnels, or
//! whatever else its owner calls them by.
//! Does not know: who decided that the name may be spoken for, nor tunnels of other processes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::ext::Protocol;
use http::header::HeaderValue;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::client::{Answer, Client, Failed, handshake};
use crate::headers::{authority_of, wants_websocket, without_hops};
use crate::traffic::{Counting, Traffic};
use crate::upgrade::{self, Side};
use crate::{TunnelError, TunnelName};

/// A request's body on its way into a tunnel.
pub type Payload = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// The first byte of an answer comes within this, or a caller gets 504: nobody waits for ever.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    #[error("the runtime is not connected: no tunnel is open for it")]
    Offline,
    #[error("the connection to the runtime broke before it answered")]
    Broken(#[source] h2::Error),
    #[error("the runtime has not answered in time")]
    Late,
}

impl ForwardError {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Offline | Self::Broken(_) => StatusCode::BAD_GATEWAY,
            Self::Late => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// What an operator sees of one open tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStatus {
    pub id: u64,
    /// Where it was dialled from.
    pub peer: String,
    pub open_for: Duration,
    pub in_flight: usize,
    pub served: u64,
    /// Bytes, as they pass below HTTP/2.
    pub received: u64,
    pub sent: u64,
}

struct Session {
    id: u64,
    peer: String,
    since: Instant,
    client: Client,
    in_flight: AtomicUsize,
    served: AtomicU64,
    traffic: Arc<Traffic>,
    closing: CancellationToken,
}

pub struct Sessions<K = TunnelName> {
    open: Mutex<HashMap<K, Vec<Arc<Session>>>>,
    next: AtomicU64,
    /// Of all of them, those that ended too.
    traffic: Arc<Traffic>,
}

impl<K> Default for Sessions<K> {
    fn default() -> Self {
        Self { open: Mutex::default(), next: AtomicU64::default(), traffic: Arc::default() }
    }
}

/// Takes the session out again, also when its task is dropped.
struct Listed<'a, K: Eq + Hash>(&'a Sessions<K>, &'a K, u64);

impl<K: Eq + Hash> Drop for Listed<'_, K> {
    fn drop(&mut self) {
        let mut open = self.0.open.lock().expect("not poisoned");
        if let Some(sessions) = open.get_mut(self.1) {
            sessions.retain(|session| session.id != self.2);
            if sessions.is_empty() {
                open.remove(self.1);
            }
        }
    }
}

impl<K: Eq + Hash + Clone> Sessions<K> {
    /// Serves one tunnel until it ends. `io` has just been upgraded; whoever calls has decided that it may speak for `name`.
    pub async fn serve<IO>(&self, name: &K, peer: String, io: IO) -> Result<(), TunnelError>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.serve_telling(name, peer, io, || ()).await
    }

    /// The same; `listed` is called as soon as requests go through it.
    pub async fn serve_telling<IO>(
        &self,
        name: &K,
        peer: String,
        io: IO,
        listed: impl FnOnce() + Send,
    ) -> Result<(), TunnelError>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let traffic = Arc::<Traffic>::default();
        let io = Counting { io, traffic: vec![traffic.clone(), self.traffic.clone()] };
        let (client, driver) = handshake(io).await?;
        let session = Arc::new(Session {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            peer,
            since: Instant::now(),
            client,
            in_flight: AtomicUsize::new(0),
            served: AtomicU64::new(0),
            traffic,
            closing: CancellationToken::new(),
        });
        self.open.lock().expect("not poisoned").entry(name.clone()).or_default().push(session.clone());
        let _listed = Listed(self, name, session.id);
        let closing = session.closing.clone();
        drop(session);
        listed();
        tokio::select! {
            ended = driver.run() => ended,
            () = closing.cancelled() => Ok(()),
        }
    }

    /// Ends every tunnel of a name at once: its runtime was removed, or its credential revoked.
    pub fn close(&self, name: &K) {
        let open = self.open.lock().expect("not poisoned");
        for session in open.get(name).into_iter().flatten() {
            session.closing.cancel();
        }
    }

    pub fn list(&self, name: &K) -> Vec<SessionStatus> {
        let open = self.open.lock().expect("not poisoned");
        let sessions = open.get(name).into_iter().flatten();
        let status = |session: &Arc<Session>| SessionStatus {
            id: session.id,
            peer: session.peer.clone(),
            open_for: session.since.elapsed(),
            in_flight: session.in_flight.load(Ordering::Relaxed),
            served: session.served.load(Ordering::Relaxed),
            received: session.traffic.received(),
            sent: session.traffic.sent(),
        };
        sessions.map(status).collect()
    }

    /// Of all that there were.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub fn names(&self) -> Vec<K> {
        self.open.lock().expect("not poisoned").keys().cloned().collect()
    }

    /// Whether a request for this name has somewhere to go.
    pub fn is_open(&self, name: &K) -> bool {
        self.choose(name, &[]).is_some()
    }

    /// Of several tunnels of one runtime, the one with the least to do. Of those with as little the newest: one from before it may be of a
    /// connection that broke without a word.
    fn choose(&self, name: &K, tried: &[u64]) -> Option<Arc<Session>> {
        let open = self.open.lock().expect("not poisoned");
        let usable = |session: &&Arc<Session>| !tried.contains(&session.id) && !session.client.is_closed();
        let load = |session: &&Arc<Session>| session.in_flight.load(Ordering::Relaxed);
        open.get(name)?.iter().rev().filter(usable).min_by_key(load).cloned()
    }

    /// Sends a request through a tunnel of this name. One that was not sent at all goes through another tunnel of the same
    /// runtime; one of which anything may have arrived is never sent twice.
    pub async fn forward(
        &self,
        name: &K,
        mut request: Request<Payload>,
    ) -> Result<Response<Payload>, ForwardError> {
        let upgrading = request.method() == Method::GET && wants_websocket(request.headers());
        let caller = upgrading.then(|| Side::of(&mut request));
        let mut request = for_the_tunnel(request, upgrading);
        let mut tried = Vec::new();
        let answer = loop {
            let session = self.choose(name, &tried).ok_or(ForwardError::Offline)?;
            tried.push(session.id);
            let _counted = Counted::new(session.clone());
            let sent = tokio::time::timeout(ANSWER_WITHIN, session.client.send(request));
            match sent.await.map_err(|_| ForwardError::Late)? {
                Ok(answer) => break answer,
                Err(Failed::Unsent(unsent)) => request = unsent,
                Err(Failed::Broken(error)) => return Err(ForwardError::Broken(error)),
            }
        };
        Ok(for_the_caller(answer, caller))
    }
}

/// Counts a request as being under way until it has an answer.
struct Counted(Arc<Session>);

impl Counted {
    fn new(session: Arc<Session>) -> Self {
        session.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(session)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.0.served.fetch_add(1, Ordering::Relaxed);
    }
}

fn for_the_tunnel(request: Request<Payload>, upgrading: bool) -> Request<Payload> {
    let (mut parts, body) = request.into_parts();
    without_hops(&mut parts.headers);
    // HTTP/2 wants to know scheme and authority; the agent replaces both by its own.
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri = http::Uri::builder().scheme("http").authority(authority_of(parts.version)).path_and_query(path);
    parts.uri = uri.build().unwrap_or_else(|_| http::Uri::from_static("http://runtime/"));
    parts.version = http::Version::HTTP_2;
    // What the two ends say to each other no caller says.
    parts.extensions.clear();
    if !upgrading {
        return Request::from_parts(parts, body);
    }
    parts.method = Method::CONNECT;
    parts.headers.remove(http::header::CONTENT_LENGTH);
    parts.extensions.insert(Protocol::from_static("websocket"));
    Request::from_parts(parts, empty())
}

fn for_the_caller(answer: Answer, caller: Option<Side>) -> Response<Payload> {
    let (response, opened) = match (answer, caller) {
        (Answer::Opened(response, duplex), Some(caller)) => (response, Some((caller, duplex))),
        (Answer::Opened(response, _), None) => (response, None),
        (Answer::Plain(mut response), _) => {
            without_hops(response.headers_mut());
            return response;
        }
    };
    let (mut parts, ()) = response.into_parts();
    without_hops(&mut parts.headers);
    if let Some((caller, duplex)) = opened {
        upgrade::join(caller, Side::Open(duplex));
        parts.status = StatusCode::SWITCHING_PROTOCOLS;
        parts.headers.insert(http::header::CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(http::header::UPGRADE, HeaderValue::from_static("websocket"));
    }
    Response::from_parts(parts, empty())
}

pub(crate) fn empty() -> Payload {
    Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync()
}
