//! Compares this room with recorded verdicts of the systems it is compatible with.
//!
//! Rows come in as text, one JSON object a line, so that whoever calls decides where they are kept.
//! A row of the validator may have been recorded for an account that it does not carry; such a row
//! passes when one of a few plain accounts explains it, and is counted apart.

use serde::Serialize;
use serde_json::{Map, Value};
use slipway_yaml::Node;

use crate::expression;
use crate::interpolate::{Piece, references};
use crate::lint::{Account, Cluster, Finding, GitIntegration, LintOptions, Registry, lint_model, lint_text};

/// The texts of the suites; a missing one is not run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Suites<'a> {
    /// `validator.jsonl`: `model`, `yaml`, `opts` → `ok`, `at`, `warnings`.
    pub validator: Option<&'a str>,
    /// `docs.jsonl`: `yaml` → `verdict`.
    pub docs: Option<&'a str>,
    /// `expressions.jsonl`: `expression` → `valid`, `result`.
    pub expressions: Option<&'a str>,
    /// `expression-variables.json`.
    pub expression_variables: Option<&'a str>,
}

/// What was compared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    pub passed: usize,
    /// Of those, rows that pass under an account which the row does not name.
    pub passed_with_assumed_account: usize,
    pub failed: Vec<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub suite: &'static str,
    /// Counts from 1, as editors do.
    pub line: usize,
    pub expected: String,
    pub actual: String,
}

/// Runs every suite that is there.
pub fn run(suites: &Suites<'_>) -> Report {
    let mut report = Report::default();
    each(suites.validator, "validator", &mut report, validator_row);
    each(suites.docs, "docs", &mut report, |row| docs_row(row).map(|()| false));
    let variables: Map<String, Value> =
        suites.expression_variables.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    each(suites.expressions, "expressions", &mut report, |row| {
        expression_row(row, &variables).map(|()| false)
    });
    report
}

type Difference = (String, String);

fn each(
    text: Option<&str>,
    suite: &'static str,
    report: &mut Report,
    check: impl Fn(&Value) -> Result<bool, Difference>,
) {
    for (index, line) in
        text.unwrap_or_default().lines().enumerate().filter(|(_, line)| !line.trim().is_empty())
    {
        let result = match serde_json::from_str::<Value>(line) {
            Ok(row) => check(&row),
            Err(error) => Err(("a JSON object".to_owned(), error.to_string())),
        };
        match result {
            Ok(assumed) => {
                report.passed += 1;
                report.passed_with_assumed_account += usize::from(assumed);
            }
            Err((expected, actual)) => {
                report.failed.push(Failure { suite, line: index + 1, expected, actual });
            }
        }
    }
}

/// The outcome of a validator row, in its own terms.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    ok: bool,
    at: Vec<String>,
    warnings: usize,
}

impl Outcome {
    fn of(findings: &[Finding]) -> Self {
        let mut at: Vec<String> = findings
            .iter()
            .filter(|finding| finding.is_error())
            .map(|finding| {
                format!(
                    "{}|{}",
                    finding.step.as_deref().unwrap_or_default(),
                    finding.area.as_deref().unwrap_or("None")
                )
            })
            .collect();
        at.sort();
        at.dedup();
        Self {
            ok: findings.is_empty(),
            at,
            warnings: findings.iter().filter(|finding| !finding.is_error()).count(),
        }
    }

    fn expected(row: &Value) -> Self {
        let at = row["at"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            ok: row["ok"].as_bool().unwrap_or_default(),
            at: at.iter().filter_map(|place| place.as_str().map(str::to_owned)).collect(),
            warnings: row["warnings"].as_u64().unwrap_or_default() as usize,
        }
    }
}

fn validator_row(row: &Value) -> Result<bool, Difference> {
    let options = |account: Option<Account>| LintOptions {
        build_v2: row["opts"]["build"]["buildVersion"] == "V2",
        tag_required: row["opts"]["build"]["tagIsRequired"] == true,
        quiet_defaults: row["opts"]["ignoreValidation"] == true,
        account,
        ..LintOptions::reference()
    };
    let text = row["yaml"].as_str();
    let outcome = |account: Option<Account>| match (&row["model"], text) {
        (Value::Null, Some(text)) => Outcome::of(&lint_text(text, &options(account)).1),
        (model, text) => Outcome::of(&lint_model(&Node::from_json(model), text, &options(account))),
    };
    let expected = Outcome::expected(row);
    let actual = outcome(None);
    if actual == expected {
        return Ok(false);
    }
    if text.is_some() && accounts(&row["model"]).into_iter().any(|account| outcome(Some(account)) == expected)
    {
        return Ok(true);
    }
    Err((format!("{expected:?}"), format!("{actual:?}")))
}

