//! Who may read and write which repository, as the labelled Secrets of the control plane's namespace say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use slipway_cluster::{Cluster, ObjectKey};
use slipway_forge::GithubApp;
use slipway_model::Secret;
use slipway_net::Rules;
use slipway_source::{Credentials, Keyring, Repository, normalise_repo_url};

use super::{SECRET_TYPE, field};
use crate::github_tokens::AppTokens;

/// Public keys of those who sign commits.
pub(crate) const KEYS: &str = "argocd-gpg-keys-cm";

/// Who may read which repository, as the labelled Secrets say.
#[derive(Default)]
pub(crate) struct RepositoryAccess {
    /// Normalised address → credentials.
    exact: Vec<(String, Arc<Credentials>)>,
    /// Address prefix → credentials; the longest prefix wins.
    prefixes: Vec<(String, Arc<Credentials>)>,
    /// The same for those who push: `repository-write` and `repo-write-creds`.
    writers: Option<Box<RepositoryAccess>>,
    trust: Trust,
    /// Where the repositories are that Secrets name: `https://git.example.com`.
    hosts: BTreeSet<String>,
    /// Whose signatures can be checked.
    pub(crate) keys: Keyring,
}

/// Which hosts are who they say: `argocd-tls-certs-cm` and `argocd-ssh-known-hosts-cm`.
#[derive(Clone, Default)]
struct Trust {
    /// Host → certificates.
    certificates: BTreeMap<String, String>,
    known_hosts: Option<String>,
}

impl Trust {
    fn read(cluster: &Cluster, namespace: &str) -> Self {
        let data = |name: &str| {
            let key = ObjectKey::new("", "ConfigMap", namespace, name);
            let object = cluster.live(&key).and_then(|live| live.object()).unwrap_or_default();
            serde_json::from_value::<BTreeMap<String, String>>(object["data"].clone()).unwrap_or_default()
        };
        let mut hosts = data("argocd-ssh-known-hosts-cm");
        Self {
            certificates: data("argocd-tls-certs-cm"),
            known_hosts: hosts.remove("ssh_known_hosts").filter(|text| !text.trim().is_empty()),
        }
    }

    fn certificate_of(&self, url: &str) -> Option<String> {
        let (_, rest) = url.split_once("://")?;
        let authority = rest.split('/').next()?.rsplit('@').next()?;
        self.certificates.get(authority.split(':').next()?).cloned()
    }

    /// Of a repository that nobody has credentials for.
    fn stranger(&self, url: &str) -> Credentials {
        Credentials {
            tls_ca: self.certificate_of(url),
            known_hosts: self.known_hosts.clone(),
            ..Credentials::default()
        }
    }
}

/// Registries are written with and without their scheme.
fn chart_address(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("oci://{url}") }
}

impl RepositoryAccess {
    pub(crate) fn read(cluster: &Cluster, namespace: &str, egress: &Rules) -> Self {
        let trust = Trust::read(cluster, namespace);
        let key = ObjectKey::new("", "ConfigMap", namespace, KEYS);
        let object = cluster.live(&key).and_then(|live| live.object()).unwrap_or_default();
        let keys =
            object["data"].as_object().into_iter().flat_map(|data| data.values().filter_map(Value::as_str));
        let mut access = Self { trust: trust.clone(), keys: Keyring::from_armored(keys), ..Self::default() };
        let mut writers = Self { trust: trust.clone(), ..Self::default() };
        for live in cluster.live_of_kind("", "Secret") {
            if live.key.namespace != namespace {
                continue;
            }
            let Some(object) = live.object() else { continue };
            let kind = object["metadata"]["labels"][SECRET_TYPE].as_str().unwrap_or_default();
            if !matches!(kind, "repository" | "repo-creds" | "repository-write" | "repo-write-creds") {
                continue;
            }
            let data = &object["data"];
            let Some(url) = field(data, "url") else { continue };
            let of_charts = matches!(field(data, "type").as_deref(), Some("helm" | "oci"));
            let url = if of_charts { chart_address(&url) } else { url };
            let mut credentials = credentials(data, egress);
            credentials.tls_ca = trust.certificate_of(&url);
            credentials.known_hosts.clone_from(&trust.known_hosts);
            let credentials = Arc::new(credentials);
            access.hosts.extend(origin(&url));
            let to = if kind.contains("write") { &mut writers } else { &mut access };
            match kind {
                "repository" | "repository-write" => to.exact.push((normalise_repo_url(&url), credentials)),
                _ => to.prefixes.push((url.trim_end_matches('/').to_lowercase(), credentials)),
            }
        }
        for to in [&mut access, &mut writers] {
            to.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        }
        access.writers = Some(Box::new(writers));
        access
    }

