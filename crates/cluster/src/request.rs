//! Requests: paths from keys, a deadline, and patience with a server that is busy or just restarting.

use std::time::Duration;

use http::Request;
use serde_json::Value;

use crate::connect::Cluster;
use crate::discovery::ApiResource;
use crate::key::group_version;
use crate::{ClusterError, ObjectKey};

/// Tries of a request that a busy server put off.
const BUSY_TRIES: u32 = 5;

impl Cluster {
    /// Sends and reads the answer. A busy server (429) is asked again; everything else is the caller's to judge.
    pub(crate) async fn send(
        &self,
        mut request: Request<Vec<u8>>,
        what: &str,
    ) -> Result<Value, ClusterError> {
        if request.method() != http::Method::GET {
            self.impersonate(&mut request, what)?;
        }
        let timeout = self.inner.config.request_timeout;
        let mut tries = 0;
        loop {
            if request.method() != http::Method::GET {
                if !crate::fence::may_write() {
                    return Err(ClusterError::Fenced { what: what.to_owned() });
                }
                tracing::debug!(method = %request.method(), what, "A write goes out.");
                if let Some(hook) = &self.inner.config.before_write {
                    (hook.0)(&format!("{} {what}", request.method()));
                }
            }
            let call = self.inner.client.request::<Value>(request.clone());
            let answer = match tokio::time::timeout(timeout, call).await {
                Ok(answer) => answer.map_err(|error| ClusterError::from_kube(error, what)),
                Err(_) => Err(ClusterError::Deadline { seconds: timeout.as_secs() }),
            };
            match answer {
                Err(ClusterError::Refused { code: 429, .. }) if tries < BUSY_TRIES => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(100 << tries)).await;
                }
                answer => return answer,
            }
        }
    }

    fn impersonate(&self, request: &mut Request<Vec<u8>>, what: &str) -> Result<(), ClusterError> {
        let Some(user) = self.user.as_deref() else { return Ok(()) };
        let user = http::HeaderValue::from_str(user).map_err(|_| ClusterError::Refused {
            what: what.to_owned(),
            code: 400,
            reason: "BadRequest".to_owned(),
            message: "the name of the service account to act as is not a name".to_owned(),
        })?;
        request.headers_mut().insert("impersonate-user", user);
        Ok(())
    }

    /// A question of somebody else, put in the name of whoever this hand acts as: one object, or without a name up to
    /// `most` of a collection. The copy is left alone.
    pub async fn ask(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: Option<&str>,
        most: usize,
    ) -> Result<Value, ClusterError> {
        let path = match name {
            Some(name) => {
                object_path(resource, &ObjectKey::new(&resource.group, &resource.kind, namespace, name))?
            }
            None => format!("{}?limit={most}", collection_path(resource, namespace)),
        };
        let request = http::Request::get(&path).body(Vec::new());
        let mut request = request.expect("paths are built from checked parts");
        self.impersonate(&mut request, &path)?;
        self.send(request, &path).await
    }

    /// Asks the API server for an object and refreshes the copy; `None`: it does not exist.
    pub async fn read(&self, key: &ObjectKey) -> Result<Option<Value>, ClusterError> {
        let mut discovery = self.discovery();
        if discovery.preferred(&key.group, &key.kind).is_none() {
            // Its definition may be a moment old.
            discovery = self.rediscover().await?;
        }
        let Some(resource) = discovery.preferred(&key.group, &key.kind) else {
            return Err(ClusterError::UnknownKind { api_version: key.group.clone(), kind: key.kind.clone() });
        };
        let found = self.read_as(resource, key).await?;
        match &found {
            Some(object) => self.inner.cache.upsert(object.clone()),
            None => {
                if let Some(live) = self.live(key) {
                    self.inner.cache.remove(&live.uid);
                }
            }
        }
        Ok(found)
    }

    /// Asks for an object in one version; the copy, which has another version, is left alone.
    pub async fn read_version(
        &self,
        api_version: &str,
        key: &ObjectKey,
    ) -> Result<Option<Value>, ClusterError> {
        let discovery = self.discovery();
        let resource =
            discovery.find(api_version, &key.kind).ok_or_else(|| unknown(api_version, &key.kind))?;
        self.read_as(resource, key).await
    }

    async fn read_as(&self, resource: &ApiResource, key: &ObjectKey) -> Result<Option<Value>, ClusterError> {
        let path = object_path(resource, key)?;
        match self.get_json(&path, None).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for all objects of a kind with a label, in the key's namespace; the copy is left alone.
    pub async fn list_labelled(&self, kind: &ObjectKey, selector: &str) -> Result<Vec<Value>, ClusterError> {
        let discovery = self.discovery();
        let resource =
            discovery.preferred(&kind.group, &kind.kind).ok_or_else(|| unknown(&kind.group, &kind.kind))?;
        let path =
            format!("{}?labelSelector={}", collection_path(resource, &kind.namespace), encode(selector));
        let mut answer = self.get_json(&path, None).await?;
        Ok(answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    /// Asks for all objects of a kind with this name, in whatever namespace; the copy is left alone.
    pub async fn list_named(&self, group: &str, kind: &str, name: &str) -> Result<Vec<Value>, ClusterError> {
        let discovery = self.discovery();
        let resource = discovery.preferred(group, kind).ok_or_else(|| unknown(group, kind))?;
        let selector = encode(&format!("metadata.name={name}"));
        let path = format!("{}?fieldSelector={selector}", collection_path(resource, ""));
        let mut answer = self.get_json(&path, None).await?;
        Ok(answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    /// Asks for what was noted in a namespace, about one object or about all of them, up to `most`; the copy is left alone.
    pub async fn events(
        &self,
        namespace: &str,
        uid: Option<&str>,
        most: usize,
    ) -> Result<Vec<Value>, ClusterError> {
        let discovery = self.discovery();
        let resource = discovery.preferred("", "Event").ok_or_else(|| unknown("", "Event"))?;
        let about = uid.map(|uid| format!("&fieldSelector={}", encode(&format!("involvedObject.uid={uid}"))));
        let path =
            format!("{}?limit={most}{}", collection_path(resource, namespace), about.unwrap_or_default());
        let mut answer = self.get_json(&path, None).await?;
        Ok(answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
    }

    /// The resource that an object of this kind is written to. An unknown kind is asked for once more, because
    /// its definition may be a moment old.
    pub(crate) async fn resource_of(&self, object: &Value) -> Result<ApiResource, ClusterError> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        if let Some(resource) = self.discovery().find(api_version, kind) {
            return Ok(resource.clone());
        }
        let discovery = self.rediscover().await?;
        discovery.find(api_version, kind).cloned().ok_or_else(|| unknown(api_version, kind))
    }
}

fn unknown(api_version: &str, kind: &str) -> ClusterError {
    ClusterError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

/// `/apis/apps/v1/namespaces/n/deployments` or without namespace.
pub(crate) fn collection_path(resource: &ApiResource, namespace: &str) -> String {
    let (group, version) = (&resource.group, &resource.version);
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    if resource.namespaced && !namespace.is_empty() {
        format!("{root}/namespaces/{}/{}", encode(namespace), resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    }
}

pub(crate) fn object_path(resource: &ApiResource, key: &ObjectKey) -> Result<String, ClusterError> {
    if key.name.is_empty() || (resource.namespaced && key.namespace.is_empty()) {
        return Err(ClusterError::Unnamed { key: key.clone() });
    }
    Ok(format!("{}/{}", collection_path(resource, &key.namespace), encode(&key.name)))
}

/// Names may hold characters that mean something in an address (`system:x`), and hostile ones slashes and dots.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~' | b':');
        // A dot is harmless inside of a name, but `..` is not a name.
        if plain || (byte == b'.' && text.len() > 2) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The group of a resource's apiVersion, for messages.
pub(crate) fn describe(object: &Value) -> String {
    let key = ObjectKey::of(object);
    let (_, version) = group_version(object["apiVersion"].as_str().unwrap_or_default());
    if version.is_empty() { "object without apiVersion".to_owned() } else { key.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_hold_their_parts() {
        let resource = |group: &str, namespaced| ApiResource {
            group: group.into(),
            version: "v1".into(),
            kind: "X".into(),
            plural: "xs".into(),
            namespaced,
            verbs: Vec::new(),
        };
        let key = |namespace: &str, name: &str| ObjectKey::new("", "X", namespace, name);
        for (resource, key, expected) in [
            (resource("", true), key("n", "a.b"), Some("/api/v1/namespaces/n/xs/a.b")),
            (resource("g", false), key("", "system:x"), Some("/apis/g/v1/xs/system:x")),
            (
                resource("", true),
                key("n", "../../secrets/x"),
                Some("/api/v1/namespaces/n/xs/..%2F..%2Fsecrets%2Fx"),
            ),
            (resource("", true), key("n", ".."), Some("/api/v1/namespaces/n/xs/%2E%2E")),
            (resource("", true), key("", "a"), None),
            (resource("", true), key("n", ""), None),
        ] {
            assert_eq!(object_path(&resource, &key).ok().as_deref(), expected);
        }
    }
}
