//! Create, update, patch and server-side apply: one road for every kind.

use serde_json::{Map, Value, json};

use super::{Caller, Cluster, FieldValidation, strategy, to_version, validate};
use crate::apply::{self, Writer};
use crate::error::{ApiError, ApiResult};
use crate::kinds::{Resource, Scale, apply_builtin_defaults};
use crate::patch;
use crate::schema::{self, Type};
use crate::store::{Key, Tx};
use crate::value::{Json as _, new_uid, now, random_suffix};

const CRDS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// The body of a PATCH request, by content type.
pub(crate) enum PatchBody {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply { config: Value, force: bool },
}

pub(crate) struct Patch<'a> {
    pub(crate) subresource: &'a str,
    pub(crate) body: PatchBody,
}

/// How a new state comes about.
type Step<'a> = Box<dyn FnOnce(&Value) -> ApiResult<Next> + Send + 'a>;

enum Next {
    /// A whole new object.
    Object(Value),
    /// A configuration to merge by server-side apply.
    Apply(Value, bool),
}

impl Cluster {
    pub(crate) async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        mut object: Value,
        caller: &mut Caller,
    ) -> ApiResult<Value> {
        check_type_meta(resource, &mut object)?;
        place(resource, namespace, &mut object)?;
        if object.name().is_empty() && !object.str_at("metadata.generateName").is_empty() {
            let prefix: String = object.str_at("metadata.generateName").chars().take(58).collect();
            object.set_at("metadata.name", json!(format!("{prefix}{}", random_suffix())));
        }
        if !object.str_at("metadata.resourceVersion").is_empty() {
            // Kubernetes blames itself for this one, without a reason.
            return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let name = object.name().to_owned();
        let key = self.key(resource, namespace, &name);
        let dry = caller.dry_run;
        let created = self
            .store
            .transact(dry, |tx| {
                self.check_namespace(tx, resource, namespace, &name)?;
                if tx.get(&key).is_some() {
                    return Err(ApiError::already_exists(&resource.group, &resource.plural, &name));
                }
                self.insert(tx, resource, key, object, caller, None)
            })
            .await?;
        self.after_write(resource, dry);
        Ok(created)
    }

    pub(crate) async fn update(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        mut object: Value,
        caller: &mut Caller,
    ) -> ApiResult<Value> {
        if subresource == "scale" {
            let (object, _) = self
                .scale(resource, namespace, name, Box::new(move |_| Ok(Next::Object(object))), caller)
                .await?;
            return Ok(object);
        }
        check_type_meta(resource, &mut object)?;
        place(resource, namespace, &mut object)?;
        if object.name().is_empty() {
            object.set_at("metadata.name", json!(name));
        }
        if object.name() != name {
            let message = format!(
                "the name of the object ({}) does not match the name on the URL ({name})",
                object.name()
            );
            return Err(ApiError::bad_request(message));
        }
        let step: Step<'_> = Box::new(move |_| Ok(Next::Object(object)));
        Ok(self.change(resource, namespace, name, subresource, step, caller).await?.0)
    }

    /// Changes an object where it is; for controllers. The closure sees the newest state, so there are no conflicts.
    pub(crate) async fn modify(
        &self,
        storage: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
        manager: &str,
        edit: impl FnOnce(&mut Value) + Send,
    ) -> ApiResult<Value> {
        let resource = self
            .kinds()
            .by_storage(storage)
            .cloned()
            .ok_or_else(|| ApiError::not_found("", storage, name))?;
        let step: Step<'_> = Box::new(move |live| {
            let mut object = live.clone();
            edit(&mut object);
            Ok(Next::Object(object))
        });
        let mut caller = Caller::internal(manager);
        Ok(self.change(&resource, namespace, name, subresource, step, &mut caller).await?.0)
    }

    /// Applies a patch. The flag says that server-side apply created the object.
    pub(crate) async fn patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        patch: Patch<'_>,
        caller: &mut Caller,
    ) -> ApiResult<(Value, bool)> {
        let shape_resource = resource.clone();
        let strategic = matches!(patch.body, PatchBody::Strategic(_));
        if strategic && resource.is_custom() {
            return Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
        let body = patch.body;
        let step: Step<'_> = match body {
            PatchBody::Apply { mut config, force } => {
                check_apply(resource, namespace, name, &mut config)?;
                Box::new(move |_| Ok(Next::Apply(config, force)))
            }
            body => Box::new(move |live| {
                let mut object = live.clone();
                match body {
                    PatchBody::Json(ops) => patch::json_patch(&mut object, ops).map_err(|e| {
                        ApiError::new(
                            422,
                            "Invalid",
                            format!("the server rejected our request due to an error in our request: {e}"),
                        )
                    })?,
                    PatchBody::Merge(change) => patch::merge_patch(&mut object, &change),
                    PatchBody::Strategic(change) => {
                        patch::strategic_merge(shape_resource.node(), &mut object, &change)
                            .map_err(ApiError::bad_request)?;
                    }
                    PatchBody::Apply { .. } => unreachable!("handled above"),
                }
                Ok(Next::Object(object))
            }),
        };
        if patch.subresource == "scale" {
            return self.scale(resource, namespace, name, step, caller).await;
        }
        self.change(resource, namespace, name, patch.subresource, step, caller).await
    }

    async fn change(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        step: Step<'_>,
        caller: &mut Caller,
    ) -> ApiResult<(Value, bool)> {
        let key = self.key(resource, namespace, name);
        let dry = caller.dry_run;
        let result = self
            .store
            .transact(dry, |tx| match tx.get(&key) {
                Some(stored) => {
                    let live = stored.value();
                    let object = self.replace(tx, resource, &key, subresource, live, step, caller)?;
                    Ok((object, false))
                }
                None => match step(&json!({}))? {
                    Next::Apply(config, _) if subresource.is_empty() => {
                        self.check_namespace(tx, resource, namespace, name)?;
                        if config.name().is_empty() {
                            return Err(ApiError::bad_request(format!("the name of the object ({name} based on URL) was undeterminable: name must be provided")));
                        }
                        if !config.str_at("metadata.uid").is_empty() {
                            return Err(ApiError::conflict(&resource.group, &resource.plural, name, "uid mismatch: the provided object specified uid, and no existing object was found"));
                        }
                        let object = self.insert(tx, resource, key, config.clone(), caller, Some(config))?;
                        Ok((object, true))
                    }
                    _ => Err(ApiError::not_found(&resource.group, &resource.plural, name)),
                },
            })
            .await?;
        self.after_write(resource, dry);
        Ok(result)
    }

    fn after_write(&self, resource: &Resource, dry: bool) {
        if !dry && &*resource.storage == CRDS {
            self.reload_kinds();
        }
    }

    fn check_namespace(
        &self,
        tx: &Tx<'_>,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> ApiResult<()> {
        if !resource.namespaced {
            return Ok(());
        }
        let key = Key { kind: "namespaces".into(), namespace: String::new(), name: namespace.to_owned() };
        let Some(stored) = tx.get(&key) else { return Err(ApiError::not_found("", "namespaces", namespace)) };
        if stored.value().at("metadata.deletionTimestamp").is_some() {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let mut error = ApiError::forbidden(&resource.group, &resource.plural, name, &why);
            error.details["causes"] = json!([{"reason": "NamespaceTerminating",
                "message": format!("namespace {namespace} is being terminated"), "field": "metadata.namespace"}]);
            return Err(error);
        }
        Ok(())
    }

    /// Puts a new object. `applied` is the configuration when it comes from server-side apply.
    fn insert(
        &self,
        tx: &mut Tx<'_>,
        resource: &Resource,
        key: Key,
        mut object: Value,
        caller: &mut Caller,
        applied: Option<Value>,
    ) -> ApiResult<Value> {
        decode(resource, &mut object, caller)?;
        let ignored: &[&str] = if resource.status { &["status"] } else { &[] };
        let time = now();
        let writer = Writer { manager: &caller.manager, subresource: "", now: &time, ignored };
        if resource.status {
            object.remove_at("status");
        }
        default_fields(resource, &mut object);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"] {
            object.remove_at(&format!("metadata.{field}"));
        }
        object.set_at("metadata.uid", json!(new_uid()));
        object.set_at("metadata.creationTimestamp", json!(time));
        if resource.namespaced {
            object.set_at("metadata.namespace", json!(key.namespace));
        }
        if has_generation(resource) {
            object.set_at("metadata.generation", json!(1));
        } else {
            object.remove_at("metadata.generation");
        }
        strategy::prepare_create(self, tx, resource, &mut object)?;
        validate::object(resource, &object, None)?;
        match &applied {
            Some(config) => {
                let merged = apply::server_side_apply(resource.node(), None, config, &writer, true)
                    .map_err(|_| ApiError::new(500, "InternalError", "a new object cannot conflict"))?;
                if let Some(fields) = merged.at("metadata.managedFields") {
                    object.set_at("metadata.managedFields", fields.clone());
                }
            }
            None => apply::track_update(resource.node(), None, &mut object, &writer),
        }
        let mut stored = to_version(resource, object, &resource.stored_as);
        tx.put(key, &mut stored);
        if caller.dry_run {
            // It has no version, because it is nowhere.
            stored.remove_at("metadata.resourceVersion");
        }
        Ok(to_version(resource, stored, &resource.api_version()))
    }

    /// Brings an existing object to its next state.
    #[expect(clippy::too_many_arguments, reason = "the road of one write: every part is needed at its end")]
    fn replace(
        &self,
        tx: &mut Tx<'_>,
        resource: &Resource,
        key: &Key,
        subresource: &str,
        stored: Value,
        step: Step<'_>,
        caller: &mut Caller,
    ) -> ApiResult<Value> {
        let live = to_version(resource, stored.clone(), &resource.api_version());
        let time = now();
        let ignored = ignored_fields(resource, subresource);
        let writer = Writer { manager: &caller.manager.clone(), subresource, now: &time, ignored };
        let (mut object, applied) = match step(&live)? {
            Next::Object(object) => (object, false),
            Next::Apply(mut config, force) => {
                decode(resource, &mut config, caller)?;
                config
                    .remove_at("metadata.resourceVersion")
                    .map(|v| check_version(resource, &key.name, &live, &v))
                    .transpose()?;
                config.set_at("metadata.name", json!(key.name));
                let merged = apply::server_side_apply(resource.node(), Some(&live), &config, &writer, force)
                    .map_err(|conflicts| conflict_error(&conflicts))?;
                (merged, true)
            }
        };
        if !applied {
            check_type_meta(resource, &mut object)?;
            decode(resource, &mut object, caller)?;
            check_preconditions(resource, &key.name, &live, &object)?;
        }
        object = confine(resource, subresource, &live, object);
        default_fields(resource, &mut object);
        restore_meta(&live, &mut object);
        strategy::prepare_update(self, tx, resource, subresource, &live, &mut object)?;
        bump_generation(resource, subresource, &live, &mut object);
        validate::object(resource, &object, Some(&live))?;
        if !applied {
            apply::track_update(resource.node(), Some(&live), &mut object, &writer);
        }
        if same_but_times(&live, &object) {
            return Ok(live);
        }
        let mut next = to_version(resource, object, &resource.stored_as);
        if next.at("metadata.deletionTimestamp").is_some() && super::delete::may_go(resource, &next) {
            tx.delete(key.clone(), &mut next);
        } else {
            tx.put(key.clone(), &mut next);
        }
        if caller.dry_run {
            next.set_at("metadata.resourceVersion", live["metadata"]["resourceVersion"].clone());
        }
        Ok(to_version(resource, next, &resource.api_version()))
    }

    /// The `scale` subresource: reads a Scale, writes the replicas.
    async fn scale(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        step: Step<'_>,
        caller: &mut Caller,
    ) -> ApiResult<(Value, bool)> {
        let Some(scale) = resource.scale.clone() else { return Err(ApiError::no_such_path()) };
        let inner = scale.clone();
        let target = resource.clone();
        let wrapped: Step<'_> = Box::new(move |live| {
            let current = scale_of(&target, &inner, live);
            let wanted = match step(&current)? {
                Next::Object(object) => object,
                Next::Apply(config, _) => config,
            };
            let given = wanted.str_at("metadata.resourceVersion");
            if !given.is_empty() && given != live.str_at("metadata.resourceVersion") {
                return Err(ApiError::modified(&target.group, &target.plural, live.name()));
            }
            let replicas = wanted.int_at("spec.replicas").unwrap_or(0);
            if replicas < 0 {
                let finding = schema::ShapeError::invalid(
                    "spec.replicas",
                    &json!(replicas),
                    "must be greater than or equal to 0",
                );
                return Err(ApiError::invalid("autoscaling", "Scale", live.name(), &[finding]));
            }
            let mut object = live.clone();
            object.set_at(&inner.replicas, json!(replicas));
            Ok(Next::Object(object))
        });
        let (object, _) = self.change(resource, namespace, name, "scale", wrapped, caller).await?;
        Ok((scale_of(resource, &scale, &object), false))
    }

    pub(crate) fn read_scale(&self, resource: &Resource, live: &Value) -> ApiResult<Value> {
        let scale = resource.scale.as_ref().ok_or_else(ApiError::no_such_path)?;
        Ok(scale_of(resource, scale, live))
    }
}

