//! Shapes and addresses that the published Terraform provider needs; its own acceptance tests run in e2e/oracle.

use serde_json::{Value, json};

use crate::support::{PASSWORD, Platform};

async fn sent(platform: &Platform, method: &str, path: &str, body: Value) -> Value {
    let (status, answer) = platform.call(method, path, &platform.admin_key, Some(body)).await;
    assert_eq!(status, 200, "{method} {path}: {answer}");
    answer
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_can_be_read_and_written_back_in_either_shape() {
    let platform = Platform::start().await;
    let team = platform.post("/api/team", json!({"name": "devs"})).await;
    let made = platform
        .post(
            "/api/abac",
            json!({"team": team["_id"], "resource": "pipeline", "action": "run", "tags": ["a", "b"]}),
        )
        .await;
    assert_eq!(made.as_array().map(Vec::len), Some(1), "{made}");
    let path = format!("/api/abac/{}", text(&made[0]["id"]));
    let read = platform.get(&path).await;
    assert_eq!(
        (&read["role"], &read["resource"], &read["action"], &read["attributes"]),
        (&team["_id"], &json!("pipeline"), &json!("run"), &json!(["a", "b"]))
    );
    let retagged =
        sent(&platform, "POST", &path.replace("abac/", "abac/tags/rule/"), json!(["*", "untagged"])).await;
    assert_eq!((&retagged["tags"], &retagged["action"]), (&json!(["*", "untagged"]), &json!("run")));

    // What was read and is written back is the same rule: no condition is lost on the way.
    let narrow = json!({"entityType": "gitopsApplications", "teams": ["devs"], "actions": ["SYNC"],
        "attributes": [{"name": "NAMESPACE", "value": "dev*"}]});
    let narrow = platform.post("/api/abac", narrow).await[0].clone();
    let path = format!("/api/abac/{}", text(&narrow["id"]));
    let again = sent(&platform, "PUT", &path, platform.get(&path).await).await;
    assert_eq!(again["entityAttributes"], json!([{"name": "NAMESPACE", "value": "dev*"}]));
    assert_eq!(again, narrow);
}

#[tokio::test(flavor = "multi_thread")]
async fn teams_are_called_what_people_call_them() {
    let platform = Platform::start().await;
    let made = platform.post("/api/team", json!({"name": "Core Team_1"})).await;
    assert_eq!((&made["name"], &made["users"]), (&json!("Core Team_1"), &json!([])));
    let path = format!("/api/team/{}/renameTeam", text(&made["_id"]));
    assert_eq!(sent(&platform, "PUT", &path, json!({"name": "Core"})).await["name"], "Core");
    platform.post("/api/team", json!({"name": "Other"})).await;
    for (name, expected) in [
        ("Other", 409),
        ("users", 409),
        ("", 400),
        (" x", 400),
        ("adm\u{200b}ins", 400),
        ("a\u{202e}b", 400),
        ("a/b", 400),
        ("a,b", 400),
        ("a\nb", 400),
        ("acacacacacacacacacacacac", 400),
    ] {
        let (status, answer) =
            platform.call("PUT", &path, &platform.admin_key, Some(json!({"name": name}))).await;
        assert_eq!(status, expected, "{name:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_user_says_everything_each_time_and_has_keys_at_its_own_address() {
    let platform = Platform::start().await;
    let team = text(&platform.post("/api/team", json!({"name": "Robots"})).await["_id"]);
    let robot = json!({"userName": "Deploy_1", "teamIds": [team], "assignAdminRole": true});
    let robot = platform.post("/api/service-users", robot).await;
    assert_eq!((&robot["userName"], &robot["teams"][0]["_id"]), (&json!("Deploy_1"), &json!(team)));
    assert_eq!(robot["roles"], json!(["Admin"]));
    let id = text(&robot["_id"]);
    let path = format!("/api/service-users/{id}");

    let keys = format!("/api/auth/key/service-user/{id}");
    let key = text(&platform.post(&keys, json!({"name": "k", "scopes": ["agent", "api-keys"]})).await);
    let (number, _) = key.split_once('.').expect("the id, a dot and the secret");
    let one = format!("{keys}/{number}");
    assert_eq!(platform.get(&one).await["scopes"], json!(["agent", "api-keys"]));
    assert_eq!(sent(&platform, "PATCH", &one, json!({"name": "other"})).await["name"], "other");
    let second = text(&platform.post("/api/service-users", json!({"name": "second"})).await["_id"]);
    let foreign = format!("/api/auth/key/service-user/{second}/{number}");
    for method in ["GET", "PATCH", "DELETE"] {
        let body = (method == "PATCH").then(|| json!({"name": "mine"}));
        assert_eq!(platform.call(method, &foreign, &platform.admin_key, body).await.0, 404, "{method}");
    }
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 200);
    assert_eq!(platform.call("DELETE", &one, &platform.admin_key, None).await.0, 200);
    assert_eq!(platform.call("GET", "/api/user", &key, None).await.0, 401);

    // Without teams and the role there are none; with our own words the rest stays as it is.
    let renamed = sent(&platform, "PATCH", &path, json!({"userName": "Deploy_2"})).await;
    assert_eq!((&renamed["userName"], &renamed["teams"]), (&json!("Deploy_2"), &json!([])));
    assert_eq!(renamed["roles"], json!(["User"]));
    sent(&platform, "PATCH", &path, json!({"teams": ["Robots"]})).await;
    let off = sent(&platform, "PATCH", &path, json!({"enabled": false})).await;
    assert_eq!((&off["name"], &off["teams"][0]["name"]), (&json!("Deploy_2"), &json!("Robots")));
    let taken = json!({"name": "second"});
    assert_eq!(platform.call("PATCH", &path, &platform.admin_key, Some(taken)).await.0, 409);
    let old = json!({"name": "Deploy_1"});
    let (status, _) = platform.call("POST", "/api/service-users", &platform.admin_key, Some(old)).await;
    assert_eq!(status, 409, "a name that was given up is not another's at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invited_person_is_pending_and_keeps_their_id() {
    let platform = Platform::start().await;
    let account = text(&platform.get("/api/user").await["account"][0]["id"]);
    let at = format!("/api/accounts/{account}");
    let status_of = async |id: &str| {
        let all = platform.get(&format!("{at}/users")).await;
        let found = all.as_array().unwrap().iter().find(|one| one["_id"] == id).cloned();
        found.map_or(Value::Null, |one| one["status"].clone())
    };
    let accept = |url: &Value| {
        let token = text(url).split_once('#').unwrap().1.to_owned();
        let body = json!({"token": token, "password": PASSWORD});
        platform.call("POST", "/api/auth/invitation/accept", "", Some(body))
    };
    let made = platform.post(&format!("{at}/adduser"), json!({"userDetails": "ada@example.com"})).await;
    assert_eq!((&made["status"], &made["email"]), (&json!("pending"), &json!("ada@example.com")));
    let id = text(&made["_id"]);
    assert_eq!(status_of(&id).await, "pending");
    let admins = async || platform.get("/api/user").await["account"][0]["admins"].clone();
    sent(&platform, "POST", &format!("{at}/{id}/admin"), json!({})).await;
    assert!(admins().await.as_array().unwrap().contains(&json!(id)));
    assert_eq!(
        sent(&platform, "DELETE", &format!("{at}/{id}/admin"), json!({})).await["roles"],
        json!(["User"])
    );

    // Another address: what was sent to the first one opens nothing.
    let details = json!({"userName": "ada", "email": "Ada@example.org"});
    let moved = sent(&platform, "POST", &format!("{at}/{id}/updateuser"), details).await;
    assert_eq!((&moved["_id"], &moved["email"]), (&json!(id), &json!("ada@example.org")));
    assert_eq!(accept(&made["inviteUrl"]).await.0, 404);
    let (status, person) = accept(&moved["inviteUrl"]).await;
    assert_eq!((status, &person["_id"]), (200, &json!(id)), "{person}");
    assert_eq!(status_of(&id).await, "new");
    let (status, refused) = platform
        .call(
            "POST",
            &format!("{at}/{id}/updateuser"),
            &platform.admin_key,
            Some(json!({"userDetails": "eve@example.org"})),
        )
        .await;
    assert_eq!(status, 409, "an address of somebody who is here is their own: {refused}");
    sent(&platform, "POST", &format!("{at}/{id}/admin"), json!({})).await;
    assert!(admins().await.as_array().unwrap().contains(&json!(id)));
    sent(&platform, "DELETE", &format!("{at}/{id}"), json!({})).await;
    assert_eq!(status_of(&id).await, Value::Null);

    // Activated by the platform; taken back before anybody came.
    let made = platform.post(&format!("{at}/adduser"), json!({"userDetails": "bob@example.com"})).await;
    let id = text(&made["_id"]);
    let activate = format!("/api/admin/user/{id}/activate");
    assert_eq!(sent(&platform, "POST", &activate, json!({})).await["status"], "new");
    assert_eq!(status_of(&id).await, "new");
    assert_eq!(platform.call("POST", &activate, &platform.admin_key, Some(json!({}))).await.0, 404);
    assert!(platform.sign_in("bob@example.com", "").await.is_err(), "there is no password yet");
    let made = platform.post(&format!("{at}/adduser"), json!({"userDetails": "eve@example.com"})).await;
    sent(&platform, "DELETE", &format!("{at}/{}", text(&made["_id"])), json!({})).await;
    assert_eq!(accept(&made["inviteUrl"]).await.0, 404);

    // Another account is nobody's business here.
    let (elsewhere, key) = platform.account("elsewhere").await;
    for path in [format!("{at}/users"), format!("{at}/{id}")] {
        let method = if path.ends_with("users") { "GET" } else { "DELETE" };
        assert_eq!(platform.call(method, &path, &key, None).await.0, 404, "{path}");
    }
    let foreign = format!("/api/accounts/{elsewhere}/adduser");
    let body = json!({"userDetails": "mallory@example.com"});
    assert_eq!(platform.call("POST", &foreign, &platform.admin_key, Some(body)).await.0, 404);
}
