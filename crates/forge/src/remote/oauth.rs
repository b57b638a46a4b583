//! Signing in to a Git provider with OAuth: where to send a person, and what to ask for their token.
//!
//! In: a provider, an application that is registered there, and what a browser brought back. Out: an address, and forms to send. It
//! sends nothing and keeps nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use slipway_model::Secret;

use super::Provider;

/// What is registered at the provider.
pub struct App<'a> {
    pub client_id: &'a str,
    /// Empty: a public client, which has none.
    pub client_secret: &'a Secret<String>,
    pub redirect_uri: &'a str,
}

/// A form for the provider's token endpoint.
pub struct TokenRequest {
    pub url: String,
    /// `application/x-www-form-urlencoded`
    pub form: Vec<(&'static str, String)>,
    /// For `Authorization`, where the provider wants the secret there.
    pub basic: Option<String>,
}

/// What a provider gave.
pub struct Granted {
    pub token: Secret<String>,
    pub refresh: Option<Secret<String>>,
    pub seconds: Option<i64>,
}

/// What is asked with a code, or with a refresh token.
pub enum Grant<'a> {
    Code { code: &'a str, verifier: &'a str },
    Refresh(&'a Secret<String>),
}

impl Provider {
    fn sign_in(self, host: Option<&str>) -> Option<(String, String)> {
        let host = host.filter(|host| *host != "https://api.github.com");
        let at = |base: &str, authorize: &str, token: &str| {
            Some((format!("{base}{authorize}"), format!("{base}{token}")))
        };
        match self {
            Self::GitHub => at(
                host.unwrap_or("https://github.com"),
                "/login/oauth/authorize",
                "/login/oauth/access_token",
            ),
            Self::GitLab => at(host.unwrap_or("https://gitlab.com"), "/oauth/authorize", "/oauth/token"),
            Self::Gitea => at(host?, "/login/oauth/authorize", "/login/oauth/access_token"),
            Self::BitbucketCloud => {
                at("https://bitbucket.org", "/site/oauth2/authorize", "/site/oauth2/access_token")
            }
            Self::BitbucketServer => at(host?, "/rest/oauth2/latest/authorize", "/rest/oauth2/latest/token"),
        }
    }

    /// Whether it binds a code to who asked for it (PKCE).
    fn binds_codes(self) -> bool {
        self != Self::BitbucketCloud
    }

    /// Whether it says a person's name and address for commits by what a sign-in may ask.
    pub fn says_who(self) -> bool {
        !matches!(self, Self::BitbucketCloud | Self::BitbucketServer)
    }

    /// What the token may do: see organisations and repositories, and write to those.
    fn scopes(self) -> &'static str {
        match self {
            Self::GitHub => "repo read:org user:email",
            Self::GitLab => "read_user read_api write_repository",
            Self::Gitea => "read:user read:organization write:repository",
            // The consumer has them.
            Self::BitbucketCloud => "",
            Self::BitbucketServer => "REPO_WRITE",
        }
    }

    /// Where a person says yes. `challenge` is the SHA-256 of the verifier, in base64 for addresses.
    pub fn authorize_url(
        self,
        host: Option<&str>,
        app: &App<'_>,
        state: &str,
        challenge: &str,
    ) -> Option<String> {
        let (authorize, _) = self.sign_in(host)?;
        let mut query = vec![
            ("response_type", "code"),
            ("client_id", app.client_id),
            ("redirect_uri", app.redirect_uri),
            ("state", state),
        ];
        if !self.scopes().is_empty() {
            query.push(("scope", self.scopes()));
        }
        if self.binds_codes() {
            query.extend([("code_challenge", challenge), ("code_challenge_method", "S256")]);
        }
        Some(format!("{authorize}?{}", encoded(&query)))
    }

    /// What is sent for a token.
    pub fn token_request(self, host: Option<&str>, app: &App<'_>, grant: &Grant<'_>) -> Option<TokenRequest> {
        let (_, url) = self.sign_in(host)?;
        let mut form = vec![("redirect_uri", app.redirect_uri.to_owned())];
        match grant {
            Grant::Code { code, verifier } => {
                form.extend([("grant_type", "authorization_code".to_owned()), ("code", (*code).to_owned())]);
                if self.binds_codes() {
                    form.push(("code_verifier", (*verifier).to_owned()));
                }
            }
            Grant::Refresh(token) => {
                form.extend([
                    ("grant_type", "refresh_token".to_owned()),
                    ("refresh_token", token.expose().clone()),
                ]);
            }
        }
        let secret = app.client_secret.expose();
        let mut basic = None;
        if self == Self::BitbucketCloud {
            basic = Some(format!("Basic {}", STANDARD.encode(format!("{}:{secret}", app.client_id))));
        } else {
            form.push(("client_id", app.client_id.to_owned()));
            if !secret.is_empty() {
                form.push(("client_secret", secret.clone()));
            }
        }
        Some(TokenRequest { url, form, basic })
    }

