//! Deletion: grace periods, finalizers and propagation policies.

use serde_json::{Value, json};

use super::{Caller, Cluster, to_version};
use crate::error::{ApiError, ApiResult};
use crate::kinds::Resource;
use crate::store::{Key, Tx};
use crate::value::{Json as _, now, time_text};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) propagation: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    pub(crate) fn from_json(body: &Value) -> ApiResult<Self> {
        let text = |path: &str| Some(body.str_at(path).to_owned()).filter(|s| !s.is_empty());
        let propagation = text("propagationPolicy").or_else(|| match body.at("orphanDependents") {
            Some(Value::Bool(true)) => Some("Orphan".to_owned()),
            Some(Value::Bool(false)) => Some("Background".to_owned()),
            _ => None,
        });
        if let Some(policy) = &propagation
            && !matches!(policy.as_str(), "Background" | "Foreground" | "Orphan")
        {
            let message = format!("invalid propagationPolicy {policy:?}: use Background, Foreground or Orphan");
            return Err(ApiError::new(422, "Invalid", message));
        }
        Ok(DeleteOptions {
            grace_seconds: body.int_at("gracePeriodSeconds"),
            propagation,
            uid: text("preconditions.uid"),
            resource_version: text("preconditions.resourceVersion"),
        })
    }
}

/// Nothing holds the object any more: no finalizers, no grace left, and for a namespace its contents are gone.
pub(super) fn may_go(resource: &Resource, object: &Value) -> bool {
    let graceful = object.int_at("metadata.deletionGracePeriodSeconds").unwrap_or(0) > 0;
    object.list_at("metadata.finalizers").is_empty()
        && !(graceful && resource.kind == "Pod")
        && !(resource.kind == "Namespace" && !object.list_at("spec.finalizers").is_empty())
}

impl Cluster {
    /// Deletes one object, or marks it. The flag says that it is gone.
    pub(crate) async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        caller: &mut Caller,
    ) -> ApiResult<(Value, bool)> {
        let key = self.key(resource, namespace, name);
        let dry = caller.dry_run;
        let result = self
            .store
            .transact(dry, |tx| {
                let Some(stored) = tx.get(&key) else {
                    return Err(ApiError::not_found(&resource.group, &resource.plural, name));
                };
                let object = stored.value();
                check_preconditions(resource, &object, options)?;
                self.delete_in(tx, resource, key, object, options, caller)
            })
            .await?;
        if !dry && resource.kind == "CustomResourceDefinition" {
            self.reload_kinds();
        }
        Ok(result)
    }

    fn delete_in(
        &self,
        tx: &mut Tx<'_>,
        resource: &Resource,
        key: Key,
        mut object: Value,
        options: &DeleteOptions,
        caller: &mut Caller,
    ) -> ApiResult<(Value, bool)> {
        let before = object.clone();
        if resource.kind == "Namespace" && matches!(key.name.as_str(), "default" | "kube-system" | "kube-public") {
            return Err(ApiError::forbidden("", "namespaces", &key.name, "this namespace may not be deleted"));
        }
        set_policy_finalizers(resource, &mut object, options, caller);
        let grace = grace_seconds(resource, &object, options);
        let first = object.at("metadata.deletionTimestamp").is_none();
        let shorter = object.int_at("metadata.deletionGracePeriodSeconds").is_some_and(|have| grace < have);
        if first || shorter {
            let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(grace);
            object.set_at("metadata.deletionTimestamp", json!(if grace == 0 { now() } else { time_text(at) }));
            object.set_at("metadata.deletionGracePeriodSeconds", json!(grace));
            if resource.kind == "Namespace" {
                object.set_at("status.phase", json!("Terminating"));
            }
            if let Some(generation) = object.int_at("metadata.generation") {
                object.set_at("metadata.generation", json!(generation + 1));
            }
        }
        if may_go(resource, &object) {
            // What watchers see last is the object as it was, not the mark that lived for no time.
            let mut last = if first { before } else { object };
            tx.delete(key, &mut last);
            return Ok((to_version(resource, last, &resource.api_version()), true));
        }
        if object != before {
            tx.put(key, &mut object);
        }
        Ok((to_version(resource, object, &resource.api_version()), false))
    }
}

fn check_preconditions(resource: &Resource, object: &Value, options: &DeleteOptions) -> ApiResult<()> {
    let fail = |what: &str, wanted: &str, have: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {have}");
        Err(ApiError::conflict(&resource.group, &resource.plural, object.name(), &why))
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != object.uid()) {
        return fail("UID", uid, object.uid());
    }
    let version = object.str_at("metadata.resourceVersion");
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        return fail("ResourceVersion", wanted, version);
    }
    Ok(())
}

/// The propagation policy lives on as a finalizer, which the garbage collector takes away when it is done.
fn set_policy_finalizers(resource: &Resource, object: &mut Value, options: &DeleteOptions, caller: &mut Caller) {
    let mut finalizers: Vec<Value> = object.list_at("metadata.finalizers").to_vec();
    let policy = match options.propagation.as_deref() {
        Some(policy) => policy,
        None if finalizers.contains(&json!(ORPHAN)) => "Orphan",
        None if finalizers.contains(&json!(FOREGROUND)) => "Foreground",
        None if matches!(resource.kind.as_str(), "Job" | "ReplicationController") => {
            caller.warnings.push(format!(
                "child pods are preserved by default when {} are deleted; set propagationPolicy=Background to remove them \
                 or set propagationPolicy=Orphan to suppress this warning",
                resource.plural
            ));
            "Orphan"
        }
        None => "Background",
    };
    finalizers.retain(|f| *f != FOREGROUND && *f != ORPHAN);
    match policy {
        "Foreground" => finalizers.push(json!(FOREGROUND)),
        "Orphan" => finalizers.push(json!(ORPHAN)),
        _ => {}
    }
    if finalizers.is_empty() {
        object.remove_at("metadata.finalizers");
    } else {
        object.set_at("metadata.finalizers", Value::Array(finalizers));
    }
}

fn grace_seconds(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    if resource.kind != "Pod" {
        return 0;
    }
    // Nothing runs yet, or nothing runs any more: there is nobody to be graceful to.
    if object.str_at("spec.nodeName").is_empty() || matches!(object.str_at("status.phase"), "Failed" | "Succeeded") {
        return 0;
    }
    options.grace_seconds.unwrap_or_else(|| object.int_at("spec.terminationGracePeriodSeconds").unwrap_or(30)).max(0)
}
