use serde_json::Value;
use slipway_source::{
    Content, Directory, GitError, Helm, HelmParameter, Jsonnet, JsonnetVariable, Kustomize, KustomizeTool,
    Plugin, PluginParameter, PluginSpec, RenderError, RenderRequest, Rendered, Renderer, Repositories,
    Repository, Since, SourceKind, SourceOptions, Submodules,
};
use std::sync::Arc;

use crate::repo::Repo;

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  key: value\n")
}

pub(crate) async fn request(
    repo: &Repo,
    renderer: &Renderer,
    path: &str,
    options: SourceOptions,
) -> RenderRequest {
    let commit = renderer.git().resolve(&repo.repository(), "main", Since::now()).await.expect("resolved");
    RenderRequest {
        revision: commit.sha.clone(),
        content: Content::Git { repository: repo.repository(), commit, submodules: Default::default() },
        references: Default::default(),
        path: path.to_owned(),
        options,
        application: "shop".to_owned(),
        project: "default".to_owned(),
        repo_url: repo.repository().url,
        target_revision: "main".to_owned(),
        namespace: "demo".to_owned(),
        kube_version: "1.34.0".to_owned(),
        api_versions: Vec::new(),
        repositories: Repositories::default(),
        kustomize: Default::default(),
        lookup: None,
        fresh: false,
    }
}

async fn render(repo: &Repo, path: &str, options: SourceOptions) -> Result<Arc<Rendered>, RenderError> {
    let renderer = repo.renderer();
    let request = request(repo, &renderer, path, options).await;
    renderer.render(&request).await
}

pub(crate) fn names(rendered: &Rendered) -> Vec<&str> {
    rendered.objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect()
}

fn directory(recurse: bool, include: &str, exclude: &str) -> SourceOptions {
    SourceOptions::Directory(Directory {
        recurse,
        include: include.to_owned(),
        exclude: exclude.to_owned(),
        ..Directory::default()
    })
}