fn scale_of(resource: &Resource, scale: &Scale, object: &Value) -> Value {
    let selector = if scale.selector.is_empty() {
        object.at("spec.selector").map(super::select::selector_text).unwrap_or_default()
    } else {
        object.str_at(&scale.selector).to_owned()
    };
    let mut meta = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            meta.insert(field.to_owned(), value.clone());
        }
    }
    let default = if resource.is_custom() { 0 } else { 1 };
    let mut status = json!({"replicas": object.int_at(&scale.status_replicas).unwrap_or(0)});
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    let replicas = object.int_at(&scale.replicas).unwrap_or(default);
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": {"replicas": replicas}, "status": status})
}

/// apiVersion and kind must be those of the endpoint; missing ones are filled in.
fn check_type_meta(resource: &Resource, object: &mut Value) -> ApiResult<()> {
    if !object.is_object() {
        return Err(ApiError::bad_request("the request body must be a JSON object"));
    }
    let (version, kind) = (resource.api_version(), &resource.kind);
    let given = (object.str_at("apiVersion").to_owned(), object.str_at("kind").to_owned());
    if !given.0.is_empty() && given.0 != version {
        let message = format!(
            "the API version in the data ({}) does not match the expected API version ({version})",
            given.0
        );
        return Err(ApiError::bad_request(message));
    }
    if !given.1.is_empty() && given.1 != *kind {
        let message = format!(
            "{} in version \"{}\" cannot be handled as a {kind}: no kind \"{}\" is registered here",
            given.1, resource.version, given.1
        );
        return Err(ApiError::bad_request(message));
    }
    object.set_at("apiVersion", json!(version));
    object.set_at("kind", json!(kind));
    if !object["metadata"].is_object() {
        object.set_at("metadata", json!({}));
    }
    Ok(())
}

