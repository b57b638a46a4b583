//! A platform that lets everybody in who knows the key, a backend, and a way to reach it through the tunnel.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use slipway_tunnel::{
    Agent, Carried, Carrier, Connection, Dial, Payload, Server, Sessions, TunnelName, accept_key, label_of,
    outside_headers,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) const DOMAIN: &str = "tunnels.test";
pub(crate) const KEY: &str = "the key";

pub(crate) fn name(runtime: &str) -> TunnelName {
    TunnelName::new("65f0c0ffee0ddba11deadbee".parse().expect("an id"), runtime).expect("a name")
}

pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Payload> {
    let body = Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
    Response::builder().status(status).body(body).expect("a response")
}

/// Serves HTTP/1.1 with upgrades, and HTTP/2, on an address of this machine until the test ends.
pub(crate) async fn listen<F, A>(answer: F) -> SocketAddr
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Response<Payload>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a caller");
            stream.set_nodelay(true).expect("set");
            // As the platform's own listener has it.
            socket2::SockRef::from(&stream).set_tcp_notsent_lowat(128 << 10).expect("set");
            let answer = answer.clone();
            let service = service_fn(move |request| {
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            tokio::spawn(async move {
                let mut http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                // As the platform's own listener has it.
                http.http1().max_buf_size(64 << 10);
                http.serve_connection_with_upgrades(TokioIo::new(stream), service).await
            });
        }
    });
    address
}

#[derive(Clone)]
pub(crate) struct Platform {
    pub(crate) address: SocketAddr,
    pub(crate) sessions: Arc<Sessions>,
}

impl Platform {
    pub(crate) async fn start() -> Self {
        let sessions = Arc::new(Sessions::default());
        let shared = sessions.clone();
        let address = listen(move |request| answer(shared.clone(), request)).await;
        Self { address, sessions }
    }

    /// A runtime of this name whose requests end at `local`.
    pub(crate) fn connect(&self, runtime: &str, local: SocketAddr, carrier: Carrier) -> Runtime {
        self.connect_by(self.address, runtime, KEY, local, carrier)
    }

    pub(crate) fn connect_by(
        &self,
        address: SocketAddr,
        runtime: &str,
        key: &str,
        local: SocketAddr,
        carrier: Carrier,
    ) -> Runtime {
        self.connect_with(dial(address, runtime, key, carrier), local)
    }

    pub(crate) fn connect_with(&self, dial: Dial, local: SocketAddr) -> Runtime {
        let (state, states) = watch::channel(Connection::Connecting);
        let cancel = CancellationToken::new();
        let agent = Agent { dial, local, state, traffic: std::sync::Arc::default() };
        tokio::spawn(agent.run(cancel.clone()));
        Runtime { states, cancel }
    }

