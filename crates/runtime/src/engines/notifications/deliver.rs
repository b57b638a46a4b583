//! One message to one service: most are a POST of JSON to an address that the service's configuration names.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use slipway_gitops::notify::{Notice, Service};
use slipway_net::{NetError, Request, Rules, Trust};

use super::email;

const DEADLINE: Duration = Duration::from_secs(20);

/// A request that a service wants.
#[derive(Debug, PartialEq)]
struct Post {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// Sends. The words of a failure hold neither addresses nor secrets.
pub(in crate::engines) async fn deliver(
    rules: &Rules,
    service: &Service,
    notice: &Notice,
    secrets: &BTreeMap<String, String>,
) -> Result<(), String> {
    let config = with_secrets(&service.config, secrets);
    if service.kind == "email" {
        return email::send(rules, &config, notice).await;
    }
    let post = request(&service.kind, &notice.service, &config, notice)?;
    let trust = Trust { insecure: config["insecureSkipVerify"] == true, ..Trust::default() };
    let client = crate::engines::application_sets::http::client(rules, DEADLINE, trust)?;
    let secrets: Vec<_> = post.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let request = Request {
        method: &post.method,
        url: &post.url,
        secrets: &secrets,
        body: Some(post.body.as_bytes()),
        ..Request::default()
    };
    let answer = client.send(request).await.map_err(|error| words(&error))?;
    if !answer.is_success() {
        return Err(format!("it answers {}", answer.status));
    }
    if service.kind == "slack" {
        // Slack answers 200 with the truth inside.
        let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer["ok"] == false {
            return Err(format!("it answers {}", answer["error"].as_str().unwrap_or("an error")));
        }
    }
    Ok(())
}

/// What went wrong, without where: addresses of webhooks are secrets.
fn words(error: &NetError) -> String {
    match error {
        NetError::Address(_) => "its address is not an address".to_owned(),
        NetError::Forbidden { .. } => "its address may not be asked".to_owned(),
        NetError::Unreachable { detail, .. } => detail.clone(),
        NetError::TooLarge { .. } => "its answer is too large".to_owned(),
        NetError::Silent { .. } | NetError::Redirect { .. } => "it does not answer".to_owned(),
        NetError::Settings(what) => what.clone(),
    }
}

/// `$key` anywhere in a service's configuration stands for a value of the Secret.
fn with_secrets(value: &Value, secrets: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) if text.contains('$') => {
            let mut text = text.clone();
            // Long names first, so that `$token` does not eat the beginning of `$token-b`.
            let mut names: Vec<_> = secrets.keys().collect();
            names.sort_by_key(|name| std::cmp::Reverse(name.len()));
            for name in names {
                text = text.replace(&format!("${name}"), &secrets[name]);
            }
            Value::String(text)
        }
        Value::Array(items) => items.iter().map(|item| with_secrets(item, secrets)).collect(),
        Value::Object(entries) => Value::Object(
            entries.iter().map(|(key, value)| (key.clone(), with_secrets(value, secrets))).collect(),
        ),
        other => other.clone(),
    }
}

