//! What could stand in the way of an installation, looked at before anything is made: all of it, with what to do about each.

use serde::Serialize;
use serde_json::Value;
use slipway_api::Client;
use slipway_api::runtime::RuntimeDetail;
use slipway_cluster::{Cluster, ObjectKey, Right};

use super::state::Site;
use super::{AccessMode, InstallArguments};
use crate::cli::context;
use crate::cli::nouns::part;
use crate::kube::{Chosen, OLDEST, marks, number};

#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) check: &'static str,
    /// `ok`, `warning` or `failed`.
    pub(super) outcome: &'static str,
    pub(super) says: String,
}

impl Check {
    pub(super) fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, outcome: "ok", says: says.into() }
    }

    pub(super) fn warning(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, outcome: "warning", says: says.into() }
    }

    pub(super) fn failed(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, outcome: "failed", says: says.into() }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.outcome == "failed"
    }
}

/// What the checks found that the installation goes on with.
pub(super) struct Found {
    pub(super) checks: Vec<Check>,
    pub(super) cluster: Option<Cluster>,
}

const WANTED: [Right<'static>; 2] = [
    Right { verb: "create", group: marks::DEFINITIONS, resource: "customresourcedefinitions", namespace: "" },
    // Kubernetes lets nobody give rights that they do not have, and the runtime gets these.
    Right { verb: "*", group: "*", resource: "*", namespace: "" },
];

pub(super) async fn all(arguments: &InstallArguments, site: &Site, server: &str, client: &Client) -> Found {
    let mut checks = vec![name(site), address(server, arguments.plain_http)];
    checks.extend(platform(client).await);
    let mut cluster = None;
    match arguments.site.kube.choose() {
        Err(error) => checks.push(Check::failed("kubeconfig", format!("{error:#}"))),
        Ok(chosen) => match Cluster::connect(chosen.config()).await {
            Err(error) => checks.push(Check::failed("cluster", chosen.explain(&error))),
            Ok(reached) => {
                checks.extend(of_cluster(arguments, site, &chosen, &reached).await);
                cluster = Some(reached);
            }
        },
    }
    checks.extend(collision(site, client, cluster.as_ref()).await);
    Found { checks, cluster }
}

fn name(site: &Site) -> Check {
    let name = &site.name;
    let good = (1..=38).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    match good {
        true => Check::ok("name", format!("{name} in namespace {}", site.namespace)),
        false => Check::failed(
            "name",
            format!(
                "`{name}` is not a name for a runtime: use up to 38 lowercase letters, digits and hyphens, with no hyphen at either end"
            ),
        ),
    }
}

