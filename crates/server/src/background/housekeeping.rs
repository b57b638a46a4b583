//! What has to be done now and then: notes of when keys were used, old sessions, old counters, old sign-ins, old
//! names of images, builds that wait for too long, what agents still hold of builds that are over.
//!
//! Each process notes its own; what is forgotten for all of them one process forgets, whoever leads.

use slipway_store::{identity, images, sso};

use crate::background::driver::{Outcome, Round, Turn};
use crate::ctx::Server;
use crate::identity::auth::{self, FAILURES_FORGOTTEN_AFTER_MS};

/// The longest that any account lets a session be quiet.
const SESSION_QUIET_MAX_MS: i64 = 30 * 24 * 60 * 60 * 1000;
pub(crate) const SSO_LOGIN_MS: i64 = 10 * 60 * 1000;

/// Of one account: more than a listing looks at, so nothing disappears that anybody is shown.
const IMAGES_KEPT: i64 = 10_000;
const IMAGES_AT_ONCE: i64 = 1_000;

/// When keys were last used, of this process. What cannot be written now is written with the next.
pub(crate) async fn note_used_keys(server: &Server) -> Outcome {
    let used = server.inner.used.take();
    if used.is_empty() {
        return Ok(Round::Done);
    }
    let kept = used.clone();
    let noted = server.store().write(move |tx| identity::keys_used(tx, &used)).await;
    if noted.is_err() {
        server.inner.used.put_back(kept);
    }
    noted?;
    Ok(Round::Done)
}

/// One transaction for all of it.
pub(crate) async fn round(turn: &Turn) -> Outcome {
    let (server, lead) = (&turn.server, turn.lead().clone());
    let (now_ms, inner) = (server.now_ms(), server.clone());
    server
        .store()
        .write(move |tx| {
            lead.checked(tx)?;
            identity::forget_old_sessions(tx, now_ms - SESSION_QUIET_MAX_MS)?;
            identity::forget_failures_before(tx, now_ms - FAILURES_FORGOTTEN_AFTER_MS)?;
            identity::forget_browsers_before(tx, now_ms - auth::BROWSER_KNOWN_MS)?;
            sso::forget_logins_before(tx, now_ms - SSO_LOGIN_MS)?;
            images::forget_beyond(tx, IMAGES_KEPT, IMAGES_AT_ONCE)?;
            crate::ci::queue::delay(tx, now_ms)?;
            crate::agents::venona::settle_all(&inner, tx)?;
            Ok(())
        })
        .await?;
    Ok(Round::Done)
}
