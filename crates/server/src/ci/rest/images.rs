//! Images that builds have made, as the published CLI lists them. Names, tags and annotations; no layers.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_api::error::ErrorBody;
use slipway_store::{annotations, images};
use utoipa::{IntoParams, ToSchema};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::seams;

/// Rows that are looked at; older images are found by name at the registry.
const ROWS_MAX: i64 = 5_000;
const PAGE_MAX: usize = 500;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageQuery {
    limit: Option<usize>,
    offset: Option<usize>,
    tag: Option<String>,
    /// Of the commit.
    sha: Option<String>,
    branch: Option<String>,
    /// Part of the name.
    image_display_name_regex: Option<String>,
    /// Of the build that made it.
    build: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImagePage {
    docs: Vec<Image>,
    total: usize,
}

#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Image {
    internal_name: String,
    internal_image_id: String,
    image_display_name: String,
    created: String,
    /// Not known to the control plane.
    size: Option<u64>,
    /// Of the commit.
    sha: String,
    branch: String,
    tags: Vec<ImageTag>,
    #[schema(value_type = Object)]
    metadata: BTreeMap<String, Value>,
    build_id: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImageTag {
    tag: String,
    registry: String,
    repository: String,
}

/// Images, newest first.
#[utoipa::path(get, path = "/api/images", tag = "images", params(ImageQuery),
    responses((status = 200, body = ImagePage), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<ImageQuery>,
) -> Result<Json<ImagePage>, ApiError> {
    let page = server
        .look(move |tx| {
            let scope = caller.scope();
            let readable = crate::ci::pipelines::readable(tx, &caller)?;
            let mut found: Vec<Image> = Vec::new();
            let mut places: HashMap<(String, String), usize> = HashMap::new();
            let given = |filter: Option<String>| filter.filter(|text| !text.is_empty());
            let part = query.image_display_name_regex.unwrap_or_default();
            let (tag, sha) = (given(query.tag), given(query.sha));
            let (branch, build) = (given(query.branch), given(query.build));
            for row in images::list(tx, scope, ROWS_MAX)? {
                let wanted = readable.as_ref().is_none_or(|some| some.contains(&row.pipeline))
                    && tag.as_ref().is_none_or(|tag| *tag == row.tag)
                    && sha.as_ref().is_none_or(|sha| row.revision.starts_with(sha))
                    && branch.as_ref().is_none_or(|branch| *branch == row.branch)
                    && build.as_ref().is_none_or(|build| *build == row.build.to_string())
                    && row.name.contains(&part);
                if !wanted {
                    continue;
                }
                let tag = ImageTag { tag: row.tag, registry: row.registry, repository: row.name.clone() };
                let place = *places.entry((row.image.clone(), row.name.clone())).or_insert(found.len());
                if let Some(known) = found.get_mut(place) {
                    known.tags.push(tag);
                    continue;
                }
                found.push(Image {
                    internal_name: row.name.clone(),
                    internal_image_id: row.image,
                    image_display_name: row.name,
                    created: seams::rfc3339(row.at_ms),
                    sha: row.revision,
                    branch: row.branch,
                    tags: vec![tag],
                    build_id: row.build.to_string(),
                    ..Image::default()
                });
            }
            let total = found.len();
            let (offset, limit) = (query.offset.unwrap_or(0), query.limit.unwrap_or(25).min(PAGE_MAX));
            let mut docs: Vec<Image> = found.into_iter().skip(offset).take(limit).collect();
            for image in &mut docs {
                for noted in annotations::of(tx, scope, "image", &image.internal_image_id)? {
                    let value = serde_json::from_str(&noted.value).unwrap_or_default();
                    image.metadata.insert(noted.name, value);
                }
            }
            Ok(ImagePage { docs, total })
        })
        .await?;
    Ok(Json(page))
}
