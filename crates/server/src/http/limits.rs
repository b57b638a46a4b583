//! Plans as numbers: how much an account may use, how much it uses, and what is said when it is too much.

use serde::{Deserialize, Serialize};
use slipway_model::AccountId;
use slipway_store::identity::{self, Account};
use slipway_store::usage::{self, Usage};
use slipway_store::{Scope, StoreError, Tx};
use utoipa::ToSchema;

/// Absent: no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// A name for the numbers below, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seats: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runtimes: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clusters: Option<i64>,
    /// Counted and shown, not enforced: Applications are made in Git and in clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) applications: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parallel_builds: Option<i64>,
}

impl Limits {
    pub(crate) fn of(account: &Account) -> Self {
        serde_json::from_str(&account.limits).unwrap_or_default()
    }

    pub(crate) fn load(tx: &mut Tx<'_>, account: AccountId) -> Result<Self, StoreError> {
        Ok(identity::account_by_id(tx, account)?.map(|account| Self::of(&account)).unwrap_or_default())
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        self.named()
            .into_iter()
            .filter(|(_, limit)| limit.is_some_and(|limit| limit < 0))
            .map(|(name, _)| format!("limit `{name}` must not be negative: omit it for no limit"))
            .collect()
    }

    fn named(&self) -> [(&'static str, Option<i64>); 5] {
        [
            ("seats", self.seats),
            ("runtimes", self.runtimes),
            ("clusters", self.clusters),
            ("applications", self.applications),
            ("parallelBuilds", self.parallel_builds),
        ]
    }
}

/// One thing that is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageState {
    pub(crate) name: &'static str,
    pub(crate) used: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<i64>,
    pub(crate) is_reached: bool,
    pub(crate) is_exceeded: bool,
    /// Whether one more is refused. Applications are made in Git and in clusters, where this platform cannot refuse them:
    /// they are counted, and too many are said to be too many.
    pub(crate) is_enforced: bool,
}

const COUNTED_ONLY: &str = "applications";

pub(crate) fn states(limits: &Limits, usage: &Usage) -> Vec<UsageState> {
    let used = [
        usage.seats + usage.pending_invitations,
        usage.runtimes,
        usage.clusters,
        usage.applications,
        usage.parallel_builds,
    ];
    let states = limits.named().into_iter().zip(used).map(|((name, limit), used)| UsageState {
        name,
        used,
        limit,
        is_reached: limit.is_some_and(|limit| used >= limit),
        is_exceeded: limit.is_some_and(|limit| used > limit),
        is_enforced: name != COUNTED_ONLY,
    });
    states.collect()
}

/// One more of `name` would be too many: which limit, how much, and what to do.
pub(crate) fn refusal(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<String>, StoreError> {
    let limits = Limits::load(tx, scope.account())?;
    let usage = usage::count(tx, scope)?;
    let state = states(&limits, &usage)
        .into_iter()
        .find(|state| state.name == name && state.is_reached && state.is_enforced);
    Ok(state.map(|state| over(&state)))
}

pub(crate) fn over(state: &UsageState) -> String {
    let (name, used, limit) = (state.name, state.used, state.limit.unwrap_or_default());
    let less = match name {
        "seats" => "remove a user or revoke an invitation",
        "parallelBuilds" => "wait for a build to end, or terminate one",
        COUNTED_ONLY => {
            return format!(
                "the account's limit `{name}` is reached: {used} of {limit} are used; it is counted but not enforced, because Applications are created in Git and in clusters: delete some there, or ask an administrator of the platform for more"
            );
        }
        _ => "delete one that is not needed",
    };
    format!(
        "the account's limit `{name}` is reached: {used} of {limit} are used; {less}, or ask an administrator of the platform for more"
    )
}

/// How many more builds may run now.
pub(crate) fn free_builds(tx: &mut Tx<'_>, scope: Scope, now_ms: i64) -> Result<i64, StoreError> {
    match Limits::load(tx, scope.account())?.parallel_builds {
        None => Ok(i64::MAX),
        Some(limit) => Ok((limit - usage::running_builds(tx, scope, now_ms)?).max(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_over_a_limit_says_which_how_much_and_what_to_do() {
        let limits = Limits { seats: Some(2), ..Limits::default() };
        let usage = Usage { seats: 1, pending_invitations: 1, parallel_builds: 9, ..Usage::default() };
        let states = states(&limits, &usage);
        let reached: Vec<_> = states.iter().filter(|state| state.is_reached).collect();
        assert_eq!(reached.len(), 1);
        assert!(!reached[0].is_exceeded && reached[0].is_enforced);
        assert_eq!(
            over(reached[0]),
            "the account's limit `seats` is reached: 2 of 2 are used; remove a user or revoke an invitation, or ask an \
             administrator of the platform for more"
        );
    }
}
