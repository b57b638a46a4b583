//! Config-management plugins: a program of the operator's choice makes the manifests.
//!
//! What runs is written in the operator's own `plugin.yaml`; a source only names it and passes values, which
//! travel as environment and never as a command line. The program sees a throw-away copy of the source's files, and of
//! this machine only what the operator wrote down for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_cage::Network;

use super::workspace::{self, With, Workspace};
use super::{Content, Files, Made, RenderError, RenderRequest, Renderer, SourceKind, environment, manifest};
use crate::git::EntryKind;
use slipway_dialect::glob::Glob;

/// What a source says about its plugin.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Plugin {
    /// `name` or `name-version`; empty: the one that recognises the files.
    pub name: String,
    pub env: Vec<(String, String)>,
    pub parameters: Vec<PluginParameter>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct PluginParameter {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<BTreeMap<String, String>>,
}

/// A plugin as its `plugin.yaml` describes it (`ConfigManagementPlugin`).
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct PluginSpec {
    /// With its version, as sources name it.
    pub name: String,
    init: Vec<String>,
    generate: Vec<String>,
    discover: Option<Discover>,
    preserve_file_mode: bool,
    /// The operator lets it use this machine's network.
    #[serde(default)]
    network: bool,
    /// Files and folders of this machine that it may read beside the system's programs.
    #[serde(default)]
    reads: Vec<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
enum Discover {
    File(String),
    Glob(String),
    Command(Vec<String>),
}

impl PluginSpec {
    /// Reads a `plugin.yaml`; every problem is named.
    pub fn parse(text: &str) -> Result<Self, String> {
        let documents = slipway_yaml::load_all_json(text)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let document = documents.into_iter().next().map(|(value, _)| value).unwrap_or_default();
        let mut problems = Vec::new();
        if document["kind"] != "ConfigManagementPlugin" {
            problems.push("kind must be ConfigManagementPlugin".to_owned());
        }
        let spec = &document["spec"];
        let mut name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            problems.push("metadata.name is missing".to_owned());
        }
        if let Some(version) = spec["version"].as_str().filter(|version| !version.is_empty()) {
            name = format!("{name}-{version}");
        }
        let generate = words(&spec["generate"]);
        if generate.is_empty() {
            problems.push("spec.generate.command is missing".to_owned());
        }
        let find = &spec["discover"]["find"];
        let discover = if let Some(file) = spec["discover"]["fileName"].as_str() {
            Some(Discover::File(file.to_owned()))
        } else if let Some(glob) = find["glob"].as_str() {
            Some(Discover::Glob(glob.to_owned()))
        } else {
            Some(words(find)).filter(|words| !words.is_empty()).map(Discover::Command)
        };
        let preserve_file_mode = spec["preserveFileMode"] == true;
        let sandbox = &spec["sandbox"];
        let reads: Vec<PathBuf> = sandbox["read"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|path| path.as_str().map(PathBuf::from))
            .collect();
        for path in reads.iter().filter(|path| !path.is_absolute()) {
            problems.push(format!("spec.sandbox.read: `{}` is not an absolute path", path.display()));
        }
        if !problems.is_empty() {
            return Err(problems.join("; "));
        }
        let network = sandbox["network"] == true;
        let init = words(&spec["init"]);
        Ok(Self { name, init, generate, discover, preserve_file_mode, network, reads })
    }
}

/// `command` and `args` in one.
fn words(value: &Value) -> Vec<String> {
    let list = |name: &str| value[name].as_array().cloned().unwrap_or_default();
    let texts = list("command").into_iter().chain(list("args"));
    texts.filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

/// True when an installed plugin recognises the files of a source that names none.
pub(super) async fn discovers(renderer: &Renderer, request: &RenderRequest) -> Result<bool, RenderError> {
    let plugins = renderer.plugins();
    if plugins.is_empty() {
        return Ok(false);
    }
    Ok(find(renderer, request, &plugins).await?.is_some())
}

async fn find<'a>(
    renderer: &Renderer,
    request: &RenderRequest,
    plugins: &'a [PluginSpec],
) -> Result<Option<&'a PluginSpec>, RenderError> {
    let tree = request.content.tree(&renderer.git, &request.path, true).await?;
    for plugin in plugins {
        let matches = |pattern: &str| {
            let glob = Glob::new(pattern.trim_start_matches("./"));
            glob.is_some_and(|glob| tree.entries.keys().any(|path| glob.matches(path)))
        };
        let found = match &plugin.discover {
            None => false,
            Some(Discover::File(pattern) | Discover::Glob(pattern)) => matches(pattern),
            Some(Discover::Command(words)) => {
                let room = Room::make(renderer, request, plugin).await?;
                // It says yes by saying anything.
                !room.run(renderer, request, words, &[]).await?.trim_ascii().is_empty()
            }
        };
        if found {
            return Ok(Some(plugin));
        }
    }
    Ok(None)
}