#[tokio::test]
async fn a_folder_of_plain_files_becomes_objects_in_file_order() {
    let repo = Repo::new();
    repo.write("app/b.yaml", &format!("{}---\n{}", config_map("b1"), config_map("b2")))
        .write("app/a.json", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#)
        .write("app/README.md", "kind: of nice")
        .write("app/values.yaml", "replicas: 3\n")
        .write("app/skip.yaml", &format!("# +argocd:skip-file-rendering\n{}", config_map("skipped")))
        .write("app/sub/c.yml", &config_map("c"))
        .commit("First");
    let plain = render(&repo, "app", SourceOptions::Detect).await.expect("rendered");
    assert_eq!(plain.kind, SourceKind::Directory);
    assert_eq!(names(&plain), ["a", "b1", "b2"]);
    assert_eq!((plain.origins[2].file.as_str(), plain.origins[2].line), ("app/b.yaml", 8));
    let deep = render(&repo, "app", directory(true, "", "")).await.expect("rendered");
    assert_eq!(names(&deep), ["a", "b1", "b2", "c"]);
    let some = render(&repo, "app", directory(true, "{*.yml,*.yaml}", "b*")).await.expect("rendered");
    assert_eq!(names(&some), ["c"]);
}

#[tokio::test]
async fn every_broken_file_is_named_with_its_line() {
    let repo = Repo::new();
    repo.write("app/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n data: x\n")
        .write("app/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: x\n")
        .write("app/c.yaml", &config_map("fine"))
        .commit("Broken");
    let error = render(&repo, "app", SourceOptions::Detect).await.expect_err("broken");
    let RenderError::Findings(findings) = &error else { panic!("{error}") };
    let places: Vec<_> = findings.iter().map(|finding| (finding.file.as_str(), finding.line)).collect();
    assert_eq!(places, [("app/a.yaml", 5), ("app/b.yaml", 4)]);
    assert!(error.to_string().contains("app/b.yaml:4:3: `metadata.name` is missing"), "{error}");
}

#[tokio::test]
async fn paths_and_links_cannot_leave_the_repository() {
    let repo = Repo::new();
    std::fs::write(repo.root.path().join("secret.yaml"), config_map("outside")).expect("written");
    repo.write("app/a.yaml", &config_map("a")).write("shared/s.yaml", &config_map("s")).commit("First");
    for path in ["../", "/etc", "app/../../x", "app\0", "a\\b"] {
        let error = render(&repo, path, SourceOptions::Detect).await.expect_err(path);
        assert!(matches!(error, RenderError::Git(GitError::PathEscapes { .. })), "{path}: {error}");
    }
    let error = render(&repo, "nope", SourceOptions::Detect).await.expect_err("not there");
    assert!(matches!(error, RenderError::Git(GitError::PathNotFound { .. })), "{error}");
    let error = render(&repo, "app/a.yaml", SourceOptions::Detect).await.expect_err("a file");
    assert!(matches!(error, RenderError::Git(GitError::NotAFolder { .. })), "{error}");

    repo.link("app/inside.yaml", "../shared/s.yaml").commit("A link inside");
    let rendered = render(&repo, "app", SourceOptions::Detect).await.expect("links inside are fine");
    assert_eq!(names(&rendered), ["a", "s"]);
    repo.write("shared/s.yaml", &config_map("s2")).commit("The link's target changes");
    let rendered = render(&repo, "app", SourceOptions::Detect).await.expect("rendered again");
    assert_eq!(names(&rendered), ["a", "s2"]);

    for target in ["../../secret.yaml", "/etc/passwd", "../../../../../../etc/passwd"] {
        repo.link("app/z.yaml", target).commit("A link outside");
        let error = render(&repo, "app", SourceOptions::Detect).await.expect_err(target);
        assert!(matches!(error, RenderError::Git(GitError::LinkEscapes { .. })), "{target}: {error}");
        let text = error.to_string();
        assert!(
            !text.contains("passwd") && !text.contains("root:") && !text.contains("secret.yaml"),
            "{text}"
        );
        std::fs::remove_file(repo.folder().join("app/z.yaml")).expect("removed");
    }
    repo.link("app/loop1.yaml", "loop2.yaml").link("app/loop2.yaml", "loop1.yaml").commit("A loop");
    let error = render(&repo, "app", SourceOptions::Detect).await.expect_err("a loop");
    assert!(matches!(error, RenderError::Git(GitError::LinkEscapes { .. })), "{error}");
}

#[tokio::test]
async fn unchanged_content_is_rendered_once_across_commits_and_restarts() {
    let repo = Repo::new();
    repo.write("app/a.yaml", &config_map("a")).commit("First");
    let first = render(&repo, "app", SourceOptions::Detect).await.expect("rendered");
    let stored = || {
        let mut files: Vec<_> = std::fs::read_dir(repo.root.path().join("rendered"))
            .expect("readable")
            .flatten()
            .flat_map(|folder| std::fs::read_dir(folder.path()).expect("readable").flatten())
            .map(|file| file.path())
            .collect();
        files.sort();
        files
    };
    let files = stored();
    assert_eq!(files.len(), 2);
    repo.write("other.txt", "x").commit("Something else");
    let second = render(&repo, "app", SourceOptions::Detect).await.expect("from the cache");
    assert_eq!((second.digest.as_str(), stored()), (first.digest.as_str(), files.clone()));
    for file in &files {
        std::fs::write(file, "torn").expect("written");
    }
    let third = render(&repo, "app", SourceOptions::Detect).await.expect("rendered again");
    assert_eq!(third.objects, first.objects);
}

#[tokio::test]
async fn too_much_is_refused() {
    let repo = Repo::new();
    let big = format!("{}  big: {}\n", config_map("big"), "x".repeat(11 << 20));
    repo.write("app/big.yaml", &big).commit("Big");
    let error = render(&repo, "app", SourceOptions::Detect).await.expect_err("too big");
    assert!(matches!(error, RenderError::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn a_kustomization_is_built_from_what_it_refers_to() {
    let repo = Repo::new();
    repo.write("base/kustomization.yaml", "resources: [map.yaml]\n")
        .write("base/map.yaml", &config_map("m"))
        .write("over/kustomization.yaml", "resources: [../base]\nnamePrefix: pre-\n")
        .commit("First");
    let built = render(&repo, "over", SourceOptions::Detect).await.expect("built");
    assert_eq!((built.kind, names(&built)), (SourceKind::Kustomize, vec!["pre-m"]));
    repo.write("base/map.yaml", &config_map("n")).commit("The base changes");
    let built = render(&repo, "over", SourceOptions::Detect).await.expect("built again");
    assert_eq!(names(&built), ["pre-n"]);
    let options = Kustomize {
        name_suffix: "-x".to_owned(),
        common_labels: [("team".to_owned(), "blue".to_owned())].into(),
        ..Kustomize::default()
    };
    let built =
        render(&repo, "over", SourceOptions::Kustomize(Box::new(options))).await.expect("built with options");
    assert_eq!(names(&built), ["pre-n-x"]);
    assert_eq!(built.objects[0]["metadata"]["labels"]["team"], Value::from("blue"));
    assert_eq!(repo.git(&["status", "--porcelain"]), "", "the repository itself is left alone");
}

/// R1: what the options say takes the place of what the kustomization says, as `kustomize edit` has it.
#[tokio::test]
async fn kustomize_options_are_edited_into_the_kustomization() {
    let repo = Repo::new();
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: web, image: 'nginx:1.0'}]\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: extra}\nspec: {containers: [{name: e, image: 'nginx:1.0'}]}\n";
    repo.write(
        "k/kustomization.yaml",
        "resources: [web.yaml]\nnamePrefix: base-\nnameSuffix: -old\ncommonLabels: {team: red}\nimages: [{name: nginx, newName: registry.example.com/team/nginx, newTag: \"1.1\"}]\nreplicas: [{name: web, count: 3}]\n",
    )
    .write("k/web.yaml", deployment)
    .write("k/extra/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [pod.yaml]\n")
    .write("k/extra/pod.yaml", pod)
    .commit("First");
    let with = |options: Kustomize| SourceOptions::Kustomize(Box::new(options));
    for image in ["nginx=registry.example.com/team/nginx:9.9", "nginx=other/nginx:9.9"] {
        let options = Kustomize { images: vec![image.to_owned()], ..Kustomize::default() };
        let built = render(&repo, "k", with(options)).await.expect("built");
        let found = &built.objects[0]["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(found, image.split_once('=').expect("two sides").1);
    }
    let options = Kustomize {
        name_prefix: "app-".into(),
        name_suffix: "-new".into(),
        replicas: vec![("web".into(), 5)],
        ..Kustomize::default()
    };
    let built = render(&repo, "k", with(options)).await.expect("built");
    assert_eq!(names(&built), ["app-web-new"]);
    assert_eq!(built.objects[0]["spec"]["replicas"], 5);
    // The kustomization's own images reach what a component brings.
    let options = Kustomize { components: vec!["extra".into()], ..Kustomize::default() };
    let built = render(&repo, "k", with(options)).await.expect("built");
    let pod = built.objects.iter().find(|object| object["kind"] == "Pod").expect("the component's");
    assert_eq!(pod["spec"]["containers"][0]["image"], "registry.example.com/team/nginx:1.1");
    // A label that is there already is an error, unless it is forced.
    let labels = |force| Kustomize {
        common_labels: [("team".to_owned(), "blue".to_owned())].into(),
        force_common_labels: force,
        ..Kustomize::default()
    };
    let error = render(&repo, "k", with(labels(false))).await.expect_err("refused");
    assert!(error.to_string().contains("team"), "{error}");
    let built = render(&repo, "k", with(labels(true))).await.expect("built");
    assert_eq!(built.objects[0]["metadata"]["labels"]["team"], "blue");
    // Patches follow those of the file.
    repo.write("k/kustomization.yaml", "resources: [web.yaml]\npatches:\n- target: {kind: Deployment}\n  patch: '[{\"op\": \"replace\", \"path\": \"/spec/replicas\", \"value\": 2}]'\n")
        .commit("Patches");
    let patch = serde_json::json!({"target": {"kind": "Deployment"}, "patch": "- op: replace\n  path: /spec/replicas\n  value: 7\n"});
    let options = Kustomize { patches: vec![patch], ..Kustomize::default() };
    let built = render(&repo, "k", with(options)).await.expect("built");
    assert_eq!(built.objects[0]["spec"]["replicas"], 7, "the last patch wins");
}

/// R2: what is built into kustomize runs; anything else it refuses itself.
#[tokio::test]
async fn built_in_transformers_generators_and_validators_run() {
    let repo = Repo::new();
    repo.write(
        "k/kustomization.yaml",
        "resources: [cm.yaml]\ntransformers: [labels.yaml]\ngenerators: [made.yaml]\n",
    )
    .write("k/cm.yaml", &config_map("cm"))
    .write("k/labels.yaml", "apiVersion: builtin\nkind: LabelTransformer\nmetadata: {name: l}\nlabels: {env: dev}\nfieldSpecs: [{path: metadata/labels, create: true}]\n")
    .write("k/made.yaml", "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: made}\nliterals: [a=b]\noptions: {disableNameSuffixHash: true}\n")
    .commit("First");
    let built = render(&repo, "k", SourceOptions::Detect).await.expect("built");
    assert_eq!(names(&built), ["cm", "made"]);
    assert!(
        built.objects.iter().all(|object| object["metadata"]["labels"]["env"] == "dev"),
        "{:?}",
        built.objects
    );
    repo.write("k/labels.yaml", "apiVersion: example.org/v1\nkind: Run\nmetadata: {name: l, annotations: {config.kubernetes.io/function: \"exec: {path: ./x}\"}}\n")
        .commit("A plugin");
    let error = render(&repo, "k", SourceOptions::Detect).await.expect_err("plugins are off");
    assert!(error.to_string().contains("plugin"), "{error}");
}

/// R3: charts of the first API have their dependencies in requirements.yaml.
#[tokio::test]
async fn requirements_of_charts_of_the_first_api_are_put_into_place() {
    let repo = Repo::new();
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Chart.Name }}-{{ .Release.Name }}}\n";
    repo.write("chart/Chart.yaml", "apiVersion: v1\nname: top\nversion: 1.0.0\n")
        .write("chart/requirements.yaml", "dependencies:\n- {name: dep, version: 0.1.0, repository: 'file://../dep'}\n- {name: inner, version: 0.2.0, repository: 'file://_charts/inner'}\n")
        .write("chart/templates/m.yaml", template)
        .write("chart/_charts/inner/Chart.yaml", "apiVersion: v1\nname: inner\nversion: 0.2.0\n")
        .write("chart/_charts/inner/templates/m.yaml", template)
        .write("dep/Chart.yaml", "apiVersion: v1\nname: dep\nversion: 0.1.0\n")
        .write("dep/templates/m.yaml", template)
        .commit("First");
    let built = render(&repo, "chart", SourceOptions::Detect).await.expect("templated");
    let mut found = names(&built);
    found.sort_unstable();
    assert_eq!(found, ["dep-shop", "inner-shop", "top-shop"]);
}

