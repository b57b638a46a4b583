//! What a pipeline says of itself: completed, checked (everything at once), and its secrets sealed or masked.

use serde_json::Value;
use serde_json::value::RawValue;
use slipway_api::error::ErrorDetail;
use slipway_api::pipeline::{CronTrigger, Pipeline, Variable};
use slipway_model::AccountId;
use slipway_pipeline::lint::{LintOptions, lint_text};
use slipway_pipeline::variables::{Layer, Variables};

use slipway_store::pipelines;

use crate::ci::orders;
use crate::ci::triggers::matching::Pattern;
use crate::seal::DataKey;
use crate::seams::Seams;
use slipway_dialect::cron::{Dialect, Schedule};
use slipway_dialect::path_glob;

const CRON_TRIGGERS_MAX: usize = 100;
const GLOB_CHARS_MAX: usize = 65_000;
/// Root keys of a pipeline's text that live beside `steps` in the entity.
const ROOT_KEYS: [&str; 8] = [
    "stages",
    "mode",
    "fail_fast",
    "strict_fail_fast",
    "success_criteria",
    "services",
    "build_version",
    "indicators",
];

/// Gives triggers their ids, and steps to a pipeline whose author sent text.
pub(crate) fn complete(pipeline: &mut Pipeline, seams: &Seams) {
    for trigger in &mut pipeline.spec.triggers {
        if trigger.id().is_none_or(str::is_empty) {
            let id: slipway_model::HookId = seams.new_id();
            trigger.other.insert("id".into(), id.to_string().into());
        }
    }
    let text = pipeline.metadata.other.get("originalYamlString").and_then(Value::as_str);
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return };
    if pipeline.spec.spec_template.is_some() {
        return;
    }
    if pipeline.spec.steps.is_some() {
        // Published clients compare what they read with what they would have written.
        pipeline.spec.other.entry("stages").or_insert_with(|| Value::Array(Vec::new()));
        return;
    }
    let (Some(root), _) = lint_text(text, &LintOptions::default()) else { return };
    if let Some(steps) = root.get("steps") {
        pipeline.spec.steps = RawValue::from_string(in_order(steps)).ok();
    }
    pipeline.spec.hooks = root.get("hooks").and_then(|hooks| RawValue::from_string(in_order(hooks)).ok());
    for key in ROOT_KEYS {
        match root.get(key) {
            Some(value) => pipeline.spec.other.insert(key.into(), value.to_json()),
            None if key == "stages" => pipeline.spec.other.insert(key.into(), Value::Array(Vec::new())),
            None => pipeline.spec.other.remove(key),
        };
    }
}

/// JSON with keys in the order of the text: the order of steps is the order they run in.
fn in_order(node: &slipway_yaml::Node) -> String {
    if node.is_mapping() {
        let entry = |(key, value): &(slipway_yaml::Node, slipway_yaml::Node)| {
            format!("{}:{}", Value::from(key.key_text()), in_order(value))
        };
        format!("{{{}}}", node.entries().iter().map(entry).collect::<Vec<_>>().join(","))
    } else if node.is_sequence() {
        format!("[{}]", node.items().iter().map(in_order).collect::<Vec<_>>().join(","))
    } else {
        node.to_json().to_string()
    }
}

/// Parts of a pipeline that published clients write and that nothing here reads.
const EFFECTLESS: [&str; 9] = [
    "externalResources",
    "variablesSchema",
    "clustersInfo",
    "clusters",
    "packId",
    "scopes",
    "serviceAccount",
    "storage",
    "requiredAvailableStorage",
];

/// What is kept as it came and has no effect here, in sentences; published clients send many of these empty.
pub(crate) fn warnings(pipeline: &Pipeline) -> Vec<String> {
    let says_something = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    let said = |map: &serde_json::Map<String, Value>, key: &str| map.get(key).is_some_and(says_something);
    let mut found: Vec<String> = EFFECTLESS
        .iter()
        .filter(|key| said(&pipeline.spec.other, key))
        .map(|key| format!("spec.{key} is stored but has no effect"))
        .collect();
    if said(&pipeline.metadata.other, "isTemplate") || said(&pipeline.metadata.other, "templates") {
        found.push("metadata.isTemplate is stored but has no effect: there are no templates".into());
    }
    found
}

pub(crate) fn problem(path: impl Into<String>, message: impl Into<String>) -> ErrorDetail {
    ErrorDetail { path: path.into(), message: message.into() }
}

