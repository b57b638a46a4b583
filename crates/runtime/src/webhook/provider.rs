//! Which provider sent a webhook, whether it really did, and what it says was pushed.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::hmac;
use axum::http::HeaderMap;
use base64::Engine as _;
use serde_json::Value;

/// One reference that moved.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Push {
    pub(super) clone_urls: Vec<String>,
    pub(super) reference: String,
    /// Empty: not known.
    pub(super) changed_paths: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Pushes(Vec<Push>),
    /// A pull request changed: generators may give other parameters.
    Requests,
    Nothing,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Unknown,
    /// The key in argocd-secret that is missing.
    NoSecret(&'static str),
    Signature,
    Body,
}

type Secrets = BTreeMap<String, String>;

/// The provider's name, and what it says.
pub(super) fn read(
    headers: &HeaderMap,
    body: &[u8],
    secrets: &Secrets,
) -> (&'static str, Result<Heard, Refused>) {
    let has = |name: &str| headers.contains_key(name);
    let request = Request { body, secrets, headers };
    if has("x-vss-activityid") {
        ("azuredevops", azure_devops(&request))
    } else if has("x-gitea-event") || has("x-gogs-event") {
        ("gogs", gogs(&request))
    } else if has("x-github-event") {
        ("github", github(&request))
    } else if has("x-gitlab-event") {
        ("gitlab", gitlab(&request))
    } else if has("x-event-key") && has("x-hook-uuid") {
        ("bitbucket", bitbucket(&request))
    } else if has("x-event-key") {
        ("bitbucketserver", bitbucket_server(&request))
    } else {
        ("unknown", Err(Refused::Unknown))
    }
}

struct Request<'a> {
    body: &'a [u8],
    secrets: &'a Secrets,
    headers: &'a HeaderMap,
}

impl Request<'_> {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// A provider without a secret is refused: anybody could write in its name.
    fn secret(&self, key: &'static str) -> Result<&str, Refused> {
        let secret = self.secrets.get(key).map(String::as_str).filter(|secret| !secret.is_empty());
        secret.ok_or(Refused::NoSecret(key))
    }

    fn signed(
        &self,
        key: &'static str,
        signature: &str,
        algorithm: hmac::Algorithm,
    ) -> Result<Value, Refused> {
        let secret = self.secret(key)?;
        let signature = hex::decode(signature).map_err(|_| Refused::Signature)?;
        hmac::verify(&hmac::Key::new(algorithm, secret.as_bytes()), self.body, &signature)
            .map_err(|_| Refused::Signature)?;
        self.json()
    }

    /// A secret that is sent as it is.
    fn shown(&self, key: &'static str, shown: &str) -> Result<Value, Refused> {
        if !equal(self.secret(key)?, shown) {
            return Err(Refused::Signature);
        }
        self.json()
    }

    fn json(&self) -> Result<Value, Refused> {
        serde_json::from_slice(self.body).map_err(|_| Refused::Body)
    }
}

/// In a time that does not tell where two texts differ.
fn equal(a: &str, b: &str) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"compare");
    hmac::verify(&key, b.as_bytes(), hmac::sign(&key, a.as_bytes()).as_ref()).is_ok()
}

fn github(request: &Request<'_>) -> Result<Heard, Refused> {
    let key = "webhook.github.secret";
    let body = match request.header("x-hub-signature-256").strip_prefix("sha256=") {
        Some(signature) => request.signed(key, signature, hmac::HMAC_SHA256)?,
        None => {
            let signature = request.header("x-hub-signature").strip_prefix("sha1=").unwrap_or_default();
            request.signed(key, signature, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY)?
        }
    };
    match request.header("x-github-event") {
        "push" => one_push(&body, &body["repository"], &["clone_url", "html_url", "ssh_url"], false),
        "pull_request" => Ok(Heard::Requests),
        _ => Ok(Heard::Nothing),
    }
}

fn gitlab(request: &Request<'_>) -> Result<Heard, Refused> {
    let body = request.shown("webhook.gitlab.secret", request.header("x-gitlab-token"))?;
    let commits = body["commits"].as_array().map_or(0, Vec::len) as u64;
    // Of many commits only the first are listed.
    let cut = body["total_commits_count"].as_u64().is_some_and(|total| total > commits);
    match body["object_kind"].as_str().unwrap_or_default() {
        "push" | "tag_push" => {
            one_push(&body, &body["project"], &["git_http_url", "git_ssh_url", "web_url"], cut)
        }
        "merge_request" => Ok(Heard::Requests),
        _ => Ok(Heard::Nothing),
    }
}

fn gogs(request: &Request<'_>) -> Result<Heard, Refused> {
    let event = Some(request.header("x-gitea-event")).filter(|event| !event.is_empty());
    let signature = Some(request.header("x-gitea-signature")).filter(|signature| !signature.is_empty());
    let signature = signature.unwrap_or_else(|| request.header("x-gogs-signature"));
    let body = request.signed("webhook.gogs.secret", signature, hmac::HMAC_SHA256)?;
    match event.unwrap_or_else(|| request.header("x-gogs-event")) {
        "push" => one_push(&body, &body["repository"], &["clone_url", "html_url", "ssh_url"], false),
        "pull_request" => Ok(Heard::Requests),
        _ => Ok(Heard::Nothing),
    }
}

