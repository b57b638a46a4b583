//! `slipway appset`: what an ApplicationSet would make, without a cluster and without a network.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::Value;
use slipway_crd::ApplicationSet;
use slipway_gitops::appset::{Answer, Answers, ClusterEntry, Need, generate};

use super::output::Format;

/// A folder that is read as a repository may hold so many files.
const FILES_MAX: usize = 100_000;
/// Questions follow from answers only so often.
const ROUNDS_MAX: usize = 8;

#[derive(clap::Subcommand)]
pub(crate) enum AppsetCommand {
    /// Print the Applications that the ApplicationSets of a file would create; changes nothing
    Generate(GenerateArguments),
}

#[derive(clap::Args)]
pub(crate) struct GenerateArguments {
    /// The file with the ApplicationSets; `-` is standard input
    #[arg(short, long)]
    file: PathBuf,
    /// Folder to use as the repository of every git generator
    #[arg(long)]
    git_tree: Option<PathBuf>,
    /// A file with clusters: Argo CD's cluster Secrets, or a list of {name, server, project, labels, annotations}
    #[arg(long)]
    clusters: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

pub(crate) fn run(command: &AppsetCommand) -> anyhow::Result<ExitCode> {
    let AppsetCommand::Generate(arguments) = command;
    let documents = read_documents(&arguments.file)?;
    let sets: Vec<&Value> =
        documents.iter().filter(|document| document["kind"] == "ApplicationSet").collect();
    if sets.is_empty() {
        bail!("there is no ApplicationSet in {}", arguments.file.display());
    }
    let clusters = match &arguments.clusters {
        Some(path) => read_documents(path)?.iter().flat_map(entries).collect(),
        None => Vec::new(),
    };
    let mut good = true;
    let mut made = Vec::new();
    for document in sets {
        let name = document["metadata"]["name"].as_str().unwrap_or("?");
        let set: ApplicationSet = serde_json::from_value(document.clone())
            .with_context(|| format!("the ApplicationSet {name} cannot be read"))?;
        match applications(&set, &clusters, arguments.git_tree.as_deref())? {
            Ok((applications, notes)) => {
                made.extend(applications);
                for note in notes {
                    note!("note: ApplicationSet {name}: {note}");
                }
            }
            Err(message) => {
                note!("error: ApplicationSet {name}: {message}");
                good = false;
            }
        }
    }
    print(&made, arguments.output)?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(applications: &[Value], format: Format) -> anyhow::Result<()> {
    if format == Format::Yaml {
        // One document each, as kubectl takes them.
        let documents: Vec<String> = applications.iter().map(slipway_yaml::to_yaml).collect();
        say!("{}", documents.join("---\n").trim_end());
        return Ok(());
    }
    let row = |application: &Value| {
        let text =
            |place: &str| application.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
        let server = text("/spec/destination/server");
        let cluster = if server.is_empty() { text("/spec/destination/name") } else { server };
        vec![text("/metadata/name"), text("/spec/project"), cluster, text("/spec/destination/namespace")]
    };
    let heads = ["NAME", "PROJECT", "CLUSTER", "NAMESPACE"];
    super::output::print(format, applications, &heads, row, "No Applications would be created.")
}

type Made = Result<(Vec<Value>, Vec<String>), String>;

/// Generates, answering what is asked out of the folder.
fn applications(
    set: &ApplicationSet,
    clusters: &[ClusterEntry],
    tree: Option<&Path>,
) -> anyhow::Result<Made> {
    let mut answers = Answers::new(clusters.to_vec());
    let now = jiff::Timestamp::now();
    for _ in 0..ROUNDS_MAX {
        let generation = generate(set, &answers, now);
        if generation.needs.is_empty() {
            return Ok(match generation.outcome {
                Ok(generated) => {
                    let notes =
                        generated.empty.iter().map(|place| format!("{place} gives nothing")).collect();
                    Ok((generated.applications, notes))
                }
                Err(error) => Err(error.message),
            });
        }
        for need in &generation.needs {
            let answer = answer(need, tree)?;
            answers.put(need, answer);
        }
    }
    bail!("the generators do not terminate; this is a bug in slipway")
}

fn answer(need: &Need, tree: Option<&Path>) -> anyhow::Result<Result<Answer, String>> {
    let Some(tree) = tree.filter(|_| matches!(need, Need::GitTree { .. } | Need::GitFiles { .. })) else {
        return Ok(Err(match need {
            Need::GitTree { repo_url, .. } | Need::GitFiles { repo_url, .. } => {
                format!("nothing stands in for the repository {repo_url}; give a folder with --git-tree")
            }
            _ => "this generator asks the network, which a dry run does not do".to_owned(),
        }));
    };
    Ok(Ok(match need {
        Need::GitFiles { paths, .. } => {
            let mut contents = BTreeMap::new();
            for path in paths {
                let text = std::fs::read_to_string(tree.join(path))
                    .with_context(|| format!("cannot read {path} in {}", tree.display()))?;
                contents.insert(path.clone(), text);
            }
            Answer::Files(contents)
        }
        _ => {
            let mut paths = Vec::new();
            walk(tree, "", &mut paths)?;
            paths.sort();
            Answer::Tree { commit: "worktree".into(), paths }
        }
    }))
}

/// Files below a folder; `.git` and links are left out, as a repository's tree would not hold them.
fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> anyhow::Result<()> {
    let folder = root.join(below);
    let read = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in read {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && name != ".git" {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
        if paths.len() > FILES_MAX {
            bail!("{} holds more than {FILES_MAX} files; name a smaller folder", root.display());
        }
    }
    Ok(())
}

fn read_documents(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = super::offline::read(path)?;
    match slipway_yaml::load_all_json(&text) {
        Ok(documents) => Ok(documents.into_iter().map(|(document, _)| document).collect()),
        Err(errors) => {
            let all: Vec<String> = errors.iter().map(|error| format!("{}:{error}", path.display())).collect();
            bail!("{}", all.join("\n"))
        }
    }
}

/// Clusters out of a Secret, a List, or a plain list.
fn entries(document: &Value) -> Vec<ClusterEntry> {
    let items = document.as_array().or_else(|| document["items"].as_array());
    match items {
        Some(items) => items.iter().flat_map(entries).collect(),
        None => vec![entry(document)],
    }
}

fn entry(document: &Value) -> ClusterEntry {
    let secret = document["kind"] == "Secret";
    let meta = if secret { &document["metadata"] } else { document };
    let text = |name: &str| -> String {
        let plain = |value: &Value| value.as_str().map(str::to_owned);
        if !secret {
            return plain(&document[name]).unwrap_or_default();
        }
        let encoded = || {
            use base64::Engine as _;
            let bytes =
                base64::engine::general_purpose::STANDARD.decode(document["data"][name].as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        plain(&document["stringData"][name]).or_else(encoded).unwrap_or_default()
    };
    let map = |name: &str| serde_json::from_value(meta[name].clone()).unwrap_or_default();
    ClusterEntry {
        name: text("name"),
        server: text("server"),
        project: text("project"),
        labels: map("labels"),
        annotations: map("annotations"),
    }
}
