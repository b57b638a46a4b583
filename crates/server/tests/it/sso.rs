//! Signing in through an identity provider: a small one that can also lie.

use std::sync::{Arc, Mutex};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use axum::extract::{Form, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use slipway_server::{EgressRules, Network};

use crate::support::{Browser, PASSWORD, Platform};

/// Claims to a token.
type Make = Box<dyn Fn(&Provider, Value) -> String + Send + Sync>;

struct Inner {
    url: String,
    pkcs8: Vec<u8>,
    public: Vec<u8>,
    /// How the next token is made.
    make: Mutex<Make>,
    claims: Mutex<Value>,
    /// What the browser was sent with.
    asked: Mutex<Value>,
}

#[derive(Clone)]
pub(crate) struct Provider(Arc<Inner>);

fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let random = aws_lc_rs::rand::SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref()).unwrap();
        let provider = Self(Arc::new(Inner {
            url,
            pkcs8: pkcs8.as_ref().to_vec(),
            public: pair.public_key().as_ref().to_vec(),
            make: Mutex::new(Box::new(|provider, claims| provider.sign(&claims))),
            claims: Mutex::new(
                json!({"sub": "s1", "email": "ada@example.com", "email_verified": true, "name": "Ada"}),
            ),
            asked: Mutex::new(Value::Null),
        }));
        let app = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        provider
    }

    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// Notes what a browser was sent with; gives back the state.
    pub(crate) fn asked(&self, location: &str) -> String {
        note_asked(self, location)
    }

    fn header(&self) -> Header {
        Header { kid: Some("k1".into()), ..Header::new(Algorithm::ES256) }
    }

    fn sign(&self, claims: &Value) -> String {
        jsonwebtoken::encode(&self.header(), claims, &EncodingKey::from_ec_der(&self.0.pkcs8)).unwrap()
    }

    pub(crate) fn claims(&self, claims: Value) {
        *self.0.claims.lock().unwrap() = claims;
    }

    fn make(&self, make: impl Fn(&Self, Value) -> String + Send + Sync + 'static) {
        *self.0.make.lock().unwrap() = Box::new(make);
    }
}

async fn discovery(State(provider): State<Provider>) -> Json<Value> {
    let url = &provider.0.url;
    Json(json!({"issuer": url, "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys")}))
}

async fn keys(State(provider): State<Provider>) -> Json<Value> {
    let public = &provider.0.public;
    let key = json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "k1", "x": b64(&public[1..33]), "y": b64(&public[33..65])});
    let mac = json!({"kty": "oct", "kid": "shared", "k": b64(b"secret-that-the-client-knows")});
    Json(json!({"keys": [key, mac]}))
}

