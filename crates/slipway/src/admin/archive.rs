//! One file with many in it and the SHA-256 of each: a tar whose last member lists them. A file that was cut short
//! or changed anywhere is found before anything is restored from it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

const SUMS: &str = "SHA256SUMS";

/// Every file under `folder`, in one archive.
pub(super) fn pack(folder: &Path, out: &mut File) -> anyhow::Result<()> {
    let mut archive = tar::Builder::new(&mut *out);
    archive.mode(tar::HeaderMode::Deterministic);
    let mut sums = String::new();
    for name in files(folder, Path::new(""))? {
        let path = folder.join(&name);
        let name = name.to_str().context("names in a backup are text")?;
        sums += &format!("{}  {name}\n", sum(&mut File::open(&path)?)?);
        archive.append_file(name, &mut File::open(&path)?)?;
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(sums.len() as u64);
    header.set_mode(0o600);
    archive.append_data(&mut header, SUMS, sums.as_bytes())?;
    archive.into_inner()?;
    out.flush()?;
    out.sync_all()?;
    Ok(())
}

fn files(folder: &Path, under: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut entries = std::fs::read_dir(folder.join(under))?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = under.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files(folder, &name)?);
        } else {
            found.push(name);
        }
    }
    Ok(found)
}

fn sum(from: &mut impl Read) -> anyhow::Result<String> {
    let mut hasher = Sha256::new();
    std::io::copy(from, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Unpacks into `folder` and checks every sum. Nothing outside of `folder` is written.
pub(super) fn unpack(file: &Path, folder: &Path) -> anyhow::Result<()> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut archive = tar::Archive::new(opened);
    let (mut found, mut expected) = (BTreeMap::new(), None);
    let damaged = || format!("{} is damaged or no backup", file.display());
    for entry in archive.entries().with_context(damaged)? {
        let mut entry = entry.with_context(damaged)?;
        let name = entry.path().with_context(damaged)?.into_owned();
        ensure!(
            entry.header().entry_type().is_file()
                && name.components().all(|part| matches!(part, Component::Normal(_))),
            "{}: it holds `{}`, which no backup does",
            damaged(),
            name.display()
        );
        ensure!(expected.is_none(), "{}: something follows its list of sums", damaged());
        if name == Path::new(SUMS) {
            let mut text = String::new();
            entry.read_to_string(&mut text).with_context(damaged)?;
            expected = Some(text);
            continue;
        }
        let path = folder.join(&name);
        std::fs::create_dir_all(path.parent().expect("it is under the folder"))?;
        let mut out = File::create(&path)?;
        std::io::copy(&mut entry, &mut out).with_context(damaged)?;
        found.insert(name.to_string_lossy().into_owned(), sum(&mut File::open(&path)?)?);
    }
    let Some(expected) = expected else {
        bail!("{}: its list of sums is missing, it may have been cut short", damaged())
    };
    let expected: BTreeMap<String, String> = expected
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sum, name)| (name.to_owned(), sum.to_owned()))
        .collect();
    if expected != found {
        let wrong: Vec<_> = expected
            .iter()
            .filter(|(name, sum)| found.get(*name) != Some(*sum))
            .map(|(name, _)| name.as_str())
            .chain(found.keys().filter(|name| !expected.contains_key(*name)).map(String::as_str))
            .collect();
        bail!("{}: the sum of {} is not what it was", damaged(), wrong.join(", "));
    }
    Ok(())
}