/// All that is wrong, at once, each with the field that it is about.
pub(crate) fn problems(pipeline: &Pipeline) -> Vec<ErrorDetail> {
    let mut wrong = Vec::new();
    let name = &pipeline.metadata.name;
    let good = !name.is_empty()
        && name.len() <= 200
        && !name.chars().any(char::is_control)
        && !name.starts_with('/')
        && !name.ends_with('/');
    if !good {
        wrong.push(problem("metadata.name", "metadata.name is required, for example `project/pipeline`"));
    }
    check_variables("spec.variables: ", "spec.variables", &pipeline.spec.variables, &mut wrong);
    match pipeline.spec.settings() {
        Ok(settings) => {
            let range =
                |what: &str, value: Option<i64>, low: i64, high: i64, wrong: &mut Vec<ErrorDetail>| {
                    if value.is_some_and(|value| !(low..=high).contains(&value)) {
                        let path = format!("spec.{what}");
                        wrong.push(problem(&path, format!("{path} must be between {low} and {high}")));
                    }
                };
            range("priority", settings.priority, -100, 100, &mut wrong);
            range("concurrency", settings.concurrency, 0, 1000, &mut wrong);
            range("triggerConcurrency", settings.trigger_concurrency, 0, 1000, &mut wrong);
            range("branchConcurrency", settings.branch_concurrency, 0, 1000, &mut wrong);
            for (index, policy) in settings.termination_policy.iter().flatten().enumerate() {
                let known = matches!(
                    (policy.kind.as_str(), policy.event.as_str()),
                    ("branch", "onCreate") | ("annotation", "onTerminate")
                );
                if !known {
                    wrong.push(problem(
                        format!("spec.terminationPolicy[{index}]"),
                        "spec.terminationPolicy: use type `branch` with event `onCreate`, or type `annotation` with event `onTerminate`",
                    ));
                }
                let path = format!("spec.terminationPolicy[{index}].branchName");
                regex("spec.terminationPolicy.branchName", path, policy.branch_name.as_deref(), &mut wrong);
            }
            let crons = settings.cron_triggers.unwrap_or_default();
            if crons.len() > CRON_TRIGGERS_MAX {
                let message = format!("spec.cronTriggers has more than {CRON_TRIGGERS_MAX}");
                wrong.push(problem("spec.cronTriggers", message));
            }
            for (index, cron) in crons.iter().enumerate() {
                check_cron(cron, &format!("spec.cronTriggers[{index}]"), &mut wrong);
            }
            for (index, trigger) in settings.pipeline_triggers.iter().flatten().enumerate() {
                let at = format!("spec.pipelineTriggers[{index}]");
                regex(
                    &format!("pipeline trigger `{}`: branchRegex", trigger.name),
                    format!("{at}.branchRegex"),
                    trigger.branch_regex.as_deref(),
                    &mut wrong,
                );
                if trigger.pipeline.is_empty() {
                    let message = format!("pipeline trigger `{}`: no pipeline is given", trigger.name);
                    wrong.push(problem(format!("{at}.pipeline"), message));
                }
            }
        }
        Err(error) => wrong.push(problem("spec", format!("spec: {error}"))),
    }
    check_triggers(pipeline, &mut wrong);
    wrong
}

pub(crate) fn crons(pipeline: &Pipeline) -> usize {
    pipeline.spec.settings().ok().and_then(|settings| settings.cron_triggers).map_or(0, |all| all.len())
}

/// Schedules of all pipelines together: many of them at the same second are a way to stop everybody's builds.
pub(crate) fn check_crons_of_account<'a>(
    pipeline: &Pipeline,
    others: impl Iterator<Item = &'a pipelines::Pipeline>,
    wrong: &mut Vec<ErrorDetail>,
) {
    let others: usize = others
        .filter(|row| row.body.contains("cronTriggers"))
        .filter_map(|row| serde_json::from_str::<Pipeline>(&row.body).ok())
        .map(|pipeline| crons(&pipeline))
        .sum();
    if crons(pipeline) + others > CRON_TRIGGERS_MAX {
        let message = format!(
            "spec.cronTriggers: the account has {others} cron triggers in other pipelines; the limit is {CRON_TRIGGERS_MAX}: delete some"
        );
        wrong.push(problem("spec.cronTriggers", message));
    }
}

