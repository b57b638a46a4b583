//! Plain files: `.yaml`, `.yml` and `.json`, straight from git's object store.

use super::{Directory, Finding, Made, RenderError, RenderRequest, Renderer, SourceKind, manifest};
use crate::git_cache::EntryKind;
use crate::glob::Glob;

pub(super) async fn render(
    renderer: &Renderer,
    request: &RenderRequest,
    options: &Directory,
) -> Result<Made, RenderError> {
    let include = pattern("include", &options.include)?;
    let exclude = pattern("exclude", &options.exclude)?;
    let (repo, commit) = (&request.repository, &request.commit);
    let tree = renderer.git.tree(repo, commit, &request.path, options.recurse).await?;
    let prefix = folder_prefix(&request.path);
    let mut made = Made { kind: SourceKind::Directory, objects: Vec::new(), outside: Vec::new() };
    let mut findings = Vec::new();
    let mut bytes_read = 0;
    for (path, entry) in &tree.entries {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let wanted = matches!(extension, "yaml" | "yml" | "json" | "jsonnet")
            && include.as_ref().is_none_or(|glob| glob.matches(path))
            && !exclude.as_ref().is_some_and(|glob| glob.matches(path));
        if !wanted || entry.kind == EntryKind::Submodule {
            continue;
        }
        let file = format!("{prefix}{path}");
        if extension == "jsonnet" {
            let message = "jsonnet is not rendered here; commit its output as YAML, or exclude the file";
            findings.push(Finding { file, line: 1, column: 1, message: message.to_owned() });
            continue;
        }
        let content = if entry.kind == EntryKind::Link {
            let target = renderer.git.blob(repo, &entry.id).await?;
            let target = crate::git_cache::tree::link_target(&file, &String::from_utf8_lossy(&target))?;
            match renderer.git.file(repo, commit, &target).await? {
                Some(content) => {
                    made.outside.push(target);
                    content
                }
                // A link to a folder is not walked, as upstream does not; a dangling one has nothing to say.
                None => continue,
            }
        } else {
            renderer.git.blob(repo, &entry.id).await?
        };
        bytes_read += content.len();
        if bytes_read > renderer.limits.input_bytes {
            return Err(RenderError::TooLarge {
                what: format!("the manifests in `{}`", request.path),
                limit: format!("{} bytes", renderer.limits.input_bytes),
            });
        }
        match manifest::read_file(&file, &content) {
            Ok(objects) => made.objects.extend(objects),
            Err(more) => findings.extend(more),
        }
    }
    if findings.is_empty() { Ok(made) } else { Err(RenderError::Findings(findings)) }
}

fn pattern(name: &str, text: &str) -> Result<Option<Glob>, RenderError> {
    if text.is_empty() {
        return Ok(None);
    }
    Glob::new(text).map(Some).ok_or_else(|| RenderError::Options {
        message: format!(
            "directory.{name} `{text}` is not a readable pattern; close its braces and brackets"
        ),
    })
}

/// `path` as the beginning of a file name; "" for the root.
pub(super) fn folder_prefix(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.is_empty() { String::new() } else { format!("{}/", parts.join("/")) }
}
