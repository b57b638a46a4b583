//! Tunnels that other processes of the platform hold: where they are, and requests that go on to them.
//!
//! In: a request for a runtime whose tunnel is not here, after its caller was looked at; or the connection of another process. Out: what
//! the runtime answers. Which process holds what is a table of the cache ([`slipway_bus::Holders`]); between two processes there is one
//! connection, made when it is first needed, with HTTP/2 as in a tunnel. Both ends prove that they have the platform's key, and a
//! request is sent on once: whoever gets one from another process and does not have the tunnel says so.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use http_body_util::{BodyExt as _, Full};
use serde::{Deserialize, Serialize};
use slipway_bus::{Holder, Holders};
use slipway_model::Secret;
use slipway_tunnel::{Dial, ForwardError, Payload, SessionStatus, Sessions, TunnelName};
use tokio::sync::OwnedMutexGuard;

use crate::background::driver::{Outcome, Round};
use crate::ctx::Server;
use crate::seal::{DataKey, PLATFORM};

/// Where a process asks another one for a connection.
pub(crate) const PATH: &str = "/api/agent/peer";
const HELLO: &str = "/hello";
const TUNNEL: HeaderName = HeaderName::from_static("x-slipway-tunnel");
const NONCE: HeaderName = HeaderName::from_static("x-slipway-nonce");
/// Why a request went no further, of an answer that is no runtime's.
const UNREACHED: HeaderName = HeaderName::from_static("x-slipway-unreached");
const CREDENTIAL: &str = "connection between processes";
/// A credential is for now; the clocks of two processes may differ by this much.
const GOOD_FOR_MS: i64 = 60_000;

pub(crate) struct Peers {
    pub(crate) holders: Holders,
    links: Arc<Sessions<String>>,
    /// Processes whose end of the connection has proved who it is.
    proved: Arc<Mutex<HashSet<String>>>,
    turns: Turns,
    /// Credentials that were used, until they are too old.
    used: Mutex<HashMap<String, i64>>,
}

impl Peers {
    pub(crate) fn new(holders: Holders) -> Self {
        Self {
            holders,
            links: Arc::default(),
            proved: Arc::default(),
            turns: Turns::default(),
            used: Mutex::default(),
        }
    }
}

/// One connection to a process is made at a time, however many ask for it. Who asks for another process does not wait for that.
#[derive(Default)]
struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<Failed>>>>);

/// When the last one failed, and why.
type Failed = Option<(Instant, String)>;

impl Turns {
    /// My turn with that process; or why whoever had it failed while I waited, so that nobody tries a dead one again for each
    /// of those who asked meanwhile.
    async fn mine(&self, process: &str) -> Result<OwnedMutexGuard<Failed>, String> {
        let began = Instant::now();
        let turn = {
            let mut all = self.0.lock().expect("not poisoned");
            all.retain(|_, turn| Arc::strong_count(turn) > 1);
            all.entry(process.to_owned()).or_default().clone()
        };
        let mine = turn.lock_owned().await;
        match &*mine {
            Some((at, why)) if *at >= began => Err(why.clone()),
            _ => Ok(mine),
        }
    }
}

/// An address of a process, as it stands in the table. A process with a certificate has the public name, by which others could not tell
/// it from the rest, so that it is not asked.
pub fn peer_address(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "`{text}` is not an address of a process: use http://HOST:PORT of a network that is yours alone"
        )
    };
    let server = slipway_tunnel::Server::parse(text).map_err(|_| wrong())?;
    if server.tls { Err(wrong()) } else { Ok(format!("http://{}", server.authority())) }
}

/// What stands in the table beside a name: the tunnels that a process has for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    pub(crate) peer: String,
    pub(crate) open_ms: u64,
    pub(crate) in_flight: usize,
    pub(crate) served: u64,
    #[serde(default)]
    pub(crate) received: u64,
    #[serde(default)]
    pub(crate) sent: u64,
}

