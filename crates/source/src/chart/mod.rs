//! Packaged charts: from Helm repositories (`index.yaml` over http) and from OCI registries.
//!
//! In: a repository with its credentials, a chart's name, a version or a range. Out: the version that it means
//! now, and the chart's files. Archives are kept on disk by what was promised of them; an answer has a size
//! limit before it is read, an archive before it is opened, and nothing in an archive can name a place outside.

mod archive;
mod http;
mod index;
mod oci;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use slipway_model::Next;
use slipway_net::Rules;
use slipway_template::semver::{Constraints, Version};
use tokio::sync::Mutex;

use crate::git::{Repository, Since};
use crate::private;

pub use archive::Archive;
pub(crate) use http::{Ask, Http, origin};
use index::Index;

#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error("`{0}` is not a chart's name; use letters, digits, dots, dashes and slashes")]
    Name(String),
    #[error("`{0}` is not a chart repository; use https:// or oci://")]
    Address(String),
    #[error("chart `{chart}` is not in {url}; correct `chart`")]
    NoChart { chart: String, url: String },
    #[error("no version of chart `{chart}` in {url} fits `{wanted}`{}; correct `targetRevision`", some(.known))]
    NoVersion { chart: String, url: String, wanted: String, known: Vec<String> },
    #[error("`{wanted}` is neither a version nor a range of versions; correct `targetRevision`")]
    Range { wanted: String },
    #[error(
        "{url} wants other credentials; add a Secret with the label argocd.argoproj.io/secret-type: repository \
         and the keys url, type: helm, username and password"
    )]
    Credentials { url: String },
    #[error("cannot reach {url}: {detail}")]
    Unreachable { url: String, detail: String },
    #[error("{url} answers {status}")]
    Refused { url: String, status: u16 },
    #[error("{what} is larger than the limit of {limit} bytes")]
    TooLarge { what: String, limit: u64 },
    #[error("{url}: {detail}")]
    Unreadable { url: String, detail: String },
    #[error("{url} did not give what it promised: the digest of the archive differs")]
    Digest { url: String },
    #[error("cannot use {folder}; check its owner and the free space")]
    Folder { folder: String, source: std::io::Error },
}

fn some(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(" (there are {})", known.join(", ")) }
}

impl ChartError {
    pub fn next(&self) -> Next {
        match self {
            Self::Unreachable { .. } | Self::Folder { .. } => Next::Retry,
            Self::Refused { status, .. } if *status >= 500 || *status == 429 => Next::Retry,
            _ => Next::NeedsHuman,
        }
    }
}

/// A version of a chart, and where its archive is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartVersion {
    pub version: String,
    /// `sha256:…` of the archive where the repository says so.
    digest: Option<String>,
    /// http: the archive's address. Empty for OCI.
    address: String,
}

#[derive(Debug, Clone)]
pub struct ChartLimits {
    pub index_bytes: u64,
    /// As it is downloaded.
    pub archive_bytes: u64,
    /// All files of an archive together.
    pub content_bytes: u64,
    pub files: usize,
    /// The archives kept on disk, together.
    pub cache_bytes: u64,
}

impl Default for ChartLimits {
    fn default() -> Self {
        Self {
            index_bytes: 64 << 20,
            archive_bytes: 32 << 20,
            content_bytes: 256 << 20,
            files: 10_000,
            cache_bytes: 1 << 30,
        }
    }
}

/// The charts of this process. Losing the folder costs downloads.
pub struct ChartCache {
    folder: PathBuf,
    limits: ChartLimits,
    http: Http,
    /// The last index of each repository and credential, and when it was asked for. Held while asking.
    indexes: std::sync::Mutex<HashMap<String, Known>>,
    /// Opened archives that somebody still holds.
    open: std::sync::Mutex<HashMap<String, std::sync::Weak<Archive>>>,
}

type Known = Arc<Mutex<Option<(Instant, Arc<Index>)>>>;

impl ChartCache {
    pub fn open(folder: impl Into<PathBuf>, limits: ChartLimits) -> Result<Self, ChartError> {
        let folder = folder.into();
        private::make_folder(&folder)
            .map_err(|source| ChartError::Folder { folder: folder.display().to_string(), source })?;
        Ok(Self {
            folder,
            limits,
            http: Http::new(Rules::default().with_private()),
            indexes: Default::default(),
            open: Default::default(),
        })
    }

    /// Which addresses may be asked; without a word all but those of the machine room.
    #[must_use]
    pub fn reaching(mut self, rules: Rules) -> Self {
        self.http = Http::new(rules);
        self
    }