    /// The repository as an Application may read it. A repository Secret without any credential falls back to
    /// the prefixes, as with Argo.
    pub(crate) fn repository(&self, url: &str) -> Repository {
        let normal = normalise_repo_url(url);
        let lower = url.to_lowercase();
        let exact = self.exact.iter().find(|(of, credentials)| *of == normal && opens(credentials));
        let prefix = || {
            self.prefixes.iter().find(|(prefix, _)| {
                lower
                    .strip_prefix(prefix.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let plain = || self.exact.iter().find(|(of, _)| *of == normal);
        let credentials = exact.or_else(prefix).or_else(plain).map(|(_, credentials)| credentials.clone());
        let credentials = credentials.unwrap_or_else(|| Arc::new(self.trust.stranger(url)));
        Repository { url: url.to_owned(), credentials }
    }

    /// Whether an administrator named a repository, or all repositories, of this host (`https://git.example.com`), in this way: one
    /// that is named with https is not asked without.
    pub(crate) fn knows_host(&self, host: &str) -> bool {
        self.hosts.contains(&host.to_lowercase())
    }

    /// The repository as it may be pushed to: never with the credentials of those who read.
    pub(crate) fn writable(&self, url: &str) -> Repository {
        self.writers.as_ref().map_or_else(|| Repository::public(url), |writers| writers.repository(url))
    }

    /// The same for a repository of packaged charts.
    pub(crate) fn chart_repository(&self, url: &str) -> Repository {
        self.repository(&chart_address(url))
    }
}

/// Where a repository is, as `https://host[:port]`. One that is reached by ssh has its pages and its API behind https.
fn origin(url: &str) -> Option<String> {
    let host = |authority: &str| authority.rsplit('@').next().unwrap_or_default().to_lowercase();
    let named = |scheme: &str, host: String| (!host.is_empty()).then(|| format!("{scheme}://{host}"));
    let Some((scheme, rest)) = url.split_once("://") else {
        // scp-like: git@host:path.
        let (authority, _) = url.split_once(':').filter(|(authority, _)| !authority.contains('/'))?;
        return named("https", host(authority));
    };
    let authority = rest.split('/').next()?;
    match scheme.to_ascii_lowercase().as_str() {
        scheme @ ("http" | "https") => named(scheme, host(authority)),
        "ssh" => named("https", host(authority).split(':').next().unwrap_or_default().to_owned()),
        _ => None,
    }
}

fn opens(credentials: &Credentials) -> bool {
    credentials.password.is_some()
        || credentials.bearer_token.is_some()
        || credentials.ssh_private_key.is_some()
        || credentials.tls_client_key.is_some()
        || credentials.tokens.is_some()
}

fn credentials(data: &Value, egress: &Rules) -> Credentials {
    let secret = |name: &str| field(data, name).map(Secret::new);
    let flag = |name: &str| field(data, name).as_deref() == Some("true");
    Credentials {
        username: field(data, "username").unwrap_or_default(),
        password: secret("password"),
        bearer_token: secret("bearerToken"),
        ssh_private_key: secret("sshPrivateKey"),
        tls_client_cert: secret("tlsClientCertData"),
        tls_client_key: secret("tlsClientCertKey"),
        tls_ca: None,
        insecure: flag("insecure") || flag("insecureIgnoreHostKey"),
        plain_http: flag("insecureOCIForceHttp"),
        known_hosts: None,
        tokens: github_app(data).map(|app| {
            Arc::new(AppTokens { app, rules: egress.clone() }) as Arc<dyn slipway_source::git::Tokens>
        }),
        lfs: flag("enableLfs"),
        proxy: field(data, "proxy").unwrap_or_default(),
    }
}

fn github_app(data: &Value) -> Option<GithubApp> {
    Some(GithubApp {
        id: field(data, "githubAppID")?,
        installation: field(data, "githubAppInstallationID").unwrap_or_default(),
        private_key: Secret::new(field(data, "githubAppPrivateKey")?),
        api: field(data, "githubAppEnterpriseBaseUrl").unwrap_or_else(|| "https://api.github.com".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Arc<Credentials> {
        Arc::new(Credentials::basic(name, Secret::new("x".into())))
    }

    #[test]
    fn a_host_is_known_as_it_was_named_and_in_no_other_way() {
        let urls = [
            "https://Git.example/team/app.git",
            "http://plain.example:3000",
            "git@scp.example:team/app.git",
            "ssh://git@ssh.example:2222/team/app",
            "oci://charts.example/x",
        ];
        let hosts = urls.iter().filter_map(|url| origin(url)).collect();
        let access = RepositoryAccess { hosts, ..RepositoryAccess::default() };
        for known in
            ["https://git.example", "http://plain.example:3000", "https://scp.example", "https://ssh.example"]
        {
            assert!(access.knows_host(known), "{known}");
        }
        for other in [
            "http://git.example",
            "https://plain.example:3000",
            "http://plain.example",
            "http://scp.example",
            "https://charts.example",
            "https://git.example.evil",
            "https://",
        ] {
            assert!(!access.knows_host(other), "{other}");
        }
    }

    #[test]
    fn the_nearest_secret_opens_a_repository() {
        let access = RepositoryAccess {
            exact: vec![
                (normalise_repo_url("https://git.example/team/app.git"), named("exact")),
                (normalise_repo_url("https://git.example/team/plain"), Arc::default()),
            ],
            prefixes: vec![
                ("https://git.example/team".into(), named("team")),
                ("https://git.example".into(), named("host")),
            ],
            ..RepositoryAccess::default()
        };
        for (url, user) in [
            ("https://git.example/team/app", "exact"),
            ("https://git.example/team/plain", "team"),
            ("https://git.example/team/other", "team"),
            ("https://git.example/teamwork/x", "host"),
            ("https://git.example.evil/x", ""),
        ] {
            assert_eq!(access.repository(url).credentials.username, user, "{url}");
        }
    }
}
