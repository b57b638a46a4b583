//! Room `net`: an address that somebody named comes in, an answer comes out, or a reason why it is not asked.
//!
//! Every connection that a process makes because a setting, an ApplicationSet, a notification or a chart named an
//! address goes through a [`Client`]. [`Rules`] say which addresses may be asked; a name is resolved once and the
//! connection goes to what was checked, so that a second answer of the name server changes nothing; every hop of a
//! redirect is checked anew, and secrets stay with the host that they were given for. Time and size have limits.
//! The room does not know who asks, what for, or what the answer means.

mod client;
mod connect;
mod mail;
mod rules;

pub use client::{Answer, Client, Limits, Proxy, Request, Settings, Trust};
pub use connect::Names;
pub use http::HeaderMap;
pub use mail::{Encryption, Letter, MailError, MailServer, is_plain};
pub use rules::Rules;

use std::net::IpAddr;

#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error("`{0}` is not an http or https address")]
    Address(String),
    #[error("{host} means {address}, which may not be asked from here")]
    Forbidden { host: String, address: IpAddr },
    #[error("cannot reach {host}: {detail}")]
    Unreachable { host: String, detail: String },
    #[error("{host} does not answer, or its certificate is not trusted by this machine")]
    Silent { host: String },
    #[error("{host} redirects {why}")]
    Redirect { host: String, why: &'static str },
    #[error("{host} answered with more than {bytes} bytes")]
    TooLarge { host: String, bytes: u64 },
    #[error("{0}")]
    Settings(String),
}

/// The address without user, password and query, where secrets hide.
pub fn shown(address: &str) -> String {
    match address.parse::<reqwest::Url>() {
        Ok(mut url) => {
            url.set_query(None);
            url.set_fragment(None);
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.to_string()
        }
        Err(_) => {
            let plain = address.split(['?', '#']).next().unwrap_or_default();
            let (before, after) = plain.split_once("://").unwrap_or(("", plain));
            let after = after.rsplit('@').next().unwrap_or_default();
            if before.is_empty() { after.to_owned() } else { format!("{before}://{after}") }
        }
    }
}

/// Scheme, host and port: what a credential was given for.
pub fn origin(address: &str) -> String {
    let parsed = address.parse::<reqwest::Url>();
    parsed.map_or_else(|_| address.to_owned(), |url| url.origin().ascii_serialization())
}