async fn token(
    State(provider): State<Provider>,
    Form(form): Form<std::collections::HashMap<String, String>>,
) -> (axum::http::StatusCode, Json<Value>) {
    let asked = provider.0.asked.lock().unwrap().clone();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, form["code_verifier"].as_bytes());
    let challenge_fits = Some(b64(digest.as_ref()).as_str()) == asked["code_challenge"].as_str();
    if !challenge_fits || form["code"] != "good-code" {
        return (axum::http::StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"})));
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({"iss": provider.0.url, "aud": "slipway", "iat": now, "exp": now + 300, "nonce": asked["nonce"]});
    for (name, value) in provider.0.claims.lock().unwrap().as_object().unwrap() {
        claims[name] = value.clone();
    }
    let make = provider.0.make.lock().unwrap();
    (
        axum::http::StatusCode::OK,
        Json(json!({"access_token": "x", "token_type": "Bearer", "id_token": make(&provider, claims)})),
    )
}

/// A platform that may call this machine, with the provider set up as `corp`.
pub(crate) async fn platform(provider: &Provider, settings: Value) -> Platform {
    let network =
        Network { egress_allowed: EgressRules::parse(&["127.0.0.1"]).unwrap(), ..Network::default() };
    let platform = Platform::start_with(network).await;
    let mut whole = json!({"displayName": "Corp", "issuer": provider.0.url, "clientId": "slipway"});
    for (name, value) in settings.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let body = json!({"name": "corp", "settings": whole, "clientSecret": "sso-canary-77"});
    let made = platform.post("/api/idp", body).await;
    assert_eq!(made["callbackUrl"], format!("{}/api/auth/corp/callback", platform.url));
    assert!(!made.to_string().contains("canary"));
    platform.post("/api/admin/accounts/default/domains", json!({"domain": "example.com"})).await;
    platform
}

pub(crate) struct Trip {
    state: String,
    cookie: String,
}

async fn set_out(platform: &Platform, provider: &Provider, query: &str, browser: Option<&Browser>) -> Trip {
    set_out_to(platform, provider, "corp", query, browser).await
}

async fn set_out_to(
    platform: &Platform,
    provider: &Provider,
    client: &str,
    query: &str,
    browser: Option<&Browser>,
) -> Trip {
    let url = format!("{}/api/auth/{client}/login{query}", platform.url);
    let mut request = platform.http().get(url);
    if let Some(browser) = browser {
        request = request.header("cookie", &browser.cookie);
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 302);
    let state = note_asked(provider, answer.headers()["location"].to_str().unwrap());
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    Trip { state, cookie }
}

/// Sets out to link an identity, and comes back with the session that asked for it.
pub(crate) async fn link(platform: &Platform, provider: &Provider, browser: &Browser, client: &str) -> u16 {
    let begun =
        browser.request(platform, "POST", &format!("/api/user/identities/{client}")).send().await.unwrap();
    if begun.status() != 200 {
        return begun.status().as_u16();
    }
    let cookie = begun.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let answer: Value = begun.json().await.unwrap();
    assert_eq!(answer["issuer"], provider.0.url.as_str());
    let state = note_asked(provider, answer["url"].as_str().unwrap());
    let cookie = format!("{cookie}; {}", browser.cookie);
    come_back_to(platform, client, &Trip { state, cookie }, "good-code").await.status().as_u16()
}

/// What the browser was sent to the provider with; gives back the state.
fn note_asked(provider: &Provider, location: &str) -> String {
    let location = reqwest::Url::parse(location).unwrap();
    let asked: serde_json::Map<String, Value> =
        location.query_pairs().map(|(k, v)| (k.into_owned(), Value::from(v.into_owned()))).collect();
    assert_eq!((&asked["response_type"], &asked["code_challenge_method"]), (&json!("code"), &json!("S256")));
    assert!(
        asked["state"].as_str().unwrap().len() >= 32 && asked["nonce"].as_str().unwrap().len() >= 32,
        "128 bits or more"
    );
    let state = asked["state"].as_str().unwrap().to_owned();
    *provider.0.asked.lock().unwrap() = Value::Object(asked);
    state
}

async fn come_back(platform: &Platform, trip: &Trip, code: &str) -> reqwest::Response {
    come_back_to(platform, "corp", trip, code).await
}

async fn come_back_to(platform: &Platform, client: &str, trip: &Trip, code: &str) -> reqwest::Response {
    let url = format!("{}/api/auth/{client}/callback?code={code}&state={}", platform.url, trip.state);
    platform.http().get(url).header("cookie", &trip.cookie).send().await.unwrap()
}

/// The whole trip; gives back the status, and the session when one was opened.
async fn sign_in(platform: &Platform, provider: &Provider) -> (u16, String) {
    sign_in_at(platform, provider, "corp").await
}

pub(crate) async fn sign_in_at(platform: &Platform, provider: &Provider, client: &str) -> (u16, String) {
    let trip = set_out_to(platform, provider, client, "?return_to=/builds", None).await;
    let answer = come_back_to(platform, client, &trip, "good-code").await;
    let status = answer.status().as_u16();
    if status != 302 {
        return (status, answer.text().await.unwrap());
    }
    assert_eq!(answer.headers()["location"], "/builds");
    let cookies = answer.headers().get_all("set-cookie").iter();
    let session = cookies
        .filter_map(|value| value.to_str().ok())
        .find(|value| value.starts_with("slipway_session="))
        .unwrap();
    (status, session.split(';').next().unwrap().to_owned())
}

pub(crate) async fn me(platform: &Platform, cookie: &str) -> Value {
    let answer = platform
        .http()
        .get(format!("{}/api/user", platform.url))
        .header("cookie", cookie)
        .send()
        .await
        .unwrap();
    answer.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invited_person_signs_in_through_the_provider_and_groups_become_teams() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({"groupsClaim": "groups"})).await;
    let (status, refused) = sign_in(&platform, &provider).await;
    assert_eq!(status, 401, "not invited: {refused}");
    platform.post("/api/invitations", json!({"email": "ada@example.com"})).await;
    platform.post("/api/team", json!({"name": "by-hand"})).await;
    let person = |groups: Value| json!({"sub": "s1", "email": "ada@example.com", "email_verified": true, "name": "Ada", "groups": groups});
    provider.claims(person(json!(["Platform Team", "by-hand", "admins", "users"])));
    let (status, cookie) = sign_in(&platform, &provider).await;
    assert_eq!(status, 302, "{cookie}");
    let user = me(&platform, &cookie).await;
    assert_eq!((&user["email"], &user["roles"]), (&json!("ada@example.com"), &json!(["User"])));
    assert_eq!(
        user["teams"],
        json!(["platform-team", "users"]),
        "no team that was made by hand, none that goes by role"
    );
    provider.claims(person(json!(["other"])));
    let (_, cookie) = sign_in(&platform, &provider).await;
    assert_eq!(me(&platform, &cookie).await["teams"], json!(["other", "users"]), "and out again");
    let options = platform.call("GET", "/api/auth/options", "", None).await.1;
    assert_eq!(options["sso"][0]["loginUrl"], "/api/auth/corp/login");
    // Who left is not let in again.
    platform.call("DELETE", "/api/users/ada@example.com", &platform.admin_key, None).await;
    assert_eq!(sign_in(&platform, &provider).await.0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_was_let_in_before_they_came_is_met_once() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({})).await;
    let account = platform.get("/api/user").await["account"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/accounts/{account}/adduser");
    let made = platform.post(&path, json!({"userDetails": "ada@example.com"})).await;
    let id = made["_id"].as_str().unwrap();
    platform.post(&format!("/api/admin/user/{id}/activate"), json!({})).await;
    let (status, cookie) = sign_in(&platform, &provider).await;
    assert_eq!(status, 302, "{cookie}");
    assert_eq!(me(&platform, &cookie).await["_id"], made["_id"]);
    // Somebody else at the provider who says the same address is somebody else.
    provider.claims(json!({"sub": "s2", "email": "ada@example.com", "email_verified": true}));
    assert_eq!(sign_in(&platform, &provider).await.0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_through_the_provider_is_tied_to_the_browser_that_set_out() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({"createMembers": true})).await;
    let trip = set_out(&platform, &provider, "", None).await;
    let other = Trip { cookie: "slipway_sso=somebody-else".into(), state: trip.state.clone() };
    assert_eq!(come_back(&platform, &other, "good-code").await.status(), 400, "another browser");
    assert_eq!(
        come_back(&platform, &trip, "good-code").await.status(),
        400,
        "a state is good once, also after a failure"
    );
    let trip = set_out(&platform, &provider, "", None).await;
    let forged = Trip { cookie: trip.cookie.clone(), state: "0".repeat(64) };
    assert_eq!(come_back(&platform, &forged, "good-code").await.status(), 400);
    assert_eq!(come_back(&platform, &trip, "stolen-code").await.status(), 401);
    let trip = set_out(&platform, &provider, "", None).await;
    platform.pass(11 * 60 * 1000);
    assert_eq!(come_back(&platform, &trip, "good-code").await.status(), 400, "too late");
}

#[tokio::test(flavor = "multi_thread")]
async fn k18_nobody_is_sent_to_another_site() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({})).await;
    for target in ["https://evil.example", "//evil.example", "/%5Cevil.example", "/%09/evil.example", ""] {
        let url = format!("{}/api/auth/corp/login?return_to={target}", platform.url);
        assert_eq!(platform.http().get(url).send().await.unwrap().status(), 400, "{target}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k01_k02_k03_a_token_that_is_not_exactly_right_opens_nothing() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({"createMembers": true})).await;
    let unsigned = |header: Value, claims: &Value| {
        format!("{}.{}.", b64(header.to_string().as_bytes()), b64(claims.to_string().as_bytes()))
    };
    let edit = |change: fn(&mut Value)| -> Make {
        Box::new(move |provider, mut claims| {
            change(&mut claims);
            provider.sign(&claims)
        })
    };
    let attacks: Vec<(&str, Make)> = vec![
        ("alg none", Box::new(move |_, claims| unsigned(json!({"alg": "none", "kid": "k1"}), &claims))),
        ("alg nOnE", Box::new(move |_, claims| unsigned(json!({"alg": "nOnE"}), &claims))),
        (
            "HS256 with the public key",
            Box::new(|provider, claims| {
                let header = Header { kid: Some("k1".into()), ..Header::new(Algorithm::HS256) };
                jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(&provider.0.public)).unwrap()
            }),
        ),
        (
            "HS256 with a published shared key",
            Box::new(|_, claims| {
                let header = Header { kid: Some("shared".into()), ..Header::new(Algorithm::HS256) };
                jsonwebtoken::encode(
                    &header,
                    &claims,
                    &EncodingKey::from_secret(b"secret-that-the-client-knows"),
                )
                .unwrap()
            }),
        ),
        (
            "another key under the same id",
            Box::new(|provider, claims| {
                let random = aws_lc_rs::rand::SystemRandom::new();
                let other = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
                jsonwebtoken::encode(&provider.header(), &claims, &EncodingKey::from_ec_der(other.as_ref()))
                    .unwrap()
            }),
        ),
        (
            "a kid that is a path",
            Box::new(|provider, claims| {
                let header = Header { kid: Some("../../k1".into()), ..provider.header() };
                jsonwebtoken::encode(&header, &claims, &EncodingKey::from_ec_der(&provider.0.pkcs8)).unwrap()
            }),
        ),
        (
            "a kid that is SQL",
            Box::new(|provider, claims| {
                let header = Header { kid: Some("k1' OR '1'='1".into()), ..provider.header() };
                jsonwebtoken::encode(&header, &claims, &EncodingKey::from_ec_der(&provider.0.pkcs8)).unwrap()
            }),
        ),
        (
            "jku to a key of the attacker's",
            Box::new(|provider, claims| {
                let header = Header {
                    jku: Some("http://127.0.0.1:1/keys".into()),
                    kid: Some("evil".into()),
                    ..provider.header()
                };
                jsonwebtoken::encode(&header, &claims, &EncodingKey::from_ec_der(&provider.0.pkcs8)).unwrap()
            }),
        ),
        (
            "no exp",
            edit(|claims| {
                claims.as_object_mut().unwrap().remove("exp");
            }),
        ),
        ("exp as text", edit(|claims| claims["exp"] = json!(claims["exp"].to_string()))),
        ("exp as a fraction", edit(|claims| claims["exp"] = json!(claims["exp"].as_f64().unwrap() + 0.5))),
        ("exp negative", edit(|claims| claims["exp"] = json!(-1))),
        ("exp past", edit(|claims| claims["exp"] = json!(1_000_000_000))),
        ("nbf in the future", edit(|claims| claims["nbf"] = json!(claims["exp"].as_u64().unwrap() + 3600))),
        ("nbf as text", edit(|claims| claims["nbf"] = json!("soon"))),
        ("another audience", edit(|claims| claims["aud"] = json!("other"))),
        (
            "no audience",
            edit(|claims| {
                claims.as_object_mut().unwrap().remove("aud");
            }),
        ),
        (
            "several audiences, for another",
            edit(|claims| {
                claims["aud"] = json!(["slipway", "other"]);
                claims["azp"] = json!("other");
            }),
        ),
        ("another issuer", edit(|claims| claims["iss"] = json!("https://evil.example"))),
        (
            "another tenant of the issuer",
            edit(|claims| claims["iss"] = json!(format!("{}/other", claims["iss"].as_str().unwrap()))),
        ),
        ("another sign-in's nonce", edit(|claims| claims["nonce"] = json!("0"))),
        (
            "no nonce",
            edit(|claims| {
                claims.as_object_mut().unwrap().remove("nonce");
            }),
        ),
        ("no subject", edit(|claims| claims["sub"] = json!(""))),
        ("no token at all", Box::new(|_, _| String::new())),
    ];
    for (name, make) in attacks {
        provider.make(make);
        let (status, text) = sign_in(&platform, &provider).await;
        assert_eq!(status, 401, "{name}: {text}");
    }
    assert_eq!(platform.get("/api/users").await.as_array().unwrap().len(), 1, "nobody came in");
    provider.make(|provider, claims| provider.sign(&claims));
    assert_eq!(sign_in(&platform, &provider).await.0, 302, "and an honest token does open");
}

