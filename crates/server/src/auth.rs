//! Who is asking: an API key in a header, a basic password, or a browser's session cookie.

use std::collections::HashMap;
use std::sync::Mutex;

use axum::http::{HeaderMap, Method, header};
use base64::Engine;
use slipway_access::{Principal, Role, Who};
use slipway_model::{ApiKeyId, Secret};
use slipway_store::identity::{self, Subject, User};

use crate::ctx::Server;
use crate::error::ApiError;
use crate::tokens;

pub(crate) const COOKIE: &str = "slipway_session";
/// A browser that was quiet for this long signs in again.
const INACTIVITY_MS: i64 = 12 * 60 * 60 * 1000;
/// The session row is not written for every click.
const TOUCH_EVERY_MS: i64 = 60 * 1000;

#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    /// Present for a browser session.
    pub(crate) csrf: Option<String>,
}

impl Caller {
    pub(crate) fn scope(&self) -> slipway_store::Scope {
        slipway_store::Scope::of(self.principal.account)
    }
}

/// `Ok(None)` when no credential was sent; an error when one was sent and is not good.
pub(crate) async fn authenticate(server: &Server, headers: &HeaderMap) -> Result<Option<Caller>, ApiError> {
    if let Some(key) = sent_key(headers) {
        return by_key(server, &key).await.map(Some);
    }
    match session_token(headers) {
        Some(token) => by_session(server, &token).await,
        None => Ok(None),
    }
}

/// A browser proves with the token from `GET /api/user` that the page itself made the call.
pub(crate) fn check_csrf(
    caller: &Caller,
    method: &Method,
    changes: bool,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    let Some(expected) = &caller.csrf else { return Ok(()) };
    let safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && !changes;
    let sent = headers.get("x-csrf-token").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if safe || tokens::same(expected, sent) {
        return Ok(());
    }
    Err(ApiError::forbidden("this browser call carries no valid X-CSRF-Token: reload the page and try again"))
}

fn sent_key(headers: &HeaderMap) -> Option<Secret<String>> {
    if let Some(token) = headers.get("x-access-token").and_then(|value| value.to_str().ok()) {
        return Some(Secret::new(token.to_owned()));
    }
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    if let Some(encoded) = value.strip_prefix("Basic ") {
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
        let text = String::from_utf8(decoded).ok()?;
        return text.split_once(':').map(|(_, password)| Secret::new(password.to_owned()));
    }
    Some(Secret::new(value.strip_prefix("Bearer ").unwrap_or(value).to_owned()))
}

pub(crate) fn session_token(headers: &HeaderMap) -> Option<Secret<String>> {
    let value = headers.get(header::COOKIE)?.to_str().ok()?;
    value.split(';').find_map(|pair| {
        let (name, token) = pair.trim().split_once('=')?;
        (name == COOKIE).then(|| Secret::new(token.to_owned()))
    })
}

async fn by_key(server: &Server, key: &Secret<String>) -> Result<Caller, ApiError> {
    let refused = || ApiError::unauthenticated();
    let (id, secret) = key.expose().split_once('.').ok_or_else(refused)?;
    let id: ApiKeyId = id.parse().map_err(|_| refused())?;
    let hash = tokens::digest(secret);
    let (row, user) = server
        .store()
        .read(move |tx| {
            let Some(row) = identity::key_by_id(tx, id)? else { return Ok((None, None)) };
            let user = match row.subject_kind {
                Subject::User => match row.subject.parse() {
                    Ok(id) => identity::user_by_id(tx, id)?,
                    Err(_) => None,
                },
                _ => None,
            };
            Ok((Some(row), user))
        })
        .await?;
    let row = row.filter(|row| tokens::same(&row.secret_hash, &hash)).ok_or_else(refused)?;
    let who = match row.subject_kind {
        Subject::User => return user.map(|user| person(&user, None)).ok_or_else(refused),
        Subject::Runner => Who::Runner { name: row.subject },
        Subject::Runtime => Who::Runtime { name: row.subject },
        Subject::Build => Who::Build { id: row.subject.parse().map_err(|_| refused())? },
    };
    Ok(Caller { principal: Principal { account: row.account, who }, csrf: None })
}

