//! Options of the Application, edited into a kustomization as `kustomize edit` does it.
//!
//! In: a workspace with the files of the build, and the options with their variables filled in. Out: the kustomization of
//! the source folder, changed. The repository itself is never changed; the workspace is a copy that is thrown away.

use serde_json::{Value, json};
use slipway_yaml::Node;

use super::kustomize::FILE_NAMES;
use super::workspace::{With, Workspace};
use super::{Finding, Kustomize, RenderError, RenderRequest, Renderer, kustomization};

pub(super) async fn apply(
    workspace: &Workspace,
    renderer: &Renderer,
    request: &RenderRequest,
    source: &str,
    options: &Kustomize,
) -> Result<(), RenderError> {
    // What the options name is held to what a kustomization may say.
    let named = json!({"components": options.components, "patches": options.patches});
    let refused = kustomization::refused("the options of the source", &Node::from_json(&named), false);
    if !refused.is_empty() {
        return Err(RenderError::Findings(refused));
    }
    for words in before_patches(options) {
        run(workspace, renderer, request, source, words).await?;
    }
    if !options.patches.is_empty() {
        add_patches(workspace, request, source, &options.patches)?;
    }
    if !options.components.is_empty() {
        let words = edit(&["add", "component"], options.components.clone());
        run(workspace, renderer, request, source, words).await?;
    }
    Ok(())
}

/// The words of one `kustomize edit`. What follows `--` is no option, whatever it begins with.
fn edit(verb: &[&str], values: impl IntoIterator<Item = String>) -> Vec<String> {
    let verb = std::iter::once("edit").chain(verb.iter().copied()).map(str::to_owned);
    verb.chain(["--".to_owned()]).chain(values).collect()
}

/// Everything that there is a command for, in upstream's order.
fn before_patches(options: &Kustomize) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    for (what, text) in [("nameprefix", &options.name_prefix), ("namesuffix", &options.name_suffix)] {
        if !text.is_empty() {
            commands.push(edit(&["set", what], [text.clone()]));
        }
    }
    if !options.images.is_empty() {
        commands.push(edit(&["set", "image"], options.images.clone()));
    }
    if !options.replicas.is_empty() {
        let counts = options.replicas.iter().map(|(name, count)| format!("{name}={count}"));
        commands.push(edit(&["set", "replicas"], counts));
    }
    let pairs = |map: &std::collections::BTreeMap<String, String>| -> Vec<String> {
        map.iter().map(|(name, value)| format!("{name}:{value}")).collect()
    };
    if !options.common_labels.is_empty() {
        let flags = [
            (options.force_common_labels, "--force"),
            (options.label_without_selector, "--without-selector"),
            (options.label_include_templates, "--include-templates"),
        ];
        let flags = flags.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag);
        let verb: Vec<&str> = ["add", "label"].into_iter().chain(flags).collect();
        commands.push(edit(&verb, pairs(&options.common_labels)));
    }
    if !options.common_annotations.is_empty() {
        let force = options.force_common_annotations.then_some("--force");
        let verb: Vec<&str> = ["add", "annotation"].into_iter().chain(force).collect();
        commands.push(edit(&verb, pairs(&options.common_annotations)));
    }
    if !options.namespace.is_empty() {
        commands.push(edit(&["set", "namespace"], [options.namespace.clone()]));
    }
    commands
}

async fn run(
    workspace: &Workspace,
    renderer: &Renderer,
    request: &RenderRequest,
    source: &str,
    words: Vec<String>,
) -> Result<(), RenderError> {
    let tool = match &request.kustomize.program {
        Some(program) => program.display().to_string(),
        None => "kustomize".to_owned(),
    };
    let folder = format!("repo/{source}");
    let done = workspace.run_in(renderer, request, &folder, &tool, &words, With::default()).await?;
    done.map(drop).ok_or_else(|| RenderError::ToolMissing {
        tool,
        path: request.path.clone(),
        install: "put kustomize 5 on the PATH of the runtime; kubectl carries it, but not its `edit`, which the options \
                  of this source need"
            .to_owned(),
    })
}

/// There is no command for patches: they follow those that the kustomization has.
fn add_patches(
    workspace: &Workspace,
    request: &RenderRequest,
    source: &str,
    patches: &[Value],
) -> Result<(), RenderError> {
    let wrong = |message: String| {
        let file = request.path.clone();
        RenderError::Findings(vec![Finding { file, line: 1, column: 1, message }])
    };
    let named = FILE_NAMES.iter().map(|name| format!("repo/{source}/{name}"));
    let Some(file) = named.into_iter().find(|name| workspace.path(name).is_file()) else {
        return Err(wrong("there is no kustomization in this folder; the patches need one".to_owned()));
    };
    let text = std::fs::read_to_string(workspace.path(&file)).map_err(|error| wrong(error.to_string()))?;
    let documents = slipway_yaml::load_all_json(&text)
        .map_err(|errors| wrong(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
    let mut kustomization = documents.into_iter().next().map_or_else(|| json!({}), |(document, _)| document);
    let Some(fields) = kustomization.as_object_mut() else {
        return Err(wrong("the kustomization is not a mapping".to_owned()));
    };
    match fields.entry("patches").or_insert_with(|| json!([])) {
        Value::Array(known) => known.extend(patches.iter().cloned()),
        slot @ Value::Null => *slot = patches.iter().cloned().collect(),
        _ => return Err(wrong("`patches` of the kustomization is not a list".to_owned())),
    }
    // JSON is YAML.
    workspace.write(&file, kustomization.to_string().as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_the_commands_that_upstream_runs() {
        let options = Kustomize {
            name_prefix: "-a".into(),
            images: vec!["nginx=x/nginx:9".into()],
            replicas: vec![("web".into(), 2)],
            common_labels: [("a".into(), "b".into())].into(),
            force_common_labels: true,
            label_without_selector: true,
            common_annotations: [("c".into(), "d:e".into())].into(),
            namespace: "n".into(),
            ..Kustomize::default()
        };
        let commands: Vec<String> = before_patches(&options).iter().map(|words| words.join(" ")).collect();
        assert_eq!(
            commands,
            [
                "edit set nameprefix -- -a",
                "edit set image -- nginx=x/nginx:9",
                "edit set replicas -- web=2",
                "edit add label --force --without-selector -- a:b",
                "edit add annotation -- c:d:e",
                "edit set namespace -- n",
            ]
        );
        assert!(before_patches(&Kustomize::default()).is_empty());
    }
}
