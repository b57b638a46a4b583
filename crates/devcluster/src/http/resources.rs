//! Requests about objects: parses the path, picks the verb, shapes the answer.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::reply::{json_reply, parse_body, read_body, typed_reply, warn};
use super::{Ask, Body, listing, reviews, streams, table, watching};
use crate::api::{Caller, DeleteOptions, FieldValidation, Patch, PatchBody, to_version};
use crate::error::{ApiError, ApiResult};
use crate::kinds::Resource;
use crate::store::Stored;
use crate::value::Json as _;

/// What a path names.
pub(super) struct Target {
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: String,
    pub(super) rest: Vec<String>,
}

impl Target {
    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("")
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("")
    }
}

fn parse_target(ask: &Ask, group: &str, version: &str, parts: &[&str]) -> ApiResult<Target> {
    let kinds = ask.cluster.kinds();
    let (namespace, parts) = match parts {
        ["namespaces", namespace, plural, ..]
            if group != "" || kinds.find("", "v1", plural).is_some_and(|r| r.namespaced) =>
        {
            (Some((*namespace).to_owned()), &parts[2..])
        }
        _ => (None, parts),
    };
    let [plural, tail @ ..] = parts else { return Err(ApiError::no_such_path()) };
    let resource = kinds.find(group, version, plural).cloned().ok_or_else(ApiError::no_such_path)?;
    if namespace.is_some() && !resource.namespaced {
        return Err(ApiError::no_such_path());
    }
    let text = |index: usize| tail.get(index).map(|s| (*s).to_owned());
    Ok(Target {
        resource,
        namespace,
        name: text(0),
        subresource: text(1).unwrap_or_default(),
        rest: tail.iter().skip(2).map(|s| (*s).to_owned()).collect(),
    })
}

pub(super) async fn handle(ask: Ask, group: &str, version: &str, parts: &[&str]) -> ApiResult<Response<Body>> {
    let target = parse_target(&ask, group, version, parts)?;
    if target.resource.namespaced && target.namespace.is_none() && target.name.is_some() {
        return Err(ApiError::no_such_path());
    }
    if target.resource.virtual_only {
        return reviews::handle(ask, target).await;
    }
    let known = match target.subresource.as_str() {
        "" => true,
        "status" => target.resource.status,
        "scale" => target.resource.scale.is_some(),
        other => target.resource.subresources.contains(&other),
    };
    if !known {
        return Err(ApiError::no_such_path());
    }
    if !matches!(target.subresource.as_str(), "" | "status" | "scale" | "finalize" | "ephemeralcontainers") {
        return streams::handle(ask, target).await;
    }
    let deprecation = target.resource.deprecation.clone();
    let verb = ask.method().clone();
    let mut response = match (&verb, target.name.is_some()) {
        (&Method::GET | &Method::HEAD, true) if ask.query.flag("watch") => watching::watch(ask, target).await,
        (&Method::GET | &Method::HEAD, true) => get(&ask, &target),
        (&Method::GET | &Method::HEAD, false) if ask.query.flag("watch") => watching::watch(ask, target).await,
        (&Method::GET | &Method::HEAD, false) => listing::list(&ask, &target),
        (&Method::POST, false) => create(ask, &target).await,
        (&Method::PUT, true) => update(ask, &target).await,
        (&Method::PATCH, true) => patch(ask, &target).await,
        (&Method::DELETE, true) => delete(ask, &target).await,
        (&Method::DELETE, false) => delete_collection(ask, &target).await,
        _ => Err(ApiError::method("the server does not allow this method on the requested resource")),
    }?;
    if let Some(text) = deprecation {
        warn(&mut response, &[text]);
    }
    Ok(response)
}

