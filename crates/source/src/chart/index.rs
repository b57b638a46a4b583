//! `index.yaml` of a Helm repository: which versions of which charts there are, and where.

use std::collections::HashMap;

use slipway_yaml::{Dialect, Limits, Node};

use super::{ChartError, ChartVersion, shown};

/// Only what is needed to choose and to fetch: an index may have forty megabytes, most of it descriptions.
#[derive(Default)]
pub(super) struct Index {
    charts: HashMap<String, Vec<ChartVersion>>,
}

impl Index {
    pub(super) fn of(chart: &str, versions: Vec<ChartVersion>) -> Self {
        Self { charts: HashMap::from([(chart.to_owned(), versions)]) }
    }

    pub(super) fn versions(&self, chart: &str) -> Option<&[ChartVersion]> {
        self.charts.get(chart).map(Vec::as_slice)
    }
}

pub(super) fn parse(url: &str, bytes: &[u8]) -> Result<Index, ChartError> {
    let unreadable = |detail: String| ChartError::Unreadable { url: shown(url), detail };
    let text = slipway_yaml::decode(bytes).map_err(|error| unreadable(format!("index.yaml: {error}")))?;
    let limits = Limits { text_bytes: 64 << 20, ..Limits::default() };
    let documents = slipway_yaml::parse_with(&text, Dialect::Kubernetes, &limits)
        .map_err(|errors| unreadable(format!("index.yaml: {}", errors[0])))?;
    let entries = documents.first().and_then(|document| document.get("entries"));
    let entries = entries.ok_or_else(|| unreadable("index.yaml has no `entries`".into()))?;
    let text = |node: &Node, name: &str| node.get(name).and_then(Node::as_str).unwrap_or_default().to_owned();
    let mut index = Index::default();
    for (name, versions) in entries.entries() {
        let found = versions.items().iter().filter_map(|entry| {
            let address = entry.get("urls")?.items().first()?.as_str()?.to_owned();
            let digest = text(entry, "digest");
            let digest = digest.strip_prefix("sha256:").unwrap_or(&digest);
            let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            Some(ChartVersion {
                version: Some(text(entry, "version")).filter(|version| !version.is_empty())?,
                digest: is_digest.then(|| format!("sha256:{}", digest.to_ascii_lowercase())),
                address,
            })
        });
        index.charts.insert(name.key_text(), found.collect());
    }
    Ok(index)
}
