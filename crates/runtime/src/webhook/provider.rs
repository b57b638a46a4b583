//! Which secret of argocd-secret belongs to whom, and whether a webhook was written by somebody who knows it. What the
//! senders send is known by `forge`.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use slipway_forge::remote::{Announced, Headers, Sender};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Unknown,
    /// The key in argocd-secret that is missing.
    NoSecret(&'static str),
    Signature,
    Body,
}

type Secrets = BTreeMap<String, String>;

/// The sender's name, and what it says.
pub(super) fn read(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &Secrets,
) -> (&'static str, Result<Announced, Refused>) {
    let headers = Headers::new(
        headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))),
    );
    match Sender::of(&headers) {
        Some(sender) => (sender.name(), heard(sender, &headers, body, secrets)),
        None => ("unknown", Err(Refused::Unknown)),
    }
}

fn heard(sender: Sender, headers: &Headers, body: &[u8], secrets: &Secrets) -> Result<Announced, Refused> {
    // A sender without a secret is refused: anybody could write in its name.
    let secret = |key: &'static str| {
        let found = secrets.get(key).filter(|secret| !secret.is_empty());
        found.cloned().ok_or(Refused::NoSecret(key))
    };
    let secret = match sender {
        Sender::GitHub => secret("webhook.github.secret")?,
        Sender::GitLab => secret("webhook.gitlab.secret")?,
        Sender::Gogs => secret("webhook.gogs.secret")?,
        Sender::Bitbucket => secret("webhook.bitbucket.uuid")?,
        Sender::BitbucketServer => secret("webhook.bitbucketserver.secret")?,
        Sender::AzureDevOps => {
            format!("{}:{}", secret("webhook.azuredevops.username")?, secret("webhook.azuredevops.password")?)
        }
    };
    sender.verify(headers, body, &secret).map_err(|_| Refused::Signature)?;
    sender.read(headers, body).map_err(|_| Refused::Body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::hmac;
    use axum::http::HeaderName;
    use base64::Engine as _;
    use serde_json::{Value, json};

    const SECRET: &str = "s3cret";

    fn secrets() -> Secrets {
        let keys = [
            "github.secret",
            "gitlab.secret",
            "gogs.secret",
            "bitbucket.uuid",
            "bitbucketserver.secret",
            "azuredevops.username",
            "azuredevops.password",
        ];
        keys.iter().map(|key| (format!("webhook.{key}"), SECRET.to_owned())).collect()
    }

    fn headers(list: &[(&str, String)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"))
            })
            .collect()
    }

    fn sign(body: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        hex::encode(hmac::sign(&key, body.as_bytes()))
    }

    type List = Vec<(&'static str, String)>;

    /// Every provider: its headers for a body, and a body that pushes to refs/heads/main.
    fn providers() -> Vec<(&'static str, List, String)> {
        let repository =
            json!({"clone_url": "https://git.example/a/b.git", "html_url": "https://git.example/a/b"});
        let push = json!({"ref": "refs/heads/main", "repository": repository,
            "commits": [{"added": ["x/a"], "modified": ["x/b"], "removed": []}]})
        .to_string();
        let gitlab = json!({"object_kind": "push", "ref": "refs/heads/main",
            "project": {"git_http_url": "https://git.example/a/b.git"},
            "commits": [{"added": ["x/a"], "modified": ["x/b"]}], "total_commits_count": 1})
        .to_string();
        let cloud = json!({"repository": {"links": {"html": {"href": "https://git.example/a/b"}}},
            "push": {"changes": [{"new": {"type": "branch", "name": "main"}}]}})
        .to_string();
        let server = json!({"repository": {"links": {"clone": [{"href": "https://git.example/a/b.git"}]}},
            "changes": [{"ref": {"id": "refs/heads/main"}}]})
        .to_string();
        let azure = json!({"eventType": "git.push", "resource": {
            "repository": {"remoteUrl": "https://git.example/a/b"},
            "refUpdates": [{"name": "refs/heads/main"}]}})
        .to_string();
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("{SECRET}:{SECRET}"));
        vec![
            (
                "github",
                vec![
                    ("x-github-event", "push".into()),
                    ("x-hub-signature-256", format!("sha256={}", sign(&push))),
                ],
                push.clone(),
            ),
            ("gogs", vec![("x-gogs-event", "push".into()), ("x-gogs-signature", sign(&push))], push.clone()),
            (
                "gogs",
                vec![
                    ("x-gitea-event", "push".into()),
                    ("x-github-event", "push".into()),
                    ("x-gitea-signature", sign(&push)),
                ],
                push,
            ),
            (
                "gitlab",
                vec![("x-gitlab-event", "Push Hook".into()), ("x-gitlab-token", SECRET.into())],
                gitlab,
            ),
            ("bitbucket", vec![("x-event-key", "repo:push".into()), ("x-hook-uuid", SECRET.into())], cloud),
            (
                "bitbucketserver",
                vec![
                    ("x-event-key", "repo:refs_changed".into()),
                    ("x-hub-signature", format!("sha256={}", sign(&server))),
                ],
                server,
            ),
            (
                "azuredevops",
                vec![("x-vss-activityid", "1".into()), ("authorization", format!("Basic {basic}"))],
                azure,
            ),
        ]
    }

    #[test]
    fn every_provider_is_heard_and_only_with_its_secret() {
        for (name, list, body) in providers() {
            let (found, heard) = read(&headers(&list), body.as_bytes(), &secrets());
            let Ok(Announced::Pushes(pushes)) = heard else { panic!("{name}: {heard:?}") };
            assert_eq!((found, pushes[0].reference.as_str()), (name, "refs/heads/main"));
            assert!(pushes[0].clone_urls[0].starts_with("https://git.example/a/b"), "{name}");
            if matches!(name, "github" | "gogs" | "gitlab") {
                assert_eq!(pushes[0].changed_paths, ["x/a", "x/b"], "{name}");
            }
            // Without a secret on our side nothing is believed.
            let (_, refused) = read(&headers(&list), body.as_bytes(), &Secrets::new());
            assert!(matches!(refused, Err(Refused::NoSecret(_))), "{name}: {refused:?}");
            // With another secret the signature is wrong.
            let others: Secrets = secrets().into_keys().map(|key| (key, "other".to_owned())).collect();
            assert_eq!(read(&headers(&list), body.as_bytes(), &others).1, Err(Refused::Signature), "{name}");
            // Without the signature too.
            let bare: Vec<_> = list
                .iter()
                .filter(|(header, _)| {
                    !header.contains("signature") && !header.contains("token") && *header != "authorization"
                })
                .cloned()
                .collect();
            if name != "bitbucket" {
                assert_eq!(
                    read(&headers(&bare), body.as_bytes(), &secrets()).1,
                    Err(Refused::Signature),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_changed_body_does_not_pass_and_no_body_makes_it_panic() {
        for (name, list, body) in providers() {
            let changed = body.replace("main", "prod");
            if list.iter().any(|(header, _)| header.contains("signature")) {
                let (_, refused) = read(&headers(&list), changed.as_bytes(), &secrets());
                assert_eq!(refused, Err(Refused::Signature), "{name}");
            }
            // Payloads that made others panic: every value of the body replaced by something else.
            let whole: Value = serde_json::from_str(&body).expect("JSON");
            for other in [json!(null), json!([]), json!({}), json!(7), json!(""), json!([null]), json!([{}])]
            {
                for pointer in pointers(&whole) {
                    let mut broken = whole.clone();
                    if let Some(place) = broken.pointer_mut(&pointer) {
                        *place = other.clone();
                    }
                    let text = broken.to_string();
                    let resigned: Vec<_> = list
                        .iter()
                        .map(|(header, value)| {
                            let prefix = if value.starts_with("sha256=") { "sha256=" } else { "" };
                            match header.contains("signature") {
                                true => (*header, format!("{prefix}{}", sign(&text))),
                                false => (*header, value.clone()),
                            }
                        })
                        .collect();
                    let _ = read(&headers(&resigned), text.as_bytes(), &secrets());
                }
            }
        }
    }

    fn pointers(value: &Value) -> Vec<String> {
        let mut out = vec![String::new()];
        let children: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
            _ => Vec::new(),
        };
        for (key, child) in children {
            out.extend(pointers(child).into_iter().map(|rest| format!("/{key}{rest}")));
        }
        out
    }
}