fn caller(ask: &Ask) -> ApiResult<Caller> {
    let dry_run = match ask.query.get("dryRun") {
        "" => false,
        "All" => true,
        other => return Err(ApiError::bad_request(format!("invalid dryRun {other:?}: use All"))),
    };
    let manager = match ask.query.get("fieldManager") {
        "" => ask.header("user-agent").split('/').next().unwrap_or("unknown").to_owned(),
        given if given.len() > 128 => {
            return Err(ApiError::bad_request("fieldManager: may not be more than 128 characters"));
        }
        given => given.to_owned(),
    };
    let manager = if manager.is_empty() { "unknown".to_owned() } else { manager };
    let validation = match ask.query.get("fieldValidation") {
        "Strict" => FieldValidation::Strict,
        "Ignore" => FieldValidation::Ignore,
        "" | "Warn" => FieldValidation::Warn,
        other => {
            return Err(ApiError::bad_request(format!("invalid fieldValidation {other:?}: use Ignore, Warn or Strict")));
        }
    };
    Ok(Caller { manager, dry_run, validation, warnings: Vec::new() })
}

fn get(ask: &Ask, target: &Target) -> ApiResult<Response<Body>> {
    let stored = ask.cluster.fetch(&target.resource, target.namespace(), target.name())?;
    if target.subresource == "scale" {
        return Ok(json_reply(StatusCode::OK, &ask.cluster.read_scale(&target.resource, &stored.value())?));
    }
    Ok(one_reply(ask, &target.resource, StatusCode::OK, Object::Stored(stored)))
}

/// An object that is about to be sent.
pub(super) enum Object {
    Stored(Arc<Stored>),
    Value(Value),
}

impl Object {
    pub(super) fn into_value(self, resource: &Resource) -> Value {
        match self {
            Object::Stored(stored) => to_version(resource, stored.value(), &resource.api_version()),
            Object::Value(value) => value,
        }
    }
}

/// One object in the form that the client's Accept header asks for.
fn one_reply(ask: &Ask, resource: &Resource, status: StatusCode, object: Object) -> Response<Body> {
    match (listing::form(ask), object) {
        (listing::Form::Plain, Object::Stored(stored)) if resource.api_version() == resource.stored_as => {
            typed_reply(status, "application/json", stored.json.clone())
        }
        (listing::Form::Plain, object) => json_reply(status, &object.into_value(resource)),
        (listing::Form::Table, object) => {
            let value = object.into_value(resource);
            let meta = json!({"resourceVersion": value.str_at("metadata.resourceVersion")});
            let table = table::table(resource, &[value], meta, ask.query.get("includeObject"), true);
            json_reply(status, &table)
        }
        (listing::Form::Metadata, object) => json_reply(status, &listing::metadata_only(&object.into_value(resource))),
    }
}

async fn create(mut ask: Ask, target: &Target) -> ApiResult<Response<Body>> {
    if target.resource.namespaced && target.namespace.is_none() {
        return Err(ApiError::method("create needs a namespace: POST to …/namespaces/{namespace}/…"));
    }
    let body = body(&mut ask).await?;
    let mut caller = caller(&ask)?;
    let object = ask.cluster.create(&target.resource, target.namespace(), body, &mut caller).await?;
    let mut response = one_reply(&ask, &target.resource, StatusCode::CREATED, Object::Value(object));
    warn(&mut response, &caller.warnings);
    Ok(response)
}

async fn update(mut ask: Ask, target: &Target) -> ApiResult<Response<Body>> {
    let body = body(&mut ask).await?;
    let mut caller = caller(&ask)?;
    let resource = &target.resource;
    let object =
        ask.cluster.update(resource, target.namespace(), target.name(), &target.subresource, body, &mut caller).await?;
    let mut response = one_reply(&ask, resource, StatusCode::OK, Object::Value(object));
    warn(&mut response, &caller.warnings);
    Ok(response)
}