impl From<SessionStatus> for Told {
    fn from(status: SessionStatus) -> Self {
        Self {
            peer: status.peer,
            open_ms: u64::try_from(status.open_for.as_millis()).unwrap_or(u64::MAX),
            in_flight: status.in_flight,
            served: status.served,
            received: status.received,
            sent: status.sent,
        }
    }
}

/// Why a request did not reach a runtime.
pub(crate) struct Unreached {
    pub(crate) status: StatusCode,
    pub(crate) why: String,
}

impl Unreached {
    fn because(why: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_GATEWAY, why: why.into() }
    }
}

impl From<ForwardError> for Unreached {
    fn from(error: ForwardError) -> Self {
        Self { status: error.status(), why: error.to_string() }
    }
}

/// Says in the table what this process holds; every few seconds, so that it is not forgotten.
pub(crate) async fn round(server: &Server) -> Outcome {
    let names = server.inner.tunnels.names();
    let held: Vec<_> = names.iter().map(|name| (name.to_string(), note(server, name))).collect();
    server.inner.peers.holders.say(&held).await?;
    Ok(Round::Done)
}

/// The same of one name whose tunnels have just changed.
pub(crate) async fn say(server: &Server, name: &TunnelName) {
    let holders = &server.inner.peers.holders;
    let said = match server.inner.tunnels.of(name).is_empty() {
        true => holders.release(name.as_str()).await,
        false => holders.say(&[(name.to_string(), note(server, name))]).await,
    };
    if let Err(error) = said {
        tracing::warn!(%name, %error, "Other processes do not hear where a tunnel is.");
    }
}

fn note(server: &Server, name: &TunnelName) -> String {
    let told: Vec<_> = server.inner.tunnels.of(name).into_iter().map(Told::from).collect();
    serde_json::to_string(&told).expect("it is JSON")
}

/// The tunnels of these names that other processes hold, with the process. A cache that is away knows of none.
pub(crate) async fn elsewhere(server: &Server, names: &[TunnelName]) -> Vec<Vec<(String, Told)>> {
    let asked: Vec<_> = names.iter().map(ToString::to_string).collect();
    let found = server.inner.peers.holders.others(&asked).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "Cannot ask which process holds which tunnel.");
        asked.iter().map(|_| Vec::new()).collect()
    });
    let told = |holder: Holder| {
        let all: Vec<Told> = serde_json::from_str(&holder.note).unwrap_or_default();
        all.into_iter().map(move |one| (holder.process.clone(), one))
    };
    found.into_iter().map(|holders| holders.into_iter().flat_map(told).collect()).collect()
}

/// Sends a request to the process that holds a tunnel of this name.
pub(crate) async fn forward(
    server: &Server,
    name: &TunnelName,
    mut request: Request<Payload>,
) -> Result<Response<Payload>, Unreached> {
    let peers = &server.inner.peers;
    let found = peers.holders.others(&[name.to_string()]).await;
    let found = found.map_err(|error| {
        Unreached::because(format!(
            "this process does not hold the tunnel, and cannot ask which one does: {error}"
        ))
    })?;
    let holders: Vec<_> = found.into_iter().flatten().collect();
    if holders.is_empty() {
        return Err(ForwardError::Offline.into());
    }
    let mut why = String::new();
    for holder in holders {
        if let Err(error) = link(server, &holder).await {
            tracing::warn!(%name, process = holder.process, error, "Cannot reach a process that holds a tunnel.");
            why = error;
            continue;
        }
        let label = HeaderValue::from_str(name.as_str()).expect("a label of a host name is a header");
        request.headers_mut().insert(TUNNEL, label);
        let answer = peers.links.forward(&holder.process, request).await?;
        return judge(server, name, &holder, answer).await;
    }
    Err(Unreached::because(why))
}

