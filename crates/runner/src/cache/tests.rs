use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

struct Place {
    data: tempfile::TempDir,
    volume: PathBuf,
}

fn place() -> Place {
    let data = tempfile::tempdir().unwrap();
    let volume = data.path().join("volume");
    std::fs::create_dir_all(volume.join("app/deps/deep")).unwrap();
    std::fs::write(volume.join("app/deps/deep/file"), "content").unwrap();
    std::fs::write(volume.join("app/lock"), "one").unwrap();
    Place { data, volume }
}

impl Place {
    fn cache(&self, key: &str) -> Cache {
        let own = self.data.path().join("caches/own");
        Cache {
            key: key.to_owned(),
            files: Vec::new(),
            paths: vec!["app/deps".into()],
            restore_keys: Vec::new(),
            reads: vec![own.join("scope")],
            writes: own.join("scope"),
            pool: own,
            pool_bytes_max: 1 << 20,
            restore: true,
        }
    }

    fn save(&self, cache: &Cache) -> io::Result<Saved> {
        cache.save(&cache.full_key(&self.volume)?, &self.volume, &mut || false)
    }

    fn restore(&self, cache: &Cache) -> io::Result<Restored> {
        let key = cache.full_key(&self.volume)?;
        cache.restore(&key, &self.volume, &self.data.path().join("scratch"), None, &mut || false)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.volume.join("app/deps/deep/file")).unwrap_or_default()
    }
}

#[test]
fn what_was_saved_comes_back_as_it_was() {
    let place = place();
    let cache = place.cache("k");
    assert_eq!(place.restore(&cache).unwrap(), Restored::Nothing);
    let file = place.volume.join("app/deps/deep/file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
    symlink("deep/file", place.volume.join("app/deps/link")).unwrap();
    let (long, mtime) = (format!("app/deps/{}", "n".repeat(200)), file.metadata().unwrap().mtime());
    std::fs::write(place.volume.join(&long), "long").unwrap();
    assert!(matches!(place.save(&cache).unwrap(), Saved::Written { .. }));

    std::fs::remove_dir_all(place.volume.join("app")).unwrap();
    assert!(matches!(place.restore(&cache).unwrap(), Restored::Found { .. }));
    let about = file.metadata().unwrap();
    // A bit that makes a program somebody else does not come back.
    assert_eq!((place.text().as_str(), about.mode() & 0o7777, about.mtime()), ("content", 0o755, mtime));
    assert_eq!(std::fs::read_to_string(place.volume.join("app/deps/link")).unwrap(), "content");
    assert_eq!(std::fs::read_to_string(place.volume.join(&long)).unwrap(), "long");

    // What is there in the meantime gives way.
    std::fs::write(&file, "newer").unwrap();
    std::fs::write(place.volume.join("app/deps/other"), "").unwrap();
    place.restore(&cache).unwrap();
    assert_eq!((place.text().as_str(), place.volume.join("app/deps/other").exists()), ("content", false));
    assert!(!place.data.path().join("scratch").exists());
}

#[test]
fn a_key_with_files_names_its_content_and_a_plain_one_is_replaced() {
    let place = place();
    let mut cache = place.cache("k");
    cache.files = vec!["app/lock".into()];
    assert!(matches!(place.save(&cache).unwrap(), Saved::Written { .. }));
    std::fs::write(place.volume.join("app/deps/deep/file"), "two").unwrap();
    assert_eq!(place.save(&cache).unwrap(), Saved::AlreadyThere);
    place.restore(&cache).unwrap();
    assert_eq!(place.text(), "content");
    std::fs::write(place.volume.join("app/lock"), "two").unwrap();
    assert_eq!(place.restore(&cache).unwrap(), Restored::Nothing);
    // The beginning of a key will do when it is asked for.
    cache.restore_keys = vec!["other-".to_owned(), "k-".to_owned()];
    assert!(matches!(place.restore(&cache).unwrap(), Restored::Found { .. }));

    let plain = place.cache("plain");
    place.save(&plain).unwrap();
    std::fs::write(place.volume.join("app/deps/deep/file"), "three").unwrap();
    place.save(&plain).unwrap();
    std::fs::remove_dir_all(place.volume.join("app/deps")).unwrap();
    place.restore(&plain).unwrap();
    assert_eq!(place.text(), "three");
}

#[test]
fn keys_are_names_of_nothing_but_entries() {
    let place = place();
    for key in ["../../../evil", "/etc/passwd", "a/../b", ".", "x\0y", "*"] {
        let cache = place.cache(key);
        assert!(matches!(place.save(&cache).unwrap(), Saved::Written { .. }), "{key}");
        assert!(matches!(place.restore(&cache).unwrap(), Restored::Found { .. }), "{key}");
    }
    let scope = place.data.path().join("caches/own/scope");
    assert_eq!(std::fs::read_dir(scope).unwrap().count(), 6);
    assert_eq!(std::fs::read_dir(place.data.path().join("caches")).unwrap().count(), 1);
}

#[test]
fn links_lead_nowhere_neither_when_packing_nor_when_putting_in_place() {
    let place = place();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "top secret").unwrap();
    let cache = place.cache("k");
    place.save(&cache).unwrap();

    // The folder on the way is a link now: nothing is read through it, and nothing written.
    std::fs::create_dir(outside.path().join("deps")).unwrap();
    std::fs::rename(place.volume.join("app"), place.volume.join("was")).unwrap();
    symlink(outside.path(), place.volume.join("app")).unwrap();
    assert!(matches!(place.restore(&cache).unwrap(), Restored::Unusable(_)));
    assert_eq!(std::fs::read_dir(outside.path().join("deps")).unwrap().count(), 0);
    assert!(place.save(&place.cache("through")).is_err());
    let mut files = place.cache("files");
    files.files = vec!["app/secret".into()];
    assert!(files.full_key(&place.volume).is_err());

    // Links inside, and the folder itself as one, are kept as links.
    std::fs::remove_file(place.volume.join("app")).unwrap();
    std::fs::rename(place.volume.join("was"), place.volume.join("app")).unwrap();
    symlink(outside.path().join("secret"), place.volume.join("app/deps/steal")).unwrap();
    place.save(&cache).unwrap();
    std::fs::remove_file(outside.path().join("secret")).unwrap();
    place.restore(&cache).unwrap();
    let stolen = place.volume.join("app/deps/steal");
    assert!(stolen.symlink_metadata().unwrap().is_symlink() && std::fs::read(&stolen).is_err());
}

