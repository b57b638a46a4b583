//! Signing in to a Git provider with OAuth, against a real Gitea: by whoever began it, once, and with what it gives, commits.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_cluster::ObjectKey;
use slipway_testkit::gitea;

use crate::control_plane::ControlPlane;
use crate::git_tokens::Door;
use crate::world::{World, config_map};

fn digest(word: &str) -> String {
    Sha256::digest(word.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A browser of somebody's at Gitea.
struct Visitor {
    http: reqwest::Client,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    fn new() -> Self {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { http, cookies: BTreeMap::new() }
    }

    /// Until there is a page, or it is sent away from Gitea: where to, and the page.
    async fn go(
        &mut self,
        gitea: &str,
        address: &str,
        form: Option<Vec<(String, String)>>,
    ) -> (String, String) {
        let (mut address, mut form) = (address.to_owned(), form);
        for _ in 0..12 {
            let mut request = match form.take() {
                Some(fields) => {
                    let body = reqwest::Url::parse_with_params("http://x/", &fields).unwrap();
                    let kind = "application/x-www-form-urlencoded";
                    let post = self.http.post(&address).header("content-type", kind);
                    post.header("origin", gitea).body(body.query().unwrap_or_default().to_owned())
                }
                None => self.http.get(&address),
            };
            let cookies: Vec<_> =
                self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header("cookie", cookies.join("; ")).header("sec-fetch-site", "same-origin");
            let answer = request.send().await.unwrap();
            for value in answer.headers().get_all("set-cookie") {
                let pair = value.to_str().unwrap().split(';').next().unwrap();
                let (name, value) = pair.split_once('=').unwrap();
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
            let Some(onward) = answer.headers().get("location").filter(|_| answer.status().is_redirection())
            else {
                return (address, answer.text().await.unwrap());
            };
            let onward = reqwest::Url::parse(&address).unwrap().join(onward.to_str().unwrap()).unwrap();
            if !onward.as_str().starts_with(gitea) {
                return (onward.to_string(), String::new());
            }
            address = onward.to_string();
        }
        panic!("sent around in a circle: {address}");
    }

    /// Signs in and says yes: where Gitea sends the browser.
    async fn say_yes(&mut self, gitea: &str, url: &str, user: &str) -> String {
        let hidden = |page: &str, action: &str, mine: &[(&str, &str)]| -> Vec<(String, String)> {
            let form = page.split("<form").find(|form| form.split('>').next().unwrap().contains(action));
            let form = form.unwrap_or_else(|| panic!("no form to {action}: {page}"));
            let part = |tag: &str, name: &str| {
                let value = tag.split(&format!("{name}=\"")).nth(1)?.split('"').next()?;
                Some(value.replace("&#43;", "+").replace("&amp;", "&").replace("&#34;", "\""))
            };
            let form = form.split("</form>").next().unwrap();
            let inputs = form.split("<input").skip(1).map(|rest| rest.split('>').next().unwrap());
            let inputs = inputs.filter(|input| input.contains("hidden"));
            let all =
                inputs.filter_map(|tag| Some((part(tag, "name")?, part(tag, "value").unwrap_or_default())));
            let mine = mine.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            all.chain(mine).collect()
        };
        let (mut at, mut page) = self.go(gitea, url, None).await;
        if at.contains("/user/login") {
            let form = hidden(&page, "/user/login", &[("user_name", user), ("password", gitea::PASSWORD)]);
            (at, page) = self.go(gitea, &format!("{gitea}/user/login"), Some(form)).await;
        }
        if at.contains("/login/oauth/authorize") {
            let form = hidden(&page, "/login/oauth/grant", &[("granted", "true")]);
            (at, _) = self.go(gitea, &format!("{gitea}/login/oauth/grant"), Some(form)).await;
        }
        at
    }
}

/// What stands behind the `#` of an address, or in its query.
fn brought(address: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(address).unwrap();
    let text = url.fragment().or(url.query()).unwrap_or_default().to_owned();
    let pairs = reqwest::Url::parse(&format!("http://x/?{text}")).unwrap();
    pairs.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_is_ended_once_by_who_began_it_and_its_token_commits_and_is_renewed() {
    let server = tokio::task::block_in_place(gitea::shared);
    let (ada, bob) = (server.name("ada"), server.name("bob"));
    let email = tokio::task::block_in_place(|| {
        server.user(&bob);
        server.user(&ada)
    });
    tokio::task::block_in_place(|| server.repo(&ada, "config"));
    let host = server.url();
    let redirect = "https://rt.example/app-proxy/api/git-auth/gitea/callback";
    let app = tokio::task::block_in_place(|| server.oauth_app(&server.name("slipway-"), redirect));

    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    let platform = client.base().to_owned();
    world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    let known = json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": "repo-creds"}},
        "stringData": {"url": host}});
    world.make("v1", "Secret", "argocd", "the-gitea", known).await;
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.server = Some(client);
    let door = Door::open(world.start_with(config)).await;
    plane.until("shop", |app| app.sync_status == "OutOfSync").await;

    let begin = |word: &str| json!({"provider": "gitea", "host": host, "challenge": digest(word)});
    // Nobody registered an application yet.
    let (status, said) = door.post("user", "git-authorize", &begin("w")).await;
    assert_eq!((status, &said["name"]), (422, &json!("NO_SIGN_IN")), "{said}");
    assert_eq!(door.get("user", "git-tokens").await.1["signIn"], json!([]));
    let described = json!({"metadata": {"labels": {"slipway.io/git-oauth": "true"}},
        "stringData": {"provider": "gitea", "host": host, "clientId": app.client_id,
            "clientSecret": app.client_secret, "redirectUri": redirect}});
    world.make("v1", "Secret", "argocd", "gitea-sign-in", described).await;
    let (_, tokens) = door.get("user", "git-tokens").await;
    assert_eq!(tokens["signIn"], json!([{"provider": "gitea", "host": host}]), "{tokens}");
    assert_eq!(door.post("read", "git-authorize", &begin("w")).await.0, 403);
    let (status, said) = door
        .post("user", "git-authorize", &json!({"provider": "gitea", "host": host, "challenge": "x"}))
        .await;
    assert_eq!((status, &said["name"]), (422, &json!("BAD_CHALLENGE")), "{said}");

    // Ada begins; Gitea asks her, and sends her browser to the runtime, which sends it to the platform's page.
    let (status, begun) = door.post("user", "git-authorize", &begin("ada's word")).await;
    assert_eq!(status, 200, "{begun}");
    let url = begun["url"].as_str().unwrap();
    assert!(url.contains("code_challenge_method=S256") && !url.contains(&app.client_secret), "{url}");
    let mut browser = Visitor::new();
    let back = browser.say_yes(&host, url, &ada).await;
    assert!(back.starts_with(redirect), "{back}");
    let (code, state) = (brought(&back)["code"].clone(), brought(&back)["state"].clone());
    assert_eq!(begun["state"], json!(state));
    let query = back.split_once('?').unwrap().1;
    let callback = format!("{}-auth/gitea/callback", door.base());
    let answer = browser.http.get(format!("{callback}?{query}")).send().await.unwrap();
    assert_eq!(answer.status(), 303);
    let page = answer.headers()["location"].to_str().unwrap().to_owned();
    assert!(page.starts_with(&format!("{platform}/runtimes/test/git#")), "{page}");
    // With where it came in.
    let secret_code = code;
    let code = format!("gitea:{secret_code}");
    assert_eq!((&brought(&page)["code"], &brought(&page)["state"]), (&code, &state));
    assert!(answer.text().await.unwrap().contains(&code), "for those whose browser does not go on");
    for wrong in ["", "code=x", "state=x&code=y", "error=access_denied", &format!("state={state}&code=a%0Ab")]
    {
        let answer = browser.http.get(format!("{callback}?{wrong}")).send().await.unwrap();
        assert_eq!(answer.status(), 422, "{wrong}");
    }

    // Bob cannot end it, nor anybody who does not know the word; nor can a code of Bob's end what Ada began.
    let end = |state: &str, code: &str, word: &str| json!({"state": state, "code": code, "word": word});
    for (who, request) in [
        ("user.bob", end(&state, &code, "ada's word")),
        ("user", end(&state, &code, "another word")),
        ("user", end(&"0".repeat(64), &code, "ada's word")),
        ("user", end("", &code, "ada's word")),
    ] {
        let (status, said) = door.post(who, "git-connect", &request).await;
        assert_eq!((status, &said["name"]), (422, &json!("NO_SIGN_IN_UNDER_WAY")), "{who}: {said}");
    }
    let (status, account) = door.post("user", "git-connect", &end(&state, &code, "ada's word")).await;
    assert_eq!(status, 200, "{account}");
    assert_eq!(
        (&account["login"], &account["email"], &account["signedIn"]),
        (&json!(ada), &json!(email), &json!(true))
    );
    let (status, said) = door.post("user", "git-connect", &end(&state, &code, "ada's word")).await;
    assert_eq!((status, &said["name"]), (422, &json!("NO_SIGN_IN_UNDER_WAY")), "once: {said}");
    assert_eq!(door.get("user.bob", "git-tokens").await.1["tokens"], json!([]), "it is Ada's alone");

    // It is a token like any other: lists, and commits that are hers.
    let at = format!("provider=gitea&host={host}");
    let (_, mine) = door.get("user", &format!("git-repositories?{at}")).await;
    assert!(mine["names"].as_array().unwrap().contains(&json!(format!("{ada}/config"))), "{mine}");
    let commit = |text: &str| {
        json!({"provider": "gitea", "host": host, "repository": format!("{ada}/config"), "message": "By sign-in",
            "files": [{"path": "apps/shop.yaml", "content": text}]})
    };
    let (status, made) = door.post("user", "git-commit", &commit("one: 1\n")).await;
    assert_eq!((status, &made["outcome"]), (200, &json!("committed")), "{made}");
    let sha = made["commit"].as_str().unwrap();
    let seen = server.api("GET", &format!("/repos/{ada}/config/git/commits/{sha}"), None);
    for who in ["author", "committer"] {
        assert_eq!(seen["commit"][who]["email"], json!(email), "{who}: {seen}");
    }

    // One that ends is renewed before it is used, and the new one is kept.
    let vault = |name: &Value| {
        name.as_str().is_some_and(|name| name.starts_with("slipway-git-") && !name.contains("sign-in"))
    };
    let secret = async || {
        let kind = ObjectKey::new("", "Secret", "argocd", "");
        let all = world.client.list_labelled(&kind, "slipway.io/git-tokens-of-a-person=true").await.unwrap();
        assert_eq!(all.len(), 1);
        let object = all.into_iter().next().unwrap();
        assert!(vault(&object["metadata"]["name"]), "{object}");
        let (place, data) = object["data"].as_object().unwrap().iter().next().unwrap();
        let stored: Value = serde_json::from_slice(&STANDARD.decode(data.as_str().unwrap()).unwrap())
            .expect("what is stored");
        (object["metadata"]["name"].as_str().unwrap().to_owned(), place.clone(), stored)
    };
    let (name, place, mut stored) = secret().await;
    let first = stored["token"].clone();
    let put = async |stored: &Value| {
        let target =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "argocd", "name": name}});
        let patch = json!({"stringData": {place.as_str(): stored.to_string()}});
        world.client.merge(&target, &patch, slipway_cluster::WriteOptions::default()).await.unwrap();
    };
    stored["renewable"]["expires"] = "2020-01-01T00:00:00Z".into();
    put(&stored).await;
    let (status, made) = door.post("user", "git-commit", &commit("two: 2\n")).await;
    assert_eq!((status, &made["outcome"]), (200, &json!("committed")), "{made}");
    let (_, _, renewed) = secret().await;
    assert_ne!(renewed["token"], first, "renewed");
    assert!(
        renewed["renewable"]["expires"].as_str().unwrap() > "2026",
        "{}",
        renewed["renewable"]["expires"]
    );

    // Revoked at Gitea: the application is gone, and with it what was given to it.
    let apps = server.api("GET", "/user/applications/oauth2", None);
    let mine =
        apps.as_array().unwrap().iter().find(|one| one["client_id"] == app.client_id.as_str()).unwrap();
    server.api("DELETE", &format!("/user/applications/oauth2/{}", mine["id"]), None);
    let (status, said) = door.post("user", "git-commit", &commit("three: 3\n")).await;
    assert_eq!((status, &said["name"]), (422, &json!("TOKEN_REFUSED")), "{said}");
    stored["renewable"]["expires"] = "2020-01-01T00:00:00Z".into();
    put(&stored).await;
    let (status, said) = door.get("user", &format!("git-repositories?{at}")).await;
    assert_eq!((status, &said["name"]), (422, &json!("TOKEN_REFUSED")), "{said}");
    assert!(said["message"].as_str().unwrap().contains("sign in again"), "{said}");
    let forget = json!({"provider": "gitea", "host": host});
    assert_eq!(door.post("user", "git-forget", &forget).await.0, 200);

    // The platform heard neither code, word nor token; nothing of the sign-in is left in the cluster.
    let heard = serde_json::to_string(&plane.asked()).expect("JSON");
    for canary in [
        &secret_code,
        "ada's word",
        first.as_str().unwrap(),
        renewed["token"].as_str().unwrap(),
        &app.client_secret,
    ] {
        assert!(!heard.contains(canary), "the platform heard {canary}");
    }
    let kind = ObjectKey::new("", "Secret", "argocd", "");
    let left = world.client.list_labelled(&kind, "slipway.io/git-sign-in=true").await.unwrap();
    assert_eq!(left.len(), 0, "{left:?}");
}
