//! From histories of Applications to releases: which images a deployment brought, and what they took the place of.
//!
//! In: an Application as its runtime reports it, and what was remembered of its deployments. Out: the same Application whose
//! history says all that was ever heard of its entries, and what to remember. A custom resource keeps what its last sync applied
//! and nothing of those before; that, names of commits and reasons are remembered here. Knows no store.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use slipway_api::application::{Application, Deployment, ImageChange, Revision};

/// Deployments of one Application that are remembered, the newest ones.
const REMEMBERED_MAX: usize = 20;
/// Entries of a history that are looked at, from the newest on.
const HISTORY_MAX: usize = 50;
const IMAGES_MAX: usize = 30;
const TEXT_CHARS_MAX: usize = 300;
/// Of one Application: a report may name thousands, and what is remembered of all of them is read at once.
const REMEMBERED_BYTES_MAX: usize = 64 << 10;

/// What was heard of a deployment, as far as a later report may not have it any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Remembered {
    id: i64,
    deployed_at: String,
    commit: Revision,
    why: String,
    images: Vec<String>,
    changes: Vec<ImageChange>,
}

impl Remembered {
    fn is_of(&self, entry: &Deployment) -> bool {
        self.id == entry.id && self.deployed_at == short(&entry.deployed_at)
    }

    fn new(entry: &Deployment) -> Self {
        let Deployment { revision, .. } = entry;
        Self {
            id: entry.id,
            deployed_at: short(&entry.deployed_at),
            commit: Revision {
                sha: short(&revision.sha),
                author: short(&revision.author),
                message: short(&revision.message),
                date: short(&revision.date),
            },
            why: short(&entry.why),
            images: entry.images.iter().take(IMAGES_MAX).map(|image| short(image)).collect(),
            changes: entry.image_changes.clone(),
        }
    }
}

