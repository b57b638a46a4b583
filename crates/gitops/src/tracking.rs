//! Which application an object belongs to.
//!
//! The annotation holds the object's own key too, so a copy of it that some operator made on another object says
//! "not mine": only an object that its tracking id names may ever be pruned.

use crate::cluster::{Settings, TrackingMethod};
use crate::object::{self, ResourceKey};
use serde_json::Value;
use slipway_crd::names;

/// The tracking id of an object of an application.
pub fn tracking_id(instance: &str, key: &ResourceKey) -> String {
    format!("{instance}:{}/{}:{}/{}", key.group, key.kind, key.namespace, key.name)
}

/// Reads a tracking id: the application's instance name and the key of the object it was written for.
pub fn parse_tracking_id(id: &str) -> Option<(&str, ResourceKey)> {
    let mut parts = id.split(':');
    let (instance, kind_part, name_part) = (parts.next()?, parts.next()?, parts.next()?);
    // A name may hold colons (RBAC); what is left belongs to it.
    let rest: Vec<&str> = parts.collect();
    let name_part =
        if rest.is_empty() { name_part.to_string() } else { format!("{name_part}:{}", rest.join(":")) };
    let (group, kind) = kind_part.split_once('/')?;
    let (namespace, name) = name_part.split_once('/')?;
    (!instance.is_empty()).then(|| (instance, ResourceKey::new(group, kind, namespace, name)))
}

/// Writes tracking metadata. CustomResourceDefinitions get none: they must never be pruned or cascaded.
pub fn set_tracking(object: &mut Value, instance: &str, settings: &Settings) {
    set_tracking_in(object, instance, "", settings);
}

/// As [`set_tracking`]. The id of an object without a namespace names the destination's, as Argo CD writes it: an id in
/// another form would make every cluster-scoped object of a former installation differ.
pub fn set_tracking_in(object: &mut Value, instance: &str, destination_namespace: &str, settings: &Settings) {
    if object::is_crd(object) {
        return;
    }
    let mut key = ResourceKey::of(object);
    if key.namespace.is_empty() {
        key.namespace = destination_namespace.to_string();
    }
    if settings.tracking != TrackingMethod::Label {
        object::set_annotation(object, names::TRACKING_ID, &tracking_id(instance, &key));
        if let Some(installation) = &settings.installation_id {
            object::set_annotation(object, names::INSTALLATION_ID, installation);
        }
    }
    if settings.tracking != TrackingMethod::Annotation {
        object::set_label(object, &settings.instance_label, label_value(instance));
    }
}

/// A label holds at most 63 characters and ends with a letter or digit.
fn label_value(instance: &str) -> &str {
    let mut end = instance.len().min(63);
    while !instance.is_char_boundary(end) {
        end -= 1;
    }
    instance[..end].trim_end_matches(['-', '_', '.'])
}

/// The application that an object says it belongs to, be it true of this very object or not.
pub fn tracked_by<'a>(object: &'a Value, settings: &Settings) -> Option<&'a str> {
    if settings.tracking == TrackingMethod::Label {
        return object::label(object, &settings.instance_label).filter(|value| !value.is_empty());
    }
    if let Some(installation) = &settings.installation_id
        && object::annotation(object, names::INSTALLATION_ID) != Some(installation.as_str())
    {
        return None;
    }
    parse_tracking_id(object::annotation(object, names::TRACKING_ID)?).map(|(instance, _)| instance)
}

/// The application in the label, for an index of live objects. What has an owner only copied the label from it.
pub fn labelled_by<'a>(object: &'a Value, label: &str) -> Option<&'a str> {
    let owned = !object::list(object, &["metadata", "ownerReferences"]).is_empty();
    object::label(object, label).filter(|value| !value.is_empty() && !owned)
}

/// The application in the annotation, for an index of live objects, if the annotation was written for this very object:
/// operators copy annotations to what they make.
pub fn annotated_by(object: &Value) -> Option<&str> {
    let id = object::annotation(object, names::TRACKING_ID)?;
    let (instance, key) = parse_tracking_id(id)?;
    names_itself(object, &key).then_some(instance)
}

/// True when the object's tracking names this application and this very object.
pub fn is_owned(object: &Value, instance: &str, settings: &Settings) -> bool {
    tracked_by(object, settings) == Some(instance) && is_self_reference(object, settings)
}

