//! `slipway app sync`: what is to be synced, and how, in the words of the published `argocd`.
//!
//! In: flags, and an Application as the control plane knows it. Out: an order to its runtime, and how it ended. What the flags do is
//! the engine's.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use slipway_api::Client;
use slipway_api::application::{
    Application, OperationOrdered, SyncRequest, SyncResource, SyncRetry, SyncStrategy,
};

use super::apps::{self, Name};
use super::output::{OutputArguments, done};
use super::{app_wait, proxy};

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Strategy {
    /// Hooks run
    Hook,
    /// They do not
    Apply,
}

#[derive(Args)]
pub(crate) struct SyncArguments {
    #[command(flatten)]
    pub(super) app: Name,
    /// Delete what is no longer in Git
    #[arg(long)]
    prune: bool,
    /// Sync this revision instead of the target revision of the Application
    #[arg(long)]
    revision: Option<String>,
    /// Of an Application with several sources: a revision for each, in their order, separated by commas
    #[arg(long, value_name = "REVISION", value_delimiter = ',', conflicts_with = "revision")]
    revisions: Vec<String>,
    /// Ask the cluster what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Sync this resource alone, without hooks: KIND/NAME, NAMESPACE/KIND/NAME or GROUP:KIND:[NAMESPACE/]NAME; may be given several times
    #[arg(long = "resource", value_name = "RESOURCE")]
    resources: Vec<String>,
    /// Whether hooks run
    #[arg(long, value_enum)]
    strategy: Option<Strategy>,
    /// Delete and make again what cannot be changed in place
    #[arg(long)]
    force: bool,
    /// Replace objects instead of applying changes to them
    #[arg(long)]
    replace: bool,
    /// Let the API server merge
    #[arg(long, conflicts_with = "replace")]
    server_side: bool,
    /// Leave alone what is in sync
    #[arg(long)]
    apply_out_of_sync_only: bool,
    /// Another sync option for this once, as NAME=VALUE, over the Application's own of that name; may be given several times
    #[arg(long = "sync-option", value_name = "NAME=VALUE")]
    sync_options: Vec<String>,
    /// Try again this often when it fails, instead of as the Application has it; below zero: without end
    #[arg(long, value_name = "TIMES", allow_negative_numbers = true)]
    retry_limit: Option<i64>,
    /// The first wait before it is tried again
    #[arg(long, value_name = "DURATION", requires = "retry_limit")]
    retry_backoff_duration: Option<String>,
    /// The longest wait
    #[arg(long, value_name = "DURATION", requires = "retry_limit")]
    retry_backoff_max_duration: Option<String>,
    /// By which each further wait is longer
    #[arg(long, value_name = "FACTOR", requires = "retry_limit")]
    retry_backoff_factor: Option<i64>,
    /// Wait until the sync is over; the default on a terminal
    #[arg(long, conflicts_with = "no_wait")]
    wait: bool,
    /// Return as soon as the sync was requested
    #[arg(long = "async")]
    no_wait: bool,
    /// Stop waiting after this long: seconds, or 90s, 5m, 1h
    #[arg(long, default_value = "300", value_parser = app_wait::patience)]
    timeout: Duration,
    #[command(flatten)]
    output: OutputArguments,
}

pub(super) async fn run(
    client: &Client,
    app: &Application,
    wish: &SyncArguments,
) -> anyhow::Result<ExitCode> {
    let ordered: OperationOrdered = proxy::order(client, app, "sync", &request(app, wish)?).await?;
    if wish.wait || (std::io::stdout().is_terminal() && !wish.no_wait) {
        return app_wait::finished(client, app, &ordered, wish.timeout, wish.output).await;
    }
    let said = format!("Sync of {} requested; `slipway app wait {}` waits for it", app.name, app.name);
    done(wish.output, &ordered, &ordered.operation_id, &said)?;
    Ok(ExitCode::SUCCESS)
}

fn request(app: &Application, wish: &SyncArguments) -> anyhow::Result<SyncRequest> {
    let short = [
        (wish.replace, "Replace=true"),
        (wish.server_side, "ServerSideApply=true"),
        (wish.apply_out_of_sync_only, "ApplyOutOfSyncOnly=true"),
    ];
    let mut options: Vec<String> =
        short.iter().filter(|(said, _)| *said).map(|(_, option)| (*option).to_owned()).collect();
    options.extend(wish.sync_options.iter().cloned());
    Ok(SyncRequest {
        revision: wish.revision.clone(),
        revisions: wish.revisions.clone(),
        prune: wish.prune,
        dry_run: wish.dry_run,
        resources: wish.resources.iter().map(|text| chosen(app, text)).collect::<Result<_, _>>()?,
        strategy: wish.strategy.map(|strategy| match strategy {
            Strategy::Hook => SyncStrategy::Hook,
            Strategy::Apply => SyncStrategy::Apply,
        }),
        force: wish.force,
        sync_options: (!options.is_empty()).then_some(options),
        retry: wish.retry_limit.map(|limit| SyncRetry {
            limit,
            duration: wish.retry_backoff_duration.clone(),
            factor: wish.retry_backoff_factor,
            max_duration: wish.retry_backoff_max_duration.clone(),
        }),
    })
}

