//! Writes: every answer enters the copy at once.

use http::Request;
use serde_json::{Value, json};

use crate::connect::Cluster;
use crate::request::{collection_path, describe, object_path};
use crate::{ClusterError, ObjectKey};

#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    /// Let the API server check and default, and change nothing.
    pub dry_run: bool,
    /// Refuse unknown and repeated fields, as `kubectl` does.
    pub validate: bool,
}

/// What becomes of what the object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Foreground,
    Background,
    Orphan,
}

impl Propagation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "Foreground",
            Self::Background => "Background",
            Self::Orphan => "Orphan",
        }
    }
}

impl Cluster {
    /// Server-side apply as the manager of this handle, conflicts forced.
    pub async fn apply(&self, object: &Value, options: WriteOptions) -> Result<Value, ClusterError> {
        let resource = self.resource_of(object).await?;
        let path = object_path(&resource, &ObjectKey::of(object))?;
        let query = self.query(options, &["force=true"]);
        let request = Request::patch(format!("{path}?{query}"))
            .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml");
        self.write(request, object, options, &describe(object)).await
    }

    pub async fn create(&self, object: &Value, options: WriteOptions) -> Result<Value, ClusterError> {
        let resource = self.resource_of(object).await?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        if resource.namespaced && namespace.is_empty() {
            return Err(ClusterError::Unnamed { key: ObjectKey::of(object) });
        }
        let path = collection_path(&resource, namespace);
        let request = Request::post(format!("{path}?{}", self.query(options, &[])))
            .header(http::header::CONTENT_TYPE, "application/json");
        self.write(request, object, options, &describe(object)).await
    }

    /// Creates something that is not kept in the copy: an Event.
    pub async fn post(&self, object: &Value) -> Result<(), ClusterError> {
        let resource = self.resource_of(object).await?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = collection_path(&resource, namespace);
        let request = Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(object.to_string().into_bytes())
            .expect("paths are built from checked parts");
        self.send(request, &describe(object)).await.map(|_| ())
    }

    /// PUT. With a resourceVersion in the object it fails when somebody else was faster.
    pub async fn replace(&self, object: &Value, options: WriteOptions) -> Result<Value, ClusterError> {
        let resource = self.resource_of(object).await?;
        let path = object_path(&resource, &ObjectKey::of(object))?;
        let request = Request::put(format!("{path}?{}", self.query(options, &[])))
            .header(http::header::CONTENT_TYPE, "application/json");
        self.write(request, object, options, &describe(object)).await
    }

    /// JSON merge patch of the object that `target` names by apiVersion, kind, namespace and name.
    pub async fn merge(
        &self,
        target: &Value,
        patch: &Value,
        options: WriteOptions,
    ) -> Result<Value, ClusterError> {
        self.patch(target, patch, "application/merge-patch+json", options).await
    }

    /// JSON patch (RFC 6902) of the object that `target` names.
    pub async fn json_patch(
        &self,
        target: &Value,
        operations: &Value,
        options: WriteOptions,
    ) -> Result<Value, ClusterError> {
        self.patch(target, operations, "application/json-patch+json", options).await
    }

    async fn patch(
        &self,
        target: &Value,
        patch: &Value,
        content_type: &str,
        options: WriteOptions,
    ) -> Result<Value, ClusterError> {
        let resource = self.resource_of(target).await?;
        let path = object_path(&resource, &ObjectKey::of(target))?;
        let request = Request::patch(format!("{path}?{}", self.query(options, &[])))
            .header(http::header::CONTENT_TYPE, content_type);
        self.write(request, patch, options, &describe(target)).await
    }

    /// JSON merge patch of a subresource (`status`, `scale`) of the object that `target` names.
    pub async fn merge_subresource(
        &self,
        target: &Value,
        subresource: &str,
        patch: &Value,
    ) -> Result<Value, ClusterError> {
        let resource = self.resource_of(target).await?;
        let path = object_path(&resource, &ObjectKey::of(target))?;
        let options = WriteOptions::default();
        let request = Request::patch(format!("{path}/{subresource}?{}", self.query(options, &[])))
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json");
        self.write(request, patch, options, &describe(target)).await
    }

