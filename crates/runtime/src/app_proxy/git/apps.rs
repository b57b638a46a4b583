//! Applications that an operator registered at Git providers, for people to sign in with.
//!
//! In: Secrets of the runtime's namespace with a label. Out: which place each is for, and where its browsers come in. Knows no person.

use serde_json::Value;
use slipway_api::git_proxy::GitSignIn;
use slipway_cluster::ObjectKey;
use slipway_forge::remote::Provider;
use slipway_forge::remote::oauth::App;
use slipway_model::Secret;

use super::super::{Refusal, Running};
use super::{Place, refused};
use crate::settings::field;

/// A Secret that describes an application at a provider has it as a label.
const APP_LABEL: &str = "slipway.io/git-oauth";
/// Where providers send browsers, around the name of the place.
const CALLBACK: (&str, &str) = ("/app-proxy/api/git-auth/", "/callback");

/// An application that an operator registered at a provider.
pub(super) struct OauthApp {
    pub(super) secret: String,
    pub(super) place: Place,
    /// What its redirect address is known by: `gitea`, or `gitea.NAME`.
    pub(super) at: String,
    client_id: String,
    client_secret: Secret<String>,
    redirect_uri: String,
}

impl OauthApp {
    pub(super) fn app(&self) -> App<'_> {
        App {
            client_id: &self.client_id,
            client_secret: &self.client_secret,
            redirect_uri: &self.redirect_uri,
        }
    }

    /// What a Secret says, if all of it is there.
    fn read(object: &Value) -> Option<Self> {
        let data = &object["data"];
        let provider = Provider::of_name(&field(data, "provider")?)?;
        let host = field(data, "host").unwrap_or_default().trim_end_matches('/').to_owned();
        let redirect_uri = field(data, "redirectUri")?;
        let at = redirect_uri.strip_suffix(CALLBACK.1)?.rsplit_once(CALLBACK.0)?.1.to_owned();
        if provider_at(&at) != Some(provider) {
            return None;
        }
        Some(Self {
            secret: object["metadata"]["name"].as_str()?.to_owned(),
            place: Place { provider, host: (!host.is_empty()).then_some(host) },
            client_id: field(data, "clientId").filter(|id| !id.is_empty())?,
            // A public client has none.
            client_secret: Secret::new(field(data, "clientSecret").unwrap_or_default()),
            redirect_uri,
            at,
        })
    }
}

/// The provider that a redirect address is for.
pub(super) fn provider_at(at: &str) -> Option<Provider> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let (name, rest) = at.split_once('.').unwrap_or((at, "x"));
    (at.len() <= 100 && !rest.is_empty() && at.chars().all(plain)).then(|| Provider::of_name(name))?
}

async fn apps(running: &Running) -> Result<Vec<OauthApp>, Refusal> {
    let kind = ObjectKey::new("", "Secret", running.settings.namespace(), "");
    let all = running.cluster.list_labelled(&kind, &format!("{APP_LABEL}=true")).await?;
    let mut apps: Vec<OauthApp> = all.iter().filter_map(OauthApp::read).collect();
    apps.sort_by(|a, b| a.secret.cmp(&b.secret));
    Ok(apps)
}

pub(super) async fn app_of(running: &Running, place: &Place) -> Result<OauthApp, Refusal> {
    let all = apps(running).await?;
    let (mine, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|app| app.place.key() == place.key());
    let found = mine.into_iter().next();
    // Which provider a browser comes from is known by where it comes to: else one of them could have it bring another's code, and
    // would be sent that.
    if let Some(app) = &found
        && let Some(other) = others.iter().find(|other| other.at == app.at)
    {
        let (begin, end) = CALLBACK;
        let message = format!(
            "{place} and {} have the same redirect address: give one of them its own, {begin}{}.NAME{end}",
            other.place,
            place.provider.name()
        );
        return Err(refused("NO_SIGN_IN", message));
    }
    found.ok_or_else(|| {
        refused(
            "NO_SIGN_IN",
            format!(
                "nobody registered an application at {place} for this runtime: give a personal token, or have a Secret with the label {APP_LABEL}=true made (provider, host, clientId, clientSecret, redirectUri)"
            ),
        )
    })
}

/// Where one can sign in.
pub(super) async fn offered(running: &Running) -> Result<Vec<GitSignIn>, Refusal> {
    let row = |app: OauthApp| GitSignIn {
        provider: app.place.provider.name().to_owned(),
        host: app.place.host.unwrap_or_default(),
    };
    let all = apps(running).await?.into_iter();
    Ok(all.filter(|app| app.place.provider.says_who()).map(row).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    fn secret(change: &[(&str, &str)]) -> Value {
        let mut all = BTreeMap::from([
            ("provider", "gitea"),
            ("host", "https://git.example/"),
            ("clientId", "id"),
            ("clientSecret", "canary"),
            ("redirectUri", "https://rt.example/app-proxy/api/git-auth/gitea/callback"),
        ]);
        all.extend(change.iter().copied());
        let data: BTreeMap<_, _> =
            all.into_iter().map(|(name, text)| (name, STANDARD.encode(text))).collect();
        json!({"metadata": {"name": "app"}, "data": data})
    }

    #[test]
    fn a_secret_is_an_application_when_all_of_it_is_there() {
        let app = OauthApp::read(&secret(&[])).expect("an application");
        assert_eq!((&*app.place.to_string(), &*app.at), ("gitea at https://git.example", "gitea"));
        let second = ("redirectUri", "https://rt.example/app-proxy/api/git-auth/gitea.second/callback");
        assert_eq!(OauthApp::read(&secret(&[second])).expect("an application").at, "gitea.second");
        for wrong in [
            ("provider", "subversion"),
            ("clientId", ""),
            ("redirectUri", "https://evil.example/"),
            ("redirectUri", "https://rt.example/app-proxy/api/git-auth/github/callback"),
            ("redirectUri", "https://rt.example/app-proxy/api/git-auth/gitea2/callback"),
            ("redirectUri", "https://rt.example/app-proxy/api/git-auth/gitea./callback"),
            ("redirectUri", "https://rt.example/app-proxy/api/git-auth/gitea.x/y/callback"),
        ] {
            assert!(OauthApp::read(&secret(&[wrong])).is_none(), "{wrong:?}");
        }
        let public = OauthApp::read(&secret(&[("clientSecret", "")])).expect("a public client");
        assert!(public.client_secret.expose().is_empty());
    }
}
