//! What needs no server: linting, evaluating, judging health, comparing with acceptance data.

use std::io::{Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use slipway_pipeline::lint::{Finding, LintOptions, lint_text};
use slipway_pipeline::{conformance as pipelines, expression};
use slipway_runner::signing;

use super::output::{self, Format, OutputArguments};

pub(super) const UNREADABLE: u8 = 2;

#[derive(Args)]
pub(crate) struct LintArguments {
    /// Pipeline files, or - for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Args)]
pub(crate) struct SignArguments {
    /// The pipeline file, or - for standard input; it is printed with its signature as the last line
    #[arg(required_unless_present = "new_key")]
    file: Option<PathBuf>,
    /// File with the private key (a JSON Web Key), or where to write a new one
    #[arg(long)]
    key: PathBuf,
    /// Write the signature into the file instead of printing it
    #[arg(long)]
    write: bool,
    /// Create a key with this id in the file of --key, and print the public key set for `slipway runner --trust`
    #[arg(long, value_name = "ID", conflicts_with_all = ["file", "write"])]
    new_key: Option<String>,
}

#[derive(Args)]
pub(crate) struct EvalArguments {
    /// The condition, as in `when.condition`
    expression: String,
    /// JSON file with the values of variables
    #[arg(long)]
    variables: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Subcommand)]
pub(crate) enum ConformanceCommand {
    /// Pipelines: validator, documents and expressions in DIR
    Pipelines { dir: PathBuf },
    /// GitOps: health of objects in DIR
    Gitops { dir: PathBuf },
    /// Rollouts: manifests in DIR
    Rollouts { dir: PathBuf },
    /// Workflows: examples in DIR
    Workflows { dir: PathBuf },
}

pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input as text")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

pub(crate) fn lint(arguments: &LintArguments) -> ExitCode {
    let format = arguments.output.output;
    let for_people = matches!(format, Format::Table | Format::Wide);
    let mut unreadable = false;
    let mut wrong = false;
    let mut all = Vec::new();
    for file in &arguments.files {
        let text = match read(file) {
            Ok(text) => text,
            Err(error) => {
                note!("error: {error:#}");
                unreadable = true;
                continue;
            }
        };
        let (_, findings) = lint_text(&text, &LintOptions::default());
        if for_people && findings.is_empty() && output::is_terminal() {
            say!("{}: valid", file.display());
        }
        wrong |= findings.iter().any(Finding::is_error);
        if for_people {
            findings.iter().for_each(|finding| print_finding(file, finding));
        }
        all.push(
            json!({"file": file, "valid": !findings.iter().any(Finding::is_error), "findings": findings}),
        );
    }
    if !for_people {
        let name = |file: &Value| vec![file["file"].as_str().unwrap_or_default().to_owned()];
        output::print(format, &all, &["FILE"], name, "").expect("findings are JSON");
    }
    match (unreadable, wrong) {
        (true, _) => ExitCode::from(UNREADABLE),
        (_, true) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn print_finding(file: &Path, finding: &Finding) {
    let level = if finding.is_error() { "error" } else { "warning" };
    say!("{}:{}:{}: {level}: {}", file.display(), finding.line, finding.column, finding.message);
    if let Some(hint) = &finding.hint {
        say!("  hint: {hint}");
    }
}

pub(crate) fn eval(arguments: &EvalArguments) -> ExitCode {
    let variables = match &arguments.variables {
        None => Ok(Value::Object(Default::default())),
        Some(path) => read(path).and_then(|text| {
            serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
        }),
    };
    let scope = match variables {
        Ok(Value::Object(scope)) => scope,
        Ok(_) => {
            note!("error: the variables have to be a JSON object of names and values");
            return ExitCode::from(UNREADABLE);
        }
        Err(error) => {
            note!("error: {error:#}");
            return ExitCode::from(UNREADABLE);
        }
    };
    match expression::evaluate_strictly(&arguments.expression, &scope) {
        Ok(result) => {
            let said = result.to_string();
            output::done(arguments.output, &json!({"result": result}), &said, &said)
                .expect("a truth is JSON");
            ExitCode::SUCCESS
        }
        Err(error) => {
            note!("error: {error}");
            ExitCode::from(UNREADABLE)
        }
    }
}

pub(crate) fn sign(arguments: &SignArguments) -> anyhow::Result<ExitCode> {
    let key = &arguments.key;
    if let Some(id) = &arguments.new_key {
        let (private, public) = signing::new_key(id)?;
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            // A key that is there is not written over: nobody could sign with it any more.
            .create_new(true)
            .mode(0o600)
            .open(key)
            .with_context(|| format!("cannot make {}", key.display()))?;
        file.write_all(private.as_bytes())?;
        say!("{public}");
        return Ok(ExitCode::SUCCESS);
    }
    let file = arguments.file.as_deref().context("give a pipeline file")?;
    let private = std::fs::read_to_string(key).with_context(|| format!("cannot read {}", key.display()))?;
    let signed = signing::sign(&read(file)?, &private)?;
    if arguments.write {
        std::fs::write(file, signed).with_context(|| format!("cannot write {}", file.display()))?;
    } else {
        say!("{}", signed.trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn version(output: OutputArguments) -> anyhow::Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    output::done(output, &json!({"version": version}), version, &format!("slipway {version}"))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn schema() -> ExitCode {
    say!("{}", serde_json::to_string_pretty(&slipway_pipeline::lint::schema()).expect("a schema is JSON"));
    ExitCode::SUCCESS
}

pub(crate) fn health(file: &Path, format: Format) -> anyhow::Result<ExitCode> {
    let text = read(file)?;
    let documents = match slipway_yaml::load_all_json(&text) {
        Ok(documents) => documents,
        Err(errors) => {
            for error in errors {
                note!("{}:{error}", file.display());
            }
            return Ok(ExitCode::from(UNREADABLE));
        }
    };
    let mut rows = Vec::new();
    for object in documents.into_iter().flat_map(|(value, _)| items(value)) {
        let health = slipway_gitops::health::assess(&object);
        let kind = object["kind"].as_str().unwrap_or("?");
        let name = object["metadata"]["name"].as_str().unwrap_or("?");
        rows.push(match health {
            Some(health) => json!({"object": format!("{kind}/{name}"), "status": health.status.as_str(),
                "message": health.message, "reason": health.reason}),
            None => json!({"object": format!("{kind}/{name}"), "status": "", "message": "",
                "reason": "this kind has no health of its own"}),
        });
    }
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let row = |row: &Value| {
        vec![text(row, "object"), text(row, "status"), text(row, "message"), text(row, "reason")]
    };
    output::print(
        format,
        &rows,
        &["OBJECT", "STATUS", "MESSAGE", "REASON"],
        row,
        "There are no objects in it.",
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A List is its items.
fn items(value: Value) -> Vec<Value> {
    match value.get("items").and_then(Value::as_array) {
        Some(items) if value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
        _ => vec![value],
    }
}

pub(crate) fn conformance(command: &ConformanceCommand) -> ExitCode {
    match command {
        ConformanceCommand::Pipelines { dir } => {
            let file = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
            let (validator, docs) = (file("validator.jsonl"), file("docs.jsonl"));
            let (expressions, variables) = (file("expressions.jsonl"), file("expression-variables.json"));
            let report = pipelines::run(&pipelines::Suites {
                validator: validator.as_deref(),
                docs: docs.as_deref(),
                expressions: expressions.as_deref(),
                expression_variables: variables.as_deref(),
            });
            for failure in &report.failed {
                say!(
                    "{}:{}: expected {}, got {}",
                    failure.suite,
                    failure.line,
                    failure.expected,
                    failure.actual
                );
            }
            verdict(dir, report.passed, report.failed.len(), report.failed.is_empty())
        }
        ConformanceCommand::Gitops { dir } => gitops(dir),
        ConformanceCommand::Rollouts { dir } => rollouts(dir),
        ConformanceCommand::Workflows { dir } => workflows(dir),
    }
}

fn verdict(dir: &Path, passed: usize, failed: usize, good: bool) -> ExitCode {
    if passed + failed == 0 {
        note!("error: there is no acceptance data in {}", dir.display());
        return ExitCode::from(UNREADABLE);
    }
    say!("{passed} passed, {failed} failed");
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn gitops(dir: &Path) -> ExitCode {
    let rows = std::fs::read_to_string(dir.join("health.jsonl")).unwrap_or_default();
    let report = slipway_gitops::conformance::run(&rows);
    for difference in &report.differences {
        let (kind, case) = (&difference.kind, &difference.case);
        say!(
            "{kind} {case}: expected {}, got {} ({})",
            difference.expected,
            difference.ours,
            difference.reason
        );
    }
    say!("{} wrong Healthy", report.wrongly_healthy().count());
    // The bar: 95 of 100, and never a Healthy that is not.
    let good = report.agreed * 100 >= report.rows * 95 && report.wrongly_healthy().next().is_none();
    verdict(dir, report.agreed, report.differences.len(), good)
}

fn rollouts(dir: &Path) -> ExitCode {
    let rows = std::fs::read_to_string(dir.join("manifests.jsonl")).unwrap_or_default();
    match super::rollouts::compare(&rows) {
        Ok(report) => {
            report.lines.iter().for_each(|line| say!("{line}"));
            // Some rows are meant to be refused, and do not say so.
            let good = report.passed * 100 >= (report.passed + report.failed) * 95 && report.checked > 0;
            verdict(dir, report.passed, report.failed, good)
        }
        Err(error) => {
            note!("error: {} cannot be read: {error}", dir.join("manifests.jsonl").display());
            ExitCode::from(UNREADABLE)
        }
    }
}

fn workflows(dir: &Path) -> ExitCode {
    let rows = std::fs::read_to_string(dir.join("examples.jsonl")).unwrap_or_default();
    match super::workflows::compare(&rows) {
        Ok(report) => {
            report.lines.iter().for_each(|line| say!("{line}"));
            verdict(dir, report.passed, report.failed, report.failed == 0 && report.checked > 0)
        }
        Err(error) => {
            note!("error: {} cannot be read: {error}", dir.join("examples.jsonl").display());
            ExitCode::from(UNREADABLE)
        }
    }
}
