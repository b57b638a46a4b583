//! Renewing what a sign-in gave, before it ends.
//!
//! In: what is kept of a person for a place. Out: the same, or what the provider gave in exchange. A provider may take what it is
//! exchanged for once, and end all of it when somebody comes with it again: so one at a time renews in this process, whoever came late
//! here or in another process uses what the first one got, and a caller who hangs up ends nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use slipway_forge::remote::oauth::Grant;
use slipway_model::Secret;

use super::super::{Asker, Refusal, Running};
use super::apps::app_of;
use super::sign_in::{exchange, kept_of};
use super::vault::Kept;
use super::{Place, refused, vault};

/// A token that ends sooner than this is renewed before it is used.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_secs(60);
/// Whoever was refused looks so often whether another process was faster …
const LOOKS: usize = 6;
/// … with so much between.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// What the provider gave is written down, also where the cluster does not answer for a moment.
const WRITES: usize = 5;

type Turn = tokio::sync::Mutex<()>;

/// Whose token is being renewed, and where.
#[derive(Default)]
pub(crate) struct Renewals(Mutex<HashMap<(String, String), Weak<Turn>>>);

impl Renewals {
    fn of(&self, asker: &Asker, place: &Place) -> Arc<Turn> {
        let mut all = self.0.lock().expect("no panic while locked");
        all.retain(|_, turn| turn.strong_count() > 0);
        let turn = all.entry((asker.id.clone(), place.key())).or_default();
        turn.upgrade().unwrap_or_else(|| {
            let new = Arc::default();
            *turn = Arc::downgrade(&new);
            new
        })
    }
}

fn ends(kept: &Kept) -> bool {
    let expires = kept.renewable.as_ref().and_then(|renewable| renewable.expires);
    expires.is_some_and(|at| at < Timestamp::now() + RENEWED_BEFORE)
}

/// The token, renewed where it would end now.
pub(super) async fn fresh(
    running: &Arc<Running>,
    asker: &Asker,
    place: &Place,
    kept: Kept,
) -> Result<Kept, Refusal> {
    if !ends(&kept) {
        return Ok(kept);
    }
    let (running, asker, place) = (running.clone(), asker.clone(), place.clone());
    let renewing = tokio::spawn(async move {
        let turn = running.renewals.of(&asker, &place);
        let _turn = turn.lock().await;
        renewed(&running, &asker, &place).await
    });
    renewing.await.unwrap_or_else(|error| {
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "NOT_RENEWED", error.to_string()))
    })
}

async fn renewed(running: &Running, asker: &Asker, place: &Place) -> Result<Kept, Refusal> {
    let vault = vault(running, asker);
    // Somebody may have been faster while this one waited.
    let kept = vault.get(place).await?;
    let Some(renewable) = kept.renewable.as_ref().filter(|_| ends(&kept)) else { return Ok(kept) };
    let again = || refused("TOKEN_REFUSED", format!("your sign-in to {place} has ended: sign in again"));
    let app = app_of(running, place).await?;
    if renewable.refresh.is_empty() || app.secret != renewable.app {
        return Err(again());
    }
    let old = Secret::new(renewable.refresh.clone());
    let Ok(granted) = exchange(running, &app, &Grant::Refresh(&old)).await? else {
        for _ in 0..LOOKS {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = vault.get(place).await?;
            if !ends(&now) {
                return Ok(now);
            }
        }
        return Err(again());
    };
    let (token, mut renewable) = kept_of(&app.secret, granted);
    if renewable.refresh.is_empty() {
        renewable.refresh.clone_from(old.expose());
    }
    let mut tries = 1;
    loop {
        match vault.renew(place, &old, &token, &renewable).await {
            Ok(true) => return Ok(Kept { account: kept.account, token, renewable: Some(renewable) }),
            // Another one was given meanwhile, or it was forgotten.
            Ok(false) => return vault.get(place).await,
            Err(error) if tries == WRITES => return Err(error),
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
        tries += 1;
    }
}
