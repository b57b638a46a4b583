//! How this runner comes to its key: with a registration token the first time, from its data folder after that.
//!
//! The secret is made here and written down before it is used, so a registration that is cut off anywhere is done
//! again with the same secret and ends with the same key. The server never sees it, only its digest.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use slipway_api::agent::{RegisterRunner, RegisteredRunner};
use slipway_api::{Client, ClientError, ErrorBody};
use slipway_model::Secret;

use crate::layout::{Lasting, create_private_dir, read_json, write_json};
use crate::uplink::Backoff;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Serialize, Deserialize)]
struct Kept {
    server: String,
    secret: String,
    /// Of the token that the secret was made for; a new token is a new registration.
    token_digest: String,
    registered: Option<RegisteredRunner>,
}

/// The runner's name and a client with its key. Waits for a server that is away.
pub async fn registered(
    server: &str,
    token: Option<&Secret<String>>,
    data: &Path,
    ca: Option<&[u8]>,
) -> anyhow::Result<(String, Client)> {
    create_private_dir(data).with_context(|| format!("cannot use the data folder {}", data.display()))?;
    let server = server.trim_end_matches('/');
    let path = data.join("registration.json");
    let digest = token.map(|token| hex::encode(Sha256::digest(token.expose())));
    let kept: Option<Kept> = read_json(&path)?;
    let usable = kept.filter(|kept| {
        kept.server == server && digest.as_ref().is_none_or(|digest| *digest == kept.token_digest)
    });
    let mut kept = match (usable, token, digest) {
        (Some(kept), _, _) => kept,
        (None, Some(_), Some(token_digest)) => {
            let mut random = [0; 20];
            getrandom::fill(&mut random)?;
            let secret = hex::encode(random);
            let fresh = Kept { server: server.to_owned(), secret, token_digest, registered: None };
            write_json(&path, &fresh, Lasting::Now)?;
            fresh
        }
        _ => bail!(
            "this runner is not registered with {server}: make a token there with `slipway runner token NAME` and give it with --token or SLIPWAY_RUNNER_TOKEN"
        ),
    };
    let registered = match kept.registered.clone() {
        Some(registered) => registered,
        None => {
            let token = token.context("the registration was cut off: give the same token again")?;
            let registered = register(server, token, &kept.secret, ca).await?;
            kept.registered = Some(registered.clone());
            write_json(&path, &kept, Lasting::Now)?;
            tracing::info!(runner = %registered.name, "Registered.");
            registered
        }
    };
    let key = Secret::new(format!("{}.{}", registered.key_id, kept.secret));
    let client = Client::trusting(server, key, ca).map_err(anyhow::Error::msg)?;
    Ok((registered.name, client))
}

async fn register(
    server: &str,
    token: &Secret<String>,
    secret: &str,
    ca: Option<&[u8]>,
) -> anyhow::Result<RegisteredRunner> {
    let body =
        RegisterRunner { token: token.expose().clone(), secret_digest: hex::encode(Sha256::digest(secret)) };
    let url = format!("{server}/api/agent/runner/register");
    // The token goes to the address that was given and nowhere else.
    let http = slipway_api::client::http(server, ca).map_err(anyhow::Error::msg)?;
    let mut backoff = Backoff::new(Duration::from_secs(10));
    loop {
        let why = match http.post(&url).timeout(CALL_TIMEOUT).json(&body).send().await {
            Ok(answer) if answer.status().is_success() => return Ok(answer.json().await?),
            Ok(answer) if answer.status().is_redirection() => {
                bail!("{server} sends callers elsewhere: give the address that it sends them to");
            }
            Ok(answer) if answer.status().is_client_error() && answer.status().as_u16() != 429 => {
                let status = answer.status();
                let text = answer.text().await.unwrap_or_default();
                let said = serde_json::from_str::<ErrorBody>(&text).map_or(text, |body| body.message);
                bail!("{server} did not register this runner ({status}): {said}");
            }
            Ok(answer) => format!("it answered {}", answer.status()),
            Err(error) => {
                if let Some(why) = slipway_api::untrusted(&error) {
                    // Waiting makes no certificate better, and the token must not go to whoever shows this one.
                    return Err(ClientError::Untrusted { url: server.to_owned(), why }.into());
                }
                format!("{:#}", anyhow::Error::from(error))
            }
        };
        let why = match why.contains("UnknownIssuer") {
            true => {
                format!("{why}: if its certificate is a private authority's, give that one with --ca FILE")
            }
            false => why,
        };
        tracing::warn!(server, why, "Not registered yet; retrying.");
        backoff.pause().await;
    }
}
