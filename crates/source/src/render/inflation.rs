//! Charts inside of kustomizations (`helmCharts`), where the operator has switched them on with `--enable-helm`.
//!
//! In: a kustomization and the options of its source. Out: the folders of the charts it inflates, and what kustomize is
//! told about helm. Only charts of the same repository are inflated: nothing is fetched, and the program is ours.

use slipway_yaml::Node;

use super::{Finding, Kustomize, KustomizeTool, RenderRequest, Renderer, kustomization};

/// The operator's word for it.
const ENABLE: &str = "--enable-helm";

pub(super) fn is_on(tool: &KustomizeTool) -> bool {
    tool.build_options.iter().any(|option| option == ENABLE || option == "--enable-helm=true")
}

/// What kustomize passes on to helm: which one, and for which cluster.
pub(super) fn arguments(renderer: &Renderer, request: &RenderRequest, options: &Kustomize) -> Vec<String> {
    if !is_on(&request.kustomize) {
        return Vec::new();
    }
    let mut arguments = vec!["--helm-command".to_owned(), renderer.program("helm")];
    let version = if options.kube_version.is_empty() { &request.kube_version } else { &options.kube_version };
    if !version.is_empty() {
        arguments.extend(["--helm-kube-version".to_owned(), version.clone()]);
    }
    let apis = if options.api_versions.is_empty() { &request.api_versions } else { &options.api_versions };
    for api in apis {
        arguments.extend(["--helm-api-versions".to_owned(), api.clone()]);
    }
    arguments
}

/// The folders of the charts that a kustomization inflates, relative to it, and what to say where one is not there.
pub(super) fn charts(file: &str, document: &Node, findings: &mut Vec<Finding>) -> Vec<(String, Finding)> {
    let finding = |node: &Node, message: String| Finding {
        file: file.to_owned(),
        line: node.span.line,
        column: node.span.column,
        message,
    };
    let text = |node: &Node, name: &str| {
        kustomization::value(node, name).and_then(Node::as_str).unwrap_or_default().to_owned()
    };
    let globals = kustomization::value(document, "helmGlobals");
    let home = globals.map(|globals| text(globals, "chartHome")).filter(|home| !home.is_empty());
    let home = home.unwrap_or_else(|| "charts".to_owned());
    if let Some(globals) = globals
        && (home.starts_with('/') || kustomization::value(globals, "configHome").is_some())
    {
        let message = "`helmGlobals` may name a `chartHome` inside of the repository, and nothing else";
        findings.push(finding(globals, message.into()));
    }
    let mut found = Vec::new();
    for chart in kustomization::value(document, "helmCharts").into_iter().flat_map(Node::items) {
        let name = text(chart, "name");
        let commit = format!("charts are not fetched here, commit it to `{home}/{name}`");
        if kustomization::value(chart, "repo").is_some() {
            findings.push(finding(chart, format!("chart `{name}` comes from a repository; {commit}")));
        } else if matches!(name.as_str(), "" | "." | "..") || name.contains(['/', '\\']) {
            findings.push(finding(chart, "a chart needs the name of its folder".into()));
        } else {
            let absent =
                finding(chart, format!("chart `{name}` is not in the repository at this revision; {commit}"));
            found.push((format!("{home}/{name}"), absent));
        }
    }
    found
}
