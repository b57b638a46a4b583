//! E-mail of an integration: its settings and a text come in, a letter goes out through [`crate::http::egress`].

use serde_json::Value;
use slipway_model::Secret;
use slipway_net::{Encryption, Letter, MailError as Sent, MailServer, is_plain};

use crate::ctx::Server;
use crate::http::egress::EgressError;

const RECIPIENTS_MAX: usize = 50;

#[derive(Debug, thiserror::Error)]
pub(crate) enum MailError {
    #[error("the integration needs {0}")]
    Settings(&'static str),
    #[error(transparent)]
    Egress(EgressError),
    #[error(transparent)]
    Sent(Sent),
}

impl MailError {
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Settings(_) => false,
            Self::Egress(error) => matches!(error, EgressError::Silent { .. }),
            Self::Sent(error) => error.may_pass(),
        }
    }
}

impl From<Sent> for MailError {
    fn from(error: Sent) -> Self {
        match error {
            // In the words that tell an operator what to allow.
            Sent::Net(error) => Self::Egress(error.into()),
            other => Self::Sent(other),
        }
    }
}

/// `data`: host, port, from, to (a list), username, password, tls (`starttls`, `tls` or `none`).
pub(crate) async fn send(server: &Server, data: &Value, subject: &str, text: &str) -> Result<(), MailError> {
    let word = |name: &str| data.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let host = word("host").ok_or(MailError::Settings("`host`, the mail server"))?;
    server.inner.egress.allowed(host).map_err(MailError::Egress)?;
    let from =
        word("from").filter(|from| is_plain(from)).ok_or(MailError::Settings("`from`, an e-mail address"))?;
    let to: Vec<&str> = data["to"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if to.is_empty() || to.len() > RECIPIENTS_MAX || !to.iter().all(|one| is_plain(one)) {
        return Err(MailError::Settings("`to`, a list of up to 50 e-mail addresses"));
    }
    let (encryption, usual) = match word("tls").unwrap_or("starttls") {
        "none" => (Encryption::None, 587),
        "tls" => (Encryption::Tls, 465),
        _ => (Encryption::StartTls, 587),
    };
    let port = data["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(usual);
    let password = word("password").map(|password| Secret::new(password.to_owned()));
    let login = word("username").zip(password.as_ref());
    let letter = Letter { name: "Slipway", from, to: &to, subject, text, html: false };
    Ok(server.inner.egress.mail(&MailServer { host, port, encryption, login }, &letter).await?)
}