#[tokio::test(flavor = "multi_thread")]
async fn k19_a_disabled_person_and_a_second_person_with_the_same_address_are_refused() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({"createMembers": true})).await;
    // Somebody with a password has that address already: the provider's word is not enough to become them.
    let browser = platform.invited(&platform.admin_key, "ada@example.com", "Admin").await;
    let (status, text) = sign_in(&platform, &provider).await;
    assert_eq!(status, 401, "{text}");
    assert!(text.contains("there is already a user with this e-mail"), "{text}");
    // They link it themselves, while signed in.
    assert_eq!(link(&platform, &provider, &browser, "corp").await, 302);
    let (status, cookie) = sign_in(&platform, &provider).await;
    assert_eq!(status, 302);
    assert_eq!(me(&platform, &cookie).await["_id"], browser.user["_id"]);
    // Without the provider's check of the address nobody new comes in.
    provider.claims(json!({"sub": "s2", "email": "eve@example.com", "email_verified": false}));
    assert_eq!(sign_in(&platform, &provider).await.0, 401);
    provider.claims(json!({"sub": "s2", "email": "eve@example.com"}));
    assert_eq!(sign_in(&platform, &provider).await.0, 401);

    let (status, _) = platform
        .call(
            "PATCH",
            "/api/admin/users/ada@example.com",
            &platform.admin_key,
            Some(json!({"enabled": false})),
        )
        .await;
    assert_eq!(status, 200);
    provider.claims(json!({"sub": "s1", "email": "ada@example.com", "email_verified": true}));
    let (status, text) = sign_in(&platform, &provider).await;
    assert_eq!(status, 401, "{text}");
    assert_eq!(me(&platform, &cookie).await["status"], 401, "open sessions end too");
    assert_eq!(platform.sign_in("ada@example.com", PASSWORD).await.err(), Some(401));
}