/// Fills in what the history does not say any more. Gives what to remember, the newest first. It runs in the transaction of a
/// report, of which one is written at a time: each image is looked at once, however a history is made.
pub(crate) fn complete(app: &mut Application, remembered: &[Remembered]) -> Vec<Remembered> {
    app.history.sort_by_key(|entry| std::cmp::Reverse(entry.id));
    let is_all = app.history.len() <= HISTORY_MAX && app.history.last().is_some_and(|first| first.id == 0);
    let mut images = Images { versions: BTreeMap::new(), are_all: is_all };
    // The oldest first: what an image took the place of is read from those before.
    for entry in app.history.iter_mut().take(HISTORY_MAX).rev() {
        if let Some(known) = remembered.iter().find(|known| known.is_of(entry)) {
            recall(entry, known);
        }
        if entry.image_changes.is_empty() {
            entry.image_changes = images.changes(entry);
        }
        images.follow(entry);
    }
    let mut left = REMEMBERED_BYTES_MAX;
    let fits = |one: &Remembered| {
        let bytes = serde_json::to_string(one).map_or(usize::MAX, |text| text.len());
        let rest = left.checked_sub(bytes);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    app.history.iter().take(REMEMBERED_MAX).map(Remembered::new).take_while(fits).collect()
}

fn recall(entry: &mut Deployment, known: &Remembered) {
    if entry.revision.sha == known.commit.sha && entry.revision.author.is_empty() {
        entry.revision = known.commit.clone();
    }
    // It was heard when the history reached further back.
    if !known.why.is_empty() {
        entry.why.clone_from(&known.why);
    }
    if entry.images.is_empty() {
        entry.images.clone_from(&known.images);
    }
    entry.image_changes.clone_from(&known.changes);
}

/// What the deployments so far applied.
struct Images {
    /// Of each, what the newest of them applied that names it: a sync may apply a part, so what it does not name is not gone.
    versions: BTreeMap<String, BTreeSet<String>>,
    /// What is not in there was never applied.
    are_all: bool,
}

impl Images {
    /// What it applied that differs.
    fn changes(&self, entry: &Deployment) -> Vec<ImageChange> {
        let nothing = BTreeSet::new();
        let change = |(name, versions): (&str, BTreeSet<&str>)| {
            let before = self.versions.get(name).or(self.are_all.then_some(&nothing))?;
            let is_same = before.iter().eq(versions.iter().copied());
            let before = before.iter().map(|text| short(text)).collect();
            let after = versions.into_iter().map(short).collect();
            (!is_same).then(|| ImageChange { image: short(name), before, after })
        };
        by_name(&entry.images).into_iter().filter_map(change).take(IMAGES_MAX).collect()
    }

    fn follow(&mut self, entry: &Deployment) {
        if entry.images.is_empty() {
            // What it applied was not heard: it may have been any image.
            *self = Self { versions: BTreeMap::new(), are_all: false };
        }
        for (name, versions) in by_name(&entry.images) {
            let versions = versions.into_iter().map(str::to_owned).collect();
            self.versions.insert(name.to_owned(), versions);
        }
    }
}

fn by_name(images: &[String]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in images.iter().take(IMAGES_MAX).map(|image| parts(image)) {
        all.entry(name).or_default().insert(version);
    }
    all
}

/// `registry:5000/web:1@sha256:…` is `registry:5000/web` and `1@sha256:…`.
fn parts(image: &str) -> (&str, &str) {
    let named = image.split('@').next().unwrap_or(image);
    let last = named.rfind('/').map_or(0, |at| at + 1);
    let end = named[last..].find(':').map_or(named.len(), |at| last + at);
    (&image[..end], image[end..].trim_start_matches([':', '@']))
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(id: i64, images: &[&str]) -> Value {
        json!({"id": id, "revision": {"sha": format!("sha{id}")}, "deployedAt": format!("2026-01-09T10:0{id}:00Z"),
            "initiatedBy": "ada", "images": images})
    }

    fn app(history: &[Value]) -> Application {
        serde_json::from_value(json!({
            "runtime": "local", "namespace": "argocd", "name": "shop", "project": "default", "repoUrl": "", "path": "",
            "targetRevision": "", "destination": "", "syncStatus": "Synced", "healthStatus": "Healthy", "summary": "",
            "observedAt": "", "history": history,
        }))
        .expect("an Application")
    }

    fn change(image: &str, before: &[&str], after: &[&str]) -> ImageChange {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        ImageChange { image: image.into(), before: texts(before), after: texts(after) }
    }

    #[test]
    fn an_image_is_a_name_and_a_version() {
        for (image, name, version) in [
            ("web", "web", ""),
            ("web:1", "web", "1"),
            ("reg:5000/a/web", "reg:5000/a/web", ""),
            ("reg:5000/a/web:1@sha256:ab", "reg:5000/a/web", "1@sha256:ab"),
            ("reg/web@sha256:ab", "reg/web", "sha256:ab"),
            ("", "", ""),
            ("/:@", "/", ""),
        ] {
            assert_eq!(parts(image), (name, version), "{image}");
        }
    }

    #[test]
    fn images_before_and_after_outlive_what_the_resource_says() {
        // Each report has the images of the newest entry alone, as a custom resource has.
        let mut first = app(&[entry(0, &["web:1", "db:9"])]);
        let remembered = complete(&mut first, &[]);
        assert_eq!(first.history[0].image_changes, [change("db", &[], &["9"]), change("web", &[], &["1"])]);
        let mut second = app(&[entry(1, &["web:2", "db:9"]), entry(0, &[])]);
        let remembered = complete(&mut second, &remembered);
        assert_eq!(second.history[0].image_changes, [change("web", &["1"], &["2"])]);
        assert_eq!(second.history[1].images, ["web:1", "db:9"]);
        // A sync of a part: what it does not name is as it was.
        let mut third = app(&[entry(2, &["db:10"]), entry(1, &[]), entry(0, &[])]);
        let remembered = complete(&mut third, &remembered);
        assert_eq!(third.history[0].image_changes, [change("db", &["9"], &["10"])]);
        let mut fourth = app(&[entry(3, &["web:3"]), entry(2, &[]), entry(1, &[]), entry(0, &[])]);
        let remembered = complete(&mut fourth, &remembered);
        assert_eq!(fourth.history[0].image_changes, [change("web", &["2"], &["3"])]);
        // Its history was cut since: what was heard stays known, and saying it again changes nothing.
        let mut cut = app(&[entry(3, &[]), entry(2, &[])]);
        let again = complete(&mut cut, &remembered);
        assert_eq!(cut.history[0].image_changes, [change("web", &["2"], &["3"])]);
        assert_eq!(complete(&mut cut.clone(), &again), again);
    }

    #[test]
    fn what_nobody_heard_is_not_guessed() {
        // The images of 1 were never heard: what `web` was before 2 is not known, though it is known of 0.
        let mut apps = app(&[entry(2, &["web:2"]), entry(1, &[]), entry(0, &["web:1"])]);
        complete(&mut apps, &[]);
        assert_eq!(apps.history[0].image_changes, []);
        // Nor in a history that begins later.
        let mut late = app(&[entry(7, &["web:2"])]);
        complete(&mut late, &[]);
        assert_eq!(late.history[0].image_changes, []);
        // Another deployment of the same number is another one.
        let remembered = complete(&mut app(&[entry(0, &["web:1"])]), &[]);
        let mut other = app(&[entry(0, &[])]);
        other.history[0].deployed_at = "2026-02-01T00:00:00Z".into();
        complete(&mut other, &remembered);
        assert_eq!(other.history[0].images, Vec::<String>::new());
    }

    #[test]
    fn commits_and_reasons_that_were_heard_stay_and_sizes_are_bounded() {
        let mut named = app(&[entry(0, &[])]);
        named.history[0].revision.author = "Ada".into();
        named.history[0].why = "first".into();
        let remembered = complete(&mut named, &[]);
        let mut later = app(&[entry(0, &[])]);
        complete(&mut later, &remembered);
        assert_eq!(
            (later.history[0].revision.author.as_str(), later.history[0].why.as_str()),
            ("Ada", "first")
        );
        let many: Vec<_> = (0..200).map(|id| entry(id, &[])).collect();
        let mut hostile = app(&many);
        for entry in &mut hostile.history {
            entry.images = (0..1_000).map(|n| format!("{}{n}:1", "x".repeat(10_000))).collect();
            entry.why = "w".repeat(100_000);
        }
        let kept = serde_json::to_string(&complete(&mut hostile, &[])).expect("JSON");
        assert!(kept.len() <= REMEMBERED_BYTES_MAX, "{}", kept.len());
    }

    /// Other writers wait meanwhile.
    #[test]
    fn a_history_made_to_be_looked_at_for_long_is_not() {
        let all: Vec<_> = (0..HISTORY_MAX as i64)
            .map(|id| {
                let images: Vec<_> = (0..IMAGES_MAX).map(|n| format!("i{id}-{n}:1")).collect();
                entry(id, &images.iter().map(String::as_str).collect::<Vec<_>>())
            })
            .collect();
        let made = app(&all);
        let began = std::time::Instant::now();
        for _ in 0..20 {
            let mut one = made.clone();
            complete(&mut one, &[]);
            assert_eq!(one.history[0].image_changes.len(), IMAGES_MAX);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }
}
