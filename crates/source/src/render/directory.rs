//! Plain files: `.yaml`, `.yml` and `.json` straight from git's object store, and `.jsonnet` by its program.

use super::{Directory, Made, RenderError, RenderRequest, Renderer, SourceKind, jsonnet, manifest};
use crate::git::EntryKind;
use slipway_dialect::glob::Glob;

pub(super) async fn render(
    renderer: &Renderer,
    request: &RenderRequest,
    options: &Directory,
) -> Result<Made, RenderError> {
    let include = pattern("include", &options.include)?;
    let exclude = pattern("exclude", &options.exclude)?;
    let (content_of, git) = (&request.content, &renderer.git);
    let tree = content_of.tree(git, &request.path, options.recurse).await?;
    let prefix = folder_prefix(&request.path);
    let mut made = Made {
        kind: SourceKind::Directory,
        objects: Vec::new(),
        outside: Vec::new(),
        asked: Default::default(),
    };
    let mut findings = Vec::new();
    let mut bytes_read = 0;
    for (path, entry) in &tree.entries {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let wanted = (options.any_extension || matches!(extension, "yaml" | "yml" | "json" | "jsonnet"))
            && include.as_ref().is_none_or(|glob| glob.matches(path))
            && !exclude.as_ref().is_some_and(|glob| glob.matches(path));
        if !wanted || entry.kind == EntryKind::Submodule {
            continue;
        }
        let file = format!("{prefix}{path}");
        if extension == "jsonnet" {
            match jsonnet::render(renderer, request, &options.jsonnet, &file, &mut made.outside).await {
                Ok(objects) => made.objects.extend(objects),
                Err(RenderError::Findings(more)) => findings.extend(more),
                Err(error) => return Err(error),
            }
            continue;
        }
        let content = if entry.kind == EntryKind::Link {
            let target = content_of.blob(git, &entry.id).await?;
            let target = crate::git::mirror::tree::link_target(&file, &String::from_utf8_lossy(&target))?;
            match content_of.file(git, &target).await? {
                Some(content) => {
                    made.outside.push(target);
                    content
                }
                // A link to a folder is not walked, as upstream does not; a dangling one has nothing to say.
                None => continue,
            }
        } else {
            content_of.blob(git, &entry.id).await?
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