fn bitbucket(request: &Request<'_>) -> Result<Heard, Refused> {
    let body = request.shown("webhook.bitbucket.uuid", request.header("x-hook-uuid"))?;
    match request.header("x-event-key") {
        "repo:push" => {
            let url = body["repository"]["links"]["html"]["href"].as_str().ok_or(Refused::Body)?;
            let changes = body["push"]["changes"].as_array().ok_or(Refused::Body)?;
            let pushes = changes.iter().filter_map(|change| {
                // A deleted branch has only an old state.
                let now = change["new"].as_object().or(change["old"].as_object())?;
                let kind = if now.get("type")?.as_str()? == "tag" { "tags" } else { "heads" };
                Some(Push {
                    clone_urls: vec![url.to_owned()],
                    reference: format!("refs/{kind}/{}", now.get("name")?.as_str()?),
                    changed_paths: Vec::new(),
                })
            });
            Ok(Heard::Pushes(pushes.collect()))
        }
        event if event.starts_with("pullrequest:") => Ok(Heard::Requests),
        _ => Ok(Heard::Nothing),
    }
}

fn bitbucket_server(request: &Request<'_>) -> Result<Heard, Refused> {
    let signature = request.header("x-hub-signature");
    let (key, event) = ("webhook.bitbucketserver.secret", request.header("x-event-key"));
    let body = match signature.strip_prefix("sha256=") {
        Some(hex) => request.signed(key, hex, hmac::HMAC_SHA256)?,
        None => {
            let hex = signature.strip_prefix("sha1=").unwrap_or_default();
            request.signed(key, hex, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY)?
        }
    };
    match event {
        "repo:refs_changed" => {
            let links = body["repository"]["links"]["clone"].as_array().into_iter().flatten();
            let clone_urls: Vec<String> =
                links.filter_map(|link| link["href"].as_str().map(str::to_owned)).collect();
            let changes = body["changes"].as_array().ok_or(Refused::Body)?;
            let pushes = changes.iter().filter_map(|change| {
                let reference = change["ref"]["id"].as_str().or(change["refId"].as_str())?.to_owned();
                Some(Push { clone_urls: clone_urls.clone(), reference, changed_paths: Vec::new() })
            });
            Ok(Heard::Pushes(pushes.collect()))
        }
        event if event.starts_with("pr:") => Ok(Heard::Requests),
        _ => Ok(Heard::Nothing),
    }
}

fn azure_devops(request: &Request<'_>) -> Result<Heard, Refused> {
    let user = request.secret("webhook.azuredevops.username")?;
    let password = request.secret("webhook.azuredevops.password")?;
    let wanted = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let shown = request.header("authorization").strip_prefix("Basic ").unwrap_or_default();
    if !equal(&wanted, shown) {
        return Err(Refused::Signature);
    }
    let body = request.json()?;
    match body["eventType"].as_str().unwrap_or_default() {
        "git.push" => {
            let resource = &body["resource"];
            let url = resource["repository"]["remoteUrl"].as_str().ok_or(Refused::Body)?;
            let updates = resource["refUpdates"].as_array().ok_or(Refused::Body)?;
            let pushes = updates.iter().filter_map(|update| {
                let reference = update["name"].as_str()?.to_owned();
                Some(Push { clone_urls: vec![url.to_owned()], reference, changed_paths: Vec::new() })
            });
            Ok(Heard::Pushes(pushes.collect()))
        }
        event if event.starts_with("git.pullrequest.") => Ok(Heard::Requests),
        _ => Ok(Heard::Nothing),
    }
}

/// The shape that most providers share. `cut`: the list of commits is not complete.
fn one_push(body: &Value, repository: &Value, urls: &[&str], cut: bool) -> Result<Heard, Refused> {
    let reference = body["ref"].as_str().ok_or(Refused::Body)?.to_owned();
    let clone_urls: Vec<String> =
        urls.iter().filter_map(|name| repository[*name].as_str().map(str::to_owned)).collect();
    if clone_urls.is_empty() {
        return Err(Refused::Body);
    }
    let mut changed = BTreeSet::new();
    for commit in body["commits"].as_array().into_iter().flatten() {
        for list in ["added", "modified", "removed"] {
            let paths = commit[list].as_array().into_iter().flatten();
            changed.extend(paths.filter_map(|path| path.as_str().map(str::to_owned)));
        }
    }
    // A forced push leaves commits behind whose paths nobody lists.
    let unknown = cut || body["forced"] == true;
    let changed_paths = if unknown { Vec::new() } else { changed.into_iter().collect() };
    Ok(Heard::Pushes(vec![Push { clone_urls, reference, changed_paths }]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;
    use serde_json::json;

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

    type Headers = Vec<(&'static str, String)>;

    /// Every provider: its headers for a body, and a body that pushes to refs/heads/main.
    fn providers() -> Vec<(&'static str, Headers, String)> {
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
            let Ok(Heard::Pushes(pushes)) = heard else { panic!("{name}: {heard:?}") };
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