fn place(resource: &Resource, namespace: &str, object: &mut Value) -> ApiResult<()> {
    let given = object.namespace();
    if resource.namespaced {
        if !given.is_empty() && given != namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        object.set_at("metadata.namespace", json!(namespace));
    } else if !given.is_empty() {
        object.remove_at("metadata.namespace");
    }
    Ok(())
}

fn check_apply(resource: &Resource, namespace: &str, name: &str, config: &mut Value) -> ApiResult<()> {
    if !config.is_object() {
        return Err(ApiError::bad_request("error decoding YAML: the body must be an object"));
    }
    for field in ["apiVersion", "kind"] {
        if config.str_at(field).is_empty() {
            return Err(ApiError::bad_request(format!(
                "invalid object type: {field} must be set in an applied configuration"
            )));
        }
    }
    check_type_meta(resource, config)?;
    place(resource, namespace, config)?;
    if config.at("metadata.managedFields").is_some_and(|v| !v.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    match config.name() {
        // Enough for an object that is there; who wants a new one must name it.
        "" => {}
        given if given != name => {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        _ => {}
    }
    Ok(())
}

/// What Go's decoder does: unknown fields go (or are refused), wrong types are refused.
fn decode(resource: &Resource, object: &mut Value, caller: &mut Caller) -> ApiResult<()> {
    let mut unknown = Vec::new();
    let managed = object.remove_at("metadata.managedFields");
    schema::prune(resource.node(), object, "", &mut unknown);
    if let Some(managed) = managed {
        object.set_at("metadata.managedFields", managed);
    }
    unknown.sort();
    match caller.validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            let list: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
            let head = format!(
                "{} in version \"{}\" cannot be handled as a {}: ",
                resource.kind, resource.version, resource.kind
            );
            return Err(ApiError::bad_request(format!("{head}strict decoding error: {}", list.join(", "))));
        }
        FieldValidation::Warn => {
            caller.warnings.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")))
        }
        _ => {}
    }
    if resource.is_custom() {
        return Ok(());
    }
    let mut findings = Vec::new();
    schema::validate(resource.node(), object, "", &mut findings);
    if let Some(wrong) = findings.iter().find(|f| f.reason == "FieldValueTypeInvalid") {
        let head = format!(
            "{} in version \"{}\" cannot be handled as a {}: ",
            resource.kind, resource.version, resource.kind
        );
        return Err(ApiError::bad_request(format!(
            "{head}json: cannot unmarshal {}: {}",
            wrong.path, wrong.message
        )));
    }
    Ok(())
}

