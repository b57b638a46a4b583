//! Helm by its binary: a chart of the repository or a packaged one, with value files of its own and of other
//! sources (`$ref`), and inline values. Dependencies are fetched here, so that Helm itself needs no network.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_yaml::{Dialect, Node};

use super::lookup::Desk;
use super::workspace::{self, With, Workspace};
use super::{
    Files, Made, RenderError, RenderRequest, Renderer, SourceKind, environment, manifest, parameters,
};
use crate::git::{EntryKind, Since};
use slipway_dialect::glob::Glob;

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
    /// Credentials of a chart repository go to whatever host its index names.
    pub pass_credentials: bool,
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
    let dependencies = dependencies(renderer, request, &chart, options, &mut files, &mut outside).await?;
    let build = dependencies.build;
    let mut value_files = Vec::new();
    for text in &options.value_files {
        let text = match text.starts_with('$') && environment::reference(request, text).is_some() {
            true => text.clone(),
            false => environment::substitute(text, request),
        };
        let found = add_value_files(renderer, request, &chart, &text, options, &mut files).await?;
        for (place, outer) in found {
            outside.extend(outer);
            // A file that is also listed by name keeps that place.
            if !value_files.contains(&place) {
                value_files.push(place);
            }
        }
    }
    let mut set_files = Vec::new();
    for (name, text) in &options.file_parameters {
        let text = environment::substitute(text, request);
        let path = workspace::join(&chart, &text)?;
        let content = request.content.file(&renderer.git, &path).await?.ok_or_else(|| missing(&text))?;
        outside.push(path);
        set_files.push((name.clone(), content));
    }
    dependencies.extend_into(&chart, &mut files);
    let settings = parameters::settings(&substituted(request, options), set_files)?;
    let mut workspace = Workspace::with(&files)?;
    let mut arguments: Vec<String> = vec!["template".into()];
    arguments.extend(words(request, options)?);
    // Helm reads several files from one word with commas, so that it gets names of ours alone.
    for (index, path) in value_files.iter().enumerate() {
        let own = format!("own/values-{index}.yaml");
        workspace.write(&own, &files[path])?;
        workspace.show_as(&own, path);
        arguments.push(format!("--values=../{own}"));
    }
    if let Some(inline) = inline_values(options) {
        // Last, so that it wins over the files.
        workspace.write("own/values.yaml", inline.as_bytes())?;
        arguments.push("--values=../own/values.yaml".to_owned());
    }
    for (name, content) in &settings.files {
        workspace.write(&format!("own/{name}"), content)?;
    }
    arguments.extend(settings.arguments);
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
    let place = workspace.path(&format!("repo/{chart}")).display().to_string();
    if build {
        let arguments =
            ["dependency".into(), "build".into(), "--skip-refresh".into(), "--".into(), place.clone()];
        workspace.run(renderer, request, "helm", &arguments).await?.ok_or_else(absent)?;
    }
    let read = |output: Option<Vec<u8>>| {
        let output = output.ok_or_else(absent)?;
        manifest::read_output("helm", &request.path, &output).map_err(RenderError::Findings)
    };
    // What follows `--` is no option, whatever it begins with.
    let names = ["--".to_owned(), release_name(request, options), place];
    let Some(lookup) = &request.lookup else {
        arguments.extend(names);
        let objects = workspace.run(renderer, request, "helm", &arguments).await.and_then(read)?;
        return Ok(Made { kind: SourceKind::Helm, objects, outside, asked: Default::default() });
    };
    let desk = Desk::open(lookup.clone())?;
    let config = workspace.write("own/kubeconfig", desk.kubeconfig().as_bytes())?;
    let variables = [("KUBECONFIG".to_owned(), config.display().to_string())];
    // Without this helm's `lookup` asks nobody; it asks for nothing else.
    arguments.push("--dry-run=server".into());
    arguments.extend(names);
    let with = With { variables: &variables, network: Some(desk.network()), ..With::default() };
    let outcome = workspace.run_in(renderer, request, "repo", "helm", &arguments, with).await;
    let (objects, asked) = desk.close(outcome.and_then(read))?;
    Ok(Made { kind: SourceKind::Helm, objects, outside, asked })
}

/// The parameters with variables filled in.
fn substituted(request: &RenderRequest, options: &Helm) -> Vec<HelmParameter> {
    let filled = |parameter: &HelmParameter| HelmParameter {
        value: environment::substitute(&parameter.value, request),
        ..parameter.clone()
    };
    options.parameters.iter().map(filled).collect()
}

