//! A mail by SMTP: one connection, STARTTLS or TLS where there is any, one message.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use serde_json::Value;
use slipway_gitops::notify::Notice;
use slipway_net::{Client, Rules, Settings};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const DEADLINE: Duration = Duration::from_secs(30);

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

pub(super) async fn send(rules: &Rules, config: &Value, notice: &Notice) -> Result<(), String> {
    match tokio::time::timeout(DEADLINE, send_now(rules, config, notice)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("it did not take the mail within {} s", DEADLINE.as_secs())),
    }
}

async fn send_now(rules: &Rules, config: &Value, notice: &Notice) -> Result<(), String> {
    let text = |key: &str| config[key].as_str().unwrap_or_default().to_owned();
    let (host, from) = (text("host"), text("from"));
    if host.is_empty() || from.is_empty() {
        return Err("`host` and `from` must be set".into());
    }
    let port = config["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(587);
    let client = Client::new(Settings { rules: rules.clone(), ..Settings::default() });
    let client = client.map_err(|error| error.to_string())?;
    let stream = client.connect(&host, port).await.map_err(|error| error.to_string())?;
    // Port 465 speaks TLS from the first byte.
    let mut session = if port == 465 {
        Session::new(encrypt(Box::new(stream), &host).await?)
    } else {
        Session::new(Box::new(stream))
    };
    session.expect(220).await?;
    let mut offers = session.hello().await?;
    if port != 465 && offers.iter().any(|line| line.eq_ignore_ascii_case("STARTTLS")) {
        session.say("STARTTLS").await?;
        session.expect(220).await?;
        session = Session::new(encrypt(session.into_wire(), &host).await?);
        offers = session.hello().await?;
        session.encrypted = true;
    }
    session.encrypted |= port == 465;
    let (user, password) = (text("username"), text("password"));
    if !user.is_empty() {
        // A password is not sent in the open, except to this very machine.
        if !session.encrypted && !matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1") {
            return Err("it offers no encryption, so the password is not sent".into());
        }
        if !offers.iter().any(|line| line.to_ascii_uppercase().starts_with("AUTH")) {
            return Err("it takes no user names".into());
        }
        let secret = base64::engine::general_purpose::STANDARD.encode(format!("\0{user}\0{password}"));
        session.say(&format!("AUTH PLAIN {secret}")).await?;
        session.expect(235).await?;
    }
    session.say(&format!("MAIL FROM:<{}>", address(&from)?)).await?;
    session.expect(250).await?;
    session.say(&format!("RCPT TO:<{}>", address(&notice.recipient)?)).await?;
    session.expect(250).await?;
    session.say("DATA").await?;
    session.expect(354).await?;
    session.say(&mail(&from, config["html"] == true, notice)).await?;
    session.say(".").await?;
    session.expect(250).await?;
    // It has the mail; whether it says goodbye does not matter.
    let _ = session.say("QUIT").await;
    Ok(())
}

/// A name that could end the line would be a command.
fn address(text: &str) -> Result<&str, String> {
    let bad = |c: char| c.is_control() || c.is_whitespace() || c == '<' || c == '>';
    if text.contains('@') && !text.contains(bad) {
        Ok(text)
    } else {
        Err("an address is not a mail address".into())
    }
}

fn mail(from: &str, html: bool, notice: &Notice) -> String {
    let own = &notice.content["email"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let subject = text(&own["subject"]).replace(['\r', '\n'], " ");
    let body = Some(text(&own["body"]))
        .filter(|body| !body.is_empty())
        .unwrap_or_else(|| text(&notice.content["message"]));
    let encoded = base64::engine::general_purpose::STANDARD.encode(body);
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(76).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let subject = base64::engine::general_purpose::STANDARD.encode(subject);
    let kind = if html { "text/html" } else { "text/plain" };
    format!(
        "From: {from}\r\nTo: {}\r\nSubject: =?UTF-8?B?{subject}?=\r\nMIME-Version: 1.0\r\nContent-Type: {kind}; \
         charset=UTF-8\r\nContent-Transfer-Encoding: base64\r\n\r\n{}",
        notice.recipient,
        lines.join("\r\n")
    )
}

async fn encrypt(wire: Box<dyn Wire>, host: &str) -> Result<Box<dyn Wire>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|_| "its host has no name".to_owned())?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, wire).await;
    Ok(Box::new(stream.map_err(|error| error.to_string())?))
}

struct Session {
    wire: BufReader<Box<dyn Wire>>,
    encrypted: bool,
}

impl Session {
    fn new(wire: Box<dyn Wire>) -> Self {
        Self { wire: BufReader::new(wire), encrypted: false }
    }

    fn into_wire(self) -> Box<dyn Wire> {
        self.wire.into_inner()
    }

    async fn say(&mut self, line: &str) -> Result<(), String> {
        self.wire
            .get_mut()
            .write_all(format!("{line}\r\n").as_bytes())
            .await
            .map_err(|error| error.to_string())?;
        self.wire.get_mut().flush().await.map_err(|error| error.to_string())
    }

    async fn hello(&mut self) -> Result<Vec<String>, String> {
        self.say("EHLO slipway").await?;
        self.expect(250).await
    }

    /// The lines of an answer with this code.
    async fn expect(&mut self, code: u16) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.wire.read_line(&mut line).await.map_err(|error| error.to_string())?;
            if read == 0 || line.len() > 4096 || lines.len() > 100 {
                return Err("it ended the conversation".into());
            }
            let (found, rest) = line.trim_end().split_at_checked(3).ok_or("its answer is unreadable")?;
            if found.parse() != Ok(code) {
                return Err(format!("it answers {found}"));
            }
            lines.push(rest.trim_start_matches(['-', ' ']).to_owned());
            if !rest.starts_with('-') {
                return Ok(lines);
            }
        }
    }
}
