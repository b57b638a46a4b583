//! Finding an account.

use crate::http::error::ApiError;
use slipway_store::Tx;
use slipway_store::identity::{self};

/// By id or name.
pub(crate) fn find(tx: &mut Tx<'_>, wanted: &str) -> Result<identity::Account, ApiError> {
    let found = identity::accounts(tx)?
        .into_iter()
        .find(|account| account.name == wanted || account.id.to_string() == wanted);
    found.ok_or_else(|| ApiError::not_found(format!("account `{wanted}`")))
}