    /// What `wanted` means now: a version as it is, a range its highest member, "" the highest of all.
    pub async fn resolve(
        &self,
        repository: &Repository,
        chart: &str,
        wanted: &str,
        since: Since,
    ) -> Result<ChartVersion, ChartError> {
        let place = Place::of(repository, chart)?;
        let index = self.index(repository, &place, since).await?;
        let versions = index
            .versions(&place.chart)
            .ok_or_else(|| ChartError::NoChart { chart: place.chart.clone(), url: shown(&repository.url) })?;
        let found = pick(versions, wanted).map_err(|()| ChartError::Range { wanted: wanted.to_owned() })?;
        found.cloned().ok_or_else(|| ChartError::NoVersion {
            chart: place.chart.clone(),
            url: shown(&repository.url),
            wanted: wanted.to_owned(),
            known: versions.iter().take(5).map(|version| version.version.clone()).collect(),
        })
    }

    /// The chart's files, with the chart's own folder as root. `pass_credentials` gives them to another host too.
    pub async fn archive(
        &self,
        repository: &Repository,
        chart: &str,
        version: &ChartVersion,
        pass_credentials: bool,
    ) -> Result<Arc<Archive>, ChartError> {
        let place = Place::of(repository, chart)?;
        let key = archive_key(repository, &place, version);
        let held =
            self.open.lock().expect("no panic while locked").get(&key).and_then(std::sync::Weak::upgrade);
        if let Some(held) = held {
            return Ok(held);
        }
        let path = self.folder.join(format!("{key}.tgz"));
        let bytes = match std::fs::read(&path) {
            // What was promised of it still has to hold; a torn or exchanged file is asked for again.
            Ok(bytes) if version.digest.as_ref().is_none_or(|known| *known == sha256(&bytes)) => bytes,
            _ => {
                let bytes = self.download(repository, &place, version, pass_credentials).await?;
                if version.digest.as_ref().is_some_and(|known| *known != sha256(&bytes)) {
                    return Err(ChartError::Digest { url: shown(&version_address(repository, version)) });
                }
                private::write_file(&path, &bytes).map_err(|source| self.failed(source))?;
                self.shrink();
                bytes
            }
        };
        let name = place.chart.rsplit('/').next().unwrap_or_default().to_owned();
        let limits = self.limits.clone();
        let opened = tokio::task::spawn_blocking(move || archive::open(&name, &bytes, &limits))
            .await
            .expect("opening an archive does not panic")?;
        let opened = Arc::new(opened);
        let mut open = self.open.lock().expect("no panic while locked");
        open.retain(|_, held| held.strong_count() > 0);
        open.insert(key, Arc::downgrade(&opened));
        Ok(opened)
    }

    /// Downloads this version again when it is wanted next: somebody may have published it anew.
    pub fn forget(&self, repository: &Repository, chart: &str, version: &ChartVersion) {
        let Ok(place) = Place::of(repository, chart) else { return };
        let key = archive_key(repository, &place, version);
        self.open.lock().expect("no panic while locked").remove(&key);
        // What is not there need not be removed.
        let _ = std::fs::remove_file(self.folder.join(format!("{key}.tgz")));
    }

    async fn index(
        &self,
        repository: &Repository,
        place: &Place,
        since: Since,
    ) -> Result<Arc<Index>, ChartError> {
        let key = format!(
            "{} {} {}",
            repository.url,
            repository.credentials.fingerprint(),
            match place.oci {
                true => place.chart.as_str(),
                false => "",
            }
        );
        let known = self.indexes.lock().expect("no panic while locked").entry(key).or_default().clone();
        let mut known = known.lock().await;
        if let Some((asked, index)) = known.as_ref()
            && since.threshold().is_none_or(|threshold| *asked >= threshold)
        {
            return Ok(index.clone());
        }
        let asked = Instant::now();
        let index = if place.oci {
            oci::tags(&self.http, repository, place, self.limits.index_bytes).await?
        } else {
            let url = format!("{}/index.yaml", repository.url.trim_end_matches('/'));
            let bytes = self.http.get(&url, Some(&repository.credentials), self.limits.index_bytes).await?;
            let base = repository.url.clone();
            tokio::task::spawn_blocking(move || index::parse(&base, &bytes))
                .await
                .expect("reading an index does not panic")?
        };
        let index = Arc::new(index);
        *known = Some((asked, index.clone()));
        Ok(index)
    }

    async fn download(
        &self,
        repository: &Repository,
        place: &Place,
        version: &ChartVersion,
        pass_credentials: bool,
    ) -> Result<Vec<u8>, ChartError> {
        if place.oci {
            return oci::pull(&self.http, repository, place, &version.version, self.limits.archive_bytes)
                .await;
        }
        let url = version_address(repository, version);
        // Credentials were given for one host; another one gets them only where the user says so.
        let same = http::origin(&url) == http::origin(&repository.url);
        let credentials = (same || pass_credentials).then_some(&*repository.credentials);
        self.http.get(&url, credentials, self.limits.archive_bytes).await
    }

    fn failed(&self, source: std::io::Error) -> ChartError {
        ChartError::Folder { folder: self.folder.display().to_string(), source }
    }

