//! Calls for integrations that are behind a firewall (`behindFirewall`): the platform dials nobody, a runner of the account makes them.
//!
//! In: a call as [`crate::http::egress`] would make it. Out: the answer that a runner inside got, or why there is none. A runner of the
//! account takes it with its next held call, and is believed: it has the same credentials for its builds. Nothing is kept after the
//! answer, and nothing is tried again here; whoever asks does that as for any other call.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use slipway_api::agent::{Errand, ErrandAnswer};
use slipway_model::AccountId;
use slipway_store::{Committed, Scope, StoreError, Tx, builds, errands};

use crate::agents::news;
use crate::ctx::Server;
use crate::http::egress::{Answer, EgressError};
use crate::seal::DataKey;

/// Until a runner has taken it, asked, and answered.
const WAIT: Duration = Duration::from_secs(25);
/// A runner that was heard of since then takes errands; when it was, is written down every few seconds.
const HEARD_MS: i64 = 60_000;
/// Given to a runner at once.
const TOGETHER: i64 = 8;

/// One call.
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a Value>,
}

fn place(account: AccountId, id: &str, what: &str) -> String {
    format!("errand/{account}/{id}/{what}")
}

/// Has a runner of the account make a call.
pub(crate) async fn ask(server: &Server, account: AccountId, ask: Ask<'_>) -> Result<Answer, EgressError> {
    let host = ask.url.parse::<reqwest::Url>().ok();
    let host = host.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default().to_owned();
    if host.is_empty() {
        return Err(EgressError::Address(slipway_net::shown(ask.url)));
    }
    let inside = |why: String| EgressError::Inside { host: host.clone(), why };
    let failed = |error: StoreError| inside(error.to_string());
    let (scope, id) = (Scope::of(account), hex::encode(server.seams().random::<16>()));
    let key = server.data_key(account).await.map_err(failed)?;
    let errand = Errand {
        id: id.clone(),
        method: ask.method.to_owned(),
        url: ask.url.to_owned(),
        headers: ask.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: ask.body.cloned(),
    };
    let text = serde_json::to_string(&errand).map_err(|error| inside(error.to_string()))?;
    let sealed = key.seal(server.seams(), &place(account, &id, "request"), &text);
    let mut commits = server.store().subscribe();
    let (until, now_ms) = (Instant::now() + WAIT, server.now_ms());
    let until_ms = now_ms + i64::try_from(WAIT.as_millis()).expect("seconds");
    let new = id.clone();
    let asked = server.store().write(move |tx| {
        let heard = builds::runners(tx, scope)?;
        let is_there = heard.iter().any(|runner| now_ms - runner.last_seen_ms < HEARD_MS);
        if is_there {
            errands::add(tx, scope, &new, &sealed, now_ms, until_ms)?;
        }
        Ok(is_there)
    });
    if !asked.await.map_err(failed)? {
        return Err(inside("no runner of the account is connected".into()));
    }
    let moved = |commit: &Committed| commit.moved_errands(account);
    let answer = loop {
        let wanted = id.clone();
        let found = server.store().read(move |tx| errands::answered(tx, scope, &wanted)).await;
        match found.map_err(failed)? {
            Some(answer) => break Some(answer),
            None if news(server, &mut commits, until, moved).await => {}
            None => break None,
        }
    };
    let gone = id.clone();
    server.store().write(move |tx| errands::forget(tx, scope, &gone)).await.map_err(failed)?;
    let answer = answer.ok_or_else(|| inside(format!("no runner answered within {} s", WAIT.as_secs())))?;
    let answer = key
        .unseal(&place(account, &id, "answer"), &answer)
        .and_then(|text| serde_json::from_str::<ErrandAnswer>(text.expose()).ok())
        .ok_or_else(|| inside("what the runner answered cannot be read".into()))?;
    if let (0, problem) | (_, problem @ Some(_)) = (answer.status, answer.problem) {
        let why = problem.unwrap_or_else(|| "the runner got no answer".into());
        return Err(inside(why));
    }
    let body = STANDARD.decode(&answer.body).map_err(|error| inside(error.to_string()))?;
    Ok(Answer { status: answer.status, body, challenge: answer.challenge, link: answer.link })
}

/// Those that a runner takes now.
pub(crate) fn take(
    tx: &mut Tx<'_>,
    key: &DataKey,
    scope: Scope,
    runner: &str,
    now_ms: i64,
) -> Result<Vec<Errand>, StoreError> {
    let taken = errands::take(tx, scope, runner, now_ms, TOGETHER)?;
    let open = |(id, sealed): (String, String)| {
        let text = key.unseal(&place(scope.account(), &id, "request"), &sealed);
        text.and_then(|text| serde_json::from_str(text.expose()).ok())
            .ok_or_else(|| StoreError::corrupt("cannot decrypt an errand"))
    };
    taken.into_iter().map(open).collect()
}

/// What is kept of a runner's answer until it is read.
pub(crate) fn sealed(
    server: &Server,
    key: &DataKey,
    account: AccountId,
    id: &str,
    answer: &ErrandAnswer,
) -> String {
    let text = serde_json::to_string(answer).expect("an answer is JSON");
    key.seal(server.seams(), &place(account, id, "answer"), &text)
}
