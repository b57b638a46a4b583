//! Rollouts in the read model: whoever may see an Application sees its Rollouts, and nobody else.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::knock::{Knock, member_in, without_rules};
use crate::reports::{app, changes, everything};
use crate::support::Platform;

const LIST: &str = "/api/gitops/rollouts";

fn rollout(name: &str, phase: &str, waiting: &str) -> Value {
    json!({"namespace": "shop", "name": name, "uid": "u", "strategy": "Canary", "phase": phase, "waiting": waiting, "step": 1,
        "steps": [{"words": "setWeight: 20", "state": "PASSED"}, {"words": "pause", "state": "PAUSED_INDEFINITE"}],
        "weights": {"now": 20, "wanted": 20, "most": 100, "routed": true}, "desired": 5, "updated": 1, "ready": 5, "available": 5,
        "revisions": [{"revision": 2, "name": "web-b", "hash": "b", "roles": ["canary"], "images": ["web:2"]}],
        "actions": [{"operation": "rollout-retry", "disabledReason": "web was not aborted"}]})
}

fn names(list: &Value) -> Vec<String> {
    let all = list.as_array().expect("a list").iter();
    all.map(|one| {
        format!("{}/{}", one["application"].as_str().unwrap_or("?"), one["name"].as_str().unwrap_or("?"))
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rollouts_are_seen_with_their_application_and_those_that_wait_come_first() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let tell = async |report: Value| {
        let (status, answer) = platform.call("POST", "/2.0/api/events", &runtime, Some(report)).await;
        assert_eq!((status, &answer["taken"]), (200, &json!(true)), "{answer}");
    };
    let shop = app("shop", json!({"labels": {"team": "a"}, "rollouts": [rollout("web", "Healthy", "")]}));
    let till = app(
        "till",
        json!({"labels": {"team": "b"}, "rollouts": [rollout("pay", "Paused", "step 2 of 2 waits for a person")]}),
    );
    tell(everything(vec![shop, till, app("plain", json!({}))])).await;

    let door = Knock::new(&platform, "GET", LIST);
    door.needs_somebody().await;
    door.needs_scope("gitops:read").await;
    let all = platform.get(LIST).await;
    assert_eq!(names(&all), ["till/pay", "shop/web"], "what waits for somebody comes first");
    let pay = &all[0];
    for (field, value) in [
        ("runtime", json!("local")),
        ("applicationNamespace", json!("argocd")),
        ("waiting", json!("step 2 of 2 waits for a person")),
        ("steps", json!(2)),
        ("step", json!(1)),
        ("images", json!(["web:2"])),
    ] {
        assert_eq!(pay[field], value, "{field} of {pay}");
    }
    assert_eq!(names(&platform.get(&format!("{LIST}?phase=Healthy")).await), ["shop/web"]);
    assert_eq!(names(&platform.get(&format!("{LIST}?runtime=other")).await), Vec::<String>::new());
    assert_eq!(Knock::new(&platform, "GET", &format!("{LIST}?other=1")).by(&platform.admin_key).await.0, 400);
    // The whole of it is with the Application.
    let whole = platform.get("/api/applications/local/argocd/till").await;
    assert_eq!(whole["rollouts"][0]["steps"][1]["state"], "PAUSED_INDEFINITE", "{whole}");
    assert_eq!(whole["rollouts"][0]["actions"][0]["disabledReason"], "web was not aborted");

    // Of another account nothing; of one's own what rules show.
    let (_, elsewhere) = platform.account("elsewhere").await;
    assert_eq!(door.by(&elsewhere).await, (200, json!([])));
    without_rules(&platform).await;
    let (_, ada) = member_in(&platform, "ada@example.com", "devs").await;
    let (_, bob) = member_in(&platform, "bob@example.com", "ops").await;
    let rule = json!({"entityType": "gitopsApplications", "teams": ["devs"], "actions": ["VIEW"],
        "entityAttributes": [{"name": "LABEL", "key": "team", "value": "b"}]});
    platform.post("/api/abac", rule).await;
    let (status, seen) = door.by(&ada).await;
    assert_eq!((status, names(&seen)), (200, vec!["till/pay".to_owned()]));
    assert_eq!(door.by(&bob).await, (200, json!([])), "no rule is about a team of his");

    // It goes on, and the list with it.
    let on = app("till", json!({"labels": {"team": "b"}, "rollouts": [rollout("pay", "Healthy", "")]}));
    tell(changes(vec![on])).await;
    assert_eq!(door.by(&ada).await.1[0]["phase"], "Healthy");
}
