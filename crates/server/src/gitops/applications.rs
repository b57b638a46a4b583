//! Which Applications a caller may see.

use crate::http::error::ApiError;
use crate::identity::access;
use crate::identity::auth::Caller;
use slipway_access::decide_on;
use slipway_api::application::{Application, ApplicationRow};
use slipway_store::{StoreError, Tx, applications};

/// What the caller may see of what is there, by name.
pub(crate) fn visible(
    tx: &mut Tx<'_>,
    caller: &Caller,
    name: Option<&str>,
) -> Result<Vec<ApplicationRow>, StoreError> {
    let rules = access::rules_about(tx, caller, "gitopsApplications")?;
    let rows = applications::list(tx, caller.scope(), name)?;
    let rows = rows.iter().filter_map(|row| serde_json::from_str::<ApplicationRow>(row).ok());
    let sees =
        |app: &ApplicationRow| decide_on(&caller.principal, &rules, "VIEW", &access::row_entity(app)).allowed;
    Ok(rows.filter(sees).collect())
}

/// Those of these rows that are there, whole. Whoever calls has seen, in the same reading, that the caller may see them.
pub(crate) fn whole(
    tx: &mut Tx<'_>,
    caller: &Caller,
    rows: &[ApplicationRow],
) -> Result<Vec<Application>, StoreError> {
    let named: Vec<_> = rows.iter().map(|row| (&*row.runtime, &*row.namespace, &*row.name)).collect();
    let found = applications::several(tx, caller.scope(), &named)?;
    Ok(found.iter().filter_map(|body| serde_json::from_str(body).ok()).collect())
}

/// One with its resources and history, if the caller may see it.
pub(crate) fn one(
    tx: &mut Tx<'_>,
    caller: &Caller,
    runtime: &str,
    namespace: &str,
    name: &str,
) -> Result<Application, ApiError> {
    let what = format!("application `{namespace}/{name}` of runtime `{runtime}`");
    let body = applications::one(tx, caller.scope(), runtime, namespace, name)?;
    let app: Option<Application> = body.and_then(|body| serde_json::from_str(&body).ok());
    let app = app.ok_or_else(|| ApiError::not_found(&what))?;
    access::require(tx, caller, "VIEW", "VIEW", &access::application_entity(&app), &what)??;
    Ok(app)
}
