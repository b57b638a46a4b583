//! Registries of the account: steps name them, private ones are opened, and secrets stay where they are.

use slipway_api::agent::{RegistryAccess, TakenBuild};
use slipway_testkit::{REGISTRY_PASSWORD, REGISTRY_USER, Registry};

use crate::caches::of_fork;
use crate::contract::next_id;
use crate::runner::{Harness, docker};
use crate::server::Record;

async fn run(harness: &Harness, yaml: &str, change: impl FnOnce(&mut TakenBuild)) -> Record {
    let id = next_id("registry");
    let mut taken = harness.server.build(&id, &yaml.replace("IMAGE", &harness.image));
    change(&mut taken);
    harness.server.add(taken);
    harness.server.finish(&id).await
}

fn access(name: &str, registry: &Registry) -> RegistryAccess {
    RegistryAccess {
        name: name.into(),
        domain: registry.address(),
        prefix: "team".into(),
        username: REGISTRY_USER.into(),
        password: REGISTRY_PASSWORD.into(),
        ..RegistryAccess::default()
    }
}

/// Docker takes a registry of this machine without a certificate; Podman would want one.
#[tokio::test]
async fn images_go_to_the_registry_that_a_step_names_or_to_the_default_and_are_fetched_from_there() {
    let Some(harness) = docker() else { return };
    let (registry, name) = (Registry::private(), next_id("app"));
    let yaml = format!(
        r#"
version: '1.0'
steps:
  named:
    type: build
    image_name: {name}
    tag: v1
    registry: hub
    dockerfile: {{content: "FROM IMAGE\nRUN [\"/usr/bin/sh\", \"-c\", \"echo {name} > /made\"]\n"}}
  push: {{type: push, candidate: '${{{{named}}}}', registry: hub, tags: [v2]}}
  by_default:
    type: build
    image_name: {name}
    tag: v3
    dockerfile: {{content: "FROM {address}/team/{name}:v2\n"}}
  gone:
    image: IMAGE
    commands: ['echo {password}']
"#,
        address = registry.address(),
        password = REGISTRY_PASSWORD,
    );
    let default = |taken: &mut TakenBuild| {
        taken.registries = vec![RegistryAccess { default: true, ..access("hub", &registry) }];
    };
    let record = run(harness, &yaml, default).await;
    assert_eq!(record.status(), "success", "{:#?} {:#?}", record.report, record.logs);
    let said = record.log("by_default");
    assert!(said.contains("the account's default registry"), "{said}");
    assert!(!record.log("gone").contains(REGISTRY_PASSWORD), "{}", record.log("gone"));

    // Gone from the machine: a step that runs in it fetches it, with the login and not without.
    let image = format!("{}/team/{name}", registry.address());
    let images = ["v1", "v2", "v3"].map(|tag| format!("{image}:{tag}"));
    let mut remove = std::process::Command::new("docker");
    assert!(remove.args(["rmi", "-f"]).args(&images).output().unwrap().status.success());
    let use_it = format!("version: '1.0'\nsteps:\n  use: {{image: '{image}:v3', commands: ['cat /made']}}\n");
    let record = run(harness, &use_it, |_| {}).await;
    assert_eq!(record.status(), "error", "a private image without a login: {}", record.log("use"));
    let record = run(harness, &use_it, default).await;
    assert!(record.log("use").contains(&format!("\n{name}\n")), "{}", record.log("use"));
    let _ = std::process::Command::new("docker").args(["rmi", "-f"]).args(&images).output();
}

#[tokio::test]
async fn a_registry_that_is_not_there_or_not_usable_is_told_and_a_fork_has_none() {
    let Some(harness) = docker() else { return };
    let registry = Registry::private();
    let yaml =
        "version: '1.0'\nsteps:\n  push: {type: push, candidate: 'IMAGE', registry: nowhere, tags: [x]}\n";
    let both = |taken: &mut TakenBuild| {
        let broken =
            RegistryAccess { problem: Some("its key is gone".into()), ..access("broken", &registry) };
        taken.registries = vec![access("hub", &registry), broken];
    };
    let record = run(harness, yaml, both).await;
    let why = record.step("push").message.unwrap_or_default();
    assert!(why.contains("`nowhere`") && why.contains("hub, broken"), "{why}");
    let record = run(harness, &yaml.replace("nowhere", "broken"), both).await;
    let why = record.step("push").message.unwrap_or_default();
    assert!(why.contains("its key is gone"), "{why}");
    let record = run(harness, yaml, of_fork).await;
    let why = record.step("push").message.unwrap_or_default();
    assert!(why.contains("fork"), "{why}");
}
