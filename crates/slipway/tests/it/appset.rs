use crate::process::slipway;

fn write(folder: &std::path::Path, path: &str, text: &str) -> String {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

const SET: &str = "
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: shops, namespace: argocd}
spec:
  goTemplate: true
  goTemplateOptions: [\"missingkey=error\"]
  generators:
  - matrix:
      generators:
      - git:
          repoURL: https://git.example/team/deploy
          revision: main
          directories: [{path: apps/*}, {path: apps/old, exclude: true}]
      - clusters: {selector: {matchLabels: {env: prod}}}
  template:
    metadata: {name: \'{{ .path.basename }}-{{ .name }}\'}
    spec:
      project: default
      source: {repoURL: https://git.example/team/deploy, path: \'{{ .path.path }}\', targetRevision: main}
      destination: {server: \'{{ .server }}\', namespace: \'{{ .path.basename }}\'}
";

#[test]
fn what_a_set_would_make_is_printed_without_a_cluster_or_a_network() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let set = write(at, "set.yaml", SET);
    for file in ["apps/web/a.yaml", "apps/api/a.yaml", "apps/old/a.yaml", "README.md"] {
        write(at, &format!("tree/{file}"), "x: 1\n");
    }
    let tree = at.join("tree").display().to_string();
    let clusters = write(
        at,
        "clusters.yaml",
        "- {name: blue, server: https://blue.example, labels: {env: prod}}\n- {name: test, server: https://test.example, labels: {env: dev}}\n",
    );
    let generate = |more: &[&str]| {
        let all = [&["appset", "generate", "--file", &set], more].concat();
        let output = slipway(&all);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let both = ["--git-tree", tree.as_str(), "--clusters", clusters.as_str()];
    let (good, names, said) = generate(&[&both[..], &["--output", "name"]].concat());
    assert!(good, "{said}");
    assert_eq!(names, "api-blue\nweb-blue\n");
    let (_, json, _) = generate(&[&both[..], &["--output", "json"]].concat());
    let made: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(made[1]["spec"]["destination"]["server"], "https://blue.example");
    assert_eq!(made[1]["spec"]["source"]["path"], "apps/web");

    // Without an answer it says what is missing, and fails.
    let (good, _, said) = generate(&["--clusters", &clusters]);
    assert!(!good && said.contains("give a folder with --git-tree"), "{said}");
    // A mistake in the template is named.
    write(at, "set.yaml", &SET.replace(".path.basename }}-{{ .name", ".path.basename }}-{{ .nope"));
    let (good, _, said) = generate(&both);
    assert!(!good && said.contains("nope"), "{said}");
    let (good, _, said) = generate(&["--git-tree", "/nowhere"]);
    assert!(!good && said.contains("/nowhere"), "{said}");
}
