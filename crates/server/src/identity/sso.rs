//! Identity providers of accounts: how they are asked, whom they bring in, where their secret is sealed.

use crate::ctx::Server;
use slipway_api::sso::SsoSettings;
use slipway_store::sso;

pub(crate) fn settings(row: &sso::SsoClient) -> SsoSettings {
    serde_json::from_str(&row.settings).unwrap_or_default()
}

/// Whether people whom nobody invited become members.
pub(crate) fn welcomes_all(row: &sso::SsoClient) -> bool {
    row.enabled && settings(row).create_members
}

pub(crate) fn callback_url(server: &Server, name: &str) -> String {
    format!("{}/api/auth/{name}/callback", server.public_url())
}

pub(crate) fn place(row: &sso::SsoClient) -> String {
    format!("sso/{}/{}", row.account, row.id)
}
