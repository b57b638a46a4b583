//! The release feed: which versions there are, and whether one that runs should be replaced.
//!
//! In: a file or an address that the operator set, with JSON: `{"releases": [{"version": "0.2.0", "security": true, "changelog":
//! "https://…"}], "oldestSupported": "0.1.0"}`. Out: for a version, that nothing is newer, that an update is available, or that one is required
//! and why. A feed that cannot be read is a problem that is told, and says nothing about versions. Nothing is updated here.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Mutex;

use crate::ctx::Server;

/// A file is read again after so long, an address asked again.
const FILE_MS: i64 = 2_000;
const ADDRESS_MS: i64 = 10 * 60 * 1000;
/// After a failure.
const AGAIN_MS: i64 = 60 * 1000;
const BYTES_MAX: usize = 1 << 20;
const RELEASES_MAX: usize = 1_000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Feed {
    pub(crate) releases: Vec<Release>,
    /// Whatever is older has to be updated.
    pub(crate) oldest_supported: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Release {
    pub(crate) version: String,
    /// It closes a hole that earlier ones have.
    pub(crate) security: bool,
    pub(crate) changelog: String,
}

/// What a feed says of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Empty, `available` or `required`.
    pub(crate) update: &'static str,
    pub(crate) why: String,
}

/// `1.2.3`, and `1.2.3-rc.1` before it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    numbers: [u64; 3],
    /// Empty: the release itself.
    before: String,
}

impl Version {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let text = text.split('+').next().unwrap_or_default();
        let (numbers, before) = text.split_once('-').unwrap_or((text, ""));
        let mut parts = numbers.split('.').map(|part| part.parse::<u64>().ok());
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then(|| Self { numbers, before: before.to_owned() })
    }

    /// As semantic versions are compared: a release comes after what was on its way to it, `rc.10` after `rc.9`, and words after numbers.
    fn compared(&self, other: &Self) -> Ordering {
        let parts = |text: &str| -> Vec<(bool, u64, String)> {
            let part = |part: &str| match part.parse::<u64>() {
                Ok(number) => (false, number, String::new()),
                Err(_) => (true, 0, part.to_owned()),
            };
            text.split('.').map(part).collect()
        };
        let before = |version: &Self| (version.before.is_empty(), parts(&version.before));
        self.numbers.cmp(&other.numbers).then_with(|| before(self).cmp(&before(other)))
    }

    fn is_before(&self, other: &Self) -> bool {
        self.compared(other) == Ordering::Less
    }
}

impl Feed {
    fn read(text: &[u8]) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("it is larger than {} KiB", BYTES_MAX >> 10));
        }
        let feed: Self =
            serde_json::from_slice(text).map_err(|error| format!("it is not the JSON of a feed: {error}"))?;
        if feed.releases.len() > RELEASES_MAX {
            return Err(format!("it has more than {RELEASES_MAX} releases"));
        }
        let versions = feed.releases.iter().map(|release| &release.version);
        let named = versions.chain(Some(&feed.oldest_supported).filter(|text| !text.is_empty()));
        let wrong: Vec<_> =
            named.filter(|text| Version::read(text).is_none()).map(|text| format!("`{text}`")).collect();
        if !wrong.is_empty() {
            return Err(format!("{} is no version: write 1.2.3", wrong.join(", ")));
        }
        Ok(feed)
    }

    /// The newest that is not on its way to a release.
    pub(crate) fn latest(&self) -> Option<&Release> {
        let released =
            self.releases.iter().filter_map(|release| Some((Version::read(&release.version)?, release)));
        let released = released.filter(|(version, _)| version.before.is_empty());
        released.max_by(|(a, _), (b, _)| a.compared(b)).map(|(_, release)| release)
    }

    pub(crate) fn judge(&self, version: &str) -> Verdict {
        let Some(own) = Version::read(version) else { return Verdict::default() };
        let oldest = Version::read(&self.oldest_supported);
        if oldest.is_some_and(|oldest| own.is_before(&oldest)) {
            let why =
                format!("{version} is no longer supported: {} is the oldest that is", self.oldest_supported);
            return Verdict { update: "required", why };
        }
        let Some(latest) = self.latest() else { return Verdict::default() };
        let is_newer =
            |release: &&Release| Version::read(&release.version).is_some_and(|other| own.is_before(&other));
        if let Some(fixed) = self.releases.iter().filter(is_newer).find(|release| release.security) {
            let why = format!(
                "{} closes a security hole that {version} has; the latest is {}",
                fixed.version, latest.version
            );
            return Verdict { update: "required", why };
        }
        match is_newer(&latest) {
            true => Verdict { update: "available", why: format!("{} is there", latest.version) },
            false => Verdict::default(),
        }
    }
}

