//! Registries of images that an account is connected to, as published clients read and write them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// `POST /api/registries`, `PATCH /api/registries/{name}`, and what is read back, with secrets as `*****`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Registry {
    /// Given by the server.
    #[serde(rename = "_id", skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Steps name it in `registry`, `registry_context` and `registry_contexts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is: `other` (or any word but the following), `dockerhub`, `gcr`, `gar`, `acr`, `ecr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// `host[:port]`; of `gar` the location.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Comes between the host and an image's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_prefix: Option<String>,
    /// Images of `build` steps that name no registry go here. One of an account's at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Of several with one host, the one that images are fetched with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<bool>,
    /// `kind`, `behindFirewall`, `fallbackRegistry`, and what opens it: `username` and `password`; `keyfile` (Google);
    /// `clientId` and `clientSecret` (Azure); `accessKeyId`, `secretAccessKey` and `region` (Amazon).
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub other: Map<String, Value>,
}
