//! Helm by its binary: a chart in the repository, with value files of the repository and inline values.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_yaml::{Dialect, Node};

use super::workspace::{self, Workspace};
use super::{Files, Made, RenderError, RenderRequest, Renderer, SourceKind, manifest};

#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Helm {
    pub release_name: String,
    pub namespace: String,
    /// Relative to the chart, or from the repository's root with `/`.
    pub value_files: Vec<String>,
    pub ignore_missing_value_files: bool,
    /// YAML text.
    pub values: String,
    /// Wins over `values`.
    pub values_object: Option<Value>,
    pub parameters: Vec<HelmParameter>,
    /// Name and path.
    pub file_parameters: Vec<(String, String)>,
    pub skip_crds: bool,
    pub skip_tests: bool,
    pub skip_schema_validation: bool,
    pub kube_version: String,
    pub api_versions: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct HelmParameter {
    pub name: String,
    pub value: String,
    pub force_string: bool,
}

pub(super) async fn render(
    renderer: &Renderer,
    request: &RenderRequest,
    options: &Helm,
) -> Result<Made, RenderError> {
    let chart = workspace::join("", &request.path)?;
    let mut files = Files::new();
    let mut outside = Vec::new();
    workspace::add_folder(renderer, request, &chart, &mut files, &mut outside).await?;
    let build = local_dependencies(renderer, request, &chart, &mut files, &mut outside).await?;
    let mut value_files = Vec::new();
    for text in &options.value_files {
        if let Some(path) = add_value_file(renderer, request, &chart, text, options, &mut files).await? {
            if !path.starts_with(&format!("{chart}/")) {
                outside.push(path.clone());
            }
            value_files.push(path);
        }
    }
    let mut set_files = Vec::new();
    for (name, text) in &options.file_parameters {
        let path = workspace::join(&chart, text)?;
        if !workspace::add_file(renderer, request, &path, &mut files).await? {
            return Err(missing(text));
        }
        outside.push(path.clone());
        set_files.push((name.clone(), path));
    }
    let workspace = Workspace::with(&files)?;
    let repo = |path: &str| workspace.path(&format!("repo/{path}")).display().to_string();
    let mut arguments: Vec<String> = vec!["template".into(), release_name(request, options), repo(&chart)];
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    let namespace = if options.namespace.is_empty() { &request.namespace } else { &options.namespace };
    if !namespace.is_empty() {
        add("--namespace", namespace.clone());
    }
    let kube = if options.kube_version.is_empty() { &request.kube_version } else { &options.kube_version };
    if !kube.is_empty() {
        add("--kube-version", kube.clone());
    }
    let apis = if options.api_versions.is_empty() { &request.api_versions } else { &options.api_versions };
    for api in apis {
        add("--api-versions", api.clone());
    }
    for path in &value_files {
        add("--values", repo(path));
    }
    if let Some(inline) = inline_values(options) {
        // Last, so that it wins over the files.
        let path = workspace.write("own/values.yaml", inline.as_bytes())?;
        add("--values", path.display().to_string());
    }
    for parameter in &options.parameters {
        let flag = if parameter.force_string { "--set-string" } else { "--set" };
        add(flag, format!("{}={}", parameter.name, escape_commas(&parameter.value)));
    }
    for (name, path) in &set_files {
        add("--set-file", format!("{name}={}", repo(path)));
    }
    if !options.skip_crds {
        arguments.push("--include-crds".into());
    }
    if options.skip_tests {
        arguments.push("--skip-tests".into());
    }
    if options.skip_schema_validation {
        arguments.push("--skip-schema-validation".into());
    }
    let absent = || RenderError::ToolMissing {
        tool: "helm".to_owned(),
        path: request.path.clone(),
        install: "put helm 3 on the PATH of the runtime".to_owned(),
    };
    if build {
        let arguments = ["dependency".into(), "build".into(), "--skip-refresh".into(), repo(&chart)];
        workspace.run(renderer, request, "helm", &arguments).await?.ok_or_else(absent)?;
    }
    let output = workspace.run(renderer, request, "helm", &arguments).await?.ok_or_else(absent)?;
    let objects = manifest::read_output("helm", &request.path, &output).map_err(RenderError::Findings)?;
    Ok(Made { kind: SourceKind::Helm, objects, outside })
}

