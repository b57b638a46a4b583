//! Kustomize by its binary, on exactly the files that the kustomization refers to.
//!
//! Options of the Application are edited into the kustomization, in a copy of it, by the commands that upstream runs
//! ([`edit`]): an image of the options takes the place of the same image in the file, a prefix that of another prefix.
//! Remote bases and plugins stay off, and charts unless the operator switches them on. The cage sees to it that nothing
//! is fetched or run; [`kustomization`] says it in words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_yaml::{Dialect, Node};

use super::workspace::{self, With, Workspace};
use super::{
    Files, Finding, Made, RenderError, RenderRequest, Renderer, SourceKind, edit, environment, inflation,
    kustomization, manifest,
};
use crate::git::EntryKind;

pub(super) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Kustomize {
    pub name_prefix: String,
    pub name_suffix: String,
    pub namespace: String,
    /// `[old=]name[:tag|@digest]`
    pub images: Vec<String>,
    pub common_labels: BTreeMap<String, String>,
    /// A label that the kustomization has already gets the new value; without this it is an error.
    pub force_common_labels: bool,
    pub label_without_selector: bool,
    pub label_include_templates: bool,
    pub common_annotations: BTreeMap<String, String>,
    pub force_common_annotations: bool,
    /// `$ARGOCD_APP_NAME` and its relatives in the annotations' values.
    pub annotations_with_variables: bool,
    /// Name and count.
    pub replicas: Vec<(String, i64)>,
    /// As in a kustomization.
    pub patches: Vec<Value>,
    /// Paths relative to the source folder.
    pub components: Vec<String>,
    pub ignore_missing_components: bool,
    /// What charts inside of kustomizations are told of the cluster; empty: what it is.
    pub kube_version: String,
    pub api_versions: Vec<String>,
}

/// Which kustomize builds, and with what beside the folder.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub struct KustomizeTool {
    /// A program of the operator's choice; without one, the kustomize that is installed.
    pub program: Option<std::path::PathBuf>,
    pub build_options: Vec<String>,
}

pub(super) async fn render(
    renderer: &Renderer,
    request: &RenderRequest,
    options: &Kustomize,
) -> Result<Made, RenderError> {
    let source = workspace::join("", &request.path)?;
    let helm = inflation::arguments(renderer, request, options);
    let options = &present(renderer, request, &source, options).await?;
    let mut inputs = Inputs::default();
    inputs.gather(renderer, request, &source, options).await?;
    let workspace = Workspace::with(&inputs.files)?;
    edit::apply(&workspace, renderer, request, &source, options).await?;
    let target = workspace.path(&format!("repo/{source}")).display().to_string();
    let output = build(&workspace, renderer, request, target, &helm).await?;
    let objects =
        manifest::read_output("kustomize", &request.path, &output).map_err(RenderError::Findings)?;
    Ok(Made { kind: SourceKind::Kustomize, objects, outside: inputs.outside, asked: Default::default() })
}

async fn build(
    workspace: &Workspace,
    renderer: &Renderer,
    request: &RenderRequest,
    target: String,
    helm: &[String],
) -> Result<Vec<u8>, RenderError> {
    let KustomizeTool { program, build_options } = &request.kustomize;
    let arguments = |verb: &str| -> Vec<String> {
        let more = build_options.iter().chain(helm).cloned();
        [verb.to_owned(), target.clone()].into_iter().chain(more).collect()
    };
    let missing = |tool: &str, install: &str| RenderError::ToolMissing {
        tool: tool.to_owned(),
        path: request.path.clone(),
        install: install.to_owned(),
    };
    let run = async |tool: &str, verb: &str| {
        // With charts inside of it, it starts helm.
        let starts = (!helm.is_empty()).then(|| renderer.program("helm"));
        let with = With { starts, ..With::default() };
        workspace.run_in(renderer, request, "repo", tool, &arguments(verb), with).await
    };
    if let Some(program) = program {
        let program = program.display().to_string();
        return run(&program, "build").await?.ok_or_else(|| {
            missing(
                &program,
                "argocd-cm names it for this version of kustomize: put it there, or mend kustomize.path",
            )
        });
    }
    if let Some(output) = run("kustomize", "build").await? {
        return Ok(output);
    }
    // kubectl carries the same engine.
    run("kubectl", "kustomize").await?.ok_or_else(|| {
        missing("kustomize", "put kustomize 5 (or kubectl, which carries it) on the PATH of the runtime")
    })
}