/// An answer of the runtime, or of the other process, which has to say why it is none.
async fn judge(
    server: &Server,
    name: &TunnelName,
    holder: &Holder,
    answer: Response<Payload>,
) -> Result<Response<Payload>, Unreached> {
    let Some(why) = answer.headers().get(UNREACHED) else { return Ok(answer) };
    if why == "offline" {
        let _ = server.inner.peers.holders.forget(name.as_str(), &holder.process).await;
        return Err(Unreached::because("the runtime has just lost its connection: try again"));
    }
    let (status, body) = (answer.status(), answer.into_body().collect().await);
    let said = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
    Err(Unreached { status, why: said.unwrap_or_default() })
}

/// Makes sure that there is a connection to that process, and that it is that process.
async fn link(server: &Server, holder: &Holder) -> Result<(), String> {
    let peers = &server.inner.peers;
    let is_open = || {
        peers.links.is_open(&holder.process)
            && peers.proved.lock().expect("not poisoned").contains(&holder.process)
    };
    if is_open() {
        return Ok(());
    }
    let mut turn = peers.turns.mine(&holder.process).await?;
    if is_open() {
        return Ok(());
    }
    let linked = connect(server, holder).await;
    if let Err(error) = &linked {
        *turn = Some((Instant::now(), error.clone()));
    }
    linked
}

async fn connect(server: &Server, holder: &Holder) -> Result<(), String> {
    let peers = &server.inner.peers;
    if holder.address.is_empty() {
        return Err(
            "another process holds the tunnel and does not say where it is reached: start it with --peer-url"
                .to_owned(),
        );
    }
    let key = platform_key(server).await?;
    let nonce = hex::encode(server.seams().random::<16>());
    let from = server.inner.holder.clone();
    let claim = Claim { from, to: holder.process.clone(), at_ms: server.now_ms(), nonce: nonce.clone() };
    let address = slipway_tunnel::Server::parse(&holder.address).map_err(|error| error.to_string())?;
    let dial = Dial::plain(address, PATH, Secret::new(claim.seal(server, &key)));
    let io = dial.connect().await.map_err(|error| error.to_string())?;
    let (listed, opened) = tokio::sync::oneshot::channel();
    let (links, proved, process) = (peers.links.clone(), peers.proved.clone(), holder.process.clone());
    let shutdown = server.inner.shutdown.clone();
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = links.serve_telling(&process, String::new(), io, move || {
                let _ = listed.send(());
            }) => ended,
            () = shutdown.cancelled() => Ok(()),
        };
        tracing::debug!(process, ?ended, "A connection to another process ended.");
        if !links.is_open(&process) {
            proved.lock().expect("not poisoned").remove(&process);
        }
    });
    opened.await.map_err(|_| "the connection to the other process broke".to_owned())?;
    match greet(server, &key, holder, &nonce).await {
        Ok(()) => {
            peers.proved.lock().expect("not poisoned").insert(holder.process.clone());
            Ok(())
        }
        Err(error) => {
            peers.links.close(&holder.process);
            Err(error)
        }
    }
}

/// The other end has to have the platform's key, too.
async fn greet(server: &Server, key: &DataKey, holder: &Holder, nonce: &str) -> Result<(), String> {
    let empty: Payload =
        Full::default().map_err(|never: std::convert::Infallible| match never {}).boxed_unsync();
    let mut hello = Request::new(empty);
    *hello.uri_mut() = HELLO.parse().expect("a path");
    hello.headers_mut().insert(NONCE, HeaderValue::from_str(nonce).expect("hexadecimal"));
    let answer = server.inner.peers.links.forward(&holder.process, hello).await;
    let body = answer.map_err(|error| error.to_string())?.into_body().collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    let said = key.unseal(&place_of(nonce), &String::from_utf8_lossy(&body));
    match said.is_some_and(|said| *said.expose() == holder.process) {
        true => Ok(()),
        false => Err("whoever answers there is not the process that holds the tunnel".to_owned()),
    }
}

