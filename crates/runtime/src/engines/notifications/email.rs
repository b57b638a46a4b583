//! A mail of a notification: a service's configuration and a notice come in, a letter goes out by the room `net`.

use serde_json::Value;
use slipway_gitops::notify::Notice;
use slipway_model::Secret;
use slipway_net::{Client, Encryption, Letter, MailError, MailServer, Rules, Settings};

pub(super) async fn send(rules: &Rules, config: &Value, notice: &Notice) -> Result<(), String> {
    let text = |key: &str| config[key].as_str().unwrap_or_default().to_owned();
    let (host, from, user) = (text("host"), text("from"), text("username"));
    if host.is_empty() || from.is_empty() {
        return Err("`host` and `from` must be set".into());
    }
    let port = config["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(587);
    let password = Secret::new(text("password"));
    let server = MailServer {
        host: &host,
        port,
        // Port 465 speaks TLS from the first byte.
        encryption: if port == 465 { Encryption::Tls } else { Encryption::IfOffered },
        login: (!user.is_empty()).then_some((user.as_str(), &password)),
    };
    let own = &notice.content["email"];
    let body = own["body"].as_str().filter(|body| !body.is_empty());
    let letter = Letter {
        name: "",
        from: &from,
        to: &[&notice.recipient],
        subject: own["subject"].as_str().unwrap_or_default(),
        text: body.or(notice.content["message"].as_str()).unwrap_or_default(),
        html: config["html"] == true,
    };
    let client = Client::new(Settings { rules: rules.clone(), ..Settings::default() });
    client.map_err(|error| error.to_string())?.mail(&server, &letter).await.map_err(|error| match error {
        // Neither addresses nor names of hosts: they are the Secret's.
        MailError::Net(_) => "its address may not be asked, or does not answer".to_owned(),
        MailError::Address(_) => "an address is not a mail address".to_owned(),
        other => other.to_string(),
    })
}
