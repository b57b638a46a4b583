//! Signing in to a Git provider with OAuth, beside a personal token: the token that comes of it lies where those lie.
//!
//! In: a provider for which a Secret of the runtime's namespace describes an application, and what the browser brings back. Out: an
//! address to go to, and a token of whoever began. A sign-in is begun and ended with a pass of the same person, and by
//! whoever knows the word that it was begun with: a code that somebody else's browser brought opens nothing. What is under
//! way is a Secret of its own, so that any replica may end it, once.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_api::git_proxy::{GitAccount, GitAuthorization, GitAuthorize, GitConnect};
use slipway_cluster::{ObjectKey, Propagation, WriteOptions};
use slipway_dialect::percent::encode;
use slipway_forge::remote::oauth::{Grant, Granted};
use slipway_model::Secret;
use slipway_net::{Request, Trust};

use super::super::{Asker, Proxy, Refusal, Running};
use super::apps::{OauthApp, app_of, provider_at};
use super::vault::Renewable;
use super::{ANSWER_WITHIN, Place, account_of, refused, vault};
use crate::engines::application_sets::http::client;
use crate::settings::field;

/// One that stands for a sign-in under way has this one.
const PENDING_LABEL: &str = "slipway.io/git-sign-in";
/// Long enough for a password and a second factor.
const LIVES: SignedDuration = SignedDuration::from_mins(10);
/// Under way at once, of everybody.
const PENDING_MAX: usize = 200;
/// Of those, of one person: with one more, their oldest is over.
const PENDING_OF_ONE: usize = 5;

/// A sign-in under way, as it stands in its Secret.
#[derive(Serialize, Deserialize)]
struct Pending {
    user: String,
    provider: String,
    host: String,
    verifier: String,
    /// SHA-256 of the word that it was begun with.
    challenge: String,
    expires: Timestamp,
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

fn pending_key(running: &Running, state: &str) -> ObjectKey {
    let name = format!("slipway-git-sign-in-{}", &digest(state)[..32]);
    ObjectKey::new("", "Secret", running.settings.namespace(), &name)
}

fn is_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn random() -> String {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
    hex::encode(bytes)
}

pub(in super::super) async fn authorize(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Json(request): Json<GitAuthorize>,
) -> Result<Json<GitAuthorization>, Refusal> {
    let running = proxy.running()?;
    let place = Place::read(running, &request.provider, &request.host)?;
    if !is_hex(&request.challenge) {
        return Err(refused("BAD_CHALLENGE", "`challenge` is the SHA-256 of a word of your own, in hex"));
    }
    if !place.provider.says_who() {
        let message = format!(
            "{place} does not say who somebody is in commits, which a sign-in has to tell: give a personal token, with authorName and authorEmail"
        );
        return Err(refused("NO_SIGN_IN", message));
    }
    let app = app_of(running, &place).await?;
    tidied(running, &asker).await?;
    let (state, verifier) = (random(), random());
    let bound = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let url = place.provider.authorize_url(place.host.as_deref(), &app.app(), &state, &bound);
    let url = url.ok_or_else(|| refused("NO_SIGN_IN", format!("{place} has no sign-in")))?;
    let expires = Timestamp::now() + LIVES;
    let pending = Pending {
        user: asker.id.clone(),
        provider: place.provider.name().to_owned(),
        host: place.host.clone().unwrap_or_default(),
        verifier,
        challenge: request.challenge.to_ascii_lowercase(),
        expires,
    };
    let key = pending_key(running, &state);
    let data = STANDARD.encode(serde_json::to_vec(&pending).unwrap_or_default());
    let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"pending": data},
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": {PENDING_LABEL: "true"}}});
    running.cluster.create(&object, WriteOptions::default()).await?;
    let host = running.server.as_ref().map(|server| server.base().to_owned()).unwrap_or_default();
    tracing::info!(by = %asker.name, %place, platform = %host, "Somebody signs in to a Git provider.");
    Ok(Json(GitAuthorization { url, state, expires: expires.to_string() }))
}

