//! People's own Git tokens at a runtime, against a real Gitea: kept in the cluster, seen by nobody, and whose commits they make.

use serde_json::{Value, json};
use slipway_cluster::ObjectKey;
use slipway_testkit::gitea;

use crate::control_plane::{ControlPlane, pass};
use crate::world::{World, config_map};

pub(crate) struct Door {
    base: String,
    http: reqwest::Client,
}

impl Door {
    pub(crate) async fn open(handle: slipway_runtime::Handle) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = slipway_runtime::app_proxy_router(handle);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { base: format!("http://{address}/app-proxy/api/git"), http: reqwest::Client::new() }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) async fn get(&self, who: &str, what: &str) -> (u16, Value) {
        Self::answer(self.http.get(format!("{}/{what}", self.base)).header("authorization", pass(who))).await
    }

    pub(crate) async fn post(&self, who: &str, what: &str, body: &Value) -> (u16, Value) {
        let post = self.http.post(format!("{}/{what}", self.base)).header("authorization", pass(who));
        Self::answer(post.json(body)).await
    }

    async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
        let answer = request.send().await.expect("answered");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a text");
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_stays_in_the_cluster_lists_what_its_owner_sees_and_commits_as_them() {
    let server = tokio::task::block_in_place(gitea::shared);
    let (ada, bob) = (server.name("ada"), server.name("bob"));
    let email = tokio::task::block_in_place(|| server.user(&ada));
    tokio::task::block_in_place(|| server.user(&bob));
    let (ada_token, bob_token) = tokio::task::block_in_place(|| (server.token(&ada), server.token(&bob)));
    tokio::task::block_in_place(|| server.repo(&ada, "private-config"));
    let closed = json!({"private": true});
    server.api("PATCH", &format!("/repos/{ada}/private-config"), Some(closed));
    let org = server.name("org");
    assert_eq!(server.api_as(&ada_token, "POST", "/orgs", Some(json!({"username": org}))).0, 201);
    let empty = json!({"name": "empty", "auto_init": false, "default_branch": "main"});
    server.api("POST", &format!("/admin/users/{ada}/repos"), Some(empty));

    let world = World::new().await;
    let (plane, client) = ControlPlane::start().await;
    world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
    let known = json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": "repo-creds"}},
        "stringData": {"url": server.url()}});
    world.make("v1", "Secret", "argocd", "the-gitea", known).await;
    world.application("shop", json!({})).await;
    let mut config = world.config();
    config.server = Some(client);
    let door = Door::open(world.start_with(config)).await;
    plane.until("shop", |app| app.sync_status == "OutOfSync").await;

    let host = server.url();
    let at = format!("provider=gitea&host={host}");
    let register = |token: &str| json!({"provider": "gitea", "host": host, "token": token});
    // Nobody's, a reader's, a wrong one, and hosts that nobody named.
    assert_eq!(door.post("read", "git-register", &register(&ada_token)).await.0, 403);
    assert_eq!(door.post("nobody", "git-register", &register(&ada_token)).await.0, 401);
    let (status, said) =
        door.post("user", "git-register", &register("0000000000000000000000000000000000000000")).await;
    assert_eq!((status, &said["name"]), (422, &json!("TOKEN_REFUSED")), "{said}");
    for (elsewhere, name) in [
        ("http://127.0.0.1:1", "UNKNOWN_HOST"),
        ("https://git.elsewhere.test", "UNKNOWN_HOST"),
        ("file:///etc", "BAD_HOST"),
        ("https://a@b", "BAD_HOST"),
        ("", "BAD_HOST"),
    ] {
        let body = json!({"provider": "gitea", "host": elsewhere, "token": ada_token});
        let (status, said) = door.post("user", "git-register", &body).await;
        assert_eq!((status, &said["name"]), (422, &json!(name)), "{elsewhere}: {said}");
    }
    let (status, said) = door.get("user", &format!("git-repositories?{at}")).await;
    assert_eq!((status, &said["name"]), (409, &json!("NO_GIT_TOKEN")), "{said}");

    let (status, account) = door.post("user", "git-register", &register(&ada_token)).await;
    assert_eq!(status, 200, "{account}");
    assert_eq!((&account["login"], &account["email"]), (&json!(ada), &json!(email)));
    assert_eq!(door.post("user.bob", "git-register", &register(&bob_token)).await.0, 200);
    // A private repository is there for its owner and for nobody else; a person sees their own tokens, and no token.
    let (_, mine) = door.get("user", &format!("git-repositories?{at}")).await;
    assert!(mine["names"].as_array().unwrap().contains(&json!(format!("{ada}/private-config"))), "{mine}");
    let (_, theirs) = door.get("user.bob", &format!("git-repositories?{at}")).await;
    assert!(!theirs.to_string().contains("private-config"), "{theirs}");
    let (_, orgs) = door.get("user", &format!("git-organizations?{at}")).await;
    assert_eq!(orgs["names"], json!([org]));
    let branches = format!("git-branches?{at}&repository={ada}/private-config");
    let (_, heads) = door.get("user", &branches).await;
    let base = heads["branches"][0]["sha"].as_str().expect("a commit").to_owned();
    assert_eq!(heads["branches"][0]["name"], "main");
    assert_eq!(door.get("user.bob", &branches).await.0, 404);
    assert_eq!(door.get("user", &format!("git-branches?{at}&repository={ada}/../x")).await.0, 422);
    let (_, tokens) = door.get("user", "git-tokens").await;
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(1), "{tokens}");

    // A commit is its owner's: author and committer. The same again is no change.
    let repository = format!("{ada}/private-config");
    let commit = |repository: &str, base: &str, text: &str| {
        json!({"provider": "gitea", "host": host, "repository": repository, "branch": "main", "base": base,
            "message": "A change of mine", "files": [{"path": "apps/shop.yaml", "content": text}]})
    };
    let (status, made) = door.post("user", "git-commit", &commit(&repository, &base, "one: 1\n")).await;
    assert_eq!((status, &made["outcome"]), (200, &json!("committed")), "{made}");
    let first = made["commit"].as_str().expect("a commit").to_owned();
    let (_, seen) =
        server.api_as(&ada_token, "GET", &format!("/repos/{repository}/git/commits/{first}"), None);
    for who in ["author", "committer"] {
        assert_eq!(seen["commit"][who]["email"], json!(email), "{who}: {seen}");
    }
    assert_eq!(seen["parents"][0]["sha"], json!(base), "{seen}");
    let (_, again) = door.post("user", "git-commit", &commit(&repository, "", "one: 1\n")).await;
    assert_eq!((&again["outcome"], &again["commit"]), (&json!("no-change"), &json!(first)), "{again}");
    // Two who looked at the same commit: the second hears of the first.
    let (status, said) = door.post("user", "git-commit", &commit(&repository, &base, "two: 2\n")).await;
    assert_eq!((status, &said["name"]), (409, &json!("CONFLICT")), "{said}");
    assert!(said["message"].as_str().unwrap().contains("apps/shop.yaml"), "{said}");
    // An empty repository gets its first commit; with a base there is nothing to begin at.
    let nothing = format!("{ada}/empty");
    let (status, said) = door.post("user", "git-commit", &commit(&nothing, &base, "a: 1\n")).await;
    assert_eq!((status, &said["name"]), (409, &json!("EMPTY_REPOSITORY")), "{said}");
    let (status, made) = door.post("user", "git-commit", &commit(&nothing, "", "a: 1\n")).await;
    assert_eq!((status, &made["outcome"]), (200, &json!("first-commit")), "{made}");
    // A protected branch, somebody else's repository, paths that lead elsewhere.
    let rule = json!({"branch_name": "main", "enable_push": false});
    server.api("POST", &format!("/repos/{repository}/branch_protections"), Some(rule));
    let (status, said) = door.post("user", "git-commit", &commit(&repository, "", "three: 3\n")).await;
    assert_eq!((status, &said["name"]), (403, &json!("PROTECTED_BRANCH")), "{said}");
    assert_eq!(door.post("user.bob", "git-commit", &commit(&repository, "", "x: 1\n")).await.0, 404);
    for path in ["../x", "/etc/x", ".git/config", "a/.GIT/x", "a//b", ""] {
        let mut body = commit(&repository, "", "x: 1\n");
        body["files"][0]["path"] = path.into();
        let (status, said) = door.post("user", "git-commit", &body).await;
        assert_eq!((status, &said["name"]), (422, &json!("BAD_PATH")), "{path}: {said}");
    }
    // Deleted: by its name.
    let mut gone = commit(&nothing, "", "");
    gone["files"] = json!([{"path": "apps/shop.yaml"}, {"path": "README.md", "content": "empty again\n"}]);
    let (status, made) = door.post("user", "git-commit", &gone).await;
    assert_eq!(status, 200, "{made}");
    let file = format!("/repos/{nothing}/contents/apps/shop.yaml");
    assert_eq!(server.api_as(&ada_token, "GET", &file, None).0, 404);

    // The platform heard no token and nothing of what is in files; the cluster keeps the token in one Secret of its owner's.
    let heard = serde_json::to_string(&plane.asked()).expect("JSON");
    for secret in [&ada_token, &bob_token] {
        assert!(!heard.contains(secret.as_str()), "the platform heard a token");
    }
    assert!(!heard.contains("one: 1") && heard.contains("apps/shop.yaml"), "{heard}");
    for answer in [&account, &tokens, &mine, &made, &said] {
        assert!(!answer.to_string().contains(&ada_token), "{answer}");
    }
    assert_eq!(door.post("user", "git-forget", &json!({"provider": "gitea", "host": host})).await.0, 200);
    assert_eq!(door.post("user", "git-forget", &json!({"provider": "gitea", "host": host})).await.0, 404);
    assert_eq!(door.get("user", &format!("git-repositories?{at}")).await.0, 409);
    assert_eq!(door.get("user.bob", &format!("git-repositories?{at}")).await.0, 200, "another's stays");
    let key = ObjectKey::new("", "Secret", "argocd", "the-gitea");
    assert!(world.client.read(&key).await.expect("readable").is_some());
}
