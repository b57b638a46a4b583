//! OpenID Connect as a client: discovery, the address to send a browser to, and what a provider's answer is worth.
//!
//! A token counts only if it is signed by a key that the provider publishes now, under an algorithm that is fixed here,
//! for this client, by exactly this issuer, for the sign-in that this browser began. What the token's own header says
//! about where keys are is not looked at.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;
use slipway_api::sso::SsoSettings;
use slipway_model::Secret;

use crate::http::egress::{Egress, EgressError};

/// Asymmetric ones only: with a shared secret anybody who knows the client could sign.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
const CLOCK_LEEWAY_S: u64 = 60;

#[derive(Debug, thiserror::Error)]
pub(crate) enum OidcError {
    #[error("cannot use the identity provider: {0}")]
    Egress(#[from] EgressError),
    #[error("the identity provider's {0} is not valid: {1}")]
    Answer(&'static str, String),
    #[error("the identity provider's token was rejected: {0}")]
    Token(String),
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Provider {
    issuer: String,
    pub(crate) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

/// Each is required and typed: a time that is text or a fraction is no time.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    pub(crate) sub: String,
    #[allow(dead_code)]
    exp: u64,
    #[allow(dead_code)]
    iat: u64,
    nonce: Option<String>,
    azp: Option<String>,
    aud: Value,
    pub(crate) email: Option<String>,
    #[serde(default)]
    pub(crate) email_verified: bool,
    pub(crate) name: Option<String>,
    pub(crate) preferred_username: Option<String>,
    #[serde(flatten)]
    other: serde_json::Map<String, Value>,
}

impl Claims {
    pub(crate) fn groups(&self, claim: &str) -> Vec<String> {
        let list = self.other.get(claim).and_then(Value::as_array).cloned().unwrap_or_default();
        list.iter().filter_map(|group| group.as_str().map(str::to_owned)).collect()
    }
}

async fn json<T: for<'de> Deserialize<'de>>(
    egress: &Egress,
    what: &'static str,
    address: &str,
) -> Result<T, OidcError> {
    let answer = egress.get(address).await?;
    if answer.status != 200 {
        return Err(OidcError::Answer(what, format!("status {} from {address}", answer.status)));
    }
    serde_json::from_slice(&answer.body).map_err(|error| OidcError::Answer(what, error.to_string()))
}

pub(crate) async fn discover(egress: &Egress, settings: &SsoSettings) -> Result<Provider, OidcError> {
    let address = format!("{}/.well-known/openid-configuration", settings.issuer.trim_end_matches('/'));
    let provider: Provider = json(egress, "discovery", &address).await?;
    if provider.issuer.trim_end_matches('/') != settings.issuer.trim_end_matches('/') {
        return Err(OidcError::Answer("discovery", format!("it names issuer `{}`", provider.issuer)));
    }
    Ok(provider)
}

/// What the browser that sets out is remembered by.
pub(crate) struct SetOut<'a> {
    pub(crate) state: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) verifier: &'a str,
    pub(crate) redirect_uri: &'a str,
}

pub(crate) fn authorization_url(
    provider: &Provider,
    settings: &SsoSettings,
    out: &SetOut<'_>,
) -> Result<String, OidcError> {
    use base64::Engine;
    let mut url = reqwest::Url::parse(&provider.authorization_endpoint)
        .map_err(|error| OidcError::Answer("authorization_endpoint", error.to_string()))?;
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, out.verifier.as_bytes());
    let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest);
    let mut scopes = vec!["openid", "email", "profile"];
    scopes.extend(
        settings
            .scopes
            .iter()
            .map(String::as_str)
            .filter(|scope| !["openid", "email", "profile"].contains(scope)),
    );
    url.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", settings.client_id.as_str()),
        ("redirect_uri", out.redirect_uri),
        ("scope", scopes.join(" ").as_str()),
        ("state", out.state),
        ("nonce", out.nonce),
        ("code_challenge", challenge.as_str()),
        ("code_challenge_method", "S256"),
    ]);
    Ok(url.into())
}

