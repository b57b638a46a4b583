//! A cluster that somebody has already, in place of the embedded one: what is looked at before it is used, what is put into it, and
//! how all of that goes again.
//!
//! What is made there carries a mark of this data folder, and the folder says where it is: before the first thing is made, so that
//! nothing is left that nobody knows of. Removing it takes away what has the mark, and what lives in a namespace that has it;
//! what Applications deployed stays.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use slipway_cluster::{Cluster, ObjectKey, Propagation, Right};
use slipway_crd::names;

use crate::kube::{Chosen, KubeArguments, marks};

const RECORD: &str = "existing-cluster.json";

/// Where this platform has put things; in its data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    kubeconfig: PathBuf,
    context: String,
    server: String,
    namespace: String,
    mark: String,
}

/// A cluster that is ready to be used.
pub(super) struct Existing {
    pub(super) chosen: Chosen,
    pub(super) namespace: String,
    pub(super) mark: String,
    pub(super) version: String,
}

impl Record {
    pub(super) fn read(data: &Path) -> anyhow::Result<Option<Self>> {
        let path = data.join(RECORD);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).with_context(|| {
                format!("cannot read {}, which says where this platform's cluster is", path.display())
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn write(&self, data: &Path) -> anyhow::Result<()> {
        let (path, beside) = (data.join(RECORD), data.join("existing-cluster.new"));
        std::fs::write(&beside, serde_json::to_vec_pretty(self)?)?;
        std::fs::File::open(&beside)?.sync_all()?;
        Ok(std::fs::rename(&beside, &path)?)
    }

    fn chosen(&self) -> anyhow::Result<Chosen> {
        let arguments =
            KubeArguments { kubeconfig: Some(self.kubeconfig.clone()), context: Some(self.context.clone()) };
        let chosen = arguments.choose()?;
        // A context can be made to lead elsewhere, where others have theirs.
        anyhow::ensure!(
            chosen.context.server == self.server,
            "context {} of {} leads to {} now, and this platform is on {}: make it lead there again first",
            self.context,
            self.kubeconfig.display(),
            chosen.context.server,
            self.server
        );
        Ok(chosen)
    }
}

/// What the runtime in this process has to be allowed: it deploys whatever Applications say, and watches what it deployed.
const WANTED: [Right<'static>; 6] = [
    everywhere("create", marks::DEFINITIONS, "customresourcedefinitions"),
    everywhere("create", "", "namespaces"),
    everywhere("list", "*", "*"),
    everywhere("watch", "*", "*"),
    everywhere("patch", "*", "*"),
    everywhere("delete", "*", "*"),
];

const fn everywhere(verb: &'static str, group: &'static str, resource: &'static str) -> Right<'static> {
    Right { verb, group, resource, namespace: "" }
}

/// Looks at everything that could stand in the way, then puts in what the runtime needs.
pub(super) async fn prepare(
    arguments: &KubeArguments,
    namespace: &str,
    data: &Path,
) -> anyhow::Result<Existing> {
    let chosen = arguments.choose()?;
    let before = Record::read(data)?;
    if let Some(before) = &before {
        anyhow::ensure!(
            before.server == chosen.context.server && before.namespace == namespace,
            "this platform is on context {} ({}), namespace {}: `slipway down --data {} --remove` takes it out of there first, or give --data another folder",
            before.context,
            before.server,
            before.namespace,
            data.display()
        );
    }
    let (cluster, version) = chosen.connect().await?;
    chosen.require(&cluster, &WANTED).await?;
    let mark = before.map_or_else(new_mark, |before| before.mark);
    if let Some(other) = marks::other_engine(&cluster, namespace, &mark).await? {
        bail!("{other}: give this one a namespace of its own with --namespace NAME, or stop the other first");
    }
    let record = Record {
        kubeconfig: chosen.file.canonicalize()?,
        context: chosen.context.name.clone(),
        server: chosen.context.server.clone(),
        namespace: namespace.to_owned(),
        mark: mark.clone(),
    };
    record.write(data)?;
    let made = install(&cluster, namespace, &mark).await?;
    match made.is_empty() {
        true => {
            note!("Cluster: {}, Kubernetes {version}; everything that is needed is there", chosen.words())
        }
        false => {
            note!("Cluster: {}, Kubernetes {version}; put into it:", chosen.words());
            made.iter().for_each(|line| note!("  {line}"));
        }
    }
    note!("`slipway down --data {} --remove` takes it out again; what was deployed stays", data.display());
    Ok(Existing { chosen, namespace: namespace.to_owned(), mark, version })
}

fn new_mark() -> String {
    let mut random = [0_u8; 6];
    // Two platforms on one cluster must not take each other's away.
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.secure_random.fill(&mut random).expect("the system has randomness");
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("up-{hex}")
}

/// Makes what is missing, with the mark; one line for each.
async fn install(cluster: &Cluster, namespace: &str, mark: &str) -> anyhow::Result<Vec<String>> {
    let made = marks::make_definitions(cluster, mark).await?;
    let mut made: Vec<String> = made.into_iter().map(|name| format!("definition {name}")).collect();
    if marks::make_namespace(cluster, namespace, &json!({}), mark).await? {
        made.push(format!("namespace {namespace}"));
    }
    Ok(made)
}

/// `slipway down`: says what is there, or takes it out. `false`: this platform has put nothing anywhere.
pub(super) async fn down(data: &Path, remove: bool) -> anyhow::Result<bool> {
    let Some(record) = Record::read(data)? else { return Ok(false) };
    let chosen = record.chosen()?;
    if !remove {
        say!(
            "This platform's definitions, Secrets and Applications are in {}, namespace {}, and stay there; `slipway down --data {} --remove` takes them out. What was deployed stays in any case.",
            chosen.words(),
            record.namespace,
            data.display()
        );
        return Ok(true);
    }
    let (cluster, _) = chosen.connect().await?;
    remove_all(&cluster, &record).await?;
    std::fs::remove_file(data.join(RECORD))?;
    say!(
        "Nothing of this platform is left in {}; what Applications deployed stays, and so does the data in {}",
        chosen.words(),
        data.display()
    );
    Ok(true)
}

/// Takes out what has the mark, and whatever is in a namespace that has it.
async fn remove_all(cluster: &Cluster, record: &Record) -> anyhow::Result<()> {
    let ours = marks::selector(&record.mark);
    let namespace = record.namespace.as_str();
    let place = ObjectKey::new("", "Namespace", "", namespace);
    let found = cluster.read(&place).await?;
    let is_ours = found.is_some_and(|found| marks::mark_of(&found) == Some(&record.mark));
    let told = |line: String| say!("{line}");
    let selector = if is_ours { "" } else { ours.as_str() };
    for kind in ["ApplicationSet", "Application", "AppProject"] {
        marks::let_go(cluster, &ObjectKey::new(names::GROUP, kind, namespace, ""), selector, told).await?;
    }
    for selector in [ours.as_str(), "slipway.io/git-tokens-of-a-person=true"] {
        marks::let_go(cluster, &ObjectKey::new("", "Secret", namespace, ""), selector, told).await?;
    }
    if is_ours {
        cluster.delete(&place, None, Propagation::Background, false).await?;
        marks::until_gone(cluster, &place).await?;
        say!("namespace {namespace} removed");
    }
    marks::remove_definitions(cluster, &record.mark, told).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_that_leads_elsewhere_by_now_is_not_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("config");
        let leads_to = |server: &str| {
            let text = format!(
                "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
                 contexts: [{{name: mine, context: {{cluster: c, user: u}}}}]\n"
            );
            std::fs::write(&kubeconfig, text).unwrap();
        };
        leads_to("https://a:6443");
        let record = Record {
            kubeconfig: kubeconfig.clone(),
            context: "mine".into(),
            server: "https://a:6443".into(),
            namespace: "argocd".into(),
            mark: "up-1".into(),
        };
        record.write(folder.path()).unwrap();
        let record = Record::read(folder.path()).unwrap().expect("written");
        assert_eq!(record.chosen().unwrap().context.server, "https://a:6443");
        leads_to("https://b:6443");
        let error = record.chosen().unwrap_err().to_string();
        assert!(error.contains("leads to https://b:6443 now"), "{error}");
    }
}
