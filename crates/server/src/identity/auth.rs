//! Who is asking: an API key in a header, a basic password, or a browser's session cookie.
//!
//! Nothing is remembered between calls: each looks at the key or session, the person and the account as they are
//! now, so that a revocation holds from the next call on. Streams ask again while they are open.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use axum::http::{HeaderMap, Method, header};
use base64::Engine;
use slipway_access::{Policy, Principal, Role, Scopes, TeamRef, Verb, Who, decide};
use slipway_model::{ApiKeyId, Secret, SessionId, SsoClientId};
use slipway_store::identity::{self, AccountStatus, Bearer, Session, Subject, User};
use slipway_store::{Scope, StoreError, Tx, sso};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::tokens;
use crate::identity::trail::{Actor, Trail};
use crate::settings::AccountSettings;

pub(crate) const COOKIE: &str = "slipway_session";
/// The session row is not written for every click.
const TOUCH_EVERY_MS: i64 = 60 * 1000;
/// For what a thief of a cookie would do first, the person has to have signed in lately.
const FRESH_MS: i64 = 60 * 60 * 1000;

#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) credential: Credential,
    pub(crate) trail: Trail,
}

#[derive(Clone)]
pub(crate) enum Credential {
    Key(ApiKeyId),
    Session(SessionRef),
}

#[derive(Clone)]
pub(crate) struct SessionRef {
    pub(crate) id: SessionId,
    pub(crate) token_hash: String,
    pub(crate) csrf: String,
    pub(crate) authenticated_ms: i64,
    pub(crate) address: String,
    /// The identity provider that vouched for the person; none for the platform's own sign-in.
    pub(crate) client: Option<SsoClientId>,
}

impl Caller {
    pub(crate) fn scope(&self) -> Scope {
        Scope::of(self.principal.account)
    }

    pub(crate) fn actor(&self) -> Actor {
        Actor::of(&self.principal)
    }

    /// A session that an identity provider of an account began.
    pub(crate) fn is_vouched(&self) -> bool {
        matches!(&self.credential, Credential::Session(session) if session.client.is_some())
    }

    /// Present for a browser session.
    pub(crate) fn csrf(&self) -> Option<&str> {
        match &self.credential {
            Credential::Session(session) => Some(&session.csrf),
            Credential::Key(_) => None,
        }
    }

    /// Asks again with the same credential: what it is good for now.
    pub(crate) async fn again(&self, server: &Server) -> Option<Self> {
        let (credential, now_ms) = (self.credential.clone(), server.now_ms());
        let found = server.store().read(move |tx| match &credential {
            Credential::Key(id) => match identity::bearer(tx, *id)? {
                Some(bearer) => Ok(speaks_for(tx, &bearer)?.map(|principal| (principal, credential))),
                None => Ok(None),
            },
            Credential::Session(session) => by_token(tx, &session.token_hash, now_ms),
        });
        let (principal, credential) = found.await.ok().flatten()?;
        Some(Self { principal, credential, trail: self.trail.clone() })
    }

    /// The same caller as things are now, if this door is still open to them: for what stays open.
    pub(crate) async fn still(&self, server: &Server, policy: Policy) -> Option<Self> {
        let now = self.again(server).await?;
        decide(Some(&now.principal), policy, Verb::Read).is_ok().then_some(now)
    }

    /// Somebody who found an open browser cannot make keys with it, nor from another network.
    pub(crate) fn check_fresh(&self, now_ms: i64) -> Result<(), ApiError> {
        let Credential::Session(session) = &self.credential else { return Ok(()) };
        let moved = network(&session.address) != network(self.trail.address());
        if moved || now_ms - session.authenticated_ms > FRESH_MS {
            return Err(ApiError::confirm());
        }
        Ok(())
    }
}

