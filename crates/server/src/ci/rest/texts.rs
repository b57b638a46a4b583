//! Runs of a text that belongs to no pipeline, as `codefresh run --yaml FILE` asks for them.
//!
//! Builds belong to a pipeline, so these belong to one that is made with the first of them. Whoever may not make pipelines
//! may not bring one of their own either.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde_json::json;
use slipway_api::error::ErrorBody;
use slipway_api::pipeline::{Pipeline, RunRequest};
use slipway_store::{StoreError, pipelines as rows};

use crate::ci::rest::pipelines;
use crate::ci::rest::runs::{self, How, RunQuery};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access::{self, ProjectTags};
use crate::identity::auth::Caller;

/// The pipeline that such builds are listed under.
const NAME: &str = "default/yaml";

fn pipeline() -> Result<Pipeline, ApiError> {
    let says = "echo 'This pipeline runs texts that come with the run: codefresh run --yaml FILE'";
    let body = json!({
        "metadata": {"name": NAME, "description": "Runs of files without a pipeline"},
        "spec": {"steps": {"text": {"image": "alpine", "commands": [says]}}},
    });
    Ok(serde_json::from_value(body).map_err(StoreError::corrupt)?)
}

/// Start a build of the pipeline file in `userYamlDescriptor`. The answer is its id; it is listed under `default/yaml`.
#[utoipa::path(post, path = "/api/pipelines/run", tag = "pipelines", params(RunQuery), request_body = RunRequest,
    responses((status = 200, body = String), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody)))]
pub(crate) async fn run_text(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<RunQuery>,
    Json(request): Json<RunRequest>,
) -> Result<Json<String>, ApiError> {
    if request.user_yaml_descriptor.as_deref().is_none_or(|text| text.trim().is_empty()) {
        return Err(ApiError::bad_request(
            "nothing to run: send the pipeline file as userYamlDescriptor, or name a pipeline",
        ));
    }
    let asking = caller.clone();
    let known = server
        .look(move |tx| match rows::by_name(tx, asking.scope(), NAME)? {
            Some(row) => {
                let (body, tags) =
                    (crate::ci::pipelines::stored(&row)?, ProjectTags::load(tx, asking.scope())?);
                let entity = access::pipeline_entity(NAME, &body, &tags);
                access::refuse(access::may(tx, &asking, "create", &entity)?, true, NAME)?;
                Ok(true)
            }
            None => Ok(false),
        })
        .await?;
    if !known {
        // Somebody else may have made it meanwhile: then it is there.
        match pipelines::create(State(server.clone()), caller.clone(), Json(pipeline()?)).await {
            Err(error) if error.status() != StatusCode::CONFLICT => return Err(error),
            _ => {}
        }
    }
    runs::begin(server, caller, NAME.to_owned(), query, request, How::Text).await
}
