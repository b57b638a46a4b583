//! Definitions of steps for one build: those that its pipeline names, and those that these name in turn.
//!
//! In: names as the runner read them in the pipeline, which only it has seen. Out: manifests. An account may have many
//! megabytes of them; a build gets what it needs.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::value::RawValue;
use slipway_api::agent::StepTypesWanted;
use slipway_api::error::ErrorBody;
use slipway_store::builds::{self, Holder};
use slipway_store::step_types::{self, StepType};
use slipway_store::{StoreError, Tx};

use super::runner::{build_id, fenced, runner_name};
use crate::ci::step_types::ordering;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;

/// More than any pipeline names.
const NAMES_MAX: usize = 500;
const SENT_BYTES_MAX: usize = 4 << 20;

/// The step types that a build needs. Refused with 409 when the build is now assigned to another runner.
#[utoipa::path(post, path = "/api/agent/runner/builds/{id}/step-types", tag = "agents", params(("id" = String, Path)), request_body = StepTypesWanted,
    responses((status = 200, body = [Object]), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn step_types_for_build(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Json(wanted): Json<StepTypesWanted>,
) -> Result<Json<Vec<Box<RawValue>>>, ApiError> {
    let runner = runner_name(&caller)?.to_owned();
    let (scope, build) = (caller.scope(), build_id(&id)?);
    if wanted.names.len() > NAMES_MAX {
        return Err(ApiError::bad_request(format!("a pipeline can use at most {NAMES_MAX} step types")));
    }
    let rows = server.store().read(move |tx: &mut Tx<'_>| {
        builds::is_held(tx, scope, build, Holder { runner: &runner, epoch: wanted.epoch })?;
        Ok::<_, StoreError>(needed(step_types::list(tx, scope)?, &wanted.names))
    });
    let rows = rows.await.map_err(|error| fenced(error, &id))?;
    let bytes: usize = rows.iter().map(|row| row.body.len()).sum();
    if bytes > SENT_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "the step types of this pipeline have {bytes} bytes, more than the {SENT_BYTES_MAX} allowed: name their versions, or shorten them"
        )));
    }
    let manifests = rows.into_iter().map(|row| RawValue::from_string(row.body)).collect::<Result<_, _>>();
    Ok(Json(manifests.map_err(StoreError::corrupt)?))
}

/// What is named and what the named ones name. The text of a definition may come from its arguments, so a name that
/// merely stands in it counts.
fn needed(all: Vec<StepType>, names: &[String]) -> Vec<StepType> {
    let mut chosen: BTreeSet<usize> = names.iter().flat_map(|name| named(&all, name)).collect();
    let mut open: Vec<usize> = chosen.iter().copied().collect();
    while let Some(at) = open.pop() {
        let body = &all[at].body;
        for (other, row) in all.iter().enumerate() {
            // Its own name stands in every definition.
            let other_type = row.name != all[at].name && stands_in(body, &row.name);
            if other_type && is_meant(&all, other, body) && chosen.insert(other) {
                open.push(other);
            }
        }
    }
    all.into_iter().enumerate().filter(|(at, _)| chosen.contains(at)).map(|(_, row)| row).collect()
}

/// As a word of its own: `team/greet` does not stand in `team/greeting`.
fn stands_in(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + name.len()..].starts_with(part))
}

fn is_highest(all: &[StepType], at: usize) -> bool {
    let one = &all[at];
    !all.iter().any(|other| other.name == one.name && ordering(&other.version) > ordering(&one.version))
}

fn is_meant(all: &[StepType], at: usize, text: &str) -> bool {
    is_highest(all, at) || text.contains(&format!("{}:{}", all[at].name, all[at].version))
}

/// `NAME` is its highest version. A version that is not there gives the highest too, so that the runner can say which
/// there is.
fn named(all: &[StepType], wanted: &str) -> Vec<usize> {
    if let Some((start, _)) = wanted.split_once("${{") {
        let start = start.split(':').next().unwrap_or_default();
        return (0..all.len()).filter(|&at| all[at].name.starts_with(start)).collect();
    }
    let (name, version) = wanted.split_once(':').unwrap_or((wanted, ""));
    let of_name = || (0..all.len()).filter(|&at| all[at].name == name);
    let exact = of_name().find(|&at| all[at].version == version);
    exact.or_else(|| of_name().find(|&at| is_highest(all, at))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, version: &str, body: &str) -> StepType {
        let text = |text: &str| text.to_owned();
        StepType {
            name: text(name),
            version: text(version),
            body: text(body),
            digest: text(""),
            created_ms: 0,
            updated_ms: 0,
        }
    }

    #[test]
    fn a_build_gets_what_its_pipeline_names_and_what_that_names() {
        let all = vec![
            row("a", "1.9.0", "name: a"),
            row("a", "1.10.0", "type: b:2.0.0"),
            row("b", "2.0.0", "type: c"),
            row("b", "3.0.0", ""),
            row("c", "1.0.0", "type: a"),
            row("other", "1.0.0", "type: ab, of another team: c-like"),
        ];
        let sent = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let rows = needed(all.clone(), &names);
            rows.iter().map(|row| format!("{}:{}", row.name, row.version)).collect::<Vec<_>>()
        };
        assert!(sent(&[]).is_empty());
        assert_eq!(sent(&["c"]), ["a:1.10.0", "b:2.0.0", "b:3.0.0", "c:1.0.0"]);
        assert_eq!(sent(&["a:1.9.0"]), ["a:1.9.0"]);
        assert_eq!(sent(&["b:9.9.9"]), ["b:3.0.0"]);
        assert_eq!(sent(&["oth${{WHICH}}"]), ["other:1.0.0"]);
        assert!(sent(&["unknown"]).is_empty());
    }
}
