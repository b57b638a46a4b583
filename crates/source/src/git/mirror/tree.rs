//! Folders of a commit: path rules, walking, symbolic links resolved inside the repository and nowhere else.

use std::collections::BTreeMap;

use super::GitError;
use super::repository::Mirror;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Executable,
    Link,
    Folder,
    /// Another repository; its files are not here.
    Submodule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    pub kind: EntryKind,
    pub id: String,
}

/// Everything below a folder, by path relative to that folder. Folders themselves are not in it.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The id of the folder: equal ids are equal content.
    pub id: String,
    pub entries: BTreeMap<String, TreeEntry>,
}

/// Splits a path into its parts; refuses what is absolute, leaves the repository or cannot be a git path.
pub(crate) fn parts(path: &str) -> Result<Vec<&str>, GitError> {
    if path.starts_with('/') || path.contains('\0') || path.contains('\\') {
        return Err(GitError::PathEscapes { path: path.replace('\0', "\\0") });
    }
    let mut out: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if out.pop().is_none() {
                    return Err(GitError::PathEscapes { path: path.to_owned() });
                }
            }
            part => out.push(part),
        }
    }
    Ok(out)
}

/// The entry at a path; the root for "". Links on the way are not followed.
pub(super) async fn lookup(mirror: &Mirror, root: &str, path: &str) -> Result<Option<TreeEntry>, GitError> {
    let mut entry = TreeEntry { kind: EntryKind::Folder, id: root.to_owned() };
    for part in parts(path)? {
        if entry.kind != EntryKind::Folder {
            return Ok(None);
        }
        let folder = folder(mirror, &entry.id).await?;
        match folder.into_iter().find(|(name, _)| name == part) {
            Some((_, found)) => entry = found,
            None => return Ok(None),
        }
    }
    Ok(Some(entry))
}

pub(super) async fn read(
    mirror: &Mirror,
    root: &str,
    path: &str,
    recurse: bool,
    limit: usize,
) -> Result<Tree, GitError> {
    let entry = lookup(mirror, root, path).await?;
    let Some(entry) = entry else { return Err(GitError::PathNotFound { path: path.to_owned() }) };
    if entry.kind != EntryKind::Folder {
        return Err(GitError::NotAFolder { path: path.to_owned() });
    }
    let mut entries = BTreeMap::new();
    let mut open = vec![(String::new(), entry.id.clone())];
    while let Some((prefix, id)) = open.pop() {
        for (name, entry) in folder(mirror, &id).await? {
            // git itself refuses these; a hand-made repository may still hold them.
            if matches!(name.as_str(), "" | "." | "..") || name.contains('/') {
                return Err(GitError::PathEscapes { path: format!("{prefix}{name}") });
            }
            let path = format!("{prefix}{name}");
            if entry.kind == EntryKind::Folder {
                if !recurse {
                    continue;
                }
                open.push((format!("{path}/"), entry.id));
            } else {
                entries.insert(path, entry);
            }
            if entries.len() + open.len() > limit {
                return Err(GitError::TooLarge {
                    what: "the folder".to_owned(),
                    limit: format!("{limit} files"),
                });
            }
        }
    }
    Ok(Tree { id: entry.id, entries })
}

async fn folder(mirror: &Mirror, id: &str) -> Result<Vec<(String, TreeEntry)>, GitError> {
    let object = mirror.object(id).await?;
    if object.kind != "tree" {
        return Err(GitError::Damaged { detail: format!("object {id} is a {}, not a folder", object.kind) });
    }
    parse_tree(&object.data, id.len() / 2)
        .ok_or_else(|| GitError::Damaged { detail: format!("folder {id} is unreadable") })
}

/// git's own format: `mode name NUL id`, again and again.
fn parse_tree(mut data: &[u8], id_bytes: usize) -> Option<Vec<(String, TreeEntry)>> {
    let mut out = Vec::new();
    while !data.is_empty() {
        let nul = data.iter().position(|byte| *byte == 0)?;
        let head = std::str::from_utf8(&data[..nul]).map(str::to_owned);
        // A name that is not UTF-8 cannot be a manifest that anybody refers to.
        let head = head.unwrap_or_else(|_| String::from_utf8_lossy(&data[..nul]).into_owned());
        let (mode, name) = head.split_once(' ')?;
        let id = data.get(nul + 1..nul + 1 + id_bytes)?;
        let kind = match mode {
            "40000" | "040000" => EntryKind::Folder,
            "120000" => EntryKind::Link,
            "160000" => EntryKind::Submodule,
            "100755" => EntryKind::Executable,
            _ => EntryKind::File,
        };
        out.push((name.to_owned(), TreeEntry { kind, id: hex::encode(id) }));
        data = &data[nul + 1 + id_bytes..];
    }
    Some(out)
}

/// Where a link at `at` with this target leads, as a path from the root; an error when that is outside.
pub(crate) fn link_target(at: &str, target: &str) -> Result<String, GitError> {
    let escapes = || GitError::LinkEscapes { path: at.to_owned() };
    if target.starts_with('/') || target.contains('\0') {
        return Err(escapes());
    }
    let folder = at.rsplit_once('/').map_or("", |(folder, _)| folder);
    let joined = format!("{folder}/{target}");
    let parts = parts(joined.trim_start_matches('/')).map_err(|_| escapes())?;
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        for (path, expected) in [("", ""), (".", ""), ("a/./b//c", "a/b/c"), ("a/../b", "b")] {
            assert_eq!(parts(path).expect("inside").join("/"), expected, "{path}");
        }
        for path in ["/etc", "..", "a/../..", "a/../../b", "a\0b", "a\\b"] {
            assert!(parts(path).is_err(), "{path}");
        }
    }

    #[test]
    fn links_stay_inside() {
        assert_eq!(link_target("a/b/x.yaml", "../y.yaml").expect("inside"), "a/y.yaml");
        assert_eq!(link_target("x", "y").expect("inside"), "y");
        for (at, target) in [("x", "/etc/passwd"), ("a/x", "../../y"), ("x", ".."), ("a/x", "../../../etc")] {
            assert!(link_target(at, target).is_err(), "{at} → {target}");
        }
    }
}