#[tokio::test(flavor = "multi_thread")]
async fn k116_an_issuer_inside_is_refused_until_an_operator_allows_it() {
    let provider = Provider::start().await;
    let platform = Platform::start().await;
    for issuer in [
        provider.0.url.clone(),
        "http://localhost:1".into(),
        "http://169.254.169.254".into(),
        "http://[::1]".into(),
        "http://0x7f.1".into(),
        "http://2130706433".into(),
    ] {
        let body = json!({"name": "corp", "settings": {"issuer": issuer, "clientId": "slipway"}});
        let (status, refused) = platform.call("POST", "/api/idp", &platform.admin_key, Some(body)).await;
        assert_eq!(status, 400, "{issuer}");
        assert!(refused["message"].as_str().unwrap().contains("internal address"), "{issuer}: {refused}");
    }
    let body = json!({"name": "corp", "settings": {"issuer": "gopher://x", "clientId": "slipway"}});
    assert_eq!(platform.call("POST", "/api/idp", &platform.admin_key, Some(body)).await.0, 400);
}

/// A person who comes back from the provider sees the sign-in page with a sentence; a program sees the error.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_shown_why_a_sign_in_failed_on_the_sign_in_page() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({})).await;
    let look = async |path: &str, cookie: &str| {
        let answer = platform
            .http()
            .get(format!("{}{path}", platform.url))
            .header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
            .header("cookie", cookie)
            .send()
            .await
            .unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.headers()["location"].to_str().unwrap()),
            (302, "/login")
        );
        let mut cookies = answer.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
        let told = cookies.find_map(|value| value.strip_prefix("slipway_sign_in_problem=")).unwrap();
        assert!(told.contains("; Path=/login; SameSite=Lax; Max-Age=60"), "{told}");
        told.split(';').next().unwrap().replace("%20", " ").replace("%3A", ":")
    };
    let trip = set_out(&platform, &provider, "", None).await;
    let path = format!("/api/auth/corp/callback?code=good-code&state={}", trip.state);
    let told = look(&path, &trip.cookie).await;
    assert_eq!(told, "you are not a member of this account: ask its Administrator for an invitation");
    let told = look(&path, &trip.cookie).await;
    assert!(told.starts_with("this sign%2Din has expired"), "{told}");
    let trip = set_out(&platform, &provider, "", None).await;
    let path = format!("/api/auth/corp/callback?error=access_denied%0d%0aset-cookie:x&state={}", trip.state);
    assert_eq!(look(&path, &trip.cookie).await, "the identity provider refused: access%5Fdeniedsetcookiex");
    look("/api/auth/nobody/login", "").await;
    // It is on the record all the same, in the account that it was aimed at.
    let denied = platform.get("/api/audit?action=login&outcome=denied").await;
    assert_eq!(
        (&denied["total"], &denied["docs"][0]["userName"]),
        (&json!(1), &json!("ada@example.com")),
        "{denied}"
    );
    // No word of a stranger's comes on the page by its address.
    let page = platform.http().get(format!("{}/login?problem=call+me", platform.url)).send().await.unwrap();
    assert!(!page.text().await.unwrap().contains("call me"));
}

