//! `chart-1.2.3.tgz`, or any packed folder → its files. Everything that could leave it or fill the memory is refused.

use std::collections::BTreeMap;
use std::io::Read;

use super::{ChartError, ChartLimits};
use crate::git::mirror::tree::parts;

/// The files of an archive, by path; those of a chart, below the chart's own folder.
pub struct Archive {
    pub name: String,
    /// Of the compressed bytes; equal digests are equal files.
    pub digest: String,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Archive {
    /// A folder that somebody packed as it is.
    pub fn of_folder(bytes: &[u8]) -> Result<Self, ChartError> {
        let name = "a folder";
        let files = files(name, bytes, &ChartLimits::default(), false)?;
        Ok(Self { name: name.to_owned(), digest: super::sha256(bytes), files })
    }
}

pub(super) fn open(name: &str, bytes: &[u8], limits: &ChartLimits) -> Result<Archive, ChartError> {
    let files = files(name, bytes, limits, true)?;
    if !files.contains_key("Chart.yaml") {
        let url = format!("the archive of `{name}`");
        return Err(ChartError::Unreadable { url, detail: "there is no Chart.yaml in it".into() });
    }
    Ok(Archive { name: name.to_owned(), digest: super::sha256(bytes), files })
}

/// With `inner`, everything stands below one folder, which is left out of the paths.
fn files(
    name: &str,
    bytes: &[u8],
    limits: &ChartLimits,
    inner: bool,
) -> Result<BTreeMap<String, Vec<u8>>, ChartError> {
    let unreadable =
        |detail: String| ChartError::Unreadable { url: format!("the archive of `{name}`"), detail };
    // One byte more than allowed, so that a bomb is told from a chart that just fits.
    let plain = flate2::read::GzDecoder::new(bytes).take(limits.content_bytes + 1);
    let mut counted = Counted { inner: plain, read: 0 };
    let mut archive = tar::Archive::new(&mut counted);
    let mut files = BTreeMap::new();
    for entry in archive.entries().map_err(|error| unreadable(error.to_string()))? {
        let mut entry = entry.map_err(|error| unreadable(error.to_string()))?;
        let path =
            entry.path().map_err(|error| unreadable(error.to_string()))?.to_string_lossy().into_owned();
        let refuse = |why: &str| unreadable(format!("`{path}` {why}"));
        match entry.header().entry_type() {
            tar::EntryType::Directory | tar::EntryType::XGlobalHeader => continue,
            tar::EntryType::Regular | tar::EntryType::Continuous => {}
            _ => return Err(refuse("is a link or a device, which an archive may not hold")),
        }
        if path.split('/').any(|part| part == "..") {
            return Err(refuse("leaves the archive"));
        }
        let mut inside = parts(&path).map_err(|_| refuse("leaves the archive"))?;
        if inner && inside.len() > 1 {
            inside.remove(0);
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(|error| unreadable(error.to_string()))?;
        files.insert(inside.join("/"), content);
        if files.len() > limits.files {
            return Err(ChartError::TooLarge {
                what: format!("the archive of `{name}`"),
                limit: limits.files as u64,
            });
        }
    }
    if counted.read > limits.content_bytes {
        return Err(ChartError::TooLarge {
            what: format!("the archive of `{name}`"),
            limit: limits.content_bytes,
        });
    }
    Ok(files)
}

struct Counted<R> {
    inner: R,
    read: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(fill: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        fill(&mut builder);
        let plain = builder.into_inner().expect("written");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).expect("written");
        gzip.finish().expect("written")
    }

    fn file(builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) {
        let mut header = tar::Header::new_gnu();
        // By hand: the builder itself refuses what an attacker writes.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, content).expect("written");
    }

    fn special(kind: tar::EntryType, target: &str) -> Vec<u8> {
        packed(|builder| {
            file(builder, "c/Chart.yaml", b"name: c");
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_path("c/values.yaml").expect("a path");
            header.set_link_name_literal(target).expect("a target");
            header.set_size(0);
            header.set_cksum();
            builder.append(&header, std::io::empty()).expect("written");
        })
    }

    #[test]
    fn a_chart_opens_below_its_own_folder() {
        let bytes = packed(|builder| {
            file(builder, "web/Chart.yaml", b"name: web");
            file(builder, "web/templates/a.yaml", b"x");
        });
        let archive = open("web", &bytes, &ChartLimits::default()).expect("opened");
        assert_eq!(archive.files.keys().collect::<Vec<_>>(), ["Chart.yaml", "templates/a.yaml"]);
    }

    #[test]
    fn hostile_archives_are_refused() {
        let limits = ChartLimits { content_bytes: 1 << 20, files: 10, ..ChartLimits::default() };
        let with = |path: &str| {
            packed(|builder| {
                file(builder, "c/Chart.yaml", b"name: c");
                file(builder, path, b"x");
            })
        };
        let mut hostile = vec![
            ("climbs", with("c/../../etc/passwd")),
            ("climbs below its folder", with("c/a/../b")),
            ("absolute", with("/etc/passwd")),
            ("a link", special(tar::EntryType::Symlink, "/etc/passwd")),
            ("a hard link", special(tar::EntryType::Link, "/etc/passwd")),
            ("a device", special(tar::EntryType::Char, "")),
            ("no chart", packed(|builder| file(builder, "c/values.yaml", b"x"))),
            ("not an archive", b"hello".to_vec()),
        ];
        hostile.push(("a bomb", packed(|builder| file(builder, "c/Chart.yaml", &vec![0; 4 << 20]))));
        hostile.push((
            "many files",
            packed(|builder| (0..20).for_each(|n| file(builder, &format!("c/{n}"), b""))),
        ));
        for (what, bytes) in hostile {
            let error = open("c", &bytes, &limits).err().unwrap_or_else(|| panic!("{what} was opened"));
            assert!(!error.to_string().contains("root:"), "{what}: {error}");
        }
    }
}
