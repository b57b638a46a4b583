//! `slipway pipeline …`: pipelines of the server.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::Value;
use slipway_api::pipeline::{Pipeline, PipelineList};

use super::nouns::{DeleteNames, part};
use super::output::{Format, OutputArguments, done, is_terminal, print, print_one, when};
use super::{builds, context, nouns};

#[derive(Subcommand)]
pub(crate) enum PipelineCommand {
    /// List pipelines
    List(ListArguments),
    /// Show a pipeline
    Get {
        /// project/pipeline
        name: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Create a pipeline from a file (YAML or JSON, as `export` prints it)
    Create {
        /// The file, or - for standard input
        #[arg(short, long = "file")]
        file: PathBuf,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Change a pipeline in $EDITOR, or replace it by a file
    Edit {
        /// project/pipeline
        name: String,
        /// Replace it by this file instead of opening an editor; - for standard input
        #[arg(short, long = "file")]
        file: Option<PathBuf>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Delete pipelines; their builds stay
    Delete(DeleteNames),
    /// Print a pipeline as YAML that `create` and `edit -f` take
    Export {
        /// project/pipeline
        name: String,
    },
    /// Start a build of a pipeline and follow its log
    Run(builds::RunArguments),
}

#[derive(Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    output: OutputArguments,
    /// Only pipelines of this project
    #[arg(long)]
    project: Option<String>,
    /// Only pipelines with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only pipelines whose name contains this
    #[arg(long)]
    search: Option<String>,
}

pub(crate) async fn run(command: PipelineCommand) -> anyhow::Result<ExitCode> {
    match command {
        PipelineCommand::List(arguments) => list(arguments).await?,
        PipelineCommand::Get { name, output } => {
            let pipeline = fetch(&name).await?;
            print_one(output.output, &pipeline, &name, || show(&pipeline))?;
        }
        PipelineCommand::Create { file, output } => {
            let made: Pipeline = context::client()?.post("/api/pipelines", &read(&file)?).await?;
            done(output, &made, &made.metadata.name, &format!("Created pipeline {}", made.metadata.name))?;
        }
        PipelineCommand::Edit { name, file, output } => edit(&name, file.as_deref(), output).await?,
        PipelineCommand::Delete(names) => return nouns::remove("pipeline", names).await,
        PipelineCommand::Export { name } => {
            say_part!("{}", slipway_yaml::to_yaml(&fetch(&name).await?));
        }
        PipelineCommand::Run(arguments) => return builds::start(arguments).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// `slipway pipelines`, as it was.
pub(crate) async fn list_all(output: OutputArguments) -> anyhow::Result<ExitCode> {
    list(ListArguments { output, project: None, tag: None, search: None }).await?;
    Ok(ExitCode::SUCCESS)
}

async fn list(arguments: ListArguments) -> anyhow::Result<()> {
    let found: PipelineList = context::client()?.get("/api/pipelines?limit=10000").await?;
    let mut docs = found.docs;
    let of = |project: &str, name: &str| name.rsplit_once('/').is_some_and(|(prefix, _)| prefix == project);
    docs.retain(|pipeline| {
        let name = &pipeline.metadata.name;
        let tags = serde_json::to_value(&pipeline.metadata).unwrap_or_default();
        let tags = tags["labels"]["tags"].as_array().cloned().unwrap_or_default();
        arguments.project.as_deref().is_none_or(|project| of(project, name))
            && arguments.search.as_deref().is_none_or(|part| name.contains(part))
            && arguments.tag.as_deref().is_none_or(|tag| tags.iter().any(|known| known == tag))
    });
    let wide = arguments.output.output == Format::Wide;
    let row = |pipeline: &Pipeline| {
        let triggers = pipeline.spec.triggers.iter().map(|trigger| trigger.repo.clone()).collect::<Vec<_>>();
        let metadata = &pipeline.metadata;
        let mut cells = vec![metadata.name.clone(), triggers.join(","), when(&metadata.updated_at)];
        if wide {
            cells.extend([metadata.id.clone(), metadata.revision.to_string()]);
        }
        cells
    };
    let mut heads = vec!["NAME", "BUILT ON PUSH TO", "UPDATED"];
    if wide {
        heads.extend(["ID", "REVISION"]);
    }
    let nothing = "There are no pipelines: `slipway pipeline create -f FILE` creates one.";
    print(arguments.output.output, &docs, &heads, row, nothing)
}

async fn fetch(name: &str) -> anyhow::Result<Value> {
    Ok(context::client()?.get(&format!("/api/pipelines/{}", part(name))).await?)
}

fn show(pipeline: &Value) -> anyhow::Result<()> {
    let text = |place: &str| match pipeline.pointer(place) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    say!("{}   revision {}", text("/metadata/name"), text("/metadata/revision"));
    say!("  id        {}", text("/metadata/id"));
    say!("  updated   {}", when(&text("/metadata/updated_at")));
    for trigger in pipeline.pointer("/spec/triggers").and_then(Value::as_array).into_iter().flatten() {
        let word = |key: &str| trigger[key].as_str().unwrap_or_default().to_owned();
        say!("  trigger   {} on {} {}", word("name"), word("repo"), trigger["events"]);
    }
    for (name, step) in pipeline.pointer("/spec/steps").and_then(Value::as_object).into_iter().flatten() {
        say!("  step      {name} ({})", step["type"].as_str().unwrap_or("freestyle"));
    }
    if let Some(template) = pipeline.pointer("/spec/specTemplate").filter(|template| template.is_object()) {
        let word = |key: &str| template[key].as_str().unwrap_or_default().to_owned();
        say!("  file      {} of {}", word("path"), word("repo"));
    }
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<Value> {
    parse(&super::offline::read(file)?, &file.display().to_string())
}

/// YAML, which JSON is too.
fn parse(text: &str, name: &str) -> anyhow::Result<Value> {
    let documents = slipway_yaml::load_all_json(text).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(|error| format!("{name}:{error}")).collect();
        anyhow::anyhow!("{}", all.join("\n"))
    })?;
    match documents.into_iter().map(|(value, _)| value).collect::<Vec<_>>().as_slice() {
        [one] if one["metadata"]["name"].is_string() => Ok(one.clone()),
        [one] if one.get("steps").is_some() => bail!(
            "{name} holds steps only, without a name: wrap it as `metadata: {{name: project/pipeline}}` and `spec: {{steps: …}}`, as `slipway pipeline export` prints it"
        ),
        [_] => {
            bail!("{name} has no `metadata.name`: expected a pipeline as `slipway pipeline export` prints it")
        }
        [] => bail!("{name} is empty"),
        _ => bail!("{name} has several documents: expected one pipeline"),
    }
}

async fn edit(name: &str, file: Option<&Path>, output: OutputArguments) -> anyhow::Result<()> {
    let old = fetch(name).await?;
    let new = match file {
        Some(file) => {
            let mut new = read(file)?;
            if new["metadata"].get("revision").is_none() {
                new["metadata"]["revision"] = old["metadata"]["revision"].clone();
            }
            new
        }
        None => match in_editor(&slipway_yaml::to_yaml(&old))? {
            Some(text) => parse(&text, "the edited text")?,
            None => {
                return done(output, &old, name, "Nothing changed");
            }
        },
    };
    let put: Pipeline = context::client()?.put(&format!("/api/pipelines/{}", part(name)), &new).await?;
    let said = format!("Changed pipeline {} (revision {})", put.metadata.name, put.metadata.revision);
    done(output, &put, &put.metadata.name, &said)
}

/// What a person made of a text; nothing when they left it as it was.
fn in_editor(text: &str) -> anyhow::Result<Option<String>> {
    if !is_terminal() {
        bail!("there is no terminal for an editor: use -f FILE");
    }
    let mut file = tempfile::Builder::new().prefix("slipway-").suffix(".yaml").tempfile()?;
    file.write_all(text.as_bytes())?;
    let editor =
        ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|e| !e.is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // As git does it: the variable may hold arguments.
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .with_context(|| format!("cannot start the editor `{editor}`"))?;
    if !status.success() {
        bail!("the editor `{editor}` failed; nothing was changed");
    }
    let edited = std::fs::read_to_string(file.path())?;
    Ok((edited != text).then_some(edited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_pipeline_with_a_name_or_says_what_is_missing() {
        assert!(parse("metadata: {name: a/b}\nspec: {steps: {}}\n", "f").is_ok());
        for (text, part) in [
            ("version: '1.0'\nsteps: {}\n", "holds steps only"),
            ("a: 1\n", "no `metadata.name`"),
            ("", "is empty"),
            ("a: [\n", "f:"),
        ] {
            let said = parse(text, "f").unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