    /// Deletes the oldest archives beyond the limit.
    fn shrink(&self) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let meta = entry.metadata().ok()?;
                Some((meta.modified().ok()?, meta.len(), entry.path()))
            })
            .collect();
        let mut total: u64 = files.iter().map(|file| file.1).sum();
        files.sort();
        for (_, size, path) in files {
            if total <= self.limits.cache_bytes {
                break;
            }
            if std::fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
    }
}

fn archive_key(repository: &Repository, place: &Place, version: &ChartVersion) -> String {
    crate::render::digest([
        "chart-1",
        &repository.url,
        &repository.credentials.fingerprint(),
        &place.chart,
        &version.version,
        &version.address,
        version.digest.as_deref().unwrap_or_default(),
    ])
}

/// A chart's place: registries have one repository per chart, http repositories one index for all.
pub(crate) struct Place {
    pub(crate) oci: bool,
    pub(crate) chart: String,
}

impl Place {
    fn of(repository: &Repository, chart: &str) -> Result<Self, ChartError> {
        let name = chart.trim_matches('/');
        let part = |part: &str| {
            !part.is_empty()
                && part != ".."
                && part != "."
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        // A chart's name becomes a part of addresses.
        if !name.is_empty() && !name.split('/').all(part) {
            return Err(ChartError::Name(chart.to_owned()));
        }
        let url = repository.url.as_str();
        let oci = match url.split_once("://") {
            Some(("http" | "https", _)) => false,
            Some(("oci", _)) | None => true,
            Some(_) => return Err(ChartError::Address(shown(url))),
        };
        if name.is_empty() && !oci {
            return Err(ChartError::Name(chart.to_owned()));
        }
        Ok(Self { oci, chart: name.to_owned() })
    }
}

/// The version itself, the highest member of the range, or nothing. `Err`: not a range.
fn pick<'a>(versions: &'a [ChartVersion], wanted: &str) -> Result<Option<&'a ChartVersion>, ()> {
    if let Some(exact) = versions.iter().find(|version| version.version == wanted) {
        return Ok(Some(exact));
    }
    let plain = |text: &str| text.trim_start_matches('v').to_owned();
    if Version::parse(wanted).is_ok() && wanted.trim_start_matches('v').matches('.').count() == 2 {
        return Ok(versions.iter().find(|version| plain(&version.version) == plain(wanted)));
    }
    let range = if wanted.is_empty() { "*" } else { wanted };
    let constraints = Constraints::parse(range).map_err(|_| ())?;
    let fitting = versions
        .iter()
        .filter_map(|version| Some((Version::parse(&version.version).ok()?, version)))
        .filter(|(number, _)| constraints.admit(number));
    Ok(fitting.max_by(|(a, _), (b, _)| a.compare(b)).map(|(_, version)| version))
}

fn version_address(repository: &Repository, version: &ChartVersion) -> String {
    if version.address.contains("://") || version.address.is_empty() {
        return version.address.clone();
    }
    format!("{}/{}", repository.url.trim_end_matches('/'), version.address.trim_start_matches('/'))
}

fn shown(url: &str) -> String {
    crate::repo_url::without_userinfo(url.split('?').next().unwrap_or_default())
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(list: &[&str]) -> Vec<ChartVersion> {
        let one = |version: &&str| ChartVersion {
            version: (*version).to_owned(),
            digest: None,
            address: String::new(),
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn a_range_means_its_highest_member() {
        let all = versions(&["2.0.0-rc.1", "1.10.0", "1.9.3", "v1.2.0", "0.9.0"]);
        for (wanted, expected) in [
            ("", Some("1.10.0")),
            ("*", Some("1.10.0")),
            ("1.9.3", Some("1.9.3")),
            ("1.2.0", Some("v1.2.0")),
            ("~1.9", Some("1.9.3")),
            ("^1.2.0", Some("1.10.0")),
            (">=1.0.0 <1.10.0", Some("1.9.3")),
            ("0.x", Some("0.9.0")),
            ("2.0.0-rc.1", Some("2.0.0-rc.1")),
            (">=2.0.0-0", Some("2.0.0-rc.1")),
            ("3.0.0", None),
            (">5", None),
        ] {
            let found = pick(&all, wanted).expect("readable").map(|version| version.version.as_str());
            assert_eq!(found, expected, "{wanted}");
        }
        assert!(pick(&all, "latest and greatest").is_err());
    }

    #[test]
    fn a_chart_name_cannot_become_another_place() {
        let repository = Repository::public("https://charts.example");
        for name in ["", "..", "../x", "a/../b", "a b", "a?x", "a#x", "a%2e", "http://x/y"] {
            assert!(Place::of(&repository, name).is_err(), "{name}");
        }
        assert!(Place::of(&repository, "team/web-1.0").is_ok());
        assert!(Place::of(&Repository::public("file:///etc"), "x").is_err());
    }
}
