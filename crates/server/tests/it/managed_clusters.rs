//! Clusters that runtimes deploy to: who may add and remove them, what is recorded, and what the list says of one whose runtime is away.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::keys::shown;
use crate::knock::{Knock, member_in};
use crate::reports::{changes, everything};
use crate::support::Platform;

const LIST: &str = "/api/gitops/clusters";

fn cluster(secret: &str, name: &str, state: &str) -> Value {
    let body = json!({"name": name, "server": format!("https://{name}:6443"), "state": state, "message": "why",
        "since": "2026-01-01T00:00:00Z", "attemptedAt": "2026-01-01T00:01:00Z", "serverVersion": "1.34.4",
        "applications": 3, "isOwn": name == "in-cluster"});
    json!({"kind": "slipway.io/Cluster", "namespace": "argocd", "name": secret, "uid": "", "body": body})
}

async fn reported(platform: &Platform, runtime: &str, mut report: Value, clusters: Vec<Value>) {
    report["entities"] = clusters.into();
    let (status, answer) = platform.call("POST", "/2.0/api/events", runtime, Some(report)).await;
    assert_eq!((status, &answer["taken"]), (200, &json!(true)), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_listed_as_their_runtimes_reported_them_and_unknown_when_those_are_away() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let all = vec![
        cluster("b", "prod", "Failed"),
        cluster("in-cluster", "in-cluster", "Successful"),
        cluster("a", "stage", "Successful"),
    ];
    reported(&platform, &runtime, everything(Vec::new()), all).await;
    let (_, ada) = member_in(&platform, "ada@example.com", "devs").await;
    let door = Knock::new(&platform, "GET", LIST);
    door.needs_somebody().await;
    door.needs_scope("gitops:read").await;
    let (status, theirs) = door.by(&ada).await;
    assert_eq!(status, 200, "{theirs}");
    assert_eq!((&theirs[1]["name"], &theirs[1]["state"]), (&json!("prod"), &json!("Failed")), "{theirs}");
    assert!(!theirs.to_string().contains("why") && !theirs.to_string().contains("https://"), "{theirs}");
    let seen = platform.get(LIST).await;
    let names = |seen: &Value| -> Vec<String> {
        seen.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&seen), ["in-cluster", "prod", "stage"], "its own first");
    let prod = &seen[1];
    for (field, value) in [
        ("runtime", json!("local")),
        ("server", json!("https://prod:6443")),
        ("state", json!("Failed")),
        ("message", json!("why")),
        ("since", json!("2026-01-01T00:00:00Z")),
        ("serverVersion", json!("1.34.4")),
        ("applications", json!(3)),
        ("isOwn", json!(false)),
    ] {
        assert_eq!(prod[field], value, "{field} of {prod}");
    }
    let (_, elsewhere) = platform.account("elsewhere").await;
    assert_eq!(door.by(&elsewhere).await, (200, json!([])), "of another account nothing is seen");
    // Removed at the runtime: gone here.
    let mut report = changes(Vec::new());
    report["removed"] = json!([{"kind": "slipway.io/Cluster", "namespace": "argocd", "name": "b"}]);
    reported(&platform, &runtime, report, Vec::new()).await;
    assert_eq!(names(&platform.get(LIST).await), ["in-cluster", "stage"]);
    // Nobody knows how they are when their runtime is not heard of.
    platform.pass(60_000);
    let away = platform.get(LIST).await;
    assert_eq!(away[1]["state"], "Unknown", "{away}");
    let message = away[1]["message"].as_str().unwrap();
    assert!(message.contains("runtime `local` is offline") && message.contains("Successful"), "{message}");
}

/// So is one for what the runtime's own process says, which may name what rules hide.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_runtime_says_of_itself_is_for_administrators_alone_and_recorded() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    let (_, ada) = member_in(&platform, "ada@example.com", "devs").await;
    let (second_id, second) = platform.member("second@example.com", "Admin").await;
    reported(&platform, &runtime, everything(Vec::new()), Vec::new()).await;
    let word = "runtime-logs";
    let body = json!({"operation": word, "detail": {"tail": 7}});
    let door = Knock::new(&platform, "POST", "/api/runtimes/local/pass").body(body.clone());
    door.needs_somebody().await;
    door.is_hidden_from(&elsewhere).await;
    door.needs_scope("gitops:read").await;
    let (status, answer) = door.by(&ada).await;
    assert_eq!(status, 403, "{answer}");
    assert!(answer.to_string().contains("needs the Administrator role"), "{answer}");
    let refused = door.leaves(&ada, word, "runtime", "denied").await;
    assert_eq!(refused["entityId"], "local", "{refused}");
    let record = door.leaves(&second, word, "runtime", "allowed").await;
    assert_eq!(record["entityId"], "local", "{record}");
    // Good for that body, and for whom it was given while that is an Administrator.
    let (_, pass) = door.by(&second).await;
    let mut about = body;
    about["pass"] = pass["token"].clone();
    let shown = async |about: &Value| {
        platform.call("POST", "/api/access/application", &runtime, Some(about.clone())).await
    };
    assert_eq!(shown(&about).await.0, 200);
    let mut other = about.clone();
    other["detail"] = json!({"tail": 8});
    assert_eq!(shown(&other).await.0, 401, "for that body alone");
    let (user, no_more) = (format!("/api/users/{second_id}"), json!({"role": "User"}));
    assert_eq!(platform.call("PATCH", &user, &platform.admin_key, Some(no_more)).await.0, 200);
    let (status, answer) = shown(&about).await;
    assert_eq!(status, 403, "{answer}");
}

/// A pass to add or remove one is for Administrators alone, whatever rules say, and recorded without what it must not hold.
#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_added_and_removed_by_administrators_alone_and_each_time_recorded() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    let (_, ada) = member_in(&platform, "ada@example.com", "devs").await;
    let (admin, second) = platform.member("second@example.com", "Admin").await;
    reported(&platform, &runtime, everything(Vec::new()), Vec::new()).await;
    for word in ["cluster-add", "cluster-remove"] {
        let body = json!({"operation": word, "detail": {"name": "prod", "id": 7}});
        let door = Knock::new(&platform, "POST", "/api/runtimes/local/pass").body(body.clone());
        door.needs_somebody().await;
        door.is_hidden_from(&elsewhere).await;
        door.needs_scope("gitops").await;
        let (status, answer) = door.by(&ada).await;
        assert_eq!(status, 403, "{word}: {answer}");
        assert!(answer.to_string().contains("needs the Administrator role"), "{answer}");
        let refused = door.leaves(&ada, word, "cluster", "denied").await;
        assert_eq!(refused["entityId"], "local/prod", "{refused}");
        let record = door.leaves(&second, word, "cluster", "allowed").await;
        assert_eq!(
            (&record["userId"], &record["entityId"]),
            (&json!(admin), &json!("local/prod")),
            "{record}"
        );
        // No longer an Administrator when the pass is shown: no.
        let (_, pass) = door.by(&second).await;
        let pass = pass["token"].as_str().unwrap();
        let mut about = body.clone();
        about["pass"] = pass.into();
        let (status, _) = platform.call("POST", "/api/access/application", &runtime, Some(about)).await;
        assert_eq!(status, 200, "{word}");
        assert_eq!(shown(&platform, &runtime, pass, word, "").await.0, 401, "{word}: for that body alone");
    }
}
