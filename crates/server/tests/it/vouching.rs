//! Who vouches for whom (REVIEW C4, H8, M3, L4, L8): a tenant's identity provider speaks for its account and for nobody else.

use serde_json::{Value, json};

use crate::sso::{Provider, link, me, platform, sign_in_at};
use crate::support::{Browser, PASSWORD, Platform};

/// A second tenant, `evilco`, whose Administrator has set up a provider that says what she likes.
async fn evil(platform: &Platform, provider: &Provider) -> String {
    let (_, key) = platform.account("evilco").await;
    let settings = json!({"issuer": url(provider), "clientId": "slipway", "createMembers": true, "displayName": "Company SSO"});
    let body = json!({"name": "corporate", "settings": settings, "clientSecret": "x"});
    let (status, made) = platform.call("POST", "/api/idp", &key, Some(body)).await;
    assert_eq!(status, 200, "{made}");
    key
}

fn url(provider: &Provider) -> String {
    provider.url().to_owned()
}

fn person(sub: &str, email: &str) -> Value {
    json!({"sub": sub, "email": email, "email_verified": true})
}

async fn send(
    platform: &Platform,
    cookie: &str,
    csrf: &str,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let browser = Browser { cookie: cookie.to_owned(), csrf: csrf.to_owned(), user: Value::Null };
    browser.send(platform, method, path, body).await
}

