//! The release feed: set by the operator, read anew when it changes, and told of with what is wrong with it.

use serde_json::{Value, json};
use slipway_server::Network;
use slipway_store::identity::Subject;

use crate::knock::{Knock, member_in};
use crate::support::Platform;

const PATH: &str = "/api/releases?client=0.0.1";

fn of<'a>(status: &'a Value, component: &str) -> &'a Value {
    status["components"].as_array().unwrap().iter().find(|one| one["component"] == component).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bumped_feed_tells_of_updates_without_a_restart_and_a_broken_one_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("feed.json");
    let place = file.display().to_string();
    std::fs::write(&file, json!({"releases": [{"version": env!("CARGO_PKG_VERSION")}]}).to_string()).unwrap();
    let platform =
        Platform::start_with(Network { release_feed: Some(place.clone()), ..Network::default() }).await;
    let runtime = platform.agent(Subject::Runtime, "west").await;
    let mut report = crate::reports::everything(Vec::new());
    (report["runtime"], report["version"]) = (json!("west"), json!("0.0.2"));
    assert_eq!(platform.call("POST", "/2.0/api/events", &runtime, Some(report)).await.0, 200);
    let status = platform.get(PATH).await;
    assert_eq!((&status["feed"], &of(&status, "platform")["update"]), (&json!("ok"), &json!("")), "{status}");
    assert_eq!(of(&status, "client")["update"], "available", "{status}");
    assert_eq!(
        (&of(&status, "runtime")["name"], &of(&status, "runtime")["update"]),
        (&json!("west"), &json!("available"))
    );

    let bumped = json!({"releases": [{"version": "99.0.0", "security": true, "changelog": "https://slipway.example/99"}]});
    std::fs::write(&file, bumped.to_string()).unwrap();
    platform.pass(5_000);
    let status = platform.get(PATH).await;
    assert_eq!(of(&status, "platform")["update"], "required", "{status}");
    assert!(of(&status, "platform")["message"].as_str().unwrap().contains("security hole"), "{status}");
    assert_eq!(
        (&status["latest"], &status["changelog"]),
        (&json!("99.0.0"), &json!("https://slipway.example/99"))
    );

    std::fs::write(&file, r#"{"releases": [{"version": "soon"}]}"#).unwrap();
    platform.pass(5_000);
    let status = platform.get(PATH).await;
    assert_eq!(
        (&status["feed"], &of(&status, "platform")["update"]),
        (&json!("failed"), &json!("")),
        "{status}"
    );
    let problem = status["problem"].as_str().unwrap();
    assert!(problem.contains(&place) && problem.contains("`soon` is no version"), "{problem}");

    let door = Knock::new(&platform, "GET", PATH);
    door.needs_somebody().await;
    door.needs_scope("gitops:read").await;
    let (_, ada) = member_in(&platform, "ada@example.com", "devs").await;
    assert_eq!(door.by(&ada).await.0, 200);
    let (_, elsewhere) = platform.account("elsewhere").await;
    let (_, other) = door.by(&elsewhere).await;
    assert!(!other.to_string().contains("west"), "runtimes of another account are not told of: {other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_feed_nothing_is_said_and_a_platform_that_dials_nobody_says_so() {
    let platform = Platform::start().await;
    assert_eq!(platform.get(PATH).await["feed"], "none");
    let feed = Some("https://releases.slipway.example/feed.json".to_owned());
    let platform =
        Platform::start_with(Network { release_feed: feed, egress_none: true, ..Network::default() }).await;
    let status = platform.get(PATH).await;
    assert_eq!(status["feed"], "failed", "{status}");
    assert!(status["problem"].as_str().unwrap().contains("opens no connections"), "{status}");
}
