use serde_json::{Value, json};

use crate::support::{PASSWORD, Platform};

#[tokio::test(flavor = "multi_thread")]
async fn an_invited_person_joins_once_with_the_role_and_teams_they_were_invited_with() {
    let platform = Platform::start().await;
    platform.post("/api/team", json!({"name": "devs"})).await;
    let body = json!({"email": "Ada@Example.com", "role": "User", "teams": ["devs"]});
    let made = platform.post("/api/invitations", body.clone()).await;
    assert_eq!(made["invitation"]["email"], "ada@example.com");
    let again = platform.call("POST", "/api/invitations", &platform.admin_key, Some(body)).await;
    assert_eq!(again.0, 409, "{}", again.1);
    let token = |made: &Value| made["url"].as_str().unwrap().split_once('#').unwrap().1.to_owned();
    let old = token(&made);
    let id = made["invitation"]["_id"].as_str().unwrap();
    let resent = platform.post(&format!("/api/invitations/{id}/resend"), json!({})).await;
    let fresh = token(&resent);
    let look =
        |token: String| platform.call("POST", "/api/auth/invitation/look", "", Some(json!({"token": token})));
    assert_eq!(look(old).await.0, 404, "the link that was sent before opens nothing");
    let (status, seen) = look(fresh.clone()).await;
    assert_eq!((status, &seen["accountName"], &seen["known"]), (200, &json!("default"), &json!(false)));
    let accept = |password: &str| {
        let body = json!({"token": fresh, "name": "Ada", "password": password});
        platform.call("POST", "/api/auth/invitation/accept", "", Some(body))
    };
    assert_eq!(accept("short").await.0, 400);
    let (status, user) = accept(PASSWORD).await;
    assert_eq!(status, 200, "{user}");
    assert_eq!(user["teams"], json!(["devs", "users"]));
    assert_eq!(user["roles"], json!(["User"]));
    assert_eq!(accept(PASSWORD).await.0, 404, "used up");
    assert_eq!(platform.get("/api/invitations").await, json!([]));
    let members = platform.get("/api/users").await;
    assert_eq!(members.as_array().unwrap().len(), 2);
    assert!(platform.sign_in("ada@example.com", PASSWORD).await.is_ok());

    // Too old.
    let made = platform.post("/api/invitations", json!({"email": "bob@example.com"})).await;
    platform.pass(8 * 24 * 60 * 60 * 1000);
    assert_eq!(look(token(&made)).await.0, 404);
    assert_eq!(platform.get("/api/invitations").await[0]["expired"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_domains_are_invited_and_the_limit_of_seats_says_so() {
    let platform = Platform::start().await;
    let settings = json!({"settings": {"allowedDomains": ["example.com"]}});
    assert_eq!(platform.call("PATCH", "/api/account", &platform.admin_key, Some(settings)).await.0, 200);
    let invite = |email: &str| {
        platform.call("POST", "/api/invitations", &platform.admin_key, Some(json!({"email": email})))
    };
    let (status, refused) = invite("eve@elsewhere.example").await;
    assert_eq!(status, 400);
    assert!(refused["message"].as_str().unwrap().contains("allowed domain (example.com)"), "{refused}");
    let limits = json!({"limits": {"seats": 2}});
    let (status, changed) =
        platform.call("PATCH", "/api/admin/accounts/default", &platform.admin_key, Some(limits)).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(invite("a@example.com").await.0, 200);
    let (status, refused) = invite("b@example.com").await;
    assert_eq!((status, &refused["name"]), (403, &json!("LIMIT_REACHED")));
    let text = refused["message"].as_str().unwrap();
    assert!(text.contains("limit `seats` is reached: 2 of 2 are used; remove a user"), "{text}");
    let usage = platform.get("/api/usage").await;
    let seats = usage["limits"].as_array().unwrap().iter().find(|state| state["name"] == "seats").unwrap();
    assert_eq!(
        seats,
        &json!({"name": "seats", "used": 2, "limit": 2, "isReached": true, "isExceeded": false, "isEnforced": true})
    );
    assert_eq!(usage["messages"].as_array().unwrap().len(), 1);
    let many = json!({"settings": {"inactivityMinutes": 1, "sessionHours": 0, "allowedDomains": ["x"]}});
    let (_, refused) = platform.call("PATCH", "/api/account", &platform.admin_key, Some(many)).await;
    for word in ["inactivityMinutes", "sessionHours", "allowedDomains"] {
        assert!(refused["message"].as_str().unwrap().contains(word), "all findings at once: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_of_two_accounts_switches_between_them_and_sees_one_at_a_time() {
    let platform = Platform::start().await;
    let browser = platform.invited(&platform.admin_key, "ada@example.com", "User").await;
    // Her address is of a domain that is verified for an account that she is in: she is added at once.
    platform.post("/api/admin/accounts/default/domains", json!({"domain": "example.com"})).await;
    platform.post("/api/admin/accounts", json!({"name": "second", "adminEmail": "ada@example.com"})).await;
    let (_, user) = browser.send(&platform, "GET", "/api/user", None).await;
    assert_eq!(user["account"].as_array().unwrap().len(), 2);
    assert_eq!((&user["activeAccountName"], &user["roles"]), (&json!("default"), &json!(["User"])));
    let answer = browser.request(&platform, "POST", "/api/user/changeaccount/second").send().await.unwrap();
    let there = crate::support::Browser::from_answer(answer).await;
    assert_eq!(there.user["activeAccountName"], "second");
    assert_eq!(there.user["roles"], json!(["User", "Admin"]));
    assert_eq!(browser.send(&platform, "GET", "/api/user", None).await.0, 401, "the old id is over");
    assert_eq!(there.send(&platform, "GET", "/api/users", None).await.1.as_array().unwrap().len(), 1);
    let away = there.send(&platform, "POST", "/api/user/changeaccount/elsewhere", None).await;
    assert_eq!(away.0, 404);

    // Suspended: nobody gets in, nothing is lost. Restored: as before.
    let status = |action: &str| {
        platform.call(
            "POST",
            "/api/admin/accounts/second/status",
            &platform.admin_key,
            Some(json!({"action": action})),
        )
    };
    let (_, key) = there.send(&platform, "POST", "/api/auth/key", Some(json!({"name": "k"}))).await;
    let key = key.as_str().unwrap().to_owned();
    assert_eq!(status("suspend").await.0, 200);
    assert_eq!(there.send(&platform, "GET", "/api/user", None).await.0, 401);
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 401);
    assert_eq!(status("suspend").await.0, 409);
    assert_eq!(status("activate").await.0, 200);
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 200);
    assert_eq!(platform.call("DELETE", "/api/admin/accounts/second", &platform.admin_key, None).await.0, 200);
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 401);
    let taken = platform
        .call("POST", "/api/admin/accounts", &platform.admin_key, Some(json!({"name": "second"})))
        .await;
    assert_eq!(taken.0, 409, "a deleted account's name is not given away");
    assert_eq!(status("restore").await.0, 200);
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 200);
    let own = platform.call("DELETE", "/api/admin/accounts/default", &platform.admin_key, None).await;
    assert_eq!(own.0, 409, "{}", own.1);
    // A name that was given up waits.
    let renamed = platform
        .call("PATCH", "/api/admin/accounts/second", &platform.admin_key, Some(json!({"name": "third"})))
        .await;
    assert_eq!(renamed.0, 200, "{}", renamed.1);
    let taken = platform
        .call("POST", "/api/admin/accounts", &platform.admin_key, Some(json!({"name": "second"})))
        .await;
    assert_eq!(taken.0, 409);
    platform.pass(91 * 24 * 60 * 60 * 1000);
    let free = platform
        .call("POST", "/api/admin/accounts", &platform.admin_key, Some(json!({"name": "second"})))
        .await;
    assert_eq!(free.0, 200, "{}", free.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_accounts_have_keys_that_follow_them() {
    let platform = Platform::start().await;
    platform.post("/api/team", json!({"name": "robots"})).await;
    let made = platform.post("/api/service-users", json!({"name": "ci", "teams": ["robots"]})).await;
    assert_eq!((&made["teams"][0]["name"], &made["teams"][1]), (&json!("robots"), &json!(null)));
    let team = platform.get("/api/team/robots").await;
    assert_eq!((&team["users"], &team["serviceAccounts"][0]["_id"]), (&json!([]), &made["_id"]));
    let path = "/api/auth/key?subjectType=service-account&subjectReference=ci";
    let key = platform.post(path, json!({"name": "deploys", "scopes": ["pipeline", "build:read"]})).await;
    let key = key.as_str().unwrap().to_owned();
    let (status, user) = platform.call("GET", "/api/user", &key, None).await;
    assert_eq!((status, &user["kind"], &user["userName"]), (200, &json!("service-account"), &json!("ci")));
    assert_eq!(platform.call("GET", "/api/pipelines", &key, None).await.0, 200);
    assert_eq!(platform.call("GET", "/api/contexts", &key, None).await.0, 403);
    let listed = platform.get("/api/auth/keys?subjectType=service-account&subjectReference=ci").await;
    assert_eq!(listed[0]["scopes"], json!(["pipeline", "build:read"]));
    assert!(listed[0]["lastUsed"].is_string(), "{listed}");
    assert!(!listed.to_string().contains(key.split('.').nth(1).unwrap()), "the secret is shown once");
    let (_, refused) = platform
        .call("POST", path, &platform.admin_key, Some(json!({"name": "k", "scopes": ["pipline"]})))
        .await;
    assert!(
        refused["message"].as_str().unwrap().starts_with("no such scope: `pipline`; known are"),
        "{refused}"
    );

    let switch = |enabled: bool| {
        platform.call(
            "PATCH",
            "/api/service-users/ci",
            &platform.admin_key,
            Some(json!({"enabled": enabled})),
        )
    };
    assert_eq!(switch(false).await.0, 200);
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 401);
    assert_eq!(switch(true).await.0, 200);
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 200);
    assert_eq!(platform.call("DELETE", "/api/service-users/ci", &platform.admin_key, None).await.0, 200);
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 401);
    let taken =
        platform.call("POST", "/api/service-users", &platform.admin_key, Some(json!({"name": "ci"}))).await;
    assert_eq!(taken.0, 409, "a robot's name is not reused at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_somebody_ends_their_sessions_and_keys_at_once() {
    let platform = Platform::start().await;
    let browser = platform.invited(&platform.admin_key, "ada@example.com", "User").await;
    let (_, key) = browser.send(&platform, "POST", "/api/auth/key", Some(json!({"name": "k"}))).await;
    let key = key.as_str().unwrap().to_owned();
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 200);
    assert_eq!(platform.call("DELETE", "/api/users/ada@example.com", &platform.admin_key, None).await.0, 200);
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 401);
    assert_eq!(browser.send(&platform, "GET", "/api/user", None).await.0, 401);
    assert_eq!(
        platform.sign_in("ada@example.com", PASSWORD).await.err(),
        Some(403),
        "in no account any more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn teams_are_made_filled_and_kept_while_a_rule_names_them() {
    let platform = Platform::start().await;
    let (user, _) = platform.member("ada@example.com", "User").await;
    let made = platform.post("/api/team", json!({"name": "devs", "tags": ["t"], "users": [user]})).await;
    assert_eq!((made.get("type"), &made["users"]), (None, &json!([user])));
    assert_eq!(platform.get("/api/team/devs").await["users"][0]["userName"], "ada@example.com");
    for (name, expected) in
        [("devs", 409), ("users", 409), ("admins", 409), ("a/b", 400), (" x", 400), ("", 400)]
    {
        let (status, body) =
            platform.call("POST", "/api/team", &platform.admin_key, Some(json!({"name": name}))).await;
        assert_eq!(status, expected, "{name}: {body}");
    }
    let team = made["_id"].as_str().unwrap();
    let moved = |what: &str| {
        let path = format!("/api/team/{team}/{user}/{what}");
        platform.call("PUT", Box::leak(path.into_boxed_str()), &platform.admin_key, None)
    };
    assert_eq!(moved("deleteUserFromTeam").await.1["users"], json!([]));
    assert_eq!(moved("deleteUserFromTeam").await.0, 404);
    assert_eq!(moved("assignUserToTeam").await.1["users"].as_array().unwrap().len(), 1);
    let rule = json!({"entityType": "pipeline", "team": "devs", "action": "run", "tags": ["x"]});
    let rule = platform.post("/api/abac", rule).await[0].clone();
    let (status, refused) = platform.call("DELETE", "/api/team/devs", &platform.admin_key, None).await;
    assert_eq!(status, 409);
    assert!(refused["message"].as_str().unwrap().contains(rule["id"].as_str().unwrap()), "{refused}");
    platform
        .call("DELETE", &format!("/api/abac/{}", rule["id"].as_str().unwrap()), &platform.admin_key, None)
        .await;
    assert_eq!(platform.call("DELETE", "/api/team/devs", &platform.admin_key, None).await.0, 200);
    assert_eq!(platform.call("DELETE", "/api/team/users", &platform.admin_key, None).await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_builds_are_limited_where_they_are_taken_and_the_build_says_why_it_waits() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let limits = json!({"limits": {"parallelBuilds": 1}});
    platform.call("PATCH", "/api/admin/accounts/default", &platform.admin_key, Some(limits)).await;
    let first = platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await;
    let second = platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await;
    let key = platform.agent(slipway_store::identity::Subject::Runner, "r1").await;
    let sync = |running: Value| {
        let body = json!({"runner": "r1", "version": "1", "executor": "host", "free": 5, "running": running, "waitMs": 0});
        platform.call("POST", "/api/agent/runner/sync", &key, Some(body))
    };
    let (_, taken) = sync(json!([])).await;
    assert_eq!(taken["taken"].as_array().unwrap().len(), 1);
    assert_eq!(taken["taken"][0]["id"], first);
    let held = json!([{"id": first, "epoch": 1}]);
    assert_eq!(sync(held.clone()).await.1["taken"], json!([]));
    let waiting = platform.get(&format!("/api/builds/{}", second.as_str().unwrap())).await;
    let why = waiting["message"].as_str().unwrap();
    assert!(why.contains("limit `parallelBuilds` is reached: 1 of 1"), "{why}");
    let more = json!({"limits": {"parallelBuilds": 2}});
    platform.call("PATCH", "/api/admin/accounts/default", &platform.admin_key, Some(more)).await;
    assert_eq!(sync(held).await.1["taken"][0]["id"], second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_more_than_the_account_may_have_is_refused_in_words() {
    let platform = Platform::start().await;
    platform
        .call(
            "PATCH",
            "/api/admin/accounts/default",
            &platform.admin_key,
            Some(json!({"limits": {"runtimes": 1}})),
        )
        .await;
    let mut answers = Vec::new();
    for name in ["one", "two", "one"] {
        let key = platform.agent(slipway_store::identity::Subject::Runtime, name).await;
        let mut body = crate::reports::everything(Vec::new());
        body["runtime"] = json!(name);
        answers.push(platform.call("POST", "/2.0/api/events", &key, Some(body)).await);
    }
    assert_eq!(answers.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 403, 200]);
    let text = answers[1].1["message"].as_str().unwrap();
    assert!(text.contains("limit `runtimes` is reached: 1 of 1 are used"), "{text}");
}

/// One account's Administrator says nothing about the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_suspended_in_one_account_and_restored() {
    let platform = Platform::start().await;
    let browser = platform.invited(&platform.admin_key, "ada@example.com", "User").await;
    let (_, key) = browser.send(&platform, "POST", "/api/auth/key", Some(json!({"name": "k"}))).await;
    let key = key.as_str().unwrap();
    let (_, other_key) = platform.account("other").await;
    let add = platform
        .call(
            "POST",
            "/api/admin/accounts/other/adduser",
            &platform.admin_key,
            Some(json!({"email": browser.user["_id"]})),
        )
        .await;
    assert_eq!(add.0, 200, "{}", add.1);
    let change =
        |body: Value| platform.call("PATCH", "/api/users/ada@example.com", &platform.admin_key, Some(body));
    let (status, member) = change(json!({"suspended": true})).await;
    assert_eq!(
        (status, &member["suspended"], &member["enabled"]),
        (200, &json!(true), &json!(false)),
        "{member}"
    );
    assert_eq!(platform.call("GET", "/api/user", key, None).await.0, 401, "keys stop at the next call");
    platform.pipeline("demo/build", "demo/app").await;
    let why =
        platform.get("/api/access/explain?user=ada@example.com&action=run&entity=pipeline/demo/build").await;
    assert_eq!(why["allowed"], false, "{why}");
    assert!(why["reason"].as_str().unwrap().contains("is suspended in this account"), "{why}");
    assert_eq!(browser.send(&platform, "GET", "/api/user", None).await.0, 401, "and so do sessions");
    let elsewhere = platform.sign_in("ada@example.com", PASSWORD).await.expect("the other account is open");
    assert_eq!(elsewhere.user["activeAccountName"], "other");
    let (status, _) = elsewhere.send(&platform, "POST", "/api/user/changeaccount/default", None).await;
    assert_eq!(status, 404, "no way back in through the other account");
    let others = platform.call("GET", "/api/users/ada@example.com", &other_key, None).await.1;
    assert_eq!((&others["suspended"], &others["enabled"]), (&json!(false), &json!(true)));

    let (_, member) = change(json!({"suspended": false})).await;
    assert_eq!((&member["suspended"], &member["enabled"]), (&json!(false), &json!(true)));
    assert_eq!(platform.call("GET", "/api/user", key, None).await.0, 200, "keys were kept for this day");
    assert_eq!(
        browser.send(&platform, "GET", "/api/user", None).await.0,
        401,
        "a session that ended is over"
    );
    let told = platform.get("/api/audit?entity=user&action=update").await;
    assert_eq!((&told["total"], &told["docs"][1]["detail"]["after"]["suspended"]), (&json!(2), &json!(true)));

    // In no account at all: said in a sentence, after the password was right.
    assert_eq!(change(json!({"suspended": true})).await.0, 200);
    let gone = platform.call("DELETE", "/api/users/ada@example.com", &other_key, None).await;
    assert_eq!(gone.0, 200, "{}", gone.1);
    let login = json!({"email": "ada@example.com", "password": PASSWORD});
    let (status, refused) = platform.call("POST", "/api/auth/login", "", Some(login)).await;
    assert_eq!(status, 403);
    assert!(refused["message"].as_str().unwrap().contains("suspended in your account"), "{refused}");
    // The last Administrator stays.
    let own = platform.get("/api/user").await["_id"].as_str().unwrap().to_owned();
    let path = format!("/api/users/{own}");
    let (status, refused) =
        platform.call("PATCH", &path, &platform.admin_key, Some(json!({"suspended": true}))).await;
    assert_eq!(status, 409, "{refused}");
}
