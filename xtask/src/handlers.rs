//! Handlers of the server are at the end of the line: what another part needs lives beside them, not in them.
//!
//! Comes in: the sources of `crates/server`. Goes out: how many handlers' folders there are, or who reaches into one from outside.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

const SOURCES: &str = "crates/server/src";
/// It mounts them.
const ROUTER: &str = "crates/server/src/http/router.rs";

pub(crate) fn check() -> anyhow::Result<String> {
    let mut files = Vec::new();
    collect(Path::new(SOURCES), &mut files)?;
    let folders = files.iter().filter(|path| path.ends_with("rest/mod.rs")).count();
    let mut wrong = Vec::new();
    for path in files.iter().filter(|path| !is_handler(path) && *path != Path::new(ROUTER)) {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let reaches = |line: &str| line.contains("::rest::") && !line.trim_start().starts_with("//");
        let places = text.lines().enumerate().filter(|(_, line)| reaches(line));
        wrong.extend(
            places.map(|(number, line)| format!("{}:{}: {}", path.display(), number + 1, line.trim())),
        );
    }
    if !wrong.is_empty() {
        bail!("handlers are not a library; move what they share beside them:\n  {}", wrong.join("\n  "));
    }
    Ok(format!("{folders} folders of handlers, nobody reaches into one"))
}

fn is_handler(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "rest")
}

pub(crate) fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