fn default_fields(resource: &Resource, object: &mut Value) {
    if resource.is_custom() {
        schema::apply_defaults(resource.node(), object);
    } else {
        apply_builtin_defaults(&resource.kind, object);
    }
}

fn check_version(resource: &Resource, name: &str, live: &Value, given: &Value) -> ApiResult<()> {
    let given = given.as_str().unwrap_or("");
    if !given.is_empty() && given != live.str_at("metadata.resourceVersion") {
        return Err(ApiError::modified(&resource.group, &resource.plural, name));
    }
    Ok(())
}

fn check_preconditions(resource: &Resource, name: &str, live: &Value, object: &Value) -> ApiResult<()> {
    if let Some(version) = object.at("metadata.resourceVersion") {
        check_version(resource, name, live, version)?;
    }
    let uid = object.uid();
    if !uid.is_empty() && uid != live.uid() {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", live.uid());
        return Err(ApiError::conflict(&resource.group, &resource.plural, name, &why));
    }
    Ok(())
}

/// A write to a subresource changes only its part; a write to the object leaves `status` alone.
fn confine(resource: &Resource, subresource: &str, live: &Value, mut object: Value) -> Value {
    match subresource {
        "status" => {
            let mut next = live.clone();
            match object.remove_at("status") {
                Some(status) => next.set_at("status", status),
                None => drop(next.remove_at("status")),
            }
            if let Some(managed) = object.remove_at("metadata.managedFields") {
                next.set_at("metadata.managedFields", managed);
            }
            next
        }
        _ if resource.status => {
            match live.get("status") {
                Some(status) => object.set_at("status", status.clone()),
                None => drop(object.remove_at("status")),
            }
            object
        }
        _ => object,
    }
}