    /// Waits until so many tunnels of this name are open.
    pub(crate) async fn until_open(&self, runtime: &str, wanted: usize) {
        for _ in 0..2000 {
            if self.sessions.list(&name(runtime)).len() == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{:?}", self.sessions.list(&name(runtime)));
    }
}

/// A way to a platform without TLS.
pub(crate) fn dial(address: SocketAddr, runtime: &str, key: &str, carrier: Carrier) -> Dial {
    Dial {
        server: Server::parse(&format!("http://{address}")).expect("an address"),
        path: slipway_tunnel::PATH,
        carrier,
        // A stand-in for a key that belongs to a runtime: the platform reads the name out of it.
        credential: Arc::new(format!("{key} {runtime}").into()),
        tls: trusting(rustls::RootCertStore::empty()),
        proxy: None,
    }
}

pub(crate) fn trusting(roots: rustls::RootCertStore) -> Arc<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

pub(crate) struct Runtime {
    pub(crate) states: watch::Receiver<Connection>,
    pub(crate) cancel: CancellationToken,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

async fn answer(sessions: Arc<Sessions>, mut request: Request<Incoming>) -> Response<Payload> {
    if request.uri().path() == slipway_tunnel::PATH {
        return open(sessions, request);
    }
    let upgrade = request.extensions_mut().remove::<hyper::upgrade::OnUpgrade>();
    let (mut parts, body) = request.into_parts();
    let Ok(name) = label_of(&parts, DOMAIN) else {
        return text(StatusCode::MISDIRECTED_REQUEST, "not here");
    };
    let connection = ["connection", "upgrade"].map(|name| parts.headers.get(name).cloned());
    outside_headers(&mut parts.headers, [192, 0, 2, 7].into(), "https");
    // What `forward` reads; it strips them itself.
    for (name, value) in ["connection", "upgrade"].into_iter().zip(connection) {
        value.map(|value| parts.headers.insert(name, value));
    }
    upgrade.map(|upgrade| parts.extensions.insert(upgrade));
    let request = Request::from_parts(parts, body.map_err(Into::into).boxed_unsync());
    match sessions.forward(&name, request).await {
        Ok(response) => response,
        Err(error) => text(error.status(), error.to_string()),
    }
}

fn open(sessions: Arc<Sessions>, mut request: Request<Incoming>) -> Response<Payload> {
    let header =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let Some((KEY, runtime)) = header("authorization")
        .as_deref()
        .and_then(|given| given.rsplit_once(' '))
        .map(|(key, runtime)| (if key == KEY { KEY } else { "" }, runtime.to_owned()))
    else {
        return text(StatusCode::UNAUTHORIZED, "this key opens no tunnel");
    };
    let carrier = header("upgrade").and_then(|protocol| Carrier::of_protocol(&protocol)).expect("a carrier");
    let key = header("sec-websocket-key").unwrap_or_default();
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let io = TokioIo::new(upgraded.await.expect("upgraded"));
        let io = Carried::new(carrier, io, true);
        let _ = sessions.serve(&name(&runtime), "a test".into(), io).await;
    });
    let mut response = text(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = response.headers_mut();
    headers.insert("connection", "upgrade".parse().expect("a header"));
    headers.insert("upgrade", carrier.protocol().parse().expect("a header"));
    if carrier == Carrier::WebSocket {
        headers.insert("sec-websocket-accept", accept_key(&key).parse().expect("a header"));
        headers.insert("sec-websocket-protocol", slipway_tunnel::PROTOCOL.parse().expect("a header"));
    }
    response
}

/// A caller outside: one connection with which it asks for what is behind a tunnel.
pub(crate) struct Caller {
    sender: hyper::client::conn::http1::SendRequest<Payload>,
    host: String,
}

impl Caller {
    pub(crate) async fn of(platform: &Platform, runtime: &str) -> Self {
        let stream = tokio::net::TcpStream::connect(platform.address).await.expect("connected");
        Self::on(stream, runtime).await
    }

    /// One whose machine keeps little of what it does not read: a thousand of those that keep what they may, on one machine, are
    /// more than all its TCP connections together may have, and then none of them goes on.
    pub(crate) async fn small(platform: &Platform, runtime: &str) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(32 << 10).expect("set");
        Self::on(socket.connect(platform.address).await.expect("connected"), runtime).await
    }

    async fn on(stream: tokio::net::TcpStream, runtime: &str) -> Self {
        stream.set_nodelay(true).expect("set");
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection.with_upgrades());
        Self { sender, host: format!("{}.{DOMAIN}", name(runtime)) }
    }

    pub(crate) async fn send(&mut self, mut request: Request<Payload>) -> hyper::Result<Response<Incoming>> {
        request.headers_mut().insert("host", self.host.parse().expect("a host"));
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> (StatusCode, String) {
        let request = Request::builder().uri(path).body(body("")).expect("a request");
        let response = self.send(request).await.expect("an answer");
        let status = response.status();
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        (status, String::from_utf8_lossy(&bytes).into_owned())
    }
}

pub(crate) fn body(text: impl Into<Bytes>) -> Payload {
    Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Counts what arrives at a backend, so that nothing arrives twice unseen.
#[derive(Clone, Default)]
pub(crate) struct Witness(Arc<AtomicUsize>);

impl Witness {
    pub(crate) fn seen(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
