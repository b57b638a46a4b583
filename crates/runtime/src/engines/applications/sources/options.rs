//! How a source is rendered: the custom resource's blocks in the renderer's words.

use serde_json::Value;
use slipway_crd::ApplicationSource;
use slipway_gitops::cluster::KustomizeSettings;
use slipway_source::{
    Directory, Helm, HelmParameter, Jsonnet, JsonnetVariable, Kustomize, KustomizeTool, Plugin,
    PluginParameter, SourceOptions,
};

use super::SourceError;

/// The kustomize that a source asks for, as the operator's settings have it.
pub(super) fn kustomize_tool(
    settings: &KustomizeSettings,
    source: &ApplicationSource,
) -> Result<KustomizeTool, SourceError> {
    let version = source.kustomize.as_ref().map_or("", |kustomize| kustomize.version.as_str());
    if version.is_empty() {
        return Ok(KustomizeTool { program: None, build_options: settings.build_options.clone() });
    }
    let known = settings.versions.get(version).filter(|known| !known.path.is_empty()).ok_or_else(|| {
        SourceError::Spec(format!(
            "kustomize {version} is not known here: set `kustomize.path.{version}` in argocd-cm to its program, or remove kustomize.version"
        ))
    })?;
    Ok(KustomizeTool {
        program: Some(known.path.clone().into()),
        build_options: known.build_options.clone().unwrap_or_else(|| settings.build_options.clone()),
    })
}

pub(super) fn options(source: &ApplicationSource) -> Result<SourceOptions, SourceError> {
    let spec = |message: &str| Err(SourceError::Spec(message.to_owned()));
    let blocks = [
        source.helm.is_some(),
        source.kustomize.is_some(),
        source.directory.is_some(),
        source.plugin.is_some(),
    ];
    if blocks.iter().filter(|set| **set).count() > 1 {
        return spec("only one of helm, kustomize, directory and plugin may be set in a source");
    }
    if source.helm.as_ref().is_some_and(|helm| !matches!(helm.version.as_str(), "" | "v3")) {
        return spec("helm.version can only be v3");
    }
    if let Some(plugin) = &source.plugin {
        return Ok(SourceOptions::Plugin(Plugin {
            name: plugin.name.clone(),
            env: plugin.env.iter().map(|entry| (entry.name.clone(), entry.value.clone())).collect(),
            parameters: plugin
                .parameters
                .iter()
                .map(|parameter| PluginParameter {
                    name: parameter.name.clone(),
                    string: parameter.string.clone(),
                    array: parameter.array.clone(),
                    map: parameter.map.clone(),
                })
                .collect(),
        }));
    }
    Ok(if let Some(helm) = &source.helm {
        SourceOptions::Helm(Box::new(Helm {
            release_name: helm.release_name.clone(),
            namespace: helm.namespace.clone(),
            value_files: helm.value_files.clone(),
            ignore_missing_value_files: helm.ignore_missing_value_files,
            values: helm.values.clone(),
            values_object: helm.values_object.clone(),
            parameters: helm
                .parameters
                .iter()
                .map(|p| HelmParameter {
                    name: p.name.clone(),
                    value: p.value.clone(),
                    force_string: p.force_string,
                })
                .collect(),
            file_parameters: helm.file_parameters.iter().map(|p| (p.name.clone(), p.path.clone())).collect(),
            skip_crds: helm.skip_crds,
            skip_tests: helm.skip_tests,
            skip_schema_validation: helm.skip_schema_validation,
            kube_version: helm.kube_version.clone(),
            api_versions: helm.api_versions.clone(),
            pass_credentials: helm.pass_credentials,
        }))
    } else if let Some(kustomize) = &source.kustomize {
        SourceOptions::Kustomize(Box::new(Kustomize {
            name_prefix: kustomize.name_prefix.clone(),
            name_suffix: kustomize.name_suffix.clone(),
            namespace: kustomize.namespace.clone(),
            images: kustomize.images.clone(),
            common_labels: kustomize.common_labels.clone(),
            force_common_labels: kustomize.force_common_labels,
            label_without_selector: kustomize.label_without_selector,
            label_include_templates: kustomize.label_include_templates,
            common_annotations: kustomize.common_annotations.clone(),
            force_common_annotations: kustomize.force_common_annotations,
            replicas: kustomize.replicas.iter().map(|r| (r.name.clone(), count(&r.count))).collect(),
            patches: kustomize.patches.iter().filter_map(|p| serde_json::to_value(p).ok()).collect(),
            components: kustomize.components.clone(),
            annotations_with_variables: kustomize.common_annotations_envsubst,
            ignore_missing_components: kustomize.ignore_missing_components,
            kube_version: kustomize.kube_version.clone(),
            api_versions: kustomize.api_versions.clone(),
        }))
    } else if let Some(directory) = &source.directory {
        // An empty `directory: {}` chooses nothing: Argo still detects charts and kustomizations then.
        if *directory == slipway_crd::DirectorySource::default() {
            SourceOptions::Detect
        } else {
            SourceOptions::Directory(Directory {
                recurse: directory.recurse,
                include: directory.include.clone(),
                exclude: directory.exclude.clone(),
                any_extension: directory.disable_extension_filter,
                jsonnet: jsonnet(directory.jsonnet.as_ref()),
            })
        }
    } else {
        SourceOptions::Detect
    })
}

fn jsonnet(options: Option<&slipway_crd::Jsonnet>) -> Jsonnet {
    let variables = |list: &[slipway_crd::JsonnetVar]| {
        let one = |variable: &slipway_crd::JsonnetVar| JsonnetVariable {
            name: variable.name.clone(),
            value: variable.value.clone(),
            code: variable.code,
        };
        list.iter().map(one).collect()
    };
    options.map_or_else(Jsonnet::default, |options| Jsonnet {
        external: variables(&options.ext_vars),
        arguments: variables(&options.tlas),
        libraries: options.libs.clone(),
    })
}

/// A replica count is a number or a text with one.
fn count(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok())).unwrap_or(0)
}