/// Two groups whose names come out the same are two groups: the second does not get what the first was given.
#[tokio::test(flavor = "multi_thread")]
async fn k107_a_group_that_is_called_like_another_does_not_open_its_team() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({"groupsClaim": "groups", "createMembers": true})).await;
    let person = |sub: &str, group: &str| json!({"sub": sub, "email": format!("{sub}@example.com"), "email_verified": true, "groups": [group]});
    provider.claims(person("ada", "acme:ops"));
    let (_, cookie) = sign_in(&platform, &provider).await;
    assert_eq!(me(&platform, &cookie).await["teams"], json!(["acme-ops", "users"]));
    // Anybody may make an organisation of this name at the provider.
    provider.claims(person("eve", "acme-ops"));
    let (_, cookie) = sign_in(&platform, &provider).await;
    assert_eq!(me(&platform, &cookie).await["teams"], json!(["users"]));
    provider.claims(person("ada", "other"));
    let (_, cookie) = sign_in(&platform, &provider).await;
    assert_eq!(me(&platform, &cookie).await["teams"], json!(["other", "users"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_is_suspended_does_not_come_in_through_the_provider() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({"createMembers": true})).await;
    let (status, cookie) = sign_in(&platform, &provider).await;
    assert_eq!(status, 302);
    let off = json!({"suspended": true});
    let (status, _) =
        platform.call("PATCH", "/api/users/ada@example.com", &platform.admin_key, Some(off)).await;
    assert_eq!(status, 200);
    assert_eq!(me(&platform, &cookie).await["status"], 401);
    let (status, text) = sign_in(&platform, &provider).await;
    assert_eq!(status, 401);
    assert!(text.contains("you are suspended in this account"), "{text}");
}
