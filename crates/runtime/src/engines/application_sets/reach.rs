//! What a set may read: Secrets and ConfigMaps of its own namespace, repositories that a project opens to it, and
//! hosts that the installation allows.
//!
//! In: a set and what its generators name. Out: the thing, or a sentence that says what stands against it. Whoever may
//! write an ApplicationSet in a team's namespace must not thereby read what the control plane's namespace holds.

use std::sync::Arc;

use serde_json::Value;
use slipway_cluster::{Cluster, ObjectKey};
use slipway_crd::{AppProject, ApplicationSet, names};
use slipway_forge::{GITHUB_HEADERS, GithubApp};
use slipway_gitops::project;
use slipway_model::Secret;
use slipway_net::{Proxy, Rules, Trust};
use slipway_source::Repository;

use super::answers::decode;
use super::{aws, http, provider};
use crate::context::Context;
use crate::settings::{CurrentSettings, SECRET_TYPE};

/// How long GitHub may take to give a token.
const APP_PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Who says what a set may read, and reads it.
pub(super) struct Reach {
    cluster: Cluster,
    settings: Arc<CurrentSettings>,
    /// Which addresses may be asked.
    pub(super) egress: Rules,
}

impl Reach {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            cluster: context.cluster().clone(),
            settings: context.settings.clone(),
            egress: context.config.egress.clone(),
        }
    }

    fn is_home(&self, set: &ApplicationSet) -> bool {
        set.metadata.namespace == self.settings.namespace()
    }

    /// Whether what the set would make is looked after at all: an Application that nobody governs could neither be
    /// deployed nor, with its finalizer, deleted.
    pub(super) fn check_place(&self, set: &ApplicationSet) -> Result<(), String> {
        let namespace = &set.metadata.namespace;
        if self.settings.governs(namespace) {
            return Ok(());
        }
        Err(format!(
            "Applications of the namespace {namespace} are not looked after; add it to application.namespaces in argocd-cmd-params-cm"
        ))
    }

    /// A Secret or ConfigMap of the set's own namespace. Those of ours are in the copy of the cluster; others are asked
    /// for when they are needed and not kept.
    async fn own(&self, set: &ApplicationSet, kind: &str, name: &str) -> Result<Value, String> {
        let namespace = &set.metadata.namespace;
        let key = ObjectKey::new("", kind, namespace, name);
        let found = if self.is_home(set) {
            self.cluster.live(&key).and_then(|live| live.object())
        } else {
            self.cluster.read_version("v1", &key).await.map_err(|error| {
                format!("the {kind} {name} in the namespace {namespace} cannot be read: {error}")
            })?
        };
        found.ok_or_else(|| format!("there is no {kind} {name} in the namespace {namespace}; make it"))
    }

    pub(super) async fn config_map(&self, set: &ApplicationSet, name: &str) -> Result<Value, String> {
        self.own(set, "ConfigMap", name).await.map(|object| object["data"].clone())
    }

    /// One key of a Secret.
    async fn secret(&self, set: &ApplicationSet, name: &str, key: &str) -> Result<Secret<String>, String> {
        value(&self.own(set, "Secret", name).await?, name, key)
    }

    pub(super) async fn plugin_settings(
        &self,
        set: &ApplicationSet,
        config_map: &str,
    ) -> Result<http::PluginSettings, String> {
        let data = self.config_map(set, config_map).await?;
        let field = |name: &str| data[name].as_str().filter(|text| !text.is_empty());
        let base_url =
            field("baseUrl").ok_or_else(|| format!("the ConfigMap {config_map} has no baseUrl"))?;
        let reference = field("token").ok_or_else(|| format!("the ConfigMap {config_map} has no token"))?;
        let reference = reference.strip_prefix('$').ok_or_else(|| {
            format!("token in the ConfigMap {config_map} must name a key of a Secret: $key, or $secret:key")
        })?;
        let (secret, key) = reference.split_once(':').unwrap_or(("argocd-secret", reference));
        Ok(http::PluginSettings {
            base_url: base_url.to_owned(),
            token: self.secret(set, secret, key).await?,
            timeout_seconds: field("requestTimeout").and_then(|text| text.parse().ok()).unwrap_or(30),
        })
    }

    /// The repository with our credentials. A set of another namespace reads what an Application beside it could: what
    /// some project that lets this namespace in permits as a source.
    pub(super) fn repository_for(&self, set: &ApplicationSet, repo_url: &str) -> Result<Repository, String> {
        let namespace = &set.metadata.namespace;
        let opens = |project: &AppProject| {
            project::permits_application_namespace(project, namespace, self.settings.namespace())
                && project::permits_source(project, repo_url)
        };
        let permitted = self.is_home(set)
            || self
                .cluster
                .live_of_kind(names::GROUP, "AppProject")
                .iter()
                .filter(|live| live.key.namespace == self.settings.namespace())
                .filter_map(|live| serde_json::from_value(live.object()?).ok())
                .any(|project| opens(&project));
        if permitted {
            return Ok(self.settings.access().repository(repo_url));
        }
        Err(format!(
            "no project lets the namespace {namespace} read {repo_url}; one has to name both, in sourceNamespaces and sourceRepos"
        ))
    }

    /// A provider's block with its credential, if it may be asked at all.
    pub(super) async fn question(
        &self,
        set: &ApplicationSet,
        block: &Value,
    ) -> Result<provider::Question, String> {
        let parameters = self.command_parameters();
        let allowed = parameters["applicationsetcontroller.allowed.scm.providers"].as_str();
        if parameters["applicationsetcontroller.enable.scm.providers"].as_str() == Some("false") {
            return Err("scm providers are disabled by applicationsetcontroller.enable.scm.providers".into());
        }
        if !self.is_home(set) && allowed.is_none_or(|list| list.trim().is_empty()) {
            return Err(format!(
                "scmProvider and pullRequest are not used in the namespace {}: set applicationsetcontroller.allowed.scm.providers in argocd-cmd-params-cm, so that a set cannot send a token wherever it likes",
                set.metadata.namespace
            ));
        }
        self.opened(set, provider::Draft::read(block, allowed))
            .await
            .map_err(|error| format!("ApplicationSet {}: {error}", set.metadata.name))
    }

    async fn opened(
        &self,
        set: &ApplicationSet,
        draft: Result<provider::Draft, String>,
    ) -> Result<provider::Question, String> {
        let mut draft = draft?;
        let certificates = match draft.certificates() {
            Some(reference) => Some(self.certificates(set, reference).await?),
            None => None,
        };
        let credential = match draft.key.clone() {
            provider::Key::Nobody => None,
            provider::Key::Secret { reference, .. } => {
                let name = reference["secretName"].as_str().unwrap_or_default();
                let object = self.own(set, "Secret", name).await?;
                self.check_strict(&object, name)?;
                Some(value(&object, name, reference["key"].as_str().unwrap_or_default())?)
            }
            provider::Key::App(name) => {
                let object = self.own(set, "Secret", &name).await?;
                Some(app_token(&self.egress, &object, &name, &mut draft).await?)
            }
            provider::Key::Amazon { .. } if !self.is_home(set) => {
                return Err(format!(
                    "awsCodeCommit is asked with the engine's own credentials, which a set in the namespace {} must not use; move the set to {}",
                    set.metadata.namespace,
                    self.settings.namespace()
                ));
            }
            provider::Key::Amazon { role, region } => {
                let environment = |name: &str| std::env::var(name).ok();
                draft.session = Some(aws::Session::open(&self.egress, &environment, &role, &region).await?);
                None
            }
        };
        draft.open(credential.as_ref(), certificates, &self.egress)
    }

    async fn certificates(&self, set: &ApplicationSet, reference: &Value) -> Result<String, String> {
        let name = reference["configMapName"].as_str().unwrap_or_default();
        let key = reference["key"].as_str().unwrap_or_default();
        let data = self.config_map(set, name).await?;
        let found = data[key].as_str().map(str::to_owned);
        found.ok_or_else(|| format!("caRef: the ConfigMap {name} has no key {key}"))
    }

    /// `data` of `argocd-cmd-params-cm`.
    pub(super) fn command_parameters(&self) -> Value {
        let key = ObjectKey::new("", "ConfigMap", self.settings.namespace(), "argocd-cmd-params-cm");
        let object = self.cluster.live(&key).and_then(|live| live.object()).unwrap_or_default();
        object["data"].clone()
    }

    /// In strict mode only Secrets that say what they are for are tokens.
    fn check_strict(&self, secret: &Value, name: &str) -> Result<(), String> {
        let parameters = self.command_parameters();
        let strict =
            parameters["applicationsetcontroller.enable.tokenref.strict.mode"].as_str() == Some("true");
        if strict && secret["metadata"]["labels"][SECRET_TYPE] != "scm-creds" {
            return Err(format!(
                "the Secret {name} lacks the label {SECRET_TYPE}=scm-creds, which strict mode asks for"
            ));
        }
        Ok(())
    }
}

