//! Folders to one stream and back: a tar, compressed, with a digest.
//!
//! Packing follows no link and takes plain files, folders and links as such; devices, pipes and sockets are left out, as
//! are bits that make a program somebody else. Unpacking believes nothing: it writes into a folder that nobody else has,
//! makes every file anew, and goes through folders only.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use nix::dir::Dir;
use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::{FileStat, SFlag, fstatat};
use sha2::{Digest, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use super::inside::{folder_at, open_parent};
use crate::within::file_at;

/// Asked again and again: whether to give up.
pub(crate) type Stop<'a> = &'a mut dyn FnMut() -> bool;

/// Before compression. A file with a hole is as long as it says.
const BYTES_MAX: u64 = 32 << 30;
const ENTRIES_MAX: u64 = 1_000_000;
/// Deeper than anything that people make.
const DEPTH_MAX: usize = 200;

/// The digest of what was written; nothing if none of the paths is there.
pub(super) fn pack(
    root: &Path,
    paths: &[PathBuf],
    to: impl Write,
    bytes_max: u64,
    stop: Stop<'_>,
) -> io::Result<Option<String>> {
    let counted = Counted { to, hash: Sha256::new(), left: bytes_max };
    let builder = Builder::new(GzEncoder::new(counted, Compression::fast()));
    let mut packer = Packer { builder, bytes: 0, entries: 0, stop };
    for (number, path) in paths.iter().enumerate() {
        match open_parent(root, path) {
            Ok((folder, name)) => packer.add(&folder, name, Path::new(&number.to_string()), 0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(named(path, &error)),
        }
    }
    if packer.entries == 0 {
        return Ok(None);
    }
    let mut counted = packer.builder.into_inner()?.finish()?;
    counted.flush()?;
    Ok(Some(hex::encode(counted.hash.finalize())))
}

struct Packer<'a, W: Write> {
    builder: Builder<GzEncoder<Counted<W>>>,
    bytes: u64,
    entries: u64,
    stop: Stop<'a>,
}

impl<W: Write> Packer<'_, W> {
    fn add(&mut self, folder: &OwnedFd, name: &OsStr, path: &Path, depth: usize) -> io::Result<()> {
        if (self.stop)() {
            return Err(given_up());
        }
        let about = match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(about) => about,
            // A step beside this one has removed it.
            Err(nix::errno::Errno::ENOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        self.entries += 1;
        if self.entries > ENTRIES_MAX || depth > DEPTH_MAX {
            return Err(io::Error::other(format!(
                "it has more than {ENTRIES_MAX} files, or folders deeper than {DEPTH_MAX}"
            )));
        }
        match SFlag::from_bits_truncate(about.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFDIR => self.folder(folder, name, path, &about, depth),
            SFlag::S_IFREG => self.file(folder, name, path),
            SFlag::S_IFLNK => {
                let target = readlinkat(folder, name)?;
                let mut header = header(EntryType::Symlink, about.st_mode, about.st_uid, about.st_gid);
                self.builder.append_link(&mut header, path, target)
            }
            _ => Ok(()),
        }
    }

    fn folder(
        &mut self,
        folder: &OwnedFd,
        name: &OsStr,
        path: &Path,
        about: &FileStat,
        depth: usize,
    ) -> io::Result<()> {
        let mut header = header(EntryType::Directory, about.st_mode, about.st_uid, about.st_gid);
        self.builder.append_data(&mut header, path, io::empty())?;
        let opened = folder_at(folder, name)?;
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::from_fd(opened.try_clone()?)?.iter() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        // The same folder is the same entry, whatever order the disk gives.
        names.sort();
        for name in names {
            self.add(&opened, &name, &path.join(&name), depth + 1)?;
        }
        Ok(())
    }

    fn file(&mut self, folder: &OwnedFd, name: &OsStr, path: &Path) -> io::Result<()> {
        let file = file_at(folder, name)?;
        let about = file.metadata()?;
        self.bytes = self.bytes.saturating_add(about.len());
        if self.bytes > BYTES_MAX {
            return Err(io::Error::other(format!("it is larger than {} GiB", BYTES_MAX >> 30)));
        }
        let mut header = header(EntryType::Regular, about.mode(), about.uid(), about.gid());
        header.set_size(about.len());
        header.set_mtime(u64::try_from(about.mtime()).unwrap_or(0));
        // As long as it was when it was looked at, whatever somebody does to it now.
        let content = file.chain(io::repeat(0)).take(about.len());
        self.builder.append_data(&mut header, path, content)
    }
}

fn header(kind: EntryType, mode: u32, user: u32, group: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode & 0o777);
    header.set_uid(user.into());
    header.set_gid(group.into());
    header.set_size(0);
    header
}