/// `Ok(None)` when no credential was sent; an error when one was sent and is not good.
pub(crate) async fn authenticate(
    server: &Server,
    headers: &HeaderMap,
) -> Result<Option<(Principal, Credential)>, ApiError> {
    // A header that names nobody is a refusal, never a reason to look at the cookie: whoever sent it meant the header.
    if let Some(key) = sent_key(headers)? {
        return by_key(server, &key).await.map(Some);
    }
    match session_token(headers) {
        Some(token) => by_session(server, &token).await,
        None => Ok(None),
    }
}

/// Whose pass it is, as things are now; `None` when their key was revoked or their session is over.
pub(crate) async fn bearer_now(
    server: &Server,
    bearer: &crate::gitops::passes::Bearer,
    trail: &Trail,
) -> Option<Caller> {
    use crate::gitops::passes::Bearer;
    let (bearer, now_ms) = (bearer.clone(), server.now_ms());
    let found = server.store().read(move |tx| match bearer {
        Bearer::Key(id) => {
            let Ok(id) = id.parse() else { return Ok(None) };
            let bearer = identity::bearer(tx, id)?;
            let who = bearer.map(|bearer| speaks_for(tx, &bearer)).transpose()?.flatten();
            Ok(who.map(|principal| (principal, Credential::Key(id))))
        }
        Bearer::Session(hash) => by_token(tx, &hash, now_ms),
    });
    let (principal, credential) = found.await.ok().flatten()?;
    Some(Caller { principal, credential, trail: trail.clone() })
}

/// A browser proves with the token from `GET /api/user` that the page itself made the call.
pub(crate) fn check_csrf(
    caller: &Caller,
    method: &Method,
    changes: bool,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    let Some(expected) = caller.csrf() else { return Ok(()) };
    let safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && !changes;
    let sent = headers.get("x-csrf-token").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if safe || tokens::same(expected, sent) {
        return Ok(());
    }
    Err(ApiError::no_csrf_token())
}

/// `Ok(None)` when there is no such header at all.
fn sent_key(headers: &HeaderMap) -> Result<Option<Secret<String>>, ApiError> {
    let sent = ["x-access-token", "authorization"].iter().find_map(|name| Some((*name, headers.get(*name)?)));
    let Some((name, value)) = sent else { return Ok(None) };
    let text = value.to_str().ok();
    let key = if name == "authorization" { text.and_then(in_authorization) } else { text.map(str::to_owned) };
    key.map(|key| Some(Secret::new(key))).ok_or_else(ApiError::unauthenticated)
}

