//! Removing a runtime: everything that its installation made, and nothing else. Applications and what they deployed stay.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use slipway_cluster::{Cluster, ObjectKey, Propagation};
use slipway_crd::names;

use super::progress::Progress;
use super::state::Site;
use super::{UninstallArguments, apply};
use crate::cli::context;
use crate::cli::nouns::{confirm, part};
use crate::kube::marks;

/// For the pods to end in order.
const PODS_WITHIN: Duration = Duration::from_secs(60);

pub(super) async fn uninstall(arguments: UninstallArguments) -> anyhow::Result<ExitCode> {
    let progress = Progress::new("uninstall", arguments.silent);
    let site = arguments.site.site();
    let client = if arguments.cluster_only { None } else { Some(context::client()?) };
    let (cluster, _) = arguments.site.kube.choose()?.connect().await?;
    let found = apply::there(&cluster, &site).await?;
    let helm = found.is_empty() && cluster.read(&site.deployment()).await?.is_some();
    anyhow::ensure!(
        !helm,
        "{} was not installed by `slipway runtime install`: remove it as it was installed (`helm uninstall`)",
        site.deployment()
    );
    if !arguments.silent {
        found.iter().for_each(|key| note!("  {key}"));
    }
    let question = format!(
        "Remove runtime {} with these {} objects? Applications, and what they deployed, stay.",
        site.name,
        found.len()
    );
    confirm(&question, arguments.yes)?;

    progress.begins("objects", &format!("{} of them", found.len()));
    // The record is the last to go: until then it is seen that something is there.
    let record = site.record();
    for key in found.iter().filter(|key| key.to_string() != record.to_string()) {
        cluster.delete(key, None, Propagation::Background, false).await?;
        if key.kind == "Deployment" {
            ended(&cluster, &site, &progress).await?;
        }
    }
    progress.done("objects", "removed");
    git_tokens(&cluster, &site, &progress).await?;
    definitions(&cluster, &site, &progress).await?;
    cluster.delete(&record, None, Propagation::Background, false).await?;
    namespace(&cluster, &site, &progress).await?;
    if let Some(client) = client {
        progress.begins("registration", client.base());
        let gone = client.delete::<serde_json::Value>(&format!("/api/runtimes/{}", part(&site.name))).await;
        match gone {
            Ok(_) => progress.done("registration", "removed"),
            Err(error) if error.status() == Some(404) => progress.done("registration", "was gone"),
            Err(error) => return Err(error.into()),
        }
    }
    progress.done(
        "uninstall",
        &format!("nothing of runtime {} is left; Applications and what they deployed stay", site.name),
    );
    Ok(ExitCode::SUCCESS)
}

/// Its pods give back what they hold before the rights that they need for it go.
async fn ended(cluster: &Cluster, site: &Site, progress: &Progress) -> anyhow::Result<()> {
    let end = Instant::now() + PODS_WITHIN;
    while !apply::pods(cluster, site).await?.is_empty() {
        if Instant::now() > end {
            progress.waits("objects", "its pods take long to end; going on without them");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// How many runtimes are there besides this one; in one namespace, or in all (empty).
async fn others(cluster: &Cluster, site: &Site, namespace: &str) -> anyhow::Result<usize> {
    let all = ObjectKey::new("apps", "Deployment", namespace, "");
    let all = cluster.list_labelled(&all, marks::RUNTIMES).await?;
    Ok(all.iter().filter(|one| marks::mark_of(one) != Some(&site.mark())).count())
}

/// Those that people gave the runtime of this namespace. Where another one is, they are that one's: nothing says whose each is.
pub(super) async fn git_tokens(cluster: &Cluster, site: &Site, progress: &Progress) -> anyhow::Result<()> {
    progress.begins("git tokens", "that people gave this runtime");
    if others(cluster, site, &site.namespace).await? > 0 {
        progress.done("git tokens", &format!("stay: another runtime is in namespace {}", site.namespace));
        return Ok(());
    }
    let secrets = ObjectKey::new("", "Secret", &site.namespace, "");
    let told = |line: String| progress.done("git tokens", &line);
    marks::let_go(cluster, &secrets, "slipway.io/git-tokens-of-a-person=true", told).await
}

async fn definitions(cluster: &Cluster, site: &Site, progress: &Progress) -> anyhow::Result<()> {
    progress.begins("definitions", "that were made");
    let others = others(cluster, site, "").await?;
    if others > 0 {
        progress.done("definitions", &format!("stay: {others} other runtimes of this cluster need them"));
        return Ok(());
    }
    marks::remove_definitions(cluster, &site.mark(), |line| progress.done("definitions", &line)).await
}

/// The namespace goes when it was made and nothing of anybody else is in it.
async fn namespace(cluster: &Cluster, site: &Site, progress: &Progress) -> anyhow::Result<()> {
    let key = ObjectKey::new("", "Namespace", "", &site.namespace);
    let found = cluster.read(&key).await?;
    if found.is_none_or(|found| marks::mark_of(&found) != Some(&site.mark())) {
        return Ok(());
    }
    progress.begins("namespace", &site.namespace);
    let mut left = Vec::new();
    for (group, kind) in [
        (names::GROUP, "Application"),
        (names::GROUP, "ApplicationSet"),
        (names::GROUP, "AppProject"),
        ("", "Pod"),
        ("", "Secret"),
        ("", "ConfigMap"),
        ("", "PersistentVolumeClaim"),
    ] {
        if cluster.discovery().preferred(group, kind).is_none() {
            continue;
        }
        let all = cluster.list_labelled(&ObjectKey::new(group, kind, &site.namespace, ""), "").await;
        // A definition that has just gone is answered with 404.
        let all = match all {
            Err(error) if error.is_not_found() => Vec::new(),
            all => all?,
        };
        let names = all.iter().filter_map(|one| one["metadata"]["name"].as_str());
        // Kubernetes' own, and what goes with the Deployment.
        let names = names.filter(|name| *name != "kube-root-ca.crt" && *name != "slipway-gitops-shards");
        left.extend(names.map(|name| format!("{kind} {name}")));
    }
    if !left.is_empty() {
        progress.done("namespace", &format!("stays: it holds {}", left.join(", ")));
        return Ok(());
    }
    cluster.delete(&key, None, Propagation::Background, false).await?;
    marks::until_gone(cluster, &key).await?;
    progress.done("namespace", "removed");
    Ok(())
}
