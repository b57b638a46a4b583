//! `slipway app list`: which Applications, in which format, and what changes of them.

use clap::Args;
use slipway_api::Client;
use slipway_api::application::{ApplicationList, ApplicationRow};

use super::changes::{Changes, patiently};
use super::nouns::part;
use super::output::{OutputArguments, print};
use super::watch::Watched;

/// Which Applications a list shows; the server does the work.
#[derive(Args, Default)]
pub(crate) struct ListFilter {
    /// Words that are all found in its name, namespace, project, repository, path or destination
    #[arg(long)]
    search: Option<String>,
    /// Healthy, Progressing, Degraded, Suspended, Missing or Unknown; several with commas
    #[arg(long)]
    health: Option<String>,
    /// Synced, OutOfSync or Unknown; several with commas
    #[arg(long)]
    sync: Option<String>,
    /// The runtime that reported it; several with commas
    #[arg(long)]
    runtime: Option<String>,
    /// The namespace that it is in; several with commas
    #[arg(short = 'N', long)]
    namespace: Option<String>,
    /// Its AppProject; several with commas
    #[arg(short, long)]
    project: Option<String>,
    /// A label, as KEY or KEY=VALUE; several with commas must all be there
    #[arg(short = 'l', long = "selector")]
    label: Option<String>,
    /// By name, problems (what needs attention first) or changed (the latest change first)
    #[arg(long)]
    sort: Option<String>,
}

impl ListFilter {
    fn query(&self) -> String {
        let given = [
            ("search", &self.search),
            ("health", &self.health),
            ("sync", &self.sync),
            ("runtime", &self.runtime),
            ("namespace", &self.namespace),
            ("project", &self.project),
            ("label", &self.label),
            ("sort", &self.sort),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        given.map(|(name, value)| format!("&{name}={}", part(value))).collect()
    }
}

const HEADS: [&str; 5] = ["NAME", "SYNC", "HEALTH", "REVISION", "SUMMARY"];

fn row(app: &ApplicationRow) -> Vec<String> {
    let sha =
        app.revision.as_ref().map(|revision| revision.sha.chars().take(8).collect()).unwrap_or_default();
    let name = format!("{}/{}", app.namespace, app.name);
    vec![name, app.sync_status.to_string(), app.health_status.to_string(), sha, app.summary.clone()]
}

fn key(app: &ApplicationRow) -> String {
    format!("{}/{}/{}", app.runtime, app.namespace, app.name)
}

pub(crate) async fn list(
    client: &Client,
    filter: &ListFilter,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let none =
        if filter.query().is_empty() { "There are no Applications yet." } else { "No Application matches." };
    print(output.output, &all(client, filter).await?, &HEADS, row, none)
}

/// Ends only with the command, or with an error that does not pass by itself.
pub(crate) async fn watch(
    client: &Client,
    filter: &ListFilter,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let mut changes = Changes::open(client, "application").await?;
    let mut watched = Watched::new(output.output, &HEADS, row, key);
    watched.all(&patiently(async || all(client, filter).await).await?)?;
    loop {
        let batch = changes.next().await?;
        if batch.all {
            watched.all(&patiently(async || all(client, filter).await).await?)?;
            continue;
        }
        for id in &batch.ids {
            match patiently(async || one(client, filter, id).await).await? {
                Some(app) => watched.some(&[app])?,
                None => watched.gone(id),
            }
        }
    }
}

/// The Application of a change, if it is still there and matches.
async fn one(client: &Client, filter: &ListFilter, id: &str) -> anyhow::Result<Option<ApplicationRow>> {
    let name = id.rsplit('/').next().unwrap_or(id);
    let path = format!("/api/applications?name={}{}", part(name), filter.query());
    let found: ApplicationList = client.get(&path).await?;
    Ok(found.applications.into_iter().find(|app| key(app) == id))
}

/// Page by page, until as many came as there are.
async fn all(client: &Client, filter: &ListFilter) -> anyhow::Result<Vec<ApplicationRow>> {
    const PAGE: usize = 500;
    let mut found = Vec::new();
    let query = filter.query();
    loop {
        let path = format!("/api/applications?limit={PAGE}&offset={}{query}", found.len());
        let page: ApplicationList = client.get(&path).await?;
        let last = page.applications.len() < PAGE;
        found.extend(page.applications);
        if last || found.len() >= page.total {
            return Ok(found);
        }
    }
}
