//! Charts in registries: tags are versions, and one layer of the manifest is the archive.

use serde_json::Value;
use slipway_dialect::percent::encode;
use slipway_net::Answer;

use super::http::{Ask, Http, accepted};
use super::index::Index;
use super::{ChartError, ChartVersion, Place, sha256, shown};
use crate::git::{Credentials, Repository};

const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const MANIFEST_BYTES: u64 = 4 << 20;
const TOKEN_BYTES: u64 = 1 << 20;
const TAGS_MAX: usize = 20_000;

/// Registry and name: `registry.example/team` and `web` are the repository `team/web`.
struct Target {
    base: String,
    name: String,
}

impl Target {
    fn of(repository: &Repository, place: &Place) -> Result<Self, ChartError> {
        let rest = repository.url.strip_prefix("oci://").unwrap_or(&repository.url).trim_matches('/');
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let name = [path, place.chart.as_str()].iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>();
        let name = name.join("/");
        let safe = |text: &str| {
            text.split('/').all(|part| {
                !part.is_empty()
                    && part != ".."
                    && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            })
        };
        let host_ok = !host.is_empty()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '[' | ']'));
        if !host_ok || !safe(&name) {
            return Err(ChartError::Address(shown(&repository.url)));
        }
        let scheme = if repository.credentials.plain_http { "http" } else { "https" };
        Ok(Self { base: format!("{scheme}://{host}"), name })
    }
}

pub(super) async fn tags(
    http: &Http,
    repository: &Repository,
    place: &Place,
    limit: u64,
) -> Result<Index, ChartError> {
    let target = Target::of(repository, place)?;
    let mut session = Session { http, repository, target: &target, token: None };
    let mut next = Some(format!("{}/v2/{}/tags/list?n=1000", target.base, target.name));
    let mut versions = Vec::new();
    while let Some(url) = next.take() {
        let response = match session.get(&url, "application/json", limit).await {
            Err(ChartError::Refused { status: 404, .. }) => {
                return Err(ChartError::NoChart { chart: target.name.clone(), url: shown(&repository.url) });
            }
            answer => answer?,
        };
        next = response.header("link").and_then(|link| next_page(link, &target));
        let answer: Value =
            serde_json::from_slice(&response.body).map_err(|error| unreadable(&url, error))?;
        for tag in answer["tags"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            // A tag cannot hold a plus; Helm writes an underscore for it.
            let version = tag.replace('_', "+");
            versions.push(ChartVersion { version, digest: None, address: String::new() });
        }
        if versions.len() > TAGS_MAX {
            return Err(ChartError::TooLarge {
                what: format!("the tags of {}", target.name),
                limit: TAGS_MAX as u64,
            });
        }
    }
    Ok(Index::of(&place.chart, versions))
}

pub(super) async fn pull(
    http: &Http,
    repository: &Repository,
    place: &Place,
    version: &str,
    limit: u64,
) -> Result<Vec<u8>, ChartError> {
    let target = Target::of(repository, place)?;
    let mut session = Session { http, repository, target: &target, token: None };
    let tag = version.replace('+', "_");
    let url = format!("{}/v2/{}/manifests/{tag}", target.base, target.name);
    let bytes = session.get(&url, MANIFEST, MANIFEST_BYTES).await?.body;
    let manifest: Value = serde_json::from_slice(&bytes).map_err(|error| unreadable(&url, error))?;
    let layers = manifest["layers"].as_array().into_iter().flatten();
    let layer = layers.clone().find(|layer| layer["mediaType"] == CHART_LAYER);
    let digest = layer.and_then(|layer| layer["digest"].as_str()).unwrap_or_default();
    let is_digest = digest
        .strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    if !is_digest {
        let detail = "what is there is no chart: no layer has Helm's type".to_owned();
        return Err(ChartError::Unreadable { url: shown(&url), detail });
    }
    let url = format!("{}/v2/{}/blobs/{digest}", target.base, target.name);
    let bytes = session.get(&url, "*/*", limit).await?.body;
    if sha256(&bytes) != digest {
        return Err(ChartError::Digest { url: shown(&url) });
    }
    Ok(bytes)
}

