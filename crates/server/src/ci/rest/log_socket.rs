//! Following a log the way the published CLI does: a WebSocket with one message for each piece.
//!
//! The client names itself in the address (`?authorization=`), because it cannot set headers there; the address is
//! in no log of ours. Its quirks are kept: it prints nothing before three pieces in a row, so empty ones fill up,
//! and it asks for the status whenever it is told that the line is alive.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use axum::extract::{Path, Query, State, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use slipway_access::{Policy, Resource, Verb, decide};
use slipway_model::{Change, ChangeKind};
use slipway_store::{builds, logs};

use crate::ci::rest::builds::find;
use crate::ci::rest::logs::viewed;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::{self, Caller};
use crate::identity::trail::Trail;

const BATCH: i64 = 200;
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// What the client waits for before it prints.
const PIECES_FIRST: usize = 3;

/// Who may follow logs at all; which, their pipelines decide.
pub(crate) const LOGS: Policy = Policy::Member(Resource::Builds);

#[derive(Debug, Deserialize)]
pub(crate) struct SocketQuery {
    authorization: Option<String>,
}

pub(crate) async fn follow(
    State(server): State<Server>,
    trail: Trail,
    Path((_account, id)): Path<(String, String)>,
    Query(query): Query<SocketQuery>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, ApiError> {
    let mut headers = HeaderMap::new();
    let key = query.authorization.unwrap_or_default();
    let value = HeaderValue::from_str(&key).map_err(|_| ApiError::unauthenticated())?;
    headers.insert(header::AUTHORIZATION, value);
    let (principal, credential) =
        auth::authenticate(&server, &headers).await?.ok_or_else(ApiError::unauthenticated)?;
    decide(Some(&principal), LOGS, Verb::Read)?;
    let caller = Caller { principal, credential, trail };
    let build = find(&server, &caller, &id).await?;
    viewed(&server, &caller, &build).await?;
    Ok(upgrade.on_upgrade(move |socket| async move {
        let mut line = Line { server, caller, id, socket, after: 0, sent: 0 };
        // Whoever hangs up is no trouble of ours.
        let _ = line.serve().await;
    }))
}

struct Line {
    server: Server,
    caller: Caller,
    id: String,
    socket: WebSocket,
    after: i64,
    sent: usize,
}

/// The client is gone, or may no longer look.
struct Over;

impl Line {
    async fn serve(&mut self) -> Result<(), Over> {
        let mut commits = self.server.store().subscribe();
        let shutdown = self.server.inner.shutdown.clone();
        let account = self.caller.principal.account;
        self.news().await?;
        // The client that does not follow prints what it has now.
        self.say(json!({"slot": "keepAlive", "action": "r", "payload": 1})).await?;
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        alive.tick().await;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                heard = self.socket.recv() => match heard {
                    Some(Ok(Message::Text(text))) => self.asked(&text).await?,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                    Some(Ok(_)) => {}
                },
                _ = alive.tick() => {
                    self.look_again().await?;
                    self.say(json!({"slot": "keepAlive", "action": "r", "payload": 1})).await?;
                    if self.news().await? {
                        return Ok(());
                    }
                }
                commit = commits.recv() => {
                    // Having missed some is reason to look.
                    let about = |wanted: &dyn Fn(&Change) -> bool| {
                        commit.as_ref().map_or(true, |commit| commit.missed || commit.changes.iter().any(wanted))
                    };
                    let rights = about(&|change| change.kind == ChangeKind::Access);
                    let mine = about(&|change| {
                        matches!(change.kind, ChangeKind::Build | ChangeKind::Log)
                            && change.is_of(account)
                            && change.id == self.id
                    });
                    if rights {
                        self.look_again().await?;
                    }
                    if mine && self.news().await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The key is still good for logs, and the build still theirs to see.
    async fn look_again(&mut self) -> Result<(), Over> {
        self.caller = self.caller.still(&self.server, LOGS).await.ok_or(Over)?;
        find(&self.server, &self.caller, &self.id).await.map(drop).map_err(|_| Over)
    }

    /// Sends what is new; `true` when the build has ended and everything is said.
    async fn news(&mut self) -> Result<bool, Over> {
        loop {
            let (scope, after) = (self.caller.scope(), self.after);
            let id = self.id.parse().map_err(|_| Over)?;
            let looked = self.server.store().read(move |tx| {
                let status = builds::by_id(tx, scope, id)?.map(|build| build.status);
                Ok((status, logs::after(tx, scope, id, after, BATCH)?))
            });
            let (status, chunks) = looked.await.map_err(|_| Over)?;
            let Some(last) = chunks.last() else {
                let Some(status) = status.filter(|status| status.is_final()) else { return Ok(false) };
                while self.sent < PIECES_FIRST {
                    self.piece("end", String::new()).await?;
                }
                self.say(json!({"slot": "status", "action": "r", "payload": status.as_str()})).await?;
                return Ok(true);
            };
            self.after = last.seq;
            for chunk in chunks {
                let step = chunk.step.replace('.', "_");
                self.piece(&step, chunk.text).await?;
                while self.sent < PIECES_FIRST {
                    self.piece(&step, String::new()).await?;
                }
            }
        }
    }

    async fn piece(&mut self, step: &str, text: String) -> Result<(), Over> {
        self.sent += 1;
        self.say(
            json!({"slot": format!("steps.{step}.logs"), "action": "e", "payload": text, "time": self.sent}),
        )
        .await
    }

    async fn asked(&mut self, text: &str) -> Result<(), Over> {
        let asked: Value = serde_json::from_str(text).unwrap_or_default();
        if asked["action"] == "getStatus" {
            let build = find(&self.server, &self.caller, &self.id).await.map_err(|_| Over)?;
            // An end is told by `status`, after the last piece.
            let status = if build.status.is_final() { "running" } else { build.status.as_str() };
            let answer = json!({"msgID": asked["msgID"], "payload": {"meta": {"status": status}}});
            return self.say(answer).await;
        }
        Ok(())
    }

    async fn say(&mut self, message: Value) -> Result<(), Over> {
        self.socket.send(Message::text(message.to_string())).await.map_err(|_| Over)
    }
}
