//! A letter by SMTP: `lettre` holds the conversation, here is where it goes and what is in it.
//!
//! The mail server's name is resolved and checked like any other; the conversation goes to the address that was checked,
//! and the certificate has to be of the name. Everything in a letter is encoded, so that no text of a commit can become
//! a header or the end of the message.

use std::time::Duration;

use lettre::address::Envelope;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use slipway_model::Secret;

use crate::{Client, NetError};

const DEADLINE: Duration = Duration::from_secs(30);
const SUBJECT_CHARS_MAX: usize = 200;

/// How a mail server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    None,
    /// From the first byte.
    Tls,
    StartTls,
    /// `STARTTLS` if it offers that. A password is not sent without.
    IfOffered,
}

pub struct MailServer<'a> {
    pub host: &'a str,
    pub port: u16,
    pub encryption: Encryption,
    pub login: Option<(&'a str, &'a Secret<String>)>,
}

pub struct Letter<'a> {
    /// The name beside the sender's address; empty: none.
    pub name: &'a str,
    pub from: &'a str,
    pub to: &'a [&'a str],
    pub subject: &'a str,
    pub text: &'a str,
    pub html: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum MailError {
    #[error("`{0}` is not an e-mail address")]
    Address(String),
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("the mail server said: {0}")]
    Refused(String),
    #[error("lost the connection to the mail server: {0}")]
    Broken(String),
    #[error("the mail server did not answer in time")]
    Slow,
}

impl MailError {
    /// Trying again later may help.
    pub fn may_pass(&self) -> bool {
        match self {
            // 4xx is SMTP's word for later.
            Self::Refused(said) => said.starts_with('4'),
            Self::Broken(_) | Self::Slow | Self::Net(NetError::Silent { .. }) => true,
            Self::Address(_) | Self::Net(_) => false,
        }
    }
}

impl Client {
    pub async fn mail(&self, server: &MailServer<'_>, letter: &Letter<'_>) -> Result<(), MailError> {
        let envelope = letter.envelope()?;
        let found = self.checked().look_up(server.host, server.port).await?;
        let silent = || NetError::Silent { host: server.host.to_owned() };
        let address = found.first().ok_or_else(silent)?.ip();
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.to_string())
            .port(server.port)
            .hello_name(ClientId::Domain("slipway".to_owned()))
            .timeout(Some(self.limits().connect))
            .tls(tls(server).map_err(|_| silent())?);
        if let Some((name, password)) = server.login {
            builder = builder
                .credentials(Credentials::new(name.to_owned(), password.expose().clone()))
                .authentication(vec![Mechanism::Plain]);
        }
        let transport = builder.build::<Tokio1Executor>();
        let text = letter.write();
        match tokio::time::timeout(DEADLINE, transport.send_raw(&envelope, text.as_bytes())).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(of_smtp(&error)),
            Err(_) => Err(MailError::Slow),
        }
    }
}

fn tls(server: &MailServer<'_>) -> Result<Tls, lettre::transport::smtp::Error> {
    // The certificate is of the name, whatever address it was resolved to.
    let parameters = || TlsParameters::builder(server.host.to_owned()).build_rustls();
    let local = matches!(server.host, "localhost" | "127.0.0.1" | "::1");
    Ok(match server.encryption {
        Encryption::None => Tls::None,
        Encryption::Tls => Tls::Wrapper(parameters()?),
        Encryption::StartTls => Tls::Required(parameters()?),
        // A password is not sent in the open, except to this very machine.
        Encryption::IfOffered if server.login.is_some() && !local => Tls::Required(parameters()?),
        Encryption::IfOffered => Tls::Opportunistic(parameters()?),
    })
}

fn of_smtp(error: &lettre::transport::smtp::Error) -> MailError {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    let words: String = words.chars().filter(|c| !c.is_control()).take(200).collect();
    match error.status() {
        Some(code) => MailError::Refused(format!("{code} {words}")),
        None if error.is_timeout() => MailError::Slow,
        None => MailError::Broken(words),
    }
}

impl Letter<'_> {
    fn envelope(&self) -> Result<Envelope, MailError> {
        let address = |text: &str| -> Result<Address, MailError> {
            let wrong = || MailError::Address(text.escape_debug().take(100).collect());
            if !is_plain(text) {
                return Err(wrong());
            }
            text.parse().map_err(|_| wrong())
        };
        let to = self.to.iter().map(|to| address(to)).collect::<Result<Vec<_>, _>>()?;
        let nobody = |_| MailError::Address(String::new());
        Envelope::new(Some(address(self.from)?), to).map_err(nobody)
    }

    fn write(&self) -> String {
        let subject: String = self.subject.chars().take(SUBJECT_CHARS_MAX).collect();
        let kind = if self.html { "text/html" } else { "text/plain" };
        let from = if self.name.is_empty() {
            self.from.to_owned()
        } else {
            format!("{} <{}>", self.name, self.from)
        };
        format!(
            "From: {from}\r\nTo: {}\r\nSubject: =?utf-8?B?{}?=\r\nMIME-Version: 1.0\r\nContent-Type: {kind}; \
             charset=utf-8\r\nContent-Transfer-Encoding: base64\r\nAuto-Submitted: auto-generated\r\n\r\n{}\r\n",
            self.to.join(", "),
            encoded(&subject),
            folded(&encoded(self.text)),
        )
    }
}

fn encoded(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn folded(text: &str) -> String {
    let lines = text.as_bytes().chunks(76).map(String::from_utf8_lossy);
    lines.collect::<Vec<_>>().join("\r\n")
}

/// Nothing that could end a line or an angle bracket early.
pub fn is_plain(address: &str) -> bool {
    address.contains('@')
        && address.len() <= 254
        && address.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,;\"\\".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_commit_becomes_a_header_or_the_end() {
        let letter = Letter {
            name: "Slipway",
            from: "ci@example.com",
            to: &["a@example.com"],
            subject: "x\r\nBcc: evil@example.com",
            text: "hello\r\n.\r\nRCPT TO:<evil@example.com>",
            html: false,
        };
        let text = letter.write();
        assert!(!text.contains("evil"), "{text}");
        assert!(!text.contains("\r\n."), "no line begins with a dot: {text}");
        for bad in ["a", "a@b>", "a@b\r\nX: y", "a b@c", "a@b,c@d", "a@b\0", "ä@b.example", "@", ""] {
            let wrong = Letter { from: bad, ..letter };
            assert!(matches!(wrong.envelope(), Err(MailError::Address(_))), "{bad}");
            let wrong = Letter { to: &["a@example.com", bad], ..letter };
            assert!(matches!(wrong.envelope(), Err(MailError::Address(_))), "{bad}");
        }
        assert!(matches!(Letter { to: &[], ..letter }.envelope(), Err(MailError::Address(_))));
    }
}