/// The key in an Authorization header: alone, as a bearer token, or as the password of any user.
fn in_authorization(value: &str) -> Option<String> {
    let Some(encoded) = value.strip_prefix("Basic ") else {
        return Some(value.strip_prefix("Bearer ").unwrap_or(value).to_owned());
    };
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

pub(crate) fn session_token(headers: &HeaderMap) -> Option<Secret<String>> {
    cookie(headers, COOKIE).map(Secret::new)
}

pub(crate) fn cookie(headers: &HeaderMap, wanted: &str) -> Option<String> {
    headers.get_all(header::COOKIE).iter().find_map(|value| {
        value.to_str().ok()?.split(';').find_map(|pair| {
            let (name, token) = pair.trim().split_once('=')?;
            (name == wanted).then(|| token.to_owned())
        })
    })
}

async fn by_key(server: &Server, key: &Secret<String>) -> Result<(Principal, Credential), ApiError> {
    let refused = || ApiError::wrong_key();
    let (id, secret) = key.expose().split_once('.').ok_or_else(refused)?;
    let id: ApiKeyId = id.parse().map_err(|_| refused())?;
    let hash = tokens::digest(secret);
    let found = server.store().read(move |tx| {
        let bearer = identity::bearer(tx, id)?;
        // An id that is not there costs a comparison too.
        let kept = bearer.as_ref().map_or("", |bearer| bearer.key.secret_hash.as_str());
        match bearer.as_ref().filter(|_| tokens::same(kept, &hash)) {
            Some(bearer) => speaks_for(tx, bearer),
            None => Ok(None),
        }
    });
    let principal = found.await?.ok_or_else(refused)?;
    server.inner.used.note(id, server.now_ms());
    Ok((principal, Credential::Key(id)))
}

/// Whom a key speaks for, as things are now.
fn speaks_for(tx: &mut Tx<'_>, bearer: &Bearer) -> Result<Option<Principal>, StoreError> {
    let row = &bearer.key;
    if bearer.account_status != AccountStatus::Active || crate::agents::registration::is_token(row) {
        return Ok(None);
    }
    let scope = Scope::of(row.account);
    let teams = |role| bearer.teams(role == Role::Administrator).into_iter().map(team_ref).collect();
    let who = match row.subject_kind {
        Subject::User => match bearer.member.as_ref().filter(|member| member.is_open()) {
            Some(member) => {
                let role = Role::parse(&member.role).unwrap_or(Role::User);
                user(&member.user, role, row.platform, teams(role))
            }
            None => return Ok(None),
        },
        Subject::ServiceAccount => {
            let found = identity::service_account(tx, scope, &row.subject)?;
            let Some(robot) = found.filter(|robot| robot.enabled) else { return Ok(None) };
            let role = Role::parse(&robot.role).unwrap_or(Role::User);
            Who::ServiceAccount { id: robot.id, name: robot.name, role, teams: teams(role) }
        }
        Subject::Runner => Who::Runner { name: row.subject.clone() },
        Subject::Runtime => Who::Runtime { name: row.subject.clone() },
        Subject::Build => match row.subject.parse() {
            Ok(id) => Who::Build { id },
            Err(_) => return Ok(None),
        },
    };
    let scopes = match row.subject_kind {
        Subject::User | Subject::ServiceAccount => Scopes::stored(&row.scopes),
        _ => Scopes::unlimited(),
    };
    Ok(Some(Principal { account: row.account, who, scopes }))
}

/// A member as a principal of this account. `platform`: whether what they came with may carry rights over the platform.
pub(crate) fn person(
    tx: &mut Tx<'_>,
    scope: Scope,
    user: &User,
    role: &str,
    platform: bool,
) -> Result<Who, StoreError> {
    let role = Role::parse(role).unwrap_or(Role::User);
    let teams = identity::teams_of(tx, scope, &user.id.to_string(), role == Role::Administrator)?;
    Ok(self::user(user, role, platform, teams.into_iter().map(team_ref).collect()))
}

fn user(user: &User, role: Role, platform: bool, teams: Vec<TeamRef>) -> Who {
    let (id, name, email) = (user.id, user.name.clone(), user.email.clone());
    Who::User { id, name, email, role, platform: platform && user.platform_admin, teams }
}

fn team_ref(team: identity::Team) -> TeamRef {
    TeamRef { id: team.id, name: team.name }
}

async fn by_session(
    server: &Server,
    token: &Secret<String>,
) -> Result<Option<(Principal, Credential)>, ApiError> {
    let (hash, now_ms) = (tokens::digest(token.expose()), server.now_ms());
    let lookup = hash.clone();
    let found = server.store().read(move |tx| {
        let seen_ms = identity::session(tx, &lookup)?.map(|session| session.last_seen_ms);
        Ok((by_token(tx, &lookup, now_ms)?, seen_ms))
    });
    let (found, seen_ms) = found.await?;
    if found.is_some() && seen_ms.is_some_and(|seen_ms| now_ms - seen_ms > TOUCH_EVERY_MS) {
        server.store().write(move |tx| identity::touch_session(tx, &hash, now_ms)).await?;
    }
    Ok(found)
}

/// A session that is not over: neither quiet nor old for too long, of a person who may still be here.
fn by_token(
    tx: &mut Tx<'_>,
    token_hash: &str,
    now_ms: i64,
) -> Result<Option<(Principal, Credential)>, StoreError> {
    let Some(session) = identity::session(tx, token_hash)? else { return Ok(None) };
    let Some(account) = identity::account_by_id(tx, session.account)? else { return Ok(None) };
    let settings = AccountSettings::of(&account);
    let over = now_ms - session.last_seen_ms > settings.inactivity_ms()
        || now_ms - session.created_ms > settings.absolute_ms();
    if over || account.status != AccountStatus::Active || !opens(tx, &session, &account)? {
        return Ok(None);
    }
    let scope = Scope::of(session.account);
    let member = identity::member(tx, scope, session.user)?.filter(identity::Member::is_open);
    let Some(member) = member else { return Ok(None) };
    let who = person(tx, scope, &member.user, &member.role, session.client.is_none())?;
    let credential = Credential::Session(SessionRef {
        id: session.id,
        token_hash: session.token_hash,
        csrf: session.csrf,
        authenticated_ms: session.authenticated_ms,
        address: session.address,
        client: session.client,
    });
    Ok(Some((Principal { account: session.account, who, scopes: Scopes::unlimited() }, credential)))
}

/// A session is good where what began it is: a provider's in the account that the provider belongs to, one by password
/// in accounts that are entered by password. Asked at every call, so that no door can forget it.
fn opens(tx: &mut Tx<'_>, session: &Session, account: &identity::Account) -> Result<bool, StoreError> {
    match session.client {
        Some(client) => {
            let client = sso::by_id(tx, client)?;
            Ok(client.is_some_and(|client| client.enabled && client.account == session.account))
        }
        None => Ok(AccountSettings::of(account).password_login),
    }
}

/// Checks a password; the same time passes whether the e-mail is known or not.
///
/// An attempt is counted before it is made, in the database: neither many at once nor a restart gives more of them.
/// Strangers who guess are counted as strangers: a browser in which this person has signed in before has a count of its
/// own, so that nobody is locked out by what others try.
pub(crate) async fn check_password(
    server: &Server,
    email: &str,
    password: Secret<String>,
    from: &From<'_>,
) -> Result<User, ApiError> {
    let (wanted, now_ms) = (email.to_owned(), server.now_ms());
    let (strangers, browser) = (strangers(email, from.address), from.browser.map(tokens::digest));
    let counted = server.store().write(move |tx| {
        let user = identity::user_by_email(tx, &wanted)?;
        let counters = match (&user, &browser) {
            (Some(user), Some(hash)) if identity::knows_browser(tx, user.id, hash)? => {
                vec![(format!("browser:{hash}"), FREE_FAILURES)]
            }
            _ => strangers,
        };
        for (subject, free) in &counters {
            let (failures, last_ms) = identity::login_failures(tx, subject)?;
            if let Some(seconds) = wait_seconds(failures, *free, last_ms, now_ms) {
                return Ok(Err(seconds));
            }
        }
        for (subject, _) in &counters {
            identity::login_failed(tx, subject, now_ms)?;
        }
        Ok(Ok((user, counters)))
    });
    let (user, counters) = counted.await?.map_err(ApiError::throttled)?;
    let hash = user.as_ref().map(|user| user.password_hash.clone()).filter(|hash| !hash.is_empty());
    let hash = hash.unwrap_or_else(|| tokens::NOBODYS_HASH.to_owned());
    server.inner.metrics.password_checked();
    let good = tokio::task::spawn_blocking(move || tokens::password_matches(&hash, password.expose()))
        .await
        .unwrap_or(false);
    let user = user.filter(|user| good && user.enabled).ok_or_else(ApiError::wrong_credentials)?;
    let forget = move |tx: &mut Tx<'_>| {
        for (subject, free) in &counters {
            match *free {
                FREE_FAILURES => identity::forget_failures(tx, subject)?,
                // Only this try: somebody with one good password must not wipe out what they guess at others.
                _ => identity::forget_one_failure(tx, subject)?,
            }
        }
        Ok(())
    };
    server.store().write(forget).await?;
    Ok(user)
}

