use serde_json::Value;
use slipway_source::{
    Directory, GitError, Helm, Kustomize, RenderError, RenderRequest, Rendered, Renderer, Since, SourceKind,
    SourceOptions,
};
use std::sync::Arc;

use crate::repo::Repo;

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  key: value\n")
}

async fn request(repo: &Repo, renderer: &Renderer, path: &str, options: SourceOptions) -> RenderRequest {
    let commit = renderer.git().resolve(&repo.repository(), "main", Since::now()).await.expect("resolved");
    RenderRequest {
        repository: repo.repository(),
        commit,
        path: path.to_owned(),
        options,
        application: "shop".to_owned(),
        namespace: "demo".to_owned(),
        kube_version: "1.34.0".to_owned(),
        api_versions: Vec::new(),
    }
}

async fn render(repo: &Repo, path: &str, options: SourceOptions) -> Result<Arc<Rendered>, RenderError> {
    let renderer = repo.renderer();
    let request = request(repo, &renderer, path, options).await;
    renderer.render(&request).await
}

fn names(rendered: &Rendered) -> Vec<&str> {
    rendered.objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect()
}

fn directory(recurse: bool, include: &str, exclude: &str) -> SourceOptions {
    SourceOptions::Directory(Directory { recurse, include: include.to_owned(), exclude: exclude.to_owned() })
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

fn installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).exists()))
}

#[tokio::test]
async fn a_kustomization_is_built_from_what_it_refers_to() {
    let repo = Repo::new();
    repo.write("base/kustomization.yaml", "resources: [map.yaml]\n")
        .write("base/map.yaml", &config_map("m"))
        .write("over/kustomization.yaml", "resources: [../base]\nnamePrefix: pre-\n")
        .commit("First");
    let built = render(&repo, "over", SourceOptions::Detect).await;
    if !installed("kustomize") && !installed("kubectl") {
        let error = built.expect_err("there is no tool");
        assert!(error.to_string().contains("put kustomize 5"), "{error}");
        return;
    }
    let built = built.expect("built");
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
async fn a_chart_is_templated_or_its_tool_is_asked_for() {
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
    let made = render(&repo, "chart", options(&["/prod.yaml"])).await;
    if !installed("helm") {
        let error = made.expect_err("there is no tool");
        assert!(error.to_string().contains("put helm 3 on the PATH"), "{error}");
        return;
    }
    let made = made.expect("templated");
    assert_eq!((made.kind, names(&made)), (SourceKind::Helm, vec!["shop"]));
    assert_eq!(made.objects[0]["data"], serde_json::json!({"color": "blue", "size": "10"}));
}
