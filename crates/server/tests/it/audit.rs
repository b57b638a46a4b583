use serde_json::{Value, json};

use crate::support::Platform;

async fn records(platform: &Platform, query: &str) -> Vec<Value> {
    platform.get(&format!("/api/audit?limit=1000&{query}")).await["docs"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_a_failure_and_a_denial_leave_one_record_each_without_secrets() {
    let platform = Platform::start().await;
    let (user, key) = platform.member("ada@example.com", "User").await;
    let context = json!({"metadata": {"name": "creds"}, "spec": {"type": "secret", "data": {"TOKEN": "hunter2-canary"}}});
    platform.post("/api/contexts/", context.clone()).await;
    platform.call("POST", "/api/contexts/", &platform.admin_key, Some(context)).await;
    assert_eq!(platform.call("GET", "/api/users", &key, None).await.0, 403);
    assert_eq!(platform.call("DELETE", &format!("/api/users/{user}"), &key, None).await.0, 403);

    let made = records(&platform, "entity=context&action=create&outcome=allowed").await;
    assert_eq!(made.len(), 1, "{made:#?}");
    let one = &made[0];
    assert_eq!(
        (&one["userName"], &one["entityName"], &one["status"]),
        (&json!("admin"), &json!("creds"), &json!(200))
    );
    assert_eq!(one["address"], "127.0.0.1");
    assert_eq!(one["detail"]["after"]["spec"]["data"]["TOKEN"], "*****");
    assert_eq!(one["requestId"].as_str().unwrap().len(), 16);
    assert_eq!(records(&platform, "outcome=failed&rs_status=409").await.len(), 1);
    let denied = records(&platform, "outcome=denied").await;
    assert_eq!(denied.len(), 2, "{denied:#?}");
    assert!(denied[0]["detail"]["reason"].as_str().unwrap().contains("Administrator role"));
    assert_eq!(records(&platform, &format!("userId={user}&outcome=denied")).await.len(), 2);
    let all = platform.get("/api/audit?limit=1000").await;
    assert!(!all.to_string().contains("hunter2-canary"));
    assert!(!all.to_string().contains(key.split('.').nth(1).unwrap()));

    let (status, csv) =
        platform.call("GET", "/api/audit/download?entity=context", &platform.admin_key, None).await;
    assert_eq!(status, 200);
    let lines: Vec<_> = csv.as_str().unwrap().lines().collect();
    assert!(lines[0].starts_with("seq,createdAt,actorKind"), "{}", lines[0]);
    assert!(lines.len() >= 2);
    assert_eq!(
        records(&platform, "search=%25").await.len(),
        0,
        "a wildcard of the database is a letter here"
    );
    let found = records(&platform, "search=CREDS&action=create&outcome=allowed").await;
    assert_eq!(found.len(), 1, "big letters find small ones, on every database");
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_ins_and_their_failures_are_seen_in_the_account() {
    let platform = Platform::start().await;
    assert_eq!(platform.sign_in(&platform.email, "wrong wrong wrong").await.err(), Some(401));
    assert!(platform.sign_in(&platform.email, &platform.password).await.is_ok());
    assert_eq!(platform.sign_in("nobody@example.com", "wrong wrong wrong").await.err(), Some(401));
    let seen = records(&platform, "action=login").await;
    let outcomes: Vec<_> = seen.iter().map(|record| record["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["allowed", "denied"]);
    let platforms = platform.get("/api/admin/audit?action=login").await;
    assert_eq!(platforms["docs"][0]["userName"], "nobody@example.com");
}

/// Every route that changes something is asked once; each call leaves exactly one record more.
#[tokio::test(flavor = "multi_thread")]
async fn every_change_leaves_exactly_one_record() {
    let platform = Platform::start().await;
    let document = platform.get("/api/openapi.json").await;
    let count = |chain: &str| {
        let path = if chain == "platform" { "/api/admin/audit" } else { "/api/audit" };
        async { platform.get(path).await["total"].as_i64().unwrap() }
    };
    let mut seen = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let policy = operation["x-access"]["policy"].as_str().unwrap();
            let changes =
                operation["x-access"]["scope"].as_str().is_some_and(|scope| !scope.ends_with(":read"));
            if !changes
                || !["member", "administrator", "platform"].contains(&policy)
                || path.ends_with("rotate")
            {
                continue;
            }
            let concrete: String = path
                .split('/')
                .skip(1)
                .map(|part| {
                    format!("/{}", if part.starts_with('{') { "acacacacacacacacacacacac" } else { part })
                })
                .collect();
            let before = count("account").await;
            let body = (method != "get").then(|| json!({"name": "x"}));
            let (status, answer) =
                platform.call(&method.to_uppercase(), &concrete, &platform.admin_key, body).await;
            assert_eq!(count("account").await, before + 1, "{method} {path} → {status} {answer}");
            seen += 1;
        }
    }
    assert!(seen > 35, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_change_of_the_chain_is_found() {
    let platform = Platform::start().await;
    for number in 0..12 {
        platform.post("/api/team", json!({"name": format!("t{number}")})).await;
    }
    let verify = || async { platform.get("/api/audit/verify").await };
    // The anchor is written every two seconds, and perhaps between two of the records: the last one is meant.
    let anchor = platform.folder.path().join("audit.anchor");
    for _ in 0..600 {
        if std::fs::read_to_string(&anchor).is_ok_and(|text| text.contains("\"seq\": 12")) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let good = verify().await;
    assert_eq!((&good["ok"], &good["records"]), (&json!(true), &json!(12)), "{good}");
    let sql = |text: &str| platform.sql(text);
    let backup = "CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM audit; CREATE TABLE IF NOT EXISTS kept_heads AS SELECT * FROM audit_heads;";
    let restore = "DELETE FROM audit; INSERT INTO audit SELECT * FROM kept; DELETE FROM audit_heads; INSERT INTO audit_heads SELECT * FROM kept_heads;";
    sql(backup);
    for (what, change, expected) in [
        ("a changed actor", "UPDATE audit SET actor_name = 'eve' WHERE seq = 5", "record 5 was changed"),
        ("a changed detail", "UPDATE audit SET detail = '{}' WHERE seq = 12", "record 12 was changed"),
        ("a changed outcome", "UPDATE audit SET outcome = 'denied' WHERE seq = 1", "record 1 was changed"),
        ("a dropped record", "DELETE FROM audit WHERE seq = 7", "records 7 to 7 are missing"),
        ("a dropped end", "DELETE FROM audit WHERE seq > 9", "the chain ends at record 9"),
        (
            "a dropped end with its head",
            "DELETE FROM audit WHERE seq > 9; UPDATE audit_heads SET seq = 9, hash = (SELECT hash FROM audit WHERE seq = 9 AND audit.chain = audit_heads.chain) WHERE seq = 12",
            "record 12 was anchored and is missing",
        ),
        (
            "two swapped records",
            "UPDATE audit SET seq = -3 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4; UPDATE audit SET seq = 4 WHERE seq = -3",
            "record 3 was changed",
        ),
        (
            "an added record",
            "INSERT INTO audit SELECT chain, 13, at_ms, actor_kind, actor, actor_name, address, action, entity, entity_id, entity_name, outcome, status, method, path, request_id, detail, hash FROM audit WHERE seq = 12",
            "record 13 was changed",
        ),
    ] {
        sql(&format!("BEGIN; {change}; COMMIT;"));
        let found = verify().await;
        assert_eq!(found["ok"], false, "{what}");
        assert!(found["problems"].to_string().contains(expected), "{what}: {found}");
        sql(&format!("BEGIN; {restore} COMMIT;"));
        assert_eq!(verify().await["ok"], true, "{what}: put back");
    }
    let text = std::fs::read_to_string(&anchor).unwrap();
    std::fs::write(&anchor, text.replace("\"seq\": 12", "\"seq\": 11")).unwrap();
    assert!(verify().await["problems"].to_string().contains("anchor beside the database was changed"));
}
