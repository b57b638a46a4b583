//! Which application an object says it belongs to.

use serde_json::Value;
use slipway_crd::names;

use crate::ObjectKey;

/// The application in the label. What has an owner only copied the label from it.
pub(crate) fn labelled_by(object: &Value, label: &str) -> Option<String> {
    let owned = object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
    let value = object["metadata"]["labels"][label].as_str().filter(|value| !value.is_empty() && !owned)?;
    Some(value.to_owned())
}

/// The application in the tracking annotation, if the annotation was written for this very object: operators
/// copy annotations to what they make.
pub(crate) fn tracked_by(object: &Value, key: &ObjectKey) -> Option<String> {
    let id = object["metadata"]["annotations"][names::TRACKING_ID].as_str()?;
    let (application, rest) = id.split_once(':')?;
    let own = format!("{}/{}:{}/{}", key.group, key.kind, key.namespace, key.name);
    let foreign_namespace = || {
        // Written before it was known that the kind has no namespace.
        let (kind, name) = rest.split_once(':').unwrap_or_default();
        key.namespace.is_empty()
            && kind == format!("{}/{}", key.group, key.kind)
            && name.split_once('/').is_some_and(|(_, name)| name == key.name)
    };
    (!application.is_empty() && (rest == own || foreign_namespace())).then(|| application.to_owned())
}
