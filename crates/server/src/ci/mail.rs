//! E-mail by SMTP, as little of it as sending one message needs. Where it may connect to is asked of [`crate::http::egress`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use crate::ctx::Server;
use crate::http::egress::EgressError;

const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
const RECIPIENTS_MAX: usize = 50;

#[derive(Debug, thiserror::Error)]
pub(crate) enum MailError {
    #[error("the integration needs {0}")]
    Settings(&'static str),
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("the mail server said: {0}")]
    Refused(String),
    #[error("lost the connection to the mail server: {0}")]
    Broken(#[from] std::io::Error),
    #[error("the mail server did not answer in time")]
    Slow,
}

impl MailError {
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            // 4xx is SMTP's word for later.
            Self::Refused(said) => said.starts_with('4'),
            Self::Broken(_) | Self::Slow | Self::Egress(EgressError::Silent { .. }) => true,
            _ => false,
        }
    }
}

/// `data`: host, port, from, to (a list), username, password, tls (`starttls`, `tls` or `none`).
pub(crate) async fn send(server: &Server, data: &Value, subject: &str, text: &str) -> Result<(), MailError> {
    let word = |name: &str| data.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let host = word("host").ok_or(MailError::Settings("`host`, the mail server"))?;
    let from =
        word("from").filter(|from| address(from)).ok_or(MailError::Settings("`from`, an e-mail address"))?;
    let to: Vec<&str> = data["to"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if to.is_empty() || to.len() > RECIPIENTS_MAX || !to.iter().all(|one| address(one)) {
        return Err(MailError::Settings("`to`, a list of up to 50 e-mail addresses"));
    }
    let tls = word("tls").unwrap_or("starttls");
    let port = data["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(match tls {
        "tls" => 465,
        _ => 587,
    });
    let letter = Letter { from, to: &to, subject, text, login: word("username").zip(word("password")) };
    let sending = async {
        let stream = server.inner.egress.connect(host, port).await?;
        match tls {
            "none" => converse(&mut BufReader::new(stream), &letter, true).await,
            "tls" => {
                let mut secured = BufReader::new(server.inner.egress.secure(host, stream).await?);
                converse(&mut secured, &letter, true).await
            }
            _ => {
                let mut plain = BufReader::new(stream);
                expect(&mut plain, "220").await?;
                command(&mut plain, "EHLO slipway", "250").await?;
                command(&mut plain, "STARTTLS", "220").await?;
                let mut secured = BufReader::new(server.inner.egress.secure(host, plain.into_inner()).await?);
                converse(&mut secured, &letter, false).await
            }
        }
    };
    tokio::time::timeout(TIMEOUT, sending).await.map_err(|_| MailError::Slow)?
}

/// Nothing that could end a line or an angle bracket early.
fn address(text: &str) -> bool {
    text.contains('@')
        && text.len() <= 254
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,;\"\\".contains(&byte))
}

struct Letter<'a> {
    from: &'a str,
    to: &'a [&'a str],
    subject: &'a str,
    text: &'a str,
    login: Option<(&'a str, &'a str)>,
}

impl Letter<'_> {
    /// Everything is encoded, so that no text of a commit can become a header or the end of the message.
    fn write(&self) -> String {
        let subject: String = self.subject.chars().take(200).collect();
        let body = STANDARD.encode(self.text);
        let lines: Vec<_> = body.as_bytes().chunks(76).map(String::from_utf8_lossy).collect();
        format!(
            "From: Slipway <{}>\r\nTo: {}\r\nSubject: =?utf-8?B?{}?=\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; \
             charset=utf-8\r\nContent-Transfer-Encoding: base64\r\nAuto-Submitted: auto-generated\r\n\r\n{}\r\n.",
            self.from,
            self.to.join(", "),
            STANDARD.encode(subject),
            lines.join("\r\n")
        )
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    line: &mut BufReader<S>,
    letter: &Letter<'_>,
    greeted: bool,
) -> Result<(), MailError> {
    if greeted {
        expect(line, "220").await?;
    }
    command(line, "EHLO slipway", "250").await?;
    if let Some((user, password)) = letter.login {
        let token = STANDARD.encode(format!("\0{user}\0{password}"));
        command(line, &format!("AUTH PLAIN {token}"), "235").await?;
    }
    command(line, &format!("MAIL FROM:<{}>", letter.from), "250").await?;
    for to in letter.to {
        command(line, &format!("RCPT TO:<{to}>"), "25").await?;
    }
    command(line, "DATA", "354").await?;
    command(line, &letter.write(), "250").await?;
    // It has the message; how it says goodbye changes nothing.
    let _ = command(line, "QUIT", "221").await;
    Ok(())
}

async fn command<S: AsyncRead + AsyncWrite + Unpin>(
    line: &mut BufReader<S>,
    text: &str,
    good: &str,
) -> Result<(), MailError> {
    line.get_mut().write_all(format!("{text}\r\n").as_bytes()).await?;
    line.get_mut().flush().await?;
    expect(line, good).await
}

async fn expect<S: AsyncRead + AsyncWrite + Unpin>(
    line: &mut BufReader<S>,
    good: &str,
) -> Result<(), MailError> {
    loop {
        let mut said = String::new();
        if line.read_line(&mut said).await? == 0 {
            return Err(MailError::Broken(std::io::ErrorKind::UnexpectedEof.into()));
        }
        // A hyphen after the code: more lines come.
        if said.as_bytes().get(3) == Some(&b'-') {
            continue;
        }
        let said: String = said.trim().chars().take(200).collect();
        return if said.starts_with(good) { Ok(()) } else { Err(MailError::Refused(said)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_commit_becomes_a_header_or_the_end() {
        let letter = Letter {
            from: "ci@example.com",
            to: &["a@example.com"],
            subject: "x\r\nBcc: evil@example.com",
            text: "hello\r\n.\r\nRCPT TO:<evil@example.com>",
            login: None,
        };
        let text = letter.write();
        assert!(!text.contains("evil"), "{text}");
        assert_eq!(text.matches("\r\n.").count(), 1);
        for bad in ["a", "a@b>", "a@b\r\nX: y", "a b@c", "a@b,c@d"] {
            assert!(!address(bad), "{bad}");
        }
    }
}