/// The options with variables filled in, and without components that may be missing and are.
async fn present(
    renderer: &Renderer,
    request: &RenderRequest,
    source: &str,
    options: &Kustomize,
) -> Result<Kustomize, RenderError> {
    let mut options = options.clone();
    for text in options.images.iter_mut().chain(options.common_labels.values_mut()) {
        *text = environment::substitute(text, request);
    }
    if options.annotations_with_variables {
        for value in options.common_annotations.values_mut() {
            *value = environment::substitute(value, request);
        }
        options.annotations_with_variables = false;
    }
    if options.ignore_missing_components {
        let mut there = Vec::new();
        for path in std::mem::take(&mut options.components) {
            let place = workspace::join(source, &path)?;
            if request.content.entry(&renderer.git, &place).await?.is_some() {
                there.push(path);
            }
        }
        options.components = there;
        options.ignore_missing_components = false;
    }
    // They go to helm; nothing is edited for them.
    options.kube_version.clear();
    options.api_versions.clear();
    Ok(options)
}

/// Which files of the repository the build reads.
#[derive(Default)]
struct Inputs {
    files: Files,
    /// Folders that were added whole.
    folders: Vec<String>,
    outside: Vec<String>,
}

impl Inputs {
    async fn gather(
        &mut self,
        renderer: &Renderer,
        request: &RenderRequest,
        source: &str,
        options: &Kustomize,
    ) -> Result<(), RenderError> {
        self.add_folder(renderer, request, source, false).await?;
        let mut open = vec![source.to_owned()];
        let mut seen = open.clone();
        for path in &options.components {
            let path = workspace::join(source, path)?;
            self.add_folder(renderer, request, &path, true).await?;
            open.push(path);
        }
        for path in options.patches.iter().filter_map(|patch| patch.get("path")).filter_map(Value::as_str) {
            self.follow(renderer, request, source, path).await?;
        }
        let mut findings = Vec::new();
        while let Some(folder) = open.pop() {
            let prefix = super::directory::folder_prefix(&folder);
            let Some(file) =
                FILE_NAMES.iter().map(|name| format!("{prefix}{name}")).find(|f| self.files.contains_key(f))
            else {
                continue;
            };
            let text = slipway_yaml::decode(&self.files[&file])
                .map_err(|error| RenderError::Findings(vec![finding(&file, &error)]))?
                .into_owned();
            let documents = slipway_yaml::parse(&text, Dialect::Kubernetes).map_err(|errors| {
                RenderError::Findings(errors.iter().map(|error| finding(&file, error)).collect())
            })?;
            for document in &documents {
                let charts = inflation::is_on(&request.kustomize);
                findings.extend(kustomization::refused(&file, document, charts));
                if charts {
                    for (path, absent) in inflation::charts(&file, document, &mut findings) {
                        let found = self.follow(renderer, request, &folder, &path).await?;
                        if !matches!(found, Followed::Folder(_)) {
                            findings.push(absent);
                        }
                    }
                }
                for reference in references(document) {
                    match self.follow(renderer, request, &folder, reference.text).await? {
                        Followed::File if reference.configures => {
                            self.follow_configuration(renderer, request, &folder, reference.text).await?;
                        }
                        Followed::Folder(path) if !seen.contains(&path) => {
                            seen.push(path.clone());
                            open.push(path);
                        }
                        Followed::Missing if reference.required => findings.push(Finding {
                            file: file.clone(),
                            line: reference.line,
                            column: reference.column,
                            message: format!(
                                "`{}` is not in the repository at this revision; remote bases are not fetched, \
                                 commit what is needed",
                                reference.text
                            ),
                        }),
                        _ => {}
                    }
                }
            }
        }
        if findings.is_empty() { Ok(()) } else { Err(RenderError::Findings(findings)) }
    }