fn check_triggers(pipeline: &Pipeline, wrong: &mut Vec<ErrorDetail>) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, trigger) in pipeline.spec.triggers.iter().enumerate() {
        let (name, at) = (&trigger.name, format!("spec.triggers[{index}]"));
        let path = |field: &str| format!("{at}.{field}");
        if name.is_empty() || name.len() > 200 {
            wrong.push(problem(path("name"), format!("trigger `{name}`: a name has 1 to 200 characters")));
        }
        if !seen.insert(name) {
            wrong.push(problem(path("name"), format!("trigger `{name}` is defined twice")));
        }
        if trigger.kind == "git" && !trigger.repo.contains('/') {
            wrong.push(problem(
                path("repo"),
                format!("trigger `{name}`: enter the repository as `owner/name`"),
            ));
        }
        let what = |field: &str| format!("trigger `{name}`: {field}");
        regex(&what("branchRegex"), path("branchRegex"), trigger.branch_regex.as_deref(), wrong);
        let settings = match trigger.settings() {
            Ok(settings) => settings,
            Err(error) => {
                wrong.push(problem(&at, error));
                continue;
            }
        };
        for (field, pattern) in [
            ("pullRequestTargetBranchRegex", settings.pull_request_target_branch_regex.as_deref()),
            ("commentRegex", settings.comment_regex.as_deref()),
        ] {
            regex(&what(field), path(field), pattern, wrong);
        }
        if let Some(glob) = settings.modified_files_glob.as_deref().filter(|glob| !glob.is_empty()) {
            let good = glob.chars().count() <= GLOB_CHARS_MAX && path_glob::compile(glob).is_ok();
            if !good {
                let message = format!("trigger `{name}`: modifiedFilesGlob is not a valid pattern");
                wrong.push(problem(path("modifiedFilesGlob"), message));
            }
        }
        let variables = settings.variables.as_deref().unwrap_or_default();
        check_variables(&format!("trigger `{name}`: "), &path("variables"), variables, wrong);
    }
}

fn check_cron(cron: &CronTrigger, at: &str, wrong: &mut Vec<ErrorDetail>) {
    let mut say = |field: &str, text: String| {
        wrong.push(problem(format!("{at}.{field}"), format!("cron trigger `{}`: {text}", cron.name)));
    };
    if cron.name.is_empty() {
        say("name", "it needs a name".into());
    }
    if let Err(error) = Schedule::parse(&cron.expression, Dialect::Triggers) {
        say("expression", error);
    }
    if let Some(zone) = cron.time_zone.as_deref().filter(|zone| jiff::tz::TimeZone::get(zone).is_err()) {
        say("timeZone", format!("there is no time zone `{zone}`: write it as `Europe/Berlin`"));
    }
    if cron.git_trigger_id.is_some() != cron.branch.is_some() {
        say("gitTriggerId", "gitTriggerId and branch go together".into());
    }
    let what = format!("cron trigger `{}`: ", cron.name);
    check_variables(&what, &format!("{at}.variables"), &cron.variables, wrong);
}

fn regex(what: &str, path: String, pattern: Option<&str>, wrong: &mut Vec<ErrorDetail>) {
    let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else { return };
    if let Err(error) = Pattern::parse(pattern) {
        wrong.push(problem(path, format!("{what}: {error}")));
    }
}

/// Names that would take over the shell, Git or the platform's own variables are refused here already.
pub(crate) fn check_variables(what: &str, path: &str, variables: &[Variable], wrong: &mut Vec<ErrorDetail>) {
    for (index, variable) in variables.iter().enumerate() {
        if let Err(error) = Variables::default().try_set(Layer::Pipeline, variable.key.as_str(), "") {
            wrong.push(problem(format!("{path}[{index}].key"), format!("{what}{error}")));
        }
    }
}

/// Variables of triggers, wherever they are, as values to change in place.
fn trigger_variables(pipeline: &mut Pipeline) -> Vec<(String, &mut Value)> {
    let mut found = Vec::new();
    for trigger in &mut pipeline.spec.triggers {
        let name = format!("git/{}", trigger.name);
        found.extend(trigger.other.get_mut("variables").map(|value| (name, value)));
    }
    let crons = pipeline.spec.other.get_mut("cronTriggers").and_then(Value::as_array_mut);
    for cron in crons.into_iter().flatten() {
        let name = format!("cron/{}", cron.get("name").and_then(Value::as_str).unwrap_or_default());
        found.extend(cron.get_mut("variables").map(|value| (name, value)));
    }
    found
}

pub(crate) fn seal_triggers(
    pipeline: &mut Pipeline,
    old: Option<&Pipeline>,
    key: &DataKey,
    seams: &Seams,
    account: AccountId,
) {
    let mut old = old.cloned();
    let before: Vec<(String, Vec<Variable>)> = old
        .as_mut()
        .map(|old| {
            trigger_variables(old)
                .into_iter()
                .filter_map(|(name, value)| Some((name, serde_json::from_value(value.clone()).ok()?)))
                .collect()
        })
        .unwrap_or_default();
    for (name, value) in trigger_variables(pipeline) {
        let Ok(mut variables) = serde_json::from_value::<Vec<Variable>>(value.clone()) else { continue };
        let kept =
            before.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, kept)| kept.as_slice());
        orders::seal_variables(key, seams, account, &mut variables, kept);
        *value = serde_json::to_value(variables).unwrap_or_default();
    }
}

pub(crate) fn mask_triggers(pipeline: &mut Pipeline) {
    for (_, value) in trigger_variables(pipeline) {
        let Ok(mut variables) = serde_json::from_value::<Vec<Variable>>(value.clone()) else { continue };
        orders::mask_variables(&mut variables);
        *value = serde_json::to_value(variables).unwrap_or_default();
    }
}