fn restore_meta(live: &Value, object: &mut Value) {
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "name",
        "namespace",
        "generateName",
        "resourceVersion",
    ] {
        let path = format!("metadata.{field}");
        match live["metadata"].get(field) {
            Some(value) => object.set_at(&path, value.clone()),
            None => drop(object.remove_at(&path)),
        }
    }
}

fn has_generation(resource: &Resource) -> bool {
    resource.is_custom()
        || (resource.node().fields.get("spec").is_some_and(|spec| matches!(spec.ty, Type::Ref(_)))
            && !matches!(
                resource.kind.as_str(),
                "Namespace"
                    | "Node"
                    | "PersistentVolume"
                    | "PersistentVolumeClaim"
                    | "Service"
                    | "ResourceQuota"
                    | "LimitRange"
                    | "Lease"
            ))
        || matches!(resource.kind.as_str(), "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration")
}

fn bump_generation(resource: &Resource, subresource: &str, live: &Value, object: &mut Value) {
    if !has_generation(resource) || subresource == "status" {
        return;
    }
    let strip = |value: &Value| {
        let mut value = value.clone();
        if let Some(map) = value.as_object_mut() {
            map.remove("metadata");
            map.remove("apiVersion");
            if resource.status || !resource.is_custom() {
                map.remove("status");
            }
        }
        value
    };
    if strip(live) != strip(object) {
        let next = live.int_at("metadata.generation").unwrap_or(0) + 1;
        object.set_at("metadata.generation", json!(next));
    }
}

fn ignored_fields(resource: &Resource, subresource: &str) -> &'static [&'static str] {
    match subresource {
        "status" if resource.is_custom() => &["spec"],
        "status" => &["spec", "data"],
        _ if resource.status => &["status"],
        _ => &[],
    }
}

/// Equal, apart from the times in managedFields: such a write is no write.
fn same_but_times(live: &Value, object: &Value) -> bool {
    let strip = |value: &Value| {
        let mut value = value.clone();
        value.remove_at("metadata.resourceVersion");
        for entry in
            value.at_mut("metadata.managedFields").and_then(Value::as_array_mut).into_iter().flatten()
        {
            entry.remove_at("time");
        }
        value
    };
    strip(live) == strip(object)
}

fn conflict_error(conflicts: &[apply::Conflict]) -> ApiError {
    let mut by_manager: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for conflict in conflicts {
        by_manager.entry(&conflict.manager).or_default().push(&conflict.field);
    }
    let text: Vec<String> = by_manager
        .iter()
        .map(|(manager, fields)| match fields.as_slice() {
            [one] => format!("conflict with {manager}: {one}"),
            many => format!("conflicts with {manager}:\n- {}", many.join("\n- ")),
        })
        .collect();
    let count = conflicts.len();
    let plural = if count == 1 { "conflict" } else { "conflicts" };
    let mut error =
        ApiError::new(409, "Conflict", format!("Apply failed with {count} {plural}: {}", text.join("\n")));
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|c| json!({"reason": "FieldManagerConflict", "message": format!("conflict with {}", c.manager), "field": c.field}))
        .collect();
    error.details = json!({"causes": causes});
    error
}
