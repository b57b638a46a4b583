//! Attacks by their number in the threat model, each with the answer it has to get. K01–K03, K18, K19 and K116 are in `sso`.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};

use crate::support::{Browser, PASSWORD, Platform};

#[tokio::test(flavor = "multi_thread")]
async fn k04_a_session_id_is_new_after_sign_in_and_every_change_of_rights() {
    let platform = Platform::start().await;
    // Planted before sign-in: it is not the one that is signed in.
    let planted = "slipway_session=planted-by-somebody-else";
    let body = json!({"email": platform.email, "password": platform.password});
    let answer = platform
        .http()
        .post(format!("{}/api/auth/login", platform.url))
        .header("cookie", planted)
        .json(&body)
        .send()
        .await
        .unwrap();
    let first = Browser::from_answer(answer).await;
    assert_ne!(first.cookie, planted);
    let alive = |browser: Browser| {
        let platform = &platform;
        async move { browser.send(platform, "GET", "/api/user", None).await.0 == 200 }
    };
    // Signing in again from the same browser ends what it had.
    let answer = platform
        .http()
        .post(format!("{}/api/auth/login", platform.url))
        .header("cookie", &first.cookie)
        .json(&body)
        .send()
        .await
        .unwrap();
    let second = Browser::from_answer(answer).await;
    assert!(!alive(first).await && alive(second.clone()).await);
    // A new password: this session gets a new id, others end.
    let elsewhere = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    let change = json!({"current": platform.password, "new": PASSWORD});
    let answer = second.request(&platform, "POST", "/api/auth/password").json(&change).send().await.unwrap();
    let third = Browser::from_answer(answer).await;
    assert!(!alive(second).await && !alive(elsewhere).await && alive(third.clone()).await);
    // Another role, given by somebody else.
    let ada = platform.invited(&platform.admin_key, "ada@example.com", "User").await;
    assert_eq!(
        platform
            .call("PATCH", "/api/users/ada@example.com", &platform.admin_key, Some(json!({"role": "Admin"})))
            .await
            .0,
        200
    );
    assert!(!alive(ada).await);
    assert_eq!(third.send(&platform, "POST", "/api/auth/logout", None).await.0, 204);
    assert!(!alive(third).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn k05_a_stolen_cookie_is_not_enough_for_keys_rules_and_secrets() {
    let platform = Platform::start().await;
    platform
        .post(
            "/api/contexts/",
            json!({"metadata": {"name": "s"}, "spec": {"type": "secret", "data": {"A": "b"}}}),
        )
        .await;
    let browser = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    let ask = |browser: Browser| {
        let platform = &platform;
        async move {
            let mut seen = Vec::new();
            for (method, path, body) in [
                ("POST", "/api/auth/key", Some(json!({"name": "k"}))),
                (
                    "POST",
                    "/api/team",
                    Some(json!({"name": format!("t{}", browser.csrf.chars().take(8).collect::<String>())})),
                ),
                (
                    "POST",
                    "/api/abac",
                    Some(json!({"team": "users", "resource": "pipeline", "action": "debug", "tags": ["*"]})),
                ),
                ("GET", "/api/contexts/s?decrypt=true", None),
            ] {
                seen.push(browser.send(platform, method, path, body).await);
            }
            seen
        }
    };
    assert!(ask(browser.clone()).await.iter().all(|(status, _)| *status == 200));
    platform.pass(61 * 60 * 1000);
    for (status, answer) in ask(browser.clone()).await {
        assert_eq!((status, &answer["name"]), (403, &json!("CONFIRM_PASSWORD")), "{answer}");
    }
    assert_eq!(browser.send(&platform, "GET", "/api/pipelines", None).await.0, 200, "the rest goes on");
    let wrong =
        browser.send(&platform, "POST", "/api/auth/confirm", Some(json!({"password": "not this one"}))).await;
    assert_eq!(wrong.0, 401);
    let answer = browser
        .request(&platform, "POST", "/api/auth/confirm")
        .json(&json!({"password": platform.password}))
        .send()
        .await
        .unwrap();
    let confirmed = Browser::from_answer(answer).await;
    assert!(ask(confirmed).await.iter().all(|(status, _)| *status == 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn k06_no_other_site_changes_anything_with_a_browsers_cookie() {
    let platform = Platform::start().await;
    let browser = platform.sign_in(&platform.email, &platform.password).await.unwrap();
    let document = platform.get("/api/openapi.json").await;
    let mut seen = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if method == "get"
                // An app-proxy's question needs a runtime's key beside the cookie; `keys::h5…` tries it with a token and without.
                || ["public", "runner", "runtime", "proxied"]
                    .contains(&operation["x-access"]["policy"].as_str().unwrap())
            {
                continue;
            }
            let path = path.replace(['{', '}'], "x");
            for kind in [
                "application/json",
                "text/plain",
                "multipart/form-data; boundary=x",
                "application/x-www-form-urlencoded",
            ] {
                let request = platform
                    .http()
                    .request(method.to_uppercase().parse().unwrap(), format!("{}{path}", platform.url))
                    .header("cookie", &browser.cookie)
                    .header("content-type", kind)
                    .body("{}");
                assert_eq!(request.send().await.unwrap().status(), 403, "{method} {path} as {kind}");
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "{seen}");
    let url = format!("{}/2.0/api/graphql", platform.url);
    let query = r#"{"query": "{ me { id } }"}"#;
    let post = platform
        .http()
        .post(&url)
        .header("cookie", &browser.cookie)
        .header("content-type", "application/json")
        .body(query);
    assert_eq!(post.send().await.unwrap().status(), 403);
    let get = platform.http().get(format!("{url}?query=%7Bme%7Bid%7D%7D")).header("cookie", &browser.cookie);
    assert!(get.send().await.unwrap().status().is_client_error(), "queries are not asked with GET");
    // A socket from a page of another site.
    let socket = platform
        .http()
        .get(&url)
        .header("cookie", &browser.cookie)
        .header("origin", "https://evil.example")
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("sec-websocket-protocol", "graphql-transport-ws");
    assert_eq!(socket.send().await.unwrap().status(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn k07_guessing_is_slowed_also_at_once_also_after_other_names_and_tells_nothing() {
    let platform = Platform::start().await;
    // Twenty hashes can take longer than the first wait on a busy machine.
    platform.hold_the_clock();
    let tries = (0..20).map(|_| platform.sign_in(&platform.email, "wrong wrong wrong"));
    let outcomes: Vec<_> =
        futures::future::join_all(tries).await.into_iter().map(|outcome| outcome.err().unwrap()).collect();
    let guessed = outcomes.iter().filter(|status| **status == 401).count();
    assert_eq!(guessed, 5, "twenty at once are five tries: {outcomes:?}");
    for doubled in 0..5 {
        platform.pass((1000 << doubled) + 100);
        assert_eq!(platform.sign_in(&platform.email, "wrong wrong wrong").await.err(), Some(401));
    }
    for number in 0..30 {
        let _ = platform.sign_in(&format!("other{number}@example.com"), "wrong wrong wrong").await;
    }
    assert_eq!(
        platform.sign_in(&platform.email, &platform.password).await.err(),
        Some(429),
        "other names push nothing out"
    );
    platform.pass(10 * 60 * 1000);
    assert!(platform.sign_in(&platform.email, &platform.password).await.is_ok());

    // The same words for a wrong password and for nobody.
    let ask = |email: &str| {
        platform.call(
            "POST",
            "/api/auth/login",
            "",
            Some(json!({"email": email, "password": "wrong wrong wrong"})),
        )
    };
    let (known, unknown) = (ask(&platform.email).await, ask("nobody-at-all@example.com").await);
    assert_eq!((known.0, &known.1["message"]), (unknown.0, &unknown.1["message"]));
}

/// Time is noise on a busy machine; what takes the time is counted instead.
#[tokio::test(flavor = "multi_thread")]
async fn k08_a_sign_in_is_the_same_work_whoever_it_is_and_keys_are_found_by_id_and_compared_hashed() {
    let platform = Platform::start().await;
    platform.member("gone@example.com", "User").await;
    let off = json!({"enabled": false});
    let (status, _) =
        platform.call("PATCH", "/api/admin/users/gone@example.com", &platform.admin_key, Some(off)).await;
    assert_eq!(status, 200);
    let hashed = || async {
        let text = platform.get("/metrics").await;
        let line = text
            .as_str()
            .unwrap()
            .lines()
            .find_map(|line| line.strip_prefix("slipway_password_checks_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let too_long = "x".repeat(2000);
    for (email, password, work) in [
        (platform.email.as_str(), "wrong wrong wrong", 1),
        ("nobody@example.com", "wrong wrong wrong", 1),
        ("not an address", "wrong wrong wrong", 1),
        ("gone@example.com", crate::support::PASSWORD, 1),
        (platform.email.as_str(), too_long.as_str(), 0),
        ("nobody@example.com", too_long.as_str(), 0),
    ] {
        let before = hashed().await;
        assert_eq!(platform.sign_in(email, password).await.err(), Some(401), "{email}");
        assert_eq!(hashed().await - before, work, "{email}");
    }
    // A key that is right but for its last letter, one of nobody's, and one without its secret: the same words.
    let (id, secret) = platform.admin_key.split_once('.').unwrap();
    let last = if secret.ends_with('0') { "1" } else { "0" };
    let wrong = format!("{id}.{}{last}", &secret[..secret.len() - 1]);
    let mut said = Vec::new();
    for key in [wrong.as_str(), &format!("acacacacacacacacacacacac.{secret}"), &format!("{id}."), id] {
        let (status, mut answer) = platform.call("GET", "/api/user", key, None).await;
        assert_eq!(status, 401, "{key}");
        answer["requestId"] = json!(null);
        said.push(answer);
    }
    assert!(said.iter().all(|answer| *answer == said[0]), "{said:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k09_a_graphql_document_that_is_too_much_is_refused_before_it_runs() {
    let platform = Platform::start().await;
    let depth = format!("{{ {} }}", "a { ".repeat(10_000) + &"} ".repeat(10_000));
    let nested = "{ __schema { types { fields { type { ofType { ofType { ofType { ofType { ofType { ofType { ofType { ofType { name } } } } } } } } } } } } }";
    let aliases: String = (0..10_000).map(|number| format!("a{number}: me {{ id }} ")).collect();
    let some_aliases: String = (0..31).map(|number| format!("a{number}: id ")).collect();
    let roots = "me { id } ".repeat(11);
    let directives = format!("{{ me {} {{ id }} }}", "@skip(if: false) ".repeat(500));
    // Each spreads the next some times, and the last what is not there: the library would go through all of it before it says so.
    let fragments = |deep: usize, wide: usize| {
        let spread = |to: usize| format!("...f{to} ").repeat(wide);
        let chain = (0..deep).map(|at| format!("fragment f{at} on User {{ {}}} ", spread(at + 1)));
        format!("{{ me {{ ...f0 }} }} {}", chain.collect::<String>())
    };
    for (deep, wide) in [(4, 12), (30, 14)] {
        let query = json!({"query": fragments(deep, wide)});
        let (_, answer) = platform.call("POST", "/2.0/api/graphql", &platform.admin_key, Some(query)).await;
        assert!(answer.to_string().contains("fields and fragments"), "{answer}");
    }
    for (name, query) in [
        ("depth", depth),
        ("recursion through __schema", nested.to_owned()),
        (
            "a fragment that contains itself",
            "query { me { ...a } } fragment a on User { id ...b } fragment b on User { ...a }".to_owned(),
        ),
        ("10,000 aliases", format!("{{ {aliases} }}")),
        ("31 aliases", format!("{{ me {{ {some_aliases} }} }}")),
        ("11 root fields", format!("{{ {roots} }}")),
        ("11 root fields in a fragment", format!("query {{ ...a }} fragment a on Query {{ {roots} }}")),
        ("500 directives", directives),
    ] {
        let (status, answer) = platform
            .call("POST", "/2.0/api/graphql", &platform.admin_key, Some(json!({"query": query})))
            .await;
        assert!(answer["errors"].is_array() || status >= 400, "{name}: {status} {answer}");
        assert!(answer.get("data").is_none_or(Value::is_null), "{name}: {answer}");
    }
    let batch: Vec<_> = (0..1000).map(|_| json!({"query": "{ me { id } }"})).collect();
    assert!(
        platform.call("POST", "/2.0/api/graphql", &platform.admin_key, Some(Value::Array(batch))).await.0
            >= 400,
        "no batches"
    );
    let large = json!({"query": "{ me { id } }", "operationName": "x".repeat(300 << 10)});
    assert_eq!(platform.call("POST", "/2.0/api/graphql", &platform.admin_key, Some(large)).await.0, 413);
    let (_, fine) = platform
        .call(
            "POST",
            "/2.0/api/graphql",
            &platform.admin_key,
            Some(json!({"query": "{ me { id name email } limitsStatus { states { name used } } }"})),
        )
        .await;
    assert!(fine["errors"].is_null(), "{fine}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k10_there_is_no_sign_in_to_alias_in_graphql() {
    let platform = Platform::start().await;
    let query = json!({"query": "{ __schema { mutationType { name } } }"});
    let (_, answer) = platform.call("POST", "/2.0/api/graphql", &platform.admin_key, Some(query)).await;
    assert_eq!(answer["data"]["__schema"]["mutationType"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_bodies_of_every_bad_kind_are_refused_without_a_crash() {
    let platform = Platform::start().await;
    let send = async |body: Vec<u8>| {
        // A body that is too long is refused while it is still being sent, and the connection is closed: the answer may
        // get lost on the way, or the next request may meet the closed connection. Then a client asks again.
        for _ in 0..20 {
            let request = platform.http().post(format!("{}/api/team", platform.url));
            let request = request.header("authorization", &platform.admin_key);
            if let Ok(answer) =
                request.header("content-type", "application/json").body(body.clone()).send().await
            {
                return answer;
            }
        }
        panic!("no answer in twenty tries");
    };
    for (name, body, expected) in [
        ("no JSON", b"{".to_vec(), 400),
        ("nothing", Vec::new(), 400),
        ("not UTF-8", b"{\"name\": \"\xff\xfe\"}".to_vec(), 400),
        ("NUL in a name", b"{\"name\": \"a\\u0000b\"}".to_vec(), 400),
        ("a list", b"[]".to_vec(), 400),
        ("100,000 deep", [b"{\"name\":".as_slice(), "[".repeat(100_000).as_bytes()].concat(), 400),
        ("9 MiB", format!("{{\"name\": \"{}\"}}", "x".repeat(9 << 20)).into_bytes(), 413),
        ("a duplicate key", b"{\"name\": \"a\", \"name\": \"b\"}".to_vec(), 400),
    ] {
        let answer = send(body).await;
        assert_eq!(answer.status(), expected, "{name}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["status"], expected, "{name}: one shape for every refusal");
        assert_eq!(body["requestId"].as_str().unwrap().len(), 16);
    }
}

/// Asks with exactly these bytes.
fn raw(platform: &Platform, request: &[u8]) -> String {
    let address = platform.url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while let Ok(count) = stream.read(&mut part) {
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&part[..count]);
        if answer.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_no_spelling_of_a_path_gets_around_its_policy() {
    let platform = Platform::start().await;
    for path in [
        "/api/users/",
        "/api//users",
        "//api/users",
        "/api/./users",
        "/api/auth/../users",
        "/api/auth/%2e%2e/users",
        "/API/users",
        "/api/users;.json",
        "/api/users%00",
        "/api/users.",
        "/api/auth/login/..;/users",
        "/healthz/../api/users",
        "/healthz/%2e%2e/api/users",
        "/api/users%2f",
        "/assets/../api/users",
    ] {
        let answer =
            raw(&platform, format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes());
        assert!(!answer.contains("admin@example.com"), "{path}: {answer}");
        let status: u16 = answer.split(' ').nth(1).unwrap_or("0").parse().unwrap_or(0);
        // The web page is what is at any path that is none of ours; it holds nothing.
        assert!(
            matches!(status, 400 | 401 | 404) || (status == 200 && answer.contains("text/html")),
            "{path}: {answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k13_headers_that_say_who_or_where_one_is_change_nothing() {
    let platform = Platform::start().await;
    let (other, _) = platform.account("elsewhere").await;
    let request = platform
        .http()
        .post(format!("{}/api/team", platform.url))
        .header("authorization", &platform.admin_key)
        .header("x-forwarded-for", "203.0.113.9")
        .header("x-real-ip", "203.0.113.9")
        .header("x-account-id", &other)
        .header("x-original-url", "/api/admin/accounts")
        .header("x-forwarded-host", "evil.example")
        .json(&json!({"name": "devs"}));
    let made: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(made["account"], platform.account.to_string());
    let record = &platform.get("/api/audit?entity=team").await["docs"][0];
    assert_eq!(record["address"], "127.0.0.1", "nobody vouches for it");

    let network =
        slipway_server::Network { trusted_proxies: vec!["127.0.0.1".parse().unwrap()], ..Default::default() };
    let behind = Platform::start_with(network).await;
    let request = behind
        .http()
        .post(format!("{}/api/team", behind.url))
        .header("authorization", &behind.admin_key)
        .header("x-forwarded-for", "198.51.100.1, 203.0.113.9")
        .json(&json!({"name": "devs"}));
    assert_eq!(request.send().await.unwrap().status(), 200);
    assert_eq!(
        behind.get("/api/audit?entity=team").await["docs"][0]["address"],
        "203.0.113.9",
        "what a named proxy saw"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn k14_requests_that_two_servers_would_read_differently_are_refused() {
    let platform = Platform::start().await;
    let body = "0\r\n\r\nGET /api/users HTTP/1.1\r\nhost: x\r\n\r\n";
    for (name, head) in [
        ("two lengths", "content-length: 5\r\ncontent-length: 6\r\n"),
        ("an odd encoding", "transfer-encoding: xchunked\r\n"),
        ("a space before the colon", "transfer-encoding : chunked\r\n"),
        ("a bad length", "content-length: +5\r\n"),
    ] {
        let answer =
            raw(&platform, format!("POST /api/team HTTP/1.1\r\nhost: x\r\n{head}\r\n{body}").as_bytes());
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 401"),
            "{name}: {answer}"
        );
        assert!(!answer.contains("admin@example.com"), "{name}");
    }
    let many = "x: y\r\n".repeat(100_000);
    let answer = raw(&platform, format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k15_a_head_that_never_ends_does_not_hold_the_connection() {
    let platform = Platform::start().await;
    let address = platform.url.strip_prefix("http://").unwrap().to_owned();
    let waited = tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").unwrap();
        let started = Instant::now();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        started.elapsed()
    });
    let waited = waited.await.unwrap();
    assert!(waited < Duration::from_secs(60), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k16_what_is_sent_is_never_part_of_a_statement() {
    let platform = Platform::start().await;
    platform.post("/api/team", json!({"name": "devs"})).await;
    for text in [
        "' OR '1'='1",
        "devs'; DROP TABLE teams; --",
        "$1",
        "%",
        "_",
        "\\",
        "\") --",
        "devs' UNION SELECT id, name FROM users --",
    ] {
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for path in [
            format!("/api/team/{encoded}"),
            format!("/api/users/{encoded}"),
            format!("/api/contexts/{encoded}"),
            format!("/api/pipelines/{encoded}"),
            format!("/api/admin/accounts/{encoded}"),
        ] {
            assert_eq!(platform.call("GET", &path, &platform.admin_key, None).await.0, 404, "{path}");
        }
        for path in [
            format!("/api/audit?search={encoded}&entity={encoded}&userName={encoded}&sortType={encoded}"),
            format!("/api/pipelines?id={encoded}"),
            format!("/api/workflow?status={encoded}"),
        ] {
            assert_eq!(platform.call("GET", &path, &platform.admin_key, None).await.0, 200, "{path}");
        }
    }
    assert_eq!(platform.get("/api/team").await.as_array().unwrap().len(), 3, "users, admins, devs");
}

#[tokio::test(flavor = "multi_thread")]
async fn k17_fields_that_are_not_the_callers_to_set_are_ignored() {
    let platform = Platform::start().await;
    let (other, _) = platform.account("elsewhere").await;
    let extra = json!({"name": "devs", "account": other, "accountId": other, "_id": "acacacacacacacacacacacac", "type": "admin", "source": "sso"});
    let made = platform.post("/api/team", extra).await;
    assert_eq!((&made["account"], &made["source"]), (&json!(platform.account.to_string()), &json!("manual")));
    assert_eq!(platform.get("/api/team/devs").await.get("type"), None, "one that people are put into");
    assert_ne!(made["_id"], "acacacacacacacacacacacac");
    let (_, key) = platform.member("ada@example.com", "User").await;
    let body =
        json!({"name": "k", "role": "Admin", "subject": {"type": "user", "ref": "x"}, "account": other});
    let (status, made) = platform.call("POST", "/api/auth/key", &key, Some(body)).await;
    assert_eq!(status, 200, "{made}");
    let (_, user) = platform.call("GET", "/api/user", made.as_str().unwrap(), None).await;
    assert_eq!((&user["roles"], &user["activeAccountName"]), (&json!(["User"]), &json!("default")));
}

#[tokio::test(flavor = "multi_thread")]
async fn k21_a_read_only_key_writes_nothing_and_reads_no_secret() {
    let platform = Platform::start().await;
    platform
        .post(
            "/api/contexts/",
            json!({"metadata": {"name": "s"}, "spec": {"type": "secret", "data": {"A": "canary-21"}}}),
        )
        .await;
    let key = platform
        .post("/api/auth/key", json!({"name": "r", "scopes": ["*:read"]}))
        .await
        .as_str()
        .unwrap()
        .to_owned();
    let document = platform.get("/api/openapi.json").await;
    let mut seen = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Some(scope) = operation["x-access"]["scope"].as_str() else { continue };
            let concrete = path
                .replace("{name}", "s")
                .replace("{id}", "acacacacacacacacacacacac")
                .replace(['{', '}'], "x");
            let concrete =
                concrete + if path.ends_with("/explain") { "?action=read&entity=pipeline/x" } else { "" };
            let body = (method != "get").then(|| json!({}));
            let (status, answer) = platform.call(&method.to_uppercase(), &concrete, &key, body).await;
            assert_eq!(status == 403, !scope.ends_with(":read"), "{method} {path} → {status} {answer}");
            assert!(!answer.to_string().contains("canary-21"), "{method} {path}");
            seen += 1;
        }
    }
    assert!(seen > 80, "{seen}");
    // A limited key makes no key that may more.
    let own = platform
        .post("/api/auth/key", json!({"name": "r", "scopes": ["auth", "build:read"]}))
        .await
        .as_str()
        .unwrap()
        .to_owned();
    for (scopes, expected) in
        [(json!([]), 403), (json!(["build"]), 403), (json!(["build:read"]), 200), (json!(["auth:read"]), 200)]
    {
        let (status, _) =
            platform.call("POST", "/api/auth/key", &own, Some(json!({"name": "k", "scopes": scopes}))).await;
        assert_eq!(status, expected, "{scopes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k22_streams_close_when_the_right_to_them_goes() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let build =
        platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await.as_str().unwrap().to_owned();
    let (_, key) = platform.member("ada@example.com", "User").await;
    let url = format!("{}/api/builds/{build}/logs/stream", platform.url);
    let answer = platform.http().get(&url).header("authorization", &key).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut stream = answer.bytes_stream();
    let open = tokio::time::timeout(Duration::from_millis(700), stream.next()).await;
    assert!(open.is_err(), "nothing to say yet, and still open");
    let id = key.split('.').next().unwrap();
    assert_eq!(platform.call("DELETE", &format!("/api/auth/key/{id}"), &key, None).await.0, 200);
    let to_its_end = async { while let Some(Ok(_)) = stream.next().await {} };
    assert!(tokio::time::timeout(Duration::from_secs(60), to_its_end).await.is_ok(), "still open");

    // Disabled, with a session and a subscription of pages.
    let browser = platform.invited(&platform.admin_key, "bob@example.com", "User").await;
    let answer = platform.http().get(&url).header("cookie", &browser.cookie).send().await.unwrap();
    let mut stream = answer.bytes_stream();
    platform
        .call(
            "PATCH",
            "/api/admin/users/bob@example.com",
            &platform.admin_key,
            Some(json!({"enabled": false})),
        )
        .await;
    let to_its_end = async { while let Some(Ok(_)) = stream.next().await {} };
    assert!(tokio::time::timeout(Duration::from_secs(60), to_its_end).await.is_ok(), "still open");
}

/// A page's live connection, kept open without a word.
fn socket(platform: &Platform, key: &str) -> std::net::TcpStream {
    let address = platform.url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = format!(
        "GET /2.0/api/graphql HTTP/1.1\r\nhost: {address}\r\nauthorization: {key}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: graphql-transport-ws\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
    assert!(seen.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&seen));
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn k22_a_subscription_closes_when_the_key_is_revoked_and_not_before() {
    let platform = Platform::start().await;
    let (_, key) = platform.member("ada@example.com", "User").await;
    let (_, other) = platform.member("bob@example.com", "User").await;
    let (mut mine, mut others) = (socket(&platform, &key), socket(&platform, &other));
    let id = key.split('.').next().unwrap();
    assert_eq!(platform.call("DELETE", &format!("/api/auth/key/{id}"), &key, None).await.0, 200);
    let closed = tokio::task::spawn_blocking(move || {
        let started = Instant::now();
        let mut rest = Vec::new();
        let ended = mine.read_to_end(&mut rest);
        (ended.is_ok(), started.elapsed())
    });
    let (ended, took) = closed.await.unwrap();
    assert!(ended && took < Duration::from_secs(60), "{took:?}");
    let open = tokio::task::spawn_blocking(move || {
        others.set_read_timeout(Some(Duration::from_secs(4))).unwrap();
        others.read(&mut [0; 16]).err().map(|error| error.kind())
    });
    assert_eq!(open.await.unwrap(), Some(std::io::ErrorKind::WouldBlock), "somebody else's stays open");
}

#[tokio::test(flavor = "multi_thread")]
async fn k23_without_a_login_there_is_nothing_to_learn() {
    let platform = Platform::start().await;
    for (path, expected) in [
        ("/healthz", 200),
        ("/readyz", 200),
        ("/api/auth/options", 200),
        ("/metrics", 401),
        ("/api/openapi.json", 401),
        ("/api/admin/health", 401),
        ("/api/account", 401),
        ("/2.0/api/graphql", 401),
    ] {
        let (status, answer) = platform.call("GET", path, "", None).await;
        assert_eq!(status, expected, "{path}: {answer}");
        assert!(
            !answer.to_string().contains(env!("CARGO_PKG_VERSION")),
            "{path} tells the version: {answer}"
        );
    }
    let (_, member) = platform.member("ada@example.com", "Admin").await;
    assert_eq!(
        platform.call("GET", "/metrics", &member, None).await.0,
        403,
        "for those who run the platform"
    );
    let scraper =
        platform.post("/api/auth/key", json!({"name": "prometheus", "scopes": ["metrics:read"]})).await;
    let (status, text) = platform.call("GET", "/metrics", scraper.as_str().unwrap(), None).await;
    assert_eq!(status, 200);
    let text = text.as_str().unwrap();
    assert!(
        text.contains("slipway_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"} 1"),
        "{text}"
    );
    assert!(text.contains("# TYPE slipway_http_request_duration_seconds histogram"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k107_nobody_raises_themselves_and_the_last_administrator_stays() {
    let platform = Platform::start().await;
    let (user, key) = platform.member("ada@example.com", "User").await;
    for (method, path, body) in [
        ("PATCH", format!("/api/users/{user}"), json!({"role": "Admin"})),
        ("PATCH", format!("/api/admin/users/{user}"), json!({"platformAdmin": true})),
        (
            "POST",
            "/api/abac".into(),
            json!({"team": "users", "resource": "pipeline", "action": "run", "tags": ["*"]}),
        ),
        ("POST", "/api/service-users".into(), json!({"name": "mine", "role": "Admin"})),
        ("POST", "/api/team".into(), json!({"name": "mine"})),
        ("POST", "/api/invitations".into(), json!({"email": "eve@example.com", "role": "Admin"})),
        (
            "POST",
            "/api/admin/accounts/default/adduser".into(),
            json!({"email": "ada@example.com", "role": "Admin"}),
        ),
    ] {
        assert_eq!(platform.call(method, &path, &key, Some(body)).await.0, 403, "{method} {path}");
    }
    let admin = platform.get("/api/user").await["_id"].as_str().unwrap().to_owned();
    for (method, path, body) in [
        ("PATCH", format!("/api/users/{admin}"), Some(json!({"role": "User"}))),
        ("DELETE", format!("/api/users/{admin}"), None),
        ("PATCH", format!("/api/admin/users/{admin}"), Some(json!({"platformAdmin": false}))),
        ("PATCH", format!("/api/admin/users/{admin}"), Some(json!({"enabled": false}))),
    ] {
        let (status, refused) = platform.call(method, &path, &platform.admin_key, body).await;
        assert_eq!(status, 409, "{method} {path}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains("the last"), "{refused}");
    }
    // A key that may change people, and nothing else, makes no Administrator.
    let limited =
        platform.post("/api/auth/key", json!({"name": "k", "scopes": ["user", "service-account"]})).await;
    for (path, body) in [
        ("/api/invitations", json!({"email": "eve@example.com", "role": "Admin"})),
        ("/api/service-users", json!({"name": "mine", "role": "Admin"})),
    ] {
        assert_eq!(platform.call("POST", path, limited.as_str().unwrap(), Some(body)).await.0, 403, "{path}");
    }
    // An Administrator of an account does not make platform administrators.
    let (_, second) = platform.member("second@example.com", "Admin").await;
    assert_eq!(
        platform
            .call("PATCH", &format!("/api/admin/users/{user}"), &second, Some(json!({"platformAdmin": true})))
            .await
            .0,
        403
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn k108_what_was_taken_away_is_gone_with_the_next_call() {
    let platform = Platform::start().await;
    platform.pipeline("demo/build", "demo/app").await;
    let (user, key) = platform.member("ada@example.com", "User").await;
    for rule in platform.get("/api/abac?entityType=pipeline").await.as_array().unwrap() {
        platform
            .call("DELETE", &format!("/api/abac/{}", rule["id"].as_str().unwrap()), &platform.admin_key, None)
            .await;
    }
    let team = platform.post("/api/team", json!({"name": "devs", "users": [user]})).await["_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let rule = json!({"entityType": "pipeline", "teams": ["devs"], "actions": ["read"], "tags": ["*"]});
    for _ in 0..20 {
        let rule = platform.post("/api/abac", rule.clone()).await[0]["id"].as_str().unwrap().to_owned();
        let look = || platform.call("GET", "/api/pipelines/demo%2Fbuild", &key, None);
        assert_eq!(look().await.0, 200);
        platform
            .call("PUT", &format!("/api/team/{team}/{user}/deleteUserFromTeam"), &platform.admin_key, None)
            .await;
        assert_eq!(look().await.0, 404, "out of the team");
        platform
            .call("PUT", &format!("/api/team/{team}/{user}/assignUserToTeam"), &platform.admin_key, None)
            .await;
        assert_eq!(look().await.0, 200);
        platform.call("DELETE", &format!("/api/abac/{rule}"), &platform.admin_key, None).await;
        assert_eq!(look().await.0, 404, "without the rule");
    }
}
