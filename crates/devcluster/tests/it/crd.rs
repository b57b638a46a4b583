//! Custom resource definitions: schemas, versions, columns, subresources, cleanup.

use serde_json::{Value, json};

use crate::client::{APPLY, MERGE, Test, fields};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A kind that belongs to one test.
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
}

impl Kind {
    pub(crate) fn version(&self) -> String {
        format!("{}/v1", self.group)
    }

    pub(crate) fn path(&self, t: &Test) -> String {
        t.group(&self.version(), &self.plural)
    }

    pub(crate) fn object(&self, name: &str, spec: Value) -> Value {
        json!({"apiVersion": self.version(), "kind": self.kind, "metadata": {"name": name}, "spec": spec})
    }

    fn crd(&self) -> String {
        format!("{CRDS}/{}.{}", self.plural, self.group)
    }
}

fn schema(extra: &Value) -> Value {
    let mut properties = json!({
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "port": {"x-kubernetes-int-or-string": true},
        "note": {"type": "string", "nullable": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "count": {"type": "integer", "default": 1}}}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    });
    for (name, value) in extra.as_object().into_iter().flatten() {
        properties[name] = value.clone();
    }
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": properties},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "size": {"type": "integer"}, "selector": {"type": "string"}}}}})
}

fn definition(kind: &Kind, schema: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{}.{}", kind.plural, kind.group)},
        "spec": {"group": kind.group, "scope": "Namespaced", "names": {"plural": kind.plural, "singular": "widget", "kind": kind.kind, "shortNames": ["wd"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}, {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]}]}})
}

fn kind_for(t: &Test) -> Kind {
    // The namespace is unique, so its group is too.
    Kind { group: format!("{}.example.com", t.ns), plural: "widgets".into(), kind: "Widget".into() }
}

async fn establish(t: &Test, kind: &Kind, body: Value) {
    t.create(CRDS, body).await;
    t.until(&kind.crd(), "the definition being established", |crd| {
        crd["status"]["conditions"]
            .as_array()
            .is_some_and(|c| c.iter().any(|c| c["type"] == "Established" && c["status"] == "True"))
    })
    .await;
    t.eventually("the new resource being served", || async { t.get(&kind.path(t)).await.0 == 200 }).await;
}

/// Defines `Widget` in a group of the test's own.
pub(crate) async fn widgets(t: &Test, extra: Value) -> Kind {
    let kind = kind_for(t);
    establish(t, &kind, definition(&kind, schema(&extra))).await;
    kind
}

#[tokio::test]
async fn accepted_names_and_stored_versions_are_told() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    let (_, crd) = t.get(&kind.crd()).await;
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["spec"]["conversion"]["strategy"], "None");
}

#[tokio::test]
async fn unknown_fields_are_pruned() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    let object = t
        .create(
            &format!("{}?fieldValidation=Ignore", kind.path(&t)),
            kind.object("a", json!({"size": 1, "bogus": true, "free": {"any": {"thing": 1}}})),
        )
        .await;
    assert_eq!(object["spec"].get("bogus"), None);
    assert_eq!(object["spec"]["free"], json!({"any": {"thing": 1}}));
}

#[tokio::test]
async fn strict_validation_names_the_unknown_field() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    let (code, status) = t
        .post(
            &format!("{}?fieldValidation=Strict", kind.path(&t)),
            kind.object("a", json!({"size": 1, "bogus": true})),
        )
        .await;
    assert_eq!(code, 400);
    assert!(
        status["message"].as_str().is_some_and(|m| m.contains("unknown field \"spec.bogus\"")),
        "{status}"
    );
}

#[tokio::test]
async fn defaults_are_applied_deep_down() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    let object = t
        .create(
            &kind.path(&t),
            kind.object("a", json!({"size": 1, "parts": [{"id": "x"}, {"id": "y", "count": 5}]})),
        )
        .await;
    assert_eq!(object["spec"]["color"], "red");
    assert_eq!(object["spec"]["parts"], json!([{"id": "x", "count": 1}, {"id": "y", "count": 5}]));
}