async fn patch(mut ask: Ask, target: &Target) -> ApiResult<Response<Body>> {
    let content_type = ask.header("content-type").split(';').next().unwrap_or("").trim().to_owned();
    let bytes = read_body(&mut ask.request).await?;
    let value = parse_body(&content_type, &bytes)?;
    let mut caller = caller(&ask)?;
    let body = match content_type.as_str() {
        "application/json-patch+json" => PatchBody::Json(value),
        "application/merge-patch+json" => PatchBody::Merge(value),
        "application/strategic-merge-patch+json" => PatchBody::Strategic(value),
        "application/apply-patch+yaml" | "application/apply-patch+json" => {
            if ask.query.get("fieldManager").is_empty() {
                return Err(ApiError::bad_request(
                    "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
                ));
            }
            PatchBody::Apply { config: value, force: ask.query.flag("force") }
        }
        other => {
            let message = format!(
                "the body of the request was in an unknown format ({other}) - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, \
                 application/apply-patch+yaml"
            );
            return Err(ApiError::new(415, "UnsupportedMediaType", message));
        }
    };
    let patch = Patch { subresource: &target.subresource, body };
    let (object, created) =
        ask.cluster.patch(&target.resource, target.namespace(), target.name(), patch, &mut caller).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = one_reply(&ask, &target.resource, status, Object::Value(object));
    warn(&mut response, &caller.warnings);
    Ok(response)
}

async fn delete_options(ask: &mut Ask) -> ApiResult<(DeleteOptions, Caller)> {
    let content_type = ask.header("content-type").to_owned();
    let bytes = read_body(&mut ask.request).await?;
    let mut body = if bytes.is_empty() { json!({}) } else { parse_body(&content_type, &bytes)? };
    for (name, number) in [("propagationPolicy", false), ("gracePeriodSeconds", true), ("orphanDependents", false)] {
        let given = ask.query.get(name);
        if !given.is_empty() {
            let value = if number { json!(given.parse::<i64>().unwrap_or(0)) } else { json!(given) };
            body.set_at(name, value);
        }
    }
    let mut caller = caller(ask)?;
    caller.dry_run |= body.list_at("dryRun").iter().any(|v| v == "All");
    Ok((DeleteOptions::from_json(&body)?, caller))
}

async fn delete(mut ask: Ask, target: &Target) -> ApiResult<Response<Body>> {
    let (options, mut caller) = delete_options(&mut ask).await?;
    let resource = &target.resource;
    let (object, gone) =
        ask.cluster.delete(resource, target.namespace(), target.name(), &options, &mut caller).await?;
    let mut response = if gone && !matches!(resource.kind.as_str(), "Pod" | "Namespace" | "PersistentVolumeClaim") {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": target.name(), "group": resource.group, "kind": resource.plural, "uid": object.uid()}});
        json_reply(StatusCode::OK, &status)
    } else {
        json_reply(StatusCode::OK, &object)
    };
    warn(&mut response, &caller.warnings);
    Ok(response)
}

async fn delete_collection(mut ask: Ask, target: &Target) -> ApiResult<Response<Body>> {
    let (options, mut caller) = delete_options(&mut ask).await?;
    let selection = listing::Selection::parse(&ask, &target.resource)?;
    let resource = &target.resource;
    let (version, objects) = ask.cluster.store.list(&resource.storage, target.namespace.as_deref());
    let mut deleted = Vec::new();
    for stored in objects.iter().filter(|stored| selection.matches(stored)) {
        match ask.cluster.delete(resource, &stored.key.namespace, &stored.key.name, &options, &mut caller).await {
            Ok((object, _)) => deleted.push(object),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let list = json!({"kind": resource.list_kind, "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": version.to_string()}, "items": deleted});
    Ok(json_reply(StatusCode::OK, &list))
}

pub(super) async fn body(ask: &mut Ask) -> ApiResult<Value> {
    let content_type = ask.header("content-type").to_owned();
    let bytes = read_body(&mut ask.request).await?;
    parse_body(&content_type, &bytes)
}
