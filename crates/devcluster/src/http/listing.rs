//! Lists: selectors, pages, and the three forms a client may ask for.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use slipway_dialect::selector::Selector;

use super::reply::{json_reply, typed_reply};
use super::resources::Target;
use super::{Ask, Body, table};
use crate::api::{FieldSelector, label_selector, to_version};
use crate::error::{ApiError, ApiResult};
use crate::kinds::Resource;
use crate::store::Stored;
use crate::value::{Json as _, base64_url, base64_url_decode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Table,
    Metadata,
}

/// The first form of the Accept header that is spoken here.
pub(super) fn form(ask: &Ask) -> Form {
    for part in ask.header("accept").split(',') {
        let part: String = part.chars().filter(|c| !c.is_whitespace()).collect();
        if !part.starts_with("application/json")
            && !part.starts_with("*/*")
            && !part.starts_with("application/*")
        {
            continue;
        }
        if part.contains("as=Table") && part.contains("v=v1;") | part.ends_with("v=v1") {
            return Form::Table;
        }
        if part.contains("as=PartialObjectMetadata") {
            return Form::Metadata;
        }
        if !part.contains("as=") {
            return Form::Plain;
        }
    }
    Form::Plain
}

pub(super) fn metadata_only(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// Label and field selectors together.
pub(super) struct Selection {
    labels: Selector,
    fields: FieldSelector,
    name: Option<String>,
}

impl Selection {
    pub(super) fn parse(ask: &Ask, resource: &Resource) -> ApiResult<Self> {
        Ok(Selection {
            labels: label_selector(ask.query.get("labelSelector"))?,
            fields: FieldSelector::parse(resource, ask.query.get("fieldSelector"))?,
            name: None,
        })
    }

    pub(super) fn only(mut self, name: Option<&str>) -> Self {
        self.name = name.map(str::to_owned);
        self
    }

    pub(super) fn matches(&self, stored: &Stored) -> bool {
        self.name.as_deref().is_none_or(|name| stored.key.name == name)
            && self.labels.matches(&stored.labels)
            && self.fields.only_name().is_none_or(|name| stored.key.name == name)
            && (self.fields.is_empty() || self.fields.matches(&stored.value()))
    }

    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }
}

pub(super) fn list(ask: &Ask, target: &Target) -> ApiResult<Response<Body>> {
    let resource = &target.resource;
    let selection = Selection::parse(ask, resource)?;
    let asked = ask.query.get("resourceVersion");
    if !asked.is_empty() && asked.parse::<u64>().is_err() {
        return Err(ApiError::bad_request(format!(
            "Invalid resourceVersion {asked:?}: use the one of an earlier answer"
        )));
    }
    let (mut version, all) = ask.cluster.store.list(&resource.storage, target.namespace.as_deref());
    if ask.query.get("resourceVersionMatch") == "Exact" && asked.parse() != Ok(version) {
        return Err(ApiError::gone(format!(
            "The provided resource version is too old: {asked} (this cluster keeps only the newest)"
        )));
    }
    if asked.parse::<u64>().is_ok_and(|wanted| wanted > version) {
        let message = format!("Too large resource version: {asked}, current: {version}");
        let mut error = ApiError::new(504, "Timeout", message);
        error.details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1});
        return Err(error);
    }
    let after = match ask.query.get("continue") {
        "" => None,
        token => {
            let (at, key) = parse_continue(token)?;
            version = at;
            Some(key)
        }
    };
    let mut chosen: Vec<Arc<Stored>> = all
        .into_iter()
        .filter(|s| after.as_ref().is_none_or(|(ns, name)| (&s.key.namespace, &s.key.name) > (ns, name)))
        .filter(|s| selection.matches(s))
        .collect();
    let limit = ask.query.number("limit").filter(|n| *n > 0).unwrap_or(i64::MAX) as usize;
    let mut meta = json!({"resourceVersion": version.to_string()});
    if chosen.len() > limit {
        let remaining = chosen.len() - limit;
        chosen.truncate(limit);
        let last = &chosen[limit - 1].key;
        meta["continue"] =
            json!(base64_url(json!([version, last.namespace, last.name]).to_string().as_bytes()));
        if selection.is_everything() {
            meta["remainingItemCount"] = json!(remaining);
        }
    }
    Ok(list_reply(ask, resource, meta, &chosen))
}

fn parse_continue(token: &str) -> ApiResult<(u64, (String, String))> {
    base64_url_decode(token)
        .and_then(|bytes| serde_json::from_slice::<(u64, String, String)>(&bytes).ok())
        .map(|(version, namespace, name)| (version, (namespace, name)))
        .ok_or_else(|| ApiError::bad_request("continue key is not valid: use the one of the last answer"))
}

fn list_reply(ask: &Ask, resource: &Resource, meta: Value, chosen: &[Arc<Stored>]) -> Response<Body> {
    let values = || -> Vec<Value> {
        chosen.iter().map(|s| to_version(resource, s.value(), &resource.api_version())).collect()
    };
    match form(ask) {
        Form::Table => {
            let table = table::table(resource, &values(), meta, ask.query.get("includeObject"), true);
            json_reply(StatusCode::OK, &table)
        }
        Form::Metadata => {
            let items: Vec<Value> = values().iter().map(metadata_only).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": items});
            json_reply(StatusCode::OK, &list)
        }
        Form::Plain if resource.api_version() != resource.stored_as => {
            let list = json!({"kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": meta, "items": values()});
            json_reply(StatusCode::OK, &list)
        }
        // The kept text goes out as it is: lists are the bulk of what clients read.
        Form::Plain => {
            let size: usize = chosen.iter().map(|s| s.json.len() + 1).sum();
            let mut text = Vec::with_capacity(size + 256);
            let head = format!(
                "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta},\"items\":[",
                json!(resource.list_kind),
                json!(resource.api_version())
            );
            text.extend_from_slice(head.as_bytes());
            for (index, stored) in chosen.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                text.extend_from_slice(&stored.json);
            }
            text.extend_from_slice(b"]}");
            typed_reply(StatusCode::OK, "application/json", text)
        }
    }
}

/// One object in the asked form, as text; for watches.
pub(super) fn object_text(
    form: Form,
    resource: &Resource,
    stored: &Stored,
    include: &str,
    headers: bool,
) -> String {
    match form {
        Form::Plain if resource.api_version() == resource.stored_as => {
            String::from_utf8_lossy(&stored.json).into_owned()
        }
        Form::Plain => to_version(resource, stored.value(), &resource.api_version()).to_string(),
        Form::Metadata => metadata_only(&stored.value()).to_string(),
        Form::Table => {
            let value = to_version(resource, stored.value(), &resource.api_version());
            let meta = json!({"resourceVersion": value.str_at("metadata.resourceVersion")});
            table::table(resource, &[value], meta, include, headers).to_string()
        }
    }
}