/// Where a password comes from.
pub(crate) struct From<'a> {
    pub(crate) address: &'a str,
    /// What the browser was given when somebody last signed in with it.
    pub(crate) browser: Option<&'a str>,
}

/// Guesses at one address from one network, from that network at all, and at that address from everywhere.
fn strangers(email: &str, address: &str) -> Vec<(String, i64)> {
    let (email, network) = (email.chars().take(320).collect::<String>(), network(address));
    vec![
        (format!("email:{email} from {network}"), FREE_FAILURES),
        (format!("net:{network}"), FREE_FAILURES_OF_NETWORK),
        (format!("email:{email}"), FREE_FAILURES_OF_ADDRESS),
    ]
}

pub(crate) const BROWSER_COOKIE: &str = "slipway_browser";
/// A browser that nobody signed in with for so long is a stranger again.
pub(crate) const BROWSER_KNOWN_MS: i64 = 365 * 24 * 60 * 60 * 1000;

const FREE_FAILURES: i64 = 5;
/// Many people may sign in from behind one address.
const FREE_FAILURES_OF_NETWORK: i64 = 50;
/// Many networks may guess at one address.
const FREE_FAILURES_OF_ADDRESS: i64 = 50;
pub(crate) const FAILURES_FORGOTTEN_AFTER_MS: i64 = 60 * 60 * 1000;

