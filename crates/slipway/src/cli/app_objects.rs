//! What belongs to an Application, one object at a time: manifests, events, resources. Asked of its runtime, stored by nobody.

use anyhow::bail;
use clap::Args;
use slipway_api::Client;
use slipway_api::application::{
    Application, ApplicationDiff, ApplicationEvents, ApplicationManifests, ObjectEvent, ResourceDiff,
    ResourceManifest, ResourceNode, ResourceTree,
};

use super::apps::{self, Name};
use super::nouns::part;
use super::output::{Format, OutputArguments, print, short, when};
use super::proxy;

#[derive(Args)]
pub(crate) struct ManifestsArguments {
    #[command(flatten)]
    pub(super) app: Name,
    /// What is in the cluster instead of what Git says
    #[arg(long)]
    live: bool,
    /// One resource as it is in the cluster, also one that nobody declared; as KIND/NAME or NAMESPACE/KIND/NAME
    #[arg(long, value_name = "RESOURCE", conflicts_with = "live")]
    resource: Option<String>,
    #[command(flatten)]
    output: OutputArguments,
}

/// YAML that could be applied, with Secrets masked; other formats list where each stands.
pub(crate) async fn manifests(
    client: &Client,
    app: &Application,
    wish: &ManifestsArguments,
) -> anyhow::Result<()> {
    let format = wish.output.output;
    if let Some(name) = &wish.resource {
        return one(client, app, name, format).await;
    }
    if wish.live {
        let diff: ApplicationDiff = proxy::look(client, app, "diff").await?;
        let there: Vec<_> = diff.resources.into_iter().filter(|resource| !resource.live.is_empty()).collect();
        if matches!(format, Format::Table | Format::Yaml) {
            documents(there.iter().map(|resource| resource.live.as_str()));
            return Ok(());
        }
        let row = |one: &ResourceDiff| {
            vec![format!("{}/{}", one.kind, one.name), one.namespace.clone(), one.change.clone()]
        };
        return print(format, &there, &["RESOURCE", "NAMESPACE", "CHANGE"], row, "Nothing of it is there.");
    }
    let answer: ApplicationManifests = proxy::look(client, app, "manifests").await?;
    if matches!(format, Format::Table | Format::Yaml) {
        documents(answer.manifests.iter().map(|manifest| manifest.yaml.as_str()));
        return Ok(());
    }
    let row = |one: &slipway_api::application::Manifest| {
        let place = if one.line == 0 { one.file.clone() } else { format!("{}:{}", one.file, one.line) };
        vec![format!("{}/{}", one.kind, one.name), one.namespace.clone(), place]
    };
    print(format, &answer.manifests, &["RESOURCE", "NAMESPACE", "FROM"], row, "Git declares nothing for it.")
}

async fn one(client: &Client, app: &Application, name: &str, format: Format) -> anyhow::Result<()> {
    if matches!(format, Format::Json | Format::Name) {
        bail!("one resource is printed as YAML: leave `-o` away");
    }
    let what = format!("resource?{}", query(apps::resource(app, name)?));
    let answer: ResourceManifest = proxy::look(client, app, &what).await?;
    say!("{}", answer.yaml.trim_end());
    Ok(())
}

fn documents<'a>(all: impl Iterator<Item = &'a str>) {
    for text in all {
        say!("---\n{}", text.trim_end());
    }
}

#[derive(Args)]
pub(crate) struct EventsArguments {
    #[command(flatten)]
    pub(super) app: Name,
    /// Of this resource alone, as KIND/NAME or NAMESPACE/KIND/NAME
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) async fn events(client: &Client, app: &Application, wish: &EventsArguments) -> anyhow::Result<()> {
    if wish.output.output == Format::Name {
        bail!("events have no names: use -o table, json or yaml");
    }
    let what = match &wish.resource {
        Some(name) => format!("events?{}", query(apps::resource(app, name)?)),
        None => "events".to_owned(),
    };
    let answer: ApplicationEvents = proxy::look(client, app, &what).await?;
    let row = |event: &ObjectEvent| {
        vec![
            when(&event.last_seen),
            event.severity.clone(),
            event.reason.clone(),
            format!("{}/{}", event.kind, event.name),
            event.count.to_string(),
            short(&event.message),
        ]
    };
    let heads = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE"];
    let nothing = "Nothing was noted: Kubernetes forgets events after an hour.";
    print(wish.output.output, &answer.events, &heads, row, nothing)
}

pub(super) fn query(node: &ResourceNode) -> String {
    let of = |name: &str, value: &str| format!("{name}={}", part(value));
    [
        of("group", &node.group),
        of("kind", &node.kind),
        of("namespace", &node.namespace),
        of("resourceName", &node.name),
    ]
    .join("&")
}

#[derive(Args)]
pub(crate) struct ResourcesArguments {
    #[command(flatten)]
    pub(super) app: Name,
    /// Only what nobody declares: pods, ReplicaSets and other objects that the declared ones made
    #[arg(long)]
    children: bool,
    #[command(flatten)]
    output: OutputArguments,
}

/// One line for each, as they are now.
pub(crate) async fn resources(
    client: &Client,
    app: &Application,
    wish: &ResourcesArguments,
) -> anyhow::Result<()> {
    let mut tree: ResourceTree = proxy::look(client, app, "tree").await?;
    if wish.children {
        tree.resources.retain(|node| !node.parent_uid.is_empty());
    }
    let row = |node: &ResourceNode| {
        let word = |word: Option<String>| word.unwrap_or_else(|| "–".into());
        vec![
            format!("{}/{}", node.kind, node.name),
            node.group.clone(),
            node.namespace.clone(),
            word(node.status.as_ref().map(|word| word.as_str().to_owned())),
            word(node.health.as_ref().map(|word| word.as_str().to_owned())),
            node.info.clone().unwrap_or_default(),
        ]
    };
    let heads = ["RESOURCE", "GROUP", "NAMESPACE", "SYNC", "HEALTH", "DETAILS"];
    print(wish.output.output, &tree.resources, &heads, row, "It has no resources.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_part_of_the_address_but_values_in_it() {
        let node = ResourceNode {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: "a&b".into(),
            name: "x y=z".into(),
            ..ResourceNode::default()
        };
        assert_eq!(query(&node), "group=apps&kind=Deployment&namespace=a%26b&resourceName=x%20y%3Dz");
    }
}