#[tokio::test]
async fn a_kustomization_cannot_fetch_run_or_leave() {
    let repo = Repo::new();
    for (text, words) in [
        (
            "resources:\n- https://example.org/x.yaml\n",
            "k/kustomization.yaml:2:3: `https://example.org/x.yaml` is not in",
        ),
        ("resources:\n- ../../../etc/passwd\n", "kustomization.yaml:2:3"),
        ("helmCharts:\n- name: x\n", "k/kustomization.yaml:1:1: `helmCharts` is off here"),
        ("resources: [missing.yaml]\n", "`missing.yaml` is not in the repository"),
    ] {
        repo.write("k/kustomization.yaml", text).commit("Another");
        let error = render(&repo, "k", SourceOptions::Detect).await.expect_err(text);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_chart_is_templated() {
    let repo = Repo::new();
    repo.write("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
        .write("chart/values.yaml", "color: red\n")
        .write("prod.yaml", "color: blue\n")
        .write(
            "chart/templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  color: {{ .Values.color }}\n  size: {{ .Values.size | quote }}\n",
        )
        .commit("First");
    let options = |files: &[&str]| {
        SourceOptions::Helm(Box::new(Helm {
            value_files: files.iter().map(|file| (*file).to_owned()).collect(),
            values_object: Some(serde_json::json!({"size": "10"})),
            ..Helm::default()
        }))
    };
    for file in
        ["../../etc/passwd", "http://example.org/v.yaml", "http:/etc/passwd", "file:///etc/passwd", "$x/y"]
    {
        let error = render(&repo, "chart", options(&[file])).await.expect_err(file);
        let refused =
            matches!(error, RenderError::Options { .. } | RenderError::Git(GitError::PathEscapes { .. }));
        assert!(refused, "{file}: {error}");
    }
    let made = render(&repo, "chart", options(&["/prod.yaml"])).await.expect("templated");
    assert_eq!((made.kind, names(&made)), (SourceKind::Helm, vec!["shop"]));
    assert_eq!(made.objects[0]["data"], serde_json::json!({"color": "blue", "size": "10"}));
}

#[tokio::test]
async fn the_operator_chooses_which_kustomize_builds_and_how() {
    let repo = Repo::new();
    repo.write("k/kustomization.yaml", "resources: [../beside/map.yaml]\n")
        .write("beside/map.yaml", &config_map("beside"))
        .commit("A file beside the kustomization");
    let renderer = repo.renderer();
    let mut ask = request(&repo, &renderer, "k", SourceOptions::Detect).await;
    let refused = renderer.render(&ask).await.expect_err("kustomize keeps to its folder").to_string();
    assert!(refused.contains("is not in or below"), "{refused}");
    ask.kustomize.build_options = ["--load-restrictor", "LoadRestrictionsNone"].map(String::from).to_vec();
    assert_eq!(names(&renderer.render(&ask).await.expect("built with the option")), ["beside"]);

    // Another program of that name, which says who it is.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("kustomize-old");
    std::fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{}END\n", config_map("old"))).expect("written");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    ask.kustomize.program = Some(program.clone());
    assert_eq!(names(&renderer.render(&ask).await.expect("built by the other")), ["old"]);
    ask.kustomize.program = Some(folder.path().join("nobody"));
    let missing = renderer.render(&ask).await.expect_err("it is not there").to_string();
    assert!(missing.contains("nobody"), "{missing}");
}

#[tokio::test]
async fn options_of_kustomize_change_what_is_built() {
    let repo = Repo::new();
    repo.write("k/kustomization.yaml", "resources: [d.yaml]\n")
        .write(
            "k/d.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: c, image: nginx:1}]}\n",
        )
        .write("k/part/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {part: 'yes'}\n")
        .commit("First");
    let options = Kustomize {
        name_prefix: "pre-".into(),
        namespace: "there".into(),
        images: vec!["nginx=registry.example/web:2".into()],
        common_labels: [("team".to_owned(), "blue".to_owned())].into(),
        label_without_selector: true,
        common_annotations: [("app".to_owned(), "$ARGOCD_APP_NAME@${ARGOCD_APP_NAMESPACE}".to_owned())]
            .into(),
        annotations_with_variables: true,
        replicas: vec![("web".into(), 3)],
        patches: vec![serde_json::json!({"target": {"kind": "Deployment"},
            "patch": "- op: add\n  path: /spec/paused\n  value: true\n"})],
        components: vec!["part".into(), "missing".into()],
        ignore_missing_components: true,
        ..Kustomize::default()
    };
    let built = render(&repo, "k", SourceOptions::Kustomize(Box::new(options.clone()))).await.expect("built");
    let object = &built.objects[0];
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    assert_eq!((&meta["name"], &meta["namespace"]), (&Value::from("pre-web"), &Value::from("there")));
    assert_eq!(meta["labels"]["team"], "blue");
    assert_eq!(spec["selector"]["matchLabels"], serde_json::json!({"a": "b"}));
    assert_eq!(
        (&meta["annotations"]["app"], &meta["annotations"]["part"]),
        (&Value::from("shop@demo"), &Value::from("yes"))
    );
    assert_eq!((&spec["replicas"], &spec["paused"]), (&Value::from(3), &Value::from(true)));
    assert_eq!(spec["template"]["spec"]["containers"][0]["image"], "registry.example/web:2");
    let strict = Kustomize { ignore_missing_components: false, ..options };
    render(&repo, "k", SourceOptions::Kustomize(Box::new(strict))).await.expect_err("a component is missing");
}

#[tokio::test]
async fn values_come_from_files_patterns_parameters_and_variables() {
    let repo = Repo::new();
    repo.write("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")
        .write("chart/crds/crd.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.example.org}\n")
        .write("chart/templates/test.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: t\n  annotations: {\"helm.sh/hook\": test}\n")
        .write(
            "chart/templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  all: {{ .Values | toJson | quote }}\n  kube: {{ .Capabilities.KubeVersion.Version }}\n  has: {{ .Capabilities.APIVersions.Has \"x.example/v1\" | quote }}\n",
        )
        .write("values/a.yaml", "a: 1\nlast: a\n")
        .write("values/b.yaml", "b: 2\nlast: b\n")
        .write("text.txt", "from a file")
        .commit("First");
    let options = Helm {
        value_files: vec!["/values/*.yaml".into(), "missing.yaml".into()],
        ignore_missing_value_files: true,
        parameters: vec![
            HelmParameter { name: "who".into(), value: "$ARGOCD_APP_NAME".into(), force_string: false },
            HelmParameter { name: "number".into(), value: "7".into(), force_string: true },
        ],
        file_parameters: vec![("text".into(), "../text.txt".into())],
        skip_crds: true,
        skip_tests: true,
        kube_version: "1.30.0".into(),
        api_versions: vec!["x.example/v1".into()],
        ..Helm::default()
    };
    let made = render(&repo, "chart", SourceOptions::Helm(Box::new(options))).await.expect("templated");
    assert_eq!(names(&made), ["m"], "neither definitions nor tests");
    let data = &made.objects[0]["data"];
    let all: Value = serde_json::from_str(data["all"].as_str().expect("text")).expect("JSON");
    assert_eq!(
        all,
        serde_json::json!({"a": 1, "b": 2, "last": "b", "who": "shop", "number": "7", "text": "from a file"})
    );
    assert_eq!((&data["kube"], &data["has"]), (&Value::from("v1.30.0"), &Value::from("true")));
    let with_all = render(&repo, "chart", SourceOptions::Detect).await.expect("templated");
    assert_eq!(with_all.objects.len(), 3, "definitions and tests belong to a chart");
}

#[tokio::test]
async fn jsonnet_is_evaluated_with_its_libraries_and_nothing_else() {
    let repo = Repo::new();
    let program =
        "local lib = import 'lib.libsonnet';\nfunction(name) [lib.map(name, std.extVar('value'))]\n";
    repo.write("app/main.jsonnet", program)
        .write(
            "vendor/lib.libsonnet",
            "{ map(name, value):: {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: name}, data: {value: value, n: std.toString(std.extVar('n') + 1)}} }",
        )
        .commit("First");
    let variable =
        |name: &str, value: &str, code| JsonnetVariable { name: name.into(), value: value.into(), code };
    let options = SourceOptions::Directory(Directory {
        jsonnet: Jsonnet {
            external: vec![variable("value", "$ARGOCD_APP_NAME", false), variable("n", "41", true)],
            arguments: vec![variable("name", "made", false)],
            libraries: vec!["vendor".into()],
        },
        ..Directory::default()
    });
    let made = render(&repo, "app", options.clone()).await.expect("evaluated");
    assert_eq!(names(&made), ["made"]);
    assert_eq!(made.objects[0]["data"], serde_json::json!({"value": "shop", "n": "42"}));
    // A change of a library outside of the folder is a change.
    repo.write(
        "vendor/lib.libsonnet",
        "{ map(name, value):: {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'other'}} }",
    )
    .commit("The library changes");
    assert_eq!(names(&render(&repo, "app", options.clone()).await.expect("again")), ["other"]);

    for (hostile, words) in [
        ("{a: importstr '/etc/passwd'}", "outside of the repository"),
        ("{a: importstr '../../../../../../etc/passwd'}", "not in the repository"),
        ("{a: import 'http://127.0.0.1/x'}", "outside of the repository"),
        ("{a: importstr '\\u002fetc/passwd'}", "not a plain text"),
        ("{a: importstr|||\n  /etc/passwd\n|||}", "not a plain text"),
    ] {
        repo.write("app/main.jsonnet", hostile).commit("Hostile");
        let error = render(&repo, "app", options.clone()).await.expect_err(hostile).to_string();
        assert!(error.contains(words) && !error.contains("root:"), "{hostile}: {error}");
    }
}

#[tokio::test]
async fn a_plugin_of_the_operator_makes_manifests_and_a_source_only_passes_values() {
    let repo = Repo::new();
    repo.write("app/template.txt", "name: $NAME").write("outside.txt", "one").commit("First");
    let script = "test -f .ready && printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: %s}\\ndata: {color: \"%s\", size: \"%s\", path: \"%s\", outside: \"%s\"}\\n' \"$ARGOCD_APP_NAME\" \"$ARGOCD_ENV_COLOR\" \"$PARAM_SIZE_1\" \"$ARGOCD_APP_SOURCE_PATH\" \"$(cat ../outside.txt)\"";
    let spec = serde_json::json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ConfigManagementPlugin", "metadata": {"name": "cmp"},
        "spec": {"version": "v1", "init": {"command": ["touch", ".ready"]},
            "generate": {"command": ["sh", "-c"], "args": [script]}, "discover": {"fileName": "./template.*"}},
    });
    let spec = PluginSpec::parse(&spec.to_string()).expect("a plugin");
    assert_eq!(spec.name, "cmp-v1");
    let options = SourceOptions::Plugin(Plugin {
        name: "cmp-v1".into(),
        env: vec![
            ("COLOR".into(), "$ARGOCD_APP_NAMESPACE; touch /tmp/hacked".into()),
            ("PATH".into(), "/evil".into()),
        ],
        parameters: vec![PluginParameter {
            name: "size".into(),
            array: Some(vec!["s".into(), "m".into()]),
            ..PluginParameter::default()
        }],
    });
    let renderer = repo.renderer();
    let ask = request(&repo, &renderer, "app", options.clone()).await;
    let error = renderer.render(&ask).await.expect_err("not installed").to_string();
    assert!(error.contains("no config-management plugin `cmp-v1` (installed: none)"), "{error}");
    renderer.set_plugins(vec![spec]);
    let made = renderer.render(&ask).await.expect("made");
    assert_eq!((made.kind, names(&made)), (SourceKind::Plugin, vec!["shop"]));
    assert_eq!(
        made.objects[0]["data"],
        serde_json::json!({"color": "demo; touch /tmp/hacked", "size": "m", "path": "app", "outside": "one"})
    );
    // A plugin may read all of the repository, so all of it counts.
    repo.write("outside.txt", "two").commit("Second");
    let ask = request(&repo, &renderer, "app", options).await;
    assert_eq!(renderer.render(&ask).await.expect("made").objects[0]["data"]["outside"], "two");
    // A source that names no plugin is recognised by its files.
    let ask = request(&repo, &renderer, "app", SourceOptions::Detect).await;
    assert_eq!(renderer.render(&ask).await.expect("made").kind, SourceKind::Plugin);
}

#[tokio::test]
async fn files_of_submodules_are_where_a_checkout_would_have_them() {
    let (inner, lib, app) = (Repo::new(), Repo::new(), Repo::new());
    inner.write("deep.yaml", &config_map("deep")).commit("The innermost");
    let allow = ["-c", "protocol.file.allow=always", "submodule", "add", "--quiet"];
    let add = |to: &Repo, from: &Repo, path: &str| {
        let url = from.repository().url;
        to.git(&[&allow[..], &["--", &url, path]].concat());
    };
    lib.write("base/kustomization.yaml", "resources: [map.yaml]\n")
        .write("base/map.yaml", &config_map("base"));
    add(&lib, &inner, "more/inner");
    lib.commit("A library");
    add(&app, &lib, "vendor/lib");
    app.write("k/kustomization.yaml", "resources: [../vendor/lib/base]\nnamePrefix: k-\n")
        .write("plain/own.yaml", &config_map("own"))
        .commit("An application");
    let renderer = app.renderer();
    let modules = async |repo: &Repo| {
        let commit =
            renderer.git().resolve(&repo.repository(), "main", Since::now()).await.expect("resolved");
        let choose = Arc::new(|url: &str| Repository::public(url));
        let read = Submodules::read(renderer.git(), &repo.repository(), &commit, choose).await;
        Content::Git { repository: repo.repository(), commit, submodules: read.expect("read") }
    };
    let content = modules(&app).await;
    let all = Directory { recurse: true, exclude: "**/kustomization.yaml".into(), ..Directory::default() };
    for (path, options, expected) in [
        ("k", SourceOptions::Detect, &["k-base"][..]),
        ("vendor/lib/base", SourceOptions::Detect, &["base"]),
        ("vendor/lib/more/inner", SourceOptions::Detect, &["deep"]),
        ("vendor", SourceOptions::Directory(all.clone()), &["base", "deep"]),
    ] {
        let ask = request(&app, &renderer, path, options).await;
        let ask = RenderRequest { content: content.clone(), ..ask };
        assert_eq!(names(&renderer.render(&ask).await.expect(path)), expected, "{path}");
    }

    // A module that moved is other content, although no file of the repository itself has changed.
    lib.write("base/map.yaml", &config_map("newer")).commit("A change");
    app.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "update",
        "--remote",
        "vendor/lib",
    ]);
    app.commit("The newer library");
    let ask = request(&app, &renderer, "k", SourceOptions::Detect).await;
    let ask = RenderRequest { content: modules(&app).await, ..ask };
    assert_eq!(names(&renderer.render(&ask).await.expect("the newer one")), ["k-newer"]);
}