/// True unless the tracking id was written for another object.
pub fn is_self_reference(object: &Value, settings: &Settings) -> bool {
    if settings.tracking == TrackingMethod::Label {
        return true;
    }
    let Some((_, key)) = object::annotation(object, names::TRACKING_ID).and_then(parse_tracking_id) else {
        return true;
    };
    names_itself(object, &key)
}

fn names_itself(object: &Value, key: &ResourceKey) -> bool {
    let own = ResourceKey::of(object);
    // The namespace of a cluster-scoped object may have been filled in when the id was written.
    own.group == key.group
        && own.kind == key.kind
        && own.name == key.name
        && (own.namespace == key.namespace || own.namespace.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config_map(annotation: Option<&str>) -> Value {
        let mut object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}});
        if let Some(id) = annotation {
            object::set_annotation(&mut object, names::TRACKING_ID, id);
        }
        object
    }

    #[test]
    fn ids_are_read_as_written() {
        let key = ResourceKey::new("rbac.authorization.k8s.io", "ClusterRole", "", "system:me:x");
        let id = tracking_id("team_app", &key);
        assert_eq!(id, "team_app:rbac.authorization.k8s.io/ClusterRole:/system:me:x");
        assert_eq!(parse_tracking_id(&id), Some(("team_app", key)));
        for broken in ["", "app", "app:x", "app:a/b", ":a/b:c/d", "app:ab:cd"] {
            assert_eq!(parse_tracking_id(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_copied_annotation_does_not_make_an_object_ours() {
        let settings = Settings::default();
        assert!(is_owned(&config_map(Some("app:/ConfigMap:n/a")), "app", &settings));
        assert!(!is_owned(&config_map(Some("app:/ConfigMap:n/b")), "app", &settings));
        assert!(!is_owned(&config_map(Some("app:/Secret:n/a")), "app", &settings));
        assert!(!is_owned(&config_map(Some("other:/ConfigMap:n/a")), "app", &settings));
        assert!(!is_owned(&config_map(None), "app", &settings));
    }

    #[test]
    fn an_index_believes_what_was_written_for_the_object_alone() {
        assert_eq!(annotated_by(&config_map(Some("app:/ConfigMap:n/a"))), Some("app"));
        for copied in [None, Some("app:/ConfigMap:n/b"), Some("app:/ConfigMap:m/a"), Some(":/ConfigMap:n/a")]
        {
            assert_eq!(annotated_by(&config_map(copied)), None, "{copied:?}");
        }
        let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "system:x", "annotations": {
                names::TRACKING_ID: "app:rbac.authorization.k8s.io/ClusterRole:n/system:x"}}});
        assert_eq!(annotated_by(&role), Some("app"), "written before it was known that it has no namespace");
        role["metadata"]["labels"] = json!({"app": "shop"});
        assert_eq!((labelled_by(&role, "app"), labelled_by(&role, "other")), (Some("shop"), None));
        role["metadata"]["ownerReferences"] = json!([{"uid": "1"}]);
        assert_eq!(labelled_by(&role, "app"), None, "its owner has the label");
    }

    #[test]
    fn another_installation_is_another_owner() {
        let settings = Settings { installation_id: Some("blue".into()), ..Settings::default() };
        let mut object = config_map(None);
        set_tracking(&mut object, "app", &settings);
        assert!(is_owned(&object, "app", &settings));
        object::set_annotation(&mut object, names::INSTALLATION_ID, "green");
        assert!(!is_owned(&object, "app", &settings));
    }

    #[test]
    fn a_cluster_scoped_object_is_tracked_under_the_destination() {
        let settings = Settings::default();
        let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
        set_tracking_in(&mut role, "app", "web", &settings);
        let id = object::annotation(&role, names::TRACKING_ID);
        assert_eq!(id, Some("app:rbac.authorization.k8s.io/ClusterRole:web/r"));
        assert!(is_owned(&role, "app", &settings));
    }

    #[test]
    fn definitions_get_no_tracking() {
        let mut crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"}});
        let before = crd.clone();
        set_tracking(&mut crd, "app", &Settings::default());
        assert_eq!(crd, before);
    }

    #[test]
    fn labels_are_cut_to_what_a_label_may_hold() {
        let settings = Settings { tracking: TrackingMethod::AnnotationAndLabel, ..Settings::default() };
        let long = format!("{}-x", "a".repeat(62));
        let mut object = config_map(None);
        set_tracking(&mut object, &long, &settings);
        assert_eq!(object::label(&object, names::INSTANCE_LABEL), Some("a".repeat(62).as_str()));
        assert!(is_owned(&object, &long, &settings));
    }
}