fn place_of(nonce: &str) -> String {
    format!("hello between processes {nonce}")
}

async fn platform_key(server: &Server) -> Result<Arc<DataKey>, String> {
    if let Some(known) = server.keyring().known(PLATFORM) {
        return Ok(known);
    }
    let asked = server.clone();
    let key = server.store().read(move |tx| asked.keyring().named(tx, PLATFORM)).await;
    key.map_err(|error| error.to_string())
}

/// What a process says of itself when it asks another one for a connection; sealed with the platform's key.
#[derive(Debug, Serialize, Deserialize)]
struct Claim {
    from: String,
    to: String,
    at_ms: i64,
    nonce: String,
}

impl Claim {
    fn seal(&self, server: &Server, key: &DataKey) -> String {
        let text = serde_json::to_string(self).expect("it is JSON");
        key.seal(server.seams(), CREDENTIAL, &text)
    }
}

/// Which process asks, by what it sealed; why not otherwise.
pub(crate) async fn admit(server: &Server, credential: &str) -> Result<String, &'static str> {
    let key = platform_key(server).await.map_err(|_| "the database does not answer")?;
    let opened = key.unseal(CREDENTIAL, credential).ok_or("this is for processes of the platform")?;
    let claim: Claim =
        serde_json::from_str(opened.expose()).map_err(|_| "this is for processes of the platform")?;
    if claim.to != server.inner.holder {
        return Err("this is for another process");
    }
    let now_ms = server.now_ms();
    if (now_ms - claim.at_ms).abs() > GOOD_FOR_MS {
        return Err("this is from another time: are the clocks of the processes right?");
    }
    let mut used = server.inner.peers.used.lock().expect("not poisoned");
    used.retain(|_, at_ms| (now_ms - *at_ms).abs() <= 2 * GOOD_FOR_MS);
    match used.insert(claim.nonce, now_ms) {
        Some(_) => Err("this was used before"),
        None => Ok(claim.from),
    }
}

/// Answers another process until it goes.
pub(crate) async fn serve(server: Server, process: String, upgrade: hyper::upgrade::OnUpgrade) {
    let upgraded = match upgrade.await {
        Ok(upgraded) => hyper_util::rt::TokioIo::new(upgraded),
        Err(error) => {
            tracing::debug!(%error, "A connection of another process did not come about.");
            return;
        }
    };
    tracing::info!(process, "Another process of the platform is connected.");
    let shutdown = server.inner.shutdown.clone();
    let answer = |request| answer(server.clone(), request);
    if let Err(error) = slipway_tunnel::answer_through(upgraded, answer, &shutdown).await {
        tracing::debug!(process, %error, "A connection of another process ended.");
    }
}

async fn answer(server: Server, mut request: Request<Payload>) -> Response<Payload> {
    let label = request.headers_mut().remove(TUNNEL);
    let Some(label) = label else {
        let nonce = request.headers().get(NONCE).and_then(|nonce| nonce.to_str().ok());
        let nonce = nonce.unwrap_or_default().to_owned();
        drop(request);
        return hello(&server, &nonce).await;
    };
    let Some(name) = label.to_str().ok().and_then(TunnelName::of_label) else {
        return say_why(StatusCode::BAD_REQUEST, "name", "this is no tunnel");
    };
    let sessions = server.inner.tunnels.sessions();
    match slipway_tunnel::relay(sessions, &name, request).await {
        Ok(mut answer) => {
            // What is said between processes no runtime says.
            answer.headers_mut().remove(UNREACHED);
            answer
        }
        Err(error) => {
            let word = if matches!(error, ForwardError::Offline) { "offline" } else { "broken" };
            say_why(error.status(), word, &error.to_string())
        }
    }
}

async fn hello(server: &Server, nonce: &str) -> Response<Payload> {
    match platform_key(server).await {
        Ok(key) => text(key.seal(server.seams(), &place_of(nonce), &server.inner.holder)),
        Err(error) => say_why(StatusCode::SERVICE_UNAVAILABLE, "broken", &error),
    }
}