fn read_pending(object: &Value) -> Option<Pending> {
    serde_json::from_str(&field(&object["data"], "pending")?).ok()
}

/// What was begun and never ended goes, and of one person what is too much; too much of all is refused.
async fn tidied(running: &Running, asker: &Asker) -> Result<(), Refusal> {
    let kind = ObjectKey::new("", "Secret", running.settings.namespace(), "");
    let all = running.cluster.list_labelled(&kind, &format!("{PENDING_LABEL}=true")).await?;
    let now = Timestamp::now();
    let (mut left, mut mine, mut over) = (0, Vec::new(), Vec::new());
    for object in &all {
        match read_pending(object).filter(|pending| pending.expires > now) {
            Some(pending) if pending.user == asker.id => mine.push((pending.expires, object)),
            Some(_) => left += 1,
            None => over.push(object),
        }
    }
    mine.sort_by_key(|(expires, _)| *expires);
    let too_many = (mine.len() + 1).saturating_sub(PENDING_OF_ONE);
    left += mine.len() - too_many;
    over.extend(mine.into_iter().take(too_many).map(|(_, object)| object));
    for object in over {
        let uid = object["metadata"]["uid"].as_str();
        running.cluster.delete(&ObjectKey::of(object), uid, Propagation::Background, false).await?;
    }
    if left < PENDING_MAX {
        return Ok(());
    }
    let message = format!("{PENDING_MAX} people are signing in at this moment: try again in a few minutes");
    Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_SIGN_INS", message))
}

pub(in super::super) async fn connect(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Json(request): Json<GitConnect>,
) -> Result<Json<GitAccount>, Refusal> {
    let running = proxy.running()?;
    let nothing = || {
        let message = "no sign-in of yours is under way with this: begin again, and end it in the same browser or terminal within ten minutes";
        refused("NO_SIGN_IN_UNDER_WAY", message)
    };
    if !is_hex(&request.state) || request.code.is_empty() || request.code.len() > 4096 + 200 {
        return Err(nothing());
    }
    let key = pending_key(running, &request.state);
    let object = running.cluster.read(&key).await?.ok_or_else(nothing)?;
    let pending = read_pending(&object).ok_or_else(nothing)?;
    // Whose it is and who knows the word: else somebody could have another's browser bring them a code.
    let fits = pending.user == asker.id
        && pending.expires > Timestamp::now()
        && pending.challenge == digest(&request.word);
    if !fits {
        return Err(nothing());
    }
    let place = Place::read(running, &pending.provider, &pending.host)?;
    let app = app_of(running, &place).await?;
    // As our callback gave it: a code that came from another provider is not sent to this one.
    let code = request.code.split_once(':').filter(|(at, code)| *at == app.at && !code.is_empty());
    let Some((_, code)) = code else {
        let message = format!(
            "this is no code that {place} sent your browser back with: give what you were shown, whole, or begin again"
        );
        return Err(refused("OTHER_CODE", message));
    };
    // Once: whoever deletes it goes on.
    let uid = object["metadata"]["uid"].as_str();
    if !running.cluster.delete(&key, uid, Propagation::Background, false).await? {
        return Err(nothing());
    }
    let grant = Grant::Code { code, verifier: &pending.verifier };
    let granted = exchange(running, &app, &grant).await?.map_err(|word| {
        refused("SIGN_IN_REFUSED", format!("{place} gives no token for this ({word}): begin again"))
    })?;
    let (token, renewable) = kept_of(&app.secret, granted);
    let mut account =
        account_of(running, &place, &token, Some(&renewable), String::new(), String::new()).await?;
    account.signed_in = true;
    vault(running, &asker).put(&place, &token, Some(renewable), account).await.map(Json)
}

