//! Files beside the manifests that change how they are rendered.

use serde_json::Value;
use slipway_crd::ApplicationSource;
use slipway_source::{Content, Renderer};

use super::SourceError;

/// `.argocd-source.yaml` and `.argocd-source-<application>.yaml` beside the manifests change how they are rendered,
/// never where they come from.
pub(super) async fn with_overrides(
    renderer: &Renderer,
    content: &Content,
    source: &ApplicationSource,
    application: &str,
) -> Result<ApplicationSource, SourceError> {
    let mut merged = None;
    for name in [".argocd-source.yaml".to_owned(), format!(".argocd-source-{application}.yaml")] {
        let path = format!("{}/{name}", source.path.trim_matches('/')).trim_start_matches('/').to_owned();
        let Some(bytes) = renderer.file(content, &path).await? else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let unreadable = |detail: String| SourceError::Spec(format!("{path} cannot be used: {detail}"));
        let documents = slipway_yaml::load_all_json(&text).map_err(|errors| {
            unreadable(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        let Some((patch, _)) = documents.into_iter().next() else { continue };
        let mut value = match merged.take() {
            Some(value) => value,
            None => serde_json::to_value(source).expect("a source is plain data"),
        };
        merge(&mut value, patch);
        let read: ApplicationSource =
            serde_json::from_value(value.clone()).map_err(|error| unreadable(error.to_string()))?;
        let kept = ApplicationSource {
            repo_url: source.repo_url.clone(),
            path: source.path.clone(),
            target_revision: source.target_revision.clone(),
            chart: source.chart.clone(),
            reference: source.reference.clone(),
            ..read
        };
        merged = Some(serde_json::to_value(kept).expect("a source is plain data"));
    }
    Ok(merged.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_else(|| source.clone()))
}

/// JSON merge patch.
fn merge(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = Value::Object(serde_json::Map::new());
            }
            for (name, value) in fields {
                if value.is_null() {
                    target.as_object_mut().expect("made one above").remove(&name);
                } else {
                    merge(&mut target[name.as_str()], value);
                }
            }
        }
        other => *target = other,
    }
}
