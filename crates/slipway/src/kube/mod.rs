//! A person's own cluster: which one a kubeconfig and a context mean, whether it can be used, and what may be done there.
//!
//! In: a file and a name. Out: a connection, or one sentence that says what is wrong and what to do. Nothing is changed here.

pub(crate) mod marks;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use slipway_cluster::{Cluster, ClusterConfig, ClusterError, Contexts, KubeContext, Right};

/// Older ones lack what we use (server-side apply of everything, aggregated discovery).
pub(crate) const OLDEST: (u32, u32) = (1, 29);
/// A person waits for the first answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

#[derive(Args, Clone, Default)]
pub(crate) struct KubeArguments {
    /// The kubeconfig; $KUBECONFIG, else ~/.kube/config by default
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; its current one by default
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// A context of a kubeconfig, which is there.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) file: PathBuf,
    pub(crate) context: KubeContext,
}

impl KubeArguments {
    pub(crate) fn choose(&self) -> anyhow::Result<Chosen> {
        let file = match &self.kubeconfig {
            Some(file) => file.clone(),
            None => usual_file()?,
        };
        if !file.is_file() {
            bail!("there is no kubeconfig {}: give one with --kubeconfig FILE", file.display());
        }
        let contexts = Contexts::read(&file).map_err(|error| anyhow::anyhow!(with_cause(&error)))?;
        let context = contexts.choose(self.context.as_deref()).map_err(anyhow::Error::msg)?.clone();
        Ok(Chosen { file, context })
    }
}

/// Where kubectl looks. Several files in one variable are one configuration there; here one is chosen.
fn usual_file() -> anyhow::Result<PathBuf> {
    if let Some(files) = std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty()) {
        let files: Vec<PathBuf> = std::env::split_paths(&files).collect();
        return match files.as_slice() {
            [one] => Ok(one.clone()),
            _ => bail!("KUBECONFIG names several files: choose one with --kubeconfig FILE"),
        };
    }
    let home = std::env::var_os("HOME").context("give --kubeconfig FILE: there is no home folder")?;
    Ok(Path::new(&home).join(".kube/config"))
}

impl Chosen {
    /// `context prod (https://10.0.0.1:6443)`.
    pub(crate) fn words(&self) -> String {
        format!("context {} ({})", self.context.name, self.context.server)
    }

    pub(crate) fn config(&self) -> ClusterConfig {
        let mut config = ClusterConfig::new(Some(self.file.clone()));
        config.context = Some(self.context.name.clone());
        config.request_timeout = ANSWER_WITHIN;
        config
    }

    /// Connects; what does not work is said in a sentence. Gives the version of Kubernetes too.
    pub(crate) async fn connect(&self) -> anyhow::Result<(Cluster, String)> {
        let tried = async {
            let cluster = Cluster::connect(self.config()).await?;
            let version = cluster.version().await?;
            Ok::<_, ClusterError>((cluster, version))
        };
        let (cluster, version) = tried.await.map_err(|error| anyhow::anyhow!(self.explain(&error)))?;
        if number(&version).is_some_and(|found| found < OLDEST) {
            bail!("{} runs Kubernetes {version}: {}.{} or newer is needed", self.words(), OLDEST.0, OLDEST.1);
        }
        Ok((cluster, version))
    }

    pub(crate) fn explain(&self, error: &ClusterError) -> String {
        let cluster = self.words();
        match error {
            ClusterError::Unreachable { detail } => format!(
                "cannot reach the cluster of {cluster}: {detail}; is it running, and does a firewall or a VPN stand between?"
            ),
            ClusterError::Deadline { seconds } => {
                format!(
                    "the cluster of {cluster} did not answer within {seconds} s; is it overloaded, or is the address wrong?"
                )
            }
            ClusterError::Refused { code: 401, .. } => format!(
                "the cluster of {cluster} does not accept the credentials of the kubeconfig: sign in to it again, or renew them"
            ),
            ClusterError::Refused { code: 403, message, .. } => {
                format!("the cluster of {cluster} refuses: {message}")
            }
            other => format!("the cluster of {cluster}: {}", with_cause(other)),
        }
    }

    /// Refuses with all rights that are missing at once.
    pub(crate) async fn require(&self, cluster: &Cluster, wanted: &[Right<'_>]) -> anyhow::Result<()> {
        let missing =
            cluster.missing_rights(wanted).await.map_err(|error| anyhow::anyhow!(self.explain(&error)))?;
        if missing.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = missing.iter().map(|right| format!("\n  - {right}")).collect();
        bail!(
            "the user of {} may not do what is needed there; a role like cluster-admin has it. Missing:{}",
            self.words(),
            lines.concat()
        )
    }
}

fn with_cause(error: &ClusterError) -> String {
    use std::error::Error as _;
    match error.source() {
        Some(cause) => format!("{error} ({cause})"),
        None => error.to_string(),
    }
}

/// `1.34.4+k3s1` → (1, 34).
pub(crate) fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    Some((digits(parts.next()?)?, digits(parts.next()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_vendors_write_them() {
        for (text, expected) in [
            ("1.34.4", Some((1, 34))),
            ("v1.29.0+k3s1", Some((1, 29))),
            ("1.30-gke.5", Some((1, 30))),
            ("dev", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn a_file_or_a_context_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let arguments =
            KubeArguments { kubeconfig: Some(folder.path().join("config")), context: Some("prod".into()) };
        assert!(arguments.choose().unwrap_err().to_string().contains("there is no kubeconfig"));
        std::fs::write(folder.path().join("config"), "apiVersion: v1\nkind: Config\n").unwrap();
        assert!(arguments.choose().unwrap_err().to_string().contains("no context `prod`"));
        std::fs::write(folder.path().join("config"), "{").unwrap();
        assert!(arguments.choose().unwrap_err().to_string().contains("cannot read the kubeconfig"));
    }
}