fn value(secret: &Value, name: &str, key: &str) -> Result<Secret<String>, String> {
    decode(&secret["data"][key])
        .map(Secret::new)
        .ok_or_else(|| format!("the Secret {name} has no readable key {key}"))
}

/// The token of a GitHub App's installation, asked for where the block or the App's Secret says GitHub is.
async fn app_token(
    rules: &Rules,
    secret: &Value,
    name: &str,
    draft: &mut provider::Draft,
) -> Result<Secret<String>, String> {
    let field = |key: &str| decode(&secret["data"][key]).unwrap_or_default();
    let (id, private_key) = (field("githubAppID"), field("githubAppPrivateKey"));
    if id.is_empty() || private_key.is_empty() {
        return Err(format!(
            "the Secret {name} describes no GitHub App; give it githubAppID and githubAppPrivateKey"
        ));
    }
    draft.at_enterprise(&field("githubAppEnterpriseBaseUrl"));
    let app = GithubApp {
        id,
        installation: field("githubAppInstallationID"),
        private_key: Secret::new(private_key),
        api: draft.api.clone(),
    };
    let failed = |error: String| format!("the GitHub App of the Secret {name}: {error}");
    let way = github_way(rules, &app, Trust::default(), Proxy::Environment).map_err(failed)?;
    let token = app.token(&way, &app.api).await.map_err(failed)?;
    Ok(token.value)
}

/// How the API that an App belongs to is reached.
pub(crate) fn github_way(
    rules: &Rules,
    app: &GithubApp,
    trust: Trust,
    proxy: Proxy,
) -> Result<http::Way, String> {
    Ok(http::Way {
        client: http::client_by(rules, APP_PATIENCE, trust, proxy)?,
        api: app.api.trim_end_matches('/').to_owned(),
        headers: GITHUB_HEADERS.map(|(name, value)| (name, value.to_owned())).to_vec(),
        session: None,
    })
}
