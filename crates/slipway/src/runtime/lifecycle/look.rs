//! Looking at an installed runtime: what the platform and the cluster say of it, what its pods print, and what is wrong.

use std::process::ExitCode;

use anyhow::Context as _;
use futures::TryStreamExt as _;
use serde::Serialize;
use slipway_api::Client;
use slipway_api::proxy::{RuntimeLogLine, RuntimeLogs, RuntimeLogsRequest};
use slipway_api::runtime::{Runtime, RuntimeDetail};
use slipway_cluster::{Cluster, LogOptions};

use super::checks::Check;
use super::state::{Record, Site};
use super::{DescribeArguments, LogsArguments, apply};
use crate::cli::context;
use crate::cli::nouns::part;
use crate::cli::output::{print, print_one, when};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Description {
    runtime: Option<Runtime>,
    namespace: String,
    /// Why it is not rolled out; none: it is.
    waiting: Option<String>,
    revisions: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    revision: u32,
    state: String,
    version: String,
    at: String,
    cause: String,
}

async fn known(client: &Client, site: &Site) -> anyhow::Result<Option<Runtime>> {
    match client.get::<RuntimeDetail>(&format!("/api/runtimes/{}", part(&site.name))).await {
        Ok(detail) => Ok(Some(detail.runtime)),
        Err(error) if error.status() == Some(404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn describe(arguments: DescribeArguments) -> anyhow::Result<ExitCode> {
    let site = arguments.site.site();
    let runtime = known(&context::client()?, &site).await?;
    let (cluster, _) = arguments.site.kube.choose()?.connect().await?;
    let record = Record::read(&cluster, &site).await?;
    anyhow::ensure!(
        runtime.is_some() || record.is_some(),
        "neither the platform nor namespace {} of the cluster knows a runtime `{}`",
        site.namespace,
        site.name
    );
    let waiting = apply::rolled_out(&cluster, &site).await?;
    let revisions = record.map(|record| record.revisions).unwrap_or_default();
    let line = |one: super::state::Revision| Line {
        revision: one.number,
        state: one.state,
        version: one.version,
        at: one.at,
        cause: one.cause,
    };
    let revisions: Vec<Line> = revisions.into_iter().map(line).collect();
    let description = Description { runtime, namespace: site.namespace.clone(), waiting, revisions };
    print_one(arguments.output.output, &description, &site.name, || {
        match &description.runtime {
            Some(runtime) => say!(
                "{}: {}, reached by {}, version {}, {} Applications, last seen {}",
                runtime.name,
                runtime.state,
                runtime.access_mode,
                if runtime.version.is_empty() { "unknown" } else { &runtime.version },
                runtime.applications,
                runtime.last_seen.as_deref().map_or_else(|| "never".to_owned(), when)
            ),
            None => say!("{}: the platform does not know it", site.name),
        }
        say!(
            "In namespace {}: {}",
            site.namespace,
            description.waiting.as_deref().unwrap_or("all pods are ready")
        );
        let row = |line: &Line| {
            vec![
                line.revision.to_string(),
                line.state.clone(),
                line.version.clone(),
                when(&line.at),
                line.cause.clone(),
            ]
        };
        let heads = ["REVISION", "STATE", "VERSION", "WHEN", "CAUSE"];
        print(
            arguments.output.output,
            &description.revisions,
            &heads,
            row,
            "It was not installed by `slipway runtime install`.",
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn doctor(arguments: DescribeArguments) -> anyhow::Result<ExitCode> {
    let site = arguments.site.site();
    let mut checks = Vec::new();
    let client = context::client()?;
    match known(&client, &site).await {
        Err(error) => checks.push(Check::failed("platform", context::explain(&error))),
        Ok(None) => checks.push(Check::failed(
            "registration",
            format!(
                "the platform does not know a runtime `{0}`: `slipway runtime install {0}` registers it",
                site.name
            ),
        )),
        Ok(Some(runtime)) => checks.extend(of_platform(&runtime)),
    }
    match arguments.site.kube.choose() {
        Err(error) => checks.push(Check::failed("kubeconfig", format!("{error:#}"))),
        Ok(chosen) => match chosen.connect().await {
            Err(error) => checks.push(Check::failed("cluster", format!("{error:#}"))),
            Ok((cluster, version)) => {
                checks.push(Check::ok("cluster", format!("{}, Kubernetes {version}", chosen.words())));
                checks.extend(of_cluster(&cluster, &site).await?);
            }
        },
    }
    let failed = checks.iter().any(Check::has_failed);
    let row = |check: &Check| vec![check.check.to_owned(), check.outcome.to_owned(), check.says.clone()];
    print(arguments.output.output, &checks, &["CHECK", "OUTCOME", "SAYS"], row, "")?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn of_platform(runtime: &Runtime) -> Vec<Check> {
    let name = &runtime.name;
    let state = match runtime.state.as_str() {
        "online" => Check::ok("connection", "it is online"),
        "revoked" => Check::failed(
            "connection",
            format!("its token was revoked: `slipway runtime install {name}` gives it a new one"),
        ),
        "never-connected" => Check::failed(
            "connection",
            format!("it has never connected: `slipway runtime logs {name}` says why"),
        ),
        _ => Check::failed(
            "connection",
            format!(
                "it was last heard of {}: `slipway runtime logs {name}` says why, if its pods run",
                runtime.last_seen.as_deref().map_or_else(|| "never".to_owned(), when)
            ),
        ),
    };
    let mut checks = vec![state];
    if runtime.online && runtime.access_mode == "tunnel" {
        checks.push(match runtime.tunnels {
            0 => Check::failed(
                "tunnel",
                "it is not open: does a proxy or firewall cut WebSockets on the way to the platform?",
            ),
            open => Check::ok("tunnel", format!("{open} open")),
        });
    }
    checks
}

pub(super) async fn of_cluster(cluster: &Cluster, site: &Site) -> anyhow::Result<Vec<Check>> {
    let mut checks = Vec::new();
    let record = Record::read(cluster, site).await?;
    let is_of_others = record.is_none() && cluster.read(&site.deployment()).await?.is_some();
    checks.push(match record {
        None if is_of_others => Check::ok(
            "installation",
            format!(
                "{} is there, and not by `slipway runtime install`: it is Helm's, or yours",
                site.deployment()
            ),
        ),
        None => Check::failed(
            "installation",
            format!("namespace {} has none of this name: is --namespace right?", site.namespace),
        ),
        Some(record) => match record.last() {
            Some(last) if last.state == "pending" => Check::failed(
                "installation",
                format!("revision {} ({}) was not finished: run that command again", last.number, last.cause),
            ),
            Some(last) => {
                Check::ok("installation", format!("revision {}, version {}", last.number, last.version))
            }
            None => Check::failed("installation", "it has no revision: run `slipway runtime install` again"),
        },
    });
    // Where others keep theirs, they say themselves.
    if !is_of_others {
        checks.push(match cluster.read(&site.token_secret()).await? {
            Some(_) => Check::ok("token", site.token_secret().name),
            None => Check::failed(
                "token",
                format!(
                    "{} is gone: `slipway runtime install {}` makes a new one",
                    site.token_secret(),
                    site.name
                ),
            ),
        });
    }
    checks.push(match apply::rolled_out(cluster, site).await? {
        None => Check::ok("pods", "all are ready"),
        Some(why) => Check::failed("pods", why),
    });
    Ok(checks)
}

/// What the runtime's own process says; of several the one that was reached.
async fn own_log(name: &str, arguments: LogsArguments) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    let tail = usize::try_from(arguments.tail).ok();
    let request = RuntimeLogsRequest { component: arguments.component, tail };
    let said: RuntimeLogs = crate::cli::proxy::runtime(&client, name, "runtime-logs", &request).await?;
    let lost = match said.dropped {
        0 => String::new(),
        count => format!("; {count} earlier lines are not kept"),
    };
    note!("What process {} says{lost}:", said.process);
    for RuntimeLogLine { at, level, component, message } in &said.lines {
        say!("{at} {level:5} {component}: {message}");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn logs(arguments: LogsArguments) -> anyhow::Result<ExitCode> {
    let site = arguments.site.site();
    if arguments.own {
        return own_log(&site.name, arguments).await;
    }
    let (cluster, _) = arguments.site.kube.choose()?.connect().await?;
    let pods = apply::pods(&cluster, &site).await?;
    let names: Vec<String> =
        pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect();
    anyhow::ensure!(
        !names.is_empty(),
        "no pod of runtime `{}` runs in namespace {}: `slipway runtime doctor {}` says why",
        site.name,
        site.namespace,
        site.name
    );
    if let Some(path) = &arguments.download {
        download(&cluster, &site, &names, path).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let several = names.len() > 1;
    let options =
        LogOptions { follow: arguments.follow, tail: Some(arguments.tail), ..LogOptions::default() };
    let printing = names.iter().map(|name| {
        let (cluster, site, options) = (&cluster, &site, &options);
        async move {
            let mut lines = cluster.pod_logs(&site.namespace, name, options).await?;
            while let Some(line) = lines.try_next().await? {
                match several {
                    true => say!("{name} {line}"),
                    false => say!("{line}"),
                }
            }
            Ok::<_, anyhow::Error>(())
        }
    });
    futures::future::try_join_all(printing).await?;
    Ok(ExitCode::SUCCESS)
}

async fn download(
    cluster: &Cluster,
    site: &Site,
    names: &[String],
    path: &std::path::Path,
) -> anyhow::Result<()> {
    let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut archive = tar::Builder::new(file);
    for name in names {
        let mut lines = cluster.pod_logs(&site.namespace, name, &LogOptions::default()).await?;
        let mut text = String::new();
        while let Some(line) = lines.try_next().await? {
            text.push_str(&line);
            text.push('\n');
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        archive.append_data(&mut header, format!("{}/{name}.log", site.name), text.as_bytes())?;
    }
    archive.finish()?;
    say!("{} has the logs of {} pods", path.display(), names.len());
    Ok(())
}
