//! How generators ask by HTTP: through the room `net`, with this runtime's rules about addresses.

use std::time::Duration;

use serde_json::{Map, Value, json};
use slipway_forge::lists::{AskError, Carrier};
use slipway_forge::remote;
use slipway_gitops::appset::Answer;
use slipway_model::Secret;
use slipway_net::{Client, Limits, NetError, Proxy, Request, Rules, Settings, Trust};

/// One answer may have so many bytes.
const BODY_BYTES_MAX: u64 = 8 << 20;

/// Redirects are given as they are: the token of a host is for that host.
pub(crate) fn client(rules: &Rules, timeout: Duration, trust: Trust) -> Result<Client, String> {
    client_by(rules, timeout, trust, Proxy::Environment)
}

pub(super) fn client_by(
    rules: &Rules,
    timeout: Duration,
    trust: Trust,
    proxy: Proxy,
) -> Result<Client, String> {
    let limits = Limits { whole: timeout, bytes: BODY_BYTES_MAX, ..Limits::default() };
    let settings = Settings { rules: rules.clone(), limits, trust, proxy, names: None };
    Client::new(settings).map_err(|error| error.to_string())
}

/// Brings calls to the API of a Git host.
pub(crate) struct Way {
    pub(crate) client: Client,
    /// Without a slash at the end, the API's own path included.
    pub(crate) api: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// For Amazon's hosts.
    pub(super) session: Option<super::aws::Session>,
}

impl Way {
    /// To a host that is no Amazon's.
    pub(crate) fn plain(client: Client, api: String, headers: Vec<(&'static str, String)>) -> Self {
        Self { client, api, headers, session: None }
    }
}

impl Carrier for Way {
    fn api(&self) -> &str {
        &self.api
    }

    async fn carry(&self, call: &remote::Call) -> Result<remote::Answer, String> {
        let url = format!("{}{}", self.api, call.path);
        let body = call.body.as_ref().map(|body| body.to_string().into_bytes());
        let bearer = call.bearer.as_ref().map(|bearer| format!("Bearer {}", bearer.expose()));
        let kind = body.is_some().then_some(("content-type", "application/json"));
        let own = self.headers.iter().filter(|(name, _)| bearer.is_none() || *name != "authorization");
        let secrets: Vec<_> = own
            .map(|(name, value)| (*name, value.as_str()))
            .chain(bearer.as_deref().map(|bearer| ("authorization", bearer)))
            .chain(kind)
            .collect();
        let request = Request {
            method: call.method,
            url: &url,
            secrets: &secrets,
            body: body.as_deref(),
            ..Request::default()
        };
        let answer = self.client.send(request).await.map_err(|error| words(&url, &error))?;
        let link = answer.header("link").map(str::to_owned);
        Ok(remote::Answer { status: answer.status, body: answer.body, link })
    }

    async fn act(&self, service: &str, target: &str, input: &Value) -> Result<remote::Answer, String> {
        match &self.session {
            Some(session) => session.act(service, target, input).await,
            None => Err("nobody signed in to AWS; this is a defect of ours".into()),
        }
    }
}

/// Sends a text, and gives whatever the answer is.
pub(super) async fn post(
    client: &Client,
    url: &str,
    headers: &[(&str, String)],
    body: &str,
) -> Result<remote::Answer, String> {
    let secrets: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let request =
        Request { method: "POST", secrets: &secrets, body: Some(body.as_bytes()), ..Request::get(url) };
    let answer = client.send(request).await.map_err(|error| words(url, &error))?;
    Ok(remote::Answer { status: answer.status, body: answer.body, link: None })
}

/// Where it failed, without the query, where tokens hide.
fn words(url: &str, error: &NetError) -> String {
    format!("{}: {error}", slipway_net::shown(url))
}

/// A plugin, as its ConfigMap describes it.
pub(super) struct PluginSettings {
    pub(super) base_url: String,
    pub(super) token: Secret<String>,
    pub(super) timeout_seconds: u64,
}

/// `POST /api/v1/getparams.execute`.
pub(super) async fn ask_plugin(
    rules: &Rules,
    settings: &PluginSettings,
    set_name: &str,
    parameters: &Value,
) -> Result<Answer, String> {
    let url = format!("{}/api/v1/getparams.execute", settings.base_url.trim_end_matches('/'));
    let headers = [
        ("authorization", format!("Bearer {}", settings.token.expose())),
        ("content-type", "application/json".to_owned()),
    ];
    let body = json!({"applicationSetName": set_name, "input": {"parameters": parameters}});
    let timeout = Duration::from_secs(settings.timeout_seconds.clamp(1, 300));
    let client = client(rules, timeout, Trust::default())?;
    let answer = post(&client, &url, &headers, &body.to_string()).await?;
    let answer = answer.read(&slipway_net::shown(&url)).map_err(AskError::into_message)?;
    let found: Option<Vec<Map<String, Value>>> =
        serde_json::from_value(answer["output"]["parameters"].clone()).ok();
    found
        .map(Answer::Parameters)
        .ok_or_else(|| format!("{url} must answer {{\"output\": {{\"parameters\": [{{…}}]}}}}"))
}