pub(super) async fn render(
    renderer: &Renderer,
    request: &RenderRequest,
    options: &Plugin,
) -> Result<Made, RenderError> {
    let plugins = renderer.plugins();
    let plugin = if options.name.is_empty() {
        find(renderer, request, &plugins).await?
    } else {
        plugins.iter().find(|plugin| plugin.name == options.name)
    };
    let plugin = plugin.ok_or_else(|| {
        let known: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
        let wanted = if options.name.is_empty() { "for these files" } else { options.name.as_str() };
        RenderError::Options {
            message: format!(
                "there is no config-management plugin `{wanted}` (installed: {}); put its plugin.yaml into the \
                 folder that --plugins names",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ),
        }
    })?;
    let room = Room::make(renderer, request, plugin).await?;
    let variables = variables(request, options);
    if !plugin.init.is_empty() {
        room.run(renderer, request, &plugin.init, &variables).await?;
    }
    let output = room.run(renderer, request, &plugin.generate, &variables).await?;
    let objects =
        manifest::read_output(&plugin.name, &request.path, &output).map_err(RenderError::Findings)?;
    // The program may read anything of the repository, so the result depends on all of it.
    Ok(Made { kind: SourceKind::Plugin, objects, outside: vec![String::new()], asked: Default::default() })
}

fn variables(request: &RenderRequest, options: &Plugin) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> =
        environment::variables(request).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    out.push(("KUBE_VERSION".into(), request.kube_version.clone()));
    out.push(("KUBE_API_VERSIONS".into(), request.api_versions.join(",")));
    // The prefix keeps a source from setting PATH or LD_PRELOAD.
    for (name, value) in &options.env {
        out.push((format!("ARGOCD_ENV_{}", variable_name(name)), environment::substitute(value, request)));
    }
    let parameters = serde_json::to_string(&options.parameters).expect("parameters are plain data");
    out.push(("ARGOCD_APP_PARAMETERS".into(), parameters));
    for parameter in &options.parameters {
        let name = format!("PARAM_{}", variable_name(&parameter.name).to_uppercase());
        out.extend(parameter.string.iter().map(|value| (name.clone(), value.clone())));
        for (index, value) in parameter.array.iter().flatten().enumerate() {
            out.push((format!("{name}_{index}"), value.clone()));
        }
        for (key, value) in parameter.map.iter().flatten() {
            out.push((format!("{name}_{}", variable_name(key).to_uppercase()), value.clone()));
        }
    }
    // The system carries no zero byte in a variable.
    out.retain(|(_, value)| !value.contains('\0'));
    out
}

fn variable_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The copy that one plugin works in.
struct Room<'a> {
    workspace: Workspace,
    plugin: &'a PluginSpec,
}

impl<'a> Room<'a> {
    async fn make(
        renderer: &Renderer,
        request: &RenderRequest,
        plugin: &'a PluginSpec,
    ) -> Result<Self, RenderError> {
        let mut files = Files::new();
        workspace::add_folder(renderer, request, "", &mut files, &mut Vec::new()).await?;
        let workspace = Workspace::with(&files)?;
        if plugin.preserve_file_mode {
            let tree = request.content.tree(&renderer.git, "", true).await?;
            for (path, entry) in &tree.entries {
                if entry.kind == EntryKind::Executable {
                    workspace.make_executable(&format!("repo/{path}"))?;
                }
            }
        }
        Ok(Self { workspace, plugin })
    }

    async fn run(
        &self,
        renderer: &Renderer,
        request: &RenderRequest,
        words: &[String],
        variables: &[(String, String)],
    ) -> Result<Vec<u8>, RenderError> {
        let folder = workspace::join("", &request.path)?;
        let (program, arguments) = words.split_first().expect("a command has a first word");
        // Files that somebody sent are nobody's who may push: what the operator allows is not for them.
        let sent = matches!(request.content, Content::Archive(_));
        let with = With {
            variables,
            network: (self.plugin.network && !sent).then_some(Network::Host),
            reads: if sent { Vec::new() } else { self.plugin.reads.clone() },
            // A repository's own scripts may be part of how its plugin works.
            runnable: true,
            starts: None,
        };
        let folder = format!("repo/{folder}");
        let output = self.workspace.run_in(renderer, request, &folder, program, arguments, with).await?;
        output.ok_or_else(|| RenderError::ToolMissing {
            tool: program.clone(),
            path: request.path.clone(),
            install: format!("the plugin `{}` needs it on the PATH of the runtime", self.plugin.name),
        })
    }
}