/// Entries that no packer of ours makes: whoever got at the disk, or a defect of the packer.
#[test]
fn an_entry_that_was_tampered_with_writes_nothing_anywhere() {
    use flate2::{Compression, write::GzEncoder};
    use tar::{Builder, EntryType, Header};
    let place = place();
    let cache = place.cache("k");
    let header = |kind: EntryType, size: u64| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o777);
        header.set_size(size);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header
    };
    // The crate that writes archives refuses such names, so they are written past it.
    let named = |kind, name: &str, link: &str, size| {
        let mut header = header(kind, size);
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        header
    };
    let evil = place.data.path().join("evil");
    let outside = place.data.path().to_str().unwrap().to_owned();
    let absolute = evil.to_str().unwrap().to_owned();
    let cases: Vec<Vec<(Header, &[u8])>> = vec![
        vec![(named(EntryType::Regular, "0/../../../evil", "", 1), b"x")],
        vec![(named(EntryType::Regular, "../evil", "", 1), b"x")],
        vec![
            (named(EntryType::Symlink, "0", &outside, 0), b""),
            (named(EntryType::Regular, "0/evil", "", 1), b"x"),
        ],
        vec![(named(EntryType::Link, "0", "/etc/passwd", 0), b"")],
        vec![(named(EntryType::Char, "0", "", 0), b"")],
        vec![(named(EntryType::Fifo, "0", "", 0), b"")],
        vec![(named(EntryType::Regular, "0", "", 1), b"x"), (named(EntryType::Regular, "0", "", 1), b"y")],
        vec![(named(EntryType::Regular, &absolute, "", 1), b"x")],
    ];
    for (number, entries) in cases.into_iter().enumerate() {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (header, content) in entries {
            builder.append(&header, content).unwrap();
        }
        let bytes = builder.into_inner().unwrap().finish().unwrap();
        let head = Head {
            key: "k".to_owned(),
            digest: hex::encode(Sha256::digest(&bytes)),
            paths: cache.paths.clone(),
        };
        let mut text = serde_json::to_vec(&head).unwrap();
        text.push(b'\n');
        text.extend(bytes);
        create_private_dir(&cache.writes).unwrap();
        std::fs::write(cache.writes.join(entry_name("k")), text).unwrap();
        let restored = place.restore(&cache).unwrap();
        assert!(matches!(restored, Restored::Unusable(_)), "{number}: {restored:?}");
        assert!(!evil.exists(), "{number}");
        assert_eq!(place.text(), "content", "{number}: what was there stays");
    }
}