    /// Asks a pod to leave, as far as disruption budgets allow it.
    pub async fn evict(&self, namespace: &str, name: &str) -> Result<(), ClusterError> {
        let target =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}});
        let resource = self.resource_of(&target).await?;
        let path = object_path(&resource, &ObjectKey::of(&target))?;
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace, "name": name}});
        let request = Request::post(format!("{path}/eviction"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .expect("paths are built from checked parts");
        let _slot = self.inner.writes.acquire().await.expect("the semaphore is never closed");
        self.send(request, &describe(&target)).await.map(|_| ())
    }

    /// Deletes, if the uid is still this one. `false`: there was nothing to delete.
    pub async fn delete(
        &self,
        key: &ObjectKey,
        uid: Option<&str>,
        propagation: Propagation,
        dry_run: bool,
    ) -> Result<bool, ClusterError> {
        self.delete_as(key, uid, None, propagation, dry_run, None).await
    }

    /// Deletes, if nobody changed it since it had this version. `false`: somebody did, or there was nothing to delete.
    pub async fn delete_unchanged(
        &self,
        key: &ObjectKey,
        resource_version: &str,
    ) -> Result<bool, ClusterError> {
        match self.delete_as(key, None, Some(resource_version), Propagation::Background, false, None).await {
            Err(error) if error.is_conflict() => Ok(false),
            answer => answer,
        }
    }

    /// The same, with the time that it has to end in order; `None`: its own.
    pub async fn delete_within(
        &self,
        key: &ObjectKey,
        uid: Option<&str>,
        propagation: Propagation,
        grace_seconds: Option<u32>,
    ) -> Result<bool, ClusterError> {
        self.delete_as(key, uid, None, propagation, false, grace_seconds).await
    }

    async fn delete_as(
        &self,
        key: &ObjectKey,
        uid: Option<&str>,
        resource_version: Option<&str>,
        propagation: Propagation,
        dry_run: bool,
        grace_seconds: Option<u32>,
    ) -> Result<bool, ClusterError> {
        let discovery = self.discovery();
        let resource = discovery.preferred(&key.group, &key.kind).ok_or_else(|| {
            ClusterError::UnknownKind { api_version: key.group.clone(), kind: key.kind.clone() }
        })?;
        let path = object_path(resource, key)?;
        let mut body =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.as_str()});
        if let Some(uid) = uid {
            body["preconditions"] = json!({"uid": uid});
        }
        if let Some(version) = resource_version {
            body["preconditions"]["resourceVersion"] = version.into();
        }
        if dry_run {
            body["dryRun"] = json!(["All"]);
        }
        if let Some(seconds) = grace_seconds {
            body["gracePeriodSeconds"] = seconds.into();
        }
        let request = Request::delete(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .expect("paths are built from checked parts");
        let _slot = self.inner.writes.acquire().await.expect("the semaphore is never closed");
        match self.send(request, &key.to_string()).await {
            Ok(_) if dry_run => Ok(true),
            Ok(answer) => {
                // An object that waits for finalizers is answered itself; one that is gone, with a Status.
                if answer["metadata"]["deletionTimestamp"].is_string() {
                    self.inner.cache.upsert(answer);
                } else if let Some(live) = self.live(key).filter(|live| uid.is_none_or(|uid| uid == live.uid))
                {
                    self.inner.cache.remove(&live.uid);
                }
                Ok(true)
            }
            Err(error) if error.is_not_found() => {
                if let Some(live) = self.live(key).filter(|live| uid.is_none_or(|uid| uid == live.uid)) {
                    self.inner.cache.remove(&live.uid);
                }
                Ok(false)
            }
            // Another object has the name by now: ours is gone.
            Err(error) if error.is_conflict() && uid.is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn write(
        &self,
        request: http::request::Builder,
        body: &Value,
        options: WriteOptions,
        what: &str,
    ) -> Result<Value, ClusterError> {
        let request =
            request.body(body.to_string().into_bytes()).expect("paths are built from checked parts");
        let _slot = self.inner.writes.acquire().await.expect("the semaphore is never closed");
        let answer = self.send(request, what).await?;
        if !options.dry_run {
            self.inner.cache.upsert(answer.clone());
        }
        Ok(answer)
    }

    fn query(&self, options: WriteOptions, more: &[&str]) -> String {
        let mut parts = vec![format!("fieldManager={}", crate::request::encode(self.field_manager()))];
        parts.push(format!("fieldValidation={}", if options.validate { "Strict" } else { "Ignore" }));
        if options.dry_run {
            parts.push("dryRun=All".to_owned());
        }
        parts.extend(more.iter().map(|part| (*part).to_owned()));
        parts.join("&")
    }
}
