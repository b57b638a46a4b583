//! What the namespace of the control plane says: settings in `argocd-cm`, credentials in labelled Secrets.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::Value;
use slipway_cluster::{Cluster, ObjectKey};
use slipway_crd::IgnoreDifference;
use slipway_gitops::{Settings, TrackingMethod};
use slipway_model::Secret;
use slipway_source::{Credentials, Repository, normalise_repo_url};

const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";

/// Reads `argocd-cm`; what is not there has Argo's default.
pub(crate) fn read_settings(cluster: &Cluster, namespace: &str) -> Settings {
    let mut settings = Settings { control_plane_namespace: namespace.to_owned(), ..Settings::default() };
    let key = ObjectKey::new("", "ConfigMap", namespace, "argocd-cm");
    let Some(object) = cluster.live(&key).and_then(|live| live.object()) else { return settings };
    let text = |name: &str| object["data"][name].as_str().filter(|value| !value.is_empty());
    settings.tracking = match text("application.resourceTrackingMethod") {
        Some("label") => TrackingMethod::Label,
        Some("annotation+label") => TrackingMethod::AnnotationAndLabel,
        _ => TrackingMethod::Annotation,
    };
    if let Some(label) = text("application.instanceLabelKey") {
        settings.instance_label = label.to_owned();
    }
    settings.installation_id = text("installationID").map(str::to_owned);
    settings.ignore_differences = ignore_differences(&object["data"]);
    if let Some(list) = text("resource.sensitive.mask.annotations") {
        settings.sensitive_annotations = list.split(',').map(|name| name.trim().to_owned()).collect();
    }
    settings
}

/// `resource.customizations.ignoreDifferences.<group>_<kind>` (or `all`): YAML of one rule.
fn ignore_differences(data: &Value) -> Vec<IgnoreDifference> {
    const PREFIX: &str = "resource.customizations.ignoreDifferences.";
    let mut rules = Vec::new();
    for (name, text) in data.as_object().into_iter().flatten() {
        let (Some(of), Some(text)) = (name.strip_prefix(PREFIX), text.as_str()) else { continue };
        let Ok(documents) = slipway_yaml::load_all_json(text) else {
            tracing::warn!(setting = %name, "A setting in argocd-cm is not readable YAML; it is left out.");
            continue;
        };
        for (mut rule, _) in documents {
            let (group, kind) = match of {
                "all" => ("*", "*"),
                of => of.rsplit_once('_').unwrap_or(("", of)),
            };
            rule["group"] = group.into();
            rule["kind"] = kind.into();
            rules.extend(serde_json::from_value::<IgnoreDifference>(rule));
        }
    }
    rules
}

/// Who may read which repository, as the labelled Secrets say.
#[derive(Default)]
pub(crate) struct RepositoryAccess {
    /// Normalised address → credentials.
    exact: Vec<(String, Arc<Credentials>)>,
    /// Address prefix → credentials; the longest prefix wins.
    prefixes: Vec<(String, Arc<Credentials>)>,
}

impl RepositoryAccess {
    pub(crate) fn read(cluster: &Cluster, namespace: &str) -> Self {
        let mut access = Self::default();
        for live in cluster.live_of_kind("", "Secret") {
            if live.key.namespace != namespace {
                continue;
            }
            let Some(object) = live.object() else { continue };
            let kind = object["metadata"]["labels"][SECRET_TYPE].as_str().unwrap_or_default();
            if !matches!(kind, "repository" | "repo-creds") {
                continue;
            }
            let data = &object["data"];
            let Some(url) = field(data, "url") else { continue };
            let credentials = Arc::new(credentials(data));
            match kind {
                "repository" => access.exact.push((normalise_repo_url(&url), credentials)),
                _ => access.prefixes.push((url.trim_end_matches('/').to_lowercase(), credentials)),
            }
        }
        access.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
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
        Repository { url: url.to_owned(), credentials: credentials.unwrap_or_default() }
    }
}

fn opens(credentials: &Credentials) -> bool {
    credentials.password.is_some()
        || credentials.bearer_token.is_some()
        || credentials.ssh_private_key.is_some()
        || credentials.tls_client_key.is_some()
}

fn credentials(data: &Value) -> Credentials {
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
        proxy: field(data, "proxy").unwrap_or_default(),
    }
}

fn field(data: &Value, name: &str) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(data[name].as_str()?).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(name: &str) -> Arc<Credentials> {
        Arc::new(Credentials::basic(name, Secret::new("x".into())))
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

    #[test]
    fn rules_of_the_config_map_are_read() {
        let rules = ignore_differences(&json!({
            "resource.customizations.ignoreDifferences.apps_Deployment": "jsonPointers:\n- /spec/replicas\n",
            "resource.customizations.ignoreDifferences.all": "managedFieldsManagers: [x]\n",
            "other": "x",
        }));
        let names: Vec<_> = rules.iter().map(|r| (r.group.as_str(), r.kind.as_str())).collect();
        assert_eq!(names, [("*", "*"), ("apps", "Deployment")]);
    }
}