async fn kinds(platform: &Platform, entity: &str) -> Vec<String> {
    let page = platform.get(&format!("/api/audit?limit=200&entity={entity}")).await;
    let rows = page["docs"].as_array().or(page["records"].as_array()).or(page.as_array()).cloned();
    rows.unwrap_or_default().iter().map(|row| row["action"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_click_links_nothing_and_a_strangers_provider_cannot_be_linked() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({})).await;
    evil(&platform, &provider).await;
    let victim = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    // The link in a mail: a GET with the victim's cookie. It sets out to sign in, as for anybody, and links nobody.
    provider.claims(person("evil-sub-1", "whatever@evil.test"));
    let click = platform
        .http()
        .get(format!("{}/api/auth/corporate/login?link=true", platform.url))
        .header("cookie", &victim.cookie);
    assert_eq!(click.send().await.unwrap().status(), 302);
    let (status, refused) = sign_in_at(&platform, &provider, "corporate").await;
    assert_eq!(status, 401, "nobody knows that identity: {refused}");
    // By POST: not without the page's token, not with a key, and not a provider of an account that one is not in.
    let bare = platform.http().post(format!("{}/api/user/identities/corporate", platform.url));
    assert_eq!(bare.header("cookie", &victim.cookie).send().await.unwrap().status(), 403, "no CSRF token");
    assert_eq!(
        platform.call("POST", "/api/user/identities/corp", &platform.admin_key, Some(json!({}))).await.0,
        400
    );
    assert_eq!(link(&platform, &provider, &victim, "corporate").await, 404);
    let listed = victim.send(&platform, "GET", "/api/user/identities", None).await.1;
    assert_eq!(listed.as_array().unwrap().len(), 1, "only providers of one's own accounts: {listed}");
    // One's own account's can be linked, while the sign-in is fresh; it is recorded, listed and can be taken back.
    provider.claims(person("mine", "admin@example.com"));
    assert_eq!(link(&platform, &provider, &victim, "corp").await, 302);
    let listed = victim.send(&platform, "GET", "/api/user/identities", None).await.1;
    assert_eq!(
        (&listed[0]["linked"], &listed[0]["account"], &listed[0]["issuer"]),
        (&json!(true), &json!("default"), &json!(url(&provider)))
    );
    assert!(kinds(&platform, "identity").await.contains(&"link".to_owned()));
    platform.pass(61 * 60 * 1000);
    assert_eq!(
        link(&platform, &provider, &victim, "corp").await,
        403,
        "an hour later the password is asked for"
    );
    let again = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    assert_eq!(again.send(&platform, "DELETE", "/api/user/identities/corp", None).await.0, 200);
    assert!(kinds(&platform, "identity").await.contains(&"unlink".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_an_errand_that_another_session_began_links_nothing() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({})).await;
    let mallory = platform.invited(&platform.admin_key, "mallory@example.com", "User").await;
    let victim = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    // Mallory begins to link, and has the victim's browser come back with her state and her cookie.
    let begun = mallory.request(&platform, "POST", "/api/user/identities/corp").send().await.unwrap();
    let cookie = begun.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let answer: Value = begun.json().await.unwrap();
    let state = provider.asked(answer["url"].as_str().unwrap());
    let back = platform
        .http()
        .get(format!("{}/api/auth/corp/callback?code=good-code&state={state}", platform.url))
        .header("cookie", format!("{cookie}; {}", victim.cookie));
    assert_eq!(back.send().await.unwrap().status(), 400);
    assert!(!kinds(&platform, "identity").await.contains(&"link".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_session_by_a_provider_opens_its_account_and_never_the_platform() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({})).await;
    platform.account("other").await;
    let other = platform
        .post("/api/admin/accounts/other/adduser", json!({"email": platform.email, "role": "Admin"}))
        .await;
    assert_eq!(other["name"], "other");
    let admin = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    provider.claims(person("mine", "admin@example.com"));
    assert_eq!(link(&platform, &provider, &admin, "corp").await, 302);
    let (status, cookie) = sign_in_at(&platform, &provider, "corp").await;
    assert_eq!(status, 302, "{cookie}");
    let user = me(&platform, &cookie).await;
    assert_eq!((&user["email"], &user["platformAdmin"]), (&json!("admin@example.com"), &json!(false)));
    assert_eq!(
        user["account"].as_array().unwrap().len(),
        1,
        "where else they are is not the provider's business"
    );
    let csrf = user["csrfToken"].as_str().unwrap();
    assert_eq!(send(&platform, &cookie, csrf, "GET", "/api/admin/users", None).await.0, 403);
    let (status, text) = send(&platform, &cookie, csrf, "POST", "/api/user/changeaccount/other", None).await;
    assert_eq!(status, 403, "{text}");
    // A key that this session makes has no more than the session had.
    let (status, key) =
        send(&platform, &cookie, csrf, "POST", "/api/auth/key", Some(json!({"name": "k"}))).await;
    assert_eq!(status, 200);
    let key = key.as_str().unwrap();
    assert_eq!(platform.call("GET", "/api/admin/users", key, None).await.0, 403);
    assert_eq!(
        platform.call("GET", "/api/users", key, None).await.0,
        200,
        "in its account it is an Administrator's"
    );
    let (status, made) = platform.call("POST", "/api/auth/key", key, Some(json!({"name": "of a key"}))).await;
    assert_eq!(status, 200);
    assert_eq!(platform.call("GET", "/api/admin/users", made.as_str().unwrap(), None).await.0, 403);
    // Switched off, or removed, it has vouched for nobody.
    let (status, _) =
        platform.call("PATCH", "/api/idp/corp", &platform.admin_key, Some(json!({"enabled": false}))).await;
    assert_eq!(status, 200);
    assert_eq!(me(&platform, &cookie).await["status"], 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_the_same_issuer_and_subject_at_another_accounts_provider_is_somebody_else() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({"createMembers": true})).await;
    provider.claims(person("s1", "ada@example.com"));
    let (status, cookie) = sign_in_at(&platform, &provider, "corp").await;
    assert_eq!(status, 302);
    let ada = me(&platform, &cookie).await;
    // evilco uses the same public provider, or one that claims to be it.
    evil(&platform, &provider).await;
    let (status, refused) = sign_in_at(&platform, &provider, "corporate").await;
    assert_eq!(status, 401, "{refused}");
    let listed = platform.get("/api/admin/users").await;
    let found = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|user| user["_id"] == ada["_id"] || user["id"] == ada["_id"])
        .unwrap();
    assert_eq!(found["accounts"], json!(["default"]), "and has not become a member of evilco");
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_a_provider_vouches_only_for_domains_that_are_verified_for_its_account() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({})).await;
    let key = evil(&platform, &provider).await;
    provider.claims(person("ceo", "ceo@victim.test"));
    for (why, body) in
        [("no domain", None), ("another account's", Some("default")), ("her own", Some("evilco"))]
    {
        if let Some(account) = body {
            let domain = if account == "evilco" { "evil.test" } else { "victim.test" };
            platform.post(&format!("/api/admin/accounts/{account}/domains"), json!({"domain": domain})).await;
        }
        let (status, text) = sign_in_at(&platform, &provider, "corporate").await;
        assert_eq!(status, 401, "{why}: {text}");
        assert!(text.contains("is not trusted for addresses of `victim.test`"), "{text}");
    }
    for sly in
        ["ceo@victim.test@evil.test ", "ceo@evil.test.victim.test", "ceo@EVIL.test.", "x@evil.test\u{200b}"]
    {
        provider.claims(person("sly", sly));
        let status = sign_in_at(&platform, &provider, "corporate").await.0;
        assert!(status == 401 || status == 400, "{sly:?}: {status}");
    }
    provider.claims(person("own", "Mal@Evil.Test"));
    assert_eq!(sign_in_at(&platform, &provider, "corporate").await.0, 302, "her own people come in");
    // Domains are the platform's to verify, one account each.
    let body = Some(json!({"domain": "more.test"}));
    assert_eq!(platform.call("POST", "/api/admin/accounts/evilco/domains", &key, body.clone()).await.0, 403);
    assert_eq!(platform.call("POST", "/api/admin/accounts/evilco/domains", "", body).await.0, 401);
    let (status, _) = platform
        .call(
            "POST",
            "/api/admin/accounts/evilco/domains",
            &platform.admin_key,
            Some(json!({"domain": "victim.test"})),
        )
        .await;
    assert_eq!(status, 409);
    let (status, _) = platform
        .call("DELETE", "/api/admin/accounts/evilco/domains/evil.test", &platform.admin_key, None)
        .await;
    assert_eq!(status, 200);
    provider.claims(person("late", "late@evil.test"));
    assert_eq!(sign_in_at(&platform, &provider, "corporate").await.0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_an_address_that_somebody_took_first_opens_nothing_and_can_be_given_back() {
    let platform = Platform::start().await;
    let (_, mallory) = platform.account("evilco").await;
    // She invites an address that is not hers, and accepts the invitation herself.
    let squatter = platform.invited(&mallory, "ceo@victim.test", "User").await;
    let made = platform
        .post("/api/admin/accounts", json!({"name": "victimcorp", "adminEmail": "ceo@victim.test"}))
        .await;
    let invitation = made["invitationUrl"].as_str().expect("an invitation, not a membership").to_owned();
    assert_eq!(squatter.send(&platform, "POST", "/api/user/changeaccount/victimcorp", None).await.0, 404);
    for (path, body) in
        [("/api/admin/accounts/victimcorp/adduser", json!({"email": "ceo@victim.test", "role": "Admin"}))]
    {
        let (status, text) = platform.call("POST", path, &platform.admin_key, Some(body)).await;
        assert_eq!(status, 409, "{text}");
        assert!(text.to_string().contains("is not verified for this person"), "{text}");
    }
    // The address is taken from her, by an administrator of the platform alone; whom it belongs to comes in.
    let id = squatter.user["_id"].as_str().unwrap();
    let path = format!("/api/admin/users/{id}/release-address");
    assert_eq!(platform.call("POST", &path, &mallory, None).await.0, 403);
    assert_eq!(platform.call("POST", &path, &platform.admin_key, None).await.0, 200);
    assert_eq!(squatter.send(&platform, "GET", "/api/user", None).await.0, 401, "her session is over");
    let token = invitation.split_once('#').unwrap().1;
    let answer = platform
        .http()
        .post(format!("{}/api/auth/invitation/accept", platform.url))
        .json(&json!({"token": token, "password": PASSWORD}));
    let owner = Browser::from_answer(answer.send().await.unwrap()).await;
    assert_eq!(
        (&owner.user["activeAccountName"], &owner.user["roles"]),
        (&json!("victimcorp"), &json!(["User", "Admin"]))
    );
    assert_ne!(owner.user["_id"], squatter.user["_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m3_an_account_without_passwords_is_entered_by_a_password_through_no_door() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({"createMembers": true})).await;
    let off = json!({"settings": {"passwordLogin": false}});
    let (status, text) = platform.call("PATCH", "/api/account", &platform.admin_key, Some(off.clone())).await;
    assert_eq!(status, 409, "nobody could get in: {text}");
    let admin = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    provider.claims(person("mine", "admin@example.com"));
    assert_eq!(link(&platform, &provider, &admin, "corp").await, 302);
    let bob = platform.invited(&platform.admin_key, "bob@elsewhere.test", "User").await;
    let (_, other) = platform.account("other").await;
    let invited = platform
        .call("POST", "/api/invitations", &other, Some(json!({"email": "bob@elsewhere.test"})))
        .await
        .1;
    let token = invited["url"].as_str().unwrap().split_once('#').unwrap().1.to_owned();
    let body = json!({"token": token, "password": PASSWORD});
    let answer = platform.http().post(format!("{}/api/auth/invitation/accept", platform.url)).json(&body);
    let there = Browser::from_answer(answer.send().await.unwrap()).await;
    let (status, _) = platform.call("PATCH", "/api/account", &platform.admin_key, Some(off)).await;
    assert_eq!(status, 200);

    assert_eq!(
        admin.send(&platform, "GET", "/api/user", None).await.0,
        401,
        "sessions by password are over, the administrator's too"
    );
    assert_eq!(bob.send(&platform, "GET", "/api/user", None).await.0, 401);
    assert_eq!(platform.sign_in(&platform.email, &platform.password).await.err(), Some(403));
    let (status, text) = there.send(&platform, "POST", "/api/user/changeaccount/default", None).await;
    assert_eq!(status, 403, "{text}");
    let invited = platform.post("/api/invitations", json!({"email": "new@elsewhere.test"})).await;
    let token = invited["url"].as_str().unwrap().split_once('#').unwrap().1.to_owned();
    let accept = json!({"token": token, "password": PASSWORD});
    let (status, text) = platform.call("POST", "/api/auth/invitation/accept", "", Some(accept)).await;
    assert_eq!(status, 403, "{text}");
    // The invitation is not used up: with the provider it opens the account, also for an address of another domain.
    let view = platform.call("POST", "/api/auth/invitation/look", "", Some(json!({"token": token}))).await.1;
    assert_eq!((&view["password"], &view["sso"][0]["name"]), (&json!(false), &json!("corp")));
    let begun = platform
        .http()
        .post(format!("{}/api/auth/corp/invitation", platform.url))
        .json(&json!({"token": token}));
    let begun = begun.send().await.unwrap();
    assert_eq!(begun.status(), 200);
    let cookie = begun.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let answer: Value = begun.json().await.unwrap();
    let state = provider.asked(answer["url"].as_str().unwrap());
    provider.claims(person("contractor", "contractor@provider.test"));
    let back =
        platform.http().get(format!("{}/api/auth/corp/callback?code=good-code&state={state}", platform.url));
    assert_eq!(back.header("cookie", cookie).send().await.unwrap().status(), 302);
    let (status, cookie) = sign_in_at(&platform, &provider, "corp").await;
    assert_eq!((status, &me(&platform, &cookie).await["email"]), (302, &json!("new@elsewhere.test")));
    // Whoever has the machine opens it again, for the day the provider is gone.
    platform.server.allow_passwords("default").await.unwrap();
    assert!(platform.sign_in(&platform.email, &platform.password).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_puts_no_button_on_everybodys_sign_in_page() {
    let provider = Provider::start().await;
    let platform = platform(&provider, json!({})).await;
    let key = evil(&platform, &provider).await;
    let names = |options: Value| -> Vec<String> {
        options["sso"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(platform.call("GET", "/api/auth/options", "", None).await.1), ["corp"]);
    assert_eq!(
        names(platform.call("GET", "/api/auth/options?of=evilco", "", None).await.1),
        ["corp", "corporate"]
    );
    assert_eq!(names(platform.call("GET", "/api/auth/options?of=ada@evil.test", "", None).await.1), ["corp"]);
    platform.post("/api/admin/accounts/evilco/domains", json!({"domain": "evil.test"})).await;
    assert_eq!(
        names(platform.call("GET", "/api/auth/options?of=ada@Evil.Test", "", None).await.1),
        ["corp", "corporate"]
    );
    let (status, _) =
        platform.call("PATCH", "/api/idp/corporate", &key, Some(json!({"frontPage": true}))).await;
    assert_eq!(status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn l4_strangers_who_guess_do_not_lock_a_known_browser_out() {
    let platform = Platform::start().await;
    let login = |password: &str| {
        platform
            .http()
            .post(format!("{}/api/auth/login", platform.url))
            .json(&json!({"email": platform.email, "password": password}))
    };
    let first = login(&platform.password).send().await.unwrap();
    let known = first
        .headers()
        .get_all("set-cookie")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .find(|value| value.starts_with("slipway_browser="))
        .expect("the browser is remembered");
    assert!(known.contains("HttpOnly") && known.contains("SameSite=Strict"), "{known}");
    let known = known.split(';').next().unwrap().to_owned();
    for _ in 0..7 {
        login("a guess at somebody else").send().await.unwrap();
    }
    assert_eq!(login(&platform.password).send().await.unwrap().status(), 429, "a stranger waits");
    let own = login(&platform.password).header("cookie", &known).send().await.unwrap();
    assert_eq!(own.status(), 200, "the owner does not");
    // Nor is the cookie a way to guess without end: it has a count of its own.
    for _ in 0..5 {
        assert_eq!(login("a guess").header("cookie", &known).send().await.unwrap().status(), 401);
    }
    assert_eq!(login("a guess").header("cookie", &known).send().await.unwrap().status(), 429);
    // Another person's browser is a stranger here.
    platform.pass(2 * 60 * 60 * 1000);
    let (_, _) = platform.member("eve@example.com", "User").await;
    let eve = platform
        .http()
        .post(format!("{}/api/auth/login", platform.url))
        .json(&json!({"email": "eve@example.com", "password": PASSWORD}));
    let eve = eve.header("cookie", &known).send().await.unwrap();
    let given = eve.headers().get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
    assert!(
        given.filter(|value| value.starts_with("slipway_browser=")).all(|value| !value.starts_with(&known))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn l8_nobody_signs_others_out_and_answers_stay_out_of_caches() {
    let platform = Platform::start().await;
    let browser = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    let bare =
        platform.http().post(format!("{}/api/auth/logout", platform.url)).header("cookie", &browser.cookie);
    assert_eq!(bare.send().await.unwrap().status(), 403, "no CSRF token");
    assert_eq!(browser.send(&platform, "GET", "/api/user", None).await.0, 200, "and the session goes on");
    for path in ["/api/user", "/api/no-such-path", "/api/auth/options", "/2.0/api/graphql", "/"] {
        let answer = browser.request(&platform, "GET", path).send().await.unwrap();
        let header = |name: &str| {
            answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned()
        };
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        if path != "/" {
            assert_eq!(header("cache-control"), "no-store", "{path}");
        }
    }
    assert_eq!(browser.send(&platform, "POST", "/api/auth/logout", None).await.0, 204);
    assert_eq!(browser.send(&platform, "GET", "/api/user", None).await.0, 401);
}