#[test]
fn a_torn_entry_is_no_entry_and_goes() {
    let place = place();
    let cache = place.cache("k");
    place.save(&cache).unwrap();
    let path = cache.writes.join(entry_name("k"));
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 10, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(!matches!(place.restore(&cache).unwrap(), Restored::Found { .. }), "{length}");
        assert_eq!(place.text(), "content");
    }
    // One bit of the content: the archive can be read, and its digest says no.
    let mut flipped = whole.clone();
    let last = flipped.len() - 6;
    flipped[last] ^= 1;
    std::fs::write(&path, &flipped).unwrap();
    assert!(matches!(place.restore(&cache).unwrap(), Restored::Unusable(_)));
}

#[test]
fn builds_at_once_read_and_write_one_key_and_each_sees_a_whole_entry() {
    let place = place();
    let cache = place.cache("shared");
    place.save(&cache).unwrap();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (cache, data) = (cache.clone(), place.data.path().to_owned());
            scope.spawn(move || {
                let volume = data.join(format!("volume-{number}"));
                for round in 0..15 {
                    let scratch = data.join(format!("scratch-{number}"));
                    let found = cache.restore("shared", &volume, &scratch, None, &mut || false).unwrap();
                    assert!(matches!(found, Restored::Found { .. }) || round == 0, "{found:?}");
                    // All files of one writer, or the ones of the very first.
                    let deps = volume.join("app/deps");
                    let texts: std::collections::BTreeSet<_> = (0..20)
                        .filter_map(|file| std::fs::read_to_string(deps.join(file.to_string())).ok())
                        .collect();
                    assert!(texts.len() <= 1, "{texts:?}");
                    std::fs::create_dir_all(&deps).unwrap();
                    for file in 0..20 {
                        std::fs::write(deps.join(file.to_string()), format!("{number}/{round}")).unwrap();
                    }
                    cache.save("shared", &volume, &mut || false).unwrap();
                }
            });
            std::fs::create_dir_all(place.data.path().join(format!("volume-{number}"))).unwrap();
        }
    });
    assert_eq!(std::fs::read_dir(&cache.writes).unwrap().count(), 1, "nothing half-written is left");
}

#[test]
fn a_full_room_loses_what_was_used_longest_ago_and_only_its_own() {
    let place = place();
    let mut noise = vec![0; 30_000];
    getrandom::fill(&mut noise).unwrap();
    std::fs::write(place.volume.join("app/deps/noise"), &noise).unwrap();
    let main = place.cache("main");
    place.save(&main).unwrap();
    // A fork's room is another one, whatever it fills it with.
    let forks = place.data.path().join("caches/forks");
    let fork = |key: &str| Cache {
        writes: forks.join("eve"),
        reads: vec![forks.join("eve"), main.writes.clone()],
        pool: forks.clone(),
        pool_bytes_max: 100_000,
        ..place.cache(key)
    };
    for number in 0..8 {
        place.save(&fork(&format!("k{number}"))).unwrap();
    }
    assert!(matches!(place.restore(&main).unwrap(), Restored::Found { .. }));
    assert_eq!(place.restore(&fork("k0")).unwrap(), Restored::Nothing);
    assert!(matches!(place.restore(&fork("k7")).unwrap(), Restored::Found { .. }));
    assert_eq!(room::entries(&forks.join("eve")).len(), 3);
    // What it writes under main's key is its own; main goes on reading what main wrote.
    std::fs::write(place.volume.join("app/deps/deep/file"), "evil").unwrap();
    place.save(&fork("main")).unwrap();
    place.restore(&main).unwrap();
    assert_eq!(place.text(), "content");
    // Larger than its share: said, and nothing is written.
    let small = Cache { pool_bytes_max: 40_000, ..fork("large") };
    assert!(place.save(&small).unwrap_err().to_string().contains("larger"));
}
