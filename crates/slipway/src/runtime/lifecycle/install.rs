//! Install, upgrade and roll back: the same steps over a revision.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_api::Client;
use slipway_api::runtime::{ChangeRuntime, CreateRuntime, Runtime, RuntimeDetail, RuntimeToken};
use slipway_cluster::{Cluster, Propagation, WriteOptions};

use super::progress::Progress;
use super::state::{Record, Revision, Site};
use super::{
    InstallArguments, Manifests, RollbackArguments, UpgradeArguments, WaitingArguments, apply, checks, values,
};
use crate::cli::context;
use crate::cli::nouns::part;
use crate::kube::marks;
use crate::runtime::chart;

pub(super) async fn install(arguments: InstallArguments) -> anyhow::Result<ExitCode> {
    let progress = Progress::new("install", arguments.waiting.silent);
    let site = arguments.site.site();
    let client = context::client()?;
    let server = arguments.server.clone().unwrap_or_else(|| client.base().to_owned());
    let server = server.trim_end_matches('/').to_owned();
    let given = values::of_install(&arguments, &site, &server)?;
    let labels = labels(&arguments.namespace_labels)?;
    // What is wrong with the values is said before anything is asked.
    let objects = chart::objects(&site.name, &site.namespace, &given)?;
    if let Some(format) = arguments.output {
        return print(format, &objects);
    }
    progress.begins("checks", "looking at everything that could stand in the way");
    let found = checks::all(&arguments, &site, &server, &client).await;
    let failed = found.checks.iter().filter(|check| check.has_failed()).count();
    for check in &found.checks {
        match check.outcome {
            "failed" => progress.failed("checks", &format!("{}: {}", check.check, check.says)),
            _ => progress.done("checks", &format!("{}: {}", check.check, check.says)),
        }
    }
    anyhow::ensure!(failed == 0, "{failed} of {} checks failed, and nothing was changed", found.checks.len());
    let cluster = found.cluster.context("the cluster was not reached")?;

    progress.begins("namespace", &site.namespace);
    let made = marks::make_namespace(&cluster, &site.namespace, &labels, &site.mark()).await?;
    progress.done("namespace", if made { "made" } else { "was there" });
    let url = arguments.ingress_host.as_deref().unwrap_or_default().trim_end_matches('/');
    register(&cluster, &site, &client, url, &arguments.ips_allow_list, &progress).await?;
    progress.begins("definitions", "custom resources");
    let made = marks::make_definitions(&cluster, &site.mark()).await?;
    progress.done("definitions", &if made.is_empty() { "were there".to_owned() } else { made.join(", ") });

    let mut record = Record::read(&cluster, &site).await?.unwrap_or_default();
    record.platform = client.base().to_owned();
    let revision = revision(&cluster, &site, given, "install").await?;
    deploy(&cluster, &site, &client, record, revision, &arguments.waiting, &progress).await?;
    progress.done(
        "install",
        &format!("runtime {} is online; `slipway runtime describe {}`", site.name, site.name),
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn upgrade(arguments: UpgradeArguments) -> anyhow::Result<ExitCode> {
    let progress = Progress::new("upgrade", arguments.waiting.silent);
    let site = arguments.site.site();
    let client = context::client()?;
    let (cluster, _) = arguments.site.kube.choose()?.connect().await?;
    let record = installed(&cluster, &site).await?;
    let before = record.last().context("it has no revision: run `slipway runtime install` again")?;
    let given = values::changed(&before.values, &arguments.values)?;
    let number = before.number;
    let revision = revision(&cluster, &site, given, "upgrade").await?;
    let now = deploy(&cluster, &site, &client, record, revision, &arguments.waiting, &progress).await?;
    let said = match now == number {
        true => format!("nothing changed: revision {number} is what is there"),
        false => format!(
            "revision {now} is deployed; `slipway runtime rollback {}` goes back to {number}",
            site.name
        ),
    };
    progress.done("upgrade", &said);
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn rollback(arguments: RollbackArguments) -> anyhow::Result<ExitCode> {
    let progress = Progress::new("rollback", arguments.waiting.silent);
    let site = arguments.site.site();
    let client = context::client()?;
    let (cluster, _) = arguments.site.kube.choose()?.connect().await?;
    let record = installed(&cluster, &site).await?;
    let target = target(&record, arguments.revision)?;
    let old = record.of(target).cloned().with_context(|| gone(&record, target))?;
    let revision = Revision { cause: format!("rollback to {target}"), at: now(), ..old };
    let now = deploy(&cluster, &site, &client, record, revision, &arguments.waiting, &progress).await?;
    progress.done("rollback", &format!("revision {now} is deployed: what revision {target} was"));
    Ok(ExitCode::SUCCESS)
}

/// The revision that is meant. A rollback that was interrupted goes on to where it was going.
fn target(record: &Record, asked: Option<u32>) -> anyhow::Result<u32> {
    if let Some(number) = asked {
        return Ok(number);
    }
    let last = record.last().context("it has no revision")?;
    let under_way = last.cause.strip_prefix("rollback to ").filter(|_| last.state == "pending");
    if let Some(number) = under_way.and_then(|number| number.parse().ok()) {
        return Ok(number);
    }
    // One that never came online is nothing to go back to.
    let before = record.revisions.iter().rev().skip(1).find(|one| one.was_deployed());
    before.map(|before| before.number).with_context(|| {
        format!("no revision before {} was ever online: there is nothing to go back to", last.number)
    })
}

fn gone(record: &Record, number: u32) -> String {
    let there: Vec<String> = record.revisions.iter().map(|one| one.number.to_string()).collect();
    format!("there is no revision {number}: there are {}", there.join(", "))
}

async fn installed(cluster: &Cluster, site: &Site) -> anyhow::Result<Record> {
    Record::read(cluster, site).await?.with_context(|| {
        format!(
            "no runtime `{}` was installed in namespace {} of this cluster by `slipway runtime install`; one that Helm installed is Helm's to change",
            site.name, site.namespace
        )
    })
}

fn labels(given: &[String]) -> anyhow::Result<Value> {
    let mut labels = json!({});
    for text in given {
        let (key, value) =
            text.split_once('=').with_context(|| format!("--namespace-labels: `{text}` is not KEY=VALUE"))?;
        labels[key] = value.into();
    }
    Ok(labels)
}

fn print(format: Manifests, objects: &[Value]) -> anyhow::Result<ExitCode> {
    match format {
        Manifests::Yaml => {
            let documents: Vec<String> = objects.iter().map(slipway_yaml::to_yaml).collect();
            say_part!("{}", documents.join("---\n"));
        }
        Manifests::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            say!("{}", serde_json::to_string_pretty(&list)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The platform knows the runtime, and the cluster has a token for it. Whichever of the two was interrupted before, both are true
/// afterwards, and there is one registration.
pub(super) async fn register(
    cluster: &Cluster,
    site: &Site,
    client: &Client,
    url: &str,
    allowed: &[String],
    progress: &Progress,
) -> anyhow::Result<()> {
    progress.begins("registration", client.base());
    let path = format!("/api/runtimes/{}", part(&site.name));
    let known = match client.get::<RuntimeDetail>(&path).await {
        Ok(known) => Some(known),
        Err(error) if error.status() == Some(404) => None,
        Err(error) => return Err(error.into()),
    };
    let kept = cluster.read(&site.token_secret()).await?.is_some();
    let needs_token = known.as_ref().is_none_or(|known| !kept || known.runtime.state == "revoked");
    if kept && needs_token {
        // The old one goes first: whoever is interrupted before the new one is there would take it for that.
        cluster.delete(&site.token_secret(), None, Propagation::Background, false).await?;
    }
    let (token, said): (Option<RuntimeToken>, _) = match &known {
        None => {
            let request = CreateRuntime { name: site.name.clone(), ingress_url: url.to_owned() };
            (Some(client.post("/api/runtimes", &request).await?), "registered")
        }
        Some(_) if !needs_token => (None, "was registered"),
        Some(_) => (
            Some(client.post(&format!("{path}/token"), &json!({})).await?),
            "was registered, and has a new token",
        ),
    };
    let differs = known.as_ref().is_some_and(|known| known.runtime.ingress_url != url);
    if differs || !allowed.is_empty() {
        let change = ChangeRuntime {
            name: None,
            ingress_url: differs.then(|| url.to_owned()),
            allowed_addresses: (!allowed.is_empty()).then(|| allowed.to_vec()),
        };
        client.patch::<_, Runtime>(&path, &change).await?;
    }
    if let Some(token) = token {
        let key = site.token_secret();
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "data": {"token": STANDARD.encode(&token.token)}});
        marks::marked(&mut secret, &site.mark());
        cluster.apply(&secret, WriteOptions::default()).await?;
    }
    progress.done("registration", said);
    Ok(())
}

/// A revision with these values: pods start anew when the token is another one.
async fn revision(cluster: &Cluster, site: &Site, mut given: Value, cause: &str) -> anyhow::Result<Revision> {
    let secret = cluster.read(&site.token_secret()).await?;
    let Some(secret) = secret else {
        bail!(
            "{} is gone: run `slipway runtime install {}` again, which makes a new token",
            site.token_secret(),
            site.name
        );
    };
    let token = secret["data"]["token"].as_str().unwrap_or_default();
    let digest: String =
        Sha256::digest(token.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    chart::merge(&mut given, &json!({"podAnnotations": {"slipway.io/token": digest}}));
    let objects = chart::objects(&site.name, &site.namespace, &given)?;
    let version = match given["image"]["tag"].as_str().filter(|tag| !tag.is_empty()) {
        Some(tag) => tag.to_owned(),
        None => chart::version()?,
    };
    Ok(Revision {
        at: now(),
        version,
        cause: cause.to_owned(),
        values: given,
        objects,
        ..Revision::default()
    })
}

/// Where the platform is to reach it, by the values of a revision; empty: through its tunnel.
fn address(values: &Value) -> &str {
    match values["access"]["mode"].as_str() {
        None | Some("tunnel") => "",
        Some(_) => values["access"]["url"].as_str().unwrap_or_default().trim_end_matches('/'),
    }
}

/// A runtime that is told of another address than the platform knows does not start.
async fn readdress(client: &Client, site: &Site, address: &str, progress: &Progress) -> anyhow::Result<()> {
    let change = ChangeRuntime { name: None, ingress_url: Some(address.to_owned()), allowed_addresses: None };
    let way = if address.is_empty() { "through its tunnel" } else { address };
    progress.begins("registration", &format!("it is reached {way} from now on"));
    client.patch::<_, Runtime>(&format!("/api/runtimes/{}", part(&site.name)), &change).await?;
    progress.done("registration", "the platform knows");
    Ok(())
}

/// Writes the revision down, applies it, and waits until it is online. Its number.
async fn deploy(
    cluster: &Cluster,
    site: &Site,
    client: &Client,
    mut record: Record,
    revision: Revision,
    waiting: &WaitingArguments,
    progress: &Progress,
) -> anyhow::Result<u32> {
    let objects = revision.objects.clone();
    let before = record.last().map(|before| address(&before.values));
    if before.is_some_and(|before| before != address(&revision.values)) {
        readdress(client, site, address(&revision.values), progress).await?;
    }
    let number = record.begin(revision);
    progress.begins("revision", &format!("number {number}"));
    record.write(cluster, site).await?;
    progress.done("revision", "written down");
    progress.begins("objects", &format!("{} of them", objects.len()));
    let (applied, removed) = apply::objects(cluster, site, &objects).await?;
    progress.done("objects", &format!("{applied} applied, {removed} taken away"));
    progress.begins("online", "waiting for its pods and for the platform to hear of it");
    apply::online(cluster, site, client, waiting.wait_timeout, progress).await?;
    progress.done("online", "it is");
    record.deployed(number);
    record.write(cluster, site).await?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollback_goes_to_the_one_before_and_an_interrupted_one_to_where_it_was_going() {
        let revision = |number, state: &str, cause: &str| Revision {
            number,
            state: state.into(),
            cause: cause.into(),
            ..Revision::default()
        };
        let mut record = Record { revisions: vec![revision(1, "deployed", "install")], ..Record::default() };
        assert!(target(&record, None).unwrap_err().to_string().contains("nothing to go back to"));
        record.revisions.push(revision(2, "deployed", "upgrade"));
        assert_eq!(target(&record, None).unwrap(), 1);
        record.revisions.push(revision(3, "pending", "rollback to 1"));
        assert_eq!(target(&record, None).unwrap(), 1, "interrupted");
        record.revisions[2].state = "deployed".into();
        assert_eq!(target(&record, None).unwrap(), 2);
        assert_eq!(target(&record, Some(9)).unwrap(), 9);
        // Two upgrades in a row that never came online: back to what was.
        let mut record = Record { revisions: vec![revision(1, "deployed", "install")], ..Record::default() };
        for number in [2, 3] {
            record.revisions.push(revision(number, "pending", "upgrade"));
        }
        assert_eq!(target(&record, None).unwrap(), 1);
        record.deployed(3);
        assert_eq!(target(&record, None).unwrap(), 1, "the one in between never was online");
        record.revisions.truncate(2);
        record.revisions[0].state = "failed".into();
        assert!(target(&record, None).unwrap_err().to_string().contains("nothing to go back to"));
        record.revisions = [1, 2, 3].map(|number| revision(number, "superseded", "upgrade")).into();
        assert!(gone(&record, 9).contains("there are 1, 2, 3"));
    }
}
