//! The messages of `repository.RepoServerService`, as far as they are read or written here.
//!
//! Field numbers are Argo CD's. A source becomes the resource's JSON, so that one reader knows sources.

use std::collections::BTreeMap;

use prost::Message;
use serde::{Serialize, Serializer};
use serde_json::Value;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ManifestRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) repo: Option<Repository>,
    #[prost(string, tag = "2")]
    pub(super) revision: String,
    /// The name that objects are tracked by.
    #[prost(string, tag = "5")]
    pub(super) app_name: String,
    #[prost(string, tag = "8")]
    pub(super) namespace: String,
    #[prost(message, optional, tag = "10")]
    pub(super) application_source: Option<Source>,
    /// `$name` of sources that value files are taken from.
    #[prost(btree_map = "string, message", tag = "23")]
    pub(super) ref_sources: BTreeMap<String, RefTarget>,
    #[prost(string, tag = "25")]
    pub(super) project_name: String,
}

/// A part of a question that brings files along: the question, what its archive is, or some of the archive.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ManifestRequestWithFiles {
    #[prost(message, optional, tag = "1")]
    pub(super) request: Option<ManifestRequest>,
    #[prost(message, optional, tag = "2")]
    pub(super) metadata: Option<ManifestFileMetadata>,
    #[prost(message, optional, tag = "3")]
    pub(super) chunk: Option<ManifestFileChunk>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ManifestFileMetadata {
    /// SHA-256 of the archive, in hexadecimal digits.
    #[prost(string, tag = "1")]
    pub(super) checksum: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ManifestFileChunk {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) chunk: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ManifestResponse {
    #[prost(string, repeated, tag = "1")]
    pub(super) manifests: Vec<String>,
    #[prost(string, tag = "2")]
    pub(super) namespace: String,
    #[prost(string, tag = "4")]
    pub(super) revision: String,
    #[prost(string, tag = "6")]
    pub(super) source_type: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RefTarget {
    #[prost(message, optional, tag = "1")]
    pub(super) repo: Option<Repository>,
    #[prost(string, tag = "2")]
    pub(super) target_revision: String,
    #[prost(string, tag = "3")]
    pub(super) chart: String,
}

/// Credentials are sent too; they are not read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Repository {
    #[prost(string, tag = "1")]
    pub(super) url: String,
    /// `git`, `helm` or `oci`; empty is git.
    #[prost(string, tag = "11")]
    pub(super) kind: String,
    #[prost(string, tag = "20")]
    pub(super) project: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RepositoryRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) repo: Option<Repository>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TestRepositoryResponse {
    #[prost(bool, tag = "1")]
    pub(super) verified: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResolveRevisionRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) repo: Option<Repository>,
    #[prost(message, optional, tag = "2")]
    pub(super) app: Option<Application>,
    #[prost(string, tag = "3")]
    pub(super) ambiguous_revision: String,
    #[prost(int64, tag = "4")]
    pub(super) source_index: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResolveRevisionResponse {
    #[prost(string, tag = "1")]
    pub(super) revision: String,
    #[prost(string, tag = "2")]
    pub(super) ambiguous_revision: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Application {
    #[prost(message, optional, tag = "2")]
    pub(super) spec: Option<ApplicationSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ApplicationSpec {
    #[prost(message, optional, tag = "1")]
    pub(super) source: Option<Source>,
    #[prost(string, tag = "3")]
    pub(super) project: String,
    #[prost(message, repeated, tag = "8")]
    pub(super) sources: Vec<Source>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AppDetailsQuery {
    #[prost(message, optional, tag = "1")]
    pub(super) repo: Option<Repository>,
    #[prost(message, optional, tag = "2")]
    pub(super) source: Option<Source>,
    #[prost(string, tag = "5")]
    pub(super) app_name: String,
    #[prost(btree_map = "string, message", tag = "11")]
    pub(super) ref_sources: BTreeMap<String, RefTarget>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AppDetailsResponse {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(message, optional, tag = "3")]
    pub(super) helm: Option<Empty>,
    #[prost(message, optional, tag = "4")]
    pub(super) kustomize: Option<Empty>,
    #[prost(message, optional, tag = "5")]
    pub(super) directory: Option<Empty>,
    #[prost(message, optional, tag = "6")]
    pub(super) plugin: Option<Empty>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RevisionRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) repo: Option<Repository>,
    #[prost(string, tag = "2")]
    pub(super) revision: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RevisionMetadata {
    #[prost(string, tag = "1")]
    pub(super) author: String,
    #[prost(message, optional, tag = "2")]
    pub(super) date: Option<Time>,
    #[prost(string, tag = "4")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Time {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    #[prost(string, tag = "1")]
    #[serde(rename = "repoURL")]
    pub(super) repo_url: String,
    #[prost(string, tag = "2")]
    pub(super) path: String,
    #[prost(string, tag = "4")]
    pub(super) target_revision: String,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) helm: Option<Helm>,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kustomize: Option<Kustomize>,
    #[prost(message, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) directory: Option<Directory>,
    #[prost(message, optional, tag = "11")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plugin: Option<Plugin>,
    #[prost(string, tag = "12")]
    pub(super) chart: String,
    #[prost(string, tag = "13")]
    #[serde(rename = "ref")]
    pub(super) reference: String,
    #[prost(string, tag = "14")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Helm {
    #[prost(string, repeated, tag = "1")]
    value_files: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    parameters: Vec<HelmParameter>,
    #[prost(string, tag = "3")]
    release_name: String,
    #[prost(string, tag = "4")]
    values: String,
    #[prost(message, repeated, tag = "5")]
    file_parameters: Vec<HelmFileParameter>,
    #[prost(string, tag = "6")]
    version: String,
    #[prost(bool, tag = "7")]
    pass_credentials: bool,
    #[prost(bool, tag = "8")]
    ignore_missing_value_files: bool,
    #[prost(bool, tag = "9")]
    skip_crds: bool,
    #[prost(message, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    values_object: Option<RawExtension>,
    #[prost(string, tag = "11")]
    namespace: String,
    #[prost(string, tag = "12")]
    kube_version: String,
    #[prost(string, repeated, tag = "13")]
    api_versions: Vec<String>,
    #[prost(bool, tag = "14")]
    skip_tests: bool,
    #[prost(bool, tag = "15")]
    skip_schema_validation: bool,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct HelmParameter {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
    #[prost(bool, tag = "3")]
    force_string: bool,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct HelmFileParameter {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    path: String,
}

/// JSON in bytes.
#[derive(Clone, PartialEq, Message)]
struct RawExtension {
    #[prost(bytes = "vec", tag = "1")]
    raw: Vec<u8>,
}

impl Serialize for RawExtension {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        serde_json::from_slice::<Value>(&self.raw).unwrap_or_default().serialize(to)
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kustomize {
    #[prost(string, tag = "1")]
    name_prefix: String,
    #[prost(string, tag = "2")]
    name_suffix: String,
    #[prost(string, repeated, tag = "3")]
    images: Vec<String>,
    #[prost(btree_map = "string, string", tag = "4")]
    common_labels: BTreeMap<String, String>,
    #[prost(string, tag = "5")]
    version: String,
    #[prost(btree_map = "string, string", tag = "6")]
    common_annotations: BTreeMap<String, String>,
    #[prost(bool, tag = "7")]
    force_common_labels: bool,
    #[prost(bool, tag = "8")]
    force_common_annotations: bool,
    #[prost(string, tag = "9")]
    namespace: String,
    #[prost(bool, tag = "10")]
    common_annotations_envsubst: bool,
    #[prost(message, repeated, tag = "11")]
    replicas: Vec<Replica>,
    #[prost(message, repeated, tag = "12")]
    patches: Vec<Patch>,
    #[prost(string, repeated, tag = "13")]
    components: Vec<String>,
    #[prost(bool, tag = "14")]
    label_without_selector: bool,
    #[prost(string, tag = "15")]
    kube_version: String,
    #[prost(string, repeated, tag = "16")]
    api_versions: Vec<String>,
    #[prost(bool, tag = "17")]
    ignore_missing_components: bool,
    #[prost(bool, tag = "18")]
    label_include_templates: bool,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct Replica {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<IntOrString>,
}

#[derive(Clone, PartialEq, Message)]
struct IntOrString {
    /// 1: it is a text.
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int32, tag = "2")]
    number: i32,
    #[prost(string, tag = "3")]
    text: String,
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.kind == 1 { self.text.serialize(to) } else { self.number.serialize(to) }
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct Patch {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(string, tag = "2")]
    patch: String,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Selector>,
    #[prost(btree_map = "string, bool", tag = "4")]
    options: BTreeMap<String, bool>,
}

#[derive(Clone, PartialEq, Message)]
struct Selector {
    #[prost(message, optional, tag = "1")]
    id: Option<ResourceId>,
    #[prost(string, tag = "2")]
    annotation_selector: String,
    #[prost(string, tag = "3")]
    label_selector: String,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceId {
    #[prost(message, optional, tag = "1")]
    kind: Option<GroupVersionKind>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

#[derive(Clone, PartialEq, Message)]
struct GroupVersionKind {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(string, tag = "3")]
    kind: String,
}

/// In the resource the parts of a selector lie side by side.
impl Serialize for Selector {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let id = self.id.clone().unwrap_or_default();
        let kind = id.kind.unwrap_or_default();
        let fields = [
            ("group", kind.group),
            ("version", kind.version),
            ("kind", kind.kind),
            ("name", id.name),
            ("namespace", id.namespace),
            ("annotationSelector", self.annotation_selector.clone()),
            ("labelSelector", self.label_selector.clone()),
        ];
        let set: BTreeMap<_, _> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        set.serialize(to)
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Directory {
    #[prost(bool, tag = "1")]
    recurse: bool,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonnet: Option<Jsonnet>,
    #[prost(string, tag = "3")]
    exclude: String,
    #[prost(string, tag = "4")]
    include: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Jsonnet {
    #[prost(message, repeated, tag = "1")]
    ext_vars: Vec<JsonnetVariable>,
    #[prost(message, repeated, tag = "2")]
    tlas: Vec<JsonnetVariable>,
    #[prost(string, repeated, tag = "3")]
    libs: Vec<String>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct JsonnetVariable {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
    #[prost(bool, tag = "3")]
    code: bool,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Plugin {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    env: Vec<EnvEntry>,
    #[prost(message, repeated, tag = "3")]
    parameters: Vec<PluginParameter>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct EnvEntry {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
struct PluginParameter {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    string: Option<String>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<OptionalMap>,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<OptionalArray>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(transparent)]
struct OptionalMap {
    #[prost(btree_map = "string, string", tag = "1")]
    map: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(transparent)]
struct OptionalArray {
    #[prost(string, repeated, tag = "1")]
    array: Vec<String>,
}

impl Source {
    /// As the resource has it.
    pub(super) fn read(&self) -> Result<slipway_crd::ApplicationSource, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(self)?)
    }
}
