//! Tunnels of runtimes that are open at this process, and requests through them.
//!
//! In: an upgraded connection of a runtime whose key was looked at, and requests of anybody. Out: what the runtime answers, without
//! what could act in the platform's name. A tunnel ends when the key behind it is revoked, or the runtime renamed or deleted.
//! Does not know what a runtime serves; tunnels of other processes are [`crate::gitops::peers`].

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use http_body_util::BodyExt as _;
use slipway_access::{Policy, Who};
use slipway_model::ChangeKind;
use slipway_store::{Committed, applications};
use slipway_tunnel::{Carried, Carrier, Payload, SessionStatus, Sessions, TunnelName};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::ctx::Server;
use crate::gitops::networks::Networks;
use crate::gitops::passes;
use crate::gitops::peers::{self, Unreached};
use crate::http::error::ApiError;
use crate::identity::auth::Caller;

#[derive(Default)]
pub(crate) struct Tunnels {
    sessions: Arc<Sessions>,
    networks: Networks,
    opened: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
}

/// For metrics.
pub(crate) struct Counts {
    pub(crate) open: usize,
    pub(crate) in_flight: usize,
    pub(crate) opened: u64,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// How a caller named the tunnel: as a host, which is an origin of its own, or as a path below the platform's pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Host,
    Path,
}

impl Tunnels {
    pub(crate) fn of(&self, name: &TunnelName) -> Vec<SessionStatus> {
        self.sessions.list(name)
    }

    pub(crate) fn names(&self) -> Vec<TunnelName> {
        self.sessions.names()
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) fn networks(&self) -> &Networks {
        &self.networks
    }

    pub(crate) fn count(&self) -> Counts {
        let all: Vec<_> = self.sessions.names().iter().flat_map(|name| self.sessions.list(name)).collect();
        Counts {
            open: all.len(),
            in_flight: all.iter().map(|session| session.in_flight).sum(),
            opened: self.opened.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            received: self.sessions.traffic().received(),
            sent: self.sessions.traffic().sent(),
        }
    }
}

/// Serves one tunnel until it ends, its key does, or this process.
pub(crate) async fn serve(
    server: Server,
    caller: Caller,
    name: TunnelName,
    carrier: Carrier,
    upgrade: hyper::upgrade::OnUpgrade,
) {
    // From before the key is looked at again, so that nothing falls between.
    let commits = server.store().subscribe();
    let upgraded = match upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            tracing::debug!(%name, %error, "A tunnel was not opened.");
            return;
        }
    };
    let io = Carried::new(carrier, hyper_util::rt::TokioIo::new(upgraded), true);
    let peer = caller.trail.address().to_owned();
    tracing::info!(%name, peer, "A runtime opened a tunnel.");
    server.inner.tunnels.opened.fetch_add(1, Ordering::Relaxed);
    tell(&server, &caller).await;
    let sessions = server.inner.tunnels.sessions.clone();
    let listed = {
        let (server, name) = (server.clone(), name.clone());
        // Requests that reach other processes are not for those who wait here.
        move || drop(tokio::spawn(async move { peers::say(&server, &name).await }))
    };
    let why = tokio::select! {
        ended = sessions.serve_telling(&name, peer, io, listed) => match ended {
            Ok(()) => "the runtime closed it".to_owned(),
            Err(error) => error.to_string(),
        },
        () = revoked(&server, &caller, commits) => "its key is not good any more".to_owned(),
        () = server.inner.shutdown.cancelled() => "this process stops".to_owned(),
    };
    tracing::info!(%name, why, "A tunnel ended.");
    peers::say(&server, &name).await;
    tell(&server, &caller).await;
}

/// Pages that show the runtime look again.
async fn tell(server: &Server, caller: &Caller) {
    let Who::Runtime { name } = caller.principal.who.clone() else { return };
    let (scope, now_ms) = (caller.scope(), server.now_ms());
    let told = server.store().write(move |tx| {
        applications::touch_runtime(tx, scope, &name, now_ms)?;
        tx.changed(scope.account(), ChangeKind::Runtime, &name);
        Ok(())
    });
    if let Err(error) = told.await {
        tracing::debug!(%error, "Cannot note when a runtime was heard.");
    }
}

/// Until the key is not this runtime's any more.
pub(crate) async fn revoked(server: &Server, caller: &Caller, mut commits: Receiver<Committed>) {
    loop {
        let now = caller.still(server, Policy::Runtime).await;
        if now.is_none_or(|now| now.principal.who != caller.principal.who) {
            return;
        }
        loop {
            match commits.recv().await {
                Ok(commit) if !touches_rights(&commit) => {}
                Ok(_) | Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return,
            }
        }
    }
}

pub(crate) fn touches_rights(commit: &Committed) -> bool {
    commit.missed || commit.changes.iter().any(|change| change.kind == ChangeKind::Access)
}