/// `app` is the Secret of the application that it was given to.
pub(super) fn kept_of(app: &str, granted: Granted) -> (Secret<String>, Renewable) {
    // A provider may say any number.
    let after = |seconds| Timestamp::now().checked_add(SignedDuration::from_secs(seconds));
    let expires = granted.seconds.map(|seconds| after(seconds).unwrap_or(Timestamp::MAX));
    let refresh = granted.refresh.map(|token| token.expose().clone()).unwrap_or_default();
    (granted.token, Renewable { refresh, expires, app: app.to_owned() })
}

/// Asks the provider; inside, its word for no.
pub(super) async fn exchange(
    running: &Running,
    app: &OauthApp,
    grant: &Grant<'_>,
) -> Result<Result<Granted, String>, Refusal> {
    let place = &app.place;
    let asked = place.provider.token_request(place.host.as_deref(), &app.app(), grant);
    let asked = asked.ok_or_else(|| refused("NO_SIGN_IN", format!("{place} has no sign-in")))?;
    let client = client(&running.config.egress, ANSWER_WITHIN, Trust::default())
        .map_err(|error| refused("UNREACHABLE", error))?;
    let body = asked.body();
    let headers: Vec<(&str, &str)> =
        [("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json")]
            .into_iter()
            .chain(asked.basic.as_deref().map(|basic| ("authorization", basic)))
            .collect();
    let request = Request {
        method: "POST",
        secrets: &headers,
        body: Some(body.as_bytes()),
        ..Request::get(&asked.url)
    };
    let answer = client.send(request).await.map_err(|error| {
        Refusal::new(StatusCode::BAD_GATEWAY, "GIT_UNREACHABLE", format!("{place}: {error}"))
    })?;
    Ok(place.provider.read_granted(answer.status, &answer.body))
}

#[derive(Deserialize)]
pub(in super::super) struct BroughtBack {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    error: String,
}

/// Where the provider sends the browser. Nothing is done here: no pass can come with it. The browser goes on to the platform's
/// page, with what it brought behind a `#`, which no server sees; or a person carries the code to where they began.
pub(in super::super) async fn callback(
    State(proxy): State<Proxy>,
    Path(at): Path<String>,
    Query(brought): Query<BroughtBack>,
) -> Result<Response, Refusal> {
    let running = proxy.running()?;
    let provider =
        provider_at(&at).ok_or_else(|| refused("UNKNOWN_PROVIDER", "no such Git provider"))?.name();
    let plain = |text: &str| text.len() <= 4096 && text.chars().all(|c| c.is_ascii_graphic());
    let BroughtBack { code, state, error } = brought;
    if !(plain(&code) && plain(&error) && is_hex(&state)) || code.is_empty() == error.is_empty() {
        return Err(refused("BAD_CALLBACK", "this is not what a Git provider brings back: begin again"));
    }
    // Whoever ends the sign-in says where its code came in.
    let code = if code.is_empty() { code } else { format!("{at}:{code}") };
    let platform = running.server.as_ref().map(|server| server.base().to_owned()).unwrap_or_default();
    let brought: BTreeMap<&str, &str> =
        [("provider", provider), ("code", &code), ("state", &state), ("error", &error)].into();
    let fields: Vec<String> = brought
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    let page = format!("{platform}/runtimes/{}/git#{}", encode(&running.config.name), fields.join("&"));
    let text = match error.is_empty() {
        true => format!(
            "You signed in. If this page does not go on by itself, go back to where you began and give it this code:\n\n{code}\n"
        ),
        false => format!("The Git provider said no: {error}\n"),
    };
    let headers = [
        (header::LOCATION, page),
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    Ok((StatusCode::SEE_OTHER, headers, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_may_be_said_to_end_at_any_time() {
        for seconds in [3_600, i64::MAX] {
            let token = Secret::new("t".to_owned());
            let granted = Granted { token, refresh: None, seconds: Some(seconds) };
            assert!(kept_of("app", granted).1.expires.expect("an end") > Timestamp::now());
        }
    }
}
