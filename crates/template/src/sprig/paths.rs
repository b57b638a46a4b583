//! Paths with slashes: Go's `path`, and `filepath` as it is on Linux.

use crate::functions::{Function, Type::Text, takes, text};

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("base", &[Text], |_, a| Ok(base(text(&a[0])).into())),
    takes("osBase", &[Text], |_, a| Ok(base(text(&a[0])).into())),
    takes("dir", &[Text], |_, a| Ok(dir(text(&a[0])).into())),
    takes("osDir", &[Text], |_, a| Ok(dir(text(&a[0])).into())),
    takes("clean", &[Text], |_, a| Ok(clean(text(&a[0])).into())),
    takes("osClean", &[Text], |_, a| Ok(clean(text(&a[0])).into())),
    takes("ext", &[Text], |_, a| Ok(ext(text(&a[0])).into())),
    takes("osExt", &[Text], |_, a| Ok(ext(text(&a[0])).into())),
    takes("isAbs", &[Text], |_, a| Ok(text(&a[0]).starts_with('/').into())),
    takes("osIsAbs", &[Text], |_, a| Ok(text(&a[0]).starts_with('/').into())),
];

fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return "/";
    }
    trimmed.rsplit('/').next().unwrap_or(trimmed)
}

fn dir(path: &str) -> String {
    clean(path.rfind('/').map_or("", |at| &path[..=at]))
}

fn ext(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').map_or("", |at| &name[at..])
}

fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&"..") | None if !rooted => parts.push(".."),
                _ => {
                    parts.pop();
                }
            },
            part => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}