/// Writes everything below `to`, which nobody else has; gives the digest of what it read. Files are of `owner`, or of
/// whom they were where that is ours to say.
pub(super) fn unpack(
    from: impl BufRead,
    to: &Path,
    owner: Option<u32>,
    stop: Stop<'_>,
) -> io::Result<String> {
    crate::layout::create_private_dir(to)?;
    let mut hashed = Hashed { from, hash: Sha256::new() };
    // Folders are closed when all is in them.
    let mut modes: BTreeMap<PathBuf, u32> = BTreeMap::new();
    let (mut bytes, mut entries) = (0u64, 0u64);
    let root = nix::unistd::geteuid().is_root();
    let mut archive = Archive::new(GzDecoder::new(&mut hashed));
    for entry in archive.entries()? {
        if stop() {
            return Err(given_up());
        }
        let mut entry = entry?;
        entries += 1;
        bytes = bytes.saturating_add(entry.header().size()?);
        if entries > ENTRIES_MAX || bytes > BYTES_MAX {
            return Err(io::Error::other("it is larger than any entry may be"));
        }
        let relative = entry.path()?.into_owned();
        let path = place(to, &relative)?;
        let header = entry.header();
        let (mode, mtime) = (header.mode()? & 0o777, header.mtime()?);
        let ids = (u32::try_from(header.uid()?).ok(), u32::try_from(header.gid()?).ok());
        match header.entry_type() {
            EntryType::Directory => {
                std::fs::create_dir(&path)?;
                modes.insert(path.clone(), mode);
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.ok_or_else(|| refused(&relative))?;
                symlink(target, &path)?;
            }
            EntryType::Regular => {
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                io::copy(&mut entry, &mut file)?;
                finish(&file, mode, mtime)?;
            }
            _ => return Err(refused(&relative)),
        }
        match owner {
            Some(owner) => lchown(&path, Some(owner), Some(owner))?,
            None if root => lchown(&path, ids.0, ids.1)?,
            None => {}
        }
    }
    drop(archive);
    // What follows the archive is part of the digest too.
    io::copy(&mut hashed, &mut io::sink())?;
    for (path, mode) in modes.iter().rev() {
        std::fs::set_permissions(path, Permissions::from_mode(*mode))?;
    }
    Ok(hex::encode(hashed.hash.finalize()))
}

fn finish(file: &File, mode: u32, mtime: u64) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))?;
    // Build tools compare times; one that does not exist is the first of all.
    file.set_modified(UNIX_EPOCH.checked_add(Duration::from_secs(mtime)).unwrap_or(UNIX_EPOCH))
}

/// A path below `to` whose folders are folders.
fn place(to: &Path, relative: &Path) -> io::Result<PathBuf> {
    let mut at = to.to_owned();
    let mut parts = relative.components().peekable();
    if parts.peek().is_none() {
        return Err(refused(relative));
    }
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(refused(relative)) };
        at.push(name);
        if parts.peek().is_some() && !at.symlink_metadata().is_ok_and(|about| about.is_dir()) {
            return Err(refused(relative));
        }
    }
    Ok(at)
}

fn refused(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("`{}` has no place in it", path.display()))
}

fn given_up() -> io::Error {
    io::Error::other("the step has to end")
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

struct Counted<W> {
    to: W,
    hash: Sha256,
    left: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::Error::other("it is larger than an entry may be on this runner (--cache-gib)"));
        }
        let count = self.to.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.left -= count as u64;
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

struct Hashed<R> {
    from: R,
    hash: Sha256,
}

impl<R: BufRead> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Hashed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.from.fill_buf()
    }
    fn consume(&mut self, amount: usize) {
        // What was given out last is still there to be looked at.
        if let Ok(bytes) = self.from.fill_buf() {
            self.hash.update(&bytes[..amount.min(bytes.len())]);
        }
        self.from.consume(amount);
    }
}