fn text(body: String) -> Response<Payload> {
    Response::new(Full::from(body).map_err(|never: std::convert::Infallible| match never {}).boxed_unsync())
}

fn say_why(status: StatusCode, word: &'static str, why: &str) -> Response<Payload> {
    let mut response = text(why.to_owned());
    *response.status_mut() = status;
    response.headers_mut().insert(UNREACHED, HeaderValue::from_static(word));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_reached_at_a_host_and_a_port() {
        assert_eq!(peer_address("http://10.0.0.5:8080/").unwrap(), "http://10.0.0.5:8080");
        for wrong in ["10.0.0.5:8080", "https://10.0.0.5", "http://a/b", "http://me@a", ""] {
            assert!(peer_address(wrong).is_err_and(|why| why.contains("http://HOST:PORT")), "{wrong}");
        }
    }
    #[tokio::test]
    async fn a_credential_is_for_one_process_once_and_now() {
        let open = |folder: &tempfile::TempDir| {
            let data = folder.path().to_owned();
            let config = crate::Config {
                data,
                public_url: "http://a.test".into(),
                network: crate::Network::default(),
            };
            Server::open(config, crate::Seams::system(), tokio_util::sync::CancellationToken::new()).unwrap()
        };
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (server, stranger) = (open(&folders[0]), open(&folders[1]));
        for platform in [&server, &stranger] {
            platform.first_start("admin@example.com").await.unwrap();
        }
        let sealed = async |by: &Server, to: &str, at_ms: i64| {
            let nonce = hex::encode(by.seams().random::<16>());
            let key = platform_key(by).await.unwrap();
            Claim { from: "b".into(), to: to.into(), at_ms, nonce }.seal(by, &key)
        };
        let (here, now_ms) = (server.inner.holder.clone(), server.now_ms());
        let good = sealed(&server, &here, now_ms).await;
        assert_eq!(admit(&server, &good).await, Ok("b".into()));
        assert_eq!(admit(&server, &good).await, Err("this was used before"));
        let elsewhere = sealed(&server, "another", now_ms).await;
        assert_eq!(admit(&server, &elsewhere).await, Err("this is for another process"));
        for at_ms in [now_ms - GOOD_FOR_MS - 10_000, now_ms + GOOD_FOR_MS + 10_000] {
            let late = sealed(&server, &here, at_ms).await;
            assert!(admit(&server, &late).await.is_err_and(|why| why.contains("another time")));
        }
        // Another platform has another key.
        let theirs = sealed(&stranger, &here, now_ms).await;
        assert_eq!(admit(&server, &theirs).await, Err("this is for processes of the platform"));
        for server in [server, stranger] {
            server.close();
        }
    }

    #[tokio::test]
    async fn a_dead_process_delays_nobody_who_asks_for_another() {
        let turns = Arc::new(Turns::default());
        let mut dialling = turns.mine("dead").await.expect("nobody else is there");
        // Whoever asks for the same one waits; whoever asks for another does not.
        let waiting = |turns: &Arc<Turns>| {
            let turns = turns.clone();
            tokio::spawn(async move { turns.mine("dead").await.map(drop) })
        };
        let waiters = [waiting(&turns), waiting(&turns)];
        drop(turns.mine("alive").await.expect("at once"));
        while Arc::strong_count(&turns.0.lock().expect("not poisoned")["dead"]) < 4 {
            tokio::task::yield_now().await;
        }
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        // The failure is theirs too; whoever comes later tries again.
        *dialling = Some((Instant::now(), "no answer".into()));
        drop(dialling);
        for waiter in waiters {
            assert_eq!(waiter.await.expect("no panic"), Err("no answer".to_owned()));
        }
        assert!(turns.mine("dead").await.is_ok());
    }
}
