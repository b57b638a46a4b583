//! What a kubeconfig offers: its contexts and where each leads. No credential of it is given out.

use std::path::Path;

use kube::config::Kubeconfig;

use crate::ClusterError;

/// A kubeconfig's contexts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contexts {
    /// The one that is used when nobody says which.
    pub current: Option<String>,
    pub all: Vec<KubeContext>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeContext {
    pub name: String,
    /// The address of the API server; empty where the file does not have its cluster.
    pub server: String,
    /// Its authority's certificates (PEM in base64), where they stand in the file or beside it.
    pub authority: Option<String>,
    /// The server's certificate is not looked at.
    pub is_insecure: bool,
    pub proxy: Option<String>,
    /// What the certificate is for, if not for the address.
    pub tls_server_name: Option<String>,
}

impl Contexts {
    pub fn read(file: &Path) -> Result<Self, ClusterError> {
        let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| ClusterError::Kubeconfig {
            file: file.display().to_string(),
            source,
        };
        let config = Kubeconfig::read_from(file).map_err(|error| unreadable(error.into()))?;
        let all = config.contexts.iter().map(|named| of(&config, named)).collect();
        Ok(Self { current: config.current_context.filter(|name| !name.is_empty()), all })
    }

    /// The one of this name; without a name, the current one. The error is a sentence.
    pub fn choose(&self, name: Option<&str>) -> Result<&KubeContext, String> {
        let names: Vec<&str> = self.all.iter().map(|context| context.name.as_str()).collect();
        let there = match names.is_empty() {
            true => "it has none".to_owned(),
            false => format!("it has {}", names.join(", ")),
        };
        let Some(wanted) = name.or(self.current.as_deref()) else {
            return Err(format!(
                "the kubeconfig has no current context: choose one with --context ({there})"
            ));
        };
        let Some(found) = self.all.iter().find(|context| context.name == wanted) else {
            return Err(format!("the kubeconfig has no context `{wanted}`: {there}"));
        };
        if found.server.is_empty() {
            return Err(format!("context `{wanted}` names a cluster that is not in the kubeconfig"));
        }
        Ok(found)
    }
}

fn of(config: &Kubeconfig, named: &kube::config::NamedContext) -> KubeContext {
    let cluster = named.context.as_ref().map(|context| context.cluster.as_str()).unwrap_or_default();
    let cluster = config.clusters.iter().find(|known| known.name == cluster);
    let cluster = cluster.and_then(|known| known.cluster.clone()).unwrap_or_default();
    // kube has made the paths of the file absolute.
    let beside = cluster.certificate_authority.as_ref().and_then(|path| std::fs::read(path).ok());
    let beside = beside.map(|pem| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(pem)
    });
    KubeContext {
        name: named.name.clone(),
        server: cluster.server.unwrap_or_default(),
        authority: cluster.certificate_authority_data.or(beside),
        is_insecure: cluster.insecure_skip_tls_verify == Some(true),
        proxy: cluster.proxy_url,
        tls_server_name: cluster.tls_server_name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "apiVersion: v1\nkind: Config\ncurrent-context: one\n\
        clusters: [{name: c, cluster: {server: 'https://10.0.0.1:6443', certificate-authority-data: cGVt}}]\n\
        users: [{name: u, user: {token: canary}}]\n\
        contexts: [{name: one, context: {cluster: c, user: u}}, {name: lost, context: {cluster: gone, user: u}}]\n";

    #[test]
    fn a_context_is_chosen_by_name_or_is_the_current_one_and_no_other() {
        let folder = std::env::temp_dir().join(format!("slipway-contexts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("config");
        std::fs::write(&file, TEXT).expect("written");
        let contexts = Contexts::read(&file).expect("readable");
        assert_eq!(contexts.choose(None).expect("the current one").server, "https://10.0.0.1:6443");
        assert_eq!(contexts.choose(Some("one")).expect("there").authority.as_deref(), Some("cGVt"));
        let wrong = contexts.choose(Some("two")).expect_err("not there");
        assert!(wrong.contains("no context `two`") && wrong.contains("one, lost"), "{wrong}");
        assert!(contexts.choose(Some("lost")).expect_err("no cluster").contains("not in the kubeconfig"));
        assert!(Contexts::default().choose(None).expect_err("none").contains("it has none"));
        assert!(!format!("{contexts:?}").contains("canary"));
        assert!(Contexts::read(&folder.join("nothing")).is_err());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
