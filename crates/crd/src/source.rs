//! Where an application's manifests come from: `spec.source`, `spec.sources`, `spec.sourceHydrator`.

use crate::wire::wire_struct;
use serde_json::Value;
use std::collections::BTreeMap;

wire_struct! {
    /// One source: a repository, a place in it and how to render it.
    ApplicationSource {
        keep { repo_url as "repoURL": String, }
        omit {
            path: String,
            target_revision: String,
            chart: String,
            reference as "ref": String,
            name: String,
            tag_prefix: String,
            helm: Option<HelmSource>,
            kustomize: Option<KustomizeSource>,
            directory: Option<DirectorySource>,
            plugin: Option<PluginSource>,
        }
    }
}

wire_struct! {
    /// `source.helm`.
    HelmSource {
        omit {
            value_files: Vec<String>,
            parameters: Vec<HelmParameter>,
            file_parameters: Vec<HelmFileParameter>,
            release_name: String,
            values: String,
            /// Raw values; they win over `values`.
            values_object: Option<Value> => open(),
            version: String,
            pass_credentials: bool,
            ignore_missing_value_files: bool,
            skip_crds: bool,
            skip_tests: bool,
            skip_schema_validation: bool,
            namespace: String,
            kube_version: String,
            api_versions: Vec<String>,
        }
    }
}

wire_struct! {
    /// `--set` of Helm.
    HelmParameter { omit { name: String, value: String, force_string: bool, } }
}

wire_struct! {
    /// `--set-file` of Helm.
    HelmFileParameter { omit { name: String, path: String, } }
}

wire_struct! {
    /// `source.kustomize`.
    KustomizeSource {
        omit {
            name_prefix: String,
            name_suffix: String,
            images: Vec<String>,
            common_labels: BTreeMap<String, String>,
            force_common_labels: bool,
            label_without_selector: bool,
            label_include_templates: bool,
            common_annotations: BTreeMap<String, String>,
            force_common_annotations: bool,
            common_annotations_envsubst: bool,
            namespace: String,
            replicas: Vec<KustomizeReplica>,
            patches: Vec<KustomizePatch>,
            components: Vec<String>,
            ignore_missing_components: bool,
            version: String,
            kube_version: String,
            api_versions: Vec<String>,
        }
    }
}

wire_struct! {
    /// A replica count; `count` is a number or a string.
    KustomizeReplica { keep { name: String, count: Value => int_or_string(), } }
}

wire_struct! {
    /// A patch, inline or from a file.
    KustomizePatch {
        omit { path: String, patch: String, target: Option<KustomizeSelector>, options: BTreeMap<String, bool>, }
    }
}

wire_struct! {
    /// What a patch is for.
    KustomizeSelector {
        omit {
            group: String,
            version: String,
            kind: String,
            name: String,
            namespace: String,
            label_selector: String,
            annotation_selector: String,
        }
    }
}

wire_struct! {
    /// `source.directory`.
    DirectorySource {
        omit {
            recurse: bool,
            jsonnet: Option<Jsonnet>,
            exclude: String,
            include: String,
            disable_extension_filter: bool,
        }
    }
}

wire_struct! {
    /// Jsonnet inputs.
    Jsonnet { omit { ext_vars: Vec<JsonnetVar>, tlas: Vec<JsonnetVar>, libs: Vec<String>, } }
}

wire_struct! {
    /// One external variable or top-level argument.
    JsonnetVar { keep { name: String, value: String, } omit { code: bool, } }
}

wire_struct! {
    /// `source.plugin`.
    PluginSource { omit { name: String, env: Vec<EnvEntry>, parameters: Vec<PluginParameter>, } }
}

wire_struct! {
    /// A name and a value.
    EnvEntry { keep { name: String, value: String, } }
}

wire_struct! {
    /// A plugin parameter. An empty map or array is not the same as none.
    PluginParameter {
        omit {
            name: String,
            string: Option<String>,
            map: Option<BTreeMap<String, String>>,
            array: Option<Vec<String>>,
        }
    }
}

wire_struct! {
    /// `spec.sourceHydrator`.
    SourceHydrator {
        keep { dry_source: DrySource, sync_source: SyncSource, }
        omit { hydrate_to: Option<HydrateTo>, }
    }
}

wire_struct! {
    /// Where unrendered manifests come from.
    DrySource {
        keep { repo_url as "repoURL": String, target_revision: String, path: String, }
        omit {
            helm: Option<HelmSource>,
            kustomize: Option<KustomizeSource>,
            directory: Option<DirectorySource>,
            plugin: Option<PluginSource>,
        }
    }
}

wire_struct! {
    /// Where rendered manifests are synced from.
    SyncSource {
        keep { target_branch: String, path: String, }
        omit { repo_url as "repoURL": String, }
    }
}

wire_struct! {
    /// Where rendered manifests are written to.
    HydrateTo { keep { target_branch: String, } }
}

impl SourceHydrator {
    /// Where rendered manifests are synced from, as any other source.
    pub fn sync_source(&self) -> ApplicationSource {
        let (dry, to) = (&self.dry_source, &self.sync_source);
        ApplicationSource {
            repo_url: if to.repo_url.is_empty() { dry.repo_url.clone() } else { to.repo_url.clone() },
            path: to.path.clone(),
            target_revision: to.target_branch.clone(),
            ..ApplicationSource::default()
        }
    }
}
