//! What the control plane has not heard yet, in memory and in a file: of each object its latest state, or that it is gone.
//!
//! In: changes, and which of them were acknowledged. Out: what is to be sent. A change is in the file before it is sent, so that a
//! process which is killed, while the control plane is away say, goes on with it at the next start. A later state of an object takes
//! the place of an earlier one, so that it grows with the number of objects and not with time; beyond [`LIMIT`] it keeps nothing and
//! says that everything is to be sent, which the cluster has. Does not know how bodies are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use slipway_api::report::{Entity, EntityName};

/// What waits may weigh so much.
const LIMIT: usize = 128 << 20;
/// A file that is larger than this, and twice what waits, is written anew.
const SLACK: usize = 1 << 20;
const NAME: &str = "reports.outbox";

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    /// The number that it would have been sent with.
    at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entity: Option<std::borrow::Cow<'a, Entity>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removed: Option<EntityName>,
}

struct Waiting {
    /// Rises with every change of the object.
    version: u64,
    /// None: it is gone.
    entity: Option<Box<Entity>>,
    weight: usize,
}

/// A change as it goes out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) name: EntityName,
    version: u64,
    pub(super) entity: Option<Box<Entity>>,
}

pub(super) struct Outbox {
    path: PathBuf,
    /// None: it cannot be written, which was told once.
    file: Option<File>,
    waiting: BTreeMap<EntityName, Waiting>,
    unwritten: BTreeSet<EntityName>,
    written: usize,
    weight: usize,
    versions: u64,
    limit: usize,
    /// Too much came together: everything is to be sent.
    overflowed: bool,
}

impl Outbox {
    /// One that keeps nothing.
    pub(super) fn none() -> Self {
        Self {
            path: PathBuf::new(),
            file: None,
            waiting: BTreeMap::new(),
            unwritten: BTreeSet::new(),
            written: 0,
            weight: 0,
            versions: 0,
            limit: LIMIT,
            overflowed: false,
        }
    }

    /// What an earlier process left, and the highest number that it used.
    pub(super) fn open(folder: &Path) -> (Self, i64) {
        let mut outbox = Self { path: folder.join(NAME), ..Self::none() };
        let (highest, is_torn) = outbox.read();
        let opened = std::fs::create_dir_all(folder)
            .and_then(|()| File::options().create(true).append(true).mode(0o600).open(&outbox.path));
        match opened {
            Ok(file) => outbox.file = Some(file),
            Err(error) => outbox.unwritable(&error),
        }
        if is_torn && let Err(error) = outbox.rewrite(highest) {
            outbox.unwritable(&error);
        }
        (outbox, highest)
    }

