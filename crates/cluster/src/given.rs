//! A cluster as a cluster Secret describes it: an address, whom to trust, and who we are there.

use std::fmt;

use base64::Engine as _;
use kube::config::{
    AuthInfo, Cluster as ClusterEntry, Context, KubeConfigOptions, Kubeconfig, KubeconfigError,
    NamedAuthInfo, NamedCluster, NamedContext,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::credential::{Credential, Keeper, Program};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Config(#[from] KubeconfigError),
    #[error("{0}")]
    Program(String),
}

impl From<String> for Refused {
    fn from(words: String) -> Self {
        Self::Program(words)
    }
}

/// The connection of a cluster Secret. Its text form names the address and nothing else.
#[derive(Clone)]
pub struct Given {
    pub server: String,
    config: Config,
}

/// The Secret's `config`, as Argo CD writes it.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    username: String,
    password: String,
    bearer_token: String,
    tls_client_config: Tls,
    exec_provider_config: Option<Program>,
    proxy_url: String,
    aws_auth_config: Option<Value>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Tls {
    insecure: bool,
    server_name: String,
    ca_data: String,
    cert_data: String,
    key_data: String,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Given {
    /// Reads the Secret's `server` and `config`. The message never holds what stands in them.
    pub fn parse(server: &str, config: &str) -> Result<Self, String> {
        let config: Config = if config.trim().is_empty() {
            Config::default()
        } else {
            // serde's own words quote what they read.
            serde_json::from_str(config).map_err(|error| {
                format!(
                    "`config` is not JSON of the expected shape (line {}, column {})",
                    error.line(),
                    error.column()
                )
            })?
        };
        if config.aws_auth_config.is_some() {
            return Err(
                "awsAuthConfig is not supported here; use execProviderConfig with `aws eks get-token`".into(),
            );
        }
        Ok(Self { server: server.trim_end_matches('/').to_owned(), config })
    }

    /// The cluster as a credential program is told of it.
    fn for_program(&self) -> Value {
        let tls = &self.config.tls_client_config;
        json!({"server": self.server, "tls-server-name": tls.server_name, "insecure-skip-tls-verify": tls.insecure,
            "certificate-authority-data": tls.ca_data, "proxy-url": self.config.proxy_url})
    }

    /// How to connect, and who renews the token where a program gives it. The words of an error are ours.
    pub(crate) async fn connection(&self) -> Result<(kube::Config, Option<Keeper>), Refused> {
        let text = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
        let (config, tls) = (&self.config, &self.config.tls_client_config);
        let cluster = ClusterEntry {
            server: Some(self.server.clone()),
            insecure_skip_tls_verify: tls.insecure.then_some(true),
            certificate_authority_data: text(&tls.ca_data),
            proxy_url: text(&config.proxy_url),
            tls_server_name: text(&tls.server_name),
            ..ClusterEntry::default()
        };
        let program = config.exec_provider_config.as_ref();
        let asked = self.for_program();
        let given = match program {
            Some(program) => Some(program.run(Some(&asked)).await?),
            None => None,
        };
        let keeper = match (program, &given) {
            (Some(program), Some(given)) => Keeper::new(program.clone(), Some(asked), given),
            _ => None,
        };
        let from_program = |part: fn(&Credential) -> &Option<String>| {
            let pem = given.as_ref().and_then(|given| part(given).as_ref())?;
            Some(base64::engine::general_purpose::STANDARD.encode(pem))
        };
        let certificate = from_program(|given| &given.client_certificate_data);
        let key = from_program(|given| &given.client_key_data);
        let user = AuthInfo {
            username: text(&config.username),
            password: text(&config.password).map(Into::into),
            token: text(&config.bearer_token).map(Into::into),
            client_certificate_data: certificate.or_else(|| text(&tls.cert_data)),
            client_key_data: key.or_else(|| text(&tls.key_data)).map(Into::into),
            ..AuthInfo::default()
        };
        let context = Context { cluster: "it".into(), user: Some("us".into()), ..Context::default() };
        let kubeconfig = Kubeconfig {
            clusters: vec![NamedCluster {
                name: "it".into(),
                cluster: Some(cluster),
                other: Default::default(),
            }],
            auth_infos: vec![NamedAuthInfo {
                name: "us".into(),
                auth_info: Some(user),
                other: Default::default(),
            }],
            contexts: vec![NamedContext {
                name: "it".into(),
                context: Some(context),
                other: Default::default(),
            }],
            current_context: Some("it".into()),
            ..Kubeconfig::default()
        };
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok((config, keeper))
    }
}

#[cfg(test)]
mod tests {
    use super::Given;

    #[test]
    fn nothing_of_a_secret_is_repeated() {
        for config in ["{\"bearerToken\": canary}", "{\"bearerToken\": [\"canary\"]}", "canary"] {
            let error = Given::parse("https://x", config).expect_err("not readable");
            assert!(!error.contains("canary"), "{error}");
        }
        let given = Given::parse("https://x/", "{\"bearerToken\": \"canary\"}").expect("readable");
        assert!(!format!("{given:?}").contains("canary"));
        assert_eq!(given.server, "https://x");
    }
}
