//! `slipway app render`: an Application and a folder in, manifests out, without server and cluster.

use crate::process::slipway;

fn render(folder: &std::path::Path, app: &str, more: &[&str]) -> std::process::Output {
    let file = folder.join("app.yaml");
    std::fs::write(&file, app).unwrap();
    let kustomize = slipway_testkit::tool("kustomize").parent().unwrap().display().to_string();
    let helm = slipway_testkit::tool("helm").parent().unwrap().display().to_string();
    let (file, repo) = (file.display().to_string(), folder.join("repo").display().to_string());
    let mut words =
        vec!["app", "render", "-f", &file, "--repo", &repo, "--tools", &kustomize, "--tools", &helm];
    words.extend(more);
    slipway(&words)
}

#[test]
fn an_application_is_rendered_offline_as_the_engine_does() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join("repo").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("k/kustomization.yaml", "resources: [m.yaml]\nnamePrefix: base-\n");
    write("k/m.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  k: |\n    x");
    write("c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n");
    write(
        "c/templates/m.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {v: \"{{ .Capabilities.KubeVersion.Minor }}\"}\n",
    );
    let app = |rest: &str| {
        format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: shop}}\nspec:\n  project: default\n  destination: {{namespace: n, server: https://kubernetes.default.svc}}\n  source: {{repoURL: https://git.example/x.git, targetRevision: main, {rest}}}\n"
        )
    };
    let out = render(folder.path(), &app("path: k, kustomize: {namePrefix: app-}"), &[]);
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("name: app-m") && text.contains("k: |\n    x\n"), "{text}");

    let out = render(folder.path(), &app("path: c, helm: {releaseName: rel}"), &["--kube-version", "1.31.0"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("name: rel") && text.contains("31"), "{text}");

    let out = render(folder.path(), &app("path: nowhere"), &[]);
    assert!(!out.status.success());
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("nowhere"), "{said}");
    let out = render(folder.path(), "kind: ConfigMap\n", &[]);
    assert!(String::from_utf8(out.stderr).unwrap().contains("holds no Application"));
}