    /// The highest number in the file, and whether its last line was cut.
    fn read(&mut self) -> (i64, bool) {
        let Ok(file) = File::open(&self.path) else { return (0, false) };
        let (mut highest, mut is_torn) = (0, false);
        let mut reader = BufReader::new(file.take(4 * LIMIT as u64));
        let mut text = Vec::new();
        while reader.read_until(b'\n', &mut text).is_ok_and(|read| read > 0) {
            self.written += text.len();
            is_torn = !text.ends_with(b"\n");
            // A line that was cut by a crash was not acknowledged by anybody.
            if let Ok(line) = serde_json::from_slice::<Line<'_>>(&text) {
                highest = highest.max(line.at);
                match (line.entity, line.removed) {
                    (Some(entity), _) => self.put(entity.name(), Some(entity.into_owned())),
                    (None, Some(name)) => self.put(name, None),
                    (None, None) => {}
                }
            }
            text.clear();
        }
        self.unwritten.clear();
        (highest, is_torn)
    }

    fn unwritable(&mut self, error: &std::io::Error) {
        let path = self.path.display();
        tracing::warn!(%path, %error, "Changes that the control plane has not heard are kept in memory alone.");
        self.file = None;
    }

    pub(super) fn put(&mut self, name: EntityName, entity: Option<Entity>) {
        if self.overflowed {
            return;
        }
        let weigh = |entity: &Entity| serde_json::to_string(entity).map_or(0, |text| text.len());
        let weight = entity.as_ref().map_or(0, weigh) + 200;
        self.versions += 1;
        let waiting = Waiting { version: self.versions, entity: entity.map(Box::new), weight };
        let before = self.waiting.insert(name.clone(), waiting).map_or(0, |before| before.weight);
        self.unwritten.insert(name);
        self.weight = self.weight + weight - before;
        if self.weight > self.limit {
            tracing::warn!("More waits for the control plane than is kept; everything is sent instead.");
            self.clear();
            self.overflowed = true;
        }
    }

    /// Everything was sent: it keeps what changes from now on again.
    pub(super) fn recovered(&mut self) {
        self.overflowed = false;
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.unwritten.clear();
        self.weight = 0;
        self.empty();
    }

    /// Whether everything is to be sent because it holds nothing any more.
    pub(super) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Objects that wait, and how large the file is.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.waiting.len(), self.written)
    }

    pub(super) fn waiting(&self) -> Vec<Change> {
        let change = |(name, waiting): (&EntityName, &Waiting)| Change {
            name: name.clone(),
            version: waiting.version,
            entity: waiting.entity.clone(),
        };
        self.waiting.iter().map(change).collect()
    }

    /// Whether nothing newer waits for the same object.
    pub(super) fn is_latest(&self, change: &Change) -> bool {
        self.waiting.get(&change.name).is_some_and(|waiting| waiting.version == change.version)
    }

    /// The control plane has it. What changed since waits on.
    pub(super) fn acknowledged(&mut self, change: &Change) {
        if self.is_latest(change) {
            if let Some(gone) = self.waiting.remove(&change.name) {
                self.weight -= gone.weight;
            }
            self.unwritten.remove(&change.name);
        }
        if self.waiting.is_empty() {
            self.empty();
        }
    }

    fn empty(&mut self) {
        if self.written > 0
            && let Some(file) = &self.file
        {
            // Whoever finds what was sent sends it again, which changes nothing.
            let _ = file.set_len(0);
            self.written = 0;
        }
    }

    /// On the disk when it returns; `at` is the number of what is sent next.
    pub(super) fn keep(&mut self, at: i64) {
        if self.unwritten.is_empty() || self.file.is_none() {
            return;
        }
        let kept = match self.written > SLACK && self.written > 2 * self.weight {
            true => self.rewrite(at),
            false => self.append(at),
        };
        match kept {
            Ok(()) => self.unwritten.clear(),
            Err(error) => self.unwritable(&error),
        }
    }

    fn append(&mut self, at: i64) -> std::io::Result<()> {
        let lines = self.lines(self.unwritten.iter(), at)?;
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(&lines)?;
        file.sync_data()?;
        self.written += lines.len();
        Ok(())
    }

    fn rewrite(&mut self, at: i64) -> std::io::Result<()> {
        let lines = self.lines(self.waiting.keys(), at)?;
        let beside = self.path.with_extension("new");
        let mut file = File::options().create(true).write(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&lines)?;
        file.sync_data()?;
        std::fs::rename(&beside, &self.path)?;
        self.file = Some(File::options().append(true).open(&self.path)?);
        self.written = lines.len();
        Ok(())
    }

    fn lines<'a>(&self, names: impl Iterator<Item = &'a EntityName>, at: i64) -> std::io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        for name in names {
            let Some(waiting) = self.waiting.get(name) else { continue };
            let entity = waiting.entity.as_deref().map(std::borrow::Cow::Borrowed);
            let removed = entity.is_none().then(|| name.clone());
            serde_json::to_writer(&mut lines, &Line { at, entity, removed })?;
            lines.push(b'\n');
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn entity(name: &str, state: &str) -> Entity {
        let body = json!({"summary": state});
        Entity { kind: "argoproj.io/Application".into(), name: name.into(), body, ..Entity::default() }
    }

    fn put(outbox: &mut Outbox, name: &str, state: &str) {
        let entity = entity(name, state);
        outbox.put(entity.name(), Some(entity));
    }

    fn states(outbox: &Outbox) -> Vec<(String, String)> {
        let state = |change: Change| {
            let state = change.entity.map_or("gone".into(), |entity| entity.body["summary"].to_string());
            (change.name.name, state.trim_matches('"').to_owned())
        };
        outbox.waiting().into_iter().map(state).collect()
    }

    fn expected(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
    }

    #[test]
    fn the_last_state_of_each_object_outlives_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut outbox, _) = Outbox::open(folder.path());
        put(&mut outbox, "a", "1");
        put(&mut outbox, "b", "1");
        outbox.keep(10);
        put(&mut outbox, "a", "2");
        outbox.put(entity("c", "").name(), None);
        outbox.keep(20);
        put(&mut outbox, "never", "written");
        // Killed, in the middle of a line.
        drop(outbox);
        let path = folder.path().join(NAME);
        let mut torn = File::options().append(true).open(&path).expect("the file");
        torn.write_all(b"{\"at\":30,\"entity\":{\"kind\"").expect("written");
        let (mut outbox, highest) = Outbox::open(folder.path());
        assert_eq!((states(&outbox), highest), (expected(&[("a", "2"), ("b", "1"), ("c", "gone")]), 20));
        // What comes after a torn line is read all the same.
        put(&mut outbox, "b", "2");
        outbox.keep(35);
        assert_eq!(
            states(&Outbox::open(folder.path()).0),
            expected(&[("a", "2"), ("b", "2"), ("c", "gone")])
        );
        for change in outbox.waiting() {
            outbox.acknowledged(&change);
        }
        assert!(outbox.is_empty() && std::fs::metadata(&path).expect("the file").len() == 0);
        put(&mut outbox, "d", "1");
        outbox.keep(40);
        assert_eq!(states(&Outbox::open(folder.path()).0), expected(&[("d", "1")]));
        let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else's to read");
    }

    #[test]
    fn what_changed_while_it_was_sent_waits_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut outbox, _) = Outbox::open(folder.path());
        put(&mut outbox, "a", "1");
        put(&mut outbox, "b", "1");
        let sent = outbox.waiting();
        put(&mut outbox, "a", "2");
        for change in &sent {
            outbox.acknowledged(change);
        }
        assert_eq!(states(&outbox), expected(&[("a", "2")]));
    }

    #[test]
    fn it_grows_with_objects_and_not_with_time_and_has_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut outbox, _) = Outbox::open(folder.path());
        let large = "x".repeat(100_000);
        for round in 0..200 {
            for name in ["a", "b", "c"] {
                put(&mut outbox, name, &format!("{round} {large}"));
            }
            outbox.keep(round);
        }
        let size = std::fs::metadata(folder.path().join(NAME)).expect("the file").len();
        assert!(size < 2 << 20, "{size} bytes for three objects");
        assert!(states(&Outbox::open(folder.path()).0).iter().all(|(_, state)| state.starts_with("199 ")));
        outbox.limit = 1 << 20;
        for number in 0..20 {
            put(&mut outbox, &format!("app-{number}"), &large);
        }
        assert!(outbox.has_overflowed() && outbox.is_empty());
        assert_eq!(std::fs::metadata(folder.path().join(NAME)).expect("the file").len(), 0);
        outbox.recovered();
        put(&mut outbox, "after", "1");
        assert_eq!(states(&outbox), expected(&[("after", "1")]));
    }
}