/// From the code that came back to claims that can be believed.
pub(crate) async fn exchange(
    egress: &Egress,
    settings: &SsoSettings,
    secret: Option<&Secret<String>>,
    code: &str,
    out: &SetOut<'_>,
) -> Result<Claims, OidcError> {
    let provider = discover(egress, settings).await?;
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", out.redirect_uri),
        ("client_id", settings.client_id.as_str()),
        ("code_verifier", out.verifier),
    ];
    let client = secret.map(|secret| (settings.client_id.as_str(), secret.expose().as_str()));
    let answer = egress.post_form(&provider.token_endpoint, &fields, client).await?;
    if answer.status != 200 {
        return Err(OidcError::Answer("token endpoint", format!("status {}", answer.status)));
    }
    let tokens: TokenAnswer = serde_json::from_slice(&answer.body)
        .map_err(|error| OidcError::Answer("token endpoint", error.to_string()))?;
    let keys: JwkSet = json(egress, "key set", &provider.jwks_uri).await?;
    verify(&tokens.id_token, &keys, settings, &provider.issuer, out.nonce)
}

/// The checks on a token, apart from fetching anything.
pub(crate) fn verify(
    token: &str,
    keys: &JwkSet,
    settings: &SsoSettings,
    issuer: &str,
    nonce: &str,
) -> Result<Claims, OidcError> {
    let refuse = |why: &str| OidcError::Token(why.to_owned());
    let header = decode_header(token).map_err(|error| OidcError::Token(error.to_string()))?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(refuse("its algorithm is not supported"));
    }
    let key = choose(keys, header.kid.as_deref()).ok_or_else(|| refuse("no published key matches it"))?;
    if !fits(key, header.alg) {
        return Err(refuse("its algorithm does not match the key"));
    }
    let decoding = DecodingKey::from_jwk(key).map_err(|error| OidcError::Token(error.to_string()))?;
    let mut rules = Validation::new(header.alg);
    rules.algorithms = vec![header.alg];
    rules.leeway = CLOCK_LEEWAY_S;
    rules.validate_exp = true;
    rules.validate_nbf = true;
    rules.set_audience(&[&settings.client_id]);
    rules.set_issuer(&[issuer]);
    rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let claims: Claims =
        decode(token, &decoding, &rules).map_err(|error| OidcError::Token(error.to_string()))?.claims;
    if claims.iss != issuer || claims.sub.is_empty() {
        return Err(refuse("issuer or subject does not match"));
    }
    if claims.aud.as_array().is_some_and(|list| list.len() > 1)
        && claims.azp.as_deref() != Some(&settings.client_id)
    {
        return Err(refuse("it was issued for several clients, but not for this one"));
    }
    if claims.azp.as_ref().is_some_and(|azp| *azp != settings.client_id) {
        return Err(refuse("it was issued for another client"));
    }
    if !claims.nonce.as_deref().is_some_and(|got| crate::identity::tokens::same(got, nonce)) {
        return Err(refuse("it belongs to another sign-in"));
    }
    Ok(claims)
}

/// By its id; without one only when there is no choice.
fn choose<'k>(keys: &'k JwkSet, kid: Option<&str>) -> Option<&'k Jwk> {
    let signing = |key: &&Jwk| !matches!(key.common.public_key_use, Some(PublicKeyUse::Encryption));
    match kid {
        Some(kid) => keys.keys.iter().filter(signing).find(|key| key.common.key_id.as_deref() == Some(kid)),
        None => match keys.keys.as_slice() {
            [only] if signing(&only) => Some(only),
            _ => None,
        },
    }
}

fn fits(key: &Jwk, algorithm: Algorithm) -> bool {
    let kind = match &key.algorithm {
        AlgorithmParameters::RSA(_) => {
            matches!(algorithm, Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512)
        }
        AlgorithmParameters::EllipticCurve(_) => matches!(algorithm, Algorithm::ES256 | Algorithm::ES384),
        AlgorithmParameters::OctetKeyPair(_) => algorithm == Algorithm::EdDSA,
        _ => false,
    };
    let named = key.common.key_algorithm.as_ref().map(ToString::to_string);
    kind && named.is_none_or(|named| named == format!("{algorithm:?}"))
}