/// After a few failures, each further one doubles the wait.
fn wait_seconds(failures: i64, free: i64, last_ms: i64, now_ms: i64) -> Option<u64> {
    if failures < free || now_ms - last_ms > FAILURES_FORGOTTEN_AFTER_MS {
        return None;
    }
    let wait_ms = 1000_i64 << (failures - free).min(9);
    let left_ms = last_ms + wait_ms - now_ms;
    (left_ms > 0).then(|| u64::try_from(left_ms / 1000 + 1).unwrap_or(1))
}

/// What an address is counted by: a whole IPv6 network belongs to one household, so does a /24.
pub(crate) fn network(address: &str) -> String {
    match address.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(v4)) => {
            let [a, b, c, _] = v4.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        Ok(IpAddr::V6(v6)) => {
            let [a, b, c, d, ..] = v6.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Err(_) => address.to_owned(),
    }
}

/// When keys were last used, until it is written down for all of them together.
#[derive(Default)]
pub(crate) struct UsedKeys {
    last_ms: Mutex<HashMap<ApiKeyId, i64>>,
}

impl UsedKeys {
    fn note(&self, id: ApiKeyId, now_ms: i64) {
        self.last_ms.lock().expect("not poisoned").insert(id, now_ms);
    }

    /// What could not be written; newer notes stay.
    pub(crate) fn put_back(&self, used: Vec<(ApiKeyId, i64)>) {
        let mut last_ms = self.last_ms.lock().expect("not poisoned");
        for (id, at_ms) in used {
            last_ms.entry(id).or_insert(at_ms);
        }
    }

    pub(crate) fn take(&self) -> Vec<(ApiKeyId, i64)> {
        std::mem::take(&mut *self.last_ms.lock().expect("not poisoned")).into_iter().collect()
    }

    /// Newer than what is in the database, if it was used since.
    pub(crate) fn last(&self, id: ApiKeyId) -> Option<i64> {
        self.last_ms.lock().expect("not poisoned").get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_failure_waits_longer_each_time_and_an_hour_forgives() {
        assert_eq!(wait_seconds(4, 5, 0, 0), None);
        assert_eq!(wait_seconds(5, 5, 0, 0), Some(2));
        assert_eq!(wait_seconds(5, 5, 0, 1001), None);
        assert_eq!(wait_seconds(8, 5, 0, 1001), Some(7));
        assert_eq!(wait_seconds(100, 5, 0, 0), Some(513));
        assert_eq!(wait_seconds(100, 5, 0, FAILURES_FORGOTTEN_AFTER_MS + 1), None);
    }

    #[test]
    fn addresses_are_counted_by_network() {
        assert_eq!(network("10.1.2.3"), "10.1.2.0/24");
        assert_eq!(network("::ffff:10.1.2.9"), "10.1.2.0/24");
        assert_eq!(network("2001:db8:1:2:3::4"), "2001:db8:1:2::/64");
    }
}