/// Plain accounts a row may have been recorded for: of each kind of integration none, others than the
/// file names, or those it names; its variables known or not; images pushed by themselves or never.
fn accounts(model: &Value) -> Vec<Account> {
    let names = |keys: &[&str]| {
        let mut found = Vec::new();
        keys.iter().for_each(|key| named(model, key, &mut found));
        found.sort();
        found.dedup();
        found
    };
    let others =
        |noun: &str, count: usize| (1..=count).map(|n| format!("{noun}-{n}")).collect::<Vec<String>>();
    let gits = [vec![], others("git", 1), others("git", 2), names(&["git"])];
    let clusters = [vec![], others("cluster", 1), others("cluster", 2), names(&["cluster"])];
    let known = names(&["registry", "registry_context", "registry_contexts"]);
    let registries = [
        vec![],
        registries_of(&others("registry", 1), "docker", false, None),
        registries_of(&others("registry", 2), "docker", true, None),
        registries_of(&known, "docker", false, None),
        registries_of(&known, "docker", false, Some("same")),
        registries_of(&known, "ecr", false, None),
        registries_of(&others("registry", 1), "google", true, None),
    ];
    let mut referenced = Vec::new();
    reference_names(model, &mut referenced);
    let variables = [vec![], referenced];
    let mut accounts = Vec::new();
    for (git, registries, clusters, variables) in product(&gits, &registries, &clusters, &variables) {
        let plain = Account {
            git: git.iter().map(|name| GitIntegration { name: name.clone(), is_default: false }).collect(),
            registries: registries.clone(),
            clusters: clusters.iter().map(|name| Cluster { selector: name.clone() }).collect(),
            variables: variables.iter().map(|name| (name.clone(), "value".to_owned())).collect(),
            ..Account::default()
        };
        accounts.push(Account { auto_push: true, ..plain.clone() });
        accounts.push(Account { disable_push: true, ..plain.clone() });
        accounts.push(plain);
    }
    accounts
}

fn registries_of(names: &[String], kind: &str, is_default: bool, domain: Option<&str>) -> Vec<Registry> {
    let registry = |name: &String| Registry {
        name: name.clone(),
        is_default,
        provider: Some(if kind == "ecr" { "ecr" } else { "docker" }.to_owned()),
        kind: Some(kind.to_owned()),
        domain: Some(domain.unwrap_or(name).to_owned()),
    };
    names.iter().map(registry).collect()
}

type Mix<'a> = (&'a Vec<String>, &'a Vec<Registry>, &'a Vec<String>, &'a Vec<String>);

fn product<'a>(
    gits: &'a [Vec<String>],
    registries: &'a [Vec<Registry>],
    clusters: &'a [Vec<String>],
    variables: &'a [Vec<String>],
) -> Vec<Mix<'a>> {
    let mut mixes = Vec::new();
    for git in gits {
        for registry in registries {
            for cluster in clusters {
                mixes.extend(variables.iter().map(|known| (git, registry, cluster, known)));
            }
        }
    }
    mixes
}

/// The names in `${{NAME}}`, anywhere in a value.
fn reference_names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.extend(references(text).into_iter().filter_map(|piece| match piece {
            Piece::Name(name) => Some(name.to_owned()),
            Piece::Literal(_) => None,
        })),
        Value::Array(items) => items.iter().for_each(|item| reference_names(item, found)),
        Value::Object(members) => members.values().for_each(|member| reference_names(member, found)),
        _ => {}
    }
}

/// Every text under a key, anywhere in a value.
fn named(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let texts = match member {
                    Value::String(text) => vec![text.clone()],
                    Value::Array(items) => {
                        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
                    }
                    _ => Vec::new(),
                };
                if name == key {
                    found.extend(texts.into_iter().filter(|text| !text.contains("${{")));
                }
                named(member, key, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| named(item, key, found)),
        _ => {}
    }
}

fn docs_row(row: &Value) -> Result<(), Difference> {
    let expected = row["verdict"].as_str().unwrap_or_default();
    let options = LintOptions { build_v2: true, ..LintOptions::reference() };
    let (root, findings) = lint_text(row["yaml"].as_str().unwrap_or_default(), &options);
    let actual = if root.is_none() {
        "yaml-error"
    } else if findings.iter().any(Finding::is_error) {
        "invalid"
    } else if findings.is_empty() {
        "valid"
    } else {
        "warn"
    };
    if actual == expected {
        return Ok(());
    }
    let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Err((expected.to_owned(), format!("{actual}: {}", shown.join("; "))))
}

fn expression_row(row: &Value, variables: &Map<String, Value>) -> Result<(), Difference> {
    let result = expression::evaluate(row["expression"].as_str().unwrap_or_default(), variables);
    let (valid, truth) = (result.is_ok(), result.clone().unwrap_or(false));
    if row["valid"] == valid && row["result"] == truth {
        return Ok(());
    }
    Err((format!("valid {}, result {}", row["valid"], row["result"]), format!("{result:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_and_differences_named() {
        let validator = "{\"model\": {\"version\": \"1.0\", \"steps\": {}}, \"yaml\": null, \"opts\": null, \"ok\": true, \"at\": [], \"warnings\": 0}\n\
                         {\"model\": {\"version\": \"1.0\", \"steps\": {}}, \"yaml\": null, \"opts\": null, \"ok\": false, \"at\": [\"x|steps\"], \"warnings\": 0}\n";
        let docs = "{\"yaml\": \"version: 1\\nsteps: {a: {}}\", \"verdict\": \"invalid\"}";
        let expressions = "{\"expression\": \"x == 1\", \"valid\": true, \"result\": true}\nnot json\n";
        let report = run(&Suites {
            validator: Some(validator),
            docs: Some(docs),
            expressions: Some(expressions),
            expression_variables: Some("{\"x\": 1}"),
        });
        assert_eq!(report.passed, 3);
        let places: Vec<(&str, usize)> =
            report.failed.iter().map(|failure| (failure.suite, failure.line)).collect();
        assert_eq!(places, [("validator", 2), ("expressions", 2)]);
    }
}