/// Pods have a loopback of their own.
fn address(server: &str, plain_http: bool) -> Check {
    let Ok(url) = server.parse::<reqwest::Url>() else {
        return Check::failed(
            "platform address",
            format!("`{server}` is no address: give --server https://…"),
        );
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    if host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
    {
        return Check::failed(
            "platform address",
            format!(
                "pods cannot reach {server}, which is this machine alone: give --server with an address that they reach"
            ),
        );
    }
    if url.scheme() != "https" && !plain_http {
        return Check::failed(
            "platform address",
            format!(
                "{server} is not https: everybody on the way could read the runtime's token. Use https, or --plain-http where nobody is on the way"
            ),
        );
    }
    Check::ok("platform address", format!("pods will connect to {server}"))
}

async fn platform(client: &Client) -> Vec<Check> {
    match client.get::<Value>("/api/user").await {
        Err(error) => vec![Check::failed("platform", context::explain(&error.into()))],
        Ok(me) => {
            let is_admin =
                me["roles"].as_array().is_some_and(|roles| roles.iter().any(|role| role == "Admin"));
            let who = me["email"].as_str().or(me["userName"].as_str()).unwrap_or("you").to_owned();
            match is_admin {
                true => vec![Check::ok("platform", format!("{} as {who}", client.base()))],
                false => vec![Check::failed(
                    "platform",
                    format!(
                        "{who} is no Administrator of the account, and only those register runtimes: ask one, or sign in as one"
                    ),
                )],
            }
        }
    }
}

async fn of_cluster(
    arguments: &InstallArguments,
    site: &Site,
    chosen: &Chosen,
    cluster: &Cluster,
) -> Vec<Check> {
    let mut checks = Vec::new();
    let failed = |check, error: &slipway_cluster::ClusterError| Check::failed(check, chosen.explain(error));
    if arguments.skip_cluster_checks {
        checks.push(Check::warning("cluster", format!("{}, not looked at any closer", chosen.words())));
    } else {
        checks.push(match cluster.version().await {
            Err(error) => failed("cluster", &error),
            Ok(version) if number(&version).is_some_and(|found| found < OLDEST) => Check::failed(
                "cluster",
                format!(
                    "{} runs Kubernetes {version}: {}.{} or newer is needed",
                    chosen.words(),
                    OLDEST.0,
                    OLDEST.1
                ),
            ),
            Ok(version) => Check::ok("cluster", format!("{}, Kubernetes {version}", chosen.words())),
        });
        checks.push(match cluster.missing_rights(&WANTED).await {
            Err(error) => failed("rights", &error),
            Ok(missing) if missing.is_empty() => Check::ok("rights", "all that is needed"),
            Ok(missing) => {
                let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
                Check::failed(
                    "rights",
                    format!("you may not {}: a role like cluster-admin is needed", missing.join(", nor ")),
                )
            }
        });
        checks.push(nodes(cluster).await.unwrap_or_else(|error| failed("nodes", &error)));
    }
    checks.push(match marks::other_engine(cluster, &site.namespace, &site.mark()).await {
        Err(error) => Check::failed("namespace", format!("{error:#}")),
        Ok(Some(other)) => {
            Check::failed("namespace", format!("{other}: choose another with --namespace, or stop it first"))
        }
        Ok(None) => Check::ok("namespace", format!("{} is free", site.namespace)),
    });
    if let (AccessMode::Ingress, Some(class)) = (arguments.access_mode, &arguments.ingress_class) {
        let key = ObjectKey::new("networking.k8s.io", "IngressClass", "", class);
        checks.push(match cluster.read(&key).await {
            Err(error) => failed("ingress class", &error),
            Ok(Some(_)) => Check::ok("ingress class", class.as_str()),
            Ok(None) => Check::failed(
                "ingress class",
                format!("the cluster has no ingress class `{class}`: install its controller, or name another (`kubectl get ingressclasses`)"),
            ),
        });
    }
    if arguments.access_mode == AccessMode::Gateway
        && cluster.discovery().preferred("gateway.networking.k8s.io", "HTTPRoute").is_none()
    {
        let says = "the cluster does not have the Gateway API (HTTPRoute): install it, or choose another --access-mode";
        checks.push(Check::failed("gateway", says));
    }
    checks
}

async fn nodes(cluster: &Cluster) -> Result<Check, slipway_cluster::ClusterError> {
    let all = cluster.list_labelled(&ObjectKey::new("", "Node", "", ""), "").await?;
    let is_ready = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
        ready && node["spec"]["unschedulable"] != true
    };
    Ok(match (all.iter().filter(is_ready).count(), all.len()) {
        (0, 0) => Check::failed("nodes", "the cluster has no node: nothing can run there"),
        (0, all) => Check::failed(
            "nodes",
            format!("none of {all} nodes is ready for pods: `kubectl get nodes` says why"),
        ),
        (ready, all) => Check::ok("nodes", format!("{ready} of {all} are ready")),
    })
}

/// The name belongs to one runtime of the account: to this one, or to nobody who is there.
async fn collision(site: &Site, client: &Client, cluster: Option<&Cluster>) -> Vec<Check> {
    let known = match client.get::<RuntimeDetail>(&format!("/api/runtimes/{}", part(&site.name))).await {
        Ok(known) => known.runtime,
        Err(_) => return Vec::new(),
    };
    let ours = match cluster {
        Some(cluster) => cluster.read(&site.token_secret()).await.ok().flatten().is_some(),
        None => false,
    };
    match (ours, known.state.as_str()) {
        (true, _) => vec![Check::ok(
            "registration",
            format!("{} is registered, and its token is in the cluster", site.name),
        )],
        (false, "online") => vec![Check::failed(
            "registration",
            format!(
                "a runtime `{}` is online already, elsewhere: choose another name, or uninstall that one first",
                site.name
            ),
        )],
        (false, state) => vec![Check::warning(
            "registration",
            format!("{} is registered and {state}: it gets a new token", site.name),
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_pods_cannot_use_are_refused_with_what_to_do() {
        for (server, plain, good) in [
            ("https://slipway.example.com", false, true),
            ("http://slipway.example.com", false, false),
            ("http://slipway.example.com", true, true),
            ("http://127.0.0.1:8080", true, false),
            ("https://localhost", false, false),
            ("https://[::1]:8080", false, false),
            ("https://0.0.0.0", false, false),
            ("nonsense", false, false),
        ] {
            assert_eq!(!address(server, plain).has_failed(), good, "{server}");
        }
        for (text, good) in [
            ("west", true),
            ("a-1", true),
            ("", false),
            ("-a", false),
            ("A", false),
            (&"a".repeat(39), false),
        ] {
            let site = Site { name: text.to_owned(), namespace: "argocd".into() };
            assert_eq!(!name(&site).has_failed(), good, "{text}");
        }
    }
}