    /// The token, or why there is none, in the provider's word for it.
    pub fn read_granted(self, status: u16, body: &[u8]) -> Result<Granted, String> {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| answer[name].as_str().map(str::to_owned).filter(|text| !text.is_empty());
        let word = |text: String| -> String {
            text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(60).collect()
        };
        match text("access_token") {
            // GitHub says an error with 200.
            Some(token) if (200..300).contains(&status) => Ok(Granted {
                token: Secret::new(token),
                refresh: text("refresh_token").map(Secret::new),
                seconds: answer["expires_in"].as_i64().filter(|seconds| *seconds > 0),
            }),
            _ => Err(text("error").map(word).unwrap_or_else(|| format!("status {status}"))),
        }
    }
}

impl TokenRequest {
    pub fn body(&self) -> String {
        let pairs: Vec<(&str, &str)> =
            self.form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        encoded(&pairs)
    }
}

fn encoded(pairs: &[(&str, &str)]) -> String {
    use slipway_dialect::percent::encode;
    pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_provider_is_asked_as_it_documents() {
        let secret = Secret::new("se cret".to_owned());
        let app = App { client_id: "id", client_secret: &secret, redirect_uri: "https://r/x" };
        for (provider, host, starts) in [
            (
                Provider::GitHub,
                None,
                "https://github.com/login/oauth/authorize?response_type=code&client_id=id",
            ),
            (Provider::GitHub, Some("https://ghe"), "https://ghe/login/oauth/authorize?"),
            (Provider::GitLab, None, "https://gitlab.com/oauth/authorize?"),
            (Provider::Gitea, Some("http://g:3000"), "http://g:3000/login/oauth/authorize?"),
            (Provider::BitbucketCloud, None, "https://bitbucket.org/site/oauth2/authorize?"),
            (Provider::BitbucketServer, Some("https://b"), "https://b/rest/oauth2/latest/authorize?"),
        ] {
            let url = provider.authorize_url(host, &app, "st", "ch").expect("an address");
            assert!(url.starts_with(starts) && url.contains("redirect_uri=https%3A%2F%2Fr%2Fx"), "{url}");
            assert!(url.contains("&state=st") && !url.contains("cret"), "{url}");
            assert_eq!(url.contains("code_challenge=ch"), provider != Provider::BitbucketCloud, "{url}");
            let grant = Grant::Code { code: "c", verifier: "v" };
            let asked = provider.token_request(host, &app, &grant).expect("a form");
            let in_form = asked.body().contains("client_secret=se%20cret");
            assert_eq!(in_form, asked.basic.is_none(), "the secret goes once: {}", asked.body());
        }
        assert!(Provider::Gitea.authorize_url(None, &app, "s", "c").is_none(), "it has no public host");
        let public = Secret::new(String::new());
        let app = App { client_secret: &public, ..app };
        let asked = Provider::Gitea.token_request(Some("http://g"), &app, &Grant::Refresh(&secret)).unwrap();
        assert!(!asked.body().contains("client_secret") && asked.body().contains("refresh_token=se%20cret"));
    }

    #[test]
    fn an_answer_is_a_token_or_a_word() {
        let read = |status, text: &str| Provider::GitHub.read_granted(status, text.as_bytes());
        let good = read(200, r#"{"access_token": "t", "refresh_token": "r", "expires_in": 3600}"#);
        let Ok(Granted { token, refresh, seconds }) = good else { panic!("a token") };
        assert_eq!((token.expose().as_str(), seconds), ("t", Some(3600)));
        assert_eq!(refresh.map(|token| token.expose().clone()), Some("r".to_owned()));
        let why = |status, text| read(status, text).err().expect("no token");
        assert_eq!(why(200, r#"{"error": "bad_verification_code"}"#), "bad_verification_code");
        assert_eq!(why(400, r#"{"error": "<b>x</b>"}"#), "bxb");
        assert_eq!(why(502, "oops"), "status 502");
        assert_eq!(why(400, r#"{"access_token": "t"}"#), "status 400");
    }
}