    /// What the file of a built-in generator or transformer names, relative to the kustomization that lists it.
    async fn follow_configuration(
        &mut self,
        renderer: &Renderer,
        request: &RenderRequest,
        folder: &str,
        text: &str,
    ) -> Result<(), RenderError> {
        let Ok(path) = workspace::join(folder, text) else { return Ok(()) };
        let Some(text) = self.files.get(&path).and_then(|bytes| slipway_yaml::decode(bytes).ok()) else {
            return Ok(());
        };
        // What is wrong with it, kustomize says better.
        let Ok(documents) = slipway_yaml::parse(&text, Dialect::Kubernetes) else { return Ok(()) };
        let named: Vec<String> =
            documents.iter().flat_map(references).map(|reference| reference.text.to_owned()).collect();
        for text in named {
            self.follow(renderer, request, folder, &text).await?;
        }
        Ok(())
    }

    async fn follow(
        &mut self,
        renderer: &Renderer,
        request: &RenderRequest,
        folder: &str,
        text: &str,
    ) -> Result<Followed, RenderError> {
        if text.contains("://") || text.contains('\n') || text.contains('\\') || text.starts_with('/') {
            return Ok(Followed::Missing);
        }
        let Ok(path) = workspace::join(folder, text) else { return Ok(Followed::Missing) };
        let entry = request.content.entry(&renderer.git, &path).await?;
        match entry.map(|entry| entry.kind) {
            Some(EntryKind::Folder) => {
                self.add_folder(renderer, request, &path, true).await?;
                Ok(Followed::Folder(path))
            }
            Some(EntryKind::File | EntryKind::Executable | EntryKind::Link) => {
                if !self.files.contains_key(&path)
                    && workspace::add_file(renderer, request, &path, &mut self.files).await?
                {
                    self.outside.push(path);
                }
                Ok(Followed::File)
            }
            _ => Ok(Followed::Missing),
        }
    }

    async fn add_folder(
        &mut self,
        renderer: &Renderer,
        request: &RenderRequest,
        path: &str,
        outside: bool,
    ) -> Result<(), RenderError> {
        let inside =
            |folder: &String| folder.is_empty() || path == folder || path.starts_with(&format!("{folder}/"));
        if self.folders.iter().any(inside) {
            return Ok(());
        }
        workspace::add_folder(renderer, request, path, &mut self.files, &mut self.outside).await?;
        self.folders.push(path.to_owned());
        if outside {
            self.outside.push(path.to_owned());
        }
        Ok(())
    }
}

enum Followed {
    Folder(String),
    File,
    Missing,
}

struct Reference<'a> {
    text: &'a str,
    required: bool,
    /// A file that says how a built-in plugin works.
    configures: bool,
    line: usize,
    column: usize,
}

/// Every text that may be a path. Only entries of these lists must exist; anywhere else a text may be anything.
fn references(document: &Node) -> Vec<Reference<'_>> {
    fn walk<'a>(node: &'a Node, (required, configures): (bool, bool), out: &mut Vec<Reference<'a>>) {
        if let Some(text) = node.as_str() {
            // `files:` entries of generators may be `key=path`.
            let path = if required { text } else { text.rsplit_once('=').map_or(text, |(_, path)| path) };
            if !path.is_empty() && path.len() < 1024 {
                let (line, column) = (node.span.line, node.span.column);
                out.push(Reference { text: path, required, configures, line, column });
            }
        }
        for item in node.items() {
            walk(item, (required, configures), out);
        }
        for (_, value) in node.entries() {
            walk(value, (false, false), out);
        }
    }
    let mut out = Vec::new();
    for (key, value) in document.entries() {
        let name = kustomization::folded(&key.key_text());
        let required = matches!(name.as_str(), "resources" | "bases" | "components");
        let configures = matches!(name.as_str(), "generators" | "transformers" | "validators");
        walk(value, (required, configures), &mut out);
    }
    out
}

fn finding(file: &str, error: &slipway_yaml::YamlError) -> Finding {
    Finding { file: file.to_owned(), line: error.line, column: error.column, message: error.message.clone() }
}