fn request(kind: &str, name: &str, config: &Value, notice: &Notice) -> Result<Post, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let message = text(&notice.content["message"]);
    let recipient = notice.recipient.as_str();
    let own = &notice.content[kind];
    let setting = |key: &str| {
        let value = text(&config[key]);
        if value.is_empty() { Err(format!("`{key}` is not set")) } else { Ok(value) }
    };
    let base = |key: &str, default: &str| {
        let value = text(&config[key]);
        if value.is_empty() { default.to_owned() } else { value.trim_end_matches('/').to_owned() }
    };
    // Parts of a template that are JSON in a text.
    let parsed = |value: &Value| match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        other => other.clone(),
    };
    let bearer = |token: String| ("authorization".to_owned(), format!("Bearer {token}"));
    let post = |url: String, headers: Vec<(String, String)>, body: Value| {
        let mut all = vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())];
        all.extend(headers);
        Ok(Post { method: "POST".into(), url, headers: all, body: body.to_string() })
    };
    let merged = |mut body: Map<String, Value>| {
        for (key, value) in own.as_object().into_iter().flatten() {
            body.insert(key.clone(), parsed(value));
        }
        Value::Object(body)
    };
    match kind {
        "webhook" => {
            let own = &notice.content["webhook"][name];
            let method = Some(text(&own["method"])).filter(|m| !m.is_empty()).unwrap_or_else(|| "GET".into());
            let headers = config["headers"].as_array().into_iter().flatten();
            let mut headers: Vec<_> = headers.map(|h| (text(&h["name"]), text(&h["value"]))).collect();
            if let Some(basic) = config["basicAuth"].as_object() {
                use base64::Engine as _;
                let pair = format!("{}:{}", text(&basic["username"]), text(&basic["password"]));
                let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
                headers.push(("authorization".into(), format!("Basic {encoded}")));
            }
            let path = text(&own["path"]);
            let url = setting("url")?;
            let url = if path.is_empty() {
                url
            } else {
                format!("{}/{}", url.trim_end_matches('/'), path.trim_start_matches('/'))
            };
            Ok(Post { method, url, headers, body: text(&own["body"]) })
        }
        "slack" => {
            let url = format!("{}/chat.postMessage", base("apiURL", "https://slack.com/api"));
            let mut body =
                Map::from_iter([("channel".into(), json!(recipient)), ("text".into(), json!(message))]);
            for key in ["username", "icon"] {
                if let Some(value) = config[key].as_str() {
                    body.insert(if key == "icon" { "icon_emoji" } else { key }.into(), json!(value));
                }
            }
            post(url, vec![bearer(setting("token")?)], merged(body))
        }
        "mattermost" => {
            let url = format!("{}/api/v4/posts", base("apiURL", ""));
            let body =
                json!({"channel_id": recipient, "message": message, "props": parsed(&own["attachments"])});
            post(url, vec![bearer(setting("token")?)], body)
        }
        "rocketchat" => {
            let url = format!("{}/api/v1/chat.postMessage", base("serverUrl", ""));
            let headers =
                vec![("x-user-id".into(), setting("userId")?), ("x-auth-token".into(), setting("token")?)];
            post(url, headers, json!({"channel": recipient, "text": message}))
        }
        "teams" | "teams-workflows" | "googlechat" => {
            // Each recipient is an incoming webhook of its own.
            let key = if kind == "googlechat" { "webhooks" } else { "recipientUrls" };
            let url = text(&config[key][recipient]);
            if url.is_empty() {
                return Err(format!("`{key}` has no address for the recipient"));
            }
            let body = match kind {
                "googlechat" => json!({"text": message}),
                "teams" => json!({"@type": "MessageCard", "@context": "https://schema.org/extensions",
                    "text": message, "summary": message}),
                _ => json!({"type": "message", "attachments": [{
                    "contentType": "application/vnd.microsoft.card.adaptive",
                    "content": {"type": "AdaptiveCard", "version": "1.4", "body": [{"type": "TextBlock", "text": message, "wrap": true}]}}]}),
            };
            let Value::Object(body) = body else { unreachable!("an object was written above") };
            post(url, Vec::new(), merged(body))
        }
        "telegram" => {
            let url = format!(
                "{}/bot{}/sendMessage",
                base("apiURL", "https://api.telegram.org"),
                setting("token")?
            );
            post(url, Vec::new(), json!({"chat_id": recipient, "text": message}))
        }
        "opsgenie" => {
            let key = text(&config["apiKeys"][recipient]);
            let url = format!("{}/v2/alerts", base("apiUrl", "https://api.opsgenie.com"));
            let body = Map::from_iter([("message".into(), json!(message))]);
            post(url, vec![("authorization".into(), format!("GenieKey {key}"))], merged(body))
        }
        "pagerdutyv2" => {
            let key = text(&config["serviceKeys"][recipient]);
            let url = base("apiURL", "https://events.pagerduty.com/v2/enqueue");
            let payload = json!({"summary": if text(&own["summary"]).is_empty() { message } else { text(&own["summary"]) },
                "severity": text(&own["severity"]), "source": text(&own["source"])});
            post(url, Vec::new(), json!({"routing_key": key, "event_action": "trigger", "payload": payload}))
        }
        "grafana" => {
            let url = format!("{}/annotations", setting("apiUrl")?.trim_end_matches('/'));
            post(
                url,
                vec![bearer(setting("apiKey")?)],
                json!({"text": message, "tags": recipient.split('|').collect::<Vec<_>>()}),
            )
        }
        other => Err(format!("services of the type `{other}` are not supported")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(service: &str, recipient: &str, content: Value) -> Notice {
        Notice { service: service.into(), recipient: recipient.into(), content, key: "k".into() }
    }

    #[test]
    fn services_are_spoken_to_as_they_expect() {
        let slack = notice(
            "slack",
            "ops",
            json!({"message": "hi", "slack": {"attachments": "[{\"title\": \"t\"}]"}}),
        );
        let config = with_secrets(
            &json!({"token": "$slack-token"}),
            &BTreeMap::from([
                ("slack".to_owned(), "no".to_owned()),
                ("slack-token".to_owned(), "x".to_owned()),
            ]),
        );
        let post = request("slack", "slack", &config, &slack).expect("a request");
        assert_eq!(post.url, "https://slack.com/api/chat.postMessage");
        assert!(post.headers.contains(&("authorization".into(), "Bearer x".into())));
        let body: Value = serde_json::from_str(&post.body).expect("JSON");
        assert_eq!(body, json!({"channel": "ops", "text": "hi", "attachments": [{"title": "t"}]}));

        let hook = notice("ci", "", json!({"webhook": {"ci": {"method": "PUT", "path": "/a", "body": "b"}}}));
        let config = json!({"url": "https://x/", "headers": [{"name": "h", "value": "v"}]});
        let post = request("webhook", "ci", &config, &hook).expect("a request");
        assert_eq!(
            (post.method.as_str(), post.url.as_str(), post.body.as_str()),
            ("PUT", "https://x/a", "b")
        );
        assert_eq!(post.headers, [("h".to_owned(), "v".to_owned())]);

        assert!(request("teams", "teams", &json!({}), &notice("teams", "x", json!({}))).is_err());
        assert!(request("pigeon", "pigeon", &json!({}), &notice("pigeon", "x", json!({}))).is_err());
    }
}
