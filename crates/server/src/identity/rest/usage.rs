//! How much of its limits an account uses.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use slipway_api::error::ErrorBody;
use slipway_store::usage;
use utoipa::ToSchema;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::limits::{self, Limits, UsageState};
use crate::identity::auth::Caller;
use crate::seams;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    limits: Vec<UsageState>,
    /// Sentences for what is reached: which limit, how much, and what to do.
    messages: Vec<String>,
    service_accounts: i64,
    pipelines: i64,
    builds_waiting: i64,
    builds_this_month: i64,
    month_began: String,
}

/// Usage and limits of the account.
#[utoipa::path(get, path = "/api/usage", tag = "account", responses((status = 200, body = UsageStatus), (status = 401, body = ErrorBody)))]
pub(crate) async fn status(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<UsageStatus>, ApiError> {
    let (scope, since_ms) = (caller.scope(), month_began(server.now_ms()));
    let counted = server.store().read(move |tx| {
        let limits = Limits::load(tx, scope.account())?;
        Ok((limits, usage::count(tx, scope)?, usage::count_builds(tx, scope, since_ms)?))
    });
    let (allowed, used, builds) = counted.await?;
    let states = limits::states(&allowed, &used);
    Ok(Json(UsageStatus {
        plan: allowed.plan,
        messages: states.iter().filter(|state| state.is_reached).map(limits::over).collect(),
        limits: states,
        service_accounts: used.service_accounts,
        pipelines: used.pipelines,
        builds_waiting: builds.waiting,
        builds_this_month: builds.since,
        month_began: seams::rfc3339(since_ms),
    }))
}

fn month_began(now_ms: i64) -> i64 {
    let now = jiff::Timestamp::from_millisecond(now_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let month = now.to_zoned(jiff::tz::TimeZone::UTC).first_of_month().and_then(|day| day.start_of_day());
    month.map_or(0, |start| start.timestamp().as_millisecond())
}