/// The feed, or why it cannot be used.
type Read = Result<Arc<Feed>, String>;

/// What was last read, and when.
#[derive(Default)]
pub(crate) struct Releases {
    kept: Mutex<Option<(i64, Read)>>,
}

/// The feed as it is now; `None`: the operator set none.
pub(crate) async fn feed(server: &Server) -> Option<Read> {
    let place = server.inner.config.network.release_feed.as_deref()?;
    let is_address = place.starts_with("https://") || place.starts_with("http://");
    let mut kept = server.inner.releases.kept.lock().await;
    let now_ms = server.now_ms();
    if let Some((at_ms, known)) = &*kept {
        let good_ms = match (is_address, known) {
            (false, _) => FILE_MS,
            (true, Ok(_)) => ADDRESS_MS,
            (true, Err(_)) => AGAIN_MS,
        };
        if now_ms - at_ms < good_ms {
            return Some(known.clone());
        }
    }
    let read = match is_address {
        true => match server.inner.egress.get(place).await {
            Ok(answer) if answer.status == 200 => Feed::read(&answer.body),
            Ok(answer) => Err(format!("it answered {}", answer.status)),
            Err(error) => Err(error.to_string()),
        },
        false => match read_file(place).await {
            Ok(text) => Feed::read(&text),
            Err(error) => Err(error.to_string()),
        },
    };
    let read = read.map(Arc::new).map_err(|why| format!("the release feed {place} cannot be used: {why}"));
    *kept = Some((now_ms, read.clone()));
    Some(read)
}

/// No more of it than is wanted, and one byte to see that there is more.
async fn read_file(path: &str) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    tokio::fs::File::open(path).await?.take(BYTES_MAX as u64 + 1).read_to_end(&mut text).await?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Feed {
        Feed::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_version_is_current_behind_or_too_old() {
        let feed = read(
            r#"{"oldestSupported": "0.2.0", "releases": [{"version": "0.3.0"}, {"version": "v0.10.0"}, {"version": "0.9.1", "security": true}, {"version": "0.11.0-rc.1"}], "more": 1}"#,
        );
        assert_eq!(feed.latest().unwrap().version, "v0.10.0");
        for (version, update) in [
            ("0.10.0", ""),
            ("0.11.0-rc.1", ""),
            ("0.12.0", ""),
            ("0.9.1", "available"),
            ("0.10.0-rc.2", "available"),
            ("0.9.0", "required"),
            ("0.1.9", "required"),
            ("nonsense", ""),
            ("", ""),
        ] {
            assert_eq!(feed.judge(version).update, update, "{version}");
        }
        assert!(feed.judge("0.9.0").why.contains("security hole"));
        assert!(feed.judge("0.1.0").why.contains("no longer supported"));
        assert_eq!(read("{}").judge("0.1.0"), Verdict::default());
        // What is too old is too old, also where the feed names no release.
        assert_eq!(read(r#"{"oldestSupported": "0.2.0"}"#).judge("0.1.0").update, "required");
        let ordered =
            ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0", "1.0.1-1", "1.0.1-a"];
        for pair in ordered.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|text| Version::read(text).expect("a version"));
            assert!(a.is_before(&b) && !b.is_before(&a), "{pair:?}");
        }
    }

    #[test]
    fn a_feed_that_is_none_is_refused_with_what_is_wrong() {
        let error =
            Feed::read(br#"{"releases": [{"version": "1"}, {"version": "x"}], "oldestSupported": "2.0"}"#);
        let error = error.unwrap_err();
        assert!(["`1`", "`x`", "`2.0`"].iter().all(|text| error.contains(text)), "{error}");
        assert!(Feed::read(b"[").unwrap_err().contains("not the JSON of a feed"));
    }
}