#[tokio::test]
async fn values_are_validated() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    for (spec, field) in [
        (json!({}), "spec.size"),
        (json!({"size": 0}), "spec.size"),
        (json!({"size": 11}), "spec.size"),
        (json!({"size": "1"}), "spec.size"),
        (json!({"size": 1, "color": "blue"}), "spec.color"),
        (json!({"size": 1, "name": "UPPER"}), "spec.name"),
        (json!({"size": 1, "name": "x"}), "spec.name"),
        (json!({"size": 1, "name": "abcdef"}), "spec.name"),
        (json!({"size": 1, "port": true}), "spec.port"),
        (json!({"size": 1, "tags": {"k": 5}}), "spec.tags.k"),
        (json!({"size": 1, "parts": [{}]}), "spec.parts[0].id"),
        (json!({"size": 1, "parts": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}]}), "spec.parts"),
        (json!({"size": 1, "parts": [{"id": "a"}, {"id": "a"}]}), "spec.parts[1]"),
        (json!({"size": 1, "set": ["a", "a"]}), "spec.set[1]"),
    ] {
        let (code, status) = t.post(&kind.path(&t), kind.object("a", spec.clone())).await;
        assert_eq!(code, 422, "{spec} {status}");
        let found = fields(&status);
        // Map values are written with a dot or with brackets, by version of Kubernetes.
        assert!(
            found.iter().any(|f| f
                .replace('[', ".")
                .replace(']', "")
                .starts_with(&field.replace('[', ".").replace(']', ""))),
            "{spec}: {found:?}"
        );
    }
}

#[tokio::test]
async fn int_or_string_takes_both_and_nullable_takes_null() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    let object =
        t.create(&kind.path(&t), kind.object("a", json!({"size": 1, "port": 80, "note": null}))).await;
    assert_eq!(object["spec"]["port"], 80);
    let object = t.create(&kind.path(&t), kind.object("b", json!({"size": 1, "port": "http"}))).await;
    assert_eq!(object["spec"]["port"], "http");
}

#[tokio::test]
async fn one_of_and_any_of_are_checked() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({"either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}})).await;
    assert_eq!(
        t.post(&kind.path(&t), kind.object("x", json!({"size": 1, "either": {"a": "1"}}))).await.0,
        201
    );
    assert_eq!(
        t.post(&kind.path(&t), kind.object("y", json!({"size": 1, "either": {"a": "1", "b": "2"}}))).await.0,
        422
    );
    assert_eq!(t.post(&kind.path(&t), kind.object("z", json!({"size": 1, "either": {}}))).await.0, 422);
}

#[tokio::test]
async fn status_is_a_subresource() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    let mut body = kind.object("a", json!({"size": 1}));
    body["status"] = json!({"phase": "Made up"});
    let object = t.create(&kind.path(&t), body).await;
    assert_eq!(object.get("status"), None);
    let one = format!("{}/a", kind.path(&t));
    let (code, object) = t
        .patch(&format!("{one}/status"), MERGE, json!({"spec": {"size": 9}, "status": {"phase": "Ready"}}))
        .await;
    assert_eq!(code, 200);
    assert_eq!(
        (object["spec"]["size"].as_i64(), object["status"]["phase"].as_str()),
        (Some(1), Some("Ready"))
    );
    assert_eq!(object["metadata"]["generation"], 1);
    let (_, object) = t.patch(&one, MERGE, json!({"spec": {"size": 2}, "status": {"phase": "Lost"}})).await;
    assert_eq!(
        (object["status"]["phase"].as_str(), object["metadata"]["generation"].as_i64()),
        (Some("Ready"), Some(2))
    );
}

#[tokio::test]
async fn scale_is_a_subresource() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    t.create(&kind.path(&t), kind.object("a", json!({"size": 3}))).await;
    let one = format!("{}/a", kind.path(&t));
    t.patch(&format!("{one}/status"), MERGE, json!({"status": {"size": 2, "selector": "app=x"}})).await;
    let (code, scale) = t.get(&format!("{one}/scale")).await;
    assert_eq!((code, scale["kind"].as_str()), (200, Some("Scale")));
    assert_eq!(
        (
            scale["spec"]["replicas"].as_i64(),
            scale["status"]["replicas"].as_i64(),
            scale["status"]["selector"].as_str()
        ),
        (Some(3), Some(2), Some("app=x"))
    );
    let (code, _) = t.patch(&format!("{one}/scale"), MERGE, json!({"spec": {"replicas": 5}})).await;
    assert_eq!(code, 200);
    assert_eq!(t.get(&one).await.1["spec"]["size"], 5);
    // The schema holds for scaling too.
    assert_eq!(t.patch(&format!("{one}/scale"), MERGE, json!({"spec": {"replicas": 50}})).await.0, 422);
}

