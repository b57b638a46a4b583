//! `{{args.name}}` in a metric: its value is put in, or it is said which one is missing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use slipway_crd::analysis::Metric;

/// The metric with its arguments put in.
pub fn resolved(metric: &Metric, arguments: &BTreeMap<String, String>) -> Result<Metric, String> {
    let mut value = serde_json::to_value(metric).map_err(|error| error.to_string())?;
    put_in(&mut value, arguments)?;
    serde_json::from_value(value)
        .map_err(|error| format!("metric \"{}\" cannot be read with its arguments: {error}", metric.name))
}

fn put_in(value: &mut Value, arguments: &BTreeMap<String, String>) -> Result<(), String> {
    match value {
        Value::String(text) => {
            if text.contains("{{") {
                *text = replaced(text, arguments)?;
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| put_in(item, arguments)),
        Value::Object(fields) => fields.values_mut().try_for_each(|field| put_in(field, arguments)),
        _ => Ok(()),
    }
}

/// Pieces of a text: as they stand, and the names between `{{args.` and `}}`.
fn pieces(text: &str) -> Vec<Result<&str, &str>> {
    let mut rest = text;
    let mut found = Vec::new();
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inside, behind)) = after.split_once("}}") else { break };
        match inside.trim().strip_prefix("args.") {
            Some(name) => found.extend([Ok(before), Err(name)]),
            // Somebody else's braces: a template of a Job may have its own.
            None => found.push(Ok(&rest[..before.len() + inside.len() + 4])),
        }
        rest = behind;
    }
    found.push(Ok(rest));
    found
}

fn replaced(text: &str, arguments: &BTreeMap<String, String>) -> Result<String, String> {
    let mut whole = String::new();
    for piece in pieces(text) {
        match piece {
            Ok(plain) => whole += plain,
            Err(name) => {
                whole += arguments.get(name).ok_or_else(|| {
                    format!("failed to resolve {{{{args.{name}}}}}: give the argument a value")
                })?;
            }
        }
    }
    Ok(whole)
}

/// The arguments that a metric asks for.
pub fn placeholders(metric: &Metric) -> BTreeSet<String> {
    fn look(value: &Value, names: &mut BTreeSet<String>) {
        match value {
            Value::String(text) => {
                names.extend(pieces(text).into_iter().filter_map(Result::err).map(str::to_owned))
            }
            Value::Array(items) => items.iter().for_each(|item| look(item, names)),
            Value::Object(fields) => fields.values().for_each(|field| look(field, names)),
            _ => {}
        }
    }
    let mut names = BTreeSet::new();
    look(&serde_json::to_value(metric).unwrap_or_default(), &mut names);
    names
}