/// Sends a caller's request through a tunnel of that name.
pub(crate) async fn forward(
    server: &Server,
    name: &TunnelName,
    from: &str,
    named: Named,
    mut request: Request,
) -> Result<Response, ApiError> {
    let from: IpAddr = from.parse().map_err(|_| ApiError::forbidden("your address is not known"))?;
    admitted(server, name, from).await?;
    let scheme = if server.public_url().starts_with("https:") { "https" } else { "http" };
    strip(request.headers_mut())?;
    slipway_tunnel::outside_headers(request.headers_mut(), from, scheme);
    let request = request.map(|body| -> Payload { body.map_err(Into::into).boxed_unsync() });
    let tunnels = &server.inner.tunnels;
    let answer = match tunnels.sessions.is_open(name) {
        true => tunnels.sessions.forward(name, request).await.map_err(Unreached::from),
        false => peers::forward(server, name, request).await,
    };
    let counter = if answer.is_ok() { &tunnels.answered } else { &tunnels.failed };
    counter.fetch_add(1, Ordering::Relaxed);
    let mut answer = answer.map_err(|Unreached { status, why }| {
        tracing::debug!(%name, why, "A request did not reach a runtime.");
        ApiError::gateway(status, why)
    })?;
    let upgraded = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    harmless(answer.headers_mut(), named, upgraded);
    Ok(answer.map(Body::new))
}

/// Whoever is not on the runtime's list of networks does not get to it.
async fn admitted(server: &Server, name: &TunnelName, from: IpAddr) -> Result<(), ApiError> {
    let Some(rules) = server.inner.tunnels.networks.of(server, name).await? else { return Ok(()) };
    if rules.holds(from) {
        return Ok(());
    }
    tracing::warn!(%name, %from, "Refused a caller who is not on the list of the runtime's networks.");
    Err(ApiError::forbidden(format!("{from} is not on the list of networks that may reach this runtime")))
}

/// What opens anything at the platform never reaches a runtime. A key is refused, not dropped, so that nobody gets used to sending it.
fn strip(headers: &mut HeaderMap) -> Result<(), ApiError> {
    for name in ["cookie", "x-access-token", "x-csrf-token"] {
        headers.remove(name);
    }
    let sent: Vec<_> = headers.get_all(header::AUTHORIZATION).iter().collect();
    let Some(value) = sent.first() else { return Ok(()) };
    let text = value.to_str().unwrap_or_default();
    let is_pass = text.strip_prefix("Bearer ").is_some_and(|pass| pass.starts_with(passes::PREFIX));
    if sent.len() == 1 && is_pass {
        return Ok(());
    }
    Err(ApiError::refused_credential(
        "a runtime gets no key and no password: ask POST /api/runtimes/NAME/pass for a pass, and send that",
    ))
}

/// What of a runtime's answer a browser may see. Cookies could be set for the platform's domain from a host below it; on the
/// platform's own address nothing is left that a browser would run, follow or remember.
fn harmless(headers: &mut HeaderMap, named: Named, upgraded: bool) {
    const KEPT: [HeaderName; 4] =
        [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::RETRY_AFTER, header::ALLOW];
    /// Of a WebSocket, which nothing but a page's own program reads.
    const OF_SOCKETS: [HeaderName; 4] = [
        header::CONNECTION,
        header::UPGRADE,
        header::SEC_WEBSOCKET_ACCEPT,
        // Without it a browser gives up a connection for which it named protocols.
        header::SEC_WEBSOCKET_PROTOCOL,
    ];
    headers.remove(header::SET_COOKIE);
    headers.remove("clear-site-data");
    if named == Named::Host {
        return;
    }
    let kept = |name: &&HeaderName| KEPT.contains(name) || (upgraded && OF_SOCKETS.contains(name));
    let others: Vec<_> = headers.keys().filter(|name| !kept(name)).cloned().collect();
    for name in others {
        headers.remove(name);
    }
    if upgraded {
        return;
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !["application/json", "text/plain", "text/event-stream"].contains(&kind) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    let sandbox = HeaderValue::from_static("sandbox; default-src 'none'");
    headers.insert(header::CONTENT_SECURITY_POLICY, sandbox);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn k94_no_cookie_and_no_key_reaches_a_runtime() {
        let mut sent = headers(&[("cookie", "slipway_session=x"), ("x-csrf-token", "y"), ("accept", "*/*")]);
        assert!(strip(&mut sent).is_ok());
        assert_eq!(sent.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
        assert!(strip(&mut headers(&[("authorization", "Bearer pass.abc")])).is_ok());
        for key in ["acacacacacacacacacacacac.00", "Bearer acac.00", "Basic YWJj", "pass.abc", ""] {
            assert!(strip(&mut headers(&[("authorization", key)])).is_err(), "{key}");
        }
    }

    #[test]
    fn on_the_platforms_own_address_nothing_of_an_answer_runs_or_stays() {
        let all = [
            ("content-type", "text/html"),
            ("set-cookie", "slipway_session=mine"),
            ("location", "https://elsewhere.test"),
            ("refresh", "0; url=https://elsewhere.test"),
            ("access-control-allow-origin", "*"),
            ("service-worker-allowed", "/"),
            ("clear-site-data", "\"*\""),
            ("strict-transport-security", "max-age=1"),
            ("retry-after", "3"),
        ];
        let mut answer = headers(&all);
        harmless(&mut answer, Named::Path, false);
        let mut left: Vec<_> = answer.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            ["content-security-policy", "content-type", "retry-after", "x-content-type-options"]
        );
        assert_eq!(answer[header::CONTENT_TYPE], "text/plain; charset=utf-8");
        let mut answer =
            headers(&[("sec-websocket-protocol", "graphql-transport-ws"), ("set-cookie", "a=b")]);
        harmless(&mut answer, Named::Path, true);
        assert_eq!(answer.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["sec-websocket-protocol"]);
        let mut answer = headers(&all);
        harmless(&mut answer, Named::Host, false);
        assert!(answer.get(header::SET_COOKIE).is_none() && answer.get("clear-site-data").is_none());
        assert_eq!(answer[header::CONTENT_TYPE], "text/html", "an origin of its own");
    }
}