/// What is not there yet has no place in the tree, so it is named in full, with its group.
fn chosen(app: &Application, text: &str) -> anyhow::Result<SyncResource> {
    // Names of roles may have colons; a group has no slash.
    if text.split_once(':').is_none_or(|(group, _)| group.contains('/')) {
        let node = apps::resource(app, text).context(
            "a resource that is only in Git is named GROUP:KIND:[NAMESPACE/]NAME; `slipway app plan` shows it",
        )?;
        return Ok(SyncResource {
            group: node.group.clone(),
            kind: node.kind.clone(),
            namespace: node.namespace.clone(),
            name: node.name.clone(),
        });
    }
    let parts: Vec<&str> = text.splitn(3, ':').collect();
    let [group, kind, name] = parts.as_slice() else {
        bail!("`{text}` is not GROUP:KIND:[NAMESPACE/]NAME; the group of a Service is empty: `:Service:web`");
    };
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    if kind.is_empty() || name.is_empty() {
        bail!("`{text}` has no kind or no name: it is GROUP:KIND:[NAMESPACE/]NAME");
    }
    let text = |part: &str| part.to_owned();
    Ok(SyncResource { group: text(group), kind: text(kind), namespace: text(namespace), name: text(name) })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;
    use slipway_api::application::ResourceNode;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        sync: SyncArguments,
    }

    fn asked(line: &str) -> anyhow::Result<serde_json::Value> {
        let line = Line::try_parse_from(line.split(' '))?;
        let text = |text: &str| text.to_owned();
        let node = |group, kind, namespace, name| ResourceNode {
            group: text(group),
            kind: text(kind),
            namespace: text(namespace),
            name: text(name),
            ..ResourceNode::default()
        };
        let resources = vec![
            node("apps", "Deployment", "web", "api"),
            node("rbac.authorization.k8s.io", "ClusterRole", "", "team:a:read"),
        ];
        let app = Application { name: text("shop"), resources, ..Application::default() };
        Ok(serde_json::to_value(request(&app, &line.sync)?)?)
    }

    #[test]
    fn flags_of_argocd_become_a_request() {
        let body = asked(
            "sync shop --prune --dry-run --force --strategy apply --server-side --sync-option PruneLast=true \
             --resource deployment/api --resource :Service:web/api --retry-limit 3 --retry-backoff-duration 7s",
        )
        .expect("readable");
        assert_eq!(
            body,
            json!({
                "prune": true, "dryRun": true, "force": true, "strategy": "apply",
                "syncOptions": ["ServerSideApply=true", "PruneLast=true"],
                "resources": [
                    {"group": "apps", "kind": "Deployment", "namespace": "web", "name": "api"},
                    {"kind": "Service", "namespace": "web", "name": "api"},
                ],
                "retry": {"limit": 3, "duration": "7s"},
            })
        );
        let plain = asked("sync shop").expect("readable");
        assert_eq!(plain, json!({"prune": false, "dryRun": false, "force": false}));
    }

    #[test]
    fn names_with_colons_are_names() {
        let role =
            json!({"group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "team:a:read"});
        for name in ["ClusterRole/team:a:read", "rbac.authorization.k8s.io:ClusterRole:team:a:read"] {
            let body = asked(&format!("sync shop --resource {name}")).expect("readable");
            assert_eq!(body["resources"], json!([role]), "{name}");
        }
    }

    #[test]
    fn what_names_nothing_is_refused_with_how_to_name_it() {
        for (line, why) in [
            ("sync shop --resource deployment/gone", "GROUP:KIND:[NAMESPACE/]NAME"),
            ("sync shop --resource Service:api", ":Service:web"),
            ("sync shop --resource :Service:", "no kind or no name"),
            ("sync shop --retry-backoff-factor 2", "--retry-limit"),
            ("sync shop --replace --server-side", "cannot be used with"),
        ] {
            let said = format!("{:#}", asked(line).expect_err(line));
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}