#[tokio::test]
async fn charts_inside_of_a_kustomization_are_inflated_where_the_operator_wants_it() {
    let repo = Repo::new();
    repo.write("k/kustomization.yaml", "helmCharts:\n- name: web\n  releaseName: shop\n  valuesInline: {color: blue}\n")
        .write("k/charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n")
        .write("k/charts/web/values.yaml", "color: red\n")
        .write(
            "k/charts/web/templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n  color: {{ .Values.color }}\n  \
             kube: {{ .Capabilities.KubeVersion.Version }}\n  has: {{ .Capabilities.APIVersions.Has \"example.org/v1/Thing\" | quote }}\n",
        )
        .commit("First");
    let renderer = repo.renderer();
    let on = KustomizeTool { build_options: vec!["--enable-helm".into()], ..KustomizeTool::default() };
    let ask = async |options: Kustomize| {
        let options = SourceOptions::Kustomize(Box::new(options));
        RenderRequest { kustomize: on.clone(), ..request(&repo, &renderer, "k", options).await }
    };
    let data =
        renderer.render(&ask(Kustomize::default()).await).await.expect("rendered").objects[0]["data"].clone();
    assert_eq!(
        (&data["color"], &data["kube"], &data["has"]),
        (&"blue".into(), &"v1.34.0".into(), &"false".into())
    );
    let options = Kustomize {
        kube_version: "1.30.0".into(),
        api_versions: vec!["example.org/v1/Thing".into()],
        ..Kustomize::default()
    };
    let data = renderer.render(&ask(options).await).await.expect("rendered").objects[0]["data"].clone();
    assert_eq!((&data["kube"], &data["has"]), (&"v1.30.0".into(), &"true".into()));

    // Nothing is fetched, and nothing outside of the repository is a chart.
    for (text, words) in [
        (
            "helmCharts:\n- name: web\n  repo: https://charts.example\n",
            "k/kustomization.yaml:2:3: chart `web` comes from a repository",
        ),
        ("helmCharts:\n- name: ../web\n", "needs the name of its folder"),
        (
            "helmGlobals: {chartHome: /etc}\nhelmCharts:\n- name: web\n",
            "`chartHome` inside of the repository",
        ),
        (
            "helmGlobals: {configHome: /etc}\nhelmCharts:\n- name: web\n",
            "`chartHome` inside of the repository",
        ),
        ("helmCharts:\n- name: absent\n", "chart `absent` is not in the repository"),
        ("helmChartInflationGenerator:\n- chartName: web\n", "`helmChartInflationGenerator` is off here"),
    ] {
        repo.write("k/kustomization.yaml", text).commit("Next");
        let error = renderer.render(&ask(Kustomize::default()).await).await.expect_err("refused").to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}