fn release_name(request: &RenderRequest, options: &Helm) -> String {
    let name = if options.release_name.is_empty() { &request.application } else { &options.release_name };
    // Helm would take a leading dash for an option.
    name.trim_start_matches('-').to_owned()
}

async fn add_value_file(
    renderer: &Renderer,
    request: &RenderRequest,
    chart: &str,
    text: &str,
    options: &Helm,
    files: &mut Files,
) -> Result<Option<String>, RenderError> {
    if text.contains("://") || text.contains(":/") || text.starts_with('$') {
        return Err(RenderError::Options {
            message: format!(
                "value file `{text}` is not a path in this repository; remote value files and `$ref` are off here"
            ),
        });
    }
    let path = workspace::join(chart, text)?;
    if files.contains_key(&path) || workspace::add_file(renderer, request, &path, files).await? {
        return Ok(Some(path));
    }
    if options.ignore_missing_value_files { Ok(None) } else { Err(missing(text)) }
}

fn missing(text: &str) -> RenderError {
    RenderError::Options {
        message: format!("`{text}` is not in the repository at this revision; correct the path"),
    }
}

fn inline_values(options: &Helm) -> Option<String> {
    match &options.values_object {
        // JSON is YAML.
        Some(values) => Some(values.to_string()),
        None => (!options.values.trim().is_empty()).then(|| options.values.clone()),
    }
}

/// Helm splits `--set` at commas, except inside `{}`.
fn escape_commas(value: &str) -> String {
    if value.starts_with('{') && value.ends_with('}') {
        return value.to_owned();
    }
    let mut out = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        if c == ',' && !escaped {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}

/// Brings charts that `file://` dependencies name; `true`: `helm dependency build` is needed first.
async fn local_dependencies(
    renderer: &Renderer,
    request: &RenderRequest,
    chart: &str,
    files: &mut Files,
    outside: &mut Vec<String>,
) -> Result<bool, RenderError> {
    let Some(text) = files.get(&format!("{chart}/Chart.yaml").trim_start_matches('/').to_owned()) else {
        return Ok(false);
    };
    let text = slipway_yaml::decode(text).map(|text| text.into_owned()).unwrap_or_default();
    // What is wrong with the chart's own file, Helm says better.
    let Ok(documents) = slipway_yaml::parse(&text, Dialect::Kubernetes) else { return Ok(false) };
    let mut build = false;
    let dependencies =
        documents.iter().filter_map(|document| document.get("dependencies")).flat_map(Node::items);
    for dependency in dependencies {
        let name = dependency.get("name").and_then(Node::as_str).unwrap_or_default();
        let repository = dependency.get("repository").and_then(Node::as_str).unwrap_or_default();
        let vendored = format!("{chart}/charts/{name}");
        let vendored = vendored.trim_start_matches('/');
        if files.keys().any(|path| path.starts_with(vendored)) {
            continue;
        }
        let Some(relative) = repository.strip_prefix("file://") else {
            return Err(RenderError::Options {
                message: format!(
                    "chart dependency `{name}` is not in `{vendored}`; run `helm dependency update` and commit \
                     the charts folder"
                ),
            });
        };
        let path = workspace::join(chart, relative)?;
        workspace::add_folder(renderer, request, &path, files, outside).await?;
        outside.push(path);
        build = true;
    }
    Ok(build)
}

#[cfg(test)]
mod tests {
    use super::escape_commas;

    #[test]
    fn commas_are_escaped_once() {
        for (value, expected) in [("a,b", "a\\,b"), ("a\\,b", "a\\,b"), ("{a,b}", "{a,b}"), ("x", "x")] {
            assert_eq!(escape_commas(value), expected);
        }
    }
}
