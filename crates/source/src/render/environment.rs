//! What a source may say about its Application: `$ARGOCD_APP_NAME` and its relatives, and `$name/…` of other sources.

use super::{Content, RenderRequest, SourceOptions};

/// Every variable with its value.
pub(super) fn variables(request: &RenderRequest) -> Vec<(&'static str, String)> {
    let short = |length: usize| request.revision.chars().take(length).collect::<String>();
    vec![
        ("ARGOCD_APP_NAME", request.application.clone()),
        ("ARGOCD_APP_NAMESPACE", request.namespace.clone()),
        ("ARGOCD_APP_PROJECT_NAME", request.project.clone()),
        ("ARGOCD_APP_REVISION", request.revision.clone()),
        ("ARGOCD_APP_REVISION_SHORT", short(7)),
        ("ARGOCD_APP_REVISION_SHORT_8", short(8)),
        ("ARGOCD_APP_SOURCE_REPO_URL", request.repo_url.clone()),
        ("ARGOCD_APP_SOURCE_PATH", request.path.clone()),
        ("ARGOCD_APP_SOURCE_TARGET_REVISION", request.target_revision.clone()),
    ]
}

/// `$NAME` and `${NAME}` replaced, `$$` a dollar; what is not known is empty, as a shell has it.
pub(super) fn substitute(text: &str, request: &RenderRequest) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let variables = variables(request);
    let value =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map_or("", |(_, v)| v.as_str());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            out.push_str(value(name));
            rest = after;
        } else {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            if end == 0 {
                out.push('$');
            } else {
                out.push_str(value(&rest[..end]));
            }
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    out
}

/// Changes when what the variables hold may change the result. The revision changes with every commit, so only
/// those who speak of it depend on it.
pub(super) fn fingerprint(request: &RenderRequest) -> String {
    let text = serde_json::to_string(&request.options).expect("options are plain data");
    let speaks =
        matches!(request.options, SourceOptions::Plugin(_) | SourceOptions::Detect) || text.contains('$');
    if !speaks {
        return String::new();
    }
    let with_revision =
        matches!(request.options, SourceOptions::Plugin(_)) || text.contains("ARGOCD_APP_REVISION");
    let parts: Vec<String> = variables(request)
        .into_iter()
        .filter(|(name, _)| with_revision || !name.starts_with("ARGOCD_APP_REVISION"))
        .map(|(_, value)| value)
        .collect();
    super::digest(parts.iter().map(String::as_str))
}

/// `$name/path` → the other source's files and the path in them.
pub(super) fn reference<'a>(request: &'a RenderRequest, text: &'a str) -> Option<(&'a Content, &'a str)> {
    let (name, path) = text.strip_prefix('$')?.split_once('/')?;
    Some((request.references.get(name)?, path))
}
