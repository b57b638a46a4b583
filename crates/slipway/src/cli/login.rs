//! Signing in from a terminal: a password once, an API key of one's own from then on.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::bail;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use slipway_api::auth::User;
use slipway_model::Secret;

use super::context;

/// Signs in, makes a key, keeps it as a context, and signs out again: the session was only for making the key.
pub(crate) async fn login(name: &str, url: &str, email: &str, piped: bool) -> anyhow::Result<User> {
    let url = url.trim_end_matches('/');
    let password = ask_password(email, piped)?;
    let http = reqwest::Client::new();
    let body = json!({"email": email, "password": password.expose()});
    let answer = http
        .post(format!("{url}/api/auth/login"))
        .json(&body)
        .send()
        .await
        .map_err(|source| slipway_api::ClientError::Unreachable { url: url.to_owned(), source })?;
    let cookie = answer
        .headers()
        .get("set-cookie")
        .and_then(|value| value.to_str().ok())
        .map(first)
        .unwrap_or_default();
    let user: User = accepted(answer).await?;
    let csrf = user.csrf_token.clone().unwrap_or_default();
    let machine = std::env::var("HOSTNAME").unwrap_or_else(|_| "a terminal".into());
    let call = |path: &str, body: Value| {
        let request =
            http.post(format!("{url}{path}")).header("cookie", &cookie).header("x-csrf-token", &csrf);
        request.json(&body).send()
    };
    let made = call("/api/auth/key", json!({"name": format!("slipway auth login on {machine}")})).await?;
    let key: String = accepted(made).await?;
    call("/api/auth/logout", json!({})).await?;
    context::save(name, url, &key)?;
    Ok(user)
}

fn first(cookie: &str) -> String {
    cookie.split(';').next().unwrap_or_default().to_owned()
}

async fn accepted<T: serde::de::DeserializeOwned>(answer: reqwest::Response) -> anyhow::Result<T> {
    let status = answer.status();
    let text = answer.text().await?;
    if status.is_success() {
        return Ok(serde_json::from_str(&text)?);
    }
    let said: Value = serde_json::from_str(&text).unwrap_or_default();
    bail!("{}", said["message"].as_str().unwrap_or("the server refused to sign you in"))
}

/// From a terminal without showing it, or the first line of what is piped in.
fn ask_password(email: &str, piped: bool) -> anyhow::Result<Secret<String>> {
    let stdin = std::io::stdin();
    let mut line = String::new();
    if piped || !stdin.is_terminal() {
        stdin.lock().read_line(&mut line)?;
        let password = line.trim_end_matches(['\r', '\n']);
        if password.is_empty() {
            bail!("there is no terminal to ask for the password: pipe it in with --password-stdin");
        }
        return Ok(Secret::new(password.to_owned()));
    }
    crate::say::note(format_args!("Password of {email}: "));
    std::io::stderr().flush()?;
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    let read = stdin.lock().read_line(&mut line);
    tcsetattr(&stdin, OptionalActions::Flush, &before)?;
    note!("");
    read?;
    Ok(Secret::new(line.trim_end_matches(['\r', '\n']).to_owned()))
}