/// What helm is told of the cluster, each in one word with its option.
fn words(request: &RenderRequest, options: &Helm) -> Result<Vec<String>, RenderError> {
    fn or<'a>(one: &'a str, other: &'a str) -> &'a str {
        if one.is_empty() { other } else { one }
    }
    let mut words = Vec::new();
    for (option, what, text) in [
        ("--namespace", "namespace", or(&options.namespace, &request.namespace)),
        ("--kube-version", "version of Kubernetes", or(&options.kube_version, &request.kube_version)),
    ] {
        parameters::check_word(what, text)?;
        words.extend((!text.is_empty()).then(|| format!("{option}={text}")));
    }
    let apis = if options.api_versions.is_empty() { &request.api_versions } else { &options.api_versions };
    for api in apis {
        parameters::check_word("version of an API", api)?;
        words.push(format!("--api-versions={api}"));
    }
    Ok(words)
}

fn release_name(request: &RenderRequest, options: &Helm) -> String {
    let name = if options.release_name.is_empty() { &request.application } else { &options.release_name };
    name.trim_start_matches('-').to_owned()
}

/// Brings a value file, or all that a pattern names. Gives each file's place in the workspace and, if it stands
/// outside of the chart, what the result depends on through it.
async fn add_value_files(
    renderer: &Renderer,
    request: &RenderRequest,
    chart: &str,
    text: &str,
    options: &Helm,
    files: &mut Files,
) -> Result<Vec<(String, Option<String>)>, RenderError> {
    if text.contains("://") || text.contains(":/") {
        let message =
            format!("value file `{text}` is an address; remote value files are off here, commit the file");
        return Err(RenderError::Options { message });
    }
    if text.starts_with('$') {
        let Some((content, path)) = environment::reference(request, text) else {
            let message = format!("value file `{text}` names no `ref` of this application's sources");
            return Err(RenderError::Options { message });
        };
        let path = workspace::join("", path)?;
        return match content.file(&renderer.git, &path).await? {
            Some(bytes) => {
                let name = text.trim_start_matches('$').split('/').next().unwrap_or_default();
                let place = format!(".slipway-ref/{name}/{path}");
                files.insert(place.clone(), bytes);
                Ok(vec![(place, Some(format!("${name}/{path}")))])
            }
            None if options.ignore_missing_value_files => Ok(Vec::new()),
            None => Err(missing(text)),
        };
    }
    let path = workspace::join(chart, text)?;
    let outer = |path: &str| (!path.starts_with(&format!("{chart}/"))).then(|| path.to_owned());
    if path.contains(['*', '?', '[', '{']) {
        let unreadable =
            || RenderError::Options { message: format!("value file `{text}` is not a readable pattern") };
        let glob = Glob::new(&path).ok_or_else(unreadable)?;
        let tree = request.content.tree(&renderer.git, "", true).await?;
        let is_file =
            |kind: EntryKind| matches!(kind, EntryKind::File | EntryKind::Executable | EntryKind::Link);
        let fitting = tree.entries.iter().filter(|(path, entry)| is_file(entry.kind) && glob.matches(path));
        let mut found = Vec::new();
        for (path, _) in fitting {
            workspace::add_file(renderer, request, path, files).await?;
            found.push((path.clone(), outer(path)));
        }
        if found.is_empty() && !options.ignore_missing_value_files {
            return Err(missing(text));
        }
        return Ok(found);
    }
    if files.contains_key(&path) || workspace::add_file(renderer, request, &path, files).await? {
        let outer = outer(&path);
        return Ok(vec![(path, outer)]);
    }
    if options.ignore_missing_value_files { Ok(Vec::new()) } else { Err(missing(text)) }
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

/// What a chart needs besides its own files.
#[derive(Default)]
struct Dependencies {
    /// `helm dependency build` has to put local ones into place first.
    build: bool,
    /// Opened archives, by the dependency's name.
    charts: Vec<(String, std::sync::Arc<crate::chart::Archive>)>,
    /// Folders of this repository, and where they are copied to.
    copies: Vec<(String, String)>,
}

impl Dependencies {
    fn extend_into(&self, chart: &str, files: &mut Files) {
        for (index, (name, archive)) in self.charts.iter().enumerate() {
            // The same chart may be needed twice, under two aliases and in two versions; the folder's name says nothing.
            for (path, content) in &archive.files {
                let place =
                    format!("{chart}/charts/{name}-{index}/{path}").trim_start_matches('/').to_owned();
                files.insert(place, content.clone());
            }
        }
        for (from, to) in &self.copies {
            let below = format!("{from}/");
            let inside: Vec<(String, Vec<u8>)> = files
                .iter()
                .filter_map(|(path, content)| Some((path.strip_prefix(&below)?.to_owned(), content.clone())))
                .collect();
            files.extend(inside.into_iter().map(|(path, content)| (format!("{to}/{path}"), content)));
        }
    }
}

/// Whether something outside that a render depends on is a chart repository: no path inside of a source has two slashes.
pub(super) fn is_repository(outside: &str) -> bool {
    outside.contains("://")
}

/// Brings charts that `dependencies` of Chart.yaml (or requirements.yaml) names: from this repository, or packaged ones.
async fn dependencies(
    renderer: &Renderer,
    request: &RenderRequest,
    chart: &str,
    options: &Helm,
    files: &mut Files,
    outside: &mut Vec<String>,
) -> Result<Dependencies, RenderError> {
    let mut needed = Dependencies::default();
    let file = |files: &Files, name: &str| {
        let bytes = files.get(format!("{chart}/{name}").trim_start_matches('/'))?;
        let text = slipway_yaml::decode(bytes).ok()?.into_owned();
        // What is wrong with the chart's own file, Helm says better.
        slipway_yaml::parse(&text, Dialect::Kubernetes).ok()?.into_iter().next()
    };
    let Some(mut description) = file(files, "Chart.yaml") else { return Ok(needed) };
    let mut lock = file(files, "Chart.lock");
    let text = |node: &Node, name: &str| node.get(name).and_then(Node::as_str).unwrap_or_default().to_owned();
    // Charts of the first API have their dependencies in a file of their own.
    if text(&description, "apiVersion") == "v1"
        && let Some(requirements) = file(files, "requirements.yaml")
    {
        description = requirements;
        lock = file(files, "requirements.lock");
    }
    let all: Vec<&Node> = description.get("dependencies").into_iter().flat_map(Node::items).collect();
    let local = |dependency: &Node| text(dependency, "repository").starts_with("file://");
    // Helm puts charts of this repository into place; where others come from elsewhere, it would ask for those too.
    let mixed = all.iter().any(|dependency| local(dependency))
        && all.iter().any(|dependency| !local(dependency) && !text(dependency, "repository").is_empty());
    for dependency in all {
        let (name, repository) = (text(dependency, "name"), text(dependency, "repository"));
        let vendored = format!("{chart}/charts/{name}");
        let vendored = vendored.trim_start_matches('/');
        let is_there =
            |path: &String| path.strip_prefix(vendored).is_some_and(|rest| rest.starts_with(['/', '-']));
        if files.keys().any(is_there) {
            continue;
        }
        if let Some(relative) = repository.strip_prefix("file://") {
            let path = workspace::join(chart, relative)?;
            workspace::add_folder(renderer, request, &path, files, outside).await?;
            outside.push(path.clone());
            if mixed {
                needed.copies.push((path, format!("{vendored}-{}", needed.copies.len())));
            } else {
                needed.build = true;
            }
            continue;
        }
        let may = (request.repositories.0)(&repository).filter(|_| repository.contains("://"));
        let (Some(from), Some(charts)) = (may, &renderer.charts) else {
            return Err(RenderError::Options {
                message: format!(
                    "chart dependency `{name}` comes from `{repository}`, which this project may not ask; permit it \
                     in sourceRepos, or run `helm dependency update` and commit the charts folder"
                ),
            });
        };
        outside.push(repository);
        // What was locked is what was tested.
        let locked = lock.iter().flat_map(|lock| lock.get("dependencies")).flat_map(Node::items);
        let locked = locked.into_iter().find(|entry| text(entry, "name") == name).map(|e| text(e, "version"));
        let wanted = locked.unwrap_or_else(|| text(dependency, "version"));
        let since = Since::Within(std::time::Duration::from_secs(300));
        let since = if request.fresh { Since::now() } else { since };
        let version = charts.resolve(&from, &name, &wanted, since).await?;
        if request.fresh {
            charts.forget(&from, &name, &version);
        }
        let archive = charts.archive(&from, &name, &version, options.pass_credentials).await?;
        needed.charts.push((name, archive));
    }
    Ok(needed)
}