async fn by_session(server: &Server, token: &Secret<String>) -> Result<Option<Caller>, ApiError> {
    let hash = tokens::digest(token.expose());
    let lookup = hash.clone();
    let Some(session) = server.store().read(move |tx| identity::session(tx, &lookup)).await? else {
        return Ok(None);
    };
    let now_ms = server.now_ms();
    let quiet_ms = now_ms - session.last_seen_ms;
    if quiet_ms > INACTIVITY_MS {
        server.store().write(move |tx| identity::end_session(tx, &hash)).await?;
        return Ok(None);
    }
    if quiet_ms > TOUCH_EVERY_MS {
        server.store().write(move |tx| identity::touch_session(tx, &hash, now_ms)).await?;
    }
    Ok(Some(person(&session.user, Some(session.csrf))))
}

fn person(user: &User, csrf: Option<String>) -> Caller {
    let who = Who::User {
        id: user.id,
        name: user.name.clone(),
        email: user.email.clone(),
        role: Role::parse(&user.role).unwrap_or(Role::User),
    };
    Caller { principal: Principal { account: user.account, who }, csrf }
}

/// Checks a password; the same time passes whether the e-mail is known or not.
pub(crate) async fn check_password(
    server: &Server,
    email: &str,
    password: Secret<String>,
) -> Result<User, ApiError> {
    // A hash of nothing anybody knows, so that an unknown e-mail costs as much as a wrong password.
    const NOBODY: &str =
        "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    server.inner.throttle.check(email, server.now_ms())?;
    let wanted = email.to_owned();
    let user = server.store().read(move |tx| identity::user_by_email(tx, &wanted)).await?;
    let hash = user.as_ref().map_or_else(|| NOBODY.to_owned(), |user| user.password_hash.clone());
    let good = tokio::task::spawn_blocking(move || tokens::password_matches(&hash, password.expose()))
        .await
        .unwrap_or(false);
    match user.filter(|_| good) {
        Some(user) => {
            server.inner.throttle.forget(email);
            Ok(user)
        }
        None => {
            server.inner.throttle.failed(email, server.now_ms());
            Err(ApiError::wrong_credentials())
        }
    }
}

/// After a few failures for one e-mail, each further one doubles the wait.
#[derive(Default)]
pub(crate) struct Throttle {
    failures: Mutex<HashMap<String, (u32, i64)>>,
}

const FREE_FAILURES: u32 = 5;
const REMEMBERED_MAX: usize = 10_000;

impl Throttle {
    fn check(&self, email: &str, now_ms: i64) -> Result<(), ApiError> {
        let failures = self.failures.lock().expect("not poisoned");
        let Some(&(count, last_ms)) = failures.get(email) else { return Ok(()) };
        let wait_ms = 1000 << count.saturating_sub(FREE_FAILURES).min(9);
        let left_ms = last_ms + wait_ms - now_ms;
        if count >= FREE_FAILURES && left_ms > 0 {
            return Err(ApiError::throttled(u64::try_from(left_ms / 1000 + 1).unwrap_or(1)));
        }
        Ok(())
    }

    fn failed(&self, email: &str, now_ms: i64) {
        let mut failures = self.failures.lock().expect("not poisoned");
        if failures.len() >= REMEMBERED_MAX {
            failures.retain(|_, (_, last_ms)| now_ms - *last_ms < 10 * 60 * 1000);
        }
        let entry = failures.entry(email.to_owned()).or_insert((0, now_ms));
        *entry = (entry.0 + 1, now_ms);
    }

    fn forget(&self, email: &str) {
        self.failures.lock().expect("not poisoned").remove(email);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_failure_waits_and_success_forgets() {
        let throttle = Throttle::default();
        for _ in 0..FREE_FAILURES {
            assert!(throttle.check("a", 0).is_ok());
            throttle.failed("a", 0);
        }
        assert_eq!(throttle.check("a", 0).unwrap_err().status(), 429);
        assert!(throttle.check("a", 1001).is_ok() && throttle.check("b", 0).is_ok());
        throttle.forget("a");
        assert!(throttle.check("a", 0).is_ok());
    }
}