fn unreadable(url: &str, error: serde_json::Error) -> ChartError {
    ChartError::Unreadable { url: shown(url), detail: error.to_string() }
}

fn next_page(link: &str, target: &Target) -> Option<String> {
    let (address, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    // Only a place on the same registry: the next page is asked with the same credentials.
    (rest.contains("next") && address.starts_with('/')).then(|| format!("{}{address}", target.base))
}

/// Asks, and if the registry wants a token, gets one first.
struct Session<'a> {
    http: &'a Http,
    repository: &'a Repository,
    target: &'a Target,
    token: Option<String>,
}

impl Session<'_> {
    async fn get(&mut self, url: &str, accept: &'static str, limit: u64) -> Result<Answer, ChartError> {
        let credentials = &self.repository.credentials;
        let basic = credentials.authorization_value();
        for _ in 0..2 {
            let authorization = self.token.as_deref().or(basic.as_deref());
            let headers = [("accept", accept)];
            let ask =
                Ask { url, credentials: Some(credentials), authorization, headers: &headers, body: None };
            let response = self.http.send(ask, limit).await?;
            if response.status != 401 || self.token.is_some() {
                return accepted(response, url);
            }
            match response.header("www-authenticate").and_then(bearer_challenge) {
                Some(challenge) => self.token = Some(self.fetch_token(&challenge, credentials).await?),
                None => return accepted(response, url),
            }
        }
        Err(ChartError::Credentials { url: shown(url) })
    }

    async fn fetch_token(
        &self,
        challenge: &Challenge,
        credentials: &Credentials,
    ) -> Result<String, ChartError> {
        // The registry says where tokens are made. Encryption is not given up on the way there.
        if self.target.base.starts_with("https:") && !challenge.realm.starts_with("https:") {
            return Err(ChartError::Address(shown(&challenge.realm)));
        }
        let scope = format!("repository:{}:pull", self.target.name);
        let mark = if challenge.realm.contains('?') { '&' } else { '?' };
        let (service, scope) = (encode(&challenge.service), encode(&scope));
        let url = format!("{}{mark}service={service}&scope={scope}", challenge.realm);
        let basic = credentials.authorization_value();
        let ask = Ask {
            url: &url,
            credentials: Some(credentials),
            authorization: basic.as_deref(),
            headers: &[],
            body: None,
        };
        let bytes = self.http.answer(ask, TOKEN_BYTES).await?;
        let answer: Value = serde_json::from_slice(&bytes).map_err(|error| unreadable(&url, error))?;
        let token = answer["token"].as_str().or(answer["access_token"].as_str()).unwrap_or_default();
        if token.is_empty() {
            return Err(ChartError::Credentials { url: shown(&url) });
        }
        Ok(format!("Bearer {token}"))
    }
}

struct Challenge {
    realm: String,
    service: String,
}

/// `Bearer realm="…",service="…"`.
fn bearer_challenge(text: &str) -> Option<Challenge> {
    let rest = text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("bearer "))?;
    let field = |name: &str| {
        let at = rest.find(&format!("{name}=\""))? + name.len() + 2;
        rest[at..].split('"').next().map(str::to_owned)
    };
    Some(Challenge { realm: field("realm")?, service: field("service").unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let challenge =
            bearer_challenge("Bearer realm=\"https://auth.example/token\",service=\"registry\",scope=\"x\"")
                .expect("a challenge");
        assert_eq!(
            (challenge.realm.as_str(), challenge.service.as_str()),
            ("https://auth.example/token", "registry")
        );
        assert!(bearer_challenge("Basic realm=\"x\"").is_none());
    }
}