#[tokio::test]
async fn printer_columns_make_the_table() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    t.create(&kind.path(&t), kind.object("a", json!({"size": 3}))).await;
    let (_, _, table) =
        t.get_as(&kind.path(&t), "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").await;
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    assert_eq!(columns, ["Name", "Size", "Phase", "Age"]);
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["cells"][1], 3);
}

#[tokio::test]
async fn apply_merges_lists_as_the_schema_says() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    let one = format!("{}/a", kind.path(&t));
    t.patch(
        &format!("{one}?fieldManager=one"),
        APPLY,
        kind.object("a", json!({"size": 1, "parts": [{"id": "x", "count": 2}], "set": ["p"]})),
    )
    .await;
    let (code, object) = t
        .patch(
            &format!("{one}?fieldManager=two"),
            APPLY,
            kind.object("a", json!({"size": 1, "parts": [{"id": "y", "count": 3}], "set": ["q"]})),
        )
        .await;
    assert_eq!(code, 200, "{object}");
    assert_eq!(object["spec"]["parts"], json!([{"id": "x", "count": 2}, {"id": "y", "count": 3}]));
    assert_eq!(object["spec"]["set"], json!(["p", "q"]));
}

#[tokio::test]
async fn a_definition_must_be_structural_and_named_right() {
    let t = Test::api().await;
    let kind = kind_for(&t);
    let mut body = definition(&kind, schema(&json!({})));
    body["metadata"]["name"] = json!("wrong.example.com");
    assert_eq!(t.post(CRDS, body).await.0, 422);
    let mut body = definition(&kind, schema(&json!({})));
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["bad"] =
        json!({"description": "no type"});
    assert_eq!(t.post(CRDS, body).await.0, 422);
    let mut body = definition(&kind, schema(&json!({})));
    body["spec"]["versions"][0]["storage"] = json!(false);
    assert_eq!(t.post(CRDS, body).await.0, 422);
}

#[tokio::test]
async fn two_versions_serve_the_same_objects() {
    let t = Test::api().await;
    let kind = kind_for(&t);
    let mut body = definition(&kind, schema(&json!({})));
    let mut older = body["spec"]["versions"][0].clone();
    older["name"] = json!("v1beta1");
    older["storage"] = json!(false);
    older["deprecated"] = json!(true);
    body["spec"]["versions"].as_array_mut().expect("versions").push(older);
    establish(&t, &kind, body).await;
    t.create(&kind.path(&t), kind.object("a", json!({"size": 1}))).await;
    let path = t.group(&format!("{}/v1beta1", kind.group), "widgets/a");
    t.eventually("the older version being served", || async { t.get(&path).await.0 == 200 }).await;
    let (code, headers, bytes) = t.send("GET", &path, "", None).await;
    let object: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(
        (code, object["apiVersion"].as_str()),
        (200, Some(format!("{}/v1beta1", kind.group).as_str()))
    );
    assert!(headers["warning"].to_str().expect("text").contains("deprecated"));
}

#[tokio::test]
async fn a_changed_schema_holds_from_then_on() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    let patch = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum", "value": 100}]);
    assert_eq!(t.patch(&kind.crd(), crate::client::JSON, patch).await.0, 200);
    t.eventually("the new maximum", || async {
        t.post(&format!("{}?dryRun=All", kind.path(&t)), kind.object("a", json!({"size": 50}))).await.0 == 201
    })
    .await;
}

#[tokio::test]
async fn deleting_a_definition_deletes_its_objects() {
    let t = Test::api().await;
    let kind = widgets(&t, json!({})).await;
    t.create(&kind.path(&t), kind.object("a", json!({"size": 1}))).await;
    assert_eq!(t.delete(&kind.crd()).await.0, 200);
    t.until_gone(&kind.crd()).await;
    t.eventually("the resource no longer being served", || async { t.get(&kind.path(&t)).await.0 == 404 })
        .await;
    let again = widgets(&t, json!({})).await;
    assert_eq!(t.get(&again.path(&t)).await.1["items"], json!([]));
}
