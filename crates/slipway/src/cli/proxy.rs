//! What is asked of a runtime's app-proxy: the platform gives a pass for it and says where, and the runtime sees nothing but the pass.

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_api::Client;
use slipway_api::application::{Application, Pass, ProxyOperation, ProxyQuestion};
use slipway_api::git_proxy::told;
use slipway_model::Secret;

use super::nouns::part;

/// `what` is an operation, and behind a `?` what else goes into the address.
pub(crate) async fn look<A: DeserializeOwned>(
    client: &Client,
    app: &Application,
    what: &str,
) -> anyhow::Result<A> {
    let (runtime, path) = admitted(client, app, what, None).await?;
    Ok(runtime.get(&path).await?)
}

pub(crate) async fn order<B: Serialize + ?Sized, A: DeserializeOwned>(
    client: &Client,
    app: &Application,
    what: &str,
    body: &B,
) -> anyhow::Result<A> {
    let body = serde_json::to_value(body)?;
    let (runtime, path) = admitted(client, app, what, Some(body.clone())).await?;
    Ok(runtime.post(&path, &body).await?)
}

/// A client that shows a pass, and the path to ask. `detail` is the body that will be sent: the pass is good for no other.
pub(crate) async fn admitted(
    client: &Client,
    app: &Application,
    what: &str,
    detail: Option<Value>,
) -> anyhow::Result<(Client, String)> {
    let (word, query) = what.split_once('?').map_or((what, None), |(word, query)| (word, Some(query)));
    let question = ProxyQuestion {
        operation: operation(word)?,
        namespace: app.namespace.clone(),
        name: app.name.clone(),
        detail: detail.map(|body| Ok::<_, anyhow::Error>(told(operation(word)?, &body))).transpose()?,
    };
    let runtime = shown(client, &app.runtime, &question).await?;
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let path =
        format!("/app-proxy/api/applications/{}/{}/{word}{query}", part(&app.namespace), part(&app.name));
    Ok((runtime, path))
}

/// What is about no Application: with the caller's own Git token. `query` begins with `?`, or is empty.
pub(crate) async fn git<A: DeserializeOwned>(
    client: &Client,
    runtime: &str,
    word: &str,
    query: &str,
    body: Option<Value>,
) -> anyhow::Result<A> {
    let operation = operation(word)?;
    // The platform hears neither the token nor what is in files.
    let detail = body.as_ref().map(|body| told(operation, body));
    let question = ProxyQuestion { operation, namespace: String::new(), name: String::new(), detail };
    let at = shown(client, runtime, &question).await?;
    let path = format!("/app-proxy/api/git/{word}{query}");
    Ok(match body {
        Some(body) => at.post(&path, &body).await?,
        None => at.get(&path).await?,
    })
}

/// What is about a cluster of the runtime.
pub(crate) async fn cluster<A: DeserializeOwned>(
    client: &Client,
    runtime: &str,
    word: &str,
    body: Value,
) -> anyhow::Result<A> {
    let operation = operation(word)?;
    // The platform hears no token.
    let detail = Some(slipway_api::git_proxy::told(operation, &body));
    let question = ProxyQuestion { operation, namespace: String::new(), name: String::new(), detail };
    let at = shown(client, runtime, &question).await?;
    Ok(at.post(&format!("/app-proxy/api/clusters/{word}"), &body).await?)
}

/// What is about the runtime itself.
pub(crate) async fn runtime<B: Serialize, A: DeserializeOwned>(
    client: &Client,
    runtime: &str,
    word: &str,
    body: &B,
) -> anyhow::Result<A> {
    let body = serde_json::to_value(body)?;
    let operation = operation(word)?;
    let detail = Some(told(operation, &body));
    let question = ProxyQuestion { operation, namespace: String::new(), name: String::new(), detail };
    let at = shown(client, runtime, &question).await?;
    Ok(at.post(&format!("/app-proxy/api/runtime/{word}"), &body).await?)
}

fn operation(word: &str) -> anyhow::Result<ProxyOperation> {
    let found = ProxyOperation::ALL.iter().copied().find(|operation| operation.word() == word);
    found.with_context(|| format!("there is no operation `{word}`"))
}

/// A client of the runtime that shows a pass.
async fn shown(client: &Client, runtime: &str, question: &ProxyQuestion) -> anyhow::Result<Client> {
    let pass: Pass = client.post(&format!("/api/runtimes/{}/pass", part(runtime)), question).await?;
    // Without a host it is on the platform's own address.
    let base = if pass.url.starts_with('/') { format!("{}{}", client.base(), pass.url) } else { pass.url };
    Ok(Client::new(base, Secret::new(format!("Bearer {}", pass.token))))
}
